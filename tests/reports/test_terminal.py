"""The report in terminals of any width: no number, measure or system is ever cut."""

import re
from collections.abc import Sequence

import pytest

from germane import evaluate
from germane.judges.judge import FakeJudge, Reply
from germane.questions import AnyQuestion
from germane.reports.report import Report
from germane.reports.text.overview import render_plain
from germane.reports.text.ranking import ranked_table
from germane.show.table import Table, plain_text
from germane.types import Json

WIDTHS = (60, 80, 100, 160)
SYSTEMS = ("bm25", "a-dense-retriever-with-a-long-name/v2.0_final", "hybrid:rerank=cross-encoder,k=100")
MEASURES = (
    "nDCG@10 AP P(rel=2)@5 context_precision@5 context_relevancy(unit=context) context_position(rel=3)@10"
)


def sometimes(question: AnyQuestion) -> Json | Reply:
    bad = "bad" in str(getattr(question, "passage", ""))
    return Reply(error="the model was ill") if bad else question.typical()


@pytest.fixture(scope="module")
def report() -> Report:
    samples = [
        {"id": f"query-number-{number}", "query": "what is it " * 12, "system": system, "qrels": {"a": 2},
         "contexts": [{"id": "a" if number % 3 == 0 else "b", "text": "bad" if number == 4 else "good"}, {"id": "c", "text": "so"}]}
        for system in SYSTEMS
        for number in range(6)
    ]  # fmt: skip
    return evaluate(samples, MEASURES, judge=FakeJudge(sometimes))


def whole_names(lines: Sequence[str], names: Sequence[str], width: int) -> list[str]:
    """The names that cannot be put together again from pieces of these lines, in their order."""
    text = "\n".join(lines)
    lost = []
    for name in names:
        pieces = rf"[\s\S]{{0,{2 * width}}}?"
        parts = [re.escape(part) for part in re.findall(r"[^_(,=\-/:@]*[_,=\-/:]*|\(|@", name) if part]
        if not re.search(pieces.join(parts), text):
            lost.append(name)
    return lost


@pytest.mark.parametrize("width", WIDTHS)
def test_every_figure_is_whole(report: Report, width: int) -> None:
    """Means, counts, measures and systems; no line is wider than the terminal; only texts end in an ellipsis."""
    lines = render_plain(report, width).splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for summary in report.summaries:
        assert re.search(rf"(?<![\d.]){summary.mean:.4f}(?!\d)", text)
        assert f"{summary.n}/{summary.total}" in text
        for word in summary.in_words().split():
            assert word.strip("()") in text
    assert whole_names(lines, [*SYSTEMS, *report.measures], width) == []
    assert "…" not in text[text.index("\njudge ") :]


@pytest.mark.parametrize("width", WIDTHS)
def test_systems_side_by_side_are_whole(report: Report, width: int) -> None:
    """Where a column per system is too wide, each row becomes a record."""
    text = plain_text(ranked_table(report), width)
    assert max(map(len, text.splitlines())) <= width
    for summary in report.summaries:
        assert re.search(rf"(?<![\d.]){summary.mean:.4f}(?!\d)", text)
    assert whole_names(text.splitlines(), [*SYSTEMS, *report.measures], width) == []
    assert "…" not in text


def test_the_worst_name_their_system(report: Report) -> None:
    """With several systems, the worst queries are those of one."""
    assert "worst by nDCG@10 of bm25" in str(report)


LONG = [
    {"id": f"q{n}", "query": "what is it " * 20, "qrels": {"a": 1}, "contexts": [{"id": "b", "text": "x"}]}
    for n in range(30)
]
"""Thirty queries of which nothing is found, each longer than a line."""


@pytest.mark.parametrize("width", [60, 80])
def test_the_means_the_gates_and_the_verdict_come_last(width: int) -> None:
    """Within the 24 lines that a terminal shows, whatever was to be said before."""
    names = "nDCG@10 AP RR R@10 P@5 context_precision@5 context_relevancy(unit=context)"
    report = evaluate(LONG, names, judge=FakeJudge(sometimes), gates=["mean(RR)>=0.5", "mean(AP)>=0.5"])
    lines = render_plain(report, width).splitlines()
    last = "\n".join(lines[-24:])
    assert whole_names(lines[-24:], report.measures, width) == []
    assert any(line.startswith("  failed  mean(AP)>=0.5") for line in lines[-5:])
    assert "failed (exit code 1)" in last
    assert "note " not in last[last.index("interval") :]


def test_the_worst_are_cut_to_one_line() -> None:
    """What does not fit is cut, not wrapped as well."""
    lines = render_plain(evaluate(LONG, "RR"), 80).splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("worst by RR"))
    assert [line.split()[2] for line in lines[start + 1 : start + 6]] == [f"q{n}" for n in range(5)]
    assert all(line.endswith("…") and len(line) <= 80 for line in lines[start + 1 : start + 6])


def test_rank_strips_begin_in_one_column() -> None:
    """The first places of lists of different lengths stand one below the other."""
    rows = [
        {
            "id": f"q{n}",
            "query": "q",
            "qrels": {"a": 1},
            "contexts": [{"id": f"b{k}", "text": "x"} for k in range(n)],
        }
        for n in (1, 3)
    ]
    lines = render_plain(evaluate(rows, "RR"), 80).splitlines()
    assert "  0.0000  ·    q1  q" in lines
    assert "  0.0000  ···  q3  q" in lines


def test_a_long_name_stands_above_its_numbers() -> None:
    """It is not broken over lines as long as the numbers fit below it."""
    name = "context_relevancy(unit=context,rel=0.25)"
    row = [name, "0.1234", "-0.1406 to -0.0269", "0.0001"]
    text = plain_text(Table(["measure", "baseline", "difference", "p (Holm)"], rows=[row]), 50)
    assert name in text
    assert max(map(len, text.splitlines())) <= 50
    assert "  0.1234  -0.1406 to -0.0269" in text


def test_a_long_id_leaves_room_for_the_queries() -> None:
    """It is cut in the middle; the other rows keep their texts."""
    rows = [
        {"id": name, "query": f"the words of {name[:4]}", "contexts": [{"id": "d"}], "qrels": {"x": 1}}
        for name in ("https://example.com/" + "path/" * 60 + "end", "q2")
    ]
    lines = str(evaluate(rows, "RR")).splitlines()
    assert any(line.endswith("the words of q2") for line in lines)
    assert any(
        "https://" in line and "path/end" in line and line.endswith("the words of http") for line in lines
    )
