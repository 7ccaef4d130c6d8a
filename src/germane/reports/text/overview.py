"""A report as text: for a terminal, as plain text, and as Markdown (pull requests, GitHub workflows)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.text import Text

from germane.clean import clean, counted, markdown_text, shorten, some_of
from germane.reports.data import CaseResult, ReportData
from germane.reports.explain import strips
from germane.reports.summary import (
    COUNTS,
    INTERVALS,
    corrected_in_words,
    higher_is_better,
    in_digits,
    interval_in_words,
    means_table,
    range_of,
    with_measures,
)
from germane.show.table import Stack, Table, plain_text
from germane.types import Json, Score

SIGNS = "■ relevant  □ not relevant  · unjudged  ? no verdict"
_WORST = 5  # the number of worst queries and of failed cases shown
_MOST_NOTES = 3  # notes above the means, unless more notes change the meaning of a number
_COLOUR = {0: "green", 3: "yellow", 130: "yellow"}
_STYLE = {"failed": "red", "undecided": "yellow", "passed": "green"}


def render_plain(report: ReportData, width: int = 120, *, every: bool = True) -> str:
    """Return the report as plain text without colour; with `every`, all notes are included."""
    return plain_text(render(report, every=every), width)


def render(report: ReportData, *, every: bool = True) -> RenderableType:
    """Return the report for a rich console; without `every`, only the most important notes are included."""
    return Stack(_sections(report, every=every))


def _sections(report: ReportData, *, every: bool) -> Iterator[RenderableType]:
    """Yield the sections; the verdict is last, because the last lines in a terminal are read first."""
    slices, problem = report.own_slices()
    if problem:
        yield Text(f"no slices: {clean(problem)}", style="yellow")
    if slices:
        yield means_table([line for value in slices for line in value.summaries])
    yield from _worst(report)
    if failed := report.failed():
        yield Text(counted(len(failed), "failed case"), style="red")
        for case in failed[:_WORST]:
            yield Text(f"  {in_digits(case.score)}  {shorten(case_name(case), 60)}")
    yield Text("")
    judge = report.judge
    # notes that change the meaning of a number are always shown; the last line says how many are not
    first = [*filter(None, [judge.stand_in or ""]), *quiet_notes(report)]
    others = [*corrected_in_words(report.summaries), *remarks_of(report)]
    room = len(others) if every else max(_MOST_NOTES - len(first), 0)
    if len(others) > room:
        room = max(room - 1, 0)
    yield from (Text(f"note     {clean(note)}") for note in (*first, *others[:room]))
    if hidden := len(others[room:]):
        more = f"{counted(hidden, 'more note')}: -v, `germane report` and the page show them"
        yield Text(f"note     {more}", style="dim")
    yield Text(f"judge    {judge.source}: {judge.spent}" if judge.source else "judge    no judge calls")
    if report.folder is not None:
        yield Text(f"report   {clean(str(report.folder))}")
    for file in report.files:
        yield Text(f"\n{clean(file.name)}", style="bold")
        yield means_table(file.summaries)
    if report.summaries and not report.files:
        yield means_table(report.summaries)
    if any(summary.interval for summary in report.summaries):
        yield Text(f"  {INTERVALS}", style="dim")
    verdict = report.verdict
    # pytest has its own exit code
    text = Text("\n".join(verdict.lines(exit_code=report.manifest.get("made_by") != "pytest")))
    colour = _COLOUR.get(verdict.exit_code, "red") if verdict.gates or verdict.exit_code else ""
    text.stylize(f"bold {colour}".rstrip(), 9, 9 + len(verdict.word))
    for word, style in _STYLE.items():
        text.highlight_regex(rf"(?m)^  {word}", style)
    yield text


def remarks_of(report: ReportData) -> list[str]:
    """Return the remarks on the labels behind the means, each with its measures, and systems if not all."""
    systems: dict[tuple[str, str], list[str]] = {}
    for line in report.summaries:
        for remark in line.remarks():
            systems.setdefault((remark, line.measure), []).append(line.system)
    every = len(report.systems)
    return list(
        with_measures(
            (remark, measure if len(names) == every else f"{measure} of {some_of(names, 5)}")
            for (remark, measure), names in systems.items()
        )
    )


def quiet_notes(report: ReportData) -> Iterator[str]:
    """Yield the notes printed even with --quiet: two reasons per measure with missing scores, then others."""
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
    notes = report.manifest.get("notes") or {}
    yield from (f"{notes[note]} {note}" if isinstance(notes, dict) else note for note in notes)


def lowest(report: ReportData, most: int) -> list[Score]:
    """Return the first system's `most` worst scores by the first measure, without perfect ones."""
    if not report.summaries or report.summaries[0].n == 0:
        return []
    first = report.summaries[0]
    best = range_of(first.type)[higher_is_better(first.type)]
    return [score for score in report.worst(first.measure, most, first.system) if score.value != best]


def _worst(report: ReportData) -> Iterator[RenderableType]:
    """Yield a line per worst query: score, a sign per retrieved passage (see `SIGNS`), id and query."""
    rows = [
        (in_digits(score.value), strip, shorten(score.sample, 40, end=16), shorten(query, 200))
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
        yield Text("  ".join(["", *padded, query]), no_wrap=True, overflow="ellipsis")


def case_name(case: CaseResult) -> str:
    """Return a case's printed name: the sample id, followed by the system and the trial, if any."""
    trial = f" trial {case.trial}" if case.trial else ""
    return f"{case.sample}{f' of {case.system}' if case.system else ''}{trial}"


_MOST_OUTCOMES, _MOST_GATES, _MOST_MEANS, _MOST_CASES, _MOST_LINES = 3, 6, 8, 10, 40


def markdown(report: ReportData, comparison: Mapping[str, Json] | None = None) -> Iterator[str]:
    """Yield the report as Markdown for a pull request, with the outcomes of `comparison` at the top.

    At most 60 lines are visible; notes are in a collapsed section.
    """
    if comparison:
        sentences = [row["sentence"] for row in comparison["comparisons"] if row["sentence"]]
        yield from _first([f"**{markdown_text(text, 400)}**  \n" for text in sentences], _MOST_OUTCOMES)
    word, (head, *gates) = report.verdict.word, report.verdict.lines()
    yield f"**{word.capitalize()}** {markdown_text(head.removeprefix(f'verdict  {word}'), 600)}\n\n"
    judge = report.judge
    if judge.stand_in:
        yield f"> {markdown_text(judge.stand_in)}\n\n"
    yield from _first([f"- {markdown_text(line, 400)}\n" for line in gates], _MOST_GATES)
    of_slices = [line for value in report.own_slices()[0] for line in value.summaries]
    for summaries in (report.summaries, of_slices):
        yield means_table(summaries, COUNTS).markdown(most=_MOST_MEANS)
    if remarks := remarks_of(report):
        yield f"{markdown_text('; '.join(remarks), 600)}\n\n"
    yield from _worst_table(report)
    texts = [INTERVALS, *remarks, *corrected_in_words(report.summaries)]
    texts += [f"Judge: {judge.source}: {judge.spent}."] if judge.source else []
    texts += [f"gate {gate}" for gate in gates[_MOST_GATES:]]
    lines = [f"- {markdown_text(line, 400)}\n" for line in (*texts, *notes_of(report))]
    yield f"<details><summary>Notes</summary>\n\n{''.join(lines[:_MOST_LINES])}\n</details>\n"


def _first(lines: Sequence[str], most: int) -> Iterator[str]:
    """Yield the first `most` lines, followed by "and N more" if there are more."""
    if lines:
        yield from lines[:most]
        more = len(lines) - most
        yield f"\nand {more} more\n\n" if more > 0 else "\n"


def _worst_table(report: ReportData) -> Iterator[str]:
    """Yield a Markdown table of up to ten cases: failed cases, then the worst by the first measure."""
    table = Table(["query", "score", "details"], "l")
    failed = report.failed()
    for case in failed[:_MOST_CASES]:
        why = f"below its threshold: {', '.join(case.failed_required)}" if case.failed_required else ""
        table.add([case_name(case), in_digits(case.score), why])
    keys = {case.key for case in failed}
    others = [score for score in lowest(report, _MOST_CASES + len(failed)) if score.key not in keys]
    for strip, score, query in strips(report, others[: max(0, _MOST_CASES - len(failed))]):
        name = score.sample + (f" of {score.system}" if score.system else "")
        table.add([name, in_digits(score.value), shorten(f"{strip} {query}".strip(), 160)])
    if table.rows:
        lines = [counted(len(failed), "failed case")] if failed else []
        if len(failed) < len(table.rows):
            measure = markdown_text(report.summaries[0].measure)
            lines.append(f"worst by {measure} ({SIGNS.replace('  ', ', ')})")
        yield f"{', then the '.join(lines)}:\n\n"
        yield table.markdown(most=_MOST_CASES)
