"""Read spans in the formats of tracing tools: OTLP/JSON, Phoenix's spans and data frames, Langfuse's observations.

OpenInference's retriever and reranker spans (semantic conventions 0.1.42), OpenTelemetry's GenAI retrieval spans (semantic
conventions 1.41.1, in development), and Langfuse's observations of type RETRIEVER (blob storage export, public API v2) are
searches. The spans that contain them hold the question and the answer.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from germane.encoding import digest
from germane.errors import InputError, Invalid
from germane.samples import id_in, passages_in, structure
from germane.types import Json


def tree_of(values: Mapping[str, Json]) -> dict[str, Json]:
    """Return the mapping with its dotted names (`a.b`) turned into nested mappings."""
    root: dict[str, Json] = {}
    for key, value in values.items():
        *above, last = str(key).split(".")
        node = root
        for step in above:
            inner = node.get(step)
            if not isinstance(inner, dict):
                inner = node[step] = {}
            node = inner
        node[last] = tree_of(value) if isinstance(value, Mapping) else value
    return root


def value_at(tree: Json, path: str) -> Json:
    """Return the value at a dotted path; None if it is absent."""
    for step in path.split("."):
        tree = tree.get(step) if isinstance(tree, Mapping) else None
    return tree


def plain_attributes(attributes: Json) -> dict[str, Json]:
    """Return the attributes of OTLP/JSON, a list of keys and typed values, as a mapping with plain values."""
    pairs = attributes if isinstance(attributes, list) else []
    return {str(pair.get("key")): _value(pair.get("value")) for pair in pairs if isinstance(pair, dict)}


def _value(value: Json) -> Json:
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((name, inner),) = value.items()
    if name == "arrayValue":
        return [_value(value) for value in listed_under(inner, "values")]
    if name == "kvlistValue":
        return plain_attributes(listed_under(inner, "values"))
    return number_of(inner) if name == "doubleValue" else inner


def parsed(value: Json) -> Json:
    """Return the parsed value of a string that holds a JSON list, object or string; else `value` itself."""
    start = value.lstrip()[:1] if isinstance(value, str) else ""
    if start == '"':
        with suppress(ValueError):
            return parsed(json.loads(value))
    if start in {"[", "{"}:
        result = structure(value)
        return value if result is None else result
    return value


def items_of(value: Json) -> list[Json] | None:
    """Return the items of a list, which may be written as JSON text or as an object with positions as keys.

    Returns None for any other value.
    """
    value = parsed(value)
    if isinstance(value, Mapping) and value and all(str(key).isdecimal() for key in value):
        return [value[key] for key in sorted(value, key=int)]
    return value if isinstance(value, list) else None


def documents_in(value: Json) -> list[dict[str, Json]] | None:
    """Return the documents of a list as contexts; None if the value is not a list of documents."""
    items = items_of(value)
    if items is None:
        return None
    results = [_document(item) for item in items]
    return [row for row in results if row is not None] if None not in results else None


_TEXTS = ("content", "text", "page_content", "pageContent", "chunk")


def _document(value: Json) -> dict[str, Json] | None:
    """Return a retrieved document as a context of a sample; None if the value is not a document."""
    value = {"text": value} if isinstance(value, str) else value
    if not isinstance(value, Mapping):
        return None
    whole = tree_of(value)
    holders = (whole.get(name) for name in ("document", "node", "kwargs"))
    own = next((holder for holder in holders if isinstance(holder, Mapping)), whole)
    score = number_of(whole.get("score", own.get("score")))
    text = next((own[name] for name in _TEXTS if isinstance(own.get(name), str)), "")
    metadata = parsed(own.get("metadata"))
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    named = id_in(own) or id_in(metadata) or (f"text:{digest(text)[:12]}" if text else "")
    if not named:
        return None
    made = {"id": named, "text": text, "metadata": metadata, "score": score}
    return {key: value for key, value in made.items() if value not in (None, "", {})}


_SAID = ("text", "content", "messages")
QUESTIONS = ("query", "question", "input", "user_input", "prompt", "query_str", *_SAID)
ANSWERS = ("answer", "response", "output", "result", *_SAID)
_USER, ASSISTANT = frozenset({"user", "human"}), frozenset({"assistant", "ai", "model"})
_OTHERS = frozenset({"system", "developer", "tool", "function"})


def text_in(
    value: Json, names: tuple[str, ...], levels: int = 4, speaker: frozenset[str] = _USER
) -> str | None:
    """Return the text of an input or output: the value itself, or the value under one of the `names`."""
    value = parsed(value)
    if isinstance(value, str) or not levels:
        return value if isinstance(value, str) and value.strip() else None
    if (message := _message(value)) is not None:
        return _content(message[1]) if message[0] in speaker else None
    if isinstance(value, Mapping):
        inner = [*(value.get(name) for name in (*names, "kwargs")), *(items_of(value.get("args")) or [])[:1]]
        return next(filter(None, (text_in(part, names, levels - 1, speaker) for part in inner)), None)
    values = value if isinstance(value, list) else []
    messages = [message for message in map(_message, values) if message is not None]
    if not messages and len(values) == 1 and isinstance(values[0], list):  # a batch of one conversation
        return text_in(values[0], names, levels - 1, speaker)
    texts = (_content(content) for role, content in reversed(messages) if role in speaker)
    return next(filter(None, texts), None)  # a message of a user may be a tool's result, without a text


def _message(value: Json) -> tuple[str, Json] | None:
    """Return the role and the content of a message; None if the value is not a message."""
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
    """Return the speaker that a role or a class of messages names (HumanMessageChunk: "human"), or ""."""
    name = value.lower().removesuffix("chunk").removesuffix("message") if isinstance(value, str) else ""
    return name if name in _USER | ASSISTANT | _OTHERS else ""


def _content(content: Json) -> str | None:
    """Return the text of a message's content, whose text parts are joined; None if it contains no text."""
    blocks = items_of(content)
    if isinstance(content, str) and not (blocks and all(isinstance(block, Mapping) for block in blocks)):
        return content if content.strip() else None
    texts = [
        text_in(block, ("content", "text"), 1)
        for block in blocks or ()
        if not isinstance(block, Mapping)
        or "text" in str(block.get("type", "text"))  # output_text; no reasoning, no tools
    ]
    return "\n".join(filter(None, texts)) or None


def name_of(value: Json) -> str:
    """Return a string or an integer as a string, and "" for any other value."""
    whole = isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= 64
    return str(value) if whole or isinstance(value, str) else ""


def number_of(value: Json) -> float | None:
    """Return the value as a float if it is a finite number, or a string that contains one; else None."""
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def listed_under(holder: Json, key: str) -> list[Json]:
    """Return the list under a key of a mapping; [] if there is no list."""
    value = holder.get(key) if isinstance(holder, Mapping) else None
    return value if isinstance(value, list) else []


def seconds_of(value: Any) -> float:
    """Return a datetime, an ISO string or milliseconds as seconds since 1970; 0 if it is not a time."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=value.tzinfo or datetime.UTC).timestamp()
    if (number := number_of(value)) is not None:
        return number / 1000
    try:
        return seconds_of(datetime.datetime.fromisoformat(str(value)))
    except (ValueError, OverflowError):
        return 0.0


RETRIEVER, RERANKER, MODEL = "RETRIEVER", "RERANKER", "LLM"


Rows: TypeAlias = Iterator[tuple[int, Json, Callable[..., Any]]]
"""The rows of a file, each with its number and a function that locates a path in it."""


class Span(NamedTuple):
    """One step of a trace, which may be a retrieval.

    `documents` are the contexts that the step returned, best first. `inputs` are the contexts that a reranker
    got. Both are None if they were not recorded. `parent` is the id of the span that contains this span.
    `start` and `end` are seconds since 1970.
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
_TIMES = ("_time", "Time", "TimeUnixNano", "_time_unix_nano")
_START, _END = (tuple(f"{when}{name}" for name in _TIMES) for when in ("start", "end"))
_OF_SAMPLES = {"query", "question", "contexts", "retrieved_contexts"}


def spans_in(row: Json) -> Iterator[Span]:
    """Yield the spans of a row, which is either one span or an OTLP document with many spans."""
    row = row if isinstance(row, dict) else {}
    if isinstance(row.get("resourceSpans"), list):
        wrong = Invalid("contains a span without a trace id", 'write "traceId" and "spanId"')
        scopes = [
            scope for resource in row["resourceSpans"] for scope in listed_under(resource, "scopeSpans")
        ]
        listed = [span for scope in scopes for span in listed_under(scope, "spans") if isinstance(span, dict)]
        spans = [{**span, "attributes": plain_attributes(span.get("attributes"))} for span in listed]
    else:
        fix = "add its trace id, or keep spans in a file of their own"
        wrong = Invalid("is not a span with a trace id, but the rows before it are", fix)
        own = dict(row) if _OF_SAMPLES.isdisjoint(row) else {}
        if isinstance(context := parsed(own.get("context")), dict):  # the ids of Phoenix's spans
            own |= {f"context.{name}": value for name, value in context.items()}
        spans = [own]
    for span in spans:
        if not name_of(_first(span, _TRACE)):
            raise wrong
        yield _span(span)


def is_document_row(row: Json) -> bool:
    """Return True if a row is a document of a span, as listed by Phoenix's `get_retrieved_documents`."""
    named = isinstance(row, dict) and not {"context.span_id", "span_id"}.isdisjoint(row)
    return named and row.keys() >= {"document_position", "input", "reference"}


def samples_of_documents(rows: Rows) -> Rows:
    """Yield a sample for each retriever span, given rows that are documents of spans."""
    spans: dict[str, tuple[Callable[..., Any], list[tuple[float, dict[str, Json]]]]] = {}
    for _, row, where in rows:
        span = name_of(_first(row, _SPAN)) if is_document_row(row) else ""
        position = number_of(row["document_position"]) if span else None
        if position is None:
            problem = "this row is not a document of a span with its position, but rows before it are"
            fix = "keep the documents of spans in a file of their own, with document_position: 0, 1, 2, ..."
            raise InputError(problem, fix=fix, place=where(()))
        spans.setdefault(span, (where, []))[1].append((position, row))
    for number, (span, (where, placed)) in enumerate(spans.items(), 1):
        documents = [row for _, row in sorted(placed, key=lambda pair: pair[0])]
        columns = {"text": "reference", "score": "document_score", "metadata": "document_metadata"}
        found = [{name: row.get(key) for name, key in columns.items()} for row in documents]
        for document, row in zip(found, documents, strict=True):
            document["id"] = _first(row, ("document_id", "doc_id"))
        trace = name_of(_first(documents[0], _TRACE))
        sample: dict[str, Json] = {"id": span, "query": text_in(documents[0]["input"], QUESTIONS)}
        sample["contexts"] = documents_in(found) or []
        sample["metadata"] = {"spans": [span], **({"trace": trace} if trace else {})}
        yield number, sample, lambda _, where=where: where(())


def _first(row: Mapping[str, Json], names: Iterable[str]) -> Json:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _span(row: dict[str, Json]) -> Span:
    """Return the span that a row of an export describes."""
    attributes = _attributes(row)
    kind, parent, start = _kind(row, attributes), name_of(_first(row, _PARENT)), _time(row, _START)
    asked = kind != MODEL or not parent  # the input of a model within a trace is a prompt, not the question
    sessions = value_at(attributes, "session.id"), _first(row, ("session_id", "sessionId"))
    queries = (text_in(value_at(attributes, name), QUESTIONS) for name in _QUERIES)
    answers = (text_in(value_at(attributes, name), ANSWERS, speaker=ASSISTANT) for name in _OUTPUTS)
    documents = inputs = response = error = None
    if kind in {RETRIEVER, RERANKER}:
        lists = (documents_in(value_at(attributes, name)) for name in _LISTS)
        documents = next((listed for listed in lists if listed is not None), None)
        if documents is None:
            documents = documents_in(passages_in(parsed(value_at(attributes, "output.value"))))
        status: Json = row.get("status") if isinstance(row.get("status"), dict) else {}
        codes = (status.get("code"), status.get("status_code"), row.get("status_code"), row.get("level"))
        if next((code for code in codes if code is not None), None) in (2, "STATUS_CODE_ERROR", "ERROR"):
            description = _first(status, ("message", "description"))
            error = name_of(description or _first(row, ("status_message", "statusMessage")))
            error = error or "the retrieval failed"
    elif asked:
        response = next(filter(None, answers), None)
    if kind == RERANKER:
        inputs = documents_in(value_at(attributes, "reranker.input_documents"))
    return Span(
        trace=name_of(_first(row, _TRACE)),
        id=name_of(_first(row, _SPAN)) or name_of(row.get("id")),
        parent=parent,
        name=name_of(row.get("name")) or kind.lower() or "span",
        kind=kind,
        start=start,
        end=max(start, _time(row, _END)),
        query=next(filter(None, queries), None) if asked else None,
        documents=documents,
        inputs=inputs,
        response=response,
        session=next(filter(None, map(name_of, sessions)), None),
        error=error,
    )


_OUTPUTS = ("output.value", "gen_ai.output.messages")
_QUERIES = ("reranker.query", "gen_ai.retrieval.query.text", "input.value", "gen_ai.input.messages")


def _kind(row: Mapping[str, Json], attributes: Mapping[str, Json]) -> str:
    """Return RERANKER, RETRIEVER or MODEL, as a span states or its attributes show; "" for another kind."""
    values = (value_at(attributes, "openinference.span.kind"), row.get("span_kind"), row.get("type"))
    words = {str(word).upper() for word in values}
    operations = {"retrieval": RETRIEVER, "chat": MODEL}
    words.add(operations.get(str(value_at(attributes, "gen_ai.operation.name")), ""))
    if RERANKER in words or value_at(attributes, "reranker.output_documents") is not None:
        return RERANKER
    if RETRIEVER in words or value_at(attributes, "retrieval.documents") is not None:
        return RETRIEVER
    return MODEL if words & {MODEL, "GENERATION"} else ""


_PREFIXES = {"retrieval", "reranker", "gen_ai", "input", "output", "openinference", "session"}


def _attributes(row: Mapping[str, Json]) -> dict[str, Json]:
    """Return the attributes of a span as nested objects, from all the fields in which exports store them."""
    metadata = parsed(row.get("metadata"))  # of a span that Langfuse took by OpenTelemetry
    more = parsed(metadata.get("attributes")) if isinstance(metadata, Mapping) else None
    named = (key for key, value in row.items() if key.startswith("attributes.") and value not in (None, ""))
    columns = {key.removeprefix("attributes."): row[key] for key in named}
    attributes: dict[str, Json] = {}
    for source in (row.get("attributes"), columns, more):
        attributes |= source if isinstance(source, Mapping) else {}
    for name in ("input", "output"):  # of Langfuse's observations
        if row.get(name) not in (None, ""):
            attributes.setdefault(f"{name}.value", row[name])
    return tree_of(
        {key: value for key, value in attributes.items() if str(key).partition(".")[0] in _PREFIXES}
    )


_LISTS = ("reranker.output_documents", "retrieval.documents", "gen_ai.retrieval.documents")


def _time(row: Mapping[str, Json], names: tuple[str, ...]) -> float:
    """Return the time of a row in seconds since 1970, from the first of these `names` that has a value."""
    name = next((name for name in names if row.get(name) not in (None, "")), names[0])
    number = number_of(row.get(name)) if "nano" in name.lower() else None
    return seconds_of(row.get(name)) if number is None else number / 1e9
