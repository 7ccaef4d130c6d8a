"""Read spans in the formats of tracing tools: OTLP/JSON, Phoenix's spans and data frames, Langfuse's observations.

OpenInference's retriever and reranker spans (semantic conventions 0.1.42), OpenTelemetry's GenAI retrieval spans (semantic
conventions 1.41.1, in development), and Langfuse's observations of type RETRIEVER (blob storage export, public API v2) are searches;
the spans around them hold the question and the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from germane.addons.traces.values import (
    ANSWERS,
    ASSISTANT,
    QUESTIONS,
    documents_in,
    listed_under,
    name_of,
    number_of,
    parsed,
    plain_attributes,
    seconds_of,
    text_in,
    tree_of,
    value_at,
)
from germane.errors import InputError, Invalid, describe
from germane.samples import passages_in
from germane.types import Json

RETRIEVER, RERANKER, MODEL = "RETRIEVER", "RERANKER", "LLM"


Rows: TypeAlias = Iterator[tuple[int, Json, Callable[..., Any]]]
"""Rows of a file, each with its number and how to find the place of what stands at a path."""


class Span(NamedTuple):
    """One step of a trace, with its retrieval if it has one.

    `documents` are what it handed on, best first, `inputs` what a reranker was given: contexts as a sample has them; None where
    that was not recorded. `start` and `end` are seconds since 1970.
    """

    trace: str
    id: str
    parent: str
    name: str
    kind: str
    start: float
    end: float
    query: str | None
    documents: list[dict[str, Json]] | None
    inputs: list[dict[str, Json]] | None
    response: str | None
    session: str | None
    error: str | None


_TRACE = ("context.trace_id", "trace_id", "traceId")
_SPAN = ("context.span_id", "span_id", "spanId")
_PARENT = ("parent_id", "parentSpanId", "parent_span_id", "parent_observation_id", "parentObservationId")
_START, _END = (
    tuple(f"{when}{name}" for name in ("_time", "Time", "TimeUnixNano", "_time_unix_nano"))
    for when in ("start", "end")
)
_OF_SAMPLES = {"query", "question", "contexts", "retrieved_contexts"}


def spans_in(row: Json) -> Iterator[Span]:
    """Yield the spans of one row of an export. Raises Invalid if it is not one."""
    exported = _exported(row)
    if exported is None:
        own = _with_context(row) if isinstance(row, dict) and _OF_SAMPLES.isdisjoint(row) else {}
        if not name_of(_first(own, _TRACE)):
            fix = "keep the spans of traces in a file of their own"
            raise Invalid("is not a span, and rows before it are", fix)
        exported = [own]
    for span in exported:
        if not name_of(_first(span, _TRACE)):
            raise Invalid("holds a span that names no trace", 'write "traceId" and "spanId"')
        yield _span(span)


def _exported(row: Json) -> list[dict[str, Json]] | None:
    """Return the spans of an OTLP document, with plain attributes; None for any other row."""
    if (resources := listed_under(row, "resourceSpans")) is None:
        return None
    scopes = [scope for resource in resources for scope in listed_under(resource, "scopeSpans") or ()]
    spans = [span for scope in scopes for span in listed_under(scope, "spans") or ()]
    return [
        {**span, "attributes": plain_attributes(span.get("attributes"))}
        for span in spans
        if isinstance(span, dict)
    ]


def is_document_row(row: Json) -> bool:
    """Return True if a row is a document of a retriever span, as Phoenix's `get_retrieved_documents` lists them."""
    named = isinstance(row, dict) and not {"context.span_id", "span_id"}.isdisjoint(row)
    return named and row.keys() >= {"document_position", "input", "reference"}


def samples_of_documents(rows: Rows) -> Rows:
    """Yield a sample for each span among rows of documents, in the order of their first documents."""
    spans: dict[str, tuple[Callable[..., Any], list[tuple[float, dict[str, Json]]]]] = {}
    for _, row, where in rows:
        if not is_document_row(row) or not (span := name_of(_first(row, _SPAN))):
            problem = "this is not a document of a span, and rows before it are"
            raise InputError(
                problem, fix="keep the documents of spans in a file of their own", place=where(())
            )
        if (position := number_of(row["document_position"])) is None:
            problem = (
                f"document_position is {describe(row['document_position'])}, and a document has a position"
            )
            fix = "write its place: 0, 1, 2, ..."
            raise InputError(problem, fix=fix, place=where(("document_position",)))
        spans.setdefault(span, (where, []))[1].append((position, row))
    for number, (span, (where, placed)) in enumerate(spans.items(), 1):
        documents = [row for _, row in sorted(placed, key=lambda pair: pair[0])]
        found = [
            {
                "id": _first(row, ("document_id", "doc_id")),
                "text": row["reference"],
                "score": number_of(row.get("document_score")),
                "metadata": row.get("document_metadata"),
            }
            for row in documents
        ]
        trace = name_of(_first(documents[0], _TRACE))
        sample: dict[str, Json] = {"id": span, "query": text_in(documents[0]["input"], QUESTIONS)}
        sample["contexts"] = documents_in(found) or []
        sample["metadata"] = {"spans": [span], **({"trace": trace} if trace else {})}
        yield number, sample, lambda _, where=where: where(())


def _with_context(row: dict[str, Json]) -> dict[str, Json]:
    """Return the row with the ids in its object `context` as columns."""
    context = parsed(row.get("context"))
    return {**row, **{f"context.{k}": v for k, v in context.items()}} if isinstance(context, dict) else row


def _first(row: Mapping[str, Json], names: Iterable[str]) -> Json:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _span(row: dict[str, Json]) -> Span:
    """Return a row of an export as a span."""
    attributes = _attributes(row)
    kind, parent, start = _kind(row, attributes), name_of(_first(row, _PARENT)), _time(row, _START)
    retrieved = kind in {RETRIEVER, RERANKER}
    asked = kind != MODEL or not parent  # a model within a trace is asked with its whole prompt
    sessions = value_at(attributes, "session.id"), _first(row, ("session_id", "sessionId"))
    answers = (text_in(value_at(attributes, name), ANSWERS, speaker=ASSISTANT) for name in _OUTPUTS)
    return Span(
        trace=name_of(_first(row, _TRACE)),
        id=name_of(_first(row, _SPAN)) or name_of(row.get("id")),
        parent=parent,
        name=name_of(row.get("name")) or kind.lower() or "span",
        kind=kind,
        start=start,
        end=max(start, _time(row, _END)),
        query=_query(attributes) if asked else None,
        documents=_documents(attributes) if retrieved else None,
        inputs=documents_in(value_at(attributes, "reranker.input_documents")) if kind == RERANKER else None,
        response=next(filter(None, answers), None) if asked and not retrieved else None,
        session=next(filter(None, map(name_of, sessions)), None),
        error=_error(row) if retrieved else None,
    )


_OUTPUTS = ("output.value", "gen_ai.output.messages")
_QUERIES = ("reranker.query", "gen_ai.retrieval.query.text", "input.value", "gen_ai.input.messages")


def _query(attributes: Mapping[str, Json]) -> str | None:
    texts = (text_in(value_at(attributes, name), QUESTIONS) for name in _QUERIES)
    return next(filter(None, texts), None)


def _error(row: Mapping[str, Json]) -> str | None:
    """Return the error of a span, or None."""
    status: Json = row.get("status") if isinstance(row.get("status"), dict) else {}
    codes = (status.get("code"), status.get("status_code"), row.get("status_code"), row.get("level"))
    if next((code for code in codes if code is not None), None) not in (2, "STATUS_CODE_ERROR", "ERROR"):
        return None
    message = _first(status, ("message", "description")) or _first(row, ("status_message", "statusMessage"))
    return name_of(message) or "the retrieval failed"


_OPERATIONS = {"retrieval": RETRIEVER, "chat": MODEL}


def _kind(row: Mapping[str, Json], attributes: Mapping[str, Json]) -> str:
    """Return the kind of a span: as stated, else inferred from its documents."""
    values = (value_at(attributes, "openinference.span.kind"), row.get("span_kind"), row.get("type"))
    words = {str(word).upper() for word in values}
    words.add(_OPERATIONS.get(str(value_at(attributes, "gen_ai.operation.name")), ""))
    if RERANKER in words or value_at(attributes, "reranker.output_documents") is not None:
        return RERANKER
    if RETRIEVER in words or value_at(attributes, "retrieval.documents") is not None:
        return RETRIEVER
    return MODEL if words & {MODEL, "GENERATION"} else ""


_PREFIXES = {"retrieval", "reranker", "gen_ai", "input", "output", "openinference", "session"}


def _attributes(row: Mapping[str, Json]) -> dict[str, Json]:
    """Return the attributes of a span by dotted names, in whatever form the export holds them."""
    metadata = parsed(row.get("metadata"))  # of a span that Langfuse took by OpenTelemetry
    more = parsed(metadata.get("attributes")) if isinstance(metadata, Mapping) else None
    columns = {
        key: value for key, value in row.items() if key.startswith("attributes.") and value is not None
    }
    attributes: dict[str, Json] = {}
    for source in (row.get("attributes"), {key[11:]: value for key, value in columns.items()}, more):
        attributes |= source if isinstance(source, Mapping) else {}
    for name in ("input", "output"):  # of Langfuse's observations
        if row.get(name) not in (None, ""):
            attributes.setdefault(f"{name}.value", row[name])
    return tree_of(
        {key: value for key, value in attributes.items() if str(key).partition(".")[0] in _PREFIXES}
    )


_LISTS = ("reranker.output_documents", "retrieval.documents", "gen_ai.retrieval.documents")


def _documents(attributes: Mapping[str, Json]) -> list[dict[str, Json]] | None:
    """Return the documents that a retrieval returned: from the conventional attributes, else from a list in its output."""
    for name in _LISTS:
        if (result := documents_in(value_at(attributes, name))) is not None:
            return result
    return documents_in(passages_in(parsed(value_at(attributes, "output.value"))))


def _time(row: Mapping[str, Json], names: tuple[str, ...]) -> float:
    """Return the time under the first of these names that has one; the name tells whether it is in nanoseconds."""
    name = next((name for name in names if row.get(name) not in (None, "")), names[0])
    number = number_of(row.get(name)) if "nano" in name.lower() else None
    return seconds_of(row.get(name)) if number is None else number / 1e9
