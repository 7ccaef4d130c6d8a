"""Regression gates: a change against a baseline passes, fails, or is undecided. A mean alone never decides one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from germane.comparison.documents import find_report
from germane.comparison.pairing import Compared, Pair, Side, measures_in_common, sides_of
from germane.comparison.parts import how_judged, verdicts_of
from germane.comparison.result import MeasureComparison, higher_is_better
from germane.errors import InputError
from germane.reports.data import ReportData
from germane.reports.gates import Gate, GateResult, Outcome
from germane.reports.report import Report
from germane.reports.summary import in_digits, interval_in_words
from germane.statistics.comparison import Decision, decide_change

_OUTCOME: Mapping[str, Outcome] = {"pass": "passed", "fail": "failed", "undecided": "undecided"}


def parse_margins(texts: Iterable[str]) -> dict[str, float]:
    """Margins by measure, from texts like 'nDCG@10: 0.02'; InputError for another text."""
    found = {}
    for text in texts:
        name, _, number = text.rpartition(":")
        try:
            margin = float(number.strip().removesuffix("%")) / (100 if number.strip().endswith("%") else 1)
        except ValueError:
            margin = -1.0
        if not name.strip() or not margin >= 0:
            raise InputError(
                f"--margin {text!r} is no measure with the loss that is acceptable",
                fix="write 'nDCG@10: 0.02'",
            )
        found[name.strip()] = margin
    return found


def settle_changes(report: Report, baseline: ReportData | None, *, every: bool = False) -> None:
    """Decide a report's gates on the change against a baseline; with `every`, also that no measure became worse."""
    if baseline is None:
        return
    declared = [Gate.of_stored(gate) for gate in report.manifest.get("gates", ())]
    changes = change_gates([gate for gate in declared if gate.how == "change"], report, baseline)
    report.settle([*changes, *(regressions(report, baseline) if every else ())])


def find_baseline(path: str | Path | None, *, every: bool = False) -> ReportData | None:
    """The report that --baseline names; InputError where there is none and `every` measure is to be held against it."""
    if path is not None:
        return find_report(path, Report.open)
    if every:
        raise InputError("--fail-on-regression needs what it is held against", fix="give --baseline REPORT")
    return None


def change_gates(gates: Sequence[Gate], report: ReportData, baseline: ReportData | None) -> list[GateResult]:
    """What became of gates on `change(...)`: one result per gate and system.

    A gate passes or fails where the whole interval of the paired difference, report minus baseline, is on one side of
    its limit, and is undecided elsewhere: where there is no baseline, too, or another judge judged it.
    """
    results = []
    for gate in gates:
        for pair in _pairs(report, baseline):
            if isinstance(pair, str):
                results.append(GateResult(str(gate), "undecided", pair))
                continue
            name = f"{gate}" + (f" [{pair.b.system}]" if pair.b.system else "")
            measure = next((m for m, both in pair.b.measures.items() if gate.measure in both), None)
            if measure is None or pair.a.measures.get(measure) != pair.b.measures[measure]:
                results.append(GateResult(name, "undecided", f"the baseline does not hold {gate.measure}"))
            else:
                results.append(_change(name, gate, pair, measure))
    return results


def _change(name: str, gate: Gate, pair: Pair, measure: str) -> GateResult:
    stand_in = pair.b.report[measure, pair.b.system].basis.stand_in
    if other := _other_judge(pair, measure):
        return GateResult(name, "undecided", other, stand_in)
    found = pair.compare(measure)
    shifted = found.interval.shifted(-gate.limit)
    decision = decide_change(shifted.turned() if gate.op in {"<", "<="} else shifted, 0.0)
    return GateResult(name, _OUTCOME[decision.verdict], _detail(found, decision), stand_in)


def _detail(found: MeasureComparison, decision: Decision) -> str:
    detail = f"change {in_digits(found.difference, '+')} ({interval_in_words(found.interval.ends, sign='+')}) over {found.n} queries"
    if decision.needed:
        detail += f"; {decision.needed:,} would decide it"
    return detail


def regressions(report: ReportData, baseline: ReportData) -> list[GateResult]:
    """One gate per measure and system that fails where the whole interval of the change is for the worse."""
    results = []
    for pair in _pairs(report, baseline):
        if isinstance(pair, str):
            results.append(GateResult("no regression", "undecided", pair))
            continue
        of = f" [{pair.b.system}]" if pair.b.system else ""
        for measure in measures_in_common([pair.a, pair.b]):
            name = f"no regression in {measure}{of}"
            stand_in = pair.b.report[measure, pair.b.system].basis.stand_in
            if other := _other_judge(pair, measure):
                results.append(GateResult(name, "undecided", other, stand_in))
                continue
            found = pair.compare(measure)
            ends = found.interval.ends
            worse = ends is not None and (ends[1] < 0 if higher_is_better(found.type) else ends[0] > 0)
            detail = _detail(found, Decision("pass", 0.0))
            results.append(GateResult(name, "failed" if worse else "passed", detail, stand_in))
    return results


def _pairs(report: ReportData, baseline: ReportData | None) -> Iterator[Pair | str]:
    """Each system of the report with the same one of the baseline (or its only one), or why there is none."""
    if baseline is None:
        yield "there is no baseline: give --baseline REPORT"
        return
    here, there = Compared(report), Compared(baseline)
    clusters = {**baseline.tables.clusters(), **report.tables.clusters()}
    for system in report.systems:
        only = baseline.systems[0] if len(baseline.systems) == 1 else None
        match = system if system in baseline.systems else only
        if match is None or (only is not None and match != system and len(report.systems) > 1):
            yield f"the baseline does not hold {system or 'this system'}"
            continue
        a, b = sides_of([there, here], [match, system])
        yield Pair(a, b, clusters)


def _other_judge(pair: Pair, measure: str) -> str:
    side: Side = pair.b
    differ = how_judged(pair.a, side) if verdicts_of((pair.a, side), measure) != "labels" else ""
    return f"{differ}: see germane compare --across-judges" if differ else ""
