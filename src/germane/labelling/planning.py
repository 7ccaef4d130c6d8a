"""Estimate the number of labels that would make corrected means precise enough, from existing labels."""

from __future__ import annotations

from dataclasses import dataclass

from germane.clean import counted
from germane.errors import InputError
from germane.reports.data import ReportData
from germane.reports.summary import LIKE_THESE, THESE, MeasureSummary


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """The number of labels that makes a measure's corrected interval at most `width` wide.

    `labels` are for the interval of queries like these, `set_labels` for that of these queries; None = even all `total`
    do not reach it, or (`unsure`) the labels that there are do not tell. `narrowest` is the width that all give of queries
    like these, `narrowest_ends` with their spread a standard error smaller and larger. `labelled` are there already. `why`
    says why nothing is told.
    """

    measure: str
    system: str
    width: float
    labelled: int = 0
    total: int | None = None
    labels: int | None = None
    set_labels: int | None = None
    unsure: bool = False
    narrowest: float | None = None
    narrowest_ends: tuple[float, float] | None = None
    why: str | None = None

    def __str__(self) -> str:
        name = f"{self.measure} of {self.system}" if self.system else self.measure
        if self.why:
            return f"{name}: nothing can be told: {self.why}"
        wide = f"for a corrected interval {self.width:g} wide"
        lines = [f"{name}: {self.labelled} of {self.total:,} labelled; {wide}"]
        if self.labels is not None:
            lines.append(f"{LIKE_THESE}: {counted(self.labels, 'label')}")
        elif self.narrowest_ends is not None:
            low, high = self.narrowest_ends
            needed = "not told by so few labels" if self.unsure else "more queries are needed"
            fix = "; label more of every query, or more queries, and ask again" if self.unsure else ""
            lines.append(f"{LIKE_THESE}: {needed} (all labels of these give {low:.4f} to {high:.4f}){fix}")
        enough = "not even all labels" if self.set_labels is None else counted(self.set_labels, "label")
        return "\n  ".join([*lines, f"{THESE}: {enough}"])


def plan_labels(report: ReportData, width: float) -> list[LabelPlan]:
    """Return one plan per judged measure and system.

    Raises:
        InputError: The width is not above 0, or nothing in the report was judged.
    """
    if not width > 0:
        raise InputError(f"a width of {width}", fix="give --for-width a number above 0, such as 0.05")
    judged = [summary for summary in report.summaries if summary.basis.source == "judge"]
    if not judged:
        raise InputError("no measure of this report was judged", fix="name a report of judged measures")
    return [_plan(summary, width) for summary in judged]


def _plan(summary: MeasureSummary, width: float) -> LabelPlan:
    """Return the plan for one mean, or the reason why there is none."""
    names, mean = (summary.measure, summary.system, width), summary.corrected
    if mean is None or mean.pilot is None:
        first = "label two or more passages of every query at random first (--queue random --design passages)"
        why = (summary.corrected_why or "") if mean is None else ""
        if "--design queries" not in why:  # else the reason says what to label
            kind = why.rpartition(" rests on ")[2] if " rests on " in why else ""
            why = "; ".join(filter(None, (why, f"label these: --kind {kind}" if kind else first)))
        return LabelPlan(*names, labelled=mean.labels if mean else 0, why=why)
    pilot, total = mean.pilot, mean.total
    labels, ends = pilot.labels_for(width), (pilot.width(total, off=-1), pilot.width(total, off=1))
    unsure = not pilot.is_reliable(labels) if labels is not None else ends[0] <= width
    return LabelPlan(
        *names,
        labelled=mean.labels,
        total=total,
        labels=None if unsure else labels,
        unsure=unsure,
        set_labels=pilot.labels_for(width, "report"),
        narrowest=pilot.width(total),
        narrowest_ends=ends,
    )
