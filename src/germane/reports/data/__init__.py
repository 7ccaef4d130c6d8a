"""The rows of a report and what is computed from them: means by slice, cases, searches, frames. Other modules show it."""

from germane.reports.data.cases import (
    CASE_SCORE,
    CaseResult,
    CaseVerdict,
    dump_grader,
    load_grader,
)
from germane.reports.data.report import ReportData, Slice, system_lines
from germane.reports.data.searches import SearchLine

__all__ = [
    "CASE_SCORE",
    "CaseResult",
    "CaseVerdict",
    "ReportData",
    "SearchLine",
    "Slice",
    "dump_grader",
    "load_grader",
    "system_lines",
]
