"""The graders that an eval file lists: measures by name, and mappings for everything that has settings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from germane.errors import InputError
from germane.samples.cases import GraderSpec
from germane.samples.section import Section, as_items, as_text
from germane.samples.yamltext import Node
from germane.types import FrozenDict, Json, freeze

__all__ = ["by_name", "read_assertions", "read_graders", "read_rubrics"]

_NAMES = re.compile(r"(?:[^\s()]|\([^()]*\))+")
REQUIRED = 0.8
"""What `required: true` asks for: the score from which a case passes."""


def read_graders(node: Node | None, folder: Path) -> tuple[GraderSpec, ...]:
    """The graders of a list: names (several in one text too) and mappings."""
    found: list[GraderSpec] = []
    for item in [] if node is None else as_items(node):
        if item.pairs is not None:
            found.append(_grader(Section(item, "a grader"), folder))
        else:
            names = _NAMES.findall(as_text(item, "a measure"))
            found += [GraderSpec(name=name, type=name, cwd=folder, place=item.place) for name in names]
    return by_name(found)


def read_assertions(node: Node | None, folder: Path) -> tuple[GraderSpec, ...]:
    """The newer generation's list: a text is not a measure's name there, but something that must be true."""
    items = [] if node is None else as_items(node)
    stated = [item for item in items if item.text is not None]
    graders = [_grader(Section(item, "an assertion"), folder) for item in items if item.text is None]
    return by_name([*graders, *([_rubric(stated, folder)] if stated else [])])


def read_rubrics(node: Node | None, folder: Path) -> tuple[GraderSpec, ...]:
    """A case's rubrics as one grader, asked of a model."""
    return (_rubric(as_items(node), folder),) if node is not None and node.items != [] else ()


def by_name(graders: Iterable[GraderSpec]) -> tuple[GraderSpec, ...]:
    """The graders with unlike names: one that is there twice folds, two that differ are an error."""
    found: dict[str, GraderSpec] = {}
    for grader in graders:
        first = found.setdefault(grader.name, grader)
        if replace(first, place=None) != replace(grader, place=None):
            problem = f"two graders are named {grader.name!r}"
            raise InputError(problem, fix="give one of them another name", place=grader.place)
    return tuple(found.values())


def _grader(section: Section, folder: Path) -> GraderSpec:
    name, kind, measure = section.text("name"), section.text("type"), section.text("measure", "metric")
    script = _script(section.take("script", "command"))
    kind, name = kind or measure or ("code_judge" if script else name), name or measure or kind
    if not kind:
        raise InputError(
            "this grader has no type", fix="write type: context_precision@5", place=section.place
        )
    target = section.take("target")
    calls = None
    if target is not None and target.pairs is not None:
        inner = Section(target, "target")
        calls = 50 if (given := inner.whole("max_calls")) is None else given
    cwd = section.text("cwd")
    timeout = section.number("timeout", "timeout_seconds", low=0.001)
    weight = section.number("weight")
    return GraderSpec(
        name=name or kind,
        type=kind,
        weight=1.0 if weight is None else weight,
        required=_required(section.take("required")),
        script=script,
        cwd=(folder / cwd).resolve() if cwd else folder,
        timeout=120.0 if timeout is None else timeout,
        env=section.texts("env"),
        max_calls=section.whole("max_calls") if calls is None else calls,
        strict=section.flag("strict"),
        expected_relevant_count=section.whole("expected_relevant_count"),
        params=freeze(section.mapping("params", "parameters")),
        config=_config(section, target),
        place=section.place,
    )


def _config(section: Section, target: Node | None) -> FrozenDict:
    given: dict[str, Json] = section.mapping("config")
    given |= {key: node.json() for key, node in section.rest()}
    if target is not None and target.pairs is None:
        given["target"] = target.json()
    frozen: FrozenDict = freeze(given)
    return frozen


def _script(node: Node | None) -> str | tuple[str, ...] | None:
    if node is None:
        return None
    if node.items is None:
        return as_text(node, "script")
    if not node.items:
        raise InputError("the script is an empty list", fix="write [program, argument]", place=node.place)
    return tuple(as_text(item, "script") for item in node.items)


def _required(node: Node | None) -> float | None:
    value = None if node is None else node.json()
    if value is None or value is False:
        return None
    if value is True:
        return REQUIRED
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        place = node.place if node else None
        raise InputError(
            "required is not between 0 and 1", fix="write true (0.8) or a number from 0 to 1", place=place
        )
    return float(value)


def _rubric(items: list[Node], folder: Path) -> GraderSpec:
    rubrics = [_item(item, number) for number, item in enumerate(items, 1)]
    config = freeze({"rubrics": rubrics})
    return GraderSpec(name="rubrics", type="llm_judge", cwd=folder, config=config, place=items[0].place)


def _item(node: Node, number: int) -> dict[str, Json]:
    """One item of a rubric with its defaults filled in."""
    if node.text is not None:
        return {"id": f"rubric-{number}", "description": node.text, "weight": 1.0, "required": True}
    section = Section(node, "a rubric")
    description = section.text("description", "outcome", "criterion")
    if not description:
        raise InputError(
            "this rubric has no description", fix="write description: what must be true", place=node.place
        )
    weight = section.number("weight")
    required = section.take("required")
    return {
        "id": section.text("id") or f"rubric-{number}",
        "description": description,
        "weight": 1.0 if weight is None else weight,
        "required": required is None or required.json() is not False,
        **{key: inner.json() for key, inner in section.rest()},
    }
