"""The one JSON object in what a model wrote: fences, thoughts and prose around it are passed over.

Nothing is guessed: an object that is cut off, two different objects, or none is an AnswerError whose text
can be sent back to the model.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

from germane.errors import AnswerError
from germane.types import Json

__all__ = ["object_in"]


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_THOUGHT = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL)
_KEY = re.compile(r'\{\s*(?:"|\Z)')


def object_in(text: str) -> dict[str, Json]:
    """The JSON object that a model's answer consists of or contains; AnswerError where there is not one."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return _search(text)
    if isinstance(value, dict):
        return value
    if isinstance(value, str):  # JSON inside a JSON string
        return _search(value)
    raise AnswerError(f"the answer must be one JSON object, not a {type(value).__name__}")


def _search(text: str) -> dict[str, Json]:
    text = _THOUGHT.sub("", text)
    found: list[dict[str, Json]] = []
    position, cut = 0, False
    while (match := _KEY.search(text, position)) is not None:
        try:
            value, position = _DECODER.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            cut, position = True, match.start() + 1
            if not found:
                break
            continue
        if value not in found:
            found.append(value)
    return _only(found, cut=cut)


def _only(found: list[dict[str, Json]], *, cut: bool) -> dict[str, Json]:
    if len(found) == 1 and not cut:
        return found[0]
    if cut:
        raise AnswerError("the answer is no valid JSON: an object begins, but is broken or cut off")
    if found:
        raise AnswerError(f"the answer holds {len(found)} different JSON objects where one was asked for")
    raise AnswerError("the answer holds no JSON object")
