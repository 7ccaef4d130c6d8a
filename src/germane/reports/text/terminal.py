"""Print a report in the terminal or as plain text, and collect the notes that all formats show."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from germane.clean import clean, counted, shorten
from germane.measures.measure import Measure
from germane.reports.data import ReportData
from germane.reports.derived.cases import CaseResult
from germane.reports.explain import strips
from germane.reports.ranking import means_table
from germane.reports.summary import INTERVALS, corrected_in_words, in_digits, interval_in_words, with_measures
from germane.show.terminal import hanging, plain_text
from germane.types import Score

SIGNS = "■ relevant  □ not relevant  · unjudged  ? no verdict"
_WORST = 5  # queries with the lowest scores, and failed cases


def render_plain(report: ReportData, width: int = 120, *, every: bool = True) -> str:
    """Return the report as plain text without colour; `every` includes every note, as in `render`."""
    return plain_text(render(report, every=every), width)


def render(report: ReportData, *, every: bool = True) -> RenderableType:
    """Return the report for a rich console; without `every`, only the most important notes are shown."""
    return hanging(_sections(report, every=every))


def _sections(report: ReportData, *, every: bool) -> Iterator[RenderableType]:
    """Yield the report's sections, ending with the verdict: the last lines in a terminal are read first."""
    slices, problem = report.own_slices()
    if problem:
        yield Text(f"no slices: {clean(problem)}", style="yellow")
    if slices:
        yield means_table(report, slices, "slice").rich()
    yield from _worst(report)
    if failed := report.failed():
        yield Text(counted(len(failed), "failed case"), style="red")
        for case in failed[:_WORST]:
            yield Text(f"  {in_digits(case.score)}  {shorten(case_name(case), 60)}")
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


_MOST_NOTES = 3  # above the means, unless more of them change what a number means


def _notes(report: ReportData, most: int | None) -> Iterator[Text]:
    """Yield up to `most` notes (None = all); those that change what a number means are always shown."""
    first = [*filter(None, [report.judge.stand_in or ""]), *quiet_notes(report)]
    others = [*corrected_in_words(report.summaries), *remarks_of(report)]
    room = len(others) if most is None else max(most - len(first), 0)
    if len(others) > room:  # the last line says how many more there are
        room = max(room - 1, 0)
    yield from (Text(f"note     {clean(note)}") for note in (*first, *others[:room]))
    if hidden := len(others[room:]):
        more = f"{counted(hidden, 'more note')}: -v, `germane report` and the page show them"
        yield Text(f"note     {more}", style="dim")


def remarks_of(report: ReportData) -> list[str]:
    """Return the remarks on the labels behind the means (e.g. "uncalibrated"), each with its measures."""
    remarks = ((remark, line.measure) for line in report.summaries for remark in line.remarks())
    return list(with_measures(remarks))


def quiet_notes(report: ReportData) -> Iterator[str]:
    """Yield the notes that --quiet prints, too: up to two reasons per measure with missing scores, then the report's notes."""
    yield from with_measures(
        (f"{count} x {shorten(why, 240, end=120)}", summary.measure)
        for summary in report.summaries
        if summary.n < summary.total or summary.failed
        for why, count in summary.why[:2]
    )
    yield from notes_of(report)


def notes_of(report: ReportData) -> Iterator[str]:
    """Yield a report's notes: a random sample of cases, why --until stopped, and problems during the run."""
    if sampled := report.manifest.get("sampled"):
        yield f"a random sample of {sampled['n']:,} of {sampled['of']:,} cases, seed {sampled['seed']}"
    yield from _stop_reason(report)
    notes = report.manifest.get("notes") or {}
    yield from (f"{notes[note]} {note}" if isinstance(notes, dict) else note for note in notes)


def _stop_reason(report: ReportData) -> Iterator[str]:
    """Yield a note on --until: the number of cases judged, and the intervals that are still too wide."""
    until = report.manifest.get("until") or {}
    widths = until.get("widths") or {}
    if widths:
        stages = ", then ".join(f"{count:,}" for count in until.get("stages", ()))
        yield f"{stages} cases were judged for --until; more cases narrow an interval, but do not improve the judge"
    for summary in report.summaries:
        width, ends = widths.get(summary.measure), summary.interval
        if width is not None and (ends is None or ends[1] - ends[0] > 2 * width):
            reached = interval_in_words(ends) if ends else "no interval"
            yield f"the interval of {summary.measure} is wider than --until asked for, +-{width:g}: {reached}"


def lowest(report: ReportData, most: int) -> list[Score]:
    """Return up to `most` of the first system's worst scores by the first measure, no perfect ones."""
    if not report.summaries or report.summaries[0].n == 0:
        return []
    first = report.summaries[0]
    definition = Measure.remembered(first.type).definition
    best = definition.range[0] if definition.better == "lower" else definition.range[1]
    worst = report.worst(first.measure, most, first.system)
    return [score for score in worst if score.value != best and definition.good(score.value or 0.0) < 1.0]


def _worst(report: ReportData) -> Iterator[RenderableType]:
    """Yield a line per worst query: its score, a sign per retrieved passage (see `SIGNS`), id and text."""
    rows = [
        (in_digits(score.value), strip, clean(score.sample), shorten(query, 200))
        for strip, score, query in strips(report, lowest(report, _WORST))
    ]
    if not rows:
        return
    first = report.summaries[0]
    title = f"worst by {clean(first.measure)}{f' of {clean(first.system)}' if first.system else ''}"
    has_strips = any(strip for _, strip, *_ in rows)
    yield Text(f"{title}   {SIGNS}" if has_strips else title)
    widths = [max(map(len, cells)) for cells in list(zip(*rows, strict=True))[:-1]]
    for *cells, query in rows:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True) if width)
        line = Text("  ".join(["", *padded, query]), no_wrap=True, overflow="ellipsis")
        yield Group(line)  # not a line of `hanging`, which wraps


def case_name(case: CaseResult) -> str:
    """Return a case's printed name: the sample's id, and the system and trial if there are any."""
    trial = f" trial {case.trial}" if case.trial else ""
    return f"{case.sample}{f' of {case.system}' if case.system else ''}{trial}"


def _verdict(report: ReportData) -> Text:
    """Return the verdict and the results of its gates, coloured by outcome."""
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
