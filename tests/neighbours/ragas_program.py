"""A program for Ragas 0.4 with one import changed: run where both are installed (scripts/beside_neighbours.sh does)."""

import asyncio
from typing import Any

from openai import AsyncOpenAI
from ragas import EvaluationDataset, RunConfig, SingleTurnSample
from ragas.llms import llm_factory
from ragas.llms.base import BaseRagasLLM

import germane.addons.compat.ragas
from germane.addons.compat.ragas import (
    ContextEntityRecall,
    ContextPrecision,
    ContextRecall,
    Faithfulness,
    LLMContextPrecisionWithoutReference,
    LLMContextPrecisionWithReference,
    LLMContextRecall,
    evaluate,
)
from tests.server import ModelServer

CASE = {
    "user_input": "Which river flows through Cairo?",
    "retrieved_contexts": ["Bread needs yeast.", "The Nile flows through Cairo."],
    "response": "The Nile flows through Cairo.",
    "reference": "The Nile flows through Cairo.",
}


class OwnModel(BaseRagasLLM):  # type: ignore[misc]
    """A model of Ragas' first kind, which gives texts; its answers are no JSON."""

    def generate_text(self, *_args: Any, **_settings: Any) -> Any:
        raise NotImplementedError

    async def agenerate_text(self, prompt: Any, *_args: Any, **_settings: Any) -> Any:
        from langchain_core.outputs import Generation, LLMResult

        assert CASE["user_input"] in prompt.to_string()
        return LLMResult(generations=[[Generation(text='{"reasoning": "so", "grade": 3}')]])

    def is_finished(self, response: Any) -> bool:
        return bool(response)


def main() -> None:
    dataset = EvaluationDataset.from_list([CASE, {**CASE, "reference": "The Nile is in Cairo."}])
    sample = SingleTurnSample(**CASE)
    with ModelServer() as server:
        llm = llm_factory("gpt-4o-mini", client=AsyncOpenAI(base_url=server.url, api_key="secret"))
        result = evaluate(
            dataset=dataset,
            metrics=[LLMContextPrecisionWithReference(), LLMContextRecall(), Faithfulness()],
            llm=llm,
            run_config=RunConfig(max_workers=4),
            show_progress=False,
        )
        names = ["llm_context_precision_with_reference", "context_recall", "faithfulness"]
        frame = result.to_pandas()
        assert set(CASE) <= set(frame.columns), frame.columns
        assert frame[names].notna().all().all(), frame[names]
        assert frame["context_recall"].tolist() == result["context_recall"] == [1.0, 1.0]
        assert all(asked.headers["authorization"] == "Bearer secret" for asked in server.asked)
        assert {asked.json["model"] for asked in server.asked} == {"gpt-4o-mini"}
        asyncio.run(calls(llm, sample))
    judged = LLMContextPrecisionWithoutReference(llm=OwnModel()).single_turn_score(sample)
    assert judged == 1.0, judged
    wrong()


async def calls(llm: Any, sample: SingleTurnSample) -> None:
    precision = await LLMContextPrecisionWithReference(llm=llm).single_turn_ascore(sample)
    assert precision == 0.5, precision
    recall = await ContextRecall(llm=llm).ascore(
        user_input=CASE["user_input"],
        retrieved_contexts=CASE["retrieved_contexts"],
        reference=CASE["reference"],
    )
    assert recall.value == 1.0, recall
    entities = await ContextEntityRecall(llm=llm).ascore(
        reference=CASE["reference"], retrieved_contexts=CASE["retrieved_contexts"]
    )
    assert entities.value is not None, entities
    (several,) = await ContextPrecision(llm=llm).abatch_score(
        [{name: CASE[name] for name in ("user_input", "retrieved_contexts", "reference")}]
    )
    assert several.value == 0.5, several


def wrong() -> None:
    try:
        ContextRecall(llm="lexical").score(user_input="q", retrieved_contexts=["c"])
    except germane.InputError as error:
        assert "reference" in str(error), error
    else:
        raise AssertionError("a missing field is no error")
    from ragas.metrics import FactualCorrectness

    try:
        evaluate([CASE], [FactualCorrectness()], llm="lexical")
    except germane.InputError as error:
        assert "FactualCorrectness" in str(error), error
    else:
        raise AssertionError("a metric of Ragas' is no error")


main()
