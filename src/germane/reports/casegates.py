"""Gates on the scores of the cases: a percentile, a share of the cases, the least or largest mean of a slice."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

import numpy as np
from numpy.typing import NDArray

from germane.errors import InputError
from germane.reports.data import ReportData, slices_of
from germane.reports.gates import COMPARE, Gate, GateResult, Outcome
from germane.reports.summary import range_of
from germane.tables.cases import CaseScores
from germane.tables.scores import ScoreTable

Ends = Sequence[NDArray[np.float64]]
"""The least and the most that the value of each case can still be; equal where nothing is missing."""

SMALLEST = 5
"""Cases that a slice must have for its mean to decide anything."""


def check_by_case(gate: Gate, report: ReportData) -> list[GateResult]:
    """One result per system; InputError where no measure of that name was computed, or no case is in any slice."""
    gate.check_named(name for summary in report.summaries for name in (summary.measure, summary.type))
    results, cases = [], CaseScores(ScoreTable(report.scores()))
    for summary in report.summaries:
        if gate.measure in {summary.measure, summary.type}:
            found = cases.of(summary.system, (summary.measure, summary.type), range_of(summary.type))
            names = [cases.cases[at] for at in found.case.tolist()]
            outcome, detail = _decided(gate, names, (found.low, found.high), report)
            results.append(GateResult(gate.name(summary.system), outcome, detail, summary.basis.stand_in))
    return results


def _decided(gate: Gate, names: Sequence[str], ends: Ends, report: ReportData) -> tuple[Outcome, str]:
    if not names:
        return "failed", "nothing was measured"
    if gate.by:
        return _by_slice(gate, names, ends, report)
    if gate.share:
        limit = gate.share.lstrip("<>=")
        op = gate.share.removesuffix(limit)
        found = [float(np.mean(COMPARE[op](end, float(limit)))) for end in ends]
    else:
        found = [float(np.percentile(end, int(gate.how[1:]))) for end in ends]
    return _held(gate, min(found), max(found), f"over {len(names)} cases")


def _held(gate: Gate, low: float, high: float, about: str) -> tuple[Outcome, str]:
    outcome = gate.holds(low, high)
    shown = f"{gate.how} {low:.4f} {about}" if low == high else f"{gate.how} {low:.4f} to {high:.4f} {about}"
    return outcome, f"{shown}, once everything is judged" if outcome == "undecided" else shown


def _by_slice(gate: Gate, names: Sequence[str], ends: Ends, report: ReportData) -> tuple[Outcome, str]:
    """The least or largest mean of all slices; one with too few cases leaves it open where it would decide."""
    numbers = {name: at for at, name in enumerate(names)}
    try:
        slices = slices_of((sample for sample in report.samples() if sample.id in numbers), gate.by)
    except InputError:
        raise gate.no_slices() from None
    rows = {name: sorted(numbers[case] for case in cases) for name, cases in slices.items() if cases}
    means = {name: [fsum(end[mine]) / len(mine) for end in ends] for name, mine in rows.items()}
    shown = ", ".join(
        f"{name} {means[name][0]:.4f} (n={len(rows[name])})"
        for name in sorted(means, key=means.__getitem__)[:5]
    )
    large = [mean for name, mean in means.items() if len(rows[name]) >= SMALLEST]
    if not large:
        return "undecided", f"no slice has {SMALLEST} cases: {shown}"
    pick = min if gate.how == "min" else max
    decided, of_all = (
        _held(gate, pick(low for low, _ in some), pick(high for _, high in some), f": {shown}")
        for some in (large, list(means.values()))
    )
    if decided[0] != of_all[0]:
        return "undecided", f"a slice of fewer than {SMALLEST} cases decides: {shown}"
    return decided[0], shown
