"""Mastra's call shapes: its numbers under parity, exact ones by default, one judge for all."""

import json
from pathlib import Path

import pytest

from germane.addons.compat import mastra
from germane.addons.compat.mastra import Parity, relevance, rounded, scored
from germane.errors import AnswerError, InputError
from germane.testing import FakeJudge

HERE = Path(__file__).parent / "fixtures"
OLD = json.loads((HERE / "mastra_old.json").read_text("utf-8"))["rows"]
NEW = json.loads((HERE / "mastra_new.json").read_text("utf-8"))["rows"]
FORMULAS = {
    "ContextPositionMetric": "context_position",
    "ContextPrecisionMetric": "context_precision",
    "ContextRelevancyMetric": "context_relevancy",
    "ContextualRecallMetric": "context_recall",
}
GRADES = {"high": 3, "medium": 2, "low": 1, "none": 0}


def passages(count):
    return [f"passage {number}" for number in range(count)]


def claims(count):
    return {"claims": [f"claim {number}" for number in range(count)]}


def support(marks):
    """The n-th claim is supported by the contexts named in marks[n]."""
    return {"claims": [{"claim": n, "reasoning": "r", "contexts": list(c)} for n, c in enumerate(marks, 1)]}


def judge_of(words):
    """A judge that says these words about the n-th passage, or the n-th claim of the output."""

    def answer(question):
        if question.kind == "claims":
            return claims(len(words))
        if question.kind == "support":
            return support([[1] if word == "yes" else [] for word in words])
        number = int(question.passage.split()[1])
        if number >= len(words):
            raise AnswerError("the judge gave no verdict")
        relevant = {"yes": True, "no": False}.get(words[number], words[number])
        if question.kind == "statements":
            return {"statements": [{"statement": question.passage, "relevant": relevant}]}
        return {"relevant": relevant, "reasoning": "because"}

    return FakeJudge(answer)


CASES = [(row, name) for row in OLD for name in FORMULAS]


@pytest.mark.equals(
    "@mastra/evals 0.13", what="the four context metrics from the judge's words", within="exact"
)
@pytest.mark.parametrize(("row", "name"), CASES, ids=lambda one: one if isinstance(one, str) else one["name"])
def test_the_formulas_give_mastras_numbers(row, name):
    """From the verdicts of the judge, however many, the score of @mastra/evals 0.13."""
    verdicts = [word == "yes" for word in row["verdicts"]]
    assert scored(FORMULAS[name], verdicts, row["scale"]) == row["scores"][name]


@pytest.mark.equals(
    "@mastra/evals 0.13", what='the same through a whole evaluation with `parity="mastra"`', within="exact"
)
@pytest.mark.parametrize(("row", "name"), CASES, ids=lambda one: one if isinstance(one, str) else one["name"])
def test_the_metrics_give_mastras_numbers_under_parity(row, name):
    """The same numbers through the ordinary evaluation, from questions about each passage or claim."""
    metric = getattr(mastra, name)(
        judge_of(row["verdicts"]), context=passages(row["context_len"]), scale=row["scale"], parity="mastra"
    )
    assert metric.measure("a question", "an answer").score == row["scores"][name]


def test_the_normal_score_is_exact_and_its_reason_costs_nothing():
    """Not rounded, scaled all the same; the reason names every miss; one question a passage and no more."""
    judge = judge_of(["no", "yes", "yes", "no"])
    metric = mastra.ContextPositionMetric(judge, context=passages(4), scale=10)
    found = metric.measure("a question", "an answer")
    assert found.score == pytest.approx(4.0)
    assert "Position 1: Not relevant - because" in found.info["reason"]
    assert len(judge.asked) == 4
    assert mastra.ContextPrecisionMetric(judge, context=passages(4)).measure("q", "a").score == pytest.approx(
        7 / 12
    )


@pytest.mark.parametrize("words", [["yes"], ["yes.", "no", "no"]])
def test_a_verdict_that_is_missing_or_no_verdict_is_never_guessed(words):
    """Mastra divides by the verdicts it got; normally there is no score then, and the reason says so."""
    context = passages(3)
    found = mastra.ContextPrecisionMetric(judge_of(words), context=context).measure("q", "a")
    assert found.score is None
    assert "verdicts missing" in found.info["reason"]


def test_a_judge_that_fails_altogether_gives_no_score_under_parity_either():
    """Where Mastra raises."""
    judge = FakeJudge(lambda _: AnswerError("not JSON"))
    found = mastra.ContextPositionMetric(judge, context=passages(2), parity="mastra").measure("q", "a")
    assert found.score is None


def test_no_contexts_are_zero_and_ask_nobody():
    """Mastra pays a call for its reason here."""
    judge = FakeJudge()
    found = mastra.ContextPositionMetric(judge, context=[]).measure("q", "a")
    assert (found.score, judge.calls) == (0.0, 0)
    assert "No context retrieved" in found.info["reason"]


def test_relevance_is_judged_against_the_output_only_under_parity():
    """A wrong answer makes no passage relevant; Mastra shows it to the judge."""
    cases: list[tuple[Parity | None, str | None]] = [(None, None), ("mastra", "an answer")]
    for parity, shown in cases:
        judge = FakeJudge()
        mastra.ContextPrecisionMetric(judge, context=passages(1), parity=parity).measure("q", "an answer")
        assert [question.inputs().get("response") for question in judge.asked] == [shown]


def test_rounding_is_half_up_after_scaling():
    """1.005 is 1.01 as in JavaScript with its epsilon, 0.125 is 0.13."""
    assert [rounded(value) for value in (1.005, 0.125, 0.625, 5.8333, 0.0)] == [1.01, 0.13, 0.63, 5.83, 0.0]


def scorer_of(row):
    scale = row.get("scale", 1)
    if row["scorer"] == "precision":
        words = ["yes" if letter == "Y" else "no" for letter in row["verdicts"]]
        return mastra.ContextPrecisionScorer(
            judge_of(words), context=passages(len(words)), scale=scale, parity="mastra"
        )
    if row["scorer"] == "recall":
        marks = [[1]] * row["supported"] + [[]] * (row["claims"] - row["supported"])
        judge = FakeJudge({"claims": claims(row["claims"]), "support": support(marks)})
        return mastra.ContextRecallScorer(judge, context=passages(1), scale=scale, parity="mastra")
    used, missing = row["used"], row.get("missing", 0)
    marks = [used] * bool(used) + [[]] * missing

    def answer(question):
        if question.kind == "relevance":
            return {"grade": GRADES[row["levels"][int(question.passage.split()[1])]], "reasoning": "r"}
        return claims(len(marks)) if question.kind == "claims" else support(marks)

    context = passages(len(row["levels"]))
    return mastra.ContextRelevanceScorer(FakeJudge(answer), context=context, scale=scale, parity="mastra")


ODD_COUNTS = {"recall fewer verdicts (1 yes of 3 claims)", "recall more yes than claims clamps"}


@pytest.mark.equals(
    "@mastra/evals 1.10",
    what='context relevance and context precision scorers with `parity="mastra"`',
    within="exact",
)
@pytest.mark.parametrize(
    "row", [row for row in NEW if row["name"] not in ODD_COUNTS], ids=lambda row: row["name"]
)
def test_the_scorers_give_mastras_numbers_under_parity(row):
    """The score of @mastra/evals 1.10, through the ordinary evaluation."""
    truth = "the truth" if row.get("truth", True) else None
    assert scorer_of(row).run("a question", "an answer", truth).score == row["score"]


def test_nothing_evaluated_is_perfect_for_mastra_only():
    """No context at all: 1.0 there, 0 here."""
    scorers = [
        mastra.ContextRelevanceScorer(FakeJudge(), context=[], parity=parity) for parity in ("mastra", None)
    ]
    assert [scorer.run("q", "a").score for scorer in scorers] == [1.0, 0.0]
    assert relevance([], missing=2) == 0.0


def test_a_passage_that_came_twice_was_used_twice():
    """Support is asked about distinct texts; both places of a text share the answer."""
    judge = FakeJudge(
        {"relevance": {"grade": 3, "reasoning": ""}, "claims": claims(1), "support": support([[2]])}
    )
    context = ["passage 0", "passage 0", "passage 1"]
    found = mastra.ContextRelevanceScorer(judge, context=context).run("q", "a")
    assert found.score == pytest.approx(1.0 - 2 * 0.1)


def test_recall_without_ground_truth_is_no_score():
    """Mastra says 0."""
    found = mastra.ContextRecallScorer(FakeJudge(), context=passages(1)).run("q", "a")
    assert found.score is None
    assert "no reference" in found.reason


def test_what_is_refused():
    """Another parity, contexts that are no list, and relevance without an output."""
    for context in ("a passage", None, {"text": "a passage"}):
        with pytest.raises(InputError, match=r"context is .*, not a list"):
            mastra.ContextPositionMetric(FakeJudge(), context=context)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="parity"):
        mastra.ContextPositionMetric(FakeJudge(), context=[], parity="liverag")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="needs output"):
        mastra.ContextRelevanceScorer(FakeJudge(), context=passages(1)).run("q")
