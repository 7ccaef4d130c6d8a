"""What the body of a response says went wrong, also where the server calls it a success."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress

from germane.types import Json

__all__ = ["UNKNOWN", "failure_in", "said"]

UNKNOWN = 200
"""The status of a body that is no answer and does not say what it is instead."""

_NOWHERE = re.compile(
    r"(?:404:? )?(?:page |file )?not found(?: \(\w+\))?|method not allowed|(?:invalid url|unexpected endpoint).*|<.*|",
    re.IGNORECASE,
)
_TAG = re.compile(r"<(?:script|style).*?</(?:script|style)>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_INSIDE = ("error", "errors", "base_resp")
_MESSAGE = ("message", "detail", "status_msg", "msg")
_NUMBER = ("code", "status", "status_code")
_ERROR = re.compile(r"[45][0-9]{2}")
_MEANS = (
    (429, re.compile(r"rate.?limit|too many requests|resource.?exhausted|throttl|overloaded", re.IGNORECASE)),
    (401, re.compile(r"unauthori[sz]ed|unauthenticated|authentication", re.IGNORECASE)),
    (404, re.compile(rf"\A(?=.)(?:{_NOWHERE.pattern})\Z", re.IGNORECASE)),
)
"""What an error without a number means by its words."""


def said(raw: bytes, status: int = 400, headers: Mapping[str, str] | None = None) -> str:
    """The message in an error's body, on one line, and what to do about it where the base URL is wrong."""
    if 300 <= status < 400 and (location := (headers or {}).get("location")):
        return f"the server points to {location[:300]}; give the base URL that leads there"
    text = _message(raw)
    nobody = status in {404, 405} and _NOWHERE.fullmatch(text) is not None
    text = " ".join(_TAG.sub(" ", text).split()) if text.startswith("<") else text
    if nobody:
        return f"{text[:80] or 'not found'}; is that the whole base URL? Most end in /v1"
    return text or "no reason given"


def failure_in(body: Mapping[str, Json]) -> tuple[int, Json] | None:
    """The error in a body that came with success, and the status that it should have had; None where there is none.

    It stands beside the choices, in the first of them (OpenRouter), or it is all that there is. The status is its own
    number or what its words mean, else 500; UNKNOWN where nothing says that it is an error. A completion without
    choices is an empty answer.
    """
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if error := body.get("error") or (isinstance(first, dict) and first.get("error")):
        return _status(error) or 500, error
    if isinstance(choices, list) or body.get("object") == "chat.completion":
        return None
    return _status(body) or UNKNOWN, body


def _status(error: Json) -> int | None:
    inner, text = _inner(error), _text(error)
    codes = [inner.get(name) for name in _NUMBER] if isinstance(inner, dict) else []
    numbers = (int(code) for code in map(str, codes) if _ERROR.fullmatch(code))
    means = (status for status, words in _MEANS if words.search(text))
    return next(numbers, None) or next(means, None)


def _message(raw: bytes) -> str:
    text = raw[:4000].decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        text = _text(json.loads(raw), text)
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split())[:500])


def _text(error: Json, raw: str = "") -> str:
    """The words of an error and, where it has one, its code."""
    inner = _inner(error)
    if not isinstance(inner, dict):
        return str(inner)
    text = str(next((inner[name] for name in _MESSAGE if inner.get(name)), raw))
    code = inner.get("code") or inner.get("type")
    return f"{text} ({code})" if code else text


def _inner(error: Json) -> Json:
    """Where the words stand: Google lists one error, Cloudflare several, MiniMax has its own name for it."""
    if isinstance(error, list) and error:
        return _inner(error[0])
    inside = (error.get(name) for name in _INSIDE) if isinstance(error, dict) else ()
    found = next((one for one in inside if one and isinstance(one, (str, list, dict))), None)
    return error if found is None else _inner(found)
