"""The one JSON object in what a model wrote: fences, thoughts and prose around it are passed over.

Nothing is guessed: an object that is cut off or says a thing twice, two different objects, a thought without an end,
or nothing of the kind is an AnswerError whose text can be sent back to the model.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import NoReturn

from germane.errors import AnswerError
from germane.types import Json

__all__ = ["fitted", "object_in"]

DEEPEST = 32
"""So many lists and objects within each other are more than any answer has."""


def _refuse(constant: str) -> NoReturn:
    raise AnswerError(f"{constant[:20]} is no number that JSON has")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise AnswerError(f'the answer says "{twice[:40]}" twice')
    return found


_DECODER = json.JSONDecoder(
    parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_once, strict=False
)
_WORD = r"(?:\w+:)?(?:think(?:ing)?|thoughts?|reasoning|reflection|analysis|scratchpad)"
_OPENS = rf"<{_WORD}>|\[think(?:ing)?\]|◁{_WORD}▷|<\|(?:start|begin)(?:_of)?_{_WORD}\|>"
_ENDS = rf"</{_WORD}>|\[/think(?:ing)?\]|◁/{_WORD}▷|<\|end(?:_of)?_{_WORD}\|>"
_CHANNEL = r"<\|?channel\|?>\s*(?:analysis|commentary|thought)\b"
_MARK = re.compile(
    rf'(?P<opens>{_OPENS})|(?P<ends>{_ENDS})|(?P<channel>{_CHANNEL})|\{{\s*(?:"|\Z)', re.IGNORECASE
)
"""Where a thought or an object begins: Qwen, Claude, Seed, Mistral, Kimi, Cohere and others; gpt-oss has channels."""
_END = re.compile(_ENDS, re.IGNORECASE)
_TURN = re.compile(r"<\|?(?:end|start|channel|return|call)\|?>", re.IGNORECASE)


def object_in(text: str) -> dict[str, Json]:
    """The JSON object that a model's answer consists of or contains; AnswerError where there is not one."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return _search(text)
    if isinstance(value, str):  # JSON inside a JSON string
        return _search(value)
    if isinstance(value, list) and value:  # of one object: no other thing than in a fence
        return _search(text)
    if not isinstance(value, dict):
        raise AnswerError(f"the answer must be one JSON object, not a {type(value).__name__}")
    return _shallow(value)


def fitted(payload: Json, schema: Mapping[str, Json]) -> Json:
    """The payload without what its schema does not name."""
    if isinstance(payload, dict) and "properties" in schema:
        parts: Mapping[str, Json] = schema["properties"]
        return {name: fitted(payload[name], part) for name, part in parts.items() if name in payload}
    if isinstance(payload, list) and "items" in schema:
        return [fitted(item, schema["items"]) for item in payload]
    return payload


def _shallow(value: dict[str, Json]) -> dict[str, Json]:
    if _deep(value, DEEPEST):
        raise AnswerError(f"the answer is nested more than {DEEPEST} deep")
    return value


def _deep(value: Json, left: int) -> bool:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return left < 0 or any(_deep(item, left - 1) for item in inside)


def _search(text: str) -> dict[str, Json]:
    """The one object outside of thoughts. What looks like the mark of a thought inside an object's strings is none."""
    found: list[dict[str, Json]] = []
    position, cut = 0, False
    while (mark := _MARK.search(text, position)) is not None:
        position = mark.end()
        if mark["ends"]:  # the prompt's template began this thought
            found, cut = [], False
        elif mark["opens"]:
            position = _after(_END, text, position).end()
        elif mark["channel"]:
            position = _after(_TURN, text, position).start()
        else:
            try:
                value, position = _DECODER.raw_decode(text, mark.start())
            except (ValueError, RecursionError):
                cut, end = True, _END.search(text, position)
                position = end.start() if end else len(text)
                continue
            if _shallow(value) not in found:
                found.append(value)
    return _only(found, cut=cut)


def _after(end: re.Pattern[str], text: str, position: int) -> re.Match[str]:
    if (found := end.search(text, position)) is None:
        raise AnswerError("the answer is a thought without an end")
    return found


def _only(found: list[dict[str, Json]], *, cut: bool) -> dict[str, Json]:
    if len(found) == 1 and not cut:
        return found[0]
    if cut:
        raise AnswerError("the answer is no valid JSON: an object begins, but is broken or cut off")
    if found:
        raise AnswerError(f"the answer holds {len(found)} different JSON objects where one was asked for")
    raise AnswerError("the answer holds no JSON object")
