"""A program for DeepEval 4 with one import changed: run where both are installed (scripts/beside_neighbours.sh does)."""

import asyncio
import json
from typing import Any

from deepeval import assert_test, evaluate
from deepeval.errors import MissingTestCaseParamsError
from deepeval.evaluate import AsyncConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import BaseMetric
from deepeval.models import DeepEvalBaseLLM
from deepeval.test_case import LLMTestCase

from germane.addons.compat.deepeval import (
    AnswerRelevancyMetric,
    ContextualPrecisionMetric,
    ContextualRecallMetric,
    ContextualRelevancyMetric,
    FaithfulnessMetric,
)
from germane.errors import InputError

CASE = LLMTestCase(
    input="Which river flows through Cairo?",
    actual_output="The Nile flows through Cairo.",
    expected_output="The Nile flows through Cairo.",
    retrieval_context=["The Danube flows through Vienna.", "The Nile flows through Cairo."],
)
QUIET = DisplayConfig(show_indicator=False, print_results=False)


class Judge(DeepEvalBaseLLM):  # type: ignore[misc]
    """A model of the user's own: grades by the river that is named."""

    def load_model(self) -> Any:
        return self

    def generate(self, prompt: str, **_: Any) -> str:
        passage = prompt.rpartition("<passage")[2]
        return json.dumps({"reasoning": "so", "grade": 3 * ("Nile" in passage)})

    async def a_generate(self, prompt: str, **_: Any) -> str:
        await asyncio.sleep(0)
        return self.generate(prompt)

    def get_model_name(self) -> str:
        return "rivers"


def main() -> None:
    metrics = [
        kind(threshold=0.5, model="lexical", include_reason=True)
        for kind in (
            ContextualPrecisionMetric,
            ContextualRecallMetric,
            ContextualRelevancyMetric,
            FaithfulnessMetric,
            AnswerRelevancyMetric,
        )
    ]
    assert all(isinstance(metric, BaseMetric) for metric in metrics)
    for run_async in (True, False):
        result = evaluate(
            [CASE, CASE], metrics, async_config=AsyncConfig(run_async=run_async), display_config=QUIET
        )
        for one in result.test_results:
            found = {data.name: data for data in one.metrics_data}
            assert found["Contextual Precision"].score == 0.5, found
            assert found["Contextual Precision"].reason
            assert found["Contextual Recall"].success
            assert found["Contextual Recall"].evaluation_model == "lexical", found
    assert_test(CASE, [ContextualRecallMetric(model="lexical")])
    try:
        assert_test(CASE, [ContextualPrecisionMetric(threshold=0.9, model="lexical")])
    except AssertionError as error:
        assert "Contextual Precision" in str(error), error
    else:
        raise SystemExit("0.5 reaches 0.9")
    own = ContextualPrecisionMetric(model=Judge())
    assert own.measure(CASE) == 0.5
    assert own.evaluation_model == "python:rivers", own.evaluation_model
    missing()


def missing() -> None:
    case = LLMTestCase(input="q", actual_output="a", retrieval_context=["c"])
    metric = ContextualRecallMetric(model="lexical")
    try:
        metric.measure(case)
    except MissingTestCaseParamsError as error:
        assert "expected_output" in str(error), error
    else:
        raise SystemExit("a missing expected_output is no error")
    skipped = evaluate(
        [case], [metric, ContextualRelevancyMetric(model="lexical")],
        error_config=ErrorConfig(skip_on_missing_params=True), display_config=QUIET,
    )  # fmt: skip
    assert [data.name for data in skipped.test_results[0].metrics_data] == ["Contextual Relevancy"]
    try:
        ContextualRecallMetric().measure(CASE)
    except InputError as error:
        assert "model=" in str(error), error


main()
