"""A program for Ragas 0.4 with one import changed: run where both are installed (scripts/beside_neighbours.sh does)."""

from ragas import EvaluationDataset

import germane
from germane.addons.compat.ragas import context_precision, context_recall, evaluate, faithfulness

CASE = {
    "user_input": "Which river flows through Cairo?",
    "retrieved_contexts": ["Bread needs yeast.", "The Nile flows through Cairo."],
    "response": "The Nile flows through Cairo.",
    "reference": "The Nile flows through Cairo.",
}


def main() -> None:
    dataset = EvaluationDataset.from_list([CASE, {**CASE, "reference": "The Nile is in Cairo."}])
    metrics = [context_precision, context_recall, faithfulness]
    result = evaluate(dataset=dataset, metrics=metrics, llm="lexical")
    names = [metric.name for metric in metrics]
    frame = result.to_pandas()
    assert set(CASE) <= set(frame.columns), frame.columns
    assert frame[names].notna().all().all(), frame[names]
    assert frame["context_recall"].tolist() == result["context_recall"]
    from ragas.metrics import FactualCorrectness

    try:
        evaluate([CASE], [FactualCorrectness()], llm="lexical")
    except germane.InputError as error:
        assert "FactualCorrectness" in str(error), error
    else:
        raise AssertionError("a metric of Ragas' is no error")


main()
