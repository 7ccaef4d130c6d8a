"""The Measure class, whose canonical names can be parsed and printed, and the registry of measures.

A name such as `nDCG@10`, `P(rel=2)@5` or `context_precision@5` means the same measure in Python, on the
command line, in eval files, in JSON keys and in report columns. A canonical name lists the parameters that
differ from their defaults, in sorted order, and ends with `@k`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isinf
from typing import Any, Literal, NamedTuple, TypeAlias

from germane.clean import fold
from germane.errors import InputError, MeasureError
from germane.places.table import LabelChoice, Source
from germane.samples.files import nearest
from germane.types import FrozenDict, Sample

Value: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a measure: its type, its default, its meaning and its allowed values.

    A default of None depends on the labels. `low` and `high` limit a number.
    """

    type: type
    default: Value | None
    meaning: str
    choices: tuple[Value, ...] = ()
    low: float = -inf
    high: float = inf

    def check(self, measure: str, name: str, value: object) -> Value:
        """Return the value in the parameter's type. Raises MeasureError if the value is not allowed."""
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        wrong = type(value) is not self.type or (self.choices and value not in self.choices)
        if wrong or (
            isinstance(value, int | float) and not (self.low <= value <= self.high and abs(value) < inf)
        ):
            allowed = " or ".join(map(str, self.choices)) or self.type.__name__
            span = f" from {self.low:g}" * (self.low > -inf) + f" to {self.high:g}" * (self.high < inf)
            fix = f"write {name}= with {allowed}{span}"
            raise MeasureError(f"{measure}: {name}={value!s} is invalid", fix=fix)
        return value  # type: ignore[return-value]


def one_of(meaning: str, *choices: str) -> Param:
    """Return a parameter whose value must be one of `choices`; the first is its default."""
    return Param(str, choices[0], meaning, choices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The definition of a measure: how it is computed, what it needs, and the texts about it.

    Attributes:
        family: `ranked`: `compute(table, params, k)` is a formula on ranked labels that returns a value per
            row, or a pair (numerator, denominator); `params` has all defaults filled in. `judged`:
            `compute(sample, **params)` is a generator of questions or a plain function. `graded`: a grader of
            eval files.
        needs: The fields that a sample must have, besides the labels that a ranked measure reads.
        labels: The default source of a ranked measure's labels. `sources` are all allowed sources, and
            `refusal` is the reason why others are not allowed.
        cutoff: Whether `@k` is allowed or required; `recall` requires `@r`, a level of recall.
        calls: The number of judge calls per sample, in words; "0" = no judge is asked.
        nothing: The outcome for a sample with nothing to count, in words.
        aliases: Other names. `presets` are names that also set parameters: trec_eval's `rbp` sets p=0.9.
        when: The value of a parameter for which this definition applies, such as `{"unit": "context"}`. It is
            for measures that are computed in another way for each value of that parameter. The parameter is
            not passed to `compute`, and an alias of this definition sets it.
        better: Whether higher or lower scores are better.
        diagnostic: True if the measure describes the labels or the lists, not their quality. Differences are
            then not tested for significance.
        answerable: True if samples with questions that the corpus cannot answer are skipped.
        settings: True if `compute` also takes the evaluation's settings.
    """

    name: str
    family: Literal["ranked", "judged", "graded"]
    compute: Callable[..., Any]
    needs: tuple[str, ...]
    formula: str
    doc: str
    reference: str = ""
    params: Mapping[str, Param] = field(default_factory=dict)
    cutoff: Literal["none", "optional", "required", "recall"] = "none"
    labels: Source = "gold"
    sources: tuple[Source, ...] = ("gold", "judge", "human", "best")
    refusal: str = ""
    range: tuple[float, float] = (0.0, 1.0)
    calls: str = "0"
    nothing: str = ""
    aliases: tuple[str, ...] = ()
    presets: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    when: Mapping[str, Value] = field(default_factory=dict)
    better: Literal["higher", "lower"] = "higher"
    diagnostic: bool = False
    answerable: bool = False
    settings: bool = False

    @property
    def asks(self) -> bool:
        """True if the measure is computed from its own questions to a judge (ranked measures read labels)."""
        return self.family == "judged" and self.calls != "0"

    def good(self, value: float) -> float:
        """Return the value mapped to 0..1, where 1 is best.

        A count n without an upper limit becomes n / (1 + n) or, if lower is better, 1 / (1 + n).
        """
        low, high = self.range
        value = value / (1.0 + value) if isinf(high) else (value - low) / (high - low)
        return value if self.better == "higher" else 1.0 - value

    @property
    def title(self) -> str:
        """The measure's name, followed by the parameter in `when` if its value is not the default."""
        chosen = {name: value for name, value in self.when.items() if value != self.params[name].default}
        return self.name + _spelled(chosen)

    @property
    def options(self) -> dict[str, Param]:
        """The parameters that a user can set, by name: all parameters except those in `when`."""
        params = {name: param for name, param in self.params.items() if name not in self.when}
        if "labels" in params:
            params["labels"] = replace(params["labels"], choices=self.sources)
        return params

    def covers(self, params: Mapping[str, Value]) -> bool:
        """Return True if `params`, or the defaults of missing parameters, have the values in `when`."""
        return all(params.get(name, self.params[name].default) == value for name, value in self.when.items())


_REGISTRY: dict[str, list[Definition]] = {}
_ALIASES: dict[str, tuple[str, Mapping[str, Value]]] = {}

FINDERS: list[Callable[[str], object]] = []
"""Functions that load more measures. They are called with an unknown name, or with "" to load all
measures."""


def define(new: Definition) -> Definition:
    """Add a measure's definition to the registry and return it.

    Raises MeasureError if its name (with the same `when`) or an alias is taken, or if `needs` names no field
    of a sample. In a notebook or an interactive session, a definition replaces an earlier one with the same
    name, so that a cell can be run again.
    """
    if unknown := [need for need in new.needs if need not in Sample.__struct_fields__]:
        fix = f"write one of {', '.join(Sample.__struct_fields__)}"
        raise MeasureError(f"{new.title} needs {unknown[0]!r}, which is not a field of a sample", fix=fix)
    again = new.compute.__module__ == "__main__"
    definitions = [
        other
        for other in _REGISTRY.get(new.name, [])
        if other.compute is not _unknown and not (again and other.compute.__module__ == "__main__")
    ]
    if any(new.when == other.when or not (new.when and other.when) for other in definitions):
        raise MeasureError(f"a measure named {new.title} is defined already", fix="write another name")
    spellings = {name: {**new.when, **new.presets.get(name, {})} for name in (*new.aliases, *new.presets)}
    for alias, params in spellings.items():
        if (taken := _ALIASES.get(fold(alias), (new.name, params))) != (new.name, params):
            raise MeasureError(f"the alias {alias} is already used for {taken[0]}", fix="write another alias")
    _REGISTRY[new.name] = [*definitions, new]
    _ALIASES.update({fold(alias): (new.name, params) for alias, params in spellings.items()})
    return new


def definitions() -> tuple[Definition, ...]:
    """Return all definitions: ranked measures, then germane's judged ones by name, then users' own."""
    _find_more("")
    every = [d for same in _REGISTRY.values() for d in same if d.compute is not _unknown]
    ranked = [definition for definition in every if definition.family == "ranked"]
    judged = [definition for definition in every if definition.family == "judged"]
    ours = [definition for definition in judged if definition.compute.__module__.startswith("germane.")]
    ours.sort(key=lambda definition: definition.title.casefold())
    return (*ranked, *ours, *(definition for definition in judged if definition not in ours))


def _find(name: str) -> tuple[str, Mapping[str, Value]] | None:
    """Return a measure's canonical name and the parameters set by `name`, which may be an alias."""
    if name in _REGISTRY:
        return name, {}
    folded = fold(name)  # ContextPrecision, context-precision and context_precision are one
    return _ALIASES.get(folded) or next(((key, {}) for key in _REGISTRY if fold(key) == folded), None)


def _find_more(name: str) -> bool:
    """Load modules and add-ons that may define this measure; return True, even if none of them does."""
    for finder in FINDERS:
        finder(name)
    return True


def _resolve(name: str, params: Mapping[str, Value]) -> tuple[Definition, Mapping[str, Value]]:
    """Return a measure's definition, and `params` with the parameters that are set by an alias."""
    spelled = _find(name) or (_find_more(name) and _find(name))
    if not spelled:
        near = nearest(name, [*_REGISTRY, *_ALIASES], 0.6)
        hint = _find(near) if near else None
        fix = f"did you mean {Measure(hint[0], FrozenDict(hint[1]))}?" if hint else "see `germane measures`"
        raise MeasureError(f"unknown measure {name!r}", fix=fix)
    canonical, preset = spelled
    options = {**preset, **params}
    # the same name may be defined elsewhere too, for another value of the parameter
    if not any(value.covers(options) for value in _REGISTRY[canonical]):
        _find_more(canonical)
    definitions = _REGISTRY[canonical]
    # if none covers the options, the value of the parameter is not among its choices
    return next((value for value in definitions if value.covers(options)), definitions[0]), options


UNKNOWN = "unknown"  # the formula of a measure that is not germane's and was not loaded


def _unknown(*_: object, **__: object) -> None:
    fix = "name the file: -m my_measures.py:NAME"
    raise MeasureError("this measure is defined in a file that was not loaded", fix=fix)


def _spelled(params: Mapping[str, Value]) -> str:
    """Return parameters as they are written in a measure's name: "(p=0.9,rel=2)", or "" if there are none."""
    texts = {n: str(value).lower() if isinstance(value, bool) else str(value) for n, value in params.items()}
    return f"({','.join(f'{name}={texts[name]}' for name in sorted(texts))})" if texts else ""


_NAME = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.:/\\-]*?)\s*(?:\((?P<params>[^()]*)\))?\s*(?:@\s*(?P<k>[^@\s]+))?"
)
_TREC = re.compile(r"(?P<name>[A-Za-z][A-Za-z_]*?)[_.](?P<k>[01]?\.\d+|\d+)")
_CUTOFF = re.compile(r"\d{1,9}|\d?\.\d{1,9}")
_DECLARED = re.compile(r"(?s:.*) \[(?P<low>\S+) to (?P<high>\S+), (?P<better>higher|lower) is better\]")


class Declared(NamedTuple):
    """The range of another program's measure, and whether higher values are better."""

    range: tuple[float, float]
    higher: bool

    @property
    def better(self) -> Literal["higher", "lower"]:
        """Whether higher or lower values are better, as a word."""
        return "higher" if self.higher else "lower"

    def type_of(self, name: str) -> str:
        """Return the type name stored with scores, from which `declared` reads this back."""
        return f"{name} [{self.range[0]!r} to {self.range[1]!r}, {self.better} is better]"


def declared(canonical: str) -> Declared | None:
    """Return the range and direction in the stored type name of another program's measure, or None."""
    if canonical.endswith("]") and (found := _DECLARED.fullmatch(canonical)):
        return Declared((float(found["low"]), float(found["high"])), found["better"] == "higher")
    return None


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure with its parameters and cut-off: `Measure.parse("AP(rel=2)@10")` or `AP(rel=2) @ 10`.

    Two measures are equal if their canonical names are equal; `str()` returns the canonical name. `k` is the
    cut-off: a rank or a level of recall. `params` are the parameters that differ from their defaults.
    `settings` are all parameters (None = depends on the labels). `definition` is the entry in the registry,
    and `labels` is the source of the labels. `asks` is True if a judge is needed. For a ranked measure,
    `choice` says which labels and rankings are read, and `depth` how many ranks of each ranking (None = all).

    Raises:
        MeasureError: The name, a parameter or a value is unknown; or the cut-off is not allowed, is below 1
            or, as a level of recall, is not within 0 and 1.
    """

    name: str
    params: FrozenDict = field(default_factory=FrozenDict)
    k: int | float | None = None
    settings: FrozenDict = field(init=False, repr=False, compare=False)
    definition: Definition = field(init=False, repr=False, compare=False)
    labels: Source = field(init=False, repr=False, compare=False)
    choice: LabelChoice = field(init=False, repr=False, compare=False)
    depth: int | None = field(init=False, repr=False, compare=False)
    asks: bool = field(init=False, repr=False, compare=False)
    _text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        definition, options = _resolve(self.name, self.params)
        checked: dict[str, Value] = {}
        for name, value in options.items():
            if (spec := definition.params.get(name)) is None:
                have = ", ".join(definition.params)
                fix = f"its parameters are {have}" if have else "leave it out: it takes no parameters"
                raise MeasureError(f"{definition.name} has no parameter {name!r}", fix=fix)
            if (checked_value := spec.check(definition.name, name, value)) != spec.default:
                checked[name] = checked_value
        source = checked.get("labels", definition.labels)
        if source not in definition.sources:
            problem = f"{definition.name} cannot be computed over labels={source}: {definition.refusal}"
            raise MeasureError(problem, fix=f"write {definition.name}(labels=gold)")
        if definition.family == "ranked" and "ideal" in definition.params and source != "gold":
            if options.get("ideal") == "all":
                raise MeasureError(
                    f"{definition.name}(ideal=all) cannot be computed over labels={source}: only the retrieved contexts are labelled",
                    fix="leave out ideal=, or write labels=gold",
                )
            checked["ideal"] = "retrieved"
        if checked.get("against") == "call" and source != "judge":
            raise MeasureError(
                f"{definition.name}(against=call) needs a judge, because human and gold labels are about the sample's query",
                fix="leave out against=call, or write labels=judge",
            )
        k = _checked_cutoff(definition, self.k)
        settings = FrozenDict({name: spec.default for name, spec in definition.params.items()} | checked)
        cut = isinstance(k, int) and settings.get("holes") != "condensed"
        result: dict[str, Any] = {
            "name": definition.name,
            "params": FrozenDict(checked),
            "k": k,
            "settings": settings,
            "definition": definition,
            "labels": source,
            "choice": LabelChoice(source, settings.get("against", "need"), settings.get("over") == "final"),
            "depth": k if cut else None,
            "asks": definition.asks or (definition.family == "ranked" and source in {"judge", "best"}),
            "_text": definition.name + _spelled(checked) + ("" if k is None else f"@{k:.9g}"),
        }
        for name, value in result.items():
            object.__setattr__(self, name, value)

    def require_cutoff(self) -> Measure:
        """Return this measure. Raises MeasureError if its required cut-off is missing."""
        examples = {"required": "@10", "recall": "@0.1"}
        if self.k is None and (example := examples.get(self.definition.cutoff)):
            raise MeasureError(f"{self.name} needs a cut-off", fix=f"write {self}{example}")
        return self

    def __str__(self) -> str:
        return self._text

    def __matmul__(self, k: float) -> Measure:
        """Return this measure with the cut-off k: `nDCG @ 10`."""
        return Measure(self.name, self.params, k)

    def __call__(self, **params: Value) -> Measure:
        """Return this measure with other parameters: `AP(rel=2)`."""
        return Measure(self.name, FrozenDict({**self.params, **params}), self.k)

    def __reduce__(self) -> tuple[type[Measure], tuple[str, FrozenDict, int | float | None]]:
        return Measure, (self.name, self.params, self.k)

    @classmethod
    def remembered(cls, text: str) -> Measure:
        """Return the measure named in a stored report.

        If the name is unknown, the returned measure can be shown but not computed. Measures from users' files
        are unknown too, so that opening a report never runs a file.
        """
        try:
            return cls.parse(text, lenient=True)
        except InputError:  # a package that cannot be loaded harms no report
            unknown = Definition(
                name=text, family="judged", compute=_unknown, needs=(), formula=UNKNOWN, doc=""
            )
            if (stated := declared(text)) is not None:
                doc = "A measure of another program."
                unknown = replace(unknown, doc=doc, range=stated.range, better=stated.better)
            _REGISTRY.setdefault(text, [unknown])
            return cls(text)

    @classmethod
    def parse(cls, text: str, *, lenient: bool = False) -> Measure:
        """Return the measure with this name, which may be trec_eval's (`ndcg_cut_10`, `P.5`, `map`).

        With `lenient`, a required cut-off may be missing. Raises MeasureError if the name is unknown or
        malformed.
        """
        refuse_commas(text)
        match = _NAME.fullmatch(text.strip())
        if not match:
            fix = "write NAME, NAME@10 or NAME(param=value)@10"
            raise MeasureError(f"{text!r} is not a measure", fix=fix)
        name, k = match["name"], match["k"]
        trec = _TREC.fullmatch(name) if k is None and not _find(name) else None
        known = _find(trec["name"]) if trec else None
        cut = known is not None and any(definition.cutoff != "none" for definition in _REGISTRY[known[0]])
        if trec and (cut or (_find_more(name) and not _find(name) and _find(trec["name"]))):
            name, k = trec["name"], trec["k"]
            if name.lower() == "rbp":  # in ranx rbp.95 is RBP(p=0.95)
                fix = f"write RBP(p={k})" if "." in k else f"write RBP(p=0.{k}), or RBP(p=0.9)@{k}"
                raise MeasureError(f"{text!r} may name the cut-off or the parameter p", fix=fix)
        if k is not None and not _CUTOFF.fullmatch(k):
            raise MeasureError(f"{text!r}: the cut-off {k!r} is not a whole number", fix=f"write {name}@10")
        params: dict[str, Value] = {}
        for option in filter(None, (p.strip() for p in (match["params"] or "").split(","))):
            param, _, value = (piece.strip() for piece in option.partition("="))
            if not param or not value or param in params:
                problem = f"{text!r}: {option!r} is not of the form name=value"
                raise MeasureError(problem, fix="write NAME(param=value)")
            params[param] = _value(value)
        cutoff = None if k is None else float(k) if "." in k else int(k)
        measure = cls(name, FrozenDict(params), cutoff)
        return measure if lenient else measure.require_cutoff()


_COMMA = re.compile(r"\s*,\s*(?![^()]*\))")
"""Matches a comma outside of parentheses."""


def refuse_commas(text: str) -> None:
    """Raise MeasureError if the names of several measures are separated by commas."""
    if _COMMA.search(text):
        spaced = " ".join(filter(None, _COMMA.split(text.strip())))
        raise MeasureError(f"{text.strip()!r} has a comma between measures", fix=f"write spaces: {spaced}")


def _checked_cutoff(definition: Definition, cutoff: float | None) -> int | float | None:
    """Return the cut-off as a rank or a level of recall. Raises MeasureError if it is not allowed."""
    if cutoff is None:
        return None
    name, level = definition.name, definition.cutoff == "recall"
    if definition.cutoff == "none":
        raise MeasureError(f"{name} takes no cut-off @k", fix=f"write {name}")
    if level and not isinstance(cutoff, bool) and 0 <= cutoff <= 1:
        return float(cutoff)
    if level or type(cutoff) is not int or cutoff < 1:
        what, example = ("a level of recall from 0 to 1", 0.1) if level else ("a whole number from 1", 10)
        raise MeasureError(f"{name}@{cutoff}: the cut-off is not {what}", fix=f"write {name}@{example}")
    return cutoff


def _value(text: str) -> Value:
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip("'\"")
