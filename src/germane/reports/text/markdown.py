"""A report as Markdown, for a pull request and the summary page of a workflow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from html import escape
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from germane.clean import clean, counted, markdown_text
from germane.errors import InputError
from germane.reports.data import CaseResult, ReportData
from germane.reports.explain import grader_results, left_out, strips
from germane.reports.manifest import spent_in_words
from germane.reports.ranking import COUNTS, TextTable, means_table
from germane.reports.summary import corrected_in_words, in_digits, interval_in_words, p_in_words
from germane.reports.text.terminal import (
    INTERVALS,
    SIGNS,
    Results,
    by_call_remark,
    by_call_table,
    case_name,
    failed_cases,
    lowest,
    notes_of,
    remarks_of,
)
from germane.tables.scores import SampleKey
from germane.types import Json

if TYPE_CHECKING:
    from germane.reports.page.excerpt import Excerpt

_MOST_GATES, _MOST_MEANS, _MOST_CHANGES, _MOST_WORST, _MOST_NOTES = 6, 8, 6, 10, 40
_MOST_ROWS = 24
"""Rows of one folded table: the page of 50 queries stays below 30 KB."""


def markdown(report: ReportData, comparison: Mapping[str, Json] | None = None) -> Iterator[str]:
    """The report for a pull request: verdict, gates, means, changes and the ten worst; the rest is folded.

    At most 60 lines are not folded. `comparison` is what `germane compare --json` says of it.
    """
    word, (head, *gates) = report.verdict.word, report.verdict.lines()
    yield f"**{word.capitalize()}** {markdown_text(head.removeprefix(f'verdict  {word}'), 600)}\n\n"
    judge = report.manifest.get("judge") or {}
    if judge.get("stand_in"):
        yield f"> {markdown_text(judge['stand_in'])}\n\n"
    yield from _first([f"- {markdown_text(line, 400)}\n" for line in gates], _MOST_GATES)
    means = means_table(report, counts=COUNTS)
    yield from _first_rows(means, _MOST_MEANS)
    if remarks := remarks_of(report):
        yield f"{markdown_text('; '.join(remarks), 600)}\n\n"
    if comparison:
        yield from _changes(comparison)
    results = grader_results(report)
    worst = list(_worst_cases(report, results))
    yield from _worst(report, worst)
    yield from _folded("Means", _further_means(report, means))
    texts = [INTERVALS, *remarks, *corrected_in_words(report.summaries)]
    texts += [f"Judge: {judge['source']}: {spent_in_words(judge)}."] if judge.get("source") else []
    texts += [f"gate {gate}" for gate in gates[_MOST_GATES:]]
    texts += [f"{missing[0].upper()}{missing[1:]}."] if (missing := left_out(report, ".md")) else []
    lines = (f"- {markdown_text(line, 400)}\n" for line in (*texts, *notes_of(report)))
    yield from _folded("Notes", islice(lines, _MOST_NOTES))
    yield from _cases([key for key, *_ in worst], results, report)


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
        named = ", ".join(means) + (f" and {more} more" if more > 0 else "")
        table.add([clean(name), report.verdict.word, named])
    yield from table.markdown(markdown_text)
    for name, report in reports.items():
        opened = " open" if report.verdict.exit_code else ""
        yield f"\n<details{opened}><summary>{escape(clean(name))}: {report.verdict.word}</summary>\n\n"
        yield from markdown(report, comparisons.get(name))
        yield "\n</details>\n"


_MOST_NAMED = 3
"""Means in the line of one of several evaluations."""


def _first(lines: Sequence[str], most: int) -> Iterator[str]:
    """The first of these lines and how many more there are, as a paragraph; nothing where there are none."""
    if lines:
        yield from lines[:most]
        more = len(lines) - most
        yield f"\nand {more} more\n\n" if more > 0 else "\n"


def _first_rows(table: TextTable, most: int) -> Iterator[str]:
    """The first rows of a table, and how many more there are."""
    head, rule, *rows = table.markdown(markdown_text).splitlines(keepends=True)
    if rows:
        yield from (head, rule)
        yield from _first(rows, most)


def _folded(title: str, parts: Iterable[str]) -> Iterator[str]:
    """The sections behind a title that opens them; nothing where there are none."""
    if text := "".join(parts):
        yield f"<details><summary>{title}</summary>\n\n{text}\n</details>\n"


def _further_means(report: ReportData, means: TextTable) -> Iterator[str]:
    """The means that the first table leaves out: its further rows, the means per file, those per slice."""
    if len(means.rows) > _MOST_MEANS:
        yield from _first_rows(means, 3 * _MOST_ROWS)
    for file in report.files:
        yield f"### {markdown_text(file.name)}\n\n"
        yield from _first_rows(means_table(report, [file], counts=COUNTS), _MOST_ROWS)
    if slices := report.own_slices()[0]:
        yield from _first_rows(means_table(report, slices, "slice", COUNTS), _MOST_ROWS)
    if report.by_call:
        yield from _first_rows(by_call_table(report), _MOST_ROWS)
        yield f"{by_call_remark(report)}\n\n"


def _changes(comparison: Mapping[str, Json]) -> Iterator[str]:
    """The difference of each measure to the baseline, the surest changes first."""
    table = TextTable(["measure", "baseline", "now", "difference", "interval", "p"], names=1)
    rows = sorted(comparison["comparisons"], key=lambda row: 1.0 if row["p"] is None else row["p"])
    for row in rows:
        name = row["measure"] + (f" of {row['b']}" if len({row["b"] for row in rows}) > 1 else "")
        means = in_digits(row["mean_a"]), in_digits(row["mean_b"]), in_digits(row["difference"], "+")
        table.add([clean(name), *means, interval_in_words(row["interval"], sign="+"), p_in_words(row["p"])])
    if rows:
        name = rows[0]["a"] if len({row["a"] for row in rows}) == 1 else "the baseline"
        yield f"Compared with {markdown_text(name)}:\n\n"
        yield from _first_rows(table, _MOST_CHANGES)


def _worst_cases(report: ReportData, results: Results) -> Iterator[tuple[SampleKey, str, str, str]]:
    """Key, name, score and reason of the ten worst: failed cases, then the lowest by the first measure."""
    failed = {case.key: (case, rows) for case, rows in failed_cases(report, results)}
    for key, (case, rows) in islice(failed.items(), _MOST_WORST):
        message = "; ".join(f"{row['measure']}: {miss}" for row in rows for miss in row["misses"][:3])
        yield key, case_name(case), in_digits(case.score), message
    others = [score for score in lowest(report, _MOST_WORST + len(failed)) if score.key not in failed]
    for strip, score, query in strips(report, others[: max(0, _MOST_WORST - len(failed))]):
        of = f" of {score.system}" if score.system else ""
        yield score.key, f"{score.sample}{of}", in_digits(score.value), f"{strip} {query}".strip()


def _worst(report: ReportData, worst: Sequence[tuple[SampleKey, str, str, str]]) -> Iterator[str]:
    if not worst:
        return
    failed = len(report.failed())
    lines = [counted(failed, "failed case")] if failed else []
    if failed < len(worst):
        lines.append(f"worst by {markdown_text(report.summaries[0].measure)} ({SIGNS.replace('  ', ', ')})")
    yield f"{', then the '.join(lines)}:\n\n"
    table = TextTable(["query", "score", "why"], names=3)
    for _, name, score, why in worst:
        table.add([markdown_text(name), score, markdown_text(why, 160)])
    yield f"{table.markdown(str)}\n"


def _cases(keys: Sequence[SampleKey], results: Results, report: ReportData) -> Iterator[str]:
    """The results of each grader in the worst cases, folded away."""
    cases = {case.key: case for case in report.cases() if case.key in results} if results else {}
    rows = [(cases[key], row) for key in keys if key in cases for row in results.get(key, ())]
    if rows:
        table = TextTable(_CASE_HEADS, names=len(_CASE_HEADS))
        for case, row in rows[:_MOST_ROWS]:
            table.add(_case_row(case, row))
        some = len(rows) > _MOST_ROWS or len(keys) < len(cases)
        more = "\nThe other cases are in JSON, JSONL and CSV.\n" if some else ""
        yield from _folded("The worst cases in full", [table.markdown(str), more])


_CASE_HEADS = ("case", "verdict", "grader", "score", "relevance by place", "hits", "misses", "reasoning")
_RELEVANCE = {True: "relevant", False: "not relevant", None: "no verdict"}


def _case_row(case: CaseResult, row: Mapping[str, Json]) -> list[str]:
    checks = row["details"].get("relevance_checks") or []
    cells = [
        *(case_name(case), case.verdict or "-", row["measure"]),
        row["status"] if row["score"] is None else in_digits(row["score"]),
        ", ".join(f"{check['position']}: {_RELEVANCE[check['relevant']]}" for check in checks),
        *("; ".join(row["hits"]), "; ".join(row["misses"]), row["reasoning"] or row["why"] or ""),
    ]
    return [markdown_text(text, 160) for text in cells]


def pictures(
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
