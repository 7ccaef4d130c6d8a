"""What is known of each measure, and the registry of them all."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from germane.errors import MeasureError

__all__ = [
    "Definition",
    "Param",
    "Source",
    "Value",
    "define",
    "definition",
    "definitions",
    "find",
    "remember",
    "resolve",
    "spelled",
]

Value: TypeAlias = str | int | float | bool
Source: TypeAlias = Literal["gold", "judge", "human", "best"]


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a measure: its type, default (None = depends on the labels) and allowed values."""

    type: type
    default: Value | None
    meaning: str
    choices: tuple[Value, ...] = ()
    low: float | None = None
    high: float | None = None

    def check(self, measure: str, name: str, value: object) -> Value:
        """The value in its own type; MeasureError where it is none of this parameter's."""
        allowed = " or ".join(map(str, self.choices)) or self.type.__name__
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        outside = isinstance(value, int | float) and (
            (self.low is not None and value < self.low) or (self.high is not None and value > self.high)
        )
        outside = outside or (isinstance(value, float) and not math.isfinite(value))
        if type(value) is not self.type or (self.choices and value not in self.choices) or outside:
            span = f" from {self.low:g}" if self.low is not None else ""
            span += f" to {self.high:g}" if self.high is not None else ""
            raise MeasureError(
                f"{measure}: {name}={value!s} is not possible", fix=f"write {name}= with {allowed}{span}"
            )
        return value  # type: ignore[return-value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What the registry knows of a measure.

    `family` says how it is computed: `ranked` measures are formulas on the label table
    (`compute(table, params, k) -> one value a row`, `params` with all defaults filled in), `judged` ones are
    generators of questions (`compute(sample, params, k)`). `labels` is the default label source of a ranked
    measure, and `sources` the ones it can read at all; the fields that a source itself needs are not in `needs`.

    A measure whose computation depends on a parameter has one Definition for each value of it, under one name:
    `when={"unit": "context"}` says for which. `aliases` of such a definition carry its `when`, and `presets`
    are aliases that carry other parameters (trec_eval's `rbp` means p=0.9). `nothing` says what a sample with
    nothing to count gets.

    `calls` says in words how many answers of a judge a sample costs ("0" = it asks nobody). `answerable` measures are
    skipped for questions that cannot be answered. `settings`: compute wants the evaluation's settings too.
    """

    name: str
    family: Literal["ranked", "judged"]
    compute: Callable[..., Any]
    needs: tuple[str, ...]
    formula: str
    doc: str
    reference: str = ""
    params: Mapping[str, Param] = field(default_factory=dict)
    cutoff: Literal["none", "optional", "required"] = "none"
    labels: Source = "gold"
    sources: tuple[Source, ...] = ("gold", "judge", "human", "best")
    refusal: str = ""
    range: tuple[float, float] = (0.0, 1.0)
    calls: str = "0"
    nothing: str = ""
    aliases: tuple[str, ...] = ()
    presets: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    when: Mapping[str, Value] = field(default_factory=dict)
    explain: Callable[..., Any] | None = None
    better: Literal["higher", "lower"] = "higher"
    answerable: bool = False
    settings: bool = False

    @property
    def asks(self) -> bool:
        """Whether it is a program that asks a judge: not a formula on labels, and not one on gold alone."""
        return self.family == "judged" and self.calls != "0"

    def good(self, value: float) -> float:
        """How good a value is, from 0 to 1 and higher is better: 1 - a share of what should not be, 1 / (1 + a count)."""
        if self.better == "higher":
            return value
        return 1.0 / (1.0 + value) if math.isinf(self.range[1]) else 1.0 - value

    @property
    def title(self) -> str:
        """The measure's canonical name, with the parameter that chooses this definition where it needs one."""
        chosen = {name: value for name, value in self.when.items() if value != self.params[name].default}
        return self.name + spelled(chosen)

    def covers(self, params: Mapping[str, Value]) -> bool:
        """Whether a measure with these parameters is computed by this definition."""
        return all(params.get(name, self.params[name].default) == value for name, value in self.when.items())


_REGISTRY: dict[str, list[Definition]] = {}
_ALIASES: dict[str, tuple[str, Mapping[str, Value]]] = {}


def define(new: Definition) -> Definition:
    """Add a measure to the registry; a second one of the same name (and `when`) is an error."""
    known = [one for one in _REGISTRY.get(new.name, []) if one.compute is not _forgotten]
    if any(new.when == other.when or not (new.when and other.when) for other in known):
        raise MeasureError(f"a measure named {new.title} is defined already", fix="choose another name")
    spellings = {
        **dict.fromkeys(new.aliases, new.when),
        **{a: {**new.when, **p} for a, p in new.presets.items()},
    }
    for alias, params in spellings.items():
        if (taken := _ALIASES.get(_fold(alias), (new.name, params))) != (new.name, params):
            raise MeasureError(f"the alias {alias} already means {taken[0]}", fix="choose another")
    _REGISTRY[new.name] = [*known, new]
    _ALIASES.update({_fold(alias): (new.name, params) for alias, params in spellings.items()})
    return new


def definitions() -> tuple[Definition, ...]:
    """Every measure there is, in the order of their definition."""
    return tuple(one for known in _REGISTRY.values() for one in known if one.compute is not _forgotten)


def definition(name: str, params: Mapping[str, Value] | None = None) -> Definition:
    """The definition behind a name or alias and its parameters; MeasureError names the nearest where there is none."""
    only = _REGISTRY.get(name)
    if only is not None and len(only) == 1 and not only[0].when:
        return only[0]  # most are found so, many times a sample
    canonical, preset = resolve(name)
    known, given = _REGISTRY[canonical], {**preset, **(params or {})}
    for one in known:
        if one.covers(given):
            return one
    for key in known[0].when:
        known[0].params[key].check(canonical, key, given.get(key, known[0].params[key].default))
    raise MeasureError(
        f"{canonical} needs another parameter", fix=f"write {' or '.join(one.title for one in known)}"
    )


def find(name: str) -> tuple[str, Mapping[str, Value]] | None:
    """The canonical name behind a spelling that is known already, and the parameters that it carries."""
    if name in _REGISTRY:
        return name, {}
    fold = _fold(name)
    return _ALIASES.get(fold) or next(((known, {}) for known in _REGISTRY if _fold(known) == fold), None)


def _fold(name: str) -> str:
    """A name without case and joints: ContextPrecision, context-precision and context_precision are one."""
    return name.casefold().replace("_", "").replace("-", "")


def _brought(name: str) -> bool:
    """Whether an installed package brings a measure of that name; it is loaded then."""
    from germane.measures.loading import installed

    return installed(name)


def resolve(name: str) -> tuple[str, Mapping[str, Value]]:
    """The canonical name behind a spelling, and the parameters that the spelling carries."""
    if found := find(name) or (_brought(name) and find(name)):
        return found
    near = difflib.get_close_matches(_fold(name), [*map(_fold, _REGISTRY), *_ALIASES], n=1)
    hint = find(near[0]) if near else None
    fix = f"did you mean {hint[0]}{spelled(hint[1])}?" if hint else "see `germane measures`"
    raise MeasureError(f"there is no measure {name!r}", fix=fix)


def _forgotten(*_: object, **__: object) -> None:
    raise MeasureError(
        "this measure is not ours and was not loaded", fix="name its file: -m my_measures.py:NAME"
    )


def remember(name: str) -> None:
    """Keep a name of which nothing is known now: that of a user's measure in a stored report."""
    doc = "A measure that is not ours and was not loaded."
    unknown = Definition(name=name, family="judged", compute=_forgotten, needs=(), formula="unknown", doc=doc)
    _REGISTRY.setdefault(name, [unknown])


def spelled(params: Mapping[str, Value]) -> str:
    """Parameters as they stand in a name, sorted; "" where there are none."""
    inner = ",".join(f"{name}={_spell(value)}" for name, value in sorted(params.items()))
    return f"({inner})" if inner else ""


def _spell(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
