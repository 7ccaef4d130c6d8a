"""Eval files: our own shape and both generations of the AgentV shape, with the line and column of every fault."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

from germane.errors import InputError, Place
from germane.samples.cases import Case, EvalFile, GraderSpec
from germane.samples.evalcases import Defaults, read_case, section_graders
from germane.samples.graderspecs import by_name
from germane.samples.notices import Notice, Notices, Warn, fold
from germane.samples.rows import check_columns
from germane.samples.section import Section, as_items, as_text
from germane.samples.source import read_text
from germane.samples.yamltext import Node, parse_yaml
from germane.types import FrozenDict

__all__ = ["Case", "EvalFile", "GraderSpec", "read_eval_file"]

_STAYS = (
    "a score that could not be measured stays missing and is no 0, a case's verdict decides nothing unless a grader "
    "is required, kinds of grader that germane does not run are left out"
)
_IGNORED = ("name", "version", "tags", "metadata", "author", "license", "requires", "category")


def read_eval_file(path: str | Path, *, warn: Warn | None = None) -> EvalFile:
    """What an eval file says, checked; paths in it are absolute afterwards.

    `warn` gets a Notice for each key that is not known. Raises InputError with file, line and column.
    """
    path = Path(path)
    section = Section(parse_yaml(read_text(path), str(path)), "an eval file")
    warn = None if warn is None else Notices(warn)
    folder = path.resolve().parent
    inline, data, replaced = _where_cases_are(section, folder)
    execution = section.section("execution")
    graders = section_graders(section, folder)
    target = section.text("target")
    targets_file = section.text("targets", "targets_file")
    if execution:
        graders = by_name((*graders, *section_graders(execution, folder)))
        target = target or execution.text("target")
        execution.finish(warn)
    file = EvalFile(
        path=path,
        description=section.text("description"),
        dataset=section.text("dataset"),
        judge=" ".join(section.texts("judge")) or None,
        repeat=section.whole("repeat", low=1),
        vote=section.choice("vote", ("majority", "mean")),
        batch=section.whole("batch", low=1),
        reading=section.choice("reading", ("fused", "single")),
        against=section.choice("against", ("auto", "query", "reference", "response")),
        measures=graders,
        gates=tuple((as_text(g, "a gate"), g.place) for g in _items(section.take("gates"))),
        data=(*data, *_paths(section.take("data"), folder)),
        target=target,
        targets_file=(folder / targets_file).resolve() if targets_file else None,
        compatibility=_compatibility(section, warn),
        contexts_from="text" if section.choice("contexts_from", ("auto", "text")) == "text" else "auto",
        doc_id=section.text("doc_id"),
        columns=_columns(section),
    )
    for name in _IGNORED:
        section.take(name)
    section.finish(warn)
    defaults = Defaults(folder, graders, target, replaced, warn)
    cases = tuple(read_case(node, number, defaults) for number, node in enumerate(inline, 1))
    _check_ids(cases)
    if not cases and not file.data:
        fix = "write data: samples.jsonl, or cases under evalcases:"
        raise InputError("this file has no cases and names no data", fix=fix, place=Place(str(path), 1))
    return replace(file, cases=cases)


def _compatibility(section: Section, warn: Warn | None) -> str | None:
    """Both shapes are read without it: whoever writes it is told what it does not change."""
    named = section.choice("compatibility", ("agentv",))
    if named is not None and warn is not None:
        place = next(place for key, place in section.node.keys.items() if fold(key) == "compatibility")
        warn(Notice(f"compatibility: {named} changes nothing: {_STAYS}", "remove it", place))
    return named


def _items(node: Node | None) -> list[Node]:
    return [] if node is None else as_items(node)


def _where_cases_are(section: Section, folder: Path) -> tuple[list[Node], tuple[Path, ...], bool]:
    """The cases in the file, the files that hold more, and whether a case's graders replace the file's."""
    older = section.take("evalcases")
    node = section.take("tests", "cases", "samples")
    if older is not None and node is not None:
        raise InputError("the file has two lists of cases", fix="keep one of them", place=node.place)
    node, replaced = (older, True) if older is not None else (node, False)
    if node is not None and node.text is not None:
        return [], _paths(node, folder), replaced
    if node is not None and node.items is None:
        raise InputError(f"the cases are {node.kind}", fix="write a list: - id: ...", place=node.place)
    return _items(node), (), replaced


def _paths(node: Node | None, folder: Path) -> tuple[Path, ...]:
    """Files that must exist, relative to the eval file."""
    found = []
    for item in _items(node):
        path = (folder / as_text(item, "data")).resolve()
        if not path.is_file():
            raise InputError(
                f"there is no file {item.text!r} in {folder}", fix="check the path", place=item.place
            )
        found.append(path)
    return tuple(found)


def _columns(section: Section) -> FrozenDict:
    inner = section.section("columns")
    if inner is None:
        return FrozenDict()
    columns = {ours: as_text(theirs, ours) for ours, theirs in inner.rest()}
    try:
        check_columns(columns)
    except InputError as error:
        raise error.at(inner.place) from None
    return FrozenDict(columns)


def _check_ids(cases: tuple[Case, ...]) -> None:
    seen: dict[tuple[str, str, int], Place | None] = {}
    for case in cases:
        identity = (case.sample.id, case.sample.system, case.sample.trial)
        if identity in seen:
            first = cast("Place", seen[identity]).line
            problem = f"the case {case.sample.id!r} is there already, on line {first}"
            raise InputError(problem, fix="give each case its own id", place=case.place)
        seen[identity] = case.place
