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
    verdict_of,
)
from germane.graders.measure_grader import MeasureGrader
from germane.graders.specs import Where, grader_of, is_grader, measure_named, scored

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
    "is_grader",
    "measure_named",
    "scored",
    "together",
    "verdict_of",
]
