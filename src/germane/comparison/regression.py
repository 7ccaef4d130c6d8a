"""Gates on the change against a baseline, which pass, fail, or are undecided if the interval is too wide."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict

from germane.clean import counted, two_digits
from germane.comparison.judged_pairs import DecidedPair
from germane.reports.data import ReportData
from germane.reports.gates import Gate, GateOutcome, GateResult, with_count
from germane.reports.pairing import OUTCOMES, MeasureComparison, Side, adjusted, measures_in_common
from germane.reports.summary import in_digits, interval_in_words, is_diagnostic, p_in_words
from germane.statistics.intervals import Interval
from germane.statistics.systems import decide_change

__all__ = ["settle_changes"]

_WORSE = "not significantly worse"


def settle_changes(report: ReportData, baseline: ReportData, *, every: bool = False) -> None:
    """Decide a report's gates on changes, and with `every` one per measure that fails if it got worse."""
    pairs = pairs_with(report, baseline)
    declared = [Gate.of_stored(gate) for gate in report.manifest.get("gates", ())]
    pending = [gate for gate in declared if gate.how == "change"]
    changes = [*change_gates(pending, pairs), *(regressions(pairs) if every else ())]
    fields = [asdict(change).items() for change in changes]
    rows = [{key: value for key, value in row if value and key != "word"} for row in fields]
    report.manifest = {**report.manifest, "changes": rows}
    names = set(map(str, pending))
    changes = [change.noting(report.left_out) for change in changes]
    report.decide([*changes, *(gate for gate in report.verdict.gates if gate.gate not in names)])
    for pair in pairs:
        if not isinstance(pair, str) and (note := pair.renamed_note()):
            report.add_note(*note)


def change_gates(gates: Sequence[Gate], pairs: Sequence[DecidedPair | str]) -> list[GateResult]:
    """Return one result per system for each gate on `change(...)`.

    A gate passes or fails if the whole interval of the paired difference (report minus baseline) is on one
    side of its limit, else it is undecided. In `pairs`, a string is why a system cannot be compared.
    """
    results = []
    for gate in gates:
        for pair in pairs:
            if isinstance(pair, str):
                results.append(_undecided(str(gate), pair))
                continue
            name, types = gate.name(pair.b.system), pair.b.types
            measure = next((name for name, kind in types.items() if gate.measure in {name, kind}), None)
            if measure is None or pair.a.types.get(measure) != types[measure]:
                results.append(_undecided(name, f"the baseline has no scores of {gate.measure}"))
            else:
                row, below = pair.decided(measure), gate.op in {"<", "<="}
                interval = row.deciding[1].negated() if below else row.deciding[1]
                verdict, needed = decide_change(interval, gate.limit if below else -gate.limit)
                more = f"; {needed:,} queries would decide if nothing changed" if needed else ""
                results.append(_result(row, name, OUTCOMES[verdict], more))
    return results


def regressions(pairs: Sequence[DecidedPair | str]) -> list[GateResult]:
    """Return a gate's result per measure and system; it fails if the measure got significantly worse.

    It did if its whole interval is on the worse side, and its p-value is at most 0.05 after Holm's adjustment
    over all measures and systems. Measures that only describe labels or lists are left out.
    """
    results: list[GateResult] = []
    rows: list[tuple[str, MeasureComparison]] = []
    for pair in pairs:
        if isinstance(pair, str):
            results.append(_undecided(_WORSE, pair))
            continue
        suffix, sides = f" [{pair.b.system}]" if pair.b.system else "", (pair.a, pair.b)
        common = [name for name in measures_in_common(sides) if not is_diagnostic(pair.b.types[name])]
        rows += [(suffix, pair.decided(name).replace(several=len(pairs) > 1)) for name in common]
        if not common:
            have = "; ".join(f"{side.name}: {', '.join(side.types) or 'none'}" for side in sides)
            results.append(_undecided(f"{_WORSE}{suffix}", f"no measure in common ({have})"))
    settled = adjusted((row for _, row in rows), {row.measure for _, row in rows})
    return results + [regression(row, suffix) for (suffix, _), row in zip(rows, settled, strict=True)]


def _undecided(gate: str, why: str) -> GateResult:
    return GateResult(gate=gate, outcome="undecided", detail=why)


def regression(row: MeasureComparison, suffix: str = "") -> GateResult:
    """Return the result of the gate on a measure getting significantly worse; `suffix` is " [SYSTEM]" or ""."""
    suffix = f" [{row.b}]" if row.several else suffix
    name, worse = f"{_WORSE} in {row.measure}{suffix}", row.finding == "worse"
    sentence = f"{row.measure}{suffix} got worse: {row.figure}" if worse else row.sentence()
    loss = 0.0 if row.gain.ends is None or row.gain.ends[1] < 0 else -row.gain.ends[0]
    more = f", p (Holm) {p_in_words(row.p_holm)}" if row.p_holm is not None else ""
    if loss > 0:
        more += "; a loss within this interval is not excluded"
        sentence += f"; a loss of {two_digits(loss)} is not excluded" if row.finding != "same" else ""
    elif worse:
        sentence += f", {counted(row.n, 'query')}{more}{_uncalibrated(row)}"
    return _result(row, name, "failed" if worse else "passed", more, sentence)


def within_margin(row: MeasureComparison) -> GateResult:
    """Return the result of the gate that passes if a measure lost less than its margin (`row.decision`)."""
    measure = f"{row.measure} [{row.b}]" if row.several else row.measure
    outcome, name = OUTCOMES[row.decision or "undecided"], f"{measure}, margin {row.margin:g}"
    sentence = f"{name}: {row.figure}"
    if outcome == "failed":
        sentence = f"{measure} got worse: {row.figure}, beyond the margin {row.margin:g}"
    more = ""
    if row.needed_to_decide:
        more = f"; with {row.needed_to_decide:,} queries a system that is no worse would likely pass"
    return _result(row, name, outcome, more, sentence + more)


def _result(
    row: MeasureComparison, name: str, outcome: GateOutcome, more: str = "", sentence: str = ""
) -> GateResult:
    """Return a gate's result on the change in `row`; undecided if the comparison cannot decide."""
    difference, interval, _ = row.deciding
    text = f"{_change_in_words(difference, interval)} over {counted(row.n, 'query')}"
    if row.corrected is not None:
        judged = _change_in_words(row.difference, row.interval)
        text = f"corrected {text}, {counted(row.corrected.labels, 'label')}; judged {judged}"
    text += _uncalibrated(row)
    why = row.undecided_why or ("" if interval.ends else f"no interval: {interval.why}")
    same = row.n == row.due and row.n and not (row.wins or row.losses)
    if why and not (same and not row.undecided_why):
        detail, outcome = why if difference is None else f"{text}; {why}", "undecided"
        sentence = sentence and f"no decision on {row.measure}: {why}"
    else:
        more += row.interval.note and f"; {row.interval.note}"
        sentence += sentence and row.interval.note and f"; {row.interval.note}"
        detail = f"{text}{more}"
    result = GateResult(gate=name, outcome=outcome, detail=detail, sentence=sentence)
    result = result.replace(stand_in=row.stand_in, decided_by=row.decided_by)
    return with_count(result, row.n, row.asked, "query")


def _uncalibrated(row: MeasureComparison) -> str:
    """Return a clause on why labels do not correct a judged difference; "" if it needs none."""
    judged = row.decided_by == "judged" and not row.stand_in
    return f", uncalibrated: {row.corrected_why}" if judged else ""


def _change_in_words(difference: float | None, interval: Interval) -> str:
    return f"change {in_digits(difference, '+')} ({interval_in_words(interval.ends, sign='+')})"


def pairs_with(report: ReportData, baseline: ReportData) -> list[DecidedPair | str]:
    """Return each system of the report paired with the same system of the baseline.

    If the baseline does not contain the system, a string that says so is returned instead of the pair. If
    each report has only one system, these two are paired whatever their names.
    """
    alone = len(baseline.systems) == len(report.systems) == 1
    pairs: list[DecidedPair | str] = []
    for system in report.systems:
        match = baseline.systems[0] if alone else system
        if match in baseline.systems:
            name = "this report" if alone else system or "this system"
            pairs.append(DecidedPair(Side("the baseline", baseline, match), Side(name, report, system)))
        else:
            pairs.append(f"the baseline has no scores of {system or 'this system'}")
    return pairs
