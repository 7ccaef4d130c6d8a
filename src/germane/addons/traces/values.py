"""Values in spans' attributes, in the forms of every tool: trees, lists, documents, messages, names, numbers and times."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from germane.encoding import digest
from germane.samples import id_in, structure
from germane.types import Json


def tree_of(values: Mapping[str, Json]) -> dict[str, Json]:
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
        node[last] = tree_of(value) if isinstance(value, Mapping) else value
    return root


def value_at(tree: Json, path: str) -> Json:
    """Return the value at a dotted path; None if it is absent or redacted."""
    for step in path.split("."):
        tree = tree.get(step) if isinstance(tree, Mapping) else None
    return None if tree == _HIDDEN else tree


_HIDDEN = "__REDACTED__"


def plain_attributes(attributes: Json) -> dict[str, Json]:
    """Return attributes of OTLP/JSON as plain values."""
    pairs = attributes if isinstance(attributes, list) else []
    return {str(pair.get("key")): _value(pair.get("value")) for pair in pairs if isinstance(pair, dict)}


def _value(value: Json) -> Json:
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((name, inner),) = value.items()
    if name == "arrayValue":
        return [_value(value) for value in listed_under(inner, "values") or ()]
    if name == "kvlistValue":
        return plain_attributes(listed_under(inner, "values"))
    return number_of(inner) if name == "doubleValue" else inner


def parsed(value: Json) -> Json:
    """Return the value of a text that is JSON for a list, object or text; anything else unchanged."""
    start = value.lstrip()[:1] if isinstance(value, str) else ""
    if start == '"':
        with suppress(ValueError):
            return parsed(json.loads(value))
    if start in {"[", "{"}:
        result = structure(value)
        return value if result is None else result
    return value


def items_of(value: Json) -> list[Json] | None:
    """Return a list given as a list, as JSON, or as an object with positions as keys; None for anything else."""
    value = parsed(value)
    if isinstance(value, Mapping) and value and all(str(key).isdecimal() for key in value):
        return [value[key] for key in sorted(value, key=int)]
    return value if isinstance(value, list) else None


def documents_in(value: Json) -> list[dict[str, Json]] | None:
    """Return the contexts in a list of documents; None if it is not a list of documents."""
    items = items_of(value)
    if items is None:
        return None
    results = [_document(item) for item in items]
    return [row for row in results if row is not None] if None not in results else None


_TEXTS = ("content", "text", "page_content", "pageContent", "chunk")


def _document(value: Json) -> dict[str, Json] | None:
    """Return one document as a context; without an id its text identifies it."""
    value = {"text": value} if isinstance(value, str) else value
    if not isinstance(value, Mapping):
        return None
    whole = tree_of(value)
    holders = (whole[name] for name in ("document", "node", "kwargs") if isinstance(whole.get(name), Mapping))
    own = next(holders, whole)
    score = number_of(whole.get("score", own.get("score")))
    text = next((own[name] for name in _TEXTS if isinstance(own.get(name), str)), "")
    text = "" if text == _HIDDEN else text
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
    """Return the text of an input or output: the value itself, or the value under one of these names.

    Of messages the last text of the speaker; of a recorded call (`args`, `kwargs`) its first argument. None where there is no such
    text.
    """
    value = parsed(value)
    if isinstance(value, str) or not levels:
        return _shown(value) if isinstance(value, str) else None
    if (message := _message(value)) is not None:
        return _content(message[1]) if message[0] in speaker else None
    if isinstance(value, Mapping):
        inner = [*(value.get(name) for name in (*names, "kwargs")), *(items_of(value.get("args")) or [])[:1]]
        return next(filter(None, (text_in(one, names, levels - 1, speaker) for one in inner)), None)
    values = value if isinstance(value, list) else []
    messages = [message for message in map(_message, values) if message is not None]
    if not messages and len(values) == 1 and isinstance(values[0], list):  # a batch of one conversation
        return text_in(values[0], names, levels - 1, speaker)
    texts = (_content(content) for role, content in reversed(messages) if role in speaker)
    return next(filter(None, texts), None)  # a tool's result may be a user's message


def _message(value: Json) -> tuple[str, Json] | None:
    """Return role and content of a message: with a role, of a LangChain type or constructor, or as a pair; else None."""
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
    """Return the role for a role's name or a message class (`human` for HumanMessageChunk); "" for anything else."""
    name = value.lower().removesuffix("chunk").removesuffix("message") if isinstance(value, str) else ""
    return name if name in _USER | ASSISTANT | _OTHERS else ""


def _content(content: Json) -> str | None:
    """Return the text of a message's content, or of its text parts."""
    blocks = items_of(content)
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


def name_of(value: Json) -> str:
    """Return a text or whole number as a name, and "" for anything else."""
    whole = isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= 64
    return str(value) if whole or isinstance(value, str) else ""


def number_of(value: Json) -> float | None:
    """Return a finite number, also from a text; None for anything else."""
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def listed_under(holder: Json, key: str) -> list[Json] | None:
    """Return the list under a key of a mapping, or None."""
    value = holder.get(key) if isinstance(holder, Mapping) else None
    return value if isinstance(value, list) else None


def seconds_of(value: Any) -> float:
    """Return a time in seconds since 1970, from a datetime, an ISO text, or milliseconds as pandas writes them; else 0."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=value.tzinfo or datetime.UTC).timestamp()
    if (number := number_of(value)) is not None:
        return number / 1000
    try:
        return seconds_of(datetime.datetime.fromisoformat(str(value)))
    except (ValueError, OverflowError):
        return 0.0
