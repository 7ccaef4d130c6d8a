"""Haystack's pipelines as systems under test: run where it is installed (scripts/beside_neighbours.sh does)."""

# mypy: disable-error-code="untyped-decorator"

from haystack import Document, Pipeline, component
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder, PromptBuilder
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore

from germane import evaluate

TEXTS = {"d1": "the moon makes the tides", "d2": "bread needs yeast", "d3": "tides come twice a day"}
QUESTIONS = [
    {"id": "a", "query": "what makes the tides", "qrels": {"d1": 1}},
    {"id": "b", "query": "what bread needs", "qrels": {"d2": 1}},
]
TEMPLATE = "{% for document in documents %}{{document.content}}{% endfor %} {{query}}"
store = InMemoryDocumentStore()
store.write_documents([Document(id=name, content=text) for name, text in TEXTS.items()])


@component
class Model:
    @component.output_types(replies=list[str])
    def run(self, prompt: str):
        return {"replies": ["because"]}


@component
class ChatModel:
    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]):
        return {"replies": [ChatMessage.from_assistant("because")]}


@component
class LastFirst:
    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document], query: str):
        return {"documents": documents[::-1]}


def pipeline(*names, chat=False, answers=False):
    made = Pipeline()
    made.add_component("model", ChatModel() if chat else Model())
    builder = ChatPromptBuilder(template=[ChatMessage.from_user(TEMPLATE)], required_variables=["query"])
    made.add_component("prompt", builder if chat else PromptBuilder(TEMPLATE, required_variables=["query"]))
    steps = {"a_ranker": LastFirst, "retriever": lambda: InMemoryBM25Retriever(store, top_k=3)}
    for name in sorted(names):
        made.add_component(name, steps[name]())
    for before, after in zip(names, [*names[1:], "prompt"], strict=True):
        made.connect(f"{before}.documents", f"{after}.documents")
    made.connect("prompt", "model")
    if answers:
        made.add_component("answers", AnswerBuilder())
        made.connect("model.replies", "answers.replies")
        made.connect(f"{names[-1]}.documents", "answers.documents")
    return made


def seen(target):
    report = evaluate(QUESTIONS, "RR", target=target)
    return report["RR"].mean, {sample.response for sample in report.samples()}, report


reversed_ranks = 0.75  # what makes the tides: d1 comes second
for target, mean in [
    (pipeline("retriever"), 1.0),
    (pipeline("retriever", chat=True), 1.0),
    (pipeline("retriever", answers=True), 1.0),
    (pipeline("retriever", "a_ranker"), reversed_ranks),
    (pipeline("retriever", "a_ranker", answers=True), reversed_ranks),
]:
    value, responses, report = seen(target)
    assert (value, responses) == (mean, {"because"}), report

lone = pipeline("retriever")


def data(query):
    return {"retriever": {"query": query}, "prompt": {"query": query}}


value, responses, report = seen(lambda query: lone.run(data(query), include_outputs_from={"retriever"}))
assert (value, responses) == (1.0, {"because"}), report
value, responses, report = seen(InMemoryBM25Retriever(store))
assert value == 1.0, report
answered = pipeline("retriever", answers=True)  # whose answers alone hold documents
value, responses, report = seen(lambda query: answered.run({**data(query), "answers": {"query": query}}))
assert (value, responses) == (1.0, {"because"}), report
