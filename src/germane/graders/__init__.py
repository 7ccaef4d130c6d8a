"""Graders of eval files, which score a case by a measure with options or by a grader type of an add-on."""

from germane.graders.grader import (
    CaseGrader,
    Checks,
    Command,
    DirectGrader,
    GraderResult,
    Number,
    Numbers,
    Verdict,
    is_answered,
    together,
)
from germane.graders.specs import MeasureGrader, Where, grader_of, measure_named

__all__ = [
    "CaseGrader",
    "Checks",
    "Command",
    "DirectGrader",
    "GraderResult",
    "MeasureGrader",
    "Number",
    "Numbers",
    "Verdict",
    "Where",
    "grader_of",
    "is_answered",
    "measure_named",
    "together",
]
