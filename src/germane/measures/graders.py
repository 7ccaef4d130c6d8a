"""Measures with their options in an eval file, and graders of cases that are no plain measure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from germane.addons import all_of, find
from germane.measures.measure import _REGISTRY, FINDERS, Definition, Measure, define
from germane.types import FrozenDict

PASS, BORDERLINE = 0.8, 0.6
STRICT = "strict: "
"""The prefix of the note on a score that fails the verdict of a case with a strict grader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """A measure with its options in an eval file.

    Attributes:
        measure: The measure; with `by`, the type that its scores are stored under.
        name: What it is reported under.
        required: The least value that the case must reach, as a gate on the evaluation.
        threshold: The least score of the whole case.
        strict: Any irrelevant context fails the case's verdict; the score stays.
        expected_relevant_count: A note is added if fewer relevant contexts are found.
        by: The `germane.graders.CaseGrader` that grades the case, if no plain measure does.
        options: `DECLARED` if the eval file describes a grader and does not only name a measure.
    """

    measure: Measure
    name: str = ""
    weight: float = 1.0
    required: float | None = None
    threshold: float | None = None
    strict: bool = False
    expected_relevant_count: int | None = None
    by: Any = None
    options: FrozenDict = field(default_factory=FrozenDict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or str(self.measure))

    @property
    def declares(self) -> bool:
        """True if its cases pass or fail."""
        described = self.measure.definition.family == "graded" or self.strict or bool(self.options)
        return described or (self.required, self.threshold) != (None, None)


def graders_of(measures: tuple[Measure, ...]) -> tuple[Grader, ...]:
    """Return measures as graders of equal weight."""
    return tuple(Grader(measure=measure) for measure in measures)


def _never(*_: object, **__: object) -> None:
    raise AssertionError("a grader of an eval file is not a measure")


DECLARED = FrozenDict(declared=True)
"""The options of a grader that an eval file describes."""
_defined: set[str] = set()


def define_grader(name: str, formula: str = "what its check returns", reference: str = "") -> None:
    """Register the type of a grader, under which its scores are stored; MeasureError if a measure has that name."""
    if name not in _defined:
        define(
            Definition(
                name=name,
                family="graded",
                compute=_never,
                needs=(),
                formula=formula,
                doc="A grader, declared in an eval file.",
                reference=reference,
                aliases=(name.replace("_", "-"),) if "_" in name else (),
            )
        )
        _defined.add(name)


for _name, _kind in all_of("graders").items():
    if _kind.make:
        define_grader(_name, _kind.formula, "AgentV")


def _define_installed(name: str) -> None:
    """Register the type of a grader that an installed package brings."""
    if (kind := find("graders", name) if name else None) is not None and kind.make:
        define_grader(name, kind.formula)
        _REGISTRY[name] = [replace(_REGISTRY[name][0], formula=kind.formula)]  # its class may have come first


FINDERS.append(_define_installed)
