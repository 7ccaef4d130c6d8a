"""Gates on the scores of the cases: a percentile, a share of the cases, the least or largest mean of a slice."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import fsum

import numpy as np

from germane.errors import InputError
from germane.reports.data import ReportData
from germane.reports.gates import Gate, GateResult, Outcome, compare
from germane.reports.summary import range_of
from germane.tables.cases import CaseScores
from germane.tables.scores import ScoreTable
from germane.types import Sample

SMALLEST = 5
"""Cases that a slice must have for its mean to decide anything."""
_INNER = re.compile(r"(>=|<=|>|<)\s*(\S+)")

Ends = tuple[float, float]
"""The least and the most that a value can still be; equal where nothing is missing."""


def check_by_case(gate: Gate, report: ReportData) -> list[GateResult]:
    """One result per system; InputError where no measure of that name was computed, or no case is in any slice."""
    gate.check_named(name for summary in report.summaries for name in (summary.measure, summary.type))
    results, cases = [], CaseScores(ScoreTable(report.scores()))
    for summary in report.summaries:
        if gate.measure in {summary.measure, summary.type}:
            name = f"{gate}" + (f" [{summary.system}]" if summary.system else "")
            found = cases.of(summary.system, (summary.measure, summary.type), range_of(summary.type))
            names = (cases.cases[at] for at in found.case.tolist())
            ends = zip(found.low.tolist(), found.high.tolist(), strict=True)
            outcome, detail = _decided(gate, dict(zip(names, ends, strict=True)), report)
            results.append(GateResult(name, outcome, detail, summary.basis.stand_in))
    return results


def _mean(ends: Sequence[Ends]) -> Ends:
    return fsum(low for low, _ in ends) / len(ends), fsum(high for _, high in ends) / len(ends)


def _decided(gate: Gate, cases: Mapping[str, Ends], report: ReportData) -> tuple[Outcome, str]:
    if not cases:
        return "failed", "nothing was measured"
    if gate.by:
        return _by_slice(gate, cases, report)
    ends = list(cases.values())
    if gate.how == "share":
        op, limit = _inner(gate)
        counts = [sum(compare(op, end[side], limit) for end in ends) / len(ends) for side in (0, 1)]
        low, high = min(counts), max(counts)
    else:
        level = int(gate.how[1:])
        low, high = (float(np.percentile([end[side] for end in ends], level)) for side in (0, 1))
    return _holds(gate, low, high, f"over {len(ends)} cases")


def _inner(gate: Gate) -> tuple[str, float]:
    found = _INNER.fullmatch(gate.after)
    try:
        assert found is not None
        return found[1], float(found[2])
    except ValueError:
        raise InputError(
            f"{gate}: {gate.after} is no comparison", fix="write share(MEASURE>=0.5)>=0.9"
        ) from None


def _holds(gate: Gate, low: float, high: float, about: str) -> tuple[Outcome, str]:
    shown = f"{gate.how} {low:.4f} {about}" if low == high else f"{gate.how} {low:.4f} to {high:.4f} {about}"
    holds = {compare(gate.op, end, gate.limit) for end in (low, high)}
    if len(holds) > 1:
        return "undecided", f"{shown}, once everything is judged"
    return ("passed" if holds == {True} else "failed"), shown


def _by_slice(gate: Gate, cases: Mapping[str, Ends], report: ReportData) -> tuple[Outcome, str]:
    """The least or largest mean of all slices; one with too few cases leaves it open where it would decide."""
    by = gate.by
    slices: dict[str, set[str]] = {}
    for sample in report.samples():
        for name in sample_slices(sample, by) if sample.id in cases else ():
            slices.setdefault(name, set()).add(sample.id)
    if not slices:
        raise no_slices(gate)
    means = {name: _mean([cases[one] for one in sorted(ids)]) for name, ids in slices.items()}
    large = {name: mean for name, mean in means.items() if len(slices[name]) >= SMALLEST}
    pick = min if gate.how.startswith("min") else max
    shown = ", ".join(
        f"{name} {means[name][0]:.4f} (n={len(slices[name])})"
        for name in sorted(means, key=lambda one: means[one])[:5]
    )
    if not large:
        return "undecided", f"no slice has {SMALLEST} cases: {shown}"
    decided = [
        _holds(
            gate, pick(low for low, _ in some.values()), pick(high for _, high in some.values()), f": {shown}"
        )
        for some in (large, means)
    ]
    if decided[0][0] != decided[1][0]:
        return "undecided", f"a slice of fewer than {SMALLEST} cases decides: {shown}"
    return decided[0][0], shown


def no_slices(gate: Gate) -> InputError:
    """The error that no case is in any slice of a gate."""
    problem = f"the gate {gate}: no case has a tag, or metadata named {gate.by!r}"
    return InputError(problem, fix="write by tag, or give the cases that metadata", place=gate.place)


def sample_slices(sample: Sample, by: str) -> list[str]:
    """The slices that a sample is in: its tags, or the value of a field of its metadata or of a tag `by:value`."""
    tags, metadata = sample.tags, sample.metadata
    if by in {"tag", "tags"}:
        return list(tags)
    found = [tag.partition(":")[2] for tag in tags if tag.startswith(f"{by}:")]
    return found or ([str(metadata[by])] if metadata.get(by) is not None else [])
