"""Text for the top of a report's HTML page: the main result, the worst slice, and the next steps."""

from __future__ import annotations

from collections.abc import Sequence

from germane.clean import counted
from germane.measures.measure import Measure
from germane.reports.data import ReportData, Slice
from germane.reports.summary import LIKE_THESE, MeasureSummary, in_digits, interval_in_words, is_diagnostic
from germane.types import Json

_LEAST = 5  # cases of a slice that may be called the worst
_STEPS = 3  # the largest number of suggested steps


def answer(report: ReportData) -> Json:
    """Return the first measure's name, mean, meaning and interval for the page; None without a mean."""
    lines = _first(report)
    if not lines:
        return None
    best = _best(lines)
    ends, mean = best.interval, best.in_words()
    if best.corrected is not None:
        ends, mean = best.corrected.ends, f"{in_digits(best.corrected.mean)} corrected"
    words = [f"95% interval {interval_in_words(ends)}, {LIKE_THESE}."] if ends else []
    words += [f"The judge's own mean is {best.in_words()}."] if best.corrected else []
    if len(lines) > 1:
        others = ", ".join(f"{line.system} {in_digits(line.mean)}" for line in lines if line is not best)
        words.append(f"The best of {len(lines)} systems; the others: {others}.")
    name = f"{best.measure} of {best.system}" if len(lines) > 1 else best.measure
    meaning = in_a_sentence(Measure.remembered(best.type).definition.doc)
    return {"name": name, "mean": mean, "text": [name for name in (meaning, *words) if name]}


def in_a_sentence(doc: str) -> str:
    """Return the first sentence of a measure's docstring."""
    first = " ".join(doc.split("\n\n", maxsplit=1)[0].split()).partition(". ")[0].rstrip(".")
    return f"{first}." if first else ""


def weakest(report: ReportData, slices: Sequence[Slice]) -> Json:
    """Return the slice with the worst mean of the first measure; None for fewer than two large slices."""
    lines = _first(report)
    if not lines or not slices:
        return None
    overall = _best(lines)
    results = [
        (value.name, line)
        for value in slices
        for line in value.summaries
        if (line.measure, line.system) == (overall.measure, overall.system) and line.n >= _LEAST
    ]
    if len(results) < 2:
        return None
    good = Measure.remembered(overall.type).definition.good
    name, worst = min(results, key=lambda value: good(value[1].mean or 0.0))
    ends, mean = worst.interval, overall.mean or 0.0
    below = ends is not None and good(ends[0]) < good(mean) and good(ends[1]) < good(mean)
    where = counted(worst.n, "query") + (f", 95% interval {interval_in_words(ends)}" if ends else "")
    of_system = f" of {overall.system}" if overall.system else ""
    sure = "The whole interval is worse than" if below else "That may be chance: the interval holds"
    words = [
        f"{overall.measure}{of_system} over {where}.",
        f"{sure} the mean of all, {in_digits(mean)}.",
        f"It is the worst of {len(results)} slices, so some of the gap is how it was picked.",
    ]
    return {"name": name, "mean": in_digits(worst.mean), "system": overall.system, "text": words}


def next_steps(report: ReportData) -> list[Json]:
    """Return up to three next steps, most urgent first: a sentence with a link in the page or a command."""
    judge, where = report.judge, report.where or "REPORT"
    worst = _step("Read the worst queries.", link="queries")
    if "results" in report.manifest:  # of another program, which alone can ask again
        return [worst]
    steps = []
    lost = max((summary.failed for summary in report.summaries), default=0)
    if lost and judge.source == "labels":
        missing = f"Label more passages: {counted(lost, 'score')} could not be measured without their labels."
        steps.append(_step(missing, f"germane label {where}", "label"))
    elif lost:
        missing = f"Ask again for the {counted(lost, 'score')} that could not be measured."
        steps.append(_step(missing, f"germane run --resume {where}", "queries?only=errors"))
    if any(gate.outcome == "failed" for gate in report.verdict.gates):
        below = "Read the queries that are below a gate, the worst first."
        steps.append(_step(below, link="queries?only=gate"))
    if judge.stand_in:
        what = f"Judge with a model: {judge.source} stands in for one and compares words only."
        steps.append(_step(what, "germane run SAMPLES --judge MODEL"))
    elif any(line.basis.source == "judge" and not line.basis.calibrated for line in report.summaries):
        what = "Label some passages: labels show how far the judge can be trusted, and correct its means."
        steps.append(_step(what, f"germane label {where}", "label"))
    return [*steps, *[worst] * bool(report.measures)][:_STEPS]


def _step(text: str, command: str = "", link: str = "") -> Json:
    """Return a next step: its text, and the command to run or the link to follow."""
    return {"text": text, "command": command, "link": link}


def _first(report: ReportData) -> list[MeasureSummary]:
    """Return each system's summary of the first measured measure that rates quality (not e.g. Judged@10)."""
    summaries = [summary for summary in report.summaries if summary.mean is not None]
    first = next((line for line in summaries if not is_diagnostic(line.type)), next(iter(summaries), None))
    return [summary for summary in summaries if first is not None and summary.measure == first.measure]


def _best(lines: Sequence[MeasureSummary]) -> MeasureSummary:
    """Return the summary with the best mean."""
    good = Measure.remembered(lines[0].type).definition.good
    return max(lines, key=lambda summary: good(summary.mean or 0.0))
