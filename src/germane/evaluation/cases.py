"""The cases of a run: what its eval files and data files hold, with the graders of each case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain, islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import structs

from germane.errors import InputError, SourceLocation
from germane.evaluation.spec import Spec
from germane.measures.declaration import Grader, graders_of
from germane.measures.measure import Measure
from germane.places.lists import Settings
from germane.samples.files import Notice, Notices, OnDisk, Warn, local
from germane.samples.reading import data_files, read_samples
from germane.tables.scores import SampleKey
from germane.targets.answers import PlannedCase
from germane.types import Json, Sample

if TYPE_CHECKING:
    from germane.evalfiles import Case
    from germane.evalfiles.evalfile import EvalFile, GraderSpec

Part: TypeAlias = Any
"""One part of an evaluation that is run in several parts; the `parts` of an add-on create it."""

_YAML = (".yaml", ".yml")


@dataclass(slots=True)
class Cases:
    """The cases at some paths, in order. They are read anew at each use, because they may not fit in memory.

    Attributes:
        files: The eval files among `paths`, parsed.
        spec: The options of the run.
        measures: Measures from flags, which replace the measures of the files.
        usual: Measures for data files if no flag names measures.
        dry: True if nothing that an eval file names may be imported or run.
        settings: The settings of relevance, for the graders of eval files.
        share: The part of the cases to evaluate (`--part`); None for all.
        drawn: The numbers of the cases drawn by `--sample`, and the manifest's entry on them; else None.
        left_out: The number of cases that `--filter` left out, and the `--limit` if it left out any.
        count: The number of cases in all parts, once `chosen` has been read to the end.
    """

    paths: tuple[Path, ...]
    files: Mapping[Path, EvalFile]
    spec: Spec
    notices: Notices
    measures: tuple[Measure, ...] = ()
    usual: tuple[Measure, ...] = ()
    dry: bool = False
    settings: Settings = field(default_factory=Settings)
    share: Part | None = None
    drawn: tuple[frozenset[int], dict[str, Json]] | None = None
    stdin: OnDisk = field(default_factory=OnDisk)
    left_out: dict[str, int] = field(default_factory=dict, init=False)
    count: int = field(default=0, init=False)
    _made: dict[tuple[float | None, ...], tuple[Grader, ...]] = field(default_factory=dict, init=False)

    def chosen(self, *, every: bool = False) -> Iterator[PlannedCase]:
        """Yield the cases of this part (with `every`, of all parts) after --filter, --sample and --limit."""
        chosen: Iterable[PlannedCase] = self.matching()
        if self.drawn is not None:
            rows, _ = self.drawn
            chosen = (p for row, p in enumerate(islice(chosen, max(rows, default=-1) + 1)) if row in rows)
        share, limit, ids, row = None if every else self.share, self.spec.limit, set[str](), -1
        for planned in chosen:
            if limit is not None and planned.sample.id not in ids:
                if len(ids) == limit:
                    self.left_out["limit"] = limit
                    continue
                ids.add(planned.sample.id)  # a case is counted once for all its systems and trials
            row += 1
            if share is None or share.has(planned.sample.query):
                planned.row = row
                yield planned
        if row < 0 and self.spec.wanted is not None:
            raise no_case(self.spec.wanted)
        self.count = row + 1

    def matching(self) -> Iterator[PlannedCase]:
        """Yield the cases that match `--filter`. Raises InputError if a sample id occurs in two files."""
        several = len(self.paths) + sum(len(file.data) for file in self.files.values()) > 1
        seen: dict[SampleKey, Path] = {}
        pattern, refused = self.spec.wanted, 0
        for planned in chain.from_iterable(map(self._of, self.paths)):
            sample, path = planned.sample, planned.source
            texts = (sample.id, *sample.tags)
            if pattern is not None and not any(fnmatchcase(text, pattern) for text in texts):
                self.left_out["filter"] = refused = refused + 1
                continue
            # the reader has already checked that ids are unique within one file
            if several and (key := sample.key) in seen:
                first = seen[key]
                where = f"twice in the data of {path}" if first == path else f"in {first} and in {path}"
                fix = "give each file's samples a `system`, or run the files one by one"
                raise InputError(f"sample ids must be unique; {sample.id!r} occurs {where}", fix=fix)
            if several:
                seen[key] = path
            yield planned

    def _of(self, path: Path) -> Iterator[PlannedCase]:
        """Yield the cases of the eval file or data file at `path`."""
        file = self.files.get(path)
        for case in file.cases if file else ():
            graders = self.graders(file, case)
            if not graders and not (self.dry and case.graders):
                fix = "add evaluators or measures to the case or the file"
                raise InputError("this case has no evaluator or measure", fix=fix, place=case.location)
            yield from self._planned([case.sample], graders, file, path, case)
        columns = {**(dict(file.columns) if file else {}), **dict(self.spec.columns)}
        for data in file.data if file else (path,):
            graders = self.graders(file)
            if not graders:
                fix = "write measures: [nDCG@10] in the file, or -m nDCG@10"
                raise InputError(f"{path}: no measures are given for the data", fix=fix)
            # the samples are read several times: to be checked, and to be judged
            path_read = self.stdin.path if str(data) == "-" else data
            samples = read_samples(path_read, columns=columns, warn=self.notices)
            yield from self._planned(samples, graders, file, path)

    def _planned(
        self,
        samples: Iterable[Sample],
        graders: tuple[Grader, ...],
        file: EvalFile | None,
        path: Path,
        case: Case | None = None,
    ) -> Iterator[PlannedCase]:
        """Yield a planned case for each sample, target and trial."""
        declared = (case.target,) if case and case.target else file.targets if file else ()
        targets = self.spec.targets or declared
        trials = (self.spec.trials or (file and file.trials) or 1) if targets else 1
        several = len(targets) > 1 or (not self.spec.targets and file is not None and len(file.targets) > 1)
        asked = list(product(targets or ("",), range(trials)))
        given, contexts_from = self.spec.targets_file, file.contexts_from if file else "auto"
        targets_file = Path(given) if given else file.targets_file if file else None
        if targets and targets_file is None:
            from germane.targets.targetsfile import find_targets_file  # most evaluations need none

            targets_file = find_targets_file(path.parent)
        for sample in samples:
            for target, trial in asked:
                system = target if several else sample.system
                number = trial if trials > 1 else sample.trial
                unchanged = system == sample.system and number == sample.trial
                named = sample if unchanged else structs.replace(sample, system=system, trial=number)
                yield PlannedCase(
                    sample=named,
                    graders=graders,
                    case=case and replace(case, sample=named),
                    target=target,
                    targets_file=targets_file,
                    source=path,
                    contexts_from=contexts_from,
                )

    def graders(self, file: EvalFile | None, case: Case | None = None) -> tuple[Grader, ...]:
        """Return the graders of a case in an eval file, or of the file's data if `case` is None.

        Measures from flags replace all graders of the file. Graders are created once and used for all cases.
        """
        if self.measures or file is None:
            return graders_of(self.measures or self.usual)
        from germane.graders.specs import graders_of_specs

        specs, threshold = file.measures, file.threshold
        if case is not None:
            specs, threshold = case.graders, case.threshold
        key = (threshold, *map(id, specs))
        if key not in self._made:

            def leave(measure: str, spec: GraderSpec) -> None:
                text = f"a dry run does not import {measure}, so the forecast lacks its calls"
                self.notices(Notice(text, "", spec.node.location))

            made = graders_of_specs(
                specs, file, self.settings, self.notices, leave=leave if self.dry else None
            )
            self._made[key] = tuple(replace(grader, threshold=threshold) for grader in made)
        return self._made[key]

    def all_graders(self, own: EvalFile | None = None) -> tuple[Grader, ...]:
        """Return the graders of all cases, or only of the cases of the eval file `own`, each grader once."""
        files = map(self.files.get, self.paths) if own is None else [own]
        cases = ((file, case) for file in files for case in (None, *(file.cases if file else ())))
        return tuple(dict.fromkeys(grader for file, case in cases for grader in self.graders(file, case)))

    @property
    def asks_targets(self) -> bool:
        """True if a target is queried for any case."""
        named = (file.targets or any(case.target for case in file.cases) for file in self.files.values())
        return bool(self.spec.targets) or any(named)

    @property
    def inputs(self) -> list[Path]:
        """The paths of all eval files and data files; standard input is left out."""
        data = (path for file in self.files.values() for path in file.data)
        plain = (path for path in (*self.paths, *data) if str(path) != "-")
        return [file for path in plain for file in (data_files(path) if path.is_dir() else [path])]


def no_case(pattern: str) -> InputError:
    """Return the error for a `--filter` that matches no case."""
    return InputError(f"--filter {pattern!r} matches no case", fix="match an id or a tag, as in 'q1*'")


def named_files(
    paths: Sequence[str | Path], warn: Warn, *, read: bool = True
) -> tuple[tuple[Path, ...], dict[Path, EvalFile]]:
    """Return the files that `paths` name, and the parsed eval files among them by their path."""
    results: list[Path] = []
    for named in paths:
        path = local(str(named))
        if path.is_dir():
            inside = [
                file
                for file in sorted(path.rglob("*"))
                if file.suffix in _YAML
                and file.stem != "targets"
                and file.is_file()
                and not any(name.startswith(".") for name in file.relative_to(path).parts)
            ]
            results += inside or ([path] if data_files(path) else [])
        elif not path.exists() and str(path) != "-":
            raise InputError("no such file or folder", fix="check the path", place=SourceLocation(str(path)))
        else:
            results.append(path)
    files: dict[Path, EvalFile] = {}
    for path in results if read else ():
        if path.suffix in _YAML:
            from germane.evalfiles.evalfile import read_eval_file

            files[path] = read_eval_file(path, warn=warn)
    return tuple(dict.fromkeys(results)), files
