"""A program for DeepEval 4 with one import changed: run where both are installed (scripts/beside_neighbours.sh does)."""

from deepeval.test_case import LLMTestCase

from germane.addons.compat.deepeval import (
    ContextualPrecisionMetric,
    ContextualRecallMetric,
    ContextualRelevancyMetric,
)
from germane.errors import InputError

CASE = LLMTestCase(
    input="Which river flows through Cairo?",
    actual_output="The Nile flows through Cairo.",
    expected_output="The Nile flows through Cairo.",
    retrieval_context=["The Danube flows through Vienna.", "The Nile flows through Cairo."],
)


def main() -> None:
    for kind in (ContextualPrecisionMetric, ContextualRecallMetric, ContextualRelevancyMetric):
        metric = kind(threshold=0.5, model="lexical", include_reason=True)
        metric.measure(CASE)
        assert metric.score is not None, metric.error
        assert metric.reason
        assert metric.is_successful() is (metric.score >= 0.5)
    try:
        ContextualRecallMetric(model="lexical").measure(LLMTestCase(input="q", actual_output="a"))
    except InputError as error:
        assert "expected_output" in str(error), error
    else:
        raise AssertionError("a missing field is no error")


main()
