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
assert "no context has a document id" in unknown.error.error_message, unknown


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


DOCUMENT = {"content": "The moon makes the tides.", "metadata": {"doc_uri": "d1"}}
RIGHT = {
    "content": [DOCUMENT],
    "text": [{"text": DOCUMENT["content"], "id": "d1"}],
    "mixed": [{"page_content": DOCUMENT["content"], "metadata": {"doc_uri": "d1"}}, DOCUMENT],
    "holder": {"documents": [DOCUMENT]},
    "texts": [DOCUMENT["content"]],
    "named": [{**DOCUMENT, "id": "chunk-7"}],  # gold names documents by their doc_uri
}
ASKED = [{
    "inputs": {"question": "What makes the tides?"},
    "expectations": {
        "expected_response": "The moon makes the tides.", "expected_retrieved_context": [{"doc_uri": "d1"}],
    },
}]  # fmt: skip
MEASURES = "context_precision context_recall RR"


def values(outputs, status=None):
    def predict(question):
        with mlflow.start_span("r", span_type=SpanType.RETRIEVER) as span:
            span.set_inputs({"query": question})
            span.set_outputs(outputs)
            if status is not None:
                span.set_status(status)
        return "The moon."

    found = mlflow.genai.evaluate(data=ASKED, predict_fn=predict, scorers=[scorer(MEASURES, judge="lexical")])
    return {
        name.removesuffix("/mean"): value for name, value in found.metrics.items() if name.endswith("/mean")
    }


for name, outputs in RIGHT.items():
    expected = dict.fromkeys(MEASURES.split(), 1.0)
    if name == "texts":  # no ids: gold knows none of them
        del expected["RR"]
    assert values(outputs) == expected, (name, values(outputs))
assert values([]) == dict.fromkeys(MEASURES.split(), 0.0)
assert values([], "ERROR") == values("no list") == values([{"body": "?"}]) == {}
