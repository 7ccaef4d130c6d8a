"""What the scripted model server may do about a request."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias
from zlib import crc32

from germane.errors import InputError
from germane.testing.asked import Asked
from germane.types import Json

__all__ = ["FINE", "Act", "check", "storm"]

_ANSWERS = ("body", "text", "change", "refusal")

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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Act:
    """What the server does with one request; without any argument it answers as it should.

    Attributes:
        status, headers, error: The HTTP status from 200 to 599, and what an error's body says.
        text: The model's answer, word for word, instead of the rule's.
        change: Changes the rule's answer before it is written down.
        body: The whole body of the response, whatever the status.
        finish, refusal: The finish reason; what the model says where it refuses.
        latency: Seconds until the answer, instead of the server's own.
        drip: Seconds between the bytes of the response, which then trickles in.
        hang: Never answer.
        reset: Break the connection half way through the answer.
        truncate: Announce all of the body, send half, and close as if that were all.
        cut: Stop the answer half way and say that the token limit was reached (finish reason `length`).
        usage: What the answer says it used: True = a token for four bytes, False = nothing, a dict = these counts
            instead or besides (`{"prompt_tokens": 9000}`).

    Raises:
        InputError: An argument is none of these, or contradicts another.
    """

    status: int = 200
    headers: Mapping[str, str | float] = field(default_factory=dict)
    error: str = ""
    text: str | None = None
    change: Callable[[Json], Json] | None = None
    body: str | bytes | None = None
    finish: str = "stop"
    refusal: str | None = None
    latency: float | None = None
    drip: float = 0.0
    hang: bool = False
    reset: bool = False
    truncate: bool = False
    cut: bool = False
    usage: bool | Mapping[str, Json] = True

    def __post_init__(self) -> None:
        """What would be passed over in silence would leave a test green that tests nothing."""
        check("Act", **{name: getattr(self, name) for name in self.__slots__})
        says = [name for name in _ANSWERS if getattr(self, name) is not None]
        if len(says) > 1:
            raise InputError(f"an Act cannot have both {says[0]} and {says[1]}", fix="give one of them")
        if self.status == 200 and self.error:
            raise InputError("an Act with an error needs a status", fix="write Act(status=500, error=...)")
        if self.status != 200 and says and says != ["body"]:
            raise InputError(
                f"an Act with status {self.status} gives no answer, so it cannot have {says[0]}",
                fix="say what goes wrong by error, or give the whole body",
            )

    def __repr__(self) -> str:
        """As it was written: what was left out is not shown."""
        given = {name: getattr(self, name) for name in self.__slots__}
        shown = (f"{name}={value!r}" for name, value in given.items() if value != getattr(FINE, name))
        return f"Act({', '.join(shown)})"


FINE = Act()
"""An ordinary answer."""


def storm(
    throttled: float = 0.10,
    failing: float = 0.05,
    malformed: float = 0.05,
    hanging: float = 0.02,
    *,
    retry_after: str | float = "1",
    seed: int = 0,
) -> Callable[[Asked], Act | None]:
    """A provider's bad day: shares of 429, 500, malformed answers and hangs, by the content of the request."""
    acts = (
        (throttled, Act(status=429, headers={"retry-after": retry_after}, error="slow down")),
        (failing, Act(status=500, error="something broke")),
        (malformed, Act(text='{"grade": 3, "reas')),
        (hanging, Act(hang=True)),
    )
    seen: dict[int, int] = {}

    def script(asked: Asked) -> Act | None:
        content = crc32(asked.content, seed)
        seen[content] = seen.get(content, 0) + 1
        draw = random.Random(content * 31 + seen[content]).random()  # noqa: S311
        for share, act in acts:
            if draw < share:
                return act
            draw -= share
        return None

    return script
