from __future__ import annotations

from typing import Any

import pytest

from germane.judges.gold import GoldJudge
from germane.judges.judge import LocalJudge
from germane.judges.labels import LabelsJudge
from germane.questions import Claims, Grade, Relevance, Support, key_of
from germane.types import Context


def ask(*, scale: Any = "graded", gold: int | None = None, **context: Any) -> Relevance:
    shown = Context(text="a passage", **context)
    return Relevance(query="q", passage="a passage", scale=scale, context=shown, gold=gold)


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
    question = ask(**label)
    assert question.read(LabelsJudge().reply(question).payload) == grade


@pytest.mark.parametrize(("grade", "relevant"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_a_grade_answers_a_yes_or_no_question(grade, relevant):
    """Where only yes or no is asked, a person's grade of 2 or more is a yes and the reasoning names it."""
    question = ask(scale="binary", grade=grade)
    answer = question.read(LabelsJudge().reply(question).payload)
    assert (answer.grade, answer.scale) == (relevant, "binary")
    assert f"{grade} of 3" in answer.reasoning


def test_an_unlabelled_context_is_an_error_and_not_irrelevant():
    """Nobody said anything: the score is incomplete, not lower."""
    reply = LabelsJudge().reply(ask())
    assert (reply.payload, reply.error) == (None, "no label")


def test_a_question_without_its_context_has_no_label():
    """A question made by hand may lack the context that the label hangs on."""
    assert LabelsJudge().reply(Relevance(query="q", passage="p")).error == "no label"


@pytest.mark.parametrize("judge", [LabelsJudge(), GoldJudge()])
@pytest.mark.parametrize("question", [Claims("q", "A text."), Support(("a",), ("b",))])
def test_labels_answer_only_relevance(judge: LocalJudge, question):
    """Labels on contexts say nothing about the claims of an answer, and the error says which kind was asked."""
    error = judge.reply(question).error
    assert error is not None
    assert f"of kind {question.kind}" in error


@pytest.mark.parametrize(("gold", "relevant"), [(-1, False), (0, False), (1, True), (2, True), (7, True)])
def test_gold_counts_from_grade_one_and_names_the_grade(gold, relevant):
    """Gold grades are on the collection's own scale: yes or no is what they all can say."""
    question = ask(gold=gold, id="d1")
    reply = GoldJudge().reply(question)
    assert reply.payload == {"relevant": relevant, "reasoning": f"gold grade {gold}"}
    assert question.read(reply.payload).scale == "binary"


def test_a_passage_that_cannot_be_looked_up_is_an_error_that_says_why():
    """Without a document id or without qrels there is nothing to read."""
    judge = GoldJudge()
    assert judge.reply(ask()).error == "no gold label: the passage has no document id"
    assert judge.reply(ask(id="d1")).error == "no gold label: the sample has no qrels"


@pytest.mark.parametrize(
    ("judge", "one", "other"),
    [
        (LabelsJudge(), ask(grade=1), ask(grade=2)),
        (GoldJudge(), ask(gold=0, id="d"), ask(gold=1, id="d")),
    ],
)
def test_another_label_is_another_answer(judge: LocalJudge, one, other):
    """What these judges read is the label, so the label is part of the key."""
    assert key_of(one, judge.identity, "") != key_of(other, judge.identity, "")
