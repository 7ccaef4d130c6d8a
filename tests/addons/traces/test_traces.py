"""Exported traces as samples: small exports made in the shapes of their projects' documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from germane.errors import InputError
from germane.samples import read_samples
from germane.samples.files import Notice
from germane.types import Sample
from tests.command import invoke

NANO = 1_700_000_000_000_000_000


def documents(name: str, *ids: str) -> dict[str, Any]:
    """A list of documents as OpenInference flattens it."""
    return {
        f"{name}.{n}.document.{key}": value
        for n, one in enumerate(ids)
        for key, value in {"id": one, "content": f"Text of {one}.", "score": 1.0 - n / 8}.items()
    }


def span(name: str, at: int, parent: str = "", **more: Any) -> dict[str, Any]:
    """A span of the trace `t1`, which takes `ms` milliseconds, 2 without it."""
    kind, ms = more.pop("kind", "CHAIN"), more.pop("ms", 2)
    attributes = {"openinference.span.kind": kind, **more.get("attributes", {})}
    return {
        "trace": "t1",
        "id": f"s-{name}",
        "parent": parent,
        "name": name,
        "at": at,
        "ms": ms,
        "attributes": attributes,
    }


HYBRID = [
    span("query", 0, attributes={"input.value": "When is high tide?", "output.value": "At noon.", "session.id": "u1"}),
    span("embed", 1, "s-query", kind="EMBEDDING", attributes={"embedding.model_name": "small", "embedding.embeddings.0.embedding.text": "When"}),
    span("bm25", 2, "s-query", kind="RETRIEVER", attributes={"input.value": "When is high tide?", **documents("retrieval.documents", "d1", "d2")}),
    span("vectors", 3, "s-query", kind="RETRIEVER", attributes={"input.value": "When is high tide?", **documents("retrieval.documents", "d3", "d2")}),
    span("rerank", 6, "s-query", kind="RERANKER", attributes={
        "reranker.query": "When is high tide?", "reranker.model_name": "cross",
        **documents("reranker.input_documents", "d1", "d3", "d2"), **documents("reranker.output_documents", "d3", "d1"),
    }),
]  # fmt: skip


def otlp(spans: list[dict[str, Any]]) -> dict[str, Any]:
    """OTLP/JSON, as the collector's file exporter writes it."""

    def value(one: Any) -> dict[str, Any]:
        if isinstance(one, list):
            return {"arrayValue": {"values": list(map(value, one))}}
        if isinstance(one, dict):
            return {"kvlistValue": {"values": [{"key": k, "value": value(v)} for k, v in one.items()]}}
        return {"doubleValue": one} if isinstance(one, float) else {"stringValue": one}

    made = [
        {
            "traceId": one["trace"], "spanId": one["id"], "parentSpanId": one["parent"], "name": one["name"],
            "startTimeUnixNano": str(NANO + one["at"] * 1_000_000), "endTimeUnixNano": str(NANO + (one["at"] + one["ms"]) * 1_000_000),
            "attributes": [{"key": key, "value": value(one)} for key, one in one["attributes"].items()],
            **({"status": one["status"]} if "status" in one else {}),
        }
        for one in spans
    ]  # fmt: skip
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "x"}, "spans": made}]}]}


def time(at: int) -> str:
    return f"2026-11-20T10:00:00.{at:03d}+00:00"


def phoenix(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Spans as Phoenix's REST API and its own JSON lines have them."""
    return [
        {
            "id": f"U3Bhbjox{one['at']}", "name": one["name"], "context": {"trace_id": one["trace"], "span_id": one["id"]},
            "span_kind": one["attributes"]["openinference.span.kind"], "parent_id": one["parent"] or None,
            "start_time": time(one["at"]), "end_time": time(one["at"] + one["ms"]), "status_code": "OK", "attributes": one["attributes"],
        }
        for one in spans
    ]  # fmt: skip


def frame(spans: list[dict[str, Any]]) -> pl.DataFrame:
    """Phoenix's data frame: a column per attribute, lists of documents as lists of objects."""

    def listed(attributes: dict[str, Any], name: str) -> list[dict[str, Any]] | None:
        found: dict[str, dict[str, Any]] = {}
        for key, one in attributes.items():
            if key.startswith(f"{name}."):
                number, _, field = key[len(name) + 1 :].partition(".")
                found.setdefault(number, {})[field] = one
        return list(found.values()) or None

    lists = ("retrieval.documents", "reranker.input_documents", "reranker.output_documents")
    rows = [
        {
            "context.span_id": one["id"], "context.trace_id": one["trace"], "parent_id": one["parent"] or None,
            "name": one["name"], "span_kind": one["attributes"]["openinference.span.kind"],
            "start_time": pl.Series([time(one["at"])]).str.to_datetime()[0], "end_time": pl.Series([time(one["at"] + one["ms"])]).str.to_datetime()[0],
            **{f"attributes.{name}": listed(one["attributes"], name) for name in lists},
            **{f"attributes.{name}": one["attributes"].get(name) for name in ("input.value", "output.value", "reranker.query", "session.id", "embedding.model_name", "reranker.model_name")},
        }
        for one in spans
    ]  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def langfuse(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Langfuse's enriched observations, of spans that it took by OpenTelemetry."""
    return [
        {
            "id": one["id"], "trace_id": one["trace"], "parent_observation_id": one["parent"], "name": one["name"],
            "type": {"RERANKER": "SPAN"}.get(kind := one["attributes"]["openinference.span.kind"], kind),
            "start_time": f"2026-11-20 10:00:00.{one['at']:03d}000", "end_time": f"2026-11-20 10:00:00.{one['at'] + 2:03d}000",
            "input": one["attributes"].get("input.value", ""), "output": one["attributes"].get("output.value", ""),
            "metadata": {"attributes": json.dumps(one["attributes"]), "scope": {}}, "session_id": "u1", "level": "DEFAULT",
        }
        for one in spans
    ]  # fmt: skip


def write(folder: Path, shape: str, spans: list[dict[str, Any]]) -> Path:
    if shape == "frame.parquet":
        frame(spans).write_parquet(folder / shape)
        return folder / shape
    if shape == "langfuse.parquet":
        observations = [{**row, "metadata": json.dumps(row["metadata"])} for row in langfuse(spans)]
        pl.DataFrame(observations).write_parquet(folder / shape)
        return folder / shape
    rows: Any = {
        "otlp.json": lambda: otlp(spans),
        "otlp.jsonl": lambda: [otlp([one]) for one in spans],
        "phoenix.json": lambda: {"data": phoenix(spans), "next_cursor": None},
        "phoenix.jsonl": lambda: phoenix(spans),
        "langfuse.json": lambda: {"trace": {"id": "t1"}, "observations": langfuse(spans), "scores": []},
        "langfuse.jsonl": lambda: langfuse(spans),
    }[shape]()
    lines = "\n".join(map(json.dumps, rows)) if shape.endswith("l") else json.dumps(rows)
    (folder / shape).write_text(lines)
    return folder / shape


SHAPES = ("otlp.json", "otlp.jsonl", "phoenix.json", "phoenix.jsonl", "frame.parquet", "langfuse.json", "langfuse.jsonl", "langfuse.parquet")  # fmt: skip


def read(folder: Path, spans: list[dict[str, Any]], notices: list[Notice] | None = None) -> list[Sample]:
    warn = None if notices is None else notices.append
    return list(read_samples(write(folder, "otlp.jsonl", spans), warn=warn))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_trace_is_one_sample_in_every_shape(shape: str, tmp_path: Path) -> None:
    """Two retrievers and the reranker of both: its list is the context, and every list on the way is a stage."""
    (sample,) = read_samples(write(tmp_path, shape, HYBRID))
    assert (sample.id, sample.query, sample.response, sample.cluster) == (
        "t1",
        "When is high tide?",
        "At noon.",
        "u1",
    )
    assert sample.contexts is not None
    assert [(one.id, one.text, one.score) for one in sample.contexts] == [
        ("d3", "Text of d3.", 1.0),
        ("d1", "Text of d1.", 0.875),
    ]
    assert {stage.name: stage.ids for stage in sample.stages} == {
        "bm25": ("d1", "d2"),
        "vectors": ("d3", "d2"),
        "rerank": ("d3", "d1"),
    }
    assert sample.metadata == {"spans": ("s-rerank",)}


def test_an_agent_that_searches_several_times_has_calls(tmp_path: Path) -> None:
    """Each search asks in its own words; inner retriever spans fold into the outer one, whose list counts."""
    spans = [
        span("agent", 0, attributes={"input.value": '{"messages": [{"role": "user", "content": "Who founded Ford?"}]}'}),
        span("search", 1, "s-agent", kind="RETRIEVER", ms=4, attributes={"input.value": '{"query": "Ford"}', **documents("retrieval.documents", "a")}),
        span("inner", 2, "s-search", kind="RETRIEVER", attributes={"input.value": "ford", **documents("retrieval.documents", "b", "a")}),
        span("again", 5, "s-agent", kind="RETRIEVER", attributes={"input.value": "Ford founder", **documents("retrieval.documents", "c")}),
    ]  # fmt: skip
    (sample,) = read(tmp_path, spans)
    assert sample.query == "Who founded Ford?"
    assert sample.calls is not None
    assert [(one.query, one.source, one.ms) for one in sample.calls] == [
        ("Ford", "search", 4.0),
        ("Ford founder", "again", 2.0),
    ]
    assert [[context.id for context in one.contexts] for one in sample.calls] == [["a"], ["c"]]
    assert {stage.name: stage.ids for stage in sample.stages} == {
        "inner": ("b", "a"),
        "search": ("a",),
        "again": ("c",),
    }
    assert sample.metadata["spans"] == ("s-search", "s-again")


ASKED = "How do I cancel a subscription?"
SYSTEM = {"role": "system", "content": "Be brief."}


def constructed(name: str, content: Any) -> dict[str, Any]:
    """A message as LangChain's `dumpd` writes it."""
    path = ["langchain", "schema", "messages", name]
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": {"content": content}}


@pytest.mark.parametrize(
    "asked",
    [
        {"messages": [{"type": "human", "data": {"content": ASKED, "type": "human"}}]},
        {"messages": [{"type": "system", "data": {"content": "Be brief."}}, {"type": "human", "data": {"content": [{"type": "text", "text": ASKED}]}}]},
        {"messages": [{"content": ASKED, "type": "human"}, {"content": "Which one?", "type": "ai"}, {"content": ASKED, "type": "HumanMessageChunk"}]},
        {"messages": [constructed("SystemMessage", "Be brief."), constructed("HumanMessage", ASKED)]},
        {"messages": [[constructed("SystemMessage", "Be brief."), constructed("HumanMessage", ASKED)]]},
        {"messages": [["system", "Be brief."], ["user", ASKED]]},
        [["human", ASKED]],
        {"messages": [SYSTEM, {"role": "user", "content": ASKED}]},
        {"input": {"messages": [SYSTEM, {"role": "user", "parts": [{"type": "text", "content": ASKED}]}]}},
        {"role": "user", "content": ASKED},
        {"messages": [{"role": "user", "content": ASKED}, {"role": "assistant", "content": [{"type": "tool_use", "id": "u", "name": "s", "input": {}}]},
                      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "u", "content": "A page."}]}]},
        {"message": {"role": "user", "content": [{"type": "input_text", "text": ASKED}]}},
        {"args": [[{"type": "human", "content": ASKED}]], "kwargs": {}},
        json.dumps(ASKED),
        ASKED,
    ],
)  # fmt: skip
def test_an_agent_s_question_is_the_user_s(tmp_path: Path, asked: Any) -> None:
    """However its messages are written; the search's own words are those of a call."""
    value = asked if isinstance(asked, str) else json.dumps(asked)
    spans = [
        span("agent", 0, kind="AGENT", attributes={"input.value": value}),
        span("search", 1, "s-agent", kind="RETRIEVER", attributes={"input.value": "billing page", **documents("retrieval.documents", "b")}),
    ]  # fmt: skip
    (sample,) = read(tmp_path, spans)
    assert (sample.query, [call.query for call in sample.calls or ()]) == (ASKED, ["billing page"])
    server = {**span("POST", 0), "attributes": {"http.route": "/ask"}}
    for more in ([server], []):  # around the agent's span, and left out of the export
        (sample,) = read(tmp_path, [*more, {**spans[0], "parent": "s-POST"}, spans[1]])
        assert sample.query == ASKED


@pytest.mark.parametrize(
    ("name", "answered"),
    [
        ("output.value", {"messages": [{"role": "user", "content": ASKED}, {"role": "assistant", "content": "At noon."}]}),
        ("output.value", {"messages": [{"type": "human", "data": {"content": ASKED}}, {"type": "ai", "data": {"content": "At noon.", "tool_calls": []}}]}),
        ("output.value", {"messages": [constructed("AIMessage", [{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "At noon."}])]}),
        ("output.value", {"type": "ai", "data": {"content": "At noon."}}),
        ("output.value", constructed("AIMessageChunk", "At noon.")),
        ("output.value", [["user", ASKED], ["assistant", "At noon."]]),
        ("output.value", "At noon."),
        ("gen_ai.output.messages", [{"role": "assistant", "parts": [{"type": "text", "content": "At noon."}], "finish_reason": "stop"}]),
    ],
)  # fmt: skip
def test_an_answer_is_the_assistant_s(tmp_path: Path, name: str, answered: Any) -> None:
    """Also a text that is written as JSON, whose quotes are no part of it; such a search is no call of an agent."""
    spans = [
        span("chain", 0, attributes={"input.value": json.dumps(ASKED), name: json.dumps(answered)}),
        span("search", 1, "s-chain", kind="RETRIEVER", attributes={"input.value": ASKED, **documents("retrieval.documents", "b")}),
    ]  # fmt: skip
    (sample,) = read(tmp_path, spans)
    assert (sample.query, sample.response, sample.calls) == (ASKED, "At noon.", None)


def test_documents_of_langchain_s_constructor(tmp_path: Path) -> None:
    """As `dumpd` writes a retriever's output."""
    found = [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "document", "Document"], "kwargs": {"page_content": "Noon.", "metadata": {"id": "d1"}}}
    ]  # fmt: skip
    attributes = {"input.value": "q", "output.value": json.dumps({"documents": found})}
    (sample,) = read(tmp_path, [span("r", 0, kind="RETRIEVER", attributes=attributes)])
    assert [(one.id, one.text) for one in sample.contexts or ()] == [("d1", "Noon.")]


def test_retrieval_spans_of_the_genai_conventions(tmp_path: Path) -> None:
    """Documents are objects or JSON, of which id and score are known; a failed retrieval is an error, no empty list."""
    found = [{"id": "doc_1", "score": 0.95}, {"id": "doc_2", "score": 0.5, "content": "Two."}]
    named = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": "capital of France"}
    spans = []
    for number, documents in enumerate([found, json.dumps(found), None, "[]"], 1):
        one = span(
            f"retrieval {number}",
            0,
            attributes={**named, **({} if documents is None else {"gen_ai.retrieval.documents": documents})},
        )
        del one["attributes"]["openinference.span.kind"]
        spans.append({**one, "trace": f"t{number}"})
    spans[2]["status"] = {"code": 2, "message": "timeout"}
    first, second, failed, empty = read(tmp_path, spans)
    assert first.contexts == second.contexts
    assert first.contexts is not None
    assert [(context.id, context.score, context.text) for context in first.contexts] == [
        ("doc_1", 0.95, ""),
        ("doc_2", 0.5, "Two."),
    ]
    assert (failed.contexts, failed.error) == (None, "timeout")
    assert empty.contexts == ()


def test_documents_without_ids_are_named_by_their_texts(tmp_path: Path) -> None:
    """As LangChain's are: by what their metadata calls them, else by the text, the same in each stage."""
    one = {
        "retrieval.documents": [
            {"document.content": "Noon.", "document.metadata": '{"doc_id": 7}'},
            {"document.content": "Bread."},
        ]
    }
    row = {
        "trace_id": "t",
        "span_id": "s",
        "name": "r",
        "parent_id": None,
        "start_time": None,
        "attributes": {"openinference.span.kind": "RETRIEVER", "input.value": "q", **one},
    }
    (tmp_path / "x.jsonl").write_text(json.dumps(row))
    (sample,) = read_samples(tmp_path / "x.jsonl")
    assert sample.contexts is not None
    assert sample.contexts[0].id == "7"
    assert (sample.contexts[1].id or "").startswith("text:")


def test_langfuse_retrievers_of_the_sdk(tmp_path: Path) -> None:
    """An observation of type RETRIEVER has its query as input and its documents as output, however these are written."""
    rows = [
        {"id": "o1", "traceId": "t", "parentObservationId": None, "type": "RETRIEVER", "name": "kb", "startTime": "2026-11-20T10:00:00Z",
         "input": '{"args": ["When is high tide?"], "kwargs": {}}', "output": '[{"page_content": "Noon.", "metadata": {"id": "d1"}}, "Bread."]'},
    ]  # fmt: skip
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (sample,) = read_samples(tmp_path / "x.jsonl")
    assert (sample.query, [one.text for one in sample.contexts or ()]) == (
        "When is high tide?",
        ["Noon.", "Bread."],
    )


def test_what_is_passed_over_is_said(tmp_path: Path) -> None:
    """Traces without a retrieval, or whose query was not recorded, are counted in a notice; where none is left it is an error."""
    chat = {**span("chat", 0, kind="LLM"), "trace": "t2"}
    unasked = {
        **span("r", 0, kind="RETRIEVER", attributes=documents("retrieval.documents", "d")),
        "trace": "t3",
    }
    unknown = {**span("r", 0, kind="RETRIEVER", attributes={"input.value": "q"}), "trace": "t4"}
    notices: list[Notice] = []
    assert [one.id for one in read(tmp_path, [*HYBRID, chat, unasked, unknown], notices)] == ["t1", "t4"]
    assert [one.problem for one in notices] == [
        "1 of 4 traces have no retrieval",
        "1 of 4 traces have no query",
        "1 of 4 traces have no documents",
    ]
    with pytest.raises(InputError, match="none of the 1 traces has a retrieval span with a query"):
        read(tmp_path, [chat])


def test_a_row_that_is_no_span_is_named(tmp_path: Path) -> None:
    """Spans and samples in one file are a mistake; spans in a file that begins with samples are metadata."""
    rows = [*phoenix(HYBRID), {"query": "q"}]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(
        InputError, match=r"x\.jsonl:6: is not a span with a trace id, but the rows before it are"
    ):
        list(read_samples(tmp_path / "x.jsonl"))


def test_production_traffic_is_drawn_from(tmp_path: Path) -> None:
    """`run` takes an export as it is, and `--sample` draws from it."""
    spans = [{**one, "trace": f"t{number}"} for number in range(9) for one in HYBRID]
    words = (
        "run",
        str(write(tmp_path, "otlp.jsonl", spans)),
        "-m",
        "context_redundancy@2",
        "--sample",
        "2",
        "--json",
    )
    done = invoke(*words, "-o", str(tmp_path / "report"))
    assert done.json["measures"]["context_redundancy@2"]["sampled"] == {"n": 2, "of": 9, "seed": 0}
