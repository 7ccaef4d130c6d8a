"""Retrieved passages as people write them: bare strings, objects under a dozen names, searches of an agent."""

from __future__ import annotations

import math
from typing import Any

from germane import unchecked
from germane.samples import kinds
from germane.samples.kinds import Field, Kind, each, listed, spellings
from germane.samples.wrong import Wrong, say
from germane.types import Call, Context, FrozenDict, Json

__all__ = ["CALL_FIELDS", "CONTEXT_FIELDS", "read_calls", "read_context", "read_contexts"]

CONTEXT_FIELDS = (
    Field("text", kinds.TEXT, "the passage", ("content", "page_content")),
    Field("id", kinds.ID, "the id of its document", ("doc_id", "document_id")),
    Field("score", kinds.NUMBER, "the retriever's own score"),
    Field("grade", kinds.GRADE, "a person's grade of its relevance, 0 to 3"),
    Field("relevant", kinds.FLAG, "a person's yes or no; another scale than grade: one of the two"),
    Field("metadata", kinds.OBJECT, "anything else that is known of it"),
    Field("start", kinds.OFFSET, "where it starts in its document, in characters"),
    Field("end", kinds.OFFSET, "where it ends in its document, in characters"),
)
_READ = {spelling: (field.name, field.kind.read) for spelling, field in spellings(CONTEXT_FIELDS).items()}
_EXAMPLE = '{"id": "d7", "text": "..."}'
_NOTHING = FrozenDict()
EMPTY = " "
"""A passage whose text is known and empty; "" stands for one whose text is not known, only its id."""


def read_context(value: Json) -> Context:
    """One passage: a string, or an object with at least a text or an id."""
    if type(value) is str:
        return unchecked.context(value or EMPTY, None, None)
    if isinstance(value, dict):
        return _usual(value) or _unusual(value)
    if isinstance(value, Context):
        return value
    raise Wrong(f"is {say(value)}", f"write a string or an object like {_EXAMPLE}")


def _usual(value: dict[str, Json]) -> Context | None:
    """What nearly every context is: text and id, with or without a score; None for any other."""
    text, document, score = value.get("text"), value.get("id"), value.get("score")
    if type(text) is not str or type(document) is not str or not document:
        return None
    scored = type(score) is float and math.isfinite(score)
    return unchecked.context(text or EMPTY, document, score) if len(value) == 2 + scored else None


def _unusual(value: dict[str, Json]) -> Context:
    known, more = _sort(value)
    if "text" not in known and "id" not in known:
        raise Wrong("has neither text nor id", f"write {_EXAMPLE} or a string")
    if "grade" in known and "relevant" in known:
        raise Wrong("has both grade and relevant: they are two scales", "keep one of them")
    if more:
        known["metadata"] = kinds.frozen({**known.get("metadata", {}), **more})
    if "text" in known:
        known["text"] = known["text"] or EMPTY
    return Context(**known)


def _sort(value: dict[str, Json]) -> tuple[dict[str, Any], dict[str, Json]]:
    """The keys of a context that mean something, read; and what belongs to its metadata."""
    known: dict[str, Any] = {"metadata": _NOTHING}
    more: dict[str, Json] = {}
    for key, inner in value.items():
        name, read = _READ.get(key, ("", None))
        if read is None:
            more[key] = inner
        elif inner is not None:
            try:
                result = read(inner)
            except Wrong as wrong:
                raise wrong.under(key) from None
            if name in {"start", "end"}:
                more[name] = result
            elif known.setdefault(name, result) is not result:
                known[name] = _second(known[name], result, key, name)
    return known, more


def _second(first: Any, second: Any, key: str, name: str) -> Any:
    """A field that is there under two names: fine where both say the same."""
    if first and first != second:
        raise Wrong(f"says something else than the other {name} of this context", f"keep one {name}", key)
    return second


def read_contexts(value: Json) -> tuple[Context, ...]:
    """A ranked list of passages, best first."""
    return each(read_context, listed(value, f'["...", {_EXAMPLE}], best first'))


CONTEXTS = Kind(read_contexts, {"type": "array", "items": {"$ref": "#/$defs/context"}})
CALL_FIELDS = (
    Field("query", kinds.TEXT, "what was searched for"),
    Field("contexts", CONTEXTS, "what came back, best first"),
    Field("ms", kinds.NUMBER, "how long it took, in milliseconds"),
    Field("source", kinds.TEXT, "which tool or index was asked"),
)
_CALL_READ = {field.name: field.kind.read for field in CALL_FIELDS}


def _call(value: Json) -> Call:
    if isinstance(value, Call):
        return value
    if not isinstance(value, dict) or value.get("contexts") is None:
        raise Wrong("is no search with its contexts", 'write {"query": "...", "contexts": [...]}')
    read: dict[str, Any] = {}
    for key, inner in value.items():
        if key not in _CALL_READ:
            raise Wrong("is no field of a call", f"write one of {', '.join(_CALL_READ)}", key)
        try:
            if inner is not None:
                read[key] = _CALL_READ[key](inner)
        except Wrong as wrong:
            raise wrong.under(key) from None
    return Call(**read)


def read_calls(value: Json) -> tuple[Call, ...]:
    """The searches of an agent, in their order."""
    return each(_call, listed(value, '[{"query": "...", "contexts": [...]}]'))


CALLS = Kind(read_calls, {"type": "array", "items": {"$ref": "#/$defs/call"}})
