"""What a system answered, in whatever shape it says it, put into the sample that was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from germane.errors import InputError, Place, TargetError
from germane.samples.jsontext import whole
from germane.samples.messagefiles import content_text
from germane.samples.rows import RowReader
from germane.targets.target import Asked, sample_of
from germane.types import Call, Context, FrozenDict, Json, Message, Sample

__all__ = ["complete", "merged"]

_ROWS = RowReader()
_SHAPES = 'return a text, a list of contexts, or {"response": "...", "contexts": [...]}'


def complete(asked: Asked, answer: Any, *, ms: float | None = None) -> Sample:
    """The asked sample with an answer: a text, a list of contexts, a mapping or a Sample; TargetError on others."""
    if isinstance(answer, Sample):
        return merged(asked, answer, ms=ms)
    try:
        value = whole(_native(answer))
    except RecursionError:
        raise TargetError("the answer contains itself, or is nested without end") from None
    if isinstance(value, str):
        value = {"response": value}
    elif isinstance(value, list):
        value = {"contexts": value}
    if not isinstance(value, dict):
        raise TargetError(f"the answer is {type(answer).__name__}; {_SHAPES}")
    row = {("response" if key == "text" else key): inner for key, inner in value.items()}
    echoed = {key for key in row if _ROWS.field_of(key) in {"query", "id", "system", "trial"}}
    try:
        said = _ROWS.read({**{k: v for k, v in row.items() if k not in echoed}, "query": "-"}, 0, _nowhere)
    except InputError as error:
        raise TargetError(f"the answer cannot be read: {error.problem}; {error.fix or _SHAPES}") from None
    return merged(asked, said, ms=ms)


def merged(asked: Asked, said: Sample, *, ms: float | None = None) -> Sample:
    """The asked sample with the response, messages, contexts and calls of another; gold stays its own.

    What was retrieved before gives way to what is handed over now, and stays where nothing is.
    """
    sample = sample_of(asked)
    listed = said.contexts is not None or said.calls is not None
    measured = {} if ms is None else {"ms": round(ms, 3)}
    return replace(
        sample,
        response=_spoken(said.messages) if said.response is None else said.response,
        messages=said.messages,
        contexts=said.contexts if listed else sample.contexts,
        calls=said.calls if listed else sample.calls,
        error=said.error,
        metadata=FrozenDict({**sample.metadata, **said.metadata, **measured}),
    )


def _spoken(messages: tuple[Message, ...]) -> str | None:
    """The last thing that was said."""
    said = (content_text(message.content) for message in reversed(messages) if message.role == "assistant")
    return next(filter(None, said), None)


def _nowhere(_: object) -> Place:
    return Place("answer")


def _native(value: Any) -> Json:
    """A value of Python code as JSON: numbers and arrays of numpy as numbers, documents of retrievers as contexts."""
    if isinstance(value, Mapping):
        return {str(key): _native(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_native(inner) for inner in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "page_content"):
        shown = {"text": value.page_content, "id": getattr(value, "id", None)}
        return {**shown, "metadata": _native(getattr(value, "metadata", {}))}
    return value if value is None or isinstance(value, _PLAIN) else str(value)


_PLAIN = bool | int | float | str | Context | Call | Message
