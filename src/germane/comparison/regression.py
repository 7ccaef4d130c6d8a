"""Regression gates: a change against a baseline passes, fails, or is undecided. A mean alone never decides one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from germane.clean import counted
from germane.comparison.corrected import DecidedPair
from germane.comparison.parts import how_judged, verdicts_of
from germane.reports.data import ReportData
from germane.reports.gates import Gate, GateOutcome, GateResult
from germane.reports.pairing import MeasureComparison, PairedSystems, Side, measures_in_common
from germane.reports.summary import higher_is_better, in_digits, interval_in_words, is_diagnostic, p_in_words
from germane.statistics.comparison import decide_change, holm
from germane.statistics.intervals import Interval

ALPHA = 0.05
"""The chance that any measure is called worse although none is."""
_OUTCOME: dict[str, GateOutcome] = {"pass": "passed", "fail": "failed", "undecided": "undecided"}


def settle_changes(report: ReportData, baseline: ReportData, *, every: bool = False) -> None:
    """Decide a report's gates on the change against a baseline; with `every`, also that no measure became worse."""
    declared = [Gate.of_stored(gate) for gate in report.manifest.get("gates", ())]
    changes = change_gates([gate for gate in declared if gate.how == "change"], report, baseline)
    report.settle([*changes, *(regressions(report, baseline) if every else ())])


def change_gates(gates: Sequence[Gate], report: ReportData, baseline: ReportData) -> list[GateResult]:
    """The results of gates on `change(...)`: one per gate and system.

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
                results.append(_change(gate, _compared(gate.name(pair.b.system), pair, measure)))
    return results


def regressions(report: ReportData, baseline: ReportData) -> list[GateResult]:
    """One gate per measure and system that fails where the change is significantly for the worse.

    That is: its whole interval is, and its p-value, adjusted by Holm over all measures and systems, is at most 0.05. What
    passes is not shown to be worse; the result says how much worse it may be. Measures that describe the labels or the
    lists are left out.
    """
    results: list[GateResult] = []
    compared: list[_Compared] = []
    for pair in _pairs(report, baseline):
        if isinstance(pair, str):
            results.append(GateResult(_WORSE, "undecided", pair))
            continue
        of = f" [{pair.b.system}]" if pair.b.system else ""
        both = measures_in_common([pair.a, pair.b])
        common = [name for name in both if not is_diagnostic(pair.b.types[name])]
        compared += [_compared(f"{_WORSE} in {name}{of}", pair, name) for name in common]
        if not common:
            have = "; ".join(f"{side.name}: {', '.join(side.types) or 'none'}" for side in (pair.a, pair.b))
            results.append(GateResult(f"{_WORSE}{of}", "undecided", f"no measure in common ({have})"))
    adjusted = iter(holm([_p(compared.comparison) for compared in compared if not compared.why]))
    return results + [_regression(compared, 1.0 if compared.why else next(adjusted)) for compared in compared]


_WORSE = "not significantly worse"


class _Compared(NamedTuple):
    """One measure of the report against the baseline, for a gate of this name; `why` it decides nothing, "" where it may."""

    name: str
    comparison: MeasureComparison
    why: str
    stand_in: bool

    def result(self, outcome: GateOutcome, more: str = "") -> GateResult:
        """The gate's result; undecided where nothing may be decided."""
        comparison = self.comparison
        difference, interval, _ = comparison.deciding
        text = f"{_change_in_words(difference, interval)} over {counted(comparison.n, 'query')}"
        if comparison.corrected is not None:
            judged = _change_in_words(comparison.difference, comparison.interval)
            text = f"corrected {text}, {counted(comparison.corrected.labels, 'label')}; judged {judged}"
        elif comparison.decided_by == "judged" and not self.stand_in:
            text += f", uncalibrated: {comparison.corrected_why}"
        if self.why:
            why = self.why if difference is None else f"{text}; {self.why}"
            return GateResult(self.name, "undecided", why, self.stand_in, comparison.decided_by)
        return GateResult(self.name, outcome, f"{text}{more}", self.stand_in, comparison.decided_by)


def _compared(name: str, pair: PairedSystems, measure: str) -> _Compared:
    comparison = pair.compare(measure)
    judged = verdicts_of((pair.a, pair.b), measure) != "labels"
    differ = how_judged(pair.a, pair.b, [measure]) if judged else ""
    why = f"{differ}: see germane compare --across-judges" if differ else pair.too_few(comparison)
    same = comparison.n == comparison.due and not (comparison.wins or comparison.losses)
    _, interval, _ = comparison.deciding
    if not (why or same) and interval.ends is None:
        why = f"no interval: {interval.why}"
    stand_in = pair.b.report[measure, pair.b.system].basis.stand_in and comparison.corrected is None
    return _Compared(name, comparison, why, stand_in)


def _p(comparison: MeasureComparison) -> float:
    """The p-value that decides; where scores are missing there is none, and the interval bounds it."""
    _, interval, p = comparison.deciding
    if p is not None:
        return p
    return ALPHA if interval.ends and not interval.ends[0] <= 0 <= interval.ends[1] else 1.0


def _regression(compared: _Compared, p: float) -> GateResult:
    _, interval, _ = compared.comparison.deciding
    if (ends := interval.ends) is None:  # of scores that are all the same
        return compared.result("passed")
    low, high = ends if higher_is_better(compared.comparison.type) else (-ends[1], -ends[0])
    loss = "; a loss within this interval is not excluded" if low < 0 <= high else ""
    return compared.result(
        "failed" if high < 0 and p <= ALPHA else "passed", f", p (Holm) {p_in_words(p)}{loss}"
    )


def _change(gate: Gate, compared: _Compared) -> GateResult:
    below, (_, interval, _) = gate.op in {"<", "<="}, compared.comparison.deciding
    decision = decide_change(interval.negated() if below else interval, gate.limit if below else -gate.limit)
    needed = f"; {decision.needed:,} would decide it where nothing changed" if decision.needed else ""
    return compared.result(_OUTCOME[decision.verdict], needed)


def _change_in_words(difference: float | None, interval: Interval) -> str:
    return f"change {in_digits(difference, '+')} ({interval_in_words(interval.ends, sign='+')})"


def _pairs(report: ReportData, baseline: ReportData) -> Iterator[PairedSystems | str]:
    """Each system of the report with the same one of the baseline (or its only one), or why there is none."""
    for system in report.systems:
        match = system
        if system not in baseline.systems and len(baseline.systems) == len(report.systems) == 1:
            (match,) = baseline.systems
        if match in baseline.systems:
            yield DecidedPair(Side("the baseline", baseline, match), Side("this report", report, system))
        else:
            yield f"the baseline does not hold {system or 'this system'}"
