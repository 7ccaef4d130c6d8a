"""Decide what to do after a response of a model endpoint: accept, retry, wait, change the request, or stop.

`next_action` contains the table of rules. The regular expressions above it match the error messages of
OpenAI, Azure, Anthropic, Google, OpenRouter, vLLM, llama.cpp and Ollama, and of other servers with the same
wording. `RetryPolicy` contains the timeouts, attempts and waits.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from email.utils import parsedate_to_datetime
from time import time
from typing import Literal, NamedTuple, TypeAlias

from germane.encoding import decode
from germane.errors import InputError
from germane.types import FrozenDict, Json

__all__ = ["TransportError", "message_of"]


def check_number(name: str, value: object, *, least: float | None = None, whole: bool = False) -> None:
    """Raise InputError unless a setting is a finite number of at least `least` (above 0 if `least` is None).

    With `whole`, it must be a whole number. `name` is the setting's name in the message.
    """
    number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not number or not (value > 0 if least is None else least <= value) or value == math.inf:  # type: ignore[operator]
        limit = "above 0" if least is None else f"from {least:g}"
        raise InputError(f"invalid {name}={value!r}", fix=f"write a {'whole ' * whole}number {limit}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The client's timeouts, waits and attempts. Times are in seconds, counts are whole numbers from 1.

    After a 429, 503 or 529, the client waits and uses up no attempt. A timeout, a broken connection or a 5xx
    uses up one of `attempts`. Unusable answers are counted separately, up to the same number. The `deadline`
    limits the time of one call: its requests and the waits between them, but not the wait for rate limits. If
    a Retry-After is longer than the deadline, the run ends. Raises InputError if a time is not above 0 or a
    count is not a whole number from 1.
    """

    connect: float = 10.0  # time to open a connection
    read: float = 120.0  # time for one whole answer
    deadline: float = 600.0  # time for one call
    attempts: int = 3  # maximum failed requests, and maximum unusable answers, per question
    backoff: float = 0.5  # the n-th wait is a random time up to backoff * 2**n (full jitter)
    longest: float = 60.0  # the longest such wait
    circuit_failures: int = 10  # number of failures in a row, over all calls, that open the circuit breaker
    outage: float = 30.0  # time for which the client keeps trying after the circuit breaker has opened

    def __post_init__(self) -> None:
        """Raise InputError if a value is invalid; without time or attempts, every question would fail."""
        for field in fields(self):
            count = field.name in {"attempts", "circuit_failures"}
            check_number(field.name, getattr(self, field.name), least=1 if count else None, whole=count)

    def wait(self, asked: float | None, failures: int) -> float:
        """Return how many seconds to wait before a request that failed `failures` times is sent again.

        If the server asked for `asked` seconds, wait that long plus a random time of up to 10% (at most 1 s),
        so that not all waiting requests return at once; from the second such request on, wait at least the
        backoff. If `asked` is None, return the backoff, which is exponential with full jitter.
        """
        backoff = random.uniform(0, min(self.longest, self.backoff * 2.0 ** min(failures, 99)))  # noqa: S311 - no secret
        if asked is None:
            return backoff
        seconds = asked + random.uniform(0, min(1.0, asked / 10))  # noqa: S311 - no secret
        return max(seconds, backoff) if failures > 1 else seconds


_IN_WORDS = re.compile(
    r"(?:retrydelay\W{1,8}|(?:retry|try again) (?:in|after) )(?:(\d+)h)?(?:(\d+)m)?(\d+(?:\.\d+)?)\s?(ms|s(?:econds?)?)\b",
    re.IGNORECASE,
)
"""The waiting time in the body of a response: Google's `retryDelay`, or "Please try again in 7m26.4s"."""


def retry_after(headers: Mapping[str, str], body: str = "") -> float | None:
    """Return how many seconds a response asks the client to wait; None if it names no time.

    The first of these is used: the header `retry-after-ms`, the header `retry-after` (seconds or a date), the
    longest time in the body. A negative time and a past date are ignored.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(ValueError):
            if 0 <= (number := float(headers.get(name) or "")) < math.inf:
                return number * unit
    with suppress(ValueError):
        if (seconds := parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time()) > 0:
            return seconds
    times = (
        (int(hours or 0) * 3600 + int(minutes or 0) * 60) + float(number) * (0.001 if unit == "ms" else 1.0)
        for hours, minutes, number, unit in _IN_WORDS.findall(body)
    )
    return max(times, default=None)


class TransportError(Exception):
    """Raised if a request got no complete response: no connection, or a broken or too long body."""


UNKNOWN = 200  # the status of a body that is neither an answer nor an error that can be recognized

_TAG = re.compile(r"<(?:script|style).*?</(?:script|style)>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_WORDS_OF_ERRORS = "error errors message detail msg loc code param metadata raw cause innererror"
"""Fields in which servers put error messages; OpenRouter puts the provider's message into `metadata.raw`."""


def message_of(raw: bytes, status: int = 400, headers: Mapping[str, str] | None = None) -> str:
    """Return the error message in the body `raw`, as one line, with advice if the base URL seems wrong."""
    if 300 <= status < 400 and (location := (headers or {}).get("location")):
        return f"the server redirects to {location[:300]}; write that address as the base URL"
    text = raw[:4000].decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        first, *more = dict.fromkeys(_words(json.loads(raw)))
        text = f"{first} ({', '.join(more)})" if more else first
    text = " ".join(_TAG.sub(" ", text).split() if text.startswith("<") else text.split())
    text = "".join(c if c.isprintable() else " " for c in text[:500])
    if status in {404, 405} and not (_NO_MODEL.search(text.lower()) or _UNSUPPORTED.search(text.lower())):
        hint = "is there such a model, and is that the whole base URL? Most end in /v1"
        return f"{text[:80] or 'not found'}; {hint}"
    return text or "the server gave no reason"


def _unreadable(raw: bytes, *, worked: bool) -> str:
    """Return why the body `raw` of a 2xx response, which is not a JSON object, is no answer."""
    if raw.lstrip()[:1] != b"<":
        return f"the body of the response is cut short or not a JSON object: {message_of(raw)[:80]}"
    # the page of a proxy or, if the endpoint has never answered, perhaps of a website at a wrong base URL
    hint = "" if worked else "; is that the whole base URL? Most end in /v1"
    return f"the body of the response is not JSON, but a web page: {message_of(raw.lstrip())[:80]}{hint}"


def _words(error: Json) -> Iterator[str]:
    if isinstance(error, list):
        for inner in error:
            yield from _words(inner)
    elif isinstance(error, dict):
        for name in _WORDS_OF_ERRORS.split():
            yield from _words(error.get(name))
    elif error and not isinstance(error, bool):
        yield str(error)


_TOO_LONG = re.compile(
    r"context[ _](?:length|window|size|limit)|maximum context|exceed_context|exceeds n_ctx|too long|input token count"
    r"|maximum (?:prompt length|model length|allowed number of input tokens)|reduce the length"
    r"|(?:request|prompt|input)s?[ _](?:is )?too[ _]large|string_above_max_length|input length|input tokens exceed"
)
_BROKE = re.compile(
    r"insufficient_quota|insufficient (?:balance|credits)|credit balance is too low|used all available credits"
    r"|monthly spend(?:ing)? limit|billing hard limit|budget has been exceeded!|exceededbudget"
    r"|key limit exceeded \((?:total|daily|weekly|monthly)"
)
"""The account or key has no credit left, or reached a limit on its costs, which no wait within a run ends."""
_QUOTA = "exceeded your current quota"
_FOR_NOW = re.compile(r"retry in|per ?minute|retry ?delay")
_FOR_GOOD = re.compile(r"per ?day|limit: 0(?![.\d])")
_KEY = re.compile(
    r"(?:invalid|incorrect|expired|missing|no)[ _](?:x-)?api[ _-]?key|api[ _-]key (?:not|expired|is (?:invalid|missing))"
    r"|no auth credentials"
)
_NO_MODEL = re.compile(
    r"\bmodels?\b\S*(?:\s+\S+){0,4}?\s+(?:does not exist|(?:is |was )?not found)|model_not_found|not a valid model|invalid model\b"
)
_UNSUPPORTED = re.compile(
    r"support\w*\b.{0,60}(?:tool|function|json|schema|structured|response.format)|requested parameters|response_format"
)
"""OpenRouter's message, with status 404, if no model supports a feature of the request."""

_REFUSED = re.compile(
    r"un(?:supported|recogni[sz]ed|known)[ _](?:value|param|argument|field|key|request|response|schema|tool)"
    r"|not (?:supported|permitted|allowed|implemented)|(?:does not|doesn't|cannot) support|extra inputs|requires --|may only be|deprecated"
    r"|(?:failed|unable) to \w+ .{0,20}(?:grammar|schema|format\b)|invalid[ _](?:json[ _])?(?:schema|grammar|format\b)"
)
_PARAMETER = re.compile(
    r"temperature|max_(?:completion_)?tokens|top_p|seed|format\b|schema|structured|guided|grammar|tool|function|reasoning"
    r"|thinking|system (?:role|message)|parameter"
)


# a content filter of the provider refused the texts
FILTERED = re.compile("content_filter|content management policy|moderation|flagged", re.IGNORECASE)
UNFIT = re.compile("json_validate_failed|tool_use_failed", re.IGNORECASE)
"""The server discarded an answer that did not match the schema (Groq's words, also through OpenRouter)."""
UNFINISHED = re.compile("try again with higher max_tokens|output limit was reached", re.IGNORECASE)
"""The answer was longer than the token limit, so that the server returned nothing of it (OpenAI)."""

_LENGTH = re.compile(r"max_(?:completion_|output_)?tokens|(?:completion|output) tokens|in the completion")
_OVER = re.compile(r"too (?:large|big|high)|at most|less than|maximum|exceed|greater than|>|up to")


def is_over_limit(text: str) -> bool:
    """Return True if an error message says that the requested token limit of the answer is too high."""
    low = text.lower()
    return _LENGTH.search(low) is not None and _OVER.search(low) is not None


Action: TypeAlias = Literal[
    "take", "retry", "wait", "more room", "too long", "filtered", "ask again", "change", "stop"
]
"""The client's next step after a request: `take` the answer, `change` the request, or see `next_action`."""


def next_action(status: int, text: str, body: str, *, worked: bool) -> Action:
    """Return what to do after a response without an answer: the action of the first rule that applies.

    `text` is the error message, and `body` is the beginning of the response's body. `worked` is True if the
    endpoint has answered before.
    """
    low, busy = text.lower(), status in {429, 503, 529}
    # Google's message for a used-up quota per minute is the same as OpenAI's for an empty account, so the
    # whole body is searched; a quota per minute recovers, a quota per day or of 0 does not do so soon enough
    whole = (body or text).lower()
    spent = _QUOTA in low and (_FOR_GOOD.search(whole) is not None or not _FOR_NOW.search(whole))
    poor = _BROKE.search(low) or spent
    # a parameter or schema was refused with a status of 500 or more; sending it again would not help
    refused = status >= 500 and ((_REFUSED.search(low) and _PARAMETER.search(low)) or UNFIT.search(low))
    long = status == 413 or (status not in {401, 402, 403, 404} and _TOO_LONG.search(low))
    forbidden = status == 403 and not FILTERED.search(low)
    missing = _NO_MODEL.search(low) or (status == 404 and not _UNSUPPORTED.search(low))
    rules: tuple[tuple[Action, object], ...] = (
        # the texts are longer than the model accepts (for a 429: than the limit per minute): send less
        ("too long", ("request too large" in low if busy else long) and not UNFINISHED.search(text)),
        # the endpoint asks to wait: send the request again after that time, without using up an attempt
        ("wait", busy and not refused and not poor),
        # this endpoint will answer no request: there is no credit, no valid key or no such path
        ("stop", not refused and (poor or status in {401, 402} or _KEY.search(low))),
        ("stop", status == 405 or 300 <= status < 400),
        # if the endpoint has worked before, the fault may be temporary or concern only one text
        ("stop", not worked and not refused and (forbidden if status == 403 else missing)),
        # the request failed in transit: send it again, which uses up an attempt
        ("retry", not refused and (status >= 500 or status in {UNKNOWN, 408, 409, 425})),
        # the answer was longer than the token limit, and the server returned nothing of it
        ("more room", UNFINISHED.search(text)),
        # a content filter of the provider refused the texts: this question gets no answer
        ("filtered", FILTERED.search(text)),
        # the endpoint discarded an answer that did not match the schema
        ("ask again", UNFIT.search(text)),
    )
    return next((action for action, applies in rules if applies), "change")


class RetryDecision(NamedTuple):
    """The client's next step after a request, with the details of the response that led to it."""

    action: Action
    text: str = ""  # the endpoint's error message, or the failure in transit
    status: int = 0  # the HTTP status; 0 if there was no response
    seconds: float | None = None  # the time that the endpoint asks to wait
    body: Mapping[str, Json] = FrozenDict()

    @property
    def why(self) -> str:
        """The reason for the step: the error message, after the HTTP status if there was a response."""
        return f"HTTP {self.status}: {self.text}" if self.status else self.text


def decide(status: int, headers: Mapping[str, str], raw: bytes, *, worked: bool) -> RetryDecision:
    """Return what to do after a response with the body `raw`; `worked`: the endpoint has answered before.

    The body of a 2xx response may contain an error instead of an answer: next to the choices, in the first
    choice (OpenRouter), or alone. Its status is the code in the error if that is 4xx or 5xx, else 500; UNKNOWN
    if the body contains neither choices nor an error.
    """
    result: Json = None
    if sent_as_success := 200 <= status < 300:
        with suppress(ValueError, RecursionError):
            result = decode(raw)
        if not isinstance(result, dict):
            return RetryDecision("retry", _unreadable(raw, worked=worked))
        choices = result.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        if error := result.get("error") or (isinstance(first, dict) and first.get("error")):
            code = str(error.get("code")) if isinstance(error, dict) else ""
            status, raw = (
                int(code) if re.fullmatch(r"[45][0-9]{2}", code) else 500,
                json.dumps(error).encode(),
            )
        elif isinstance(choices, list) or result.get("object") == "chat.completion":
            return RetryDecision("take", body=result)
        else:
            status, raw = UNKNOWN, json.dumps(result).encode()
    text = message_of(raw, status, headers) + (", sent as a success" if sent_as_success else "")
    body = raw[:8000].decode("utf-8", "replace")
    action = next_action(status, text, body, worked=worked)
    seconds = retry_after(headers, body) if action == "wait" else None
    return RetryDecision(action, text, status, seconds, result or FrozenDict())
