"""`germane validate`: every fault of eval files at once, each with its line and column; nothing is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from germane.clean import clean
from germane.cli.init import shipped
from germane.cli.options import Files
from germane.cli.values import say
from germane.errors import InputError, Place

if TYPE_CHECKING:
    from germane.samples.evalfile import EvalFile


def validate(
    paths: Annotated[
        Files,
        typer.Argument(metavar="PATH...", help="Eval files, or folders of them; targets.yaml; samples."),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of eval files, for editors.")
    ] = False,
) -> None:
    """Say everything that is wrong in eval files, each with its line and column. Nothing in them is imported or run.

    Exit code 0 where nothing is wrong, 2 where something is; what looks like a mistake is a warning and changes nothing.
    """
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
    """Every fault of one file: an eval file with its graders, gates, targets and data, a targets file, or samples."""
    from germane.samples.evalfile import read_eval_file
    from germane.samples.reading import faults_in

    if path.suffix not in {".yaml", ".yml"}:
        yield from faults_in(path)
        return
    if path.stem == "targets":
        yield from _of_targets_file(path, warn)
        return
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
    for data in file.data:
        yield from faults_in(data, dict(file.columns))


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
        faults: list[InputError] = []
        made = graders_of_specs([spec], file, Settings(), warn, faults)
        yield from faults
        names |= {name for one in made for name in (one.name, str(one.measure))} or {spec.name}


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
        faults: list[InputError] = []
        try:
            if name:
                check_target(name, where, warn=warn, faults=faults)
            yield from faults
        except InputError as fault:
            yield from faults
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

    keys = ("target", "targets")
    nodes = [parse_yaml(read_text(file.path), str(file.path))]
    while nodes:
        node = nodes.pop(0)
        values = [inner for key, inner in (node.pairs or {}).items() if key in keys]
        for one in [item for inner in values for item in (inner.items or [inner])]:
            if one.text == name:
                return one.place
        nodes[:0] = [*(node.pairs or {}).values(), *(node.items or [])]
    return Place(str(file.path))


def _of_targets_file(path: Path, warn: Callable[..., None]) -> Iterator[InputError]:
    """Every fault of a targets file, one entry after the other."""
    from germane.samples.files import read_text
    from germane.samples.yamltext import parse_yaml
    from germane.targets.targetsfile import check_target

    try:
        listed = (parse_yaml(read_text(path), str(path)).pairs or {}).get("targets")
    except InputError as fault:
        yield fault
        return
    entries = (listed.items if listed is not None else None) or []
    names = [entry.pairs["name"].text for entry in entries if entry.pairs and "name" in entry.pairs]
    for name in names or [""]:
        faults: list[InputError] = []
        try:
            check_target(name or "", path, warn=warn, faults=faults)
        except InputError as fault:
            faults.append(fault)
        yield from faults
