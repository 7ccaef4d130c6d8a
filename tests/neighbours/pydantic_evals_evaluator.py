"""germane's measures as an evaluator of pydantic-evals: run where both are installed (scripts/beside_neighbours.sh does)."""

import asyncio
from dataclasses import dataclass

from pydantic_evals import Case, Dataset

from germane import InputError
from germane.integrations.pydantic_evals import Germane
from germane.judges import LLMJudge
from germane.testing import FakeJudge
from tests.server import ModelServer

TEXTS = {"a": "The tide is high at noon.", "b": "Bread needs yeast."}


def retrieve(query):
    return [{"id": name, "text": text} for name, text in TEXTS.items()]


@dataclass
class Hit:
    id: str
    text: str


def failing(question):
    if question.passage == TEXTS["a"]:
        raise ConnectionError("the judge is away")
    return {"grade": 3}


cases = [
    Case(name="tide", inputs="When is high tide?", expected_output=["a"], metadata={"tags": ["sea"]}),
    Case(name="bread", inputs="What does bread need?", expected_output=["b"]),
]
report = Dataset(name="gold", cases=cases, evaluators=[Germane("RR R@1")]).evaluate_sync(
    retrieve, progress=False
)
scores = {case.name: {name: one.value for name, one in case.scores.items()} for case in report.cases}
assert scores == {"tide": {"RR": 1.0, "R@1": 1.0}, "bread": {"RR": 0.5, "R@1": 0.0}}, scores
assert report.averages().scores["RR"] == 0.75

judged = Germane("context_precision RR", judge=FakeJudge(failing))
report = Dataset(name="broken", cases=cases, evaluators=[judged]).evaluate_sync(retrieve, progress=False)
for case in report.cases:
    assert "context_precision" not in case.scores, case.scores
    assert case.labels["context_precision"].value == "incomplete", case.labels
    assert "between" in case.labels["context_precision"].reason, case.labels
assert report.averages().scores == {"RR": 0.75}, report.averages()

missed = Germane("context_precision", judge=FakeJudge({"relevance": {"grade": 3}}))
report = Dataset(name="nothing", cases=cases, evaluators=[missed]).evaluate_sync(lambda _: [], progress=False)
assert all(case.scores["context_precision"].reason.endswith("[fake]") for case in report.cases), report.cases
report = Dataset(name="ids", cases=cases, evaluators=[Germane("RR")]).evaluate_sync(
    lambda _: ["a"], progress=False
)
assert all("no context has a document id" in case.labels["RR"].reason for case in report.cases), report.cases

hits = Dataset(name="hits", cases=cases, evaluators=[Germane("RR")]).evaluate_sync(
    lambda _: [Hit(*pair) for pair in TEXTS.items()], progress=False
)
assert hits.averages().scores == {"RR": 0.75}, hits.averages()


def scored(expected, output):
    dataset = Dataset(
        name="any", cases=[Case(name="c", inputs="q", expected_output=expected)], evaluators=[Germane("RR")]
    )
    (case,) = dataset.evaluate_sync(lambda _: output, progress=False).cases
    failures = [failure.error_message for failure in case.evaluator_failures]
    return {name: one.value for name, one in case.scores.items()}, *failures


for gold in ({"a"}, frozenset({"a", 7}), ("a",), [7, "a"], {"a": 1}.keys(), {"qrels": {"a": 1}}):
    assert scored(gold, [{"id": "a", "text": "t"}]) == ({"RR": 1.0},), gold
for wrong, output, said in (
    (["a"], {"a", "b"}, "the response cannot be a value of type set"),
    (["a"], 5, "the response cannot be the number 5"),
    (5, [{"id": "a"}], "the reference cannot be the number 5"),
):
    found, why = scored(wrong, output)
    assert (found, said in why) == ({}, True), why
try:
    Germane("nDGC@10")
except InputError as error:
    assert "did you mean nDCG?" in str(error), error
else:
    raise AssertionError("a measure that is not known")

# Asynchronous: cases are judged at the same time, with one judge, and the event loop goes on meanwhile.
ticks = list[int]()


async def concurrently(evaluator):
    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    many = [Case(name=f"c{n}", inputs=f"What is {n}?") for n in range(10)]
    dataset = Dataset(name="many", cases=many, evaluators=[evaluator])
    result = await dataset.evaluate(lambda query: [f"{query} It is.", "No."], progress=False)
    ticking.cancel()
    return result


with ModelServer(latency=0.2) as server:
    slow = Germane(
        "context_precision", judge=LLMJudge("openai:m", base_url=server.url, api_key="k", concurrency=12)
    )
    report = asyncio.run(concurrently(slow))
    assert [len(case.scores) for case in report.cases] == [1] * 10, report.cases
    assert server.count == 20, server.count
    assert server.most_in_flight == 12, (
        server.most_in_flight
    )  # of several cases, and within the judge's limit
    assert len(ticks) > 10, ticks
    again = asyncio.run(concurrently(slow))  # in another event loop
    assert again.averages().scores == report.averages().scores
    assert server.count == 20, server.count
