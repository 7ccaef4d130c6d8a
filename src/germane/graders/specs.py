"""Create graders from their mappings in eval files, for every grader type and every spelling of its keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from germane.addons import GraderType, absent, all_of, load
from germane.clean import fold
from germane.errors import InputError, SourceLocation, collect_or_raise
from germane.evalfiles.evalfile import EvalFile, GraderSpec
from germane.graders.grader import CaseGrader
from germane.graders.measure_grader import MeasureGrader
from germane.measures.declaration import FILE_MARK, Grader, find_measure
from germane.measures.measure import Measure
from germane.places.lists import Settings
from germane.samples.files import Warn, nearest
from germane.types import FrozenDict, Json
from germane.yamltext import Node, node_of, read_model


@cache
def _kinds(*, installed: bool = False) -> dict[str, tuple[str, GraderType]]:
    """Return the canonical name and the grader type for each name and alias of add-ons' grader types."""
    types = all_of("graders", installed=installed)
    return {fold(name): (of, kind) for of, kind in types.items() for name in (of, *kind.aliases)}


class NotImported(InputError):
    """Raised for a measure in a Python file if imports are not allowed; `problem` is the measure's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The settings for all graders of one eval file.

    Attributes:
        folder: The eval file's folder, from which relative paths start.
        warn: Called with a Notice for each unknown key.
        compatibility: "agentv" to compute the values of AgentV 2.1.
        settings: The scale of relevance, and the text that relevance is judged against.
        imports: Whether Python files with measures are imported. If not, NotImported is raised for them.
    """

    folder: Path = Path()
    warn: Warn | None = None
    compatibility: Literal["agentv"] | None = None
    settings: Settings = field(default_factory=Settings)
    imports: bool = True


def grader_of(
    spec: Json | Node, where: Where = Where(), faults: list[InputError] | None = None
) -> CaseGrader:
    """Return the grader described by an entry of an eval file: a mapping, or the name of a measure.

    Options may be written at the top level or under `config`, in snake_case, camelCase or kebab-case. Raises
    InputError with the location; further errors are appended to `faults` if given.
    """
    node = spec if isinstance(spec, Node) else node_of(spec, SourceLocation("grader"))
    try:
        kind, node, fixed = _resolve_type(node, where)
        context = {"folder": where.folder, "warn": where.warn, "grader_of": partial(grader_of, where=where)}
        fixed["compatibility"] = where.compatibility
        return read_model(kind, node, faults, fixed=fixed, **context)
    except InputError as error:
        raise error.at(node.location) from None


def _resolve_type(node: Node, where: Where) -> tuple[type[CaseGrader], Node, dict[str, Any]]:
    """Return the grader's class, its options, and the fields that its type implies, as `node` describes it."""
    if node.text is not None and not node.is_null():
        node = Node(node.location, pairs={"type": node}, keys={"type": node.location})
    if node.pairs is None:
        problem = "this grader is neither a mapping nor the name of a measure"
        raise InputError(problem, fix="write type: context_precision@5")
    name, node = _type(node)
    _, kind = _kinds().get(fold(name), ("", None))
    if kind is None:
        try:
            measure, opened = _measure(name, _opened(node), where)
        except InputError as unknown:
            _, kind = _kinds(installed=not isinstance(unknown, NotImported)).get(fold(name), ("", None))
            if kind is None:
                raise
        else:
            return MeasureGrader, opened, {"measure": measure, "settings": where.settings}
    made: type[CaseGrader] = load(kind.make)
    return made, _opened(node) if made.opens_config else node, dict(kind.fixed)


def _keys(node: Node) -> set[str]:
    return {fold(key) for key, inner in (node.pairs or {}).items() if not inner.is_null()}


def _pop_value(node: Node, *names: str) -> tuple[Node | None, Node]:
    """Return the value under one of the keys `names`, in any spelling, and the mapping without these keys."""
    folded, pairs = set(map(fold, names)), dict(node.pairs or {})
    taken = [pairs.pop(key) for key in [*pairs] if fold(key) in folded]
    value = next((inner for inner in taken if not inner.is_null()), None)
    return value, replace(node, pairs=pairs) if taken else node


def _type(node: Node) -> tuple[str, Node]:
    """Return a grader's type, as written or as implied by its other keys, and the mapping without the type."""
    kind, node = _pop_value(node, "type")
    measure, node = _pop_value(node, "measure", "metric")
    if kind is None and _keys(node) & {"script", "command"}:
        return "code_judge", node
    kind = kind or measure
    if kind is None and _keys(node) & {"rubrics", "rubric"}:
        return "llm_judge", node
    if kind is None or not kind.text:
        problem = (
            "this grader has no type"
            if kind is None
            else f"the type of this grader must be a string, not {kind.kind}"
        )
        raise InputError(problem, fix="write type: context_precision@5")
    return kind.text.strip(), node


def _opened(node: Node) -> Node:
    """Return a mapping with the options under `config` moved to the top level."""
    config, rest = _pop_value(node, "config")
    if config is None or config.pairs is None:
        return node
    inner = {key: value for key, value in config.pairs.items() if fold(key) not in _keys(rest)}
    return replace(rest, pairs={**(rest.pairs or {}), **inner}, keys={**config.keys, **rest.keys})


def _measure(text: str, node: Node, where: Where) -> tuple[Measure, Node]:
    """Return the measure that `text`, the grader's type, names, and the grader's other options.

    Options in `node` that are parameters of the measure, or its cut-off `k`, are set in the measure. All
    others are returned.
    """
    if not where.imports and FILE_MARK in text:
        raise NotImported(text)
    measure = measure_named(text, where.folder, lenient=True)
    if measure.definition.family == "graded":  # a grader of an installed package
        raise InputError(f"{text} is a grader, not a measure", fix=f"list it under graders, as type: {text}")
    options: dict[str, Any] = {}
    for name in measure.definition.params:
        value, node = _pop_value(node, name)
        if value is not None:
            options[name] = value.json()
    k, node = _pop_value(node, "k")
    measure = measure(**options) if options else measure
    return (measure if k is None else measure @ k.json()).require_cutoff(), node


def measure_named(text: str, folder: Path | None = None, *, lenient: bool = False) -> Measure:
    """Return the measure called `text`, as `find_measure` does; an error may suggest a similar name."""
    try:
        return find_measure(text, folder, lenient=lenient)
    except InputError as wrong:
        error = wrong
    if not error.problem.startswith("unknown measure"):
        raise error
    head = text.partition("(")[0].partition("@")[0].strip()
    problem, fix = f"unknown grader or measure {text!r}", error.fix
    if owner := absent("graders", fold(head)):
        problem = f"the grader {head} needs the add-on {owner}, which is not installed"
        fix = "name a measure (`germane measures` lists them)"
    elif near := nearest(head, (name for name, _ in _kinds().values())):
        fix = f"did you mean {near!r}?"
    raise InputError(problem, fix=fix, place=error.place)


def graders_of_specs(
    specs: Iterable[GraderSpec],
    file: EvalFile,
    settings: Settings,
    warn: Warn | None = None,
    faults: list[InputError] | None = None,
    *,
    leave: Callable[[str, GraderSpec], None] | None = None,
) -> tuple[Grader, ...]:
    """Return the graders described by the entries of an eval file, with unique names.

    Raises InputError for the first error, or appends every error to `faults` if that is given. With `leave`,
    no Python file is imported: it is called with each measure from one, and its entry.
    """
    graders, listed = dict[str, Grader](), tuple(specs)
    written = {spec.name for spec in listed if spec.has_name}
    folder, compatibility, imports = file.path.resolve().parent, file.compatibility, leave is None
    where = Where(folder=folder, warn=warn, compatibility=compatibility, settings=settings, imports=imports)
    for spec in listed:
        try:
            made = grader_of(spec.node, where, faults)
        except NotImported as measure:
            assert leave is not None
            leave(measure.problem, spec)
            continue
        except InputError as fault:
            collect_or_raise(fault, faults)
            continue
        name = first = spec.name if spec.has_name or made.named_by_value else made.label
        number = 1
        while name in graders or (name in written and not spec.has_name):
            number += 1
            name = f"{first}-{number}"
        grader = made.model_copy(update={"name": name}).scored
        if isinstance(spec.spec, str):  # only the name of a measure
            grader = replace(grader, options=FrozenDict())
        graders[name] = grader
    return tuple(graders.values())
