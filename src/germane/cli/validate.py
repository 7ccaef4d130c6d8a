"""`germane validate`: every fault of eval files at once, each with its line and column; nothing is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from germane.errors import InputError, Place

if TYPE_CHECKING:
    from germane.samples.evalfile import EvalFile


def validate(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH...", help="Eval files, or folders of them.")
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of eval files, for editors.")
    ] = False,
) -> None:
    """Say everything that is wrong in eval files, each with its line and column. Nothing in them is imported or run.

    Exit code 0 where nothing is wrong, 2 where something is; what looks like a mistake is a warning and changes nothing.
    """
    from germane.clean import clean
    from germane.cli.init import shipped
    from germane.cli.printing import say
    from germane.evaluation.plan import load_suite
    from germane.samples.files import Notices

    if schema:
        print(shipped("schema/evalfile.schema.json", "docs").read_text("utf-8"), end="")
        return
    if not paths:
        raise InputError("nothing to look at", fix="name an eval file or a folder")
    warnings = Notices(lambda notice: say(f"warning: {notice}"))
    found: dict[str, None] = {}
    files, _ = load_suite(paths, warnings, read=False)
    for path in files:
        faults = sorted(faults_of(path, warnings), key=_place)
        found.update(dict.fromkeys(map(str, faults)))
    for fault in found:
        print(clean(fault))
    some = "1 file" if len(files) == 1 else f"{len(files)} files"
    if found:
        say(f"{len(found)} {'fault' if len(found) == 1 else 'faults'} in {some}")
        raise typer.Exit(2)
    say(f"{some}: valid")


def _place(fault: InputError) -> tuple[str, int, int]:
    place = fault.place
    return ("", 0, 0) if place is None else (place.file, place.line or 0, place.column or 0)


def faults_of(path: Path, warn: Callable[..., None]) -> Iterator[InputError]:
    """Every fault of one file, its graders, gates, targets and data."""
    from germane.samples.evalfile import read_eval_file

    faults: list[InputError] = []
    try:
        file = read_eval_file(path, warn=warn, faults=faults)
    except InputError as fault:
        yield from (*faults, fault)
        return
    yield from faults
    names: set[str] = set()
    yield from _of_graders(file, names, warn)
    yield from _of_gates(file, names)
    yield from _of_targets(file, warn)
    yield from _of_data(file)


def _of_graders(file: EvalFile, names: set[str], warn: Callable[..., None]) -> Iterator[InputError]:
    from germane.graders.specs import code_in, graders_of_specs
    from germane.measures.labels import Settings

    specs = {
        id(spec): spec for spec in (*file.measures, *(one for case in file.cases for one in case.graders))
    }
    for spec in specs.values():
        if ".py:" in code_in(spec.spec):  # it would have to be imported
            names.add(spec.name)
            continue
        try:
            (grader,) = graders_of_specs([spec], file, Settings(), warn)
        except InputError as fault:
            names.add(spec.name)
            yield fault
        else:
            names |= {grader.name, str(grader.measure)}


def _of_gates(file: EvalFile, names: set[str]) -> Iterator[InputError]:
    from germane.reports.gates import Gate

    for text, place in file.gates:
        try:
            gate = Gate.parse(text, place)
            if names:
                gate.check_named(names)
        except InputError as fault:
            yield fault


def _of_targets(file: EvalFile, warn: Callable[..., None]) -> Iterator[InputError]:
    from germane.targets.targetsfile import check_target

    where = file.targets_file or file.path.resolve().parent
    for name in dict.fromkeys([*file.targets, *(case.target for case in file.cases)]):
        try:
            if name:
                check_target(name, where, warn=warn)
        except InputError as fault:
            inside = fault.place is not None and fault.place.line
            yield (
                fault
                if inside
                else InputError(fault.problem, fix=fault.fix, place=_asked_at(file, name or ""))
            )


def _asked_at(file: EvalFile, name: str) -> Place:
    """Where an eval file names a target first."""
    from germane.samples.files import read_text
    from germane.samples.yamltext import parse_yaml

    nodes = [parse_yaml(read_text(file.path), str(file.path))]
    while nodes:
        node = nodes.pop(0)
        asked = (node.pairs or {}).get("target")
        if asked is not None and asked.text == name:
            return asked.place
        nodes[:0] = [*(node.pairs or {}).values(), *(node.items or [])]
    return Place(str(file.path))


def _of_data(file: EvalFile) -> Iterator[InputError]:
    from germane.samples.reading import read_samples

    for data in file.data:
        try:
            for _ in read_samples(data, columns=dict(file.columns)):
                pass
        except InputError as fault:
            yield fault
