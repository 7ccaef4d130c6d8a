"""How a report looks: a table in the terminal, and files by their extension."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from html import escape
from itertools import chain, islice
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from msgspec import UNSET
from rich.console import Group, RenderableType
from rich.text import Text

from germane.clean import (
    Markup,
    cell,
    clean,
    counted,
    html_lines,
    html_table,
    markdown_table,
    markdown_text,
    shorten,
    some_of,
)
from germane.errors import InputError
from germane.measures.measure import Measure
from germane.reports.correct import corrected_in_words
from germane.reports.data import CaseResult, ReportData, Slice, system_lines
from germane.reports.explain import MOST_EXPLAINED, explained, strips
from germane.reports.gates import worst_exit_code
from germane.reports.manifest import asked_in_words, circular, spent_in_words
from germane.reports.pairing import rankings
from germane.reports.ranking import TextTable
from germane.reports.schema import CaseRow, JudgeLine, ResultRow, SearchLine, line_of
from germane.reports.summary import (
    LIKE_THESE,
    MeasureSummary,
    in_digits,
    interval_in_words,
    p_in_words,
    range_of,
)
from germane.tables.folder import is_own
from germane.tables.scores import SampleKey, dump_score
from germane.types import Json, Score
from germane.wholetable import CutRows, HangingText, plain_text

if TYPE_CHECKING:
    from germane.reports.page.excerpt import Excerpt

_WORST = 5

COUNTS = ("skipped", "incomplete", "errors")
"""The counts of scores without a value that stand beside a mean."""

_STYLES = {"mean": "bold", "skipped": "dim", "incomplete": "yellow", "errors": "red"}
_HOW_MUCH = re.compile(r"^\d+ of \d+ ")
"""How the reason of a score that lacks some of its verdicts begins."""


Words = Mapping[SampleKey, Sequence[dict[str, Json]]]
"""What each grader found in each case, in words."""


_INTERVALS = f"intervals: 95%, {LIKE_THESE}"


def render_plain(report: ReportData, width: int = 120) -> str:
    """The report as plain text, without colour."""
    return plain_text(render(report), width)


def render_html(report: ReportData) -> str:
    """The report for a notebook: the means with their intervals as bars, and the worst queries with their strips.

    No script, no colour of its own, so that it is light or dark as its page.
    """
    lines = _lines(report.files) or [("", summary) for summary in report.summaries]
    table = _table(report, lines, "file" if report.files else "", counts=COUNTS)
    rows = [[*row, bar(summary)] for row, (_, summary) in zip(table.rows, lines, strict=True)]
    remarks = [_INTERVALS, *remarks_of(report), *corrected_in_words(report.summaries)]
    parts = [html_table([*table.header, ""], rows, remarks)]
    if lowest := _lowest(report, _WORST):
        worst = (
            (in_digits(score.value), strip, score.sample, shorten(query, 80))
            for strip, score, query in strips(report, lowest)
        )
        first = report.summaries[0]
        heads = (first.measure, "ranks", f"worst of {first.system}" if first.system else "worst", "query")
        parts.append(html_table(heads, worst, [_SIGNS]))
    return "".join([*parts, html_lines(report.verdict.lines())])


_SIGNS = "■ relevant  □ not relevant  · unjudged  ? no verdict"
_BAR, _BAR_HEIGHT = 120, 14
"""Pixels of the bar that shows a mean."""


def bar(summary: MeasureSummary) -> Markup:
    """A mean and its interval on the range of its measure, as an SVG element; nothing where there is no mean or no end."""
    low, high = range_of(summary.type)
    if summary.mean is None or not isfinite(high - low):
        return Markup()

    def at(value: float) -> float:
        return round(2 + (_BAR - 4) * (value - low) / (high - low), 1)

    middle = _BAR_HEIGHT / 2
    shapes = [f'<path d="M2 {middle:g}H{_BAR - 2}" stroke="currentColor" stroke-opacity=".3"/>']
    if summary.interval is not None:
        ends = "H".join(f"{at(min(max(end, low), high)):g}" for end in summary.interval)
        start, _, end = ends.partition("H")
        shapes.append(
            f'<path d="M{start} {middle:g}H{end}" stroke="currentColor" stroke-opacity=".5" stroke-width="6"/>'
        )
    shapes.append(f'<circle cx="{at(summary.mean):g}" cy="{middle:g}" r="3" fill="currentColor"/>')
    title = f"{summary.in_words()}, interval {summary.interval_in_words()}"
    return Markup(
        f'<svg width="{_BAR}" height="{_BAR_HEIGHT}" viewBox="0 0 {_BAR} {_BAR_HEIGHT}" role="img"'
        f' aria-label="{title}">{"".join(shapes)}</svg>'
    )


def _table(
    report: ReportData,
    lines: Sequence[tuple[str, MeasureSummary]],
    first: str = "",
    counts: Sequence[str] | None = None,
) -> TextTable:
    """A line per summary, whose name stands under a `first` heading where there is one.

    `counts` are the columns of counts; None = those in which anything stands.
    """
    zero = "0" if counts else "-"
    if counts is None:
        counts = [name for name in COUNTS if any(getattr(summary, name) for _, summary in lines)]
    names = [*filter(None, [first]), *(["system"] if len(report.systems) > 1 else []), "measure"]
    table = TextTable([*names, "mean", "interval", "n", *counts], names=len(names))
    for name, value in lines:
        called = {first: name, "system": value.system, "measure": value.measure}
        numbers = [value.in_words(), value.interval_in_words(), value.count_in_words()]
        cells = [str(getattr(value, count) or zero) for count in counts]
        table.add([*(clean(called[head]) or "-" for head in names), *numbers, *cells])
    return table


def by_call_table(report: ReportData) -> TextTable:
    """What each search of the samples brought, a line per number of the search."""
    several = len(report.systems) > 1
    table = TextTable([*["system"] * several, "call", *_CALL_HEADS], names=1 + several)
    for search_line in report.by_call[:_MOST_CALLS]:
        counts = [
            search_line.first,
            in_digits(search_line.recall),
            interval_in_words(search_line.interval),
            search_line.spare,
        ]
        visible = [search_line.samples, *counts, search_line.repeated if search_line.call > 1 else None]
        cells = ["-" if cell is None else str(cell) for cell in visible]
        table.add([*[clean(search_line.system) or "-"] * several, str(search_line.call), *cells])
    return table


_CALL_HEADS = ("made", "first hit", "recall so far", "interval", "spare", "repeated")
_MOST_CALLS = 20
BY_CALL = "made by how many samples; spare: all gold had come; repeated: the same query again"


def _lines(slices: Iterable[Slice]) -> list[tuple[str, MeasureSummary]]:
    return [(value.name, summary) for value in slices for summary in value.summaries]


def render(report: ReportData) -> RenderableType:
    """The report for a rich console."""
    return Group(*(HangingText(part) if isinstance(part, Text) else part for part in _parts(report)))


def _parts(report: ReportData) -> Iterator[RenderableType]:
    """What to look into first, what the means rest on, and last, where a terminal stops: means, gates and verdict."""
    slices, problem = slices_shown(report)
    if problem:
        yield Text(f"no slices: {clean(problem)}", style="yellow")
    if slices:
        yield _table(report, _lines(slices), "slice").rich(_STYLES)
    if report.by_call:
        yield by_call_table(report).rich()
        yield Text(f"  {BY_CALL}", style="dim")
    yield from (Text(str(ranking)) for ranking in rankings(report, report.measures[:1]))
    yield from _worst(report)
    yield from _failed(report)
    yield Text("")
    yield from (Text(f"note     {clean(remark)}", style="yellow") for remark in remarks_of(report))
    yield from (Text(f"note     {clean(line)}") for line in corrected_in_words(report.summaries))
    yield from _whys(report)
    judge = report.manifest.get("judge") or {}
    if judge.get("stand_in"):
        yield Text(f"note     {judge['stand_in']}", style="yellow")
    yield from (Text(f"note     {note}") for note in notes_of(report))
    source = judge.get("source")
    yield Text(f"judge    {source}: {spent_in_words(judge)}" if source else "judge    none asked")
    if report.folder is not None:
        yield Text(f"report   {report.folder}")
    for file in report.files:
        yield Text(f"\n{clean(file.name)}", style="bold")
        yield _table(report, _lines([file])).rich(_STYLES)
    if not report.files:
        yield _table(report, [("", summary) for summary in report.summaries]).rich(_STYLES)
    if any(summary.interval for summary in report.summaries):
        yield Text(f"  {_INTERVALS}", style="dim")
    yield _verdict(report)


def slices_shown(report: ReportData) -> tuple[Sequence[Slice], str]:
    """The slices that the report is shown in, or why there are none."""
    if not report.by:
        return (), ""
    try:
        return report.slices(report.by), ""
    except InputError as error:
        return (), str(error)


def _whys(report: ReportData, most: int = 6) -> Iterator[Text]:
    """Why scores are missing: each reason once, with the measures that it concerns.

    How many verdicts a score lacks makes no other reason.
    """
    measures: dict[tuple[str, int], list[str]] = {}
    for summary in report.summaries:
        reasons: Counter[str] = Counter()
        for why, count in summary.why if summary.n < summary.total else ():
            reasons[_HOW_MUCH.sub("", why)] += count
        for reason in reasons.most_common(2):
            measures.setdefault(reason, []).append(summary.measure)
    for (why, count), concerned in list(measures.items())[:most]:
        names = list(dict.fromkeys(concerned))
        named = "every measure" if len(names) == len(report.measures) > 1 else some_of(names, 3)
        yield Text(f"note     {count} x {shorten(why, 240, end=120)} ({named})", style="dim")


def remarks_of(report: ReportData) -> list[str]:
    """What must be said of the means' basis, each with the measures that it concerns."""
    measures: dict[str, dict[str, None]] = {}
    for summary in report.summaries:
        for remark in summary.remarks():
            measures.setdefault(remark, {})[summary.measure] = None
    return [f"{remark} ({', '.join(concerned)})" for remark, concerned in measures.items()]


def notes_of(report: ReportData) -> Iterator[str]:
    """What a reader should know: counted notes, or sentences as they are."""
    if sampled := report.manifest.get("sampled"):
        yield sampled_in_words(sampled)
    yield from _until(report)
    notes = report.manifest.get("notes") or {}
    yield from (f"{notes[note]} {note}" if isinstance(notes, dict) else note for note in notes)
    if asked := asked_in_words(report.manifest):
        yield asked
    yield from circular(report.manifest)
    yield from _covered(report)


def sampled_in_words(sampled: Mapping[str, int]) -> str:
    """How many cases were drawn of how many, and with which seed, from a manifest's entry."""
    return f"{sampled['n']:,} of {sampled['of']:,}, seed {sampled['seed']}"


def _until(report: ReportData) -> Iterator[str]:
    """Why no more cases were judged, and what that says and does not say."""
    until = report.manifest.get("until") or {}
    stages = ", then ".join(f"{count:,}" for count in until.get("stages", ()))
    if widths := until.get("widths"):
        asked = ", ".join(f"{name} +-{width:g}" for name, width in widths.items())
        yield (
            f"{stages} cases were judged for intervals as narrow as asked (--until): {asked}; width is not bias: what a "
            "judge gets wrong, more cases do not mend"
        )
        for summary in report.summaries:
            half = (summary.interval[1] - summary.interval[0]) / 2 if summary.interval else None
            if (width := widths.get(summary.measure)) is not None and (half is None or half > width):
                system = f" of {summary.system}" if summary.system else ""
                yield f"{summary.measure}{system}: +-{width:g} is not reached by all cases, {in_digits(half)} is"
    for name, gate in (until.get("gates") or {}).items():
        text = (
            "not decided by all cases" if gate["above"] is None else f"decided by {stages.split()[-1]} cases"
        )
        ends = interval_in_words(gate["interval"])
        yield f"{name}: {text}; its mean is {ends} by a confidence sequence, which holds whenever one stops"
    if until.get("gates"):
        yield "intervals in tables are for a number of cases that is fixed before: --until-decided stopped when it saw enough"


_MOST_COVERED = 20_000
"""Samples up to which what was judged of them is read back for a note."""


def _covered(report: ReportData) -> Iterator[str]:
    """How much of what was judged for each system the verdicts on the first one had covered."""
    if len(report.systems) < 2 or len(report.tables.scores.samples) > _MOST_COVERED:
        return
    items = report.tables.items
    judged: dict[str, set[str]] = {}
    for system, item in zip(items.column("system"), items.column("item"), strict=True):
        judged.setdefault(system, set()).add(item)
    first, *others = judged or [""]
    for system in others:
        both = len(judged[system] & judged[first])
        yield f"{both:,} of the {len(judged[system]):,} items judged for {system} were already judged for {first}"


def _lowest(report: ReportData, most: int) -> list[Score]:
    """The worst scores by the first measure of the first system, without those that could not be better."""
    if not report.summaries or report.summaries[0].n == 0:
        return []
    first = report.summaries[0]
    good = Measure.remembered(first.type).definition.good
    return [
        score for score in report.worst(first.measure, most, first.system) if good(score.value or 0.0) < 1.0
    ]


def _worst(report: ReportData) -> Iterator[RenderableType]:
    lowest = _lowest(report, _WORST)
    if not lowest:
        return
    first = report.summaries[0]
    rows = [
        (Text(f"{score.value:.4f}"), Text(strip), Text(clean(score.sample), style="cyan"), Text(clean(query)))
        for strip, score, query in strips(report, lowest)
    ]
    of_system = f" of {clean(first.system)}" if first.system else ""
    yield Text(f"worst by {first.measure}{of_system}   {_SIGNS}")
    yield CutRows(rows, "rrl")
    if (more := report.at_worst(first.measure, first.system) - len(rows)) > 0:
        yield Text(f"  and {more:,} more at {rows[0][0].plain}", style="dim")


def _failed(report: ReportData) -> Iterator[Text]:
    """The worst of the failed cases, with what each of their graders missed."""
    failed = list(failed_cases(report))
    if failed:
        yield Text(counted(len(failed), "failed case"), style="red")
    for case, rows in failed[:_WORST]:
        yield Text(f"  {in_digits(case.score)}  {shorten(_case_name(case), 60)}")
        for row in rows[:3]:
            missed = shorten("; ".join(row["misses"][:2]), 100)
            yield Text(f"          {clean(row['measure'])}: {missed}", style="dim")


def _verdict(report: ReportData) -> Text:
    verdict = report.verdict
    lines = verdict.lines(exit_code=report.manifest.get("made_by") != "pytest")  # whose own code says less
    text = Text("\n".join(lines))
    colour = _COLOUR.get(verdict.exit_code, "red") if verdict.gates or verdict.exit_code else ""
    text.stylize(f"bold {colour}".rstrip(), 9, 9 + len(verdict.word))
    start = len(lines[0]) + 1
    for line in lines[1:]:
        word = line.split(maxsplit=1)[0]
        text.stylize(_STYLE[word], start + 2, start + 2 + len(word))
        start += len(line) + 1
    return text


_COLOUR = {0: "green", 3: "yellow", 130: "yellow"}
_STYLE = {"failed": "red", "undecided": "yellow", "passed": "green"}


def json_document(report: ReportData, *, scores: bool = True) -> dict[str, Json]:
    """The document of `--json`; its schema is published."""
    document: dict[str, Json] = {
        "schema_version": 1,
        "passed": report.verdict.passed,
        "exit_code": report.verdict.exit_code,
        "report": str(report.folder) if report.folder is not None else None,
        "judge": _judge(report.manifest.get("judge") or {}),
        "verdict": list(report.verdict.reasons),
        "gates": report.verdict.as_json()["gates"],
        "notes": list(notes_of(report)),
    }
    systems = system_lines(report.summaries)
    document |= {"systems": systems} if len(systems) > 1 else {"measures": systems[0]["measures"]}
    if report.files:
        files = (system_lines(file.summaries, file=file.name) for file in report.files)
        document["files"] = list(chain.from_iterable(files))
    if slices := slices_shown(report)[0]:
        lines = (system_lines(value.summaries, slice=value.name) for value in slices)
        document["slices"] = list(chain.from_iterable(lines))
    if report.by_call:
        document["by_call"] = [line_of(SearchLine, search_line) for search_line in report.by_call]
    if ranked := rankings(report, report.measures):
        document["ranking"] = [systems.as_json() for systems in ranked]
    if scores:
        document["scores"] = list(map(dump_score, report.scores()))
    words = _words(report) if scores else {}
    document["cases"] = [_case(case, words) for case in report.cases()]
    if corpus := report.manifest.get("corpus"):
        document["corpus"] = corpus
    if report.stopped:
        document["stopped"] = report.stopped
    return document


def json_documents(documents: Mapping[str, dict[str, Json]]) -> dict[str, Json]:
    """The document of `--json` of several evaluations, from that of each by its path."""
    code = worst_exit_code(document["exit_code"] for document in documents.values())
    return {"schema_version": 1, "passed": code == 0, "exit_code": code, "reports": dict(documents)}


def _judge(entry: Mapping[str, Json]) -> dict[str, Json]:
    counts = {name: entry.get(name, 0) for name in ("calls", "cached", "shared", "requests", "errors")}
    tokens = {"input": 0, "output": 0, **(entry.get("tokens") or {})}
    more = {
        name: UNSET if entry.get(name) in {None, ""} else entry[name] for name in ("estimated", "stand_in")
    }
    return line_of(
        JudgeLine,
        None,
        source=entry.get("source"),
        **counts,
        tokens=tokens,
        cost_usd=entry.get("cost_usd"),
        **more,
    )


def _words(report: ReportData) -> dict[SampleKey, list[dict[str, Json]]]:
    """What each grader found in each case, in words; reports of a ranking have no graders."""
    result: dict[SampleKey, list[dict[str, Json]]] = {}
    for score, why in explained(report) if report.manifest.get("graders") else ():
        key = score.key
        grader = report.graders_of(key).get(score.measure)
        fields = {name: why.as_json()[name] for name in _SAID}
        fields["misses"] = why.missed(grader.expected_relevant_count if grader else None)
        row = line_of(ResultRow, score, score=score.value, **fields)
        result.setdefault(key, []).append(row)
    return result


_SAID = ("hits", "misses", "reasoning", "details")


def _case(case: CaseResult, words: Words) -> dict[str, Json]:
    named = {} if case.system or case.trial else {"system": UNSET, "trial": UNSET}
    results = words.get(case.key) or UNSET
    return line_of(CaseRow, case, failed_required=list(case.failed_required), results=results, **named)


def _jsonl(report: ReportData) -> Iterator[str]:
    """One score per line, with what must be said of its mean, hits, misses and reasoning, and the verdict on its case."""
    words, verdicts, remarks = _words(report), _verdicts(report), _remarks(report)
    if not words and not any(remarks.values()):
        yield from (line.decode() for line in report.tables.scores.lines())
        return
    said = chain.from_iterable(words.values())
    for score in report.scores():
        line = dict(dump_score(score))
        if results := remarks[score.system, score.measure]:
            line["remarks"] = results
        if words:
            row = next(said)
            line["verdict"] = verdicts.get(score.key)
            line |= {name: row[name] for name in _SAID}
        yield json.dumps(line, ensure_ascii=False) + "\n"


def left_out(report: ReportData, kind: str) -> str:
    """The columns that a format of this ending leaves out of a report that is too large for them; "" where none."""
    names = _LEFT_OUT.get(kind, "")
    count = len(report.tables.scores)
    if not names or count <= MOST_EXPLAINED or not report.manifest.get("graders"):
        return ""
    return f"without {names}: they are written for up to {MOST_EXPLAINED:,} scores, and this report has {count:,}"


_LEFT_OUT = {
    ".csv": "hits, misses, reasoning and relevance_checks",
    ".md": "what each grader found in the worst cases",
    ".json": "the results of each case (hits, misses, reasoning, details)",
    ".jsonl": "verdict, hits, misses, reasoning and details",
    ".xml": "what each grader found in each case",
}


def _agentv(report: ReportData) -> Iterator[str]:
    """The rows of AgentV's `index.jsonl`, which `agentv compare` reads: one case per line.

    A case whose score could not be measured has no row: AgentV knows no other score for it than 0.
    """
    words = _words(report)
    for case in report.cases():
        if case.score is None:
            continue
        trial = f" #{case.trial}" if case.trial else ""
        row = {
            "timestamp": report.manifest.get("created"),
            "test_id": f"{case.sample}{trial}",
            "score": case.score,
            "target": case.system or "germane",
            "execution_status": "quality_failure" if case.verdict == "fail" else "ok",
            "scores": [
                {
                    "name": row["measure"],
                    "score": row["score"],
                    "assertions": [
                        {"text": text, "passed": passed}
                        for passed, texts in ((True, row["hits"]), (False, row["misses"]))
                        for text in texts
                    ],
                }
                for row in words.get(case.key, ())
            ],
        }
        yield json.dumps(row, ensure_ascii=False) + "\n"


def _verdicts(report: ReportData) -> dict[SampleKey, str | None]:
    """The verdict on each case that has one."""
    return {case.key: case.verdict for case in report.cases()} if report.has_verdicts else {}


def _remarks(report: ReportData) -> dict[tuple[str, str], list[str]]:
    """What must be said of each mean, by system and measure."""
    return {(summary.system, summary.measure): list(summary.remarks()) for summary in report.summaries}


def _csv(report: ReportData) -> Iterator[str]:
    """One score per line, with the mean of its measure and system beside it, and the interval of that."""
    columns = report.tables.scores.to_columns()
    words = _words(report)
    if report.manifest.get("graders"):
        verdicts = _verdicts(report)
        keys = zip(columns["sample"], columns["system"], columns["trial"], strict=True)
        columns["verdict"] = [verdicts.get(key) for key in keys]
    if words:
        lines = list(chain.from_iterable(words.values()))
        columns["hits"] = [" | ".join(row["hits"]) for row in lines]
        columns["misses"] = [" | ".join(row["misses"]) for row in lines]
        columns["reasoning"] = [row["reasoning"] for row in lines]
        checks = (row["details"].get("relevance_checks") for row in lines)
        columns["relevance_checks"] = [
            json.dumps(check, ensure_ascii=False) if check else "" for check in checks
        ]
    means = {(s.system, s.measure): s for s in report.summaries}
    of_row = [means[key] for key in zip(columns["system"], columns["measure"], strict=True)]
    columns["mean"] = [summary.mean for summary in of_row]
    for end, name in enumerate(("interval_low", "interval_high")):
        columns[name] = [summary.interval and summary.interval[end] for summary in of_row]
    columns["interval_method"] = [summary.interval_method for summary in of_row]
    remarks = {key: "; ".join(remark) for key, remark in _remarks(report).items()}
    columns["remarks"] = [remarks[summary.system, summary.measure] for summary in of_row]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in chain([columns], zip(*columns.values(), strict=True)):
        writer.writerow(map(cell, row))
        yield out.getvalue()
        out.seek(out.truncate(0))


def markdown(report: ReportData, comparison: Mapping[str, Json] | None = None) -> Iterator[str]:
    """The report for a pull request: verdict, gates, means, changes and the ten worst; the rest is folded.

    At most 60 lines are not folded. `comparison` is what `germane compare --json` says of it.
    """
    word, (head, *gates) = report.verdict.word, report.verdict.lines()
    yield f"**{word.capitalize()}** {markdown_text(head.removeprefix(f'verdict  {word}'), 600)}\n\n"
    judge = report.manifest.get("judge") or {}
    if judge.get("stand_in"):
        yield f"> {markdown_text(judge['stand_in'])}\n\n"
    yield from _rows_in_markdown([f"- {markdown_text(line, 400)}\n" for line in gates], _MOST_GATES)
    means = _table(report, [("", summary) for summary in report.summaries], counts=COUNTS)
    yield from _first_rows(means, _MOST_MEANS)
    if remarks := remarks_of(report):
        yield f"{markdown_text('; '.join(remarks), 600)}\n\n"
    if comparison:
        yield from _changes_in_markdown(comparison)
    words = _words(report)
    worst = list(_worst_cases(report, words))
    yield from _worst_in_markdown(report, worst)
    yield from _folded("Means", _means_in_markdown(report, means))
    texts = [_INTERVALS, *remarks, *corrected_in_words(report.summaries)]
    texts += [f"Judge: {judge['source']}: {spent_in_words(judge)}."] if judge.get("source") else []
    texts += [f"gate {gate}" for gate in gates[_MOST_GATES:]]
    texts += [f"{missing[0].upper()}{missing[1:]}."] if (missing := left_out(report, ".md")) else []
    lines = (f"- {markdown_text(line, 400)}\n" for line in (*texts, *notes_of(report)))
    yield from _folded("Notes", islice(lines, _MOST_NOTES))
    yield from _cases_in_markdown([key for key, *_ in worst], words, report)


_MOST_GATES, _MOST_MEANS, _MOST_CHANGES, _MOST_WORST = 6, 8, 6, 10
_MOST_NOTES = 40
_MOST_ROWS = 24
"""Rows of one folded table: the page of 50 queries stays below 30 KB."""


def _rows_in_markdown(rows: Sequence[str], most: int) -> Iterator[str]:
    """The first of these lines and how many more there are, as a paragraph; nothing where there are none."""
    if rows:
        yield from rows[:most]
        more = len(rows) - most
        yield f"\nand {more} more\n\n" if more > 0 else "\n"


def _first_rows(table: TextTable, most: int) -> Iterator[str]:
    """The first rows of a table, and how many more there are."""
    head, rule, *rows = table.markdown(markdown_text).splitlines(keepends=True)
    if rows:
        yield from (head, rule)
        yield from _rows_in_markdown(rows, most)


def _folded(title: str, parts: Iterable[str]) -> Iterator[str]:
    """These parts behind a title that opens them; nothing where there are none."""
    if text := "".join(parts):
        yield f"<details><summary>{title}</summary>\n\n{text}\n</details>\n"


def _means_in_markdown(report: ReportData, means: TextTable) -> Iterator[str]:
    """What the first table leaves out: its further rows, the means per file, those per slice."""
    if len(means.rows) > _MOST_MEANS:
        yield from _first_rows(means, 3 * _MOST_ROWS)
    for file in report.files:
        yield f"### {markdown_text(file.name)}\n\n"
        yield from _first_rows(_table(report, _lines([file]), counts=COUNTS), _MOST_ROWS)
    if slices := slices_shown(report)[0]:
        yield from _first_rows(_table(report, _lines(slices), "slice", COUNTS), _MOST_ROWS)
    if report.by_call:
        yield from _first_rows(by_call_table(report), _MOST_ROWS)
        yield f"{BY_CALL}\n\n"


def _changes_in_markdown(comparison: Mapping[str, Json]) -> Iterator[str]:
    """The difference of each measure to the baseline, the surest changes first."""
    table = TextTable(["measure", "baseline", "now", "difference", "interval", "p"], names=1)
    rows = sorted(comparison["comparisons"], key=lambda one: 1.0 if one["p"] is None else one["p"])
    for value in rows:
        named = value["measure"] + (f" of {value['b']}" if len({row["b"] for row in rows}) > 1 else "")
        means = (in_digits(value[name]) for name in ("mean_a", "mean_b"))
        interval = interval_in_words(value["interval"], sign="+")
        table.add(
            [clean(named), *means, in_digits(value["difference"], "+"), interval, p_in_words(value["p"])]
        )
    if table.rows:
        baselines = {row["a"] for row in rows}
        name = rows[0]["a"] if len(baselines) == 1 else "the baseline"
        yield f"Compared with {markdown_text(name)}:\n\n"
        yield from _first_rows(table, _MOST_CHANGES)


def _worst_cases(report: ReportData, words: Words) -> Iterator[tuple[SampleKey, str, str, str]]:
    """Key, name, score and reason of the ten worst: failed cases, then the lowest by the first measure."""
    failed = {case.key: (case, rows) for case, rows in failed_cases(report, words)}
    for key, (case, rows) in islice(failed.items(), _MOST_WORST):
        message = "; ".join(f"{row['measure']}: {miss}" for row in rows for miss in row["misses"][:3])
        yield key, _case_name(case), in_digits(case.score), message
    lowest = [score for score in _lowest(report, _MOST_WORST + len(failed)) if score.key not in failed]
    for strip, score, query in (
        strips(report, scores) if (scores := lowest[: max(0, _MOST_WORST - len(failed))]) else ()
    ):
        of = f" of {score.system}" if score.system else ""
        yield score.key, f"{score.sample}{of}", in_digits(score.value), f"{strip} {query}".strip()


def _worst_in_markdown(report: ReportData, worst: Sequence[tuple[SampleKey, str, str, str]]) -> Iterator[str]:
    if not worst:
        return
    failed = len(report.failed())
    lines = [counted(failed, "failed case")] if failed else []
    if failed < len(worst):
        by = f"worst by {markdown_text(report.summaries[0].measure)}"
        lines.append(f"{by} (■ relevant, □ not relevant, · unjudged, ? no verdict)")
    yield f"{', then the '.join(lines)}:\n\n"
    rows = ([markdown_text(name), score, markdown_text(why, 160)] for _, name, score, why in worst)
    yield from markdown_table(("query", "score", "why"), rows)
    yield "\n"


def failed_cases(
    report: ReportData, words: Words | None = None
) -> Iterator[tuple[CaseResult, list[dict[str, Json]]]]:
    """The cases that fail, each with the graders that it does badly by; the worst first."""
    failed = report.failed()
    if words is None:
        words = _words(report) if failed else {}
    for case in failed:
        rows = words.get(case.key, [])
        yield case, [row for row in rows if row["score"] is not None and row["misses"] and row["score"] < 1]


def _cases_in_markdown(keys: Sequence[SampleKey], words: Words, report: ReportData) -> Iterator[str]:
    """What each grader found in the worst cases, folded away."""
    cases = {case.key: case for case in report.cases() if case.key in words} if words else {}
    results = [(cases[key], row) for key in keys if key in cases for row in words.get(key, ())]
    if results:
        heads = ("case", "verdict", "grader", "score", "relevance by place", "hits", "misses", "reasoning")
        table = markdown_table(heads, (_case_row(case, row) for case, row in results[:_MOST_ROWS]))
        more = (
            "\nThe other cases are in JSON, JSONL and CSV.\n"
            if len(results) > _MOST_ROWS or len(keys) < len(cases)
            else ""
        )
        yield from _folded("The worst cases in full", chain(table, [more]))


def _case_row(case: CaseResult, row: Mapping[str, Json]) -> list[str]:
    checks = cast("list[dict[str, Json]]", row["details"].get("relevance_checks") or [])
    cells = [
        *(_case_name(case), case.verdict or "-", row["measure"]),
        row["status"] if row["score"] is None else in_digits(row["score"]),
        ", ".join(f"{check['position']}: {_RELEVANCE[check['relevant']]}" for check in checks),
        *("; ".join(row["hits"]), "; ".join(row["misses"]), row["reasoning"] or row["why"] or ""),
    ]
    return [markdown_text(text, 160) for text in cells]


_RELEVANCE = {True: "relevant", False: "not relevant", None: "no verdict"}


def _case_name(case: CaseResult) -> str:
    trial = f" trial {case.trial}" if case.trial else ""
    return f"{case.sample}{f' of {case.system}' if case.system else ''}{trial}"


def html(
    report: ReportData,
    baseline: ReportData | None = None,
    *,
    text: bool = True,
    audit: Mapping[str, Json] | None = None,
    comparison: Mapping[str, Json] | None = None,
    stages: Json = None,
    diagnosis: Json = None,
    excerpt: Excerpt | None = None,
) -> Iterator[str]:
    """The report as one HTML file, beside a baseline where one is given; without `text` no query, passage or reason.

    `audit` is what `germane audit --json` says of its judge, `comparison` what `germane compare --json` says of it, `stages`
    what `germane stages --json` says of each system, without the documents, `diagnosis` what `germane diagnose --json` says. `excerpt` holds the queries that are on the
    page; without one, of a large report the worst 200 and a random 1,000.
    """
    from germane.reports.page.data import SOURCES, Pages
    from germane.reports.page.excerpt import Excerpt
    from germane.reports.page.render import page_html
    from germane.reports.plots.figures import charts_of, ranks

    excerpt = excerpt or Excerpt(report)
    notes = {"remarks": remarks_of(report), "notes": list(notes_of(report))}
    extra = {**notes, "audit": audit, "comparison": comparison, "stages": stages, "diagnosis": diagnosis}
    pages = Pages(excerpt, baseline, text=text, extra=extra)
    drawn = {
        f"ranks-{source}-0": ranks(excerpt.random, strips, SOURCES[source])
        for source, strips in pages.strips().items()
    }
    with suppress(InputError):
        for number, chart in enumerate(charts_of(excerpt.random, strips=())):
            drawn[f"{chart.kind}-{number}"] = chart
    if baseline is not None:
        with suppress(InputError):
            charts = charts_of(report, kinds=["differences"], baseline=baseline)
            drawn |= {f"differences-{number}": chart for number, chart in enumerate(charts)}
    pictures = {name: chart.svg() for name, chart in drawn.items() if chart is not None}
    return page_html(pages.data, pages.blocks, pictures)


def _junit(reports: Iterable[tuple[str, ReportData]]) -> Iterator[str]:
    from germane.reports.ci import junit

    return junit((name, report, _words(report)) for name, report in reports)


def _traced(name: str) -> Callable[[ReportData], Iterator[str]]:
    def lines(report: ReportData) -> Iterator[str]:
        from germane.reports.writeback import traces

        yield from getattr(traces, name)(report)

    return lines


def _svg(report: ReportData) -> Iterator[str]:
    from germane.reports.plots.figures import charts_of
    from germane.reports.plots.svg import document

    yield document(charts_of(report))


FORMATS: dict[str, Callable[[ReportData], Iterable[str]]] = {
    ".json": lambda report: [json.dumps(json_document(report), ensure_ascii=False, indent=1) + "\n"],
    ".jsonl": _jsonl,
    "index.jsonl": _agentv,
    ".otel.jsonl": _traced("otel"),
    ".phoenix.jsonl": _traced("phoenix"),
    ".langfuse.jsonl": _traced("langfuse"),
    ".csv": _csv,
    ".md": markdown,
    ".txt": lambda report: [f"{render_plain(report)}\n"],
    ".xml": lambda report: _junit([("", report)]),
    ".html": html,
    ".svg": _svg,
}
"""What a report can be written as, by how the file's name ends."""


def format_of(path: Path) -> str:
    """The ending in FORMATS that a file's name has: the longest one, or its extension where it has none."""
    name = path.name.lower()
    names = [
        ending for ending in FORMATS if (name.endswith(ending) if ending.startswith(".") else name == ending)
    ]
    return max(names, key=len, default=path.suffix.lower())


def write(report: ReportData, path: Path, *, baseline: ReportData | None = None, **page: Any) -> None:
    """Write a report file; InputError where it has no known extension, or is one of the report's own files.

    Beside a Markdown file its pictures are written, under the same name as .svg. `baseline` is a report to compare with,
    in HTML and in the pictures. HTML and Markdown take `comparison`, how it differs from the baseline, and `excerpt`, the
    queries of a large report that they show; HTML also `text`, whether texts are in it, `audit`, how far its judge can be
    trusted, `stages`, where documents were lost, and `diagnosis`, what would help.
    """
    kind = format_of(path)
    if kind not in FORMATS:
        problem = f"{path}: no report format ends in {path.suffix or 'nothing'}"
        raise InputError(problem, fix=f"use {', '.join(FORMATS)}")
    if report.folder is not None and is_own(path, report.folder):
        raise InputError(f"{path} is the report's own", fix="write to another file")
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = html(report, baseline, **page) if kind == ".html" else FORMATS[kind](report)
    if kind == ".md":
        parts = markdown(report, page.get("comparison"))
        parts = chain(parts, _pictures(report, path.with_suffix(".svg"), baseline, page.get("excerpt")))
    parts = iter(parts)
    first = next(parts, "")  # what cannot be written leaves no empty file
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(chain([first], parts))


def write_several(
    reports: Mapping[str, ReportData],
    path: Path,
    page: Callable[[str], dict[str, Any]] = lambda _: {},
) -> bool:
    """Write the reports of several evaluations, by their paths, to one HTML, JSON, JUnit, Markdown or text file.

    False, and nothing is written, where the format holds one report. `page` gives what the page of each one takes by its name (see `html`).
    """
    kind = path.suffix.lower()
    parts: Iterable[str]
    if kind == ".json":
        documents = {name: json_document(report) for name, report in reports.items()}
        parts = [json.dumps(json_documents(documents), ensure_ascii=False, indent=1) + "\n"]
    elif kind == ".html":
        from germane.reports.page.several import several_html

        parts = several_html([(name, report, html(report, **page(name))) for name, report in reports.items()])
    elif kind == ".xml":
        parts = _junit(reports.items())
    elif kind == ".md":
        parts = markdown_of(reports, {name: page(name).get("comparison") for name in reports})
    elif kind == ".txt":
        parts = (
            line
            for name, report in reports.items()
            for line in chain([f"\n{clean(name)}\n"], FORMATS[kind](report))
        )
    else:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(parts)
    return True


def markdown_of(
    reports: Mapping[str, ReportData], comparisons: Mapping[str, Mapping[str, Json] | None]
) -> Iterator[str]:
    """The report of one evaluation, or of several by their paths: a line for each, and each folded beneath.

    Those that did not pass are open.
    """
    if len(reports) == 1 and "" in reports:
        yield from markdown(reports[""], comparisons.get(""))
        return
    table = TextTable(["evaluation", "verdict", "means"], names=3)
    for name, report in reports.items():
        means = [f"{summary.measure} {summary.in_words()}" for summary in report.summaries[:_MOST_NAMED]]
        more = len(report.summaries) - len(means)
        table.add(
            [clean(name), report.verdict.word, ", ".join(means) + (f" and {more} more" if more > 0 else "")]
        )
    yield from table.markdown(markdown_text)
    for name, report in reports.items():
        opened = " open" if report.verdict.exit_code else ""
        yield f"\n<details{opened}><summary>{escape(clean(name))}: {report.verdict.word}</summary>\n\n"
        yield from markdown(report, comparisons.get(name))
        yield "\n</details>\n"


_MOST_NAMED = 3
"""Means in the line of one of several evaluations."""


def _pictures(
    report: ReportData, path: Path, baseline: ReportData | None, excerpt: Excerpt | None
) -> Iterator[str]:
    """Write the charts of a report, and the line of Markdown that shows them; nothing where there are none.

    Of a large report they are of a random sample of its queries, but for the differences to the baseline.
    """
    from germane.reports.page.excerpt import Excerpt
    from germane.reports.plots.figures import charts_of
    from germane.reports.plots.svg import document

    excerpt = excerpt or Excerpt(report)
    charts = []
    with suppress(InputError):
        charts += charts_of(excerpt.random)
    with suppress(InputError):
        charts += charts_of(report, kinds=["differences"], baseline=baseline) if baseline is not None else ()
    if charts:
        path.write_text(document(charts), encoding="utf-8")
        title = markdown_text("; ".join(chart.title for chart in charts), 400)
        of = f" (of a random {excerpt.random_words()} queries)" if excerpt.capped else ""
        yield from _folded(f"Pictures{of}", [f"![{title}]({quote(path.name)})\n"])
