"""Measures with their options in an eval file, and graders of cases that are no plain measure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from germane.addons import all_of, find
from germane.measures.measure import _REGISTRY, FINDERS, Definition, Measure, define
from germane.questions.asking import Program
from germane.types import FrozenDict, Sample

PASS, BORDERLINE = 0.8, 0.6
STRICT = "strict: "
"""Begins the note on a score that fails the verdict of a case with a strict grader."""


class GradesCases(Protocol):
    """A grader of an eval file that is not a plain measure."""

    @property
    def asks(self) -> bool:
        """True if it needs a judge."""

    def grade_sample(self, sample: Sample, case: Any) -> Program[Any]:
        """The program that grades a sample, with its case of an eval file; its result has `outcome` and `as_json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """A measure with its options in an eval file.

    `name` is what it is reported under. `required` is the least value that the case must reach, as a gate on
    the evaluation, `threshold` the least score of the whole case. `strict` fails the case's verdict on any irrelevant
    context and leaves the score; `expected_relevant_count` adds a note where fewer are found. `by` grades the whole case
    where no plain measure does; `measure` is then the type that its scores are stored under. `options` holds
    `declared` where an eval file describes a grader and does not only name a measure.
    """

    measure: Measure
    name: str = ""
    weight: float = 1.0
    required: float | None = None
    threshold: float | None = None
    strict: bool = False
    expected_relevant_count: int | None = None
    by: GradesCases | None = None
    options: FrozenDict = field(default_factory=FrozenDict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or str(self.measure))

    @property
    def declares(self) -> bool:
        """True if its cases pass or fail: it is described as a grader, is required, or the whole case has a threshold."""
        limits = (self.required, self.threshold)
        return (
            self.measure.definition.family == "graded"
            or self.strict
            or bool(self.options)
            or limits != (None, None)
        )


def graders_of(measures: tuple[Measure, ...]) -> tuple[Grader, ...]:
    """Plain measures as graders of equal weight."""
    return tuple(Grader(measure=measure) for measure in measures)


def _never(*_: object, **__: object) -> None:
    raise AssertionError("a grader of an eval file is not a measure")


DECLARED = FrozenDict(declared=True)
"""The options of a grader that an eval file describes."""
_defined: set[str] = set()


def define_grader(name: str, formula: str = "what its check returns", reference: str = "") -> None:
    """Make the type of a grader known, under which its scores are stored; MeasureError where it is a measure's name."""
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
    """Make known the type of a grader of an installed package."""
    if (kind := find("graders", name) if name else None) is not None and kind.make:
        define_grader(name, kind.formula)
        _REGISTRY[name] = [replace(_REGISTRY[name][0], formula=kind.formula)]  # its class may have come first


FINDERS.append(_define_installed)
