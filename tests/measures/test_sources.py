"""One measure, four sources of labels, two scales, any threshold: each under its own name, none filled from another."""

from __future__ import annotations

from math import log2
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane import evaluate
from germane.judges import FakeJudge, Reply

SAMPLE = {
    "query": "q",
    "qrels": {"a": 1, "b": 0},
    "contexts": [
        {"id": "a", "text": "a"},
        {"id": "b", "text": "b", "grade": 3},
        {"id": "c", "text": "c", "relevant": False},
        {"id": "d", "text": "d", "grade": 1},
    ],
}
GRADES = {"a": 2, "b": 0, "c": 3, "d": 3}


def judge(question):
    grade = GRADES[question.passage]
    return {"reasoning": "", **({"grade": grade} if question.scale == "graded" else {"relevant": grade > 0})}


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        ("P@4", 1 / 4),
        ("P(labels=gold)@4", 1 / 4),
        ("P(labels=judge)@4", 3 / 4),
        ("P(labels=best)@4", 2 / 4),
        ("P(labels=judge,rel=3)@4", 2 / 4),
        ("P(labels=judge,rel=1)@4", 3 / 4),
        ("P(labels=best,rel=1)@4", 3 / 4),
        ("context_relevance", 3 / 4),
        ("context_relevance(labels=gold)", 1 / 4),
        ("context_relevance(rel=3)", 2 / 4),
    ],
)
def test_whose_labels(measure, value):
    """Gold counts from 1, grades 0-3 from 2, yes or no as it is; best takes people first and the judge else."""
    assert evaluate([SAMPLE], measure, judge=FakeJudge(judge))[measure].mean == value


def test_people_alone_are_incomplete_where_they_said_nothing():
    """Three of four labels: bounds, never a guess."""
    (score,) = evaluate([SAMPLE], "P(labels=human)@4").scores()
    assert (score.status, score.bounds) == ("incomplete", (0.25, 0.5))


def test_yes_or_no_is_another_question():
    """The binary scale is asked and keyed on its own, and counts from yes whatever the threshold."""
    fake = FakeJudge(judge)
    report = evaluate([SAMPLE], ["context_relevance", "context_relevance(rel=3)"], judge=fake, scale="binary")
    assert [summary.mean for summary in report.summaries] == [0.75, 0.75]
    assert {question.prompt for question in fake.asked} == {"relevance_binary"}


def test_best_asks_only_where_people_said_nothing():
    """What people labelled costs no judge."""
    fake = FakeJudge(judge)
    evaluate([SAMPLE], "P(labels=best)@4", judge=fake)
    assert [question.about for question in fake.asked] == ["a"]


MIXED: dict[str, Any] = {
    "query": "q",
    "contexts": [
        {"text": "a", "relevant": True},
        {"text": "b", "grade": 3},
        {"text": "c", "grade": 2},
        {"text": "d", "grade": 1},
    ],
}


@pytest.mark.parametrize("source", ["human", "best", "judge"])
def test_labels_on_two_scales_count_as_yes_or_no(source):
    """A yes is no grade of 1: a perfect ranking scores 1, thresholds stay what they are, and the report says so."""
    names = [f"{name}(labels={source})" for name in ("nDCG", "context_precision", "context_relevance")]
    report = evaluate([MIXED], [*names, f"P(labels={source},rel=1)@4", "P(labels=human)@1"], judge="labels")
    assert [summary.mean for summary in report.summaries] == [1.0, 1.0, 0.75, 1.0, 1.0]
    assert report.manifest["notes"] == {"samples have labels on two scales: all count as yes or no": 1}


@pytest.mark.parametrize("contexts", [MIXED["contexts"][:1], MIXED["contexts"][1:]])
def test_labels_on_one_scale_are_worth_what_they_say(contexts):
    """Nothing is reduced, and there is nothing to say."""
    report = evaluate([{"query": "q", "contexts": contexts[::-1]}], "nDCG(labels=human)")
    ((score,), notes) = report.scores(), report.manifest["notes"]
    assert score.value is not None
    assert (score.value == 1.0, notes) == (len(contexts) == 1, {})


def test_what_is_missing_beside_a_yes_will_be_a_yes_or_no():
    """Bounds are of what the score can become: with the second place a no or a yes."""
    sample = {"query": "q", "contexts": [{"text": "a"}, {"text": "b", "relevant": True}]}
    failing = FakeJudge({"relevance": Reply(error="down")})
    (score,) = evaluate([sample], "nDCG(labels=best)", judge=failing).scores()
    assert score.bounds == pytest.approx((1 / log2(3), 1.0))


MEASURES = ["context_precision", "context_position", "context_relevance", "nDCG", "RR"]


@given(st.lists(st.integers(0, 3), min_size=2, max_size=7), st.data())
def test_raising_a_more_relevant_context_never_hurts(grades, data):
    """Swapping a context with a less relevant one directly above it lowers no ranked measure."""
    at = data.draw(st.integers(1, len(grades) - 1))
    if grades[at] <= grades[at - 1]:
        return
    better = [*grades[: at - 1], grades[at], grades[at - 1], *grades[at + 1 :]]
    samples = [{"id": str(n), "query": "q", "contexts": [{"text": f"{g}-{i}", "grade": g} for i, g in enumerate(row)]}
               for n, row in enumerate((grades, better))]  # fmt: skip
    names = [f"{name}(labels=human)" for name in MEASURES]
    values: dict[str, list[float]] = {}
    for score in evaluate(samples, names).scores():
        assert score.value is not None
        values.setdefault(score.measure, []).append(score.value)
    for low, high in values.values():
        assert 0.0 <= low <= high + 1e-12 <= 1.0 + 2e-12
