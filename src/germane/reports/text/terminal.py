"""A report for people: in the terminal, as plain text and in notebooks; and the sentences that all formats share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

from rich.console import RenderableType
from rich.text import Text

from germane.clean import clean, counted, shorten, some_of
from germane.measures.measure import Measure
from germane.reports.data import ReportData
from germane.reports.derived.cases import CaseResult
from germane.reports.explain import grader_results, strips
from germane.reports.manifest import asked_in_words, circular
from germane.reports.ranking import COUNTS, means_table
from germane.reports.summary import (
    LIKE_THESE,
    MeasureSummary,
    corrected_in_words,
    in_digits,
    interval_in_words,
    range_of,
    with_measures,
)
from germane.show.table import Markup, Table
from germane.show.terminal import hanging, plain_text
from germane.tables.scores import SampleKey
from germane.types import Json, Score

INTERVALS = f"95% confidence intervals ({LIKE_THESE})"
SIGNS = "■ relevant  □ not relevant  · unjudged  ? no verdict"
_WORST = 5
"""The number of worst queries and of failed cases that are shown."""
_HOW_MUCH = re.compile(r"^\d+ of \d+ ")
"""The beginning of the reason of a score that lacks some of its verdicts."""


def render_plain(report: ReportData, width: int = 120, *, every: bool = True) -> str:
    """Return the report as plain text without colour; `every` as of `render`."""
    return plain_text(render(report, every=every), width)


def render_html(report: ReportData) -> str:
    """Return the report for a notebook: the means with their intervals as bars, and the worst queries with their strips.

    It has no script and no colour of its own, so that it is light or dark as its page.
    """
    table = means_table(report, report.files or None, "file" if report.files else "", COUNTS)
    summaries = [summary for file in report.files for summary in file.summaries] or report.summaries
    table.heads.append("")
    for row, summary in zip(table.rows, summaries, strict=True):
        row.append(bar(summary))
    table.notes += [INTERVALS, *remarks_of(report), *corrected_in_words(report.summaries), *_whys(report)]
    table.notes += [*_stand_in(report), *notes_of(report)]
    tables = [table, *filter(None, [_worst(report)])]
    tables[-1].notes += report.verdict.lines()
    return "".join(table.html() for table in tables)


_BAR, _BAR_HEIGHT = 120, 14
"""The size of the bar that shows a mean, in pixels."""


def bar(summary: MeasureSummary) -> Markup:
    """Return a mean and its interval on the range of its measure as SVG; empty without a mean or an end of the range."""
    low, high = range_of(summary.type)
    if summary.mean is None or not isfinite(high - low):
        return Markup()
    mean, ends = summary.mean, summary.interval
    if summary.corrected:
        mean, ends = summary.corrected.mean, summary.corrected.ends

    def at(value: float) -> str:
        return f"{round(2 + (_BAR - 4) * (value - low) / (high - low), 1):g}"

    middle = f"{_BAR_HEIGHT / 2:g}"
    shapes = f'<path d="M2 {middle}H{_BAR - 2}" stroke="currentColor" stroke-opacity=".3"/>'
    if ends is not None:
        start, end = (at(min(max(end, low), high)) for end in ends)
        line = 'stroke="currentColor" stroke-opacity=".5" stroke-width="6"'
        shapes += f'<path d="M{start} {middle}H{end}" {line}/>'
    shapes += f'<circle cx="{at(mean)}" cy="{middle}" r="3" fill="currentColor"/>'
    title = f"{in_digits(mean)}, interval {interval_in_words(ends)}"
    size = f'width="{_BAR}" height="{_BAR_HEIGHT}" viewBox="0 0 {_BAR} {_BAR_HEIGHT}"'
    return Markup(f'<svg {size} role="img" aria-label="{title}">{shapes}</svg>')


_MOST_CALLS = 20
"""The number of searches that are shown."""


def by_call_table(report: ReportData) -> Table:
    """Return a table of the results of each search, a line per search number."""
    several = len(report.systems) > 1
    note = "made by how many samples; spare: all gold had come; repeated: the same query again"
    if (more := len(report.by_call) - _MOST_CALLS) > 0:
        note += f"; {counted(more, 'line')} more in --json"
    heads = ["call", "made", "first hit", "recall so far", "interval", "spare", "repeated"]
    table = Table([*["system"] * several, *heads], "llr" if several else "lr", notes=[note])
    for line in report.by_call[:_MOST_CALLS]:
        recall = in_digits(line.recall), interval_in_words(line.interval)
        repeated = line.repeated if line.call > 1 else None
        cells = [line.call, line.samples, line.first, *recall, line.spare, repeated]
        table.add([*[line.system or "-"] * several, *cells])
    return table


def render(report: ReportData, *, every: bool = True) -> RenderableType:
    """Return the report for a rich console, with every note, or those that change the meaning of a number and a few more."""
    return hanging(_sections(report, every=every))


def _sections(report: ReportData, *, every: bool) -> Iterator[RenderableType]:
    """Yield the sections in the order of a terminal, where the last is read first: details, notes, means, gates, verdict."""
    slices, problem = report.own_slices()
    if problem:
        yield Text(f"no slices: {clean(problem)}", style="yellow")
    if slices:
        yield means_table(report, slices, "slice").rich()
    if report.by_call:
        yield by_call_table(report).rich()
    if len(report.systems) > 1:
        from germane.reports.pairing import rankings  # not at the top: most reports are of one system

        yield from (Text(str(ranking)) for ranking in rankings(report, report.measures[:1]))
    if (worst := _worst(report)) is not None:
        yield worst.rich()
    yield from _failed(report)
    yield Text("")
    yield from _notes(report, None if every else _MOST_NOTES)
    judge = report.judge
    yield Text(f"judge    {judge.source}: {judge.spent}" if judge.source else "judge    no judge calls")
    if report.folder is not None:
        yield Text(f"report   {clean(str(report.folder))}")
    for file in report.files:
        yield Text(f"\n{clean(file.name)}", style="bold")
        yield means_table(report, [file]).rich()
    if not report.files:
        yield means_table(report).rich()
    if any(summary.interval for summary in report.summaries):
        yield Text(f"  {INTERVALS}", style="dim")
    yield _verdict(report)


_MOST_NOTES = 3
"""Notes above the table of means, unless more of them change what a number means."""


def _stand_in(report: ReportData) -> list[str]:
    """Return the note on a judge that stands in for a model; "" for any other judge."""
    return [report.judge.stand_in] if report.judge.stand_in else []


def _notes(report: ReportData, most: int | None) -> Iterator[Text]:
    """Yield the notes, first those that change the meaning of a number; then others up to `most` in all, None = all."""
    counted_notes, whys = list(_counted_notes(report)), [(why, "dim") for why in _whys(report)]
    first = [(note, "") for note in (*_stand_in(report), *counted_notes)]
    others = [*((line, "") for line in corrected_in_words(report.summaries))]
    others += [(remark, "yellow") for remark in remarks_of(report)]
    others += [(note, "") for note in notes_of(report) if note not in counted_notes]
    lost = any(summary.failed for summary in report.summaries)
    first, others = (first + whys, others) if lost else (first, whys + others)
    room = len(others) if most is None else most - len(first)
    if len(others) > room:
        room = max(room - 1, 0)
    yield from (Text(f"note     {clean(note)}", style=style) for note, style in (*first, *others[:room]))
    if hidden := len(others) - min(room, len(others)):
        more = f"{counted(hidden, 'more note')}: -v, `germane report` and the page show them"
        yield Text(f"note     {more}", style="dim")


def _whys(report: ReportData, most: int = 6) -> Iterator[str]:
    """Yield the distinct reasons why scores are missing, with their measures.

    Reasons that differ only in how many verdicts a score lacks are one.
    """
    measures: dict[tuple[str, int], list[str]] = {}
    for summary in report.summaries:
        reasons: Counter[str] = Counter()
        for why, count in summary.why if summary.n < summary.total or summary.failed else ():
            reasons[_HOW_MUCH.sub("", why)] += count
        for reason in reasons.most_common(2):
            measures.setdefault(reason, []).append(summary.measure)
    for (why, count), concerned in list(measures.items())[:most]:
        names = list(dict.fromkeys(concerned))
        named = "every measure" if len(names) == len(report.measures) > 1 else some_of(names, 3)
        yield f"{count} x {shorten(why, 240, end=120)} ({named})"


def remarks_of(report: ReportData) -> list[str]:
    """Return the notes on the basis of the means, each with its measures."""
    return list(
        with_measures((remark, line.measure) for line in report.summaries for remark in line.remarks())
    )


def quiet_notes(report: ReportData) -> Iterator[str]:
    """Yield the notes that change the meaning of a number: missing scores, and what was counted while measuring."""
    yield from _whys(report)
    yield from _counted_notes(report)


def _counted_notes(report: ReportData) -> Iterator[str]:
    if sampled := report.manifest.get("sampled"):
        yield f"{sampled['n']:,} of {sampled['of']:,}, seed {sampled['seed']}"
    yield from _stop_reason(report)
    notes = report.manifest.get("notes") or {}
    yield from (f"{notes[note]} {note}" if isinstance(notes, dict) else note for note in notes)


def notes_of(report: ReportData) -> Iterator[str]:
    """Yield the notes of a report: counted ones, and complete sentences."""
    yield from _counted_notes(report)
    if asked := asked_in_words(report.manifest):
        yield asked
    yield from circular(report.judge, report.manifest.get("targets"))
    yield from _covered(report)


def _stop_reason(report: ReportData) -> Iterator[str]:
    """Return why no more cases were judged, and which intervals are wider than requested."""
    until, sampled = report.manifest.get("until") or {}, report.manifest.get("sampled") or {"n": 0, "of": 0}
    if not (widths := until.get("widths")):
        return
    stages = ", then ".join(f"{count:,}" for count in until.get("stages", ()))
    asked = ", ".join(f"{name} +-{width:g}" for name, width in widths.items())
    bias = "width is not bias: what a judge gets wrong, more cases do not mend"
    yield f"{stages} cases were judged (--until {asked}, or until all are); {bias}"
    by = (
        "by all cases" if sampled["n"] == sampled["of"] else "by any number of cases while so much is missing"
    )
    for summary in report.summaries:
        half = (summary.interval[1] - summary.interval[0]) / 2 if summary.interval else None
        if (width := widths.get(summary.measure)) is not None and (half is None or half > width):
            system = f" of {clean(summary.system)}" if summary.system else ""
            yield f"{summary.measure}{system}: +-{width:g} is not reached {by}, {in_digits(half)} is"


_MOST_COVERED = 20_000
"""Samples of a report whose places are read for a note."""


def _covered(report: ReportData) -> Iterator[str]:
    """Return the share of each system's judged items that had a verdict for the first system."""
    if len(report.systems) < 2 or len(report.tables.scores.samples) > _MOST_COVERED:
        return
    judged: dict[str, set[str]] = {}
    for row in report.places():
        judged.setdefault(row.system, set()).add(row.item)
    first, *others = judged or [""]
    for system in others:
        both = len(judged[system] & judged[first])
        yield f"{both:,} of the {len(judged[system]):,} items judged for {clean(system)} were already judged for {clean(first)}"


def lowest(report: ReportData, most: int) -> list[Score]:
    """Return the worst scores by the first measure of the first system, without perfect ones."""
    if not report.summaries or report.summaries[0].n == 0:
        return []
    first = report.summaries[0]
    definition = Measure.remembered(first.type).definition
    best = definition.range[0] if definition.better == "lower" else definition.range[1]
    worst = report.worst(first.measure, most, first.system)
    return [score for score in worst if score.value != best and definition.good(score.value or 0.0) < 1.0]


def _worst(report: ReportData) -> Table | None:
    """Return the worst queries by the first measure of the first system, with a sign for each place of ranked lists."""
    rows = [
        [in_digits(score.value), strip, score.sample, shorten(query, 200)]
        for strip, score, query in strips(report, lowest(report, _WORST))
    ]
    if not rows:
        return None
    first = report.summaries[0]
    title = f"worst by {first.measure}{f' of {first.system}' if first.system else ''}"
    title += f"   {SIGNS}" if any(strip for _, strip, *_ in rows) else ""
    table = Table([first.measure, "ranks", "query", "asked"], "rl", rows, title=title, cut=True)
    if (more := report.at_worst(first.measure, first.system) - len(rows)) > 0:
        table.notes.append(f"and {more:,} more at {rows[0][0]}")
    return table


Results = Mapping[SampleKey, Sequence[dict[str, Json]]]
"""The results of each grader in each case, in words."""


def failed_cases(report: ReportData, results: Results) -> Iterator[tuple[CaseResult, list[dict[str, Json]]]]:
    """Yield the failed cases, worst first, each with the results of its low-scoring graders."""
    for case in report.failed():
        rows = results.get(case.key, [])
        yield case, [row for row in rows if row["score"] is not None and row["misses"] and row["score"] < 1]


def case_name(case: CaseResult) -> str:
    """Return the id of a case's sample, with its system and trial if there are several."""
    trial = f" trial {case.trial}" if case.trial else ""
    return f"{case.sample}{f' of {case.system}' if case.system else ''}{trial}"


def _failed(report: ReportData) -> Iterator[Text]:
    """Yield the lines of the worst failed cases, with the misses of each grader."""
    if not (failed := report.failed()):
        return
    yield Text(counted(len(failed), "failed case"), style="red")
    for case, rows in list(failed_cases(report, grader_results(report)))[:_WORST]:
        yield Text(f"  {in_digits(case.score)}  {shorten(case_name(case), 60)}")
        for row in rows[:3]:
            missed = shorten("; ".join(row["misses"][:2]), 100)
            yield Text(f"          {clean(row['measure'])}: {missed}", style="dim")


def _verdict(report: ReportData) -> Text:
    verdict = report.verdict
    # pytest has its own exit code
    lines = verdict.lines(exit_code=report.manifest.get("made_by") != "pytest")
    text = Text("\n".join(lines))
    colour = _COLOUR.get(verdict.exit_code, "red") if verdict.gates or verdict.exit_code else ""
    text.stylize(f"bold {colour}".rstrip(), 9, 9 + len(verdict.word))
    for word, style in _STYLE.items():
        text.highlight_regex(rf"(?m)^  {word}", style)
    return text


_COLOUR = {0: "green", 3: "yellow", 130: "yellow"}
_STYLE = {"failed": "red", "undecided": "yellow", "passed": "green"}
