"""Nugget recall: vital and okay facts, in full and in part."""

from __future__ import annotations

import pytest

from germane import evaluate
from germane.judges import FakeJudge

NUGGETS = [
    "born 1867",
    {"text": "two prizes", "importance": "vital"},
    {"text": "liked bicycles", "importance": "okay"},
]
SUPPORT = {"born 1867": "full", "two prizes": "partial", "liked bicycles": "full"}
SAMPLE = {"query": "q", "contexts": ["c"], "response": "a", "metadata": {"nuggets": NUGGETS}}


def answer(question):
    if question.kind == "claims":
        return {"claims": ["born 1867", "two prizes"]}
    return {
        "nuggets": [
            {"nugget": n, "reasoning": "", "support": SUPPORT[t]} for n, t in enumerate(question.nuggets, 1)
        ]
    }


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        ("nugget_recall", 1 / 2),
        ("nugget_recall(strict=false)", 1.5 / 2),
        ("nugget_recall(nuggets=all)", 2 / 3),
        ("nugget_recall(nuggets=all,strict=false)", 2.5 / 3),
        ("nugget_recall(nuggets=weighted)", 1.5 / 2.5),
        ("nugget_recall(nuggets=weighted,strict=false)", 2.0 / 2.5),
        ("nugget_recall(text=response)", 1 / 2),
        ("strict_vital_score", 1 / 2),
        ("vital_score", 1.5 / 2),
        ("strict_all_score", 2 / 3),
        ("all_score", 2.5 / 3),
        ("strict_weighted_score", 1.5 / 2.5),
        ("weighted_score(text=response)", 2.0 / 2.5),
    ],
)
def test_the_six_scores_of_autonuggetizer(measure, value):
    """V_strict, V, A_strict, A, W_strict and W by hand and by TREC RAG's names; the same of the response."""
    (score,) = evaluate([SAMPLE], measure, judge=FakeJudge(answer)).scores()
    assert score.value == pytest.approx(value)


def test_without_nuggets_the_reference_gives_them():
    """The claims of the reference stand in, all vital."""
    sample = {"query": "q", "contexts": ["c"], "reference": "r"}
    assert evaluate([sample], "nugget_recall", judge=FakeJudge(answer))["nugget_recall"].mean == 0.5


@pytest.mark.parametrize(
    "nuggets", ["one", [{"importance": "vital"}], [{"text": "x", "importance": "nice"}], [3]]
)
def test_unusable_nuggets_are_an_error_of_their_sample(nuggets):
    """What is wrong is said, with how to write it."""
    report = evaluate(
        [{**SAMPLE, "metadata": {"nuggets": nuggets}}], "nugget_recall", judge=FakeJudge(answer)
    )
    (score,) = report.scores()
    assert score.status == "error"
    assert score.why is not None
    assert 'write "nuggets"' in score.why
