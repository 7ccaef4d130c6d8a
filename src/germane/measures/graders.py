"""Graders: measures with their options from an eval file, and registered names of other graders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from germane.addons import all_of, find
from germane.clean import some_of
from germane.errors import InputError
from germane.measures.measure import _REGISTRY, FINDERS, Definition, Measure, define
from germane.types import FrozenDict

__all__ = ["no_judge"]

PASS, BORDERLINE = 0.8, 0.6
STRICT = "strict: "
"""The prefix of the note on a score whose case fails because of `strict: true`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """A measure, or another grader, with its options from an eval file.

    Attributes:
        measure: The measure. With `by`, it only names the type under which the scores are stored.
        name: The name under which the scores are reported. Default: the measure's name.
        weight: The weight in the mean score of a case.
        required: The lowest score that each case must reach; it becomes a gate of the evaluation.
        threshold: The lowest score with which a case passes.
        strict: If true, one irrelevant context fails the case; the score is unchanged.
        expected_relevant_count: If fewer relevant contexts are found, a note is added to the score.
        by: The `germane.graders.CaseGrader` that grades the case; None for a plain measure.
        options: `DECLARED` if the eval file describes a grader; empty if it only names a measure.
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
        """True if the eval file describes this grader (not only names a measure): cases then pass or fail."""
        described = self.measure.definition.family == "graded" or self.strict or bool(self.options)
        return described or (self.required, self.threshold) != (None, None)


def graders_of(measures: tuple[Measure, ...]) -> tuple[Grader, ...]:
    """Return one grader per measure, without options."""
    return tuple(Grader(measure=measure) for measure in measures)


def _never(*_: object, **__: object) -> None:
    raise AssertionError("a grader of an eval file is not a measure")


DECLARED = FrozenDict(declared=True)
"""The value of `options` for a grader that an eval file describes."""


def define_grader(name: str, formula: str = "what its check returns", reference: str = "") -> None:
    """Register a grader's name as a measure, so that its scores can be stored and shown.

    Nothing happens if it is registered already. Raises MeasureError if a measure has this name.
    """
    if any(definition.compute is _never for definition in _REGISTRY.get(name, ())):
        return
    aliases = (name.replace("_", "-"),) if "_" in name else ()
    texts: dict[str, Any] = {"formula": formula, "reference": reference, "aliases": aliases}
    doc = "A grader, declared in an eval file."
    define(Definition(name=name, family="graded", compute=_never, needs=(), doc=doc, **texts))


for _name, _kind in all_of("graders").items():
    if _kind.make:
        define_grader(_name, _kind.formula, "AgentV")


def _define_installed(name: str) -> None:
    """Register the grader with this name as a measure, if an installed package declares it."""
    if (kind := find("graders", name) if name else None) is not None and kind.make:
        define_grader(name, kind.formula)
        _REGISTRY[name] = [replace(_REGISTRY[name][0], formula=kind.formula)]  # its class may have come first


FINDERS.append(_define_installed)


def needs_judge(graders: Iterable[Grader]) -> list[str]:
    """Return the names of the graders that ask a judge."""
    return list(dict.fromkeys(grader.name for grader in graders if (grader.by or grader.measure).asks))


def no_judge(names: Sequence[str]) -> InputError:
    """Return the InputError for measures (`names`) that need a judge although no judge is named."""
    fix = "name one: --judge labels | lexical | openai:gpt-4o-mini (in Python: judge=...)"
    return InputError(f"these measures need a judge: {some_of(names)}", fix=fix)
