"""The measures as values: `nDCG @ 10`, `AP(rel=2)`, `context_precision @ 5`; or by name, `Measure.parse("nDCG@10")`."""

from germane.measures.graders import CODE_JUDGE
from germane.measures.judged import context_recall, measure
from germane.measures.measure import Measure, parse_measures
from germane.measures.ranked import (
    AP,
    F1,
    RBP,
    RR,
    Judged,
    P,
    R,
    Rprec,
    SetF,
    SetP,
    SetR,
    Success,
    bpref,
    context_position,
    context_precision,
    context_relevance,
    nDCG,
)

__all__ = [
    "CODE_JUDGE",
    "context_recall",
    "measure",
    "AP",
    "F1",
    "RBP",
    "RR",
    "Judged",
    "Measure",
    "P",
    "R",
    "Rprec",
    "SetF",
    "SetP",
    "SetR",
    "Success",
    "bpref",
    "context_position",
    "context_precision",
    "context_relevance",
    "nDCG",
    "parse_measures",
]
