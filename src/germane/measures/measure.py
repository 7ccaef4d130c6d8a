"""A measure is a value with one canonical name that parses and prints; the registry knows them all.

`nDCG@10`, `P(rel=2)@5` and `context_precision@5` name the same measure in Python, on the command line, in eval
files, as JSON keys and as report columns. Parameters print sorted, defaults are left out, `@k` comes last.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from germane.errors import MeasureError
from germane.types import FrozenDict

__all__ = ["Definition", "Measure", "Param", "define", "definition", "definitions", "parse_measures"]

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
        if type(value) is not self.type or (self.choices and value not in self.choices) or outside:
            span = f" from {self.low:g}" if self.low is not None else ""
            span += f" to {self.high:g}" if self.high is not None else ""
            raise MeasureError(f"{measure}: {name}={value!s} is not possible", fix=f"write {name}= with {allowed}{span}")
        return value  # type: ignore[return-value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What the registry knows of a measure.

    `family` says how it is computed: `ranked` measures are formulas on the label table
    (`compute(table, params, k) -> one value a row`), `judged` ones are generators of questions
    (`compute(sample, params, k)`). `labels` is the default label source of a ranked measure, and `sources`
    the ones it can read at all.
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
    aliases: tuple[str, ...] = ()
    explain: Callable[..., Any] | None = None


_REGISTRY: dict[str, Definition] = {}
_ALIASES: dict[str, str] = {}
_TREC = re.compile(r"(?P<name>[A-Za-z][A-Za-z_]*?)_(?P<k>\d+)")
_NAME = re.compile(r"(?P<name>[A-Za-z][\w.:/\\-]*?)\s*(?:\((?P<params>[^()]*)\))?\s*(?:@\s*(?P<k>[^@\s]+))?")


def define(new: Definition) -> Definition:
    """Add a measure to the registry; a second one of the same name is an error."""
    if _REGISTRY.setdefault(new.name, new) is not new:
        raise MeasureError(f"a measure named {new.name} is defined already", fix="choose another name")
    for alias in new.aliases:
        if _ALIASES.setdefault(alias.casefold(), new.name) != new.name:
            raise MeasureError(f"the alias {alias} already means {_ALIASES[alias.casefold()]}", fix="choose another")
    return new


def definitions() -> tuple[Definition, ...]:
    """Every measure there is, in the order of their definition."""
    return tuple(_REGISTRY.values())


def definition(name: str) -> Definition:
    """The definition behind a name or alias; MeasureError names the nearest one where there is none."""
    by_fold = {known.casefold(): known for known in _REGISTRY}
    found = _REGISTRY.get(name) or _REGISTRY.get(_ALIASES.get(name.casefold()) or by_fold.get(name.casefold(), ""))
    if found is None:
        near = difflib.get_close_matches(name.casefold(), [*by_fold, *_ALIASES], n=1, cutoff=0.6)
        hint = f"did you mean {by_fold.get(near[0]) or _ALIASES[near[0]]}?" if near else "see `germane measures`"
        raise MeasureError(f"there is no measure {name!r}", fix=hint)
    return found


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure with its parameters and cut-off: `Measure.parse("nDCG(dcg=exp-log2)@10")` or `nDCG(dcg="exp-log2") @ 10`.

    Equal when they mean the same; `str()` is the canonical name. Raises MeasureError on an unknown name,
    parameter or value, and on a cut-off that is missing, superfluous or below 1.
    """

    name: str
    params: FrozenDict = field(default_factory=FrozenDict)
    cutoff: int | None = None

    def __post_init__(self) -> None:
        known = definition(self.name)
        checked: dict[str, Value] = {}
        for name, value in self.params.items():
            if name not in known.params:
                have = ", ".join(known.params) or "none"
                raise MeasureError(f"{known.name} has no parameter {name!r}", fix=f"its parameters: {have}")
            spec = known.params[name]
            if (checked_value := spec.check(known.name, name, value)) != spec.default:
                checked[name] = checked_value
        if checked.get("labels", known.labels) not in known.sources:
            raise MeasureError(f"{known.name} cannot be computed over labels={checked['labels']}", fix=known.refusal)
        if self.cutoff is not None and known.cutoff == "none":
            raise MeasureError(f"{known.name} has no cut-off", fix=f"write {known.name}")
        if self.cutoff is not None and self.cutoff < 1:
            raise MeasureError(f"{known.name}@{self.cutoff}: a cut-off is 1 or more", fix=f"write {known.name}@10")
        object.__setattr__(self, "name", known.name)
        object.__setattr__(self, "params", FrozenDict(checked))

    def require_cutoff(self) -> Measure:
        """Itself, or MeasureError where this measure means nothing without `@k`."""
        if self.cutoff is None and definition(self.name).cutoff == "required":
            raise MeasureError(f"{self.name} needs a cut-off", fix=f"write {self}@10")
        return self

    def __str__(self) -> str:
        inner = ",".join(f"{k}={_spell(v)}" for k, v in sorted(self.params.items()))
        return self.name + (f"({inner})" if inner else "") + (f"@{self.cutoff}" if self.cutoff else "")

    def __matmul__(self, k: int) -> Measure:
        """`nDCG @ 10`: the same measure with a cut-off."""
        if not isinstance(k, int) or isinstance(k, bool):
            raise MeasureError(f"{self.name}@{k}: a cut-off is a whole number", fix=f"write {self.name}@10")
        return Measure(self.name, self.params, k)

    def __call__(self, **params: Value) -> Measure:
        """`AP(rel=2)`: the same measure with other parameters."""
        return Measure(self.name, FrozenDict({**self.params, **params}), self.cutoff)

    def param(self, name: str) -> Any:
        """The value of a parameter: as given, else its default."""
        return self.params.get(name, definition(self.name).params[name].default)

    @property
    def definition(self) -> Definition:
        """What the registry knows of it."""
        return definition(self.name)

    @property
    def labels(self) -> Source:
        """The one source of labels that it reads."""
        return self.params.get("labels", self.definition.labels)

    @classmethod
    def parse(cls, text: str) -> Measure:
        """The measure that a text names; trec_eval spellings (`ndcg_cut_10`, `P_5`, `map`) are aliases."""
        match = _NAME.fullmatch(text.strip())
        if not match:
            raise MeasureError(f"{text!r} is not a measure", fix="write NAME, NAME@10 or NAME(param=value)@10")
        name, cutoff = match["name"], match["k"]
        trec = _TREC.fullmatch(name)
        if trec and cutoff is None and (trec["name"].casefold() in _ALIASES or trec["name"] in _REGISTRY):
            name, cutoff = trec["name"], trec["k"]
        if cutoff is not None and not re.fullmatch("[0-9]{1,9}", cutoff):
            raise MeasureError(f"{text!r}: the cut-off {cutoff!r} is not a whole number", fix=f"write {name}@10")
        k = None if cutoff is None else int(cutoff)
        return cls(name, FrozenDict(_params(match["params"] or "", text)), k).require_cutoff()


def _params(inner: str, text: str) -> dict[str, Value]:
    params: dict[str, Value] = {}
    for part in filter(None, (p.strip() for p in inner.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not value:
            raise MeasureError(f"{text!r}: {part!r} is not a parameter", fix="write NAME(param=value)")
        if name in params:
            raise MeasureError(f"{text!r}: {name} is given twice", fix=f"keep one {name}=")
        params[name] = _value(value)
    return params


def _value(text: str) -> Value:
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip("'\"")


def _spell(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def parse_measures(texts: Iterable[str]) -> tuple[Measure, ...]:
    """Measures from texts with one or more names each, split at white space outside parentheses; duplicates fold."""
    found: dict[Measure, None] = {}
    for text in texts:
        for word in re.findall(r"(?:[^\s()]|\([^()]*\))+", text):
            found[Measure.parse(word)] = None
    return tuple(found)
