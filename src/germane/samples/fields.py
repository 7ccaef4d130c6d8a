"""The fields of a sample: their aliases in other programs' files, and the readers of their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from germane.clean import fold
from germane.encoding import encode
from germane.errors import Invalid, describe, explained
from germane.types import Call, Context, Json, Message, Step

T = TypeVar("T")
_LISTS = (list, tuple)
EMPTY = " "
"""The text of a passage that is known to be empty; "" means that only the passage's id is known."""
IDS = "retrieved_context_ids"
DOCUMENT_IDS = (
    "doc_id", "document_id", "docno", "pid", "passage_id", "corpus_id", "context_id", "doc_uri", "chunk_id", "node_id"
)  # fmt: skip
"""The keys of a document's id besides `id` and `_id`, in order of preference."""
GRADES = "grade", "relevance", "rel", "relevant", "label", "judgment", "judgement", "score"  # in this order


class Field(NamedTuple):
    """A field of a sample or passage: its meaning, its other names (also in camelCase), and an example.

    `read` converts an input value to the type that the record needs. It returns a value of an unexpected type
    unchanged, or raises Invalid. `alters` is True for a value that has the record's type already, but that
    `read`, or a warning, may be about.
    """

    meaning: str
    names: tuple[str, ...] = ()
    example: Json = None
    read: Callable[[Json], Json] | None = None
    alters: Callable[[Any], object] | None = None


def spellings(fields: Mapping[str, Field]) -> dict[str, str]:
    """Return a mapping from each accepted name of a field (also in camelCase) to the field's own name."""
    names = ((text, name) for name, field in fields.items() for text in (name, *field.names))
    return {
        spelling: name
        for text, name in names
        for spelling in (text, re.sub(r"_([a-z])", lambda match: match[1].upper(), text))
    }


class KeyPlan(NamedTuple):
    """A plan for mappings of the same keys: the `fields` to read, and the `others`, which become metadata."""

    fields: tuple[tuple[Any, str, Callable[[Json], Json] | None], ...]
    others: tuple[Any, ...]

    @classmethod
    def of(
        cls, keys: tuple[Any, ...], means: Mapping[Any, str | None], fields: Mapping[str, Field]
    ) -> KeyPlan:
        """Return the plan for mappings with these keys.

        `means` maps keys to field names (None: metadata), in order of preference: of several keys for one
        field, the first is read and the others become metadata. `fields` declares the fields by name.
        """
        best = {name: key for key, name in reversed([*means.items()]) if name is not None}
        read = {key: name for name, key in best.items()}
        chosen = ((key, read[key], fields[read[key]].read) for key in keys if key in read)
        return cls(tuple(chosen), tuple(key for key in keys if key not in read))

    def read(self, row: Mapping[Any, Json]) -> dict[str, Json]:
        """Convert the values of `row` and return them by field. Raises Invalid with the path of a value."""
        values: dict[str, Json] = {}
        key: Any = ""
        try:
            for key, name, read in self.fields:
                values[name] = row[key] if read is None else read(row[key])
        except Invalid as wrong:
            raise wrong.under(key) from None
        if self.others:
            values["metadata"] = {**values.get("metadata", {}), **{str(key): row[key] for key in self.others}}
        return values


@lru_cache(maxsize=1000)
def id_keys(keys: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the keys that may hold a document's id (id, doc_id, docno, ...), in order of preference."""
    named = (key for key in keys if isinstance(key, str) and fold(key) in _ID_RANKS)
    return tuple(sorted(named, key=lambda key: (_ID_RANKS[fold(key)], key != "id")))


def id_in(row: Json) -> str | None:
    """Return the document id in a row or a passage's metadata: the first valid one of `id_keys`, or None."""
    for key in id_keys(tuple(row)) if isinstance(row, Mapping) else ():
        with suppress(Invalid):
            return read_id(row[key])
    return None


def grade_in(item: Json) -> Json:
    """Return the grade in an object that names a gold document; 1 if it has none, or for an id."""
    return next((item[key] for key in GRADES if key in item), 1) if isinstance(item, Mapping) else 1


def _whole(value: Json) -> Json:
    """Return a whole number of any type (2.0, a NumPy integer) as int; return any other value unchanged."""
    if type(value) is int or isinstance(value, bool) or not isinstance(value, Real):
        return value
    if isinstance(value, Integral):
        return int(value)
    return int(float(value)) if float(value).is_integer() else value


def _number(value: Json) -> Json:
    """Return a number of another type (NumPy, Fraction) as float; return any other value unchanged."""
    return value if type(value) in {int, float, bool} or not isinstance(value, Real) else float(value)


def read_id(value: Json) -> str:
    """Return an id (a non-empty string, whole number, UUID or UTF-8 bytes) as a string, or raise Invalid."""
    if type(value) is str and value:
        return value
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise Invalid("is bytes that are not UTF-8", "write the id as a string") from None
    if type(whole := _whole(value)) is int or (isinstance(value, str | UUID) and value):
        return str(whole)
    raise Invalid(f"is {describe(value)}, not an id", "write a non-empty string or a whole number")


def _at(step: Step, read: Callable[[Json], Json], value: Json) -> Json:
    """Return `read(value)`; if it raises Invalid, prepend the key or index `step` to the error's path."""
    try:
        return read(value)
    except Invalid as wrong:
        raise wrong.under(step) from None


def _each(read: Callable[[Json], Json]) -> Callable[[Json], Json]:
    """Return a function that applies `read` to each value of a list; other values are returned unchanged."""

    def read_all(values: Json) -> Json:
        if not isinstance(values, _LISTS):
            return values
        return [_at(step, read, value) for step, value in enumerate(values)]

    return read_all


def _ids(values: Json) -> Json:
    """Return a list with each id as a string; other values are returned unchanged."""
    usual = type(values) is list and all(values) and {*map(type, values)} == {str}
    return values if usual else _each(read_id)(values)


def _question(value: Json) -> Json:
    """Return a query unchanged. Raises Invalid if it is blank."""
    if isinstance(value, str) and not value.strip():
        raise Invalid("is empty", "write the text of the query")
    return value


def _qrels(value: Json) -> Json:
    """Return qrels as a mapping from document ids to grades; a list holds ids, or objects with grades."""
    if isinstance(value, _LISTS):
        if not any(isinstance(item, Mapping) for item in value):
            return dict.fromkeys(_ids(value), 1)
        names, grades = _ids([id_in(item) or item for item in value]), list(map(grade_in, value))
        value = dict(zip(names, grades, strict=True))
        if [value[name] for name in names] != grades:
            raise Invalid("has a document twice, with different grades", "write each document once")
    if not isinstance(value, dict):
        return value
    # keys that are not strings come from Python, or are numbers in a table
    return {key if type(key) is str else read_id(key): _whole(grade) for key, grade in value.items()}


def _gold(value: Json) -> Json:
    """Return gold as lists of ids; a flat list does not say whether one id or all are needed."""
    for at, group in enumerate(value) if isinstance(value, _LISTS) else ():
        if isinstance(group, str):
            groups = 'lists (one id of each must be retrieved): [["a", "b"], ["c"]]'
            fix = f'write "qrels": ["a", "b"], or {groups}'
            raise Invalid(f"is {describe(group)}, not a list of ids", fix, at)
        if group in ([], ()):
            raise Invalid("is empty, so that nothing can be found", "leave the empty group out", at)
    return _each(_ids)(value)


def _metadata(value: Json) -> Json:
    """Return a mapping with its keys as strings; return any other value as {"metadata": value}."""
    fields = value if isinstance(value, Mapping) else {"metadata": value}
    return {str(key): inner for key, inner in fields.items()}


def _offset(value: Json) -> int:
    """Return a character offset as int. Raises Invalid unless the value is a whole number >= 0."""
    if type(offset := _whole(value)) is not int or offset < 0:
        raise Invalid(f"is {describe(value)}, not a character offset", "write a whole number >= 0")
    return offset


_EXAMPLE = 'write a string or an object like {"id": "d7", "text": "..."}'


def _passage(value: Json) -> Json:
    """Convert a passage in any accepted form to a mapping of Context's fields; a Context stays as it is."""
    if isinstance(value, Context):
        return value
    if isinstance(value, str):
        return {"text": str(value) or EMPTY}
    if isinstance(value, _LISTS) and len(value) == 2 and not isinstance(value[0], _LISTS):
        # a pair (passage, score), as vector stores return it
        passage, score = _passage(value[0]), _number(value[1])
        if type(score) in {int, float} and isinstance(passage, dict) and "score" not in passage:
            return {**passage, "score": score}
    if not isinstance(value, dict):
        raise Invalid(f"is {describe(value)}, not a passage", _EXAMPLE)
    if type(None) in map(type, value.values()):
        value = {key: inner for key, inner in value.items() if inner is not None}
    made = _passage_plan(tuple(value)).read(value)
    if "start" in made or "end" in made:
        offsets = {name: made.pop(name) for name in ("start", "end") if name in made}
        made["metadata"] = {**made.get("metadata", {}), **offsets}
    if "id" not in made and (found := id_in(made.get("metadata"))) is not None:
        made["id"] = found
    for key, text in made.get("metadata", {}).items():  # where vector stores put the text
        if PASSAGE_SPELLINGS.get(key) == "text" and isinstance(text, str):
            made.setdefault("text", text)
    if made.get("text") == "":
        made["text"] = EMPTY
    if "text" not in made and "id" not in made:
        raise Invalid("has neither text nor id", _EXAMPLE)
    return made


@lru_cache(maxsize=1000)
def _passage_plan(keys: tuple[Any, ...]) -> KeyPlan:
    means: dict[Any, str | None] = dict.fromkeys(id_keys(keys), "id")
    means |= {key: name for key, name in PASSAGE_SPELLINGS.items() if key in keys and name != "id"}
    return KeyPlan.of(keys, means, PASSAGE)


def passages(values: Json) -> Json:
    """Convert a list of passages to Contexts, or to mappings of their fields; other values stay unchanged."""
    if not isinstance(values, _LISTS):
        return values
    with suppress(msgspec.ValidationError, AttributeError):  # a Context has no `get`
        # converted as a Call, because msgspec inspects a type that is not a record at each call
        made = msgspec.convert({"contexts": values}, Call).contexts
        for row, it in zip(values, made, strict=True):
            # an empty text, no text and no id, or maybe an id or a text in the metadata
            short = (it.id is None or not it.text) and not row.get("text")
            if (short and ("text" in row or it.id is None)) or (it.metadata and not (it.id and it.text)):
                break
        else:
            return made
    return _each(_passage)(values)


def failure(value: Json) -> str | None:
    """Return the reason in an `error` (a string, true, an object with a message), or None for no error."""
    if isinstance(value, dict):
        texts = (value.get(name) for name in ("message", "detail", "reason"))
        value = next((text for text in texts if isinstance(text, str) and text), value)
    if value is True:
        return "the system reported an error without a reason"
    if not value or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, str):
        return value
    with suppress(TypeError, ValueError):
        return encode(value).decode()
    return str(value)  # a value of Python that JSON cannot represent


def _call(value: Json) -> Json:
    """Return one search of an agent with its passages converted."""
    if not isinstance(value, dict) or value.keys().isdisjoint({"contexts", "error"}):
        return value
    error, contexts = failure(value.get("error")), value.get("contexts")
    contexts = () if contexts is None and error is not None else _at("contexts", passages, contexts)
    return {**value, "contexts": contexts, "error": error, "ms": _number(value.get("ms"))}


def _stage(value: Json) -> Json:
    """Return a step of the retrieval (`{"name": ..., "ids": [...]}`) with its document ids as strings."""
    listed = isinstance(value, dict) and "ids" in value
    return {**value, "ids": _at("ids", _ids, value["ids"])} if listed else value


def _evidence(value: Json) -> Json:
    if not isinstance(value, dict):
        return {"quote": value} if isinstance(value, str) else value
    made = {key: _whole(inner) if key in {"start", "end"} else inner for key, inner in value.items()}
    return made if made.get("doc") is None else made | {"doc": _at("doc", read_id, made["doc"])}


def _tool_call(value: Json) -> Json:
    """Return a tool call, in germane's form or as chat APIs write it, as a mapping of ToolCall's fields."""
    if not isinstance(value, dict):
        return value
    function = value["function"] if isinstance(value.get("function"), dict) else {}
    times = (value.get(name) for name in ("ms", "duration_ms", "durationMs"))
    made = {
        "tool": value.get("tool") or value.get("name") or function.get("name"),
        "input": value.get("input", value.get("args", function.get("arguments"))),
        "output": value.get("output"),
        "id": None if value.get("id") is None else str(value["id"]),
        "ms": next((time for time in times if time is not None), None),
    }
    return {key: inner for key, inner in made.items() if inner is not None}


def _message(value: Json) -> Json:
    """Return a message of a conversation as a mapping of Message's fields, without unknown keys."""
    if not isinstance(value, dict):
        raise Invalid(f"is {describe(value)}, not a message", 'write {"role": "user", "content": "..."}')
    key = "tool_calls" if "tool_calls" in value else "toolCalls"
    turn = {"content": value.get("content"), "tool_calls": _at(key, _each(_tool_call), value.get(key) or ())}
    return {"role": value["role"], **turn} if "role" in value else turn


def _conversation(value: Json) -> Json:
    """Return a conversation as a list of messages; a string becomes one message of the user."""
    return [{"role": "user", "content": value}] if isinstance(value, str) else _each(_message)(value)


def converted(values: Json, kind: type[T]) -> T:
    """Convert values to the record type `kind`. Raises Invalid with the path of the first wrong value."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise explained(error, values) from None


def read_messages(values: Json) -> tuple[Message, ...]:
    """Convert a conversation (a list of messages, or a string) to Messages, or raise Invalid."""
    return converted(_conversation(values), tuple[Message, ...])


FIELDS = {
    "id": Field(
        "the id of the case; default: the number of its line",
        ("qid", "query_id", "case_id", "_id"),
        read=read_id,
    ),
    "query": Field(
        "the text of the query",
        ("question", "topic", "user_input", "input"),
        "the question that was asked",
        read=_question,
        alters=lambda text: not text.strip(),
    ),
    "system": Field("the name of the retrieval system"),
    "trial": Field("the number of the repetition, from 0", read=_whole),
    "contexts": Field(
        "the retrieved passages, best first; [] if nothing was retrieved, absent if unknown",
        ("retrieved_contexts", "retrieval_context", "context", "retrieved_context"),
        ["...", {"id": "d7", "text": "..."}],
        read=passages,
        # a passage may be empty, or have an id or text in its metadata
        alters=lambda some: any(
            it.text == EMPTY or (it.metadata and not (it.id and it.text)) for it in some or ()
        ),
    ),
    IDS: Field("the document ids of the contexts, in their order", ("doc_ids",), ["d1", "d2"], read=_ids),
    "calls": Field(
        "the searches of an agent, one ranking each",
        example=[{"query": "...", "contexts": ["..."]}],
        read=_each(_call),
        alters=bool,
    ),
    "stages": Field(
        "the document ids that each step of the retrieval returned, best first",
        example=[{"name": "bm25", "ids": ["d7", "d2"]}, {"name": "rerank", "ids": ["d2"]}],
        read=_each(_stage),
        alters=bool,
    ),
    "reference": Field(
        "the correct answer", ("ground_truth", "expected_output", "expected", "reference_answer")
    ),
    "criterion": Field(
        "a description of a good answer; not itself an answer", ("criteria", "expected_outcome", "outcome")
    ),
    "response": Field("the system's answer", ("actual_output", "answer", "candidate_answer", "output")),
    "qrels": Field(
        "gold documents and their grades; 0 or less means not relevant",
        ("reference_context_ids", "document_ids", "gold_ids"),
        {"d7": 2, "d9": 0},
        read=_qrels,
    ),
    "gold": Field(
        "groups of document ids; one id of every group must be retrieved",
        example=[["d1", "d7"], ["d3"]],
        read=_gold,
        alters=lambda groups: groups is not None and not all(groups),
    ),
    "evidence": Field(
        "pieces of gold text, valid for any chunking",
        example=[{"quote": "..."}],
        read=_each(_evidence),
        alters=bool,
    ),
    "answerable": Field("false if nothing in the corpus answers the query"),
    "forbidden": Field("documents that must not be retrieved", example=["d9"], read=_ids, alters=bool),
    "unsure": Field(
        "documents that may be relevant, with the grade that they would have; `*1` is an unknown document",
        example={"d8": 1},
        read=_qrels,
    ),
    "history": Field(
        "the messages before the query",
        example=[{"role": "user", "content": "..."}],
        read=_conversation,
        alters=bool,
    ),
    "messages": Field(
        "the system's messages, with their tool calls", ("output_messages",), read=_conversation, alters=bool
    ),
    "error": Field("why the system gave no usable answer", read=failure, alters=lambda why: why is not None),
    "tags": Field("tags to filter and group cases by", example=["tax", "2024"]),
    "cluster": Field("a name shared by cases that are one unit in statistics; default: the id"),
    "grade_scale": Field(
        "the lowest and the highest grade of a context; default: 0 and 3", example=[0, 4], read=_each(_whole)
    ),
    "metadata": Field("any other data about the case", read=_metadata),
}
"""The fields of a sample."""
PASSAGE = {
    "text": Field("the text of the passage", ("content", "page_content")),
    "id": Field("the id of its document", (*DOCUMENT_IDS, "_id"), read=read_id),
    "score": Field("the retriever's own score", read=_number),
    "grade": Field("a person's grade of its relevance, 0 to 3 or in grade_scale", read=_whole),
    "relevant": Field("a person's yes or no on its relevance; give either grade or relevant"),
    "metadata": Field("any other data about the passage", read=_metadata),
    "start": Field("the character offset in its document where the passage starts", read=_offset),
    "end": Field("the character offset in its document where the passage ends", read=_offset),
}
"""The fields of a passage; `start` and `end` become metadata."""
SPELLINGS, PASSAGE_SPELLINGS = spellings(FIELDS), spellings(PASSAGE)
_ID_RANKS = {fold(name): rank for rank, name in enumerate(("id", *DOCUMENT_IDS))}
