"""`germane validate`: report all errors in eval files and data, without running anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from germane.clean import clean, counted
from germane.cli.init import shipped
from germane.cli.output import print_document, print_lines, say
from germane.errors import InputError, SourceLocation
from germane.evalfiles.evalfile import EvalFile, GraderSpec, read_eval_file
from germane.evaluation.plan import YAML, Plan, named_files
from germane.evaluation.spec import Spec
from germane.graders.specs import graders_of_specs
from germane.labelling.testset.checks import SetCheck, ValidationDocument, check_test_set
from germane.labelling.testset.reading import TestSet, is_set, trec_kind
from germane.places.lists import Settings
from germane.reports.gates import Gate
from germane.samples.files import Notices, Warn, read_text
from germane.samples.reading import faults_in
from germane.targets.targetsfile import check_target
from germane.yamltext import parse_yaml, unset_variables


def validate(
    paths: Sequence[Path], *, schema: bool, qrels: Path | None, corpus: Path | None, json: bool
) -> int:
    """Check eval files and test sets, without importing or running anything.

    Errors are printed with line and column. Exit code 0 if there are no errors, 2 otherwise; an unknown key
    is a warning. Imports that would be necessary and variables that are not set are listed as not checked.

    Samples, queries with gold (--qrels, or a BEIR folder) and TREC files are also checked as a test set: repeated questions,
    questions copied from their gold passage, gold of one system only, gold ids missing in the corpus, tags that contradict the
    gold, and the width of intervals. Warnings do not change the exit code.
    """
    if schema:
        print(shipped("schema/evalfile.schema.json", "docs").read_text("utf-8"), end="")
        return 0
    if not paths:
        raise InputError("no file is named", fix="name an eval file or a folder")
    warnings = Notices(lambda notice: say(f"warning: {notice}"))
    unchecked = dict[str, None]()
    files, sets, faults = _sorted(paths, has_gold=qrels is not None)
    count, data, checks = len(files) + len(sets) + len(faults), list(sets), list[SetCheck]()
    for path in files:
        found = faults_of(path, warnings, unchecked)
        if path.suffix in YAML:  # those of data files are in order
            found.sort(key=lambda fault: fault.place or _NOWHERE)
        once = str(path) == "-"  # standard input is read once
        if not (found or unchecked or once) and path.stem != "targets" and path.suffix in YAML:
            with _noting(found, SourceLocation(str(path)) if len(files) > 1 else None):
                judge = read_eval_file(path).judge or "lexical"  # a flag may name the judge instead
                plan = Plan.of(Spec.of(paths=[str(path)], judge=judge), lambda _: None, dry=True)
                plan.check(() if plan.asks_targets else None)
        faults += found
        if not (found or once) and path.suffix not in YAML:
            data.append(path)
    with _noting(faults):
        checks = check_test_set(TestSet(data, qrels, corpus)) if data else []
    result = dict.fromkeys(map(str, faults))
    code: Literal[0, 2] = 2 if result else 0
    if json:
        document = ValidationDocument(
            exit_code=code, files=count, faults=list(result), not_checked=list(unchecked), checks=checks
        )
        print_document(document.as_json())
    else:
        for line in (*result, *map(str, checks)):
            print_lines(clean(line))
    checked, rest = counted(count, "file"), f"no error found; not checked: {', '.join(unchecked)}"
    valid = f"{checked}: {rest if unchecked else 'valid'}"
    say(f"{counted(len(result), 'fault')} in {checked}" if result else valid)
    return code


def _sorted(paths: Sequence[Path], *, has_gold: bool) -> tuple[list[Path], list[Path], list[InputError]]:
    """Return the files to check singly, the files to check as a test set, and faults of unreadable files."""
    files, sets, readable, faults = dict[Path, None](), list[Path](), list[Path](), list[InputError]()
    for path in dict.fromkeys(paths):
        with _noting(faults):
            has_gold = trec_kind(path) == "gold" or has_gold
            readable.append(path)
    for path in readable:
        with _noting(faults):
            if is_set(path, has_gold=has_gold):
                sets.append(path)
            else:
                files |= dict.fromkeys(named_files([path]))
    return list(files), sets, faults


_NOWHERE = SourceLocation("")


@contextmanager
def _noting(faults: list[InputError], place: SourceLocation | None = None) -> Iterator[None]:
    """Return a context that appends an InputError to `faults`, with `place` if the error has none."""
    try:
        yield
    except InputError as fault:
        faults.append(fault.at(place))


def faults_of(path: Path, warn: Warn, unchecked: dict[str, None] | None = None) -> list[InputError]:
    """Return every fault of one file: an eval file, a targets file, or a file of samples."""
    if path.suffix not in YAML:
        return faults_in(path, warn=warn)
    faults: list[InputError] = []
    unchecked = {} if unchecked is None else unchecked
    with _noting(faults):
        if path.stem == "targets":
            listed = (parse_yaml(read_text(path), str(path)).pairs or {}).get("targets")
            entries = (listed.items if listed is not None else None) or []
            names = [entry.pairs["name"].text for entry in entries if entry.pairs and "name" in entry.pairs]
            for name in names or [""]:
                with _noting(faults):
                    unchecked |= dict.fromkeys(check_target(name or "", path, warn=warn, faults=faults))
        else:
            _check_eval_file(read_eval_file(path, warn=warn, faults=faults), warn, faults, unchecked)
    return faults


def _check_eval_file(
    file: EvalFile, warn: Warn, faults: list[InputError], unchecked: dict[str, None]
) -> None:
    """Append the faults of an eval file's graders, gates, targets and data to `faults`."""
    names, unread = set[str](), dict[str, None]()
    specs = (*file.measures, *(grader for case in file.cases for grader in case.graders))

    def leave(measure: str, _: GraderSpec) -> None:
        unchecked[f"{measure} (it would be imported)"] = unread[measure] = None

    for spec in {id(spec): spec for spec in specs}.values():
        made = graders_of_specs([spec], file, Settings(), warn, faults, leave=leave)
        names |= {name for grader in made for name in (grader.name, str(grader.measure))} or {spec.name}
    for text, location in file.gates:
        with _noting(faults):
            gate = Gate.parse(text, location)
            if gate.measure in names or (names and not unread):
                gate.check_named(sorted(names))
    where = file.targets_file or file.path.resolve().parent
    for name in filter(None, dict.fromkeys([*file.targets, *(case.target for case in file.cases)])):
        try:
            unchecked |= dict.fromkeys(check_target(name, where, warn=warn, faults=faults))
        except InputError as fault:
            faults.append(fault.at(SourceLocation(str(file.path))))
    for data in file.data:
        faults += faults_in(data, dict(file.columns), warn)
    unchecked |= dict.fromkeys(unset_variables(parse_yaml(read_text(file.path), str(file.path))))
