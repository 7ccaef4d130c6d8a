"""Spans of traces, as tools export them: OTLP/JSON (Tempo's too), Jaeger, Phoenix's spans and data frames, Langfuse's observations.

Read are OpenInference's retriever, reranker and embedding spans (semantic conventions 0.1.42), OpenTelemetry's GenAI retrieval and
embedding spans (semantic conventions 1.41.1, in development), and Langfuse's observations of type RETRIEVER and EMBEDDING (blob
storage export, public API v2). Of the other spans those around a retrieval say what was asked, and what was answered.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from germane.encoding import digest
from germane.errors import Invalid, describe
from germane.samples import id_in, passages_in, structure
from germane.types import Json

RETRIEVER, RERANKER, EMBEDDING, MODEL = "RETRIEVER", "RERANKER", "EMBEDDING", "LLM"


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
    """Return True if a row of a file is a span, or a document of OTLP/JSON with spans."""
    if not isinstance(row, dict) or not _OF_SAMPLES.isdisjoint(row):
        return False
    if _exported(row) is not None:
        return True
    row = _with_context(row)
    langfuse = {"id", "type"} <= row.keys() and not row.keys().isdisjoint(_START)
    return _first(row, _TRACE) is not None and (langfuse or _first(row, _SPAN) is not None)


def spans_in(row: Json) -> Iterator[Span]:
    """Yield the spans of one row of an export. Raises Invalid where it is not one."""
    exported = _exported(row)
    if exported is None and not is_trace(row):
        fix = "keep the spans of traces in a file of their own"
        raise Invalid("is not a span, and rows before it are", fix)
    for span in [_with_context(row)] if exported is None else exported:
        if not _name(_first(span, _TRACE)):
            raise Invalid("holds a span that names no trace", 'write "traceId" and "spanId"')
        yield _span(span)


_RESOURCES = ("resourceSpans", "resource_spans", "batches")
_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans")


def _exported(row: Json) -> list[dict[str, Json]] | None:
    """Return the spans of a document of OTLP, Tempo or Jaeger, with plain attributes; None where a row is not one."""
    if not isinstance(row, Mapping):
        return None
    for holder in (row, row.get("trace"), row.get("result")):  # Tempo's second and Jaeger's third API
        if (resources := _listed_under(holder, *_RESOURCES)) is not None:
            scopes = [scope for one in resources for scope in _listed_under(one, *_SCOPES) or ()]
            return [_of_otlp(span) for scope in scopes for span in _listed_under(scope, "spans") or ()]
    spans = _listed_under(row, "spans") if "spanID" not in row else [row]
    return None if spans is None or "traceID" not in row else list(map(_of_jaeger, spans))


def _of_otlp(span: Json) -> dict[str, Json]:
    """Return a span of OTLP with plain attributes, and with ids in hex where they are written in base64."""
    if not isinstance(span, Mapping):
        return {}
    ids = {name: _in_hex(span[name]) for name in (*_TRACE, *_SPAN, *_PARENT) if name in span}
    return {**span, **ids, "attributes": _plain(span.get("attributes"))}


def _in_hex(value: Json) -> Json:
    """Return an id in hex; any other that is not 8 or 16 bytes in base64 as it is."""
    if isinstance(value, str) and len(value) in {12, 24} and value.endswith("="):
        with suppress(ValueError):
            return base64.b64decode(value, validate=True).hex()
    return value


def _of_jaeger(span: Json) -> dict[str, Json]:
    """Return a span of Jaeger as one of OTLP: its times are microseconds, its parent is a reference."""
    if not isinstance(span, Mapping):
        return {}
    tags = {str(tag.get("key")): tag.get("value") for tag in _mappings(span, "tags")}
    references = _mappings(span, "references")
    above = (one.get("spanID") for one in references if one.get("refType") == "CHILD_OF")
    start, duration = (_number(span.get(name)) or 0.0 for name in ("startTime", "duration"))
    failed = tags.get("otel.status_code") == "ERROR" or str(tags.get("error")).lower() == "true"
    return {
        "traceId": span.get("traceID"),
        "spanId": span.get("spanID"),
        "parentSpanId": next(above, span.get("parentSpanID")),
        "name": span.get("operationName"),
        "startTimeUnixNano": start * 1e3,
        "endTimeUnixNano": (start + duration) * 1e3,
        "attributes": tags,
        "status": {"code": "ERROR" if failed else "OK", "message": tags.get("otel.status_description")},
    }


def is_document_row(row: Json) -> bool:
    """Return True if a row is a document of a retriever span, as Phoenix's `get_retrieved_documents` lists them."""
    named = isinstance(row, dict) and not {"context.span_id", "span_id"}.isdisjoint(row)
    return named and row.keys() >= {"document_position", "input", "reference"}


def rows_of_documents(rows: Iterable[Json]) -> Iterator[tuple[int, dict[str, Json]]]:
    """Yield a sample for each span among rows of documents, with the number of its first row. Raises Invalid where a row is none."""
    spans: dict[str, tuple[int, list[tuple[float, dict[str, Json]]]]] = {}
    for number, row in enumerate(rows):
        if not is_document_row(row) or not (span := _name(_first(row, _SPAN))):
            fix = "keep the documents of spans in a file of their own"
            raise Invalid("is not a document of a span, and rows before it are", fix)
        if (position := _number(row["document_position"])) is None:
            problem = f"is {describe(row['document_position'])}, and a document has a position"
            raise Invalid(problem, "write its place: 0, 1, 2, ...", "document_position")
        spans.setdefault(span, (number, []))[1].append((position, row))
    for span, (number, placed) in spans.items():
        found = [
            {
                "id": _first(row, ("document_id", "doc_id")),
                "text": row["reference"],
                "score": _number(row.get("document_score")),
                "metadata": row.get("document_metadata"),
            }
            for _, row in sorted(placed, key=lambda pair: pair[0])
        ]
        first = min(placed, key=lambda pair: pair[0])[1]
        trace = _name(_first(first, _TRACE))
        query, metadata = (
            text_in(first["input"], _QUESTIONS),
            {"spans": [span], **({"trace": trace} if trace else {})},
        )
        yield (
            number,
            {"id": span, "query": query, "contexts": documents_in(found) or [], "metadata": metadata},
        )


def _listed_under(holder: Json, *keys: str) -> list[Json] | None:
    """Return the list under the first of these keys that has one; None where there is none."""
    values = (holder.get(key) for key in keys) if isinstance(holder, Mapping) else ()
    return next((value for value in values if isinstance(value, list)), None)


def _mappings(holder: Json, key: str) -> list[dict[str, Json]]:
    return [value for value in _listed_under(holder, key) or () if isinstance(value, dict)]


def _with_context(row: dict[str, Json]) -> dict[str, Json]:
    """Return the row, with the ids that stand in an object `context` as columns."""
    context = _parsed(row.get("context"))
    return {**row, **{f"context.{k}": v for k, v in context.items()}} if isinstance(context, dict) else row


def _first(row: Mapping[str, Json], names: Iterable[str]) -> Json:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _span(row: dict[str, Json]) -> Span:
    attributes = _attributes(row)
    kind, parent, start = _kind(row, attributes), _name(_first(row, _PARENT)), _time(row, _START)
    retrieved = kind in {RETRIEVER, RERANKER}
    asked = kind != MODEL or not parent  # a model within a trace is asked with its whole prompt
    sessions = (*(_at(attributes, name) for name in _SESSIONS), _first(row, ("session_id", "sessionId")))
    models = (_name(_at(attributes, name)) for name in _MODELS)
    answers = (text_in(_at(attributes, name), _ANSWERS, speaker=_ASSISTANT) for name in _OUTPUTS)
    return Span(
        trace=_name(_first(row, _TRACE)),
        id=_name(_first(row, _SPAN)) or _name(row.get("id")),
        parent=parent,
        name=_name(row.get("name")) or kind.lower() or "span",
        kind=kind,
        start=start,
        end=max(start, _time(row, _END)),
        query=_query(attributes) if asked else None,
        documents=_documents(attributes) if retrieved else None,
        inputs=documents_in(_at(attributes, "reranker.input_documents")) if kind == RERANKER else None,
        response=next(filter(None, answers), None) if asked and not retrieved else None,
        session=next(filter(None, map(_name, sessions)), None),
        model=next(filter(None, models), None),
        error=_error(row) if retrieved else None,
    )


_SESSIONS = ("session.id", "gen_ai.conversation.id")
_OUTPUTS = ("output.value", "gen_ai.output.messages")
_MODELS = ("embedding.model_name", "reranker.model_name", "gen_ai.request.model")
_QUERIES = ("reranker.query", "gen_ai.retrieval.query.text", "input.value", "gen_ai.input.messages")


def _query(attributes: Mapping[str, Json]) -> str | None:
    texts = [_at(attributes, name) for name in _QUERIES]
    embedded = _items(_at(attributes, "embedding.embeddings"))
    texts += [_at(_tree(embedded[0]), "embedding.text")] if embedded and isinstance(embedded[0], dict) else []
    return next(filter(None, (text_in(text, _QUESTIONS) for text in texts)), None)


def _error(row: Mapping[str, Json]) -> str | None:
    """Return the error of a span; None where it has none."""
    status: Json = row.get("status") if isinstance(row.get("status"), dict) else {}
    codes = (status.get("code"), status.get("status_code"), row.get("status_code"), row.get("level"))
    if next((code for code in codes if code is not None), None) not in (2, "STATUS_CODE_ERROR", "ERROR"):
        return None
    message = _first(status, ("message", "description")) or _first(row, ("status_message", "statusMessage"))
    return _name(message) or "the retrieval failed"


_OPERATIONS = {"retrieval": RETRIEVER, "embeddings": EMBEDDING, "chat": MODEL}


def _kind(row: Mapping[str, Json], attributes: Mapping[str, Json]) -> str:
    """Return the kind of a span: as it names it, else by the documents that it has."""
    values = (_at(attributes, "openinference.span.kind"), row.get("span_kind"), row.get("type"))
    words = {str(word).upper() for word in values}
    words.add(_OPERATIONS.get(str(_at(attributes, "gen_ai.operation.name")), ""))
    if RERANKER in words or _at(attributes, "reranker.output_documents") is not None:
        return RERANKER
    if RETRIEVER in words or _at(attributes, "retrieval.documents") is not None:
        return RETRIEVER
    return EMBEDDING if EMBEDDING in words else MODEL if words & {MODEL, "GENERATION"} else ""


# what stands in attributes

_PREFIXES = {"retrieval", "reranker", "embedding", "gen_ai", "input", "output", "openinference", "session"}


def _attributes(row: Mapping[str, Json]) -> dict[str, Json]:
    """Return the attributes of a span by their dotted names, however the export holds them."""
    metadata = _parsed(row.get("metadata"))  # of a span that Langfuse took by OpenTelemetry
    more = _parsed(metadata.get("attributes")) if isinstance(metadata, Mapping) else None
    columns = {
        key: value for key, value in row.items() if key.startswith("attributes.") and value is not None
    }
    attributes: dict[str, Json] = {}
    for source in (row.get("attributes"), {key[11:]: value for key, value in columns.items()}, more):
        attributes |= source if isinstance(source, Mapping) else {}
    for name in ("input", "output"):  # of Langfuse's observations
        if row.get(name) not in (None, ""):
            attributes.setdefault(f"{name}.value", row[name])
    return _tree({key: value for key, value in attributes.items() if str(key).partition(".")[0] in _PREFIXES})


def _tree(values: Mapping[str, Json]) -> dict[str, Json]:
    """Return values with dotted names as objects within objects."""
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
    """Return the value at a dotted path; None where there is none, or where it was hidden."""
    for step in path.split("."):
        tree = tree.get(step) if isinstance(tree, Mapping) else None
    return None if tree == _HIDDEN else tree


_HIDDEN = "__REDACTED__"


def _plain(attributes: Json) -> dict[str, Json]:
    """Return attributes of OTLP/JSON as plain values."""
    pairs = attributes if isinstance(attributes, list) else []
    return {str(pair.get("key")): _value(pair.get("value")) for pair in pairs if isinstance(pair, dict)}


def _value(value: Json) -> Json:
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((name, inner),) = value.items()
    kind = str(name).replace("_", "").lower()
    if kind == "arrayvalue":
        return [_value(value) for value in _listed_under(inner, "values") or ()]
    if kind == "kvlistvalue":
        return _plain(_listed_under(inner, "values"))
    return _number(inner) if kind == "doublevalue" else inner


def _parsed(value: Json) -> Json:
    """Return the list, object or text that a text writes as JSON; anything else as it is."""
    start = value.lstrip()[:1] if isinstance(value, str) else ""
    if start == '"':
        with suppress(ValueError):
            return _parsed(json.loads(value))
    if start in {"[", "{"}:
        result = structure(value)
        return value if result is None else result
    return value


def _items(value: Json) -> list[Json] | None:
    """Return a list as it is, from JSON, or as an object whose names are the places; None where it is not one."""
    value = _parsed(value)
    if isinstance(value, Mapping) and value and all(str(key).isdecimal() for key in value):
        return [value[key] for key in sorted(value, key=int)]
    return value if isinstance(value, list) else None


# documents and texts

_LISTS = ("reranker.output_documents", "retrieval.documents", "gen_ai.retrieval.documents")


def _documents(attributes: Mapping[str, Json]) -> list[dict[str, Json]] | None:
    """Return the documents that a retrieval returned: by the conventions, else the list in its output."""
    for name in _LISTS:
        if (result := documents_in(_at(attributes, name))) is not None:
            return result
    return documents_in(passages_in(_parsed(_at(attributes, "output.value"))))


def documents_in(value: Json) -> list[dict[str, Json]] | None:
    """Return the contexts in a list of documents; None where it is not a list, or one of something else."""
    items = _items(value)
    if items is None:
        return None
    results = [_document(item) for item in items]
    return [row for row in results if row is not None] if None not in results else None


_TEXTS = ("content", "text", "page_content", "pageContent", "chunk")


def _document(value: Json) -> dict[str, Json] | None:
    """Return one document as a context. Where nothing names it, its text does."""
    value = {"text": value} if isinstance(value, str) else value
    if not isinstance(value, Mapping):
        return None
    whole = _tree(value)
    holders = (whole[name] for name in ("document", "node", "kwargs") if isinstance(whole.get(name), Mapping))
    own = next(holders, whole)
    score = _number(whole.get("score", own.get("score")))
    text = next((own[name] for name in _TEXTS if isinstance(own.get(name), str)), "")
    text = "" if text == _HIDDEN else text
    metadata = _parsed(own.get("metadata"))
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    named = id_in(own) or id_in(metadata) or (f"text:{digest(text)[:12]}" if text else "")
    if not named:
        return None
    made = {"id": named, "text": text, "metadata": metadata, "score": score}
    return {key: value for key, value in made.items() if value not in (None, "", {})}


_SAID = ("text", "content", "messages")
_QUESTIONS = ("query", "question", "input", "user_input", "prompt", "query_str", *_SAID)
_ANSWERS = ("answer", "response", "output", "result", *_SAID)
_USER, _ASSISTANT = frozenset({"user", "human"}), frozenset({"assistant", "ai", "model"})
_OTHERS = frozenset({"system", "developer", "tool", "function"})


def text_in(
    value: Json, names: tuple[str, ...], levels: int = 4, speaker: frozenset[str] = _USER
) -> str | None:
    """Return the text that a person wrote in an input or read in an output: the value itself, or that under one of these names.

    Of messages the last text of the speaker; of a recorded call (`args`, `kwargs`) its first argument. None where there is no such
    text.
    """
    value = _parsed(value)
    if isinstance(value, str) or not levels:
        return _shown(value) if isinstance(value, str) else None
    if (message := _message(value)) is not None:
        return _content(message[1]) if message[0] in speaker else None
    if isinstance(value, Mapping):
        inner = [*(value.get(name) for name in (*names, "kwargs")), *(_items(value.get("args")) or [])[:1]]
        return next(filter(None, (text_in(one, names, levels - 1, speaker) for one in inner)), None)
    values = value if isinstance(value, list) else []
    messages = [message for message in map(_message, values) if message is not None]
    if not messages and len(values) == 1 and isinstance(values[0], list):  # a batch of one conversation
        return text_in(values[0], names, levels - 1, speaker)
    texts = (_content(content) for role, content in reversed(messages) if role in speaker)
    return next(filter(None, texts), None)  # a tool's result may be a user's message


def _message(value: Json) -> tuple[str, Json] | None:
    """Return the role and the content of a message: with a role, of LangChain's types and constructors, or a pair; else None."""
    if isinstance(value, list | tuple) and len(value) == 2:
        return (first, value[1]) if (first := _role(value[0])) else None
    if not isinstance(value, Mapping):
        return None
    for holder in (value, *(value.get(name) for name in ("data", "kwargs", "message"))):
        if isinstance(holder, Mapping) and not holder.keys().isdisjoint({"parts", "content"}):
            path: Json = value.get("id")
            kind = path[-1] if isinstance(path, list) and path else None
            named = (value.get("role"), holder.get("role"), value.get("type"), holder.get("type"), kind)
            role = next(filter(None, map(_role, named)), None)
            return (role, holder.get("parts", holder.get("content"))) if role else None
    return None


def _role(value: Json) -> str:
    """Return the role that a role, or the name of a class of messages, stands for: `human` of HumanMessageChunk; "" where it is not one."""
    name = value.lower().removesuffix("chunk").removesuffix("message") if isinstance(value, str) else ""
    return name if name in _USER | _ASSISTANT | _OTHERS else ""


def _content(content: Json) -> str | None:
    """Return the text of a message's content: itself, or that of its parts that are text."""
    blocks = _items(content)
    if isinstance(content, str) and not (blocks and all(isinstance(block, Mapping) for block in blocks)):
        return _shown(content)
    texts = [
        text_in(block, ("content", "text"), 1)
        for block in blocks or ()
        if not isinstance(block, Mapping)
        or "text" in str(block.get("type", "text"))  # output_text; no reasoning, no tools
    ]
    return "\n".join(filter(None, texts)) or None


def _shown(text: str) -> str | None:
    return text if text.strip() and text != _HIDDEN else None


def _name(value: Json) -> str:
    """Return a text or a whole number as a name; "" for anything else."""
    whole = isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= 64
    return str(value) if whole or isinstance(value, str) else ""


def _number(value: Json) -> float | None:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _time(row: Mapping[str, Json], names: tuple[str, ...]) -> float:
    """Return the time under the first of these names that has one; a name says whether it is of nanoseconds."""
    name = next((name for name in names if row.get(name) not in (None, "")), names[0])
    number = _number(row.get(name)) if "nano" in name.lower() else None
    return _seconds(row.get(name)) if number is None else number / 1e9


def _seconds(value: Any) -> float:
    """Return a time in seconds since 1970: of seconds, milliseconds, microseconds or nanoseconds, a text or a datetime; else 0."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=value.tzinfo or datetime.UTC).timestamp()
    if (number := _number(value)) is not None:
        # of seconds 1e11 is the year 5138; a time since 1973 in the next unit is above
        return next((number / unit for unit in (1.0, 1e3, 1e6) if abs(number) < 1e11 * unit), number / 1e9)
    try:
        return _seconds(datetime.datetime.fromisoformat(str(value)))
    except (ValueError, OverflowError):
        return 0.0
