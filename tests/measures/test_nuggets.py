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
SUPPORT = {"born 1867": "support", "two prizes": "partial_support", "liked bicycles": "support"}
SAMPLE = {"query": "q", "contexts": ["c"], "response": "a", "metadata": {"nuggets": NUGGETS}}


def answer(question):
    if question.kind == "claims":
        return {"claims": question.text.split("; ")}
    if question.kind == "importance":
        weights = ["okay" if "bicycles" in nugget else "vital" for nugget in question.nuggets]
        return {"nuggets": [{"nugget": n, "importance": weight} for n, weight in enumerate(weights, 1)]}
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


REFERRING = {"query": "q", "contexts": ["c"], "reference": "born 1867; two prizes; liked bicycles"}


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        ("strict_vital_score", 1 / 2),
        ("vital_score", 1.5 / 2),
        ("strict_all_score", 2 / 3),
        ("all_score", 2.5 / 3),
        ("strict_weighted_score", 1.5 / 2.5),
        ("weighted_score", 2.0 / 2.5),
    ],
)
def test_without_nuggets_the_reference_gives_them(measure, value):
    """Its claims, each vital or okay as the judge says."""
    (score,) = evaluate([REFERRING], measure, judge=FakeJudge(answer)).scores()
    assert score.value == pytest.approx(value)


def test_all_scores_of_nuggets_are_read_from_the_same_three_answers():
    """The claims of the reference, their importance, and which of them the contexts support."""
    judge = FakeJudge(answer, stored=True)
    evaluate([REFERRING], ["strict_vital_score all_score weighted_score"], judge=judge)
    assert [question.kind for question in judge.asked] == ["claims", "importance", "nuggets"]


def test_the_only_fact_of_a_reference_is_vital_without_asking():
    """To "Warsaw" nobody has to be asked what matters in it."""
    judge = FakeJudge(answer)
    report = evaluate([{**REFERRING, "reference": "born 1867"}], "strict_vital_score", judge=judge)
    assert [question.kind for question in judge.asked] == ["claims", "nuggets"]
    assert report["strict_vital_score"].mean == 1.0


def test_nuggets_without_a_vital_one_have_no_vital_score():
    """It is skipped, nobody is asked, and the score of all counts."""
    sample = {**SAMPLE, "metadata": {"nuggets": NUGGETS[2:]}}
    judge = FakeJudge(answer)
    vital, all_ = evaluate([sample], ["vital_score", "all_score"], judge=judge).scores()
    assert (vital.status, vital.why) == ("skipped", "none of the sample's nuggets is vital")
    assert all_.value == 1.0
    assert len(judge.asked) == 1


def test_a_response_is_scored_without_contexts():
    """AutoNuggetizer scores answers: nothing retrieved need be known."""
    sample = {"query": "q", "response": "a", "metadata": {"nuggets": NUGGETS}}
    (score,) = evaluate([sample], "vital_score(text=response)", judge=FakeJudge(answer)).scores()
    assert score.value == 1.5 / 2


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


@pytest.mark.parametrize("given", [{}, {"metadata": {"nuggets": [{"text": "n", "importance": "okay"}]}}])
def test_without_nuggets_that_count_an_empty_list_is_no_zero(given):
    """What could not be measured is skipped, also where nothing was retrieved."""
    (score,) = evaluate(
        [{"query": "q", "contexts": [], **given}], "nugget_recall", judge=FakeJudge()
    ).scores()
    assert score.status == "skipped"
