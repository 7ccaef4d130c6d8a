"""Regression gates: a change against a baseline passes, fails, or is undecided. A mean alone never decides one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from germane.comparison.parts import how_judged, verdicts_of
from germane.errors import InputError
from germane.reports.data import ReportData
from germane.reports.gates import Gate, GateResult, Outcome
from germane.reports.pairing import Pair, measures_in_common, sides_of
from germane.reports.report import Report, find_report
from germane.reports.summary import higher_is_better, in_digits, interval_in_words
from germane.statistics.comparison import decide_change

_OUTCOME: dict[str, Outcome] = {"pass": "passed", "fail": "failed", "undecided": "undecided"}


def settle_changes(report: Report, baseline: ReportData, *, every: bool = False) -> None:
    """Decide a report's gates on the change against a baseline; with `every`, also that no measure became worse."""
    declared = [Gate.of_stored(gate) for gate in report.manifest.get("gates", ())]
    changes = change_gates([gate for gate in declared if gate.how == "change"], report, baseline)
    report.settle([*changes, *(regressions(report, baseline) if every else ())])


def find_baseline(path: str | Path | None) -> ReportData:
    """The report that --baseline names; InputError where it names none."""
    if path is None:
        raise InputError("--fail-on-regression needs what it is held against", fix="give --baseline REPORT")
    return find_report(path)


def change_gates(gates: Sequence[Gate], report: ReportData, baseline: ReportData) -> list[GateResult]:
    """What became of gates on `change(...)`: one result per gate and system.

    A gate passes or fails where the whole interval of the paired difference, report minus baseline, is on one side of
    its limit, and is undecided elsewhere: where the baseline lacks the measure, too, or another judge judged it.
    """
    results = []
    for gate in gates:
        for pair in _pairs(report, baseline):
            if isinstance(pair, str):
                results.append(GateResult(str(gate), "undecided", pair))
                continue
            types = pair.b.types
            measure = next((name for name, of in types.items() if gate.measure in {name, of}), None)
            if measure is None or pair.a.types.get(measure) != types[measure]:
                why = f"the baseline does not hold {gate.measure}"
                results.append(GateResult(gate.name(pair.b.system), "undecided", why))
            else:
                results.append(_change(gate.name(pair.b.system), pair, measure, gate))
    return results


def regressions(report: ReportData, baseline: ReportData) -> list[GateResult]:
    """One gate per measure and system that fails where the whole interval of the change is for the worse."""
    results = []
    for pair in _pairs(report, baseline):
        if isinstance(pair, str):
            results.append(GateResult("no regression", "undecided", pair))
            continue
        of = f" [{pair.b.system}]" if pair.b.system else ""
        common = measures_in_common([pair.a, pair.b])
        results += [_change(f"no regression in {name}{of}", pair, name) for name in common]
    return results


def _change(name: str, pair: Pair, measure: str, gate: Gate | None = None) -> GateResult:
    """A gate on the change of a measure; without one, that it is not for the worse."""
    stand_in = pair.b.report[measure, pair.b.system].basis.stand_in
    differ = how_judged(pair.a, pair.b) if verdicts_of((pair.a, pair.b), measure) != "labels" else ""
    if differ:
        return GateResult(name, "undecided", f"{differ}: see germane compare --across-judges", stand_in)
    found = pair.compare(measure)
    ends = found.interval.ends
    shown = interval_in_words(ends, sign="+")
    detail = f"change {in_digits(found.difference, '+')} ({shown}) over {found.n} queries"
    if gate is None:
        worse = ends is not None and (ends[1] < 0 if higher_is_better(found.type) else ends[0] > 0)
        return GateResult(name, "failed" if worse else "passed", detail, stand_in)
    shifted = found.interval.shifted(-gate.limit)
    decision = decide_change(shifted.turned() if gate.op in {"<", "<="} else shifted, 0.0)
    if decision.needed:
        detail += f"; {decision.needed:,} would decide it"
    return GateResult(name, _OUTCOME[decision.verdict], detail, stand_in)


def _pairs(report: ReportData, baseline: ReportData) -> Iterator[Pair | str]:
    """Each system of the report with the same one of the baseline (or its only one), or why there is none."""
    for system in report.systems:
        match = system
        if system not in baseline.systems and len(baseline.systems) == len(report.systems) == 1:
            (match,) = baseline.systems
        if match in baseline.systems:
            a, b = sides_of([baseline, report], [match, system])
            yield Pair(a, b)
        else:
            yield f"the baseline does not hold {system or 'this system'}"
