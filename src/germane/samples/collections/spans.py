"""Spans of traces, as tools export them: OTLP/JSON, Phoenix's spans and data frames, Langfuse's observations.

Read are OpenInference's retriever, reranker and embedding spans (semantic conventions 0.1.42), OpenTelemetry's GenAI retrieval and
embedding spans (semantic conventions 1.41.1, in development), and Langfuse's observations of type RETRIEVER and EMBEDDING (blob
storage export, public API v2). Of other spans only those without a parent say something: what was asked, and what was answered.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from germane.encoding import digest
from germane.errors import Invalid, describe
from germane.samples.cells import structure
from germane.samples.fields import id_in, passages_in
from germane.types import Json

RETRIEVER, RERANKER, EMBEDDING = "RETRIEVER", "RERANKER", "EMBEDDING"


class Span(NamedTuple):
    """One step of a trace, with what is known of a retrieval.

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
    model: str | None
    error: str | None


_TRACE = ("context.trace_id", "trace_id", "traceId")
_SPAN = ("context.span_id", "span_id", "spanId")
_PARENT = ("parent_id", "parentSpanId", "parent_span_id", "parent_observation_id", "parentObservationId")
_START, _END = (
    tuple(f"{when}{name}" for name in ("_time", "Time", "TimeUnixNano", "_time_unix_nano"))
    for when in ("start", "end")
)
_OF_SAMPLES = {"query", "question", "contexts", "retrieved_contexts"}


def is_trace(row: Json) -> bool:
    """True if a row of a file is a span, or a document of OTLP/JSON with spans."""
    if not isinstance(row, dict) or not _OF_SAMPLES.isdisjoint(row):
        return False
    if isinstance(row.get("resourceSpans"), list):
        return True
    row = _with_context(row)
    langfuse = "id" in row and "type" in row and any(name in row for name in _START)
    return _first(row, _TRACE) is not None and (langfuse or _first(row, _SPAN) is not None)


def spans_in(row: Json) -> Iterator[Span]:
    """The spans of one row of an export. Raises Invalid where it is not one."""
    if isinstance(row, dict) and isinstance(row.get("resourceSpans"), list):
        scopes = (scope for value in row["resourceSpans"] for scope in _listed(value, "scopeSpans"))
        for span in (span for scope in scopes for span in _listed(scope, "spans")):
            if not isinstance(span, dict) or not _name(span.get("traceId")):
                raise Invalid(
                    "holds a span that names no trace", 'write "traceId" and "spanId"', "resourceSpans"
                )
            yield _span({**span, "attributes": _plain(span.get("attributes"))})
    elif is_trace(row):
        yield _span(_with_context(row))
    else:
        raise Invalid(
            "is not a span, and rows before it are", "keep the spans of traces in a file of their own"
        )


def is_document_row(row: Json) -> bool:
    """True if a row is a document of a retriever span, as Phoenix's `get_retrieved_documents` lists them."""
    named = isinstance(row, dict) and not {"context.span_id", "span_id"}.isdisjoint(row)
    return named and row.keys() >= {"document_position", "input", "reference"}


def rows_of_documents(rows: Iterable[Json]) -> Iterator[tuple[int, dict[str, Json]]]:
    """A sample for each span among rows of documents, with the number of its first row. Raises Invalid where a row is none."""
    spans: dict[str, tuple[int, list[tuple[float, dict[str, Json]]]]] = {}
    for number, row in enumerate(rows):
        if not is_document_row(row) or not (span := _name(_first(row, _SPAN))):
            fix = "keep the documents of spans in a file of their own"
            raise Invalid("is not a document of a span, and rows before it are", fix)
        try:
            position = float(row["document_position"])
        except (TypeError, ValueError):
            problem = f"is {describe(row['document_position'])}, and a document has a position"
            raise Invalid(problem, "write its place: 0, 1, 2, ...", "document_position") from None
        spans.setdefault(span, (number, []))[1].append((position, row))
    for span, (number, documents) in spans.items():
        documents.sort(key=lambda document: document[0])
        found = [
            {
                "id": _first(row, ("document_id", "doc_id")),
                "text": row["reference"],
                "score": _number(_first(row, ("document_score",))),
                "metadata": _first(row, ("document_metadata",)),
            }
            for _, row in documents
        ]
        first = documents[0][1]
        sample: dict[str, Json] = {"id": span, "query": text_in(first["input"], _QUESTIONS)}
        traces = {"trace": trace} if (trace := _name(_first(first, _TRACE))) else {}
        yield (
            number,
            {**sample, "contexts": documents_in(found) or [], "metadata": {"spans": [span], **traces}},
        )


def _listed(holder: Json, key: str) -> list[Json]:
    value = holder.get(key) if isinstance(holder, dict) else None
    return value if isinstance(value, list) else []


def _with_context(row: dict[str, Json]) -> dict[str, Json]:
    """The row, with the ids that stand in an object `context` as columns."""
    context = _parsed(row.get("context"))
    return {**row, **{f"context.{k}": v for k, v in context.items()}} if isinstance(context, dict) else row


def _first(row: Mapping[str, Json], names: tuple[str, ...]) -> Json:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _span(row: dict[str, Json]) -> Span:
    attributes = _attributes(row)
    kind = _kind(row, attributes)
    parent = _name(_first(row, _PARENT))
    retrieved = kind in {RETRIEVER, RERANKER}
    has_query = retrieved or kind == EMBEDDING or not parent  # of a root what was asked, of the rest nothing
    start = _seconds(_first(row, _START))
    sessions = (_at(attributes, "session.id"), _at(attributes, "gen_ai.conversation.id"),
                _first(row, ("session_id", "sessionId")))  # fmt: skip
    return Span(
        trace=_name(_first(row, _TRACE)),
        id=_name(_first(row, _SPAN)) or _name(row.get("id")),
        parent=parent,
        name=_name(row.get("name")) or kind.lower() or "span",
        kind=kind,
        start=start,
        end=max(start, _seconds(_first(row, _END))),
        query=_query(attributes) if has_query else None,
        documents=_documents(attributes) if retrieved else None,
        inputs=documents_in(_at(attributes, "reranker.input_documents")) if kind == RERANKER else None,
        response=None if retrieved or parent else text_in(_at(attributes, "output.value"), _ANSWERS),
        session=next(filter(None, map(_name, sessions)), None),
        model=_name(next(filter(None, (_at(attributes, name) for name in _MODELS)), None)) or None,
        error=_error(row) if retrieved else None,
    )


_MODELS = ("embedding.model_name", "reranker.model_name", "gen_ai.request.model")
_QUERIES = ("reranker.query", "gen_ai.retrieval.query.text", "input.value", "gen_ai.input.messages")


def _query(attributes: Mapping[str, Json]) -> str | None:
    results = (text_in(_at(attributes, name), _QUESTIONS) for name in _QUERIES)
    embedded = _items(_at(attributes, "embedding.embeddings")) or [None]
    first = _at(_tree(embedded[0]), "embedding.text") if isinstance(embedded[0], dict) else None
    return next(filter(None, results), None) or text_in(first, _QUESTIONS)


def _error(row: Mapping[str, Json]) -> str | None:
    """The error of a span; None where it has none."""
    status = row.get("status") if isinstance(row.get("status"), dict) else {}
    code = status.get("code", row.get("status_code", row.get("level")))  # type: ignore[union-attr]
    if code not in (2, "STATUS_CODE_ERROR", "ERROR"):
        return None
    message = status.get("message") or _first(row, ("status_message", "statusMessage"))  # type: ignore[union-attr]
    return _name(message) or "the retrieval failed"


def _kind(row: Mapping[str, Json], attributes: Mapping[str, Json]) -> str:
    """The kind of a span: as it names it, else by the documents that it has."""
    operation = {"retrieval": RETRIEVER, "embeddings": EMBEDDING}.get(
        str(_at(attributes, "gen_ai.operation.name"))
    )
    values = (_at(attributes, "openinference.span.kind"), row.get("span_kind"), row.get("type"))
    words = {str(word).upper() for word in values} | {operation}
    if RERANKER in words or _at(attributes, "reranker.output_documents") is not None:
        return RERANKER
    if RETRIEVER in words or _at(attributes, "retrieval.documents") is not None:
        return RETRIEVER
    return EMBEDDING if EMBEDDING in words else ""


# what stands in attributes

_PREFIXES = {"retrieval", "reranker", "embedding", "gen_ai", "input", "output", "openinference", "session"}


def _attributes(row: Mapping[str, Json]) -> dict[str, Json]:
    """The attributes of a span by their dotted names, however the export holds them."""
    attributes: dict[str, Json] = {}
    if isinstance(row.get("attributes"), Mapping):
        attributes |= row["attributes"]
    attributes |= {
        key[11:]: value for key, value in row.items() if key.startswith("attributes.") and value is not None
    }
    metadata = _parsed(row.get("metadata"))
    more = _parsed(metadata.get("attributes")) if isinstance(metadata, Mapping) else None
    if isinstance(more, Mapping):  # of a span that Langfuse took by OpenTelemetry
        attributes |= more
    for name in ("input", "output"):  # of Langfuse's observations
        if row.get(name) not in (None, "") and f"{name}.value" not in attributes:
            attributes[f"{name}.value"] = row[name]
    return _tree({key: value for key, value in attributes.items() if str(key).partition(".")[0] in _PREFIXES})


def _tree(values: Mapping[str, Json]) -> dict[str, Json]:
    """Values with dotted names as objects within objects."""
    root: dict[str, Json] = {}
    for key, value in values.items():
        *above, last = str(key).split(".")
        node = root
        for step in above:
            inner = node.get(step)
            if not isinstance(inner, dict):
                inner = node[step] = {}
            node = inner
        node[last] = _tree(value) if isinstance(value, Mapping) else value
    return root


def _at(tree: Json, path: str) -> Json:
    """The value at a dotted path; None where there is none, or where it was hidden."""
    for step in path.split("."):
        tree = tree.get(step) if isinstance(tree, Mapping) else None
    return None if tree == _HIDDEN else tree


_HIDDEN = "__REDACTED__"


def _plain(attributes: Json) -> dict[str, Json]:
    """Attributes of OTLP/JSON as plain values."""
    pairs = attributes if isinstance(attributes, list) else []
    return {str(pair.get("key")): _value(pair.get("value")) for pair in pairs if isinstance(pair, dict)}


def _value(value: Json) -> Json:
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((kind, inner),) = value.items()
    if kind == "arrayValue":
        return [_value(value) for value in _listed(inner, "values")]
    if kind == "kvlistValue":
        return _plain(_listed(inner, "values"))
    return _number(inner) if kind == "doubleValue" else inner


def _parsed(value: Json) -> Json:
    """The list or object that a text writes; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in {"[", "{"}:
        result = structure(value)
        return value if result is None else result
    return value


def _items(value: Json) -> list[Json] | None:
    """A list as it is, as JSON, or as an object whose names are the places; None where it is not one."""
    value = _parsed(value)
    if isinstance(value, Mapping) and value and all(str(key).isdecimal() for key in value):
        return [value[key] for key in sorted(value, key=int)]
    return value if isinstance(value, list) else None


# documents and texts

_LISTS = ("reranker.output_documents", "retrieval.documents", "gen_ai.retrieval.documents")


def _documents(attributes: Mapping[str, Json]) -> list[dict[str, Json]] | None:
    """The documents that a retrieval returned: by the conventions, else the list in its output."""
    for name in _LISTS:
        if (result := documents_in(_at(attributes, name))) is not None:
            return result
    return documents_in(passages_in(_parsed(_at(attributes, "output.value"))))


def documents_in(value: Json) -> list[dict[str, Json]] | None:
    """The contexts in a list of documents; None where it is not a list, or one of something else."""
    items = _items(value)
    if items is None:
        return None
    results = [_document(item) for item in items]
    return [row for row in results if row is not None] if None not in results else None


_TEXTS = ("content", "text", "page_content", "pageContent", "chunk")


def _document(value: Json) -> dict[str, Json] | None:
    """One document as a context. Where nothing names it, its text does."""
    if isinstance(value, str):
        value = {"text": value}
    if not isinstance(value, Mapping):
        return None
    value = _tree(value)
    value = next(
        (value[name] for name in ("document", "node") if isinstance(value.get(name), Mapping)), value
    ) | {name: value[name] for name in ("score",) if name in value}
    text = next((value[name] for name in _TEXTS if isinstance(value.get(name), str)), "")
    text = "" if text == _HIDDEN else text
    metadata = _parsed(value.get("metadata"))
    metadata = metadata if isinstance(metadata, Mapping) else {}
    named = id_in(value) or id_in(metadata) or ""
    if not named and not text:
        return None
    made = {"id": named or f"text:{digest(text)[:12]}", "text": text, "metadata": dict(metadata)}
    score = _number(value.get("score"))
    return {key: value for key, value in {**made, "score": score}.items() if value not in (None, "", {})}


_QUESTIONS = (
    "query",
    "question",
    "input",
    "user_input",
    "prompt",
    "query_str",
    "text",
    "content",
    "messages",
)
_ANSWERS = ("answer", "response", "output", "result", "text", "content")


def text_in(value: Json, names: tuple[str, ...], levels: int = 4) -> str | None:
    """The text that a person wrote in an input or read in an output: the value itself, or that under one of these names.

    Of messages the last one of a user; of a recorded call (`args`, `kwargs`) its first argument. None where there is no such text.
    """
    value = _parsed(value)
    if isinstance(value, str):
        return value if value.strip() and value != _HIDDEN else None
    if not levels:
        return None
    if isinstance(value, Mapping):
        values = [
            *(value.get(name) for name in names),
            value.get("kwargs"),
            *(_items(value.get("args")) or [])[:1],
        ]
        return next(filter(None, (text_in(value, names, levels - 1) for value in values)), None)
    messages: list[Json] = value if isinstance(value, list) else []
    for message in reversed(messages):
        if isinstance(message, Mapping) and message.get("role") == "user":
            parts = _items(message.get("parts", message.get("content"))) or [message]
            texts = [text_in(piece, ("content", "text"), 1) for piece in parts]
            return "\n".join(filter(None, texts)) or None
    return None


def _name(value: Json) -> str:
    """A text or a whole number as a name; "" for anything else."""
    whole = isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= 64
    return str(value) if whole or isinstance(value, str) else ""


def _number(value: Json) -> float | None:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _seconds(value: Any) -> float:
    """A time in seconds since 1970: nanoseconds, a text or a datetime; 0 where it is not one."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=value.tzinfo or datetime.UTC).timestamp()
    if (number := _number(value)) is not None:
        return number / 1e9
    try:
        return _seconds(datetime.datetime.fromisoformat(str(value)))
    except (ValueError, OverflowError):
        return 0.0
