"""What each search of an agent brought: the same figures as the measures of searches, in every format."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from germane import evaluate
from germane.reports.explain import Explainer
from germane.reports.formats import FORMATS
from germane.reports.report import Report
from germane.reports.text.explanation import lines_of
from germane.types import Json

MEASURES = "id_recall"


def agent(name: str, *calls: tuple[str, str], qrels: str = "ab", **more: Json) -> dict[str, Json]:
    """A sample whose calls are pairs of a query and the ids that came back, a letter each."""
    made = [{"query": query, "contexts": [{"id": one, "text": one} for one in ids]} for query, ids in calls]
    return {"id": name, "query": "q", "qrels": dict.fromkeys(qrels, 1), "calls": made, **more}


SAMPLES = [
    agent("both", ("x", "a-"), ("y", "b"), ("X ", "a")),
    agent("never", ("x", "-"), ("x", "")),
    {"id": "plain", "query": "q", "qrels": {"a": 1, "b": 1}, "contexts": [{"id": "a", "text": "a"}]},
]


def test_a_worked_example() -> None:
    """Three samples with three searches, two and one."""
    rows = evaluate(SAMPLES, MEASURES).to_json()["by_call"]
    assert [row["samples"] for row in rows] == [3, 2, 1]
    assert [row["first"] for row in rows] == [2, 0, 0]
    assert [row["recall"] for row in rows] == pytest.approx([1 / 3, 1 / 2, 1 / 2])
    assert [row["spare"] for row in rows] == [0, 0, 1]
    assert [row["repeated"] for row in rows] == [0, 1, 1]
    assert all(low <= row["recall"] <= high for row in rows for low, high in [row["interval"]])


def test_they_agree_with_the_measures() -> None:
    """Over random samples the recall after the last search is that of all searches."""
    draw = random.Random(7)
    rows = [
        agent(str(n), *((draw.choice("xyz"), "".join(draw.sample("abcdef", 2))) for _ in range(draw.randint(2, 5))),
              qrels="".join(draw.sample("abcdef", draw.randint(1, 3))))
        for n in range(60)
    ]  # fmt: skip
    report = evaluate(rows, MEASURES)
    assert report.by_call[-1].recall == pytest.approx(report["id_recall"].mean)


def test_every_format_shows_them(tmp_path: Path) -> None:
    """Terminal and Markdown have the table, of a stored report too; a report without calls has none."""
    evaluate(SAMPLES, MEASURES).save(tmp_path / "report")
    report = Report.open(tmp_path / "report")
    assert "recall so far" in str(report)
    assert "| 2 | 2 | 0 | 0.5000 |" in "".join(FORMATS[".md"](report))
    plain = evaluate(SAMPLES[2:], "id_recall")
    assert "by_call" not in plain.to_json()
    assert "recall so far" not in str(plain)


def test_without_gold_only_repeats_are_counted() -> None:
    """What no gold tells is null, not 0."""
    (first, second) = evaluate([agent("one", ("x", "a"), ("x", "b"), qrels="")], "repeat_rate").by_call
    assert (first.first, first.recall, first.interval, first.spare) == (None, None, None, None)
    assert (first.repeated, second.repeated) == (0, 1)


def test_an_explanation_names_empty_searches_and_the_final_list() -> None:
    """Each search keeps its number though another brought nothing; what was handed back is no search."""
    rows = [agent("one", ("x", ""), ("y", "a"), contexts=[{"id": "a", "text": "a"}])]
    report = evaluate(rows, "nDCG@2")
    (sample,) = report.samples()
    text = "\n".join(lines_of(Explainer(report).facts(sample, list(report.scores()))))
    assert "call 1 searched for x\nnothing came back" in text
    assert "call 2 searched for y\nrank" in text
    assert "handed back in the end\nrank" in text
    assert "call 3" not in text


def test_slices_with_numbers_are_in_their_order() -> None:
    """The tenth turn comes after the second."""
    turn = {"role": "user", "content": "and?"}
    rows = [agent(str(n), ("x", "a"), history=[turn] * n) for n in (9, 1, 0)]
    assert [one.name for one in evaluate(rows, "RR").slices("turn")] == ["turn=1", "turn=2", "turn=10"]
