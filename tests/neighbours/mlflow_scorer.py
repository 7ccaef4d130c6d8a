"""germane's measures inside mlflow.genai.evaluate: run where both are installed (scripts/beside_neighbours.sh does)."""

import mlflow
from mlflow.entities import Document, SpanType

from germane.integrations.mlflow import scorer
from germane.testing import FakeJudge

TEXTS = {"a": "The tide is high at noon.", "b": "Bread needs yeast."}


@mlflow.trace(span_type=SpanType.RETRIEVER)
def retrieve(query):
    return [Document(page_content=text, id=name) for name, text in TEXTS.items()]


def answer(question):
    retrieve(question)
    return "At noon."


def failing(question):
    if question.passage == TEXTS["a"]:
        raise ConnectionError("the judge is away")
    return {"grade": 3}


mlflow.set_tracking_uri("sqlite:///mlflow.db")
data = [
    {
        "inputs": {"question": "When is high tide?"},
        "expectations": {"qrels": {"a": 1}, "expected_response": "At noon."},
    },
    {
        "inputs": {"question": "What does bread need?"},
        "expectations": {"qrels": {"b": 1}, "expected_response": "Yeast."},
    },
]
judge = FakeJudge({"relevance": {"grade": 3}})
result = mlflow.genai.evaluate(
    data=data,
    predict_fn=answer,
    scorers=[scorer("RR nDCG(dcg=exp-log2)@10 R@1"), scorer("context_precision", judge=judge, name="judged")],
)
assert result.metrics["RR/mean"] == 0.75, result.metrics
assert {"nDCG_dcg_exp-log2_at_10/mean", "R_at_1/mean"} < result.metrics.keys(), (
    result.metrics
)  # it refuses "@"
assert result.metrics["context_precision/mean"] == 1.0, result.metrics

broken = scorer("context_precision RR", judge=FakeJudge(failing), name="broken")
contexts = [{"id": name, "text": text} for name, text in TEXTS.items()]
(lost, ranked) = broken(
    inputs=data[0]["inputs"], outputs={"contexts": contexts}, expectations=data[0]["expectations"]
)
assert (lost.value, lost.error.error_code, lost.metadata["status"]) == (None, "INCOMPLETE", "incomplete"), (
    lost
)
assert lost.metadata["bounds"] == "0.5 to 1", lost
assert lost.source.source_id == "fake", lost
assert (ranked.value, ranked.source.source_id) == (1.0, "gold"), ranked
(empty,) = scorer("context_precision", judge=judge)(
    inputs=data[0]["inputs"], outputs={"contexts": []}, expectations={}
)
assert (empty.value, empty.source.source_id) == (0.0, "fake"), (
    empty
)  # nothing was asked, and it is its measure
(unknown,) = scorer("RR")(
    inputs=data[0]["inputs"], outputs={"contexts": ["a", "b"]}, expectations={"qrels": {"a": 1}}
)
assert "have no ids" in unknown.rationale, unknown


@mlflow.trace(span_type=SpanType.RETRIEVER)
def broken_index(query):
    raise ConnectionError(query)


@mlflow.trace
def apologize(question):
    try:
        broken_index(question)
    except ConnectionError:
        return "Sorry."


@mlflow.trace
def ask_again(question):
    apologize(question)
    retrieve(question)
    return "At noon."


result = mlflow.genai.evaluate(data=data, predict_fn=apologize, scorers=[scorer("RR")])
assert "RR/mean" not in result.metrics, result.metrics  # a retriever that failed is no ranking that missed
result = mlflow.genai.evaluate(data=data, predict_fn=ask_again, scorers=[scorer("RR")])
assert result.metrics["RR/mean"] == 0.75, result.metrics
