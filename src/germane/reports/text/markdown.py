"""Write a report as Markdown, for a pull request and the summary page of a GitHub workflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from germane.clean import counted, markdown_text, shorten
from germane.reports.data import ReportData
from germane.reports.explain import strips
from germane.reports.ranking import COUNTS, means_table
from germane.reports.summary import INTERVALS, corrected_in_words, in_digits
from germane.reports.text.terminal import SIGNS, case_name, lowest, notes_of, remarks_of
from germane.show.table import Table
from germane.types import Json

_MOST_OUTCOMES, _MOST_GATES, _MOST_MEANS, _MOST_WORST, _MOST_NOTES = 3, 6, 8, 10, 40


def markdown(report: ReportData, comparison: Mapping[str, Json] | None = None) -> Iterator[str]:
    """Yield the report as Markdown for a pull request: verdict, gates, means and the ten worst queries.

    At most 60 lines are visible; notes are folded away. `comparison`, the document of `germane compare
    --json`, adds its outcomes at the top.
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
    means = means_table(report, counts=COUNTS)
    yield means.markdown(most=_MOST_MEANS)
    yield means_table(report, report.own_slices()[0], "slice", COUNTS).markdown(most=_MOST_MEANS)
    if remarks := remarks_of(report):
        yield f"{markdown_text('; '.join(remarks), 600)}\n\n"
    yield from _worst(report)
    texts = [INTERVALS, *remarks, *corrected_in_words(report.summaries)]
    texts += [f"Judge: {judge.source}: {judge.spent}."] if judge.source else []
    texts += [f"gate {gate}" for gate in gates[_MOST_GATES:]]
    lines = [f"- {markdown_text(line, 400)}\n" for line in (*texts, *notes_of(report))]
    yield f"<details><summary>Notes</summary>\n\n{''.join(lines[:_MOST_NOTES])}\n</details>\n"


def _first(lines: Sequence[str], most: int) -> Iterator[str]:
    """Yield a paragraph of the first `most` lines and "and N more"; nothing if there are no lines."""
    if lines:
        yield from lines[:most]
        more = len(lines) - most
        yield f"\nand {more} more\n\n" if more > 0 else "\n"


def _worst(report: ReportData) -> Iterator[str]:
    """Yield a Markdown table of ten cases: failed cases first, then those with the lowest first measure."""
    table = Table(["query", "score", "why"], "l")
    failed = report.failed()
    for case in failed[:_MOST_WORST]:
        why = f"below its threshold: {', '.join(case.failed_required)}" if case.failed_required else ""
        table.add([case_name(case), in_digits(case.score), why])
    keys = {case.key for case in failed}
    others = [score for score in lowest(report, _MOST_WORST + len(failed)) if score.key not in keys]
    for strip, score, query in strips(report, others[: max(0, _MOST_WORST - len(failed))]):
        name = score.sample + (f" of {score.system}" if score.system else "")
        table.add([name, in_digits(score.value), shorten(f"{strip} {query}".strip(), 160)])
    if table.rows:
        lines = [counted(len(failed), "failed case")] if failed else []
        if len(failed) < len(table.rows):
            measure = markdown_text(report.summaries[0].measure)
            lines.append(f"worst by {measure} ({SIGNS.replace('  ', ', ')})")
        yield f"{', then the '.join(lines)}:\n\n"
        yield table.markdown(most=_MOST_WORST)
