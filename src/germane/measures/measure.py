"""A measure is a value with one canonical name that parses and prints.

`nDCG@10`, `P(rel=2)@5` and `context_precision@5` name the same measure in Python, on the command line, in eval
files, as JSON keys and as report columns. Parameters print sorted, defaults are left out, `@k` comes last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from germane.errors import MeasureError
from germane.measures.definition import (
    Definition,
    Param,
    Source,
    Value,
    define,
    definition,
    definitions,
    find,
    remember,
    resolve,
    spelled,
)
from germane.types import FrozenDict

__all__ = [
    "Definition",
    "Measure",
    "Param",
    "Source",
    "Value",
    "define",
    "definition",
    "definitions",
    "parse_measures",
]

_TREC = re.compile(r"(?P<name>[A-Za-z][A-Za-z_]*?)_(?P<k>\d+)")
_NAME = re.compile(r"(?P<name>[A-Za-z][\w.:/\\-]*?)\s*(?:\((?P<params>[^()]*)\))?\s*(?:@\s*(?P<k>[^@\s]+))?")


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure with its parameters and cut-off: `Measure.parse("AP(rel=2)@10")` or `AP(rel=2) @ 10`.

    Equal when they mean the same; `str()` is the canonical name. Raises MeasureError on an unknown name,
    parameter or value, and on a cut-off that is missing, superfluous or below 1.
    """

    name: str
    params: FrozenDict = field(default_factory=FrozenDict)
    cutoff: int | None = None

    def __post_init__(self) -> None:
        canonical, preset = resolve(self.name)
        given = {**preset, **self.params}
        known = definition(canonical, given)
        checked: dict[str, Value] = {}
        for name, value in given.items():
            if name not in known.params:
                have = ", ".join(known.params) or "none"
                raise MeasureError(f"{known.name} has no parameter {name!r}", fix=f"its parameters: {have}")
            spec = known.params[name]
            if (checked_value := spec.check(known.name, name, value)) != spec.default:
                checked[name] = checked_value
        if checked.get("labels", known.labels) not in known.sources:
            raise MeasureError(
                f"{known.name} cannot be computed over labels={checked['labels']}", fix=known.refusal
            )
        if checked.get("against") == "call" and checked.get("labels", known.labels) != "judge":
            raise MeasureError(
                f"{known.name}: people and gold label for the need, not for a call's own query",
                fix="leave out against=call, or read labels=judge",
            )
        if self.cutoff is not None and known.cutoff == "none":
            raise MeasureError(f"{known.name} has no cut-off", fix=f"write {known.name}")
        if self.cutoff is not None and self.cutoff < 1:
            raise MeasureError(
                f"{known.name}@{self.cutoff}: a cut-off is 1 or more", fix=f"write {known.name}@10"
            )
        object.__setattr__(self, "name", known.name)
        object.__setattr__(self, "params", FrozenDict(checked))

    def require_cutoff(self) -> Measure:
        """Itself, or MeasureError where this measure means nothing without `@k`."""
        if self.cutoff is None and self.definition.cutoff == "required":
            raise MeasureError(f"{self.name} needs a cut-off", fix=f"write {self}@10")
        return self

    def __str__(self) -> str:
        return self.name + spelled(self.params) + (f"@{self.cutoff}" if self.cutoff else "")

    def __matmul__(self, k: int) -> Measure:
        """`nDCG @ 10`: the same measure with a cut-off."""
        if type(k) is not int:
            raise MeasureError(f"{self.name}@{k}: a cut-off is a whole number", fix=f"write {self.name}@10")
        return Measure(self.name, self.params, k)

    def __call__(self, **params: Value) -> Measure:
        """`AP(rel=2)`: the same measure with other parameters."""
        return Measure(self.name, FrozenDict({**self.params, **params}), self.cutoff)

    def param(self, name: str) -> Any:
        """The value of a parameter: as given, else its default."""
        return self.settings[name]

    @property
    def settings(self) -> dict[str, Any]:
        """All its parameters: as given, else their defaults (None = depends on the labels)."""
        return {name: spec.default for name, spec in self.definition.params.items()} | dict(self.params)

    @property
    def definition(self) -> Definition:
        """What the registry knows of it."""
        return definition(self.name, self.params)

    @property
    def labels(self) -> Source:
        """The one source of labels that it reads."""
        return self.params.get("labels", self.definition.labels)  # type: ignore[no-any-return]

    @classmethod
    def remembered(cls, text: str) -> Measure:
        """The measure of that name in a stored report; one of a user's file that is not loaded now is a name only.

        A report can be shown and compared without the file. Nothing is ever run because a report names it.
        """
        try:
            return cls.parse(text, lenient=True)
        except MeasureError:
            remember(text)
            return cls(text)

    @classmethod
    def parse(cls, text: str, *, lenient: bool = False) -> Measure:
        """The measure that a text names; trec_eval spellings (`ndcg_cut_10`, `P_5`, `map`) are aliases.

        `lenient` lets a needed cut-off be missing: it is given later.
        """
        match = _NAME.fullmatch(text.strip())
        if not match:
            raise MeasureError(
                f"{text!r} is not a measure", fix="write NAME, NAME@10 or NAME(param=value)@10"
            )
        name, cutoff = match["name"], match["k"]
        trec = _TREC.fullmatch(name)
        if trec and cutoff is None and not find(name) and find(trec["name"]):
            name, cutoff = trec["name"], trec["k"]
        if cutoff is not None and not re.fullmatch("[0-9]{1,9}", cutoff):
            raise MeasureError(
                f"{text!r}: the cut-off {cutoff!r} is not a whole number", fix=f"write {name}@10"
            )
        k = None if cutoff is None else int(cutoff)
        measure = cls(name, FrozenDict(_params(match["params"] or "", text)), k)
        return measure if lenient else measure.require_cutoff()


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


def parse_measures(texts: Iterable[str], folder: Path | None = None) -> tuple[Measure, ...]:
    """Measures from texts with one or more names each, split at white space outside parentheses; duplicates fold.

    `my_measures.py:first_hit` runs that file and takes the measure from it; a relative path starts from `folder`, by
    default the working directory.
    """
    from germane.measures.loading import named

    found: dict[Measure, None] = {}
    for text in texts:
        for word in re.findall(r"(?:[^\s()]|\([^()]*\))+", text):
            found[named(word, folder)] = None
    return tuple(found)
