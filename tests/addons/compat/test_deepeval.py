"""DeepEval's call shape: a metric, a case, a score with its reason."""

from types import SimpleNamespace
from typing import Any

import pytest

from germane.addons.compat.deepeval import (
    ContextualPrecisionMetric,
    ContextualRecallMetric,
    ContextualRelevancyMetric,
)
from germane.errors import AnswerError, InputError
from germane.judges import LLMJudge
from germane.testing import FakeJudge
from tests.server import ModelServer

CASE: dict[str, Any] = {
    "input": "Where is the Sahara?",
    "expected_output": "The Sahara lies in Africa. It is hot.",
    "retrieval_context": ["Bread needs yeast.", "The Sahara lies in Africa.", "Paris is in France."],
}
RELEVANT = {"Bread needs yeast.": 0, "The Sahara lies in Africa.": 3, "Paris is in France.": 1}


def answer(question):
    if question.kind == "relevance":
        return {"grade": RELEVANT[question.passage], "reasoning": "so it is"}
    if question.kind == "statements":
        return {"statements": [{"statement": question.passage, "relevant": RELEVANT[question.passage] == 3}]}
    if question.kind == "claims":
        return {"claims": ["The Sahara lies in Africa.", "The Sahara is hot."]}
    return {"claims": [{"claim": n, "reasoning": "", "contexts": [2] if n == 1 else []} for n in (1, 2)]}


@pytest.mark.parametrize(
    ("metric", "score"),
    [(ContextualPrecisionMetric, 0.5), (ContextualRecallMetric, 0.5), (ContextualRelevancyMetric, 1 / 3)],
)
def test_keywords_and_a_case_are_measured_alike(metric, score):
    """`measure` returns the score and keeps it, with a reason that names what is missing."""
    by_name = metric(model=FakeJudge(answer))
    by_case = metric(model=FakeJudge(answer))
    assert by_name.measure(**CASE) == by_case.measure(SimpleNamespace(**CASE)) == pytest.approx(score)
    assert by_name.score == pytest.approx(score)
    assert by_name.reason == by_case.reason
    assert by_name.reason


def test_the_threshold_decides_success():
    """At or above it; strict mode takes nothing but a perfect score."""
    metrics = [ContextualRecallMetric(t, FakeJudge(answer)) for t in (0.5, 0.51)]
    metrics.append(ContextualRecallMetric(0.1, FakeJudge(answer), strict_mode=True))
    assert not metrics[0].is_successful()  # nothing measured yet
    assert [(m.measure(**CASE), m.is_successful()) for m in metrics] == [
        (0.5, True),
        (0.5, False),
        (0.0, False),
    ]
    quiet = ContextualRecallMetric(model=FakeJudge(answer), include_reason=False)
    quiet.measure(**CASE)
    assert quiet.reason is None


def test_relevance_is_judged_against_the_expected_output():
    """The judge sees it with the query."""
    judge = FakeJudge(answer)
    ContextualPrecisionMetric(model=judge).measure(**CASE)
    assert {question.inputs()["reference"] for question in judge.asked} == {CASE["expected_output"]}


def test_a_judge_that_fails_is_no_score():
    """None and the reason why, and no success; never a number."""
    metric = ContextualPrecisionMetric(threshold=0.0, model=FakeJudge(lambda _: AnswerError("it broke")))
    assert metric.measure(**CASE) is None
    assert metric.error is not None
    assert "it broke" in metric.error
    assert not metric.success


def test_nothing_retrieved_is_zero():
    """And the judge is not asked about nothing."""
    judge = FakeJudge(answer)
    assert ContextualPrecisionMetric(model=judge).measure(**{**CASE, "retrieval_context": []}) == 0.0
    assert judge.calls == 0


@pytest.mark.parametrize("absent", ["input", "expected_output", "retrieval_context"])
def test_a_missing_field_is_named(absent):
    """As DeepEval refuses it."""
    with pytest.raises(InputError, match=absent):
        ContextualRecallMetric(model=FakeJudge(answer)).measure(**{**CASE, absent: None})


def test_no_judge_is_an_error_that_names_some():
    """Never a default model."""
    with pytest.raises(InputError, match="lexical"):
        ContextualPrecisionMetric().measure(**CASE)


def test_a_model_over_http():
    """The same metric with a language model behind an OpenAI-compatible endpoint: a metric asks each question once."""
    with ModelServer() as server:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="test")
        metric = ContextualPrecisionMetric(model=judge)
        values = [metric.measure(**CASE) for _ in range(2)]
    assert values[0] is not None
    assert values[0] == values[1]
    assert server.count == 3
