"""A report as Markdown, for a pull request and the summary page of a workflow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest

from germane.clean import counted, markdown_text, shorten
from germane.reports.data import ReportData
from germane.reports.derived.cases import CaseResult
from germane.reports.explain import grader_results, left_out, missing_gold, strips
from germane.reports.ranking import COUNTS, means_table
from germane.reports.summary import corrected_in_words, in_digits, interval_in_words, p_in_words
from germane.reports.text.terminal import (
    INTERVALS,
    SIGNS,
    Results,
    by_call_table,
    case_name,
    failed_cases,
    lowest,
    notes_of,
    remarks_of,
)
from germane.show.table import Table
from germane.tables.scores import SampleKey
from germane.types import Json

_MOST_OUTCOMES, _MOST_GATES, _MOST_MEANS, _MOST_CHANGES, _MOST_WORST, _MOST_NOTES = 3, 6, 8, 6, 10, 40
_MOST_ROWS = 24
"""Rows of one folded table: the page of 50 queries stays below 30 KB."""
_MOST_PLACES = 10
"""Places of a list that are shown, and gold documents that did not come back."""


def markdown(report: ReportData, comparison: Mapping[str, Json] | None = None) -> Iterator[str]:
    """Return the report for a pull request: outcome, verdict, gates, means, changes and the ten worst queries; the rest is folded.

    At most 60 lines are not folded. `comparison` is the document of `germane compare --json`.
    """
    if comparison:
        sentences = [row["sentence"] for row in comparison["comparisons"] if row["sentence"]]
        yield from _first([f"**{markdown_text(text, 400)}**  \n" for text in sentences], _MOST_OUTCOMES)
    word, (head, *gates) = report.verdict.word, report.verdict.lines()
    yield f"**{word.capitalize()}** {markdown_text(head.removeprefix(f'verdict  {word}'), 600)}\n\n"
    judge = report.judge
    if judge.stand_in:
        yield f"> {markdown_text(judge.stand_in)}\n\n"
    if comparison:  # the outcomes above say what passed
        told = {gate.sentence for gate in report.verdict.gates if gate.outcome == "passed" and gate.sentence}
        gates = [line for line in gates if not any(line.endswith(sentence) for sentence in told)]
    yield from _first([f"- {markdown_text(line, 400)}\n" for line in gates], _MOST_GATES)
    means = means_table(report, counts=COUNTS)
    yield means.markdown(most=_MOST_MEANS)
    if remarks := remarks_of(report):
        yield f"{markdown_text('; '.join(remarks), 600)}\n\n"
    if comparison:
        yield from _changes(comparison)
    results = grader_results(report)
    worst = list(_worst_cases(report, results))
    yield from _worst(report, worst)
    yield from _folded("What came back", _lists(report, [key for key, *_ in worst]))
    yield from _folded("Means", _further_means(report, means))
    texts = [INTERVALS, *remarks, *corrected_in_words(report.summaries)]
    texts += [f"Judge: {judge.source}: {judge.spent}."] if judge.source else []
    texts += [f"gate {gate}" for gate in gates[_MOST_GATES:]]
    texts += [f"{missing[0].upper()}{missing[1:]}."] if (missing := left_out(report, ".md")) else []
    lines = (f"- {markdown_text(line, 400)}\n" for line in (*texts, *notes_of(report)))
    yield from _folded("Notes", islice(lines, _MOST_NOTES))
    yield from _cases([key for key, *_ in worst], results, report)


def _first(lines: Sequence[str], most: int) -> Iterator[str]:
    """Yield the first of these lines and the number of others, as a paragraph; nothing without lines."""
    if lines:
        yield from lines[:most]
        more = len(lines) - most
        yield f"\nand {more} more\n\n" if more > 0 else "\n"


def _folded(title: str, parts: Iterable[str]) -> Iterator[str]:
    """Yield the sections folded under a title; nothing without sections."""
    if text := "".join(parts):
        yield f"<details><summary>{title}</summary>\n\n{text}\n</details>\n"


def _further_means(report: ReportData, means: Table) -> Iterator[str]:
    """Yield the means that the first table omits: its further rows, and the means per file and slice."""
    if len(means.rows) > _MOST_MEANS:
        yield means.markdown(most=3 * _MOST_ROWS)
    for file in report.files:
        yield f"### {markdown_text(file.name)}\n\n"
        yield means_table(report, [file], counts=COUNTS).markdown(most=_MOST_ROWS)
    if slices := report.own_slices()[0]:
        yield means_table(report, slices, "slice", COUNTS).markdown(most=_MOST_ROWS)
    if report.by_call:
        yield by_call_table(report).markdown(most=_MOST_ROWS)


def _changes(comparison: Mapping[str, Json]) -> Iterator[str]:
    """Yield the table of the differences from the baseline."""
    table = Table(["measure", "baseline", "now", "difference", "interval", "p", "n"])
    rows = comparison["comparisons"]
    for row in rows:
        name = row["measure"] + (f" of {row['b']}" if len({row["b"] for row in rows}) > 1 else "")
        means = in_digits(row["mean_a"]), in_digits(row["mean_b"]), in_digits(row["difference"], "+")
        n = str(row["n"]) if row["n"] == row["due"] else f"{row['n']}/{row['due']}"
        numbers = [*means, interval_in_words(row["interval"], sign="+"), p_in_words(row["p"]), n]
        table.add([name, *numbers])
    if rows:
        name = rows[0]["a"] if len({row["a"] for row in rows}) == 1 else "the baseline"
        yield f"Compared with {markdown_text(name)}:\n\n"
        yield table.markdown(most=_MOST_CHANGES)


def _worst_cases(report: ReportData, results: Results) -> Iterator[tuple[SampleKey, str, str, str]]:
    """Yield key, name, score and reason of the ten worst cases: failed ones, then the lowest by the first measure."""
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
    rows = ((name, score, shorten(why, 160)) for _, name, score, why in worst)
    yield Table(["query", "score", "why"], "l", rows).markdown(most=_MOST_WORST)


def _lists(report: ReportData, keys: Sequence[SampleKey]) -> Iterator[str]:
    """Yield the table of the worst queries' lists, with a sign per label, and the missing gold."""
    samples = report.samples_of(set(keys))
    scores = [next(iter(report.tables.scores.of_sample(key)), None) for key in keys]
    table = Table(["query", "came back", "missing gold"], "l")
    for signs, score, _ in strips(report, [score for score in scores if score is not None]):
        if (sample := samples.get(score.key)) is not None:
            if sample.contexts is None and not sample.calls:
                continue
            names = [context.id or context.text for context in sample.retrieved()]
            places = zip_longest(signs.replace("|", "").replace("-", ""), names[:_MOST_PLACES], fillvalue="")
            came = ", ".join(f"{sign} {shorten(name, 40)}".strip() for sign, name in places if name)
            missing = ", ".join(shorten(gold.id, 40) for gold in missing_gold(sample)[:_MOST_PLACES])
            more = f" and {len(names) - _MOST_PLACES} more" if len(names) > _MOST_PLACES else ""
            table.add([score.sample, came + more or "nothing", missing or "none"])
    if table.rows:
        yield f"{SIGNS.replace('  ', ', ')}\n\n{table.markdown(lambda text: markdown_text(text, 800))}"


def _cases(keys: Sequence[SampleKey], results: Results, report: ReportData) -> Iterator[str]:
    """Yield the folded table of each grader's results in the worst cases."""
    cases = {case.key: case for case in report.cases() if case.key in results} if results else {}
    gold = {line.measure for line in report.summaries if line.basis.source == "gold"}
    rows = [
        (cases[key], row)
        for key in keys
        if key in cases
        for row in results.get(key, ())
        if row["measure"] not in gold  # those places stand in the table of what came back
    ]
    if rows:
        table = Table(_CASE_HEADS, "l", (_case_row(case, row) for case, row in rows[:_MOST_ROWS]))
        some = len(rows) > _MOST_ROWS or len(keys) < len(cases)
        more = "\nThe other cases are in JSON, JSONL and CSV.\n" if some else ""
        yield from _folded(
            "The worst cases in full", [table.markdown(lambda text: markdown_text(text, 160)), more]
        )


_CASE_HEADS = ("case", "verdict", "grader", "score", "relevance by place", "hits", "misses", "reasoning")
_RELEVANCE = {True: "relevant", False: "not relevant", None: "no verdict"}


def _case_row(case: CaseResult, row: Mapping[str, Json]) -> list[str]:
    checks = row["details"].get("relevance_checks") or []
    return [
        *(case_name(case), case.verdict or "-", row["measure"]),
        row["status"] if row["score"] is None else in_digits(row["score"]),
        ", ".join(f"{check['position']}: {_RELEVANCE[check['relevant']]}" for check in checks),
        *("; ".join(row["hits"]), "; ".join(row["misses"]), row["reasoning"] or row["why"] or ""),
    ]
