"""What may be given to the model server and to its acts: a mistake in a test is said there, not found on the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import TypeAlias

from germane.errors import InputError

__all__ = ["check"]

Allowed: TypeAlias = tuple[Callable[[object], bool], str]
"""Whether a value is one of these, and what they are called."""


def _seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < inf


def _header(name: object, value: object) -> bool:
    plain = isinstance(name, str) and isinstance(value, str | int | float)
    return plain and not isinstance(value, bool) and not {"\r", "\n"} & {*f"{name}{value}"}


def _headers(value: object) -> bool:
    return isinstance(value, Mapping) and all(_header(*pair) for pair in value.items())


_TEXT: Allowed = (lambda value: isinstance(value, str), "a text")
_SWITCH: Allowed = (lambda value: isinstance(value, bool), "True or False")
_ALLOWED: Mapping[str, Allowed] = {
    "script": (
        lambda value: (
            callable(value) or (isinstance(value, Iterable) and not isinstance(value, str | Mapping))
        ),
        "[Act(...)] for the first request, or lambda asked: Act(...) for every one",
    ),
    "answer": (
        lambda value: callable(value) or isinstance(value, Mapping),
        'a function, or a dict of answers by kind of question, {"relevance": {"grade": 3}}',
    ),
    "status": (lambda value: type(value) is int and 200 <= value <= 599, "a whole number from 200 to 599"),
    "headers": (_headers, 'a dict of texts or numbers by name, {"retry-after": "1"}'),
    "error": _TEXT,
    "finish": _TEXT,
    "text": (lambda value: value is None or isinstance(value, str), "a text; json.dumps(...) makes one"),
    "refusal": (lambda value: value is None or isinstance(value, str), "a text"),
    "change": (lambda value: value is None or callable(value), "a function from the answer to another one"),
    "body": (
        lambda value: value is None or isinstance(value, str | bytes),
        "a text or bytes; json.dumps(...) makes one",
    ),
    "latency": (lambda value: value is None or _seconds(value), "seconds: a number from 0"),
    "drip": (_seconds, "seconds: a number from 0"),
    "usage": (
        lambda value: isinstance(value, bool | Mapping),
        'True, False, or a dict of counts, {"prompt_tokens": 9000}',
    ),
    "port": (lambda value: type(value) is int and 0 <= value <= 65535, "a whole number from 0 to 65535"),
    "limit_name": (
        lambda value: value in ("", "max_tokens", "max_completion_tokens"),
        '"max_tokens", "max_completion_tokens" or "" for both',
    ),
    **dict.fromkeys(
        ("hang", "reset", "truncate", "cut", "schema", "tools", "temperature", "system", "keep"), _SWITCH
    ),
}


def check(call: str, **given: object) -> None:
    """InputError where one of the arguments of a call is not what it can be; it says what to write."""
    for name, value in given.items():
        fits, what = _ALLOWED[name]
        if not fits(value):
            raise InputError(f"{call}({name}={value!r}) is not possible", fix=f"write {what}")
