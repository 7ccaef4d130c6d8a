from __future__ import annotations

from typing import Any

import pytest

from germane import evaluate
from germane.judges.judge import LocalJudge
from germane.judges.labels import GoldJudge, LabelsJudge
from germane.questions import Claims, Grade, Relevance, Support
from germane.types import Context

QUESTION = Relevance(query="q", passage="a passage")


def knowing(judge: LabelsJudge, qrels: dict[str, int] | None = None, **context: Any) -> LabelsJudge:
    """The judge, which has seen the passage with that label."""
    judge.learn("q", [Context(text="a passage", **context)], (), qrels)
    return judge


@pytest.mark.parametrize(
    ("label", "grade"),
    [
        ({"grade": 0}, Grade(0)),
        ({"grade": 3}, Grade(3)),
        ({"relevant": True}, Grade(1, "", "binary")),
        ({"relevant": False}, Grade(0, "", "binary")),
    ],
)
def test_a_label_is_answered_on_its_own_scale(label, grade):
    """A grade stays a grade, a yes or no stays a yes or no."""
    assert QUESTION.parse(knowing(LabelsJudge(), **label).reply(QUESTION).payload) == grade


@pytest.mark.parametrize(("grade", "relevant"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_a_grade_answers_a_yes_or_no_question(grade, relevant):
    """Where only yes or no is asked, a person's grade of 2 or more is a yes and the reasoning names it."""
    question = Relevance(query="q", passage="a passage", scale="binary")
    answer = question.parse(knowing(LabelsJudge(), grade=grade).reply(question).payload)
    assert (answer.grade, answer.scale) == (relevant, "binary")
    assert f"{grade} of 3" in answer.reasoning


def test_an_unlabelled_context_is_an_error_and_not_irrelevant():
    """Nobody said anything: the score is incomplete, not lower."""
    reply = knowing(LabelsJudge()).reply(QUESTION)
    assert (reply.payload, reply.error) == (None, "no label")


def test_labels_are_found_by_the_item():
    """Whatever the question was put with; labels that are given stand before those on contexts, the first before others."""
    binary = Relevance(query="q", passage="a passage", scale="binary", reference="r")
    given = LabelsJudge({QUESTION.item: 3})
    assert given.reply(binary).payload["relevant"] is True
    assert knowing(given, grade=0).reply(QUESTION).payload["grade"] == 3
    assert (
        knowing(knowing(LabelsJudge({"another": 3}), grade=1), grade=2).reply(QUESTION).payload["grade"] == 1
    )


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
    assert f"not {question.kind}" in error


@pytest.mark.parametrize(("gold", "relevant"), [(-1, False), (0, False), (1, True), (2, True), (7, True)])
def test_gold_counts_from_grade_one_and_names_the_grade(gold, relevant):
    """Gold grades are on the collection's own scale: yes or no is what they all can say."""
    reply = knowing(GoldJudge(), {"d1": gold}, id="d1").reply(QUESTION)
    assert reply.payload == {"relevant": relevant, "reasoning": f"gold grade {gold}"}
    assert QUESTION.parse(reply.payload).scale == "binary"


def test_a_passage_that_cannot_be_looked_up_is_an_error_that_says_why():
    """Without a document id or without qrels there is nothing to read."""
    for sample, why in (({"contexts": ["a"], "qrels": {"a": 1}}, "the passage has no document id"),
                        ({"doc_ids": ["a"]}, "the sample has no qrels")):  # fmt: skip
        (score,) = evaluate([{"query": "q", **sample}], "context_precision", judge="gold").scores()
        assert score.status == "error"
        assert f"no gold label: {why}" in str(score.why)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (LabelsJudge, {"grade": 1}, {"grade": 2}),
        (GoldJudge, {"qrels": {"d": 0}, "id": "d"}, {"qrels": {"d": 1}, "id": "d"}),
    ],
)
def test_another_label_is_another_answer(kind, one, other):
    """What these judges read is the label, so the label is part of the key."""
    assert knowing(kind(), **one).key(QUESTION) != knowing(kind(), **other).key(QUESTION)
