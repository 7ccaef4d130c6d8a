"""Spans of LangGraph and LangChain that OpenInference's instrumentation writes, as germane reads them from two exports."""

# mypy: disable-error-code="misc,import-not-found,import-untyped,no-untyped-def"

import json
import tempfile
from pathlib import Path

from google.protobuf.json_format import MessageToDict
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from germane.samples import read_samples

ASKED, ANSWERED = "How do I cancel a subscription?", "Open the billing page."
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
LangChainInstrumentor().instrument(tracer_provider=provider)


class Pages(BaseRetriever):
    """One page, whatever is asked."""

    def _get_relevant_documents(self, query, *, run_manager=None):
        return [Document(page_content="The billing page lists all invoices.", metadata={"source": "b.md"})]


def search(_):
    """The agent's step: it searches in words of its own."""
    Pages().invoke("billing page")
    return AIMessage(content=[{"type": "text", "text": ANSWERED}])


graph = StateGraph(MessagesState)
graph.add_node("search", lambda state: {"messages": [search(state)]})
graph.add_edge(START, "search")
graph.add_edge("search", END)
agent = graph.compile()
for message in (HumanMessage(content=ASKED), ("user", ASKED), {"role": "user", "content": ASKED}):
    agent.invoke({"messages": [message]})
for asked in (
    ASKED,
    [HumanMessage(content=[{"type": "text", "text": ASKED}])],
    [("system", "Be brief."), ("human", ASKED)],
):
    RunnableLambda(search).invoke(asked)

spans = exporter.get_finished_spans()
exports = {
    "otlp.json": json.dumps(MessageToDict(encode_spans(spans))),
    "console.jsonl": "\n".join(span.to_json(indent=None) for span in spans),
}
for name, text in exports.items():
    path = Path(tempfile.mkdtemp()) / name
    path.write_text(text, encoding="utf-8")
    samples = list(read_samples(path))
    assert len(samples) == 6, (name, samples)
    for sample in samples:
        assert (sample.query, sample.response) == (ASKED, ANSWERED), (name, sample)
        assert [call.query for call in sample.calls or ()] == ["billing page"], (name, sample)
