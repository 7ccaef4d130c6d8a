from __future__ import annotations

from typing import Any

import pytest

from germane import evaluate
from germane.judges import GoldJudge, LabelsJudge
from germane.judges.judge import LocalJudge
from germane.questions import Claims, Relevance, Support

QUESTION = Relevance(query="q", passage="a passage")


@pytest.mark.parametrize(
    ("label", "value"),
    [({"grade": 1}, 0), ({"grade": 2}, 1), ({"relevant": True}, 1), ({"relevant": False}, 0)],
)
def test_a_label_counts_on_its_own_scale(label: dict[str, Any], value: int) -> None:
    """A grade counts as relevant from 2, a yes is relevant."""
    sample = {"query": "q", "contexts": [{"text": "a passage", **label}]}
    (score,) = evaluate([sample], "P(labels=judge)@1", judge="labels").scores()
    assert (score.status, score.value) == ("ok", value)


@pytest.mark.parametrize("source", ["judge", "human"])
@pytest.mark.parametrize(("scale", "grade"), [([0, 4], 4), ([0, 1], 1)])
def test_labels_on_another_scale_need_a_threshold(source: str, scale: list[int], grade: int) -> None:
    """The default threshold belongs to 0-3; `rel=` says from which grade of another scale a passage is relevant."""
    contexts = [{"text": "a", "grade": grade}, {"text": "b", "grade": 0}]
    sample = {"query": "q", "grade_scale": scale, "contexts": contexts}
    without, given = (f"P(labels={source}{rel})@2" for rel in ("", f",rel={grade}"))
    report = evaluate([sample], f"{without} {given}", judge="labels")
    assert "set the lowest relevant grade" in str(next(iter(report.scores())).why)
    assert report[given].mean == 0.5


def test_another_scale_is_no_yes_or_no() -> None:
    """With --scale binary a grade of another scale is missing, with the reason."""
    sample = {"query": "q", "grade_scale": [0, 4], "contexts": [{"text": "a", "grade": 4}]}
    (score,) = evaluate([sample], "P(labels=judge,rel=3)@1", judge="labels", scale="binary").scores()
    assert "a grade on the scale 0-4 is neither yes nor no" in str(score.why)


def test_an_unlabelled_context_is_missing_and_not_irrelevant() -> None:
    """Nobody said anything: the score is incomplete, not lower."""
    sample = {"query": "q", "contexts": ["b", {"text": "a", "grade": 3}]}
    (score,) = evaluate([sample], "context_precision", judge="labels").scores()
    assert (score.status, score.value) == ("incomplete", None)
    assert "no label" in str(score.why)


def test_labels_that_a_judge_is_given_are_read_as_people_gave_them():
    """They stand in the place of those on the contexts, and are labels of the report."""
    sample = {"query": "q", "contexts": [{"text": "a passage", "grade": 0}, {"text": "b", "grade": 0}]}
    report = evaluate([sample], "P(labels=judge)@2", judge=LabelsJudge({QUESTION.item: True}))
    assert report["P(labels=judge)@2"].mean == 0.5
    assert [label.answer for label in report.labels()] == [True, 0]
    assert list(report.judgements()) == []


class MyLabels(LabelsJudge):
    """Labels of one's own."""

    name = "ann"


def test_a_subclass_is_labels_too():
    """It is read where the labels stand, and people are the source."""
    sample = {"query": "q", "contexts": [{"text": "a passage"}, {"text": "b", "grade": 0}]}
    report = evaluate([sample], "P(labels=judge)@2", judge=MyLabels({QUESTION.item: True}))
    summary = report["P(labels=judge)@2"]
    assert (summary.mean, summary.basis.source) == (0.5, "human")
    assert list(report.judgements()) == []


@pytest.mark.parametrize("judge", [LabelsJudge(), GoldJudge()])
@pytest.mark.parametrize("question", [Claims("q", "A text."), Support(("a",), ("b",))])
def test_labels_answer_only_relevance(judge: LocalJudge, question):
    """Labels on contexts say nothing about the claims of an answer, and the error says which kind was asked."""
    error = judge.reply(question).error
    assert error is not None
    assert f"of kind {question.kind}" in error


@pytest.mark.parametrize(("gold", "value"), [(-1, 0), (0, 0), (1, 1), (2, 1), (7, 1)])
def test_gold_counts_from_grade_one(gold: int, value: int) -> None:
    """Gold grades are on the collection's own scale: yes or no is what they all can say."""
    sample = {"query": "q", "contexts": [{"id": "d1", "text": "a"}], "qrels": {"d1": gold, "d2": 1}}
    (score,) = evaluate([sample], "P(labels=judge)@1", judge="gold").scores()
    assert (score.status, score.value) == ("ok", value)


def test_a_passage_that_cannot_be_looked_up_is_an_error_that_says_why():
    """Without a document id or without qrels there is nothing to read."""
    for sample, why in (({"contexts": ["a"], "qrels": {"a": 1}}, "the passage has no document id"),
                        ({"doc_ids": ["a"]}, "the sample has no qrels")):  # fmt: skip
        (score,) = evaluate([{"query": "q", **sample}], "context_precision", judge="gold").scores()
        assert score.status == "error"
        assert f"no gold label: {why}" in str(score.why)
