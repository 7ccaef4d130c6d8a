"""Decide what follows from a model endpoint's response: accept, retry, wait, change the request, stop.

`next_action` holds the table of rules. The regular expressions above it match the error messages of OpenAI,
Azure, Anthropic, Google, OpenRouter, vLLM, llama.cpp and Ollama, and of other servers with the same wording.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Literal, NamedTuple, TypeAlias

from germane.encoding import decode
from germane.judges.client.retry import retry_after
from germane.types import FrozenDict, Json

__all__ = ["TransportError", "message_of"]


class TransportError(Exception):
    """Raised if a request got no complete response: no connection, or a broken or oversized body."""


UNKNOWN = 200  # the status of a body that is neither an answer nor an error that can be recognized

_TAG = re.compile(r"<(?:script|style).*?</(?:script|style)>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_WORDS_OF_ERRORS = (
    "error",
    "errors",
    "message",
    "detail",
    "code",
    "param",
    "metadata",
    "raw",
    "cause",
    "innererror",
)
"""Names under which servers put the words of an error; OpenRouter has the provider's own in `metadata.raw`."""


def message_of(raw: bytes, status: int = 400, headers: Mapping[str, str] | None = None) -> str:
    """Return the error message in a response's body, on one line, with advice if the base URL seems wrong."""
    if 300 <= status < 400 and (location := (headers or {}).get("location")):
        return f"the server redirects to {location[:300]}; write that address as the base URL"
    text = raw[:4000].decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        first, *more = dict.fromkeys(_words(json.loads(raw)))
        text = f"{first} ({', '.join(more)})" if more else first
    text = " ".join(_TAG.sub(" ", text).split() if text.startswith("<") else text.split())
    text = "".join(c if c.isprintable() else " " for c in text[:500])
    if status in {404, 405} and not (_NO_MODEL.search(text.lower()) or _UNSUPPORTED.search(text.lower())):
        return f"{text[:80] or 'not found'}; is that the whole base URL? Most end in /v1"
    return text or "the server gave no reason"


def _words(error: Json) -> Iterator[str]:
    """Yield the messages, codes and parameter names in an error's JSON, wherever the server puts them."""
    if isinstance(error, list):
        for inner in error:
            yield from _words(inner)
    elif isinstance(error, dict):
        for name in _WORDS_OF_ERRORS:
            yield from _words(error.get(name))
    elif error and not isinstance(error, bool):
        yield str(error)


def failure_in(body: Mapping[str, Json]) -> tuple[int, Json] | None:
    """Return the error in the body of a 2xx response with the status it should have had, or None.

    The error is beside the choices, in the first choice (OpenRouter), or alone. The status is the error's own
    number, or else 500. A body with neither choices nor an error is returned itself, with UNKNOWN.
    """
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if error := body.get("error") or (isinstance(first, dict) and first.get("error")):
        code = str(error.get("code")) if isinstance(error, dict) else ""
        return int(code) if re.fullmatch(r"[45][0-9]{2}", code) else 500, error
    if isinstance(choices, list) or body.get("object") == "chat.completion":
        return None
    return UNKNOWN, body


_TOO_LONG = re.compile(
    r"context[ _](?:length|window|size|limit)|maximum context|exceed_context|exceeds n_ctx|too long|input token count"
    r"|maximum (?:prompt length|model length|allowed number of input tokens)|reduce the length"
    r"|(?:request|prompt|input)s?[ _](?:is )?too[ _]large|string_above_max_length|input length|input tokens exceed"
)
_BROKE = re.compile("insufficient_quota|insufficient (?:balance|credits)|credit balance is too low")
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
"""OpenRouter's 404 where no model supports what the request asks for."""

_REFUSED = re.compile(
    r"un(?:supported|recogni[sz]ed|known)[ _](?:value|param|argument|field|key|request|response|schema|tool)"
    r"|not (?:supported|permitted|allowed|implemented)|(?:does not|doesn't|cannot) support|extra inputs|requires --|may only be|deprecated"
    r"|(?:failed|unable) to \w+ .{0,20}(?:grammar|schema|format\b)|invalid[ _](?:json[ _])?(?:schema|grammar|format\b)"
)
_PARAMETER = re.compile(
    r"temperature|max_(?:completion_)?tokens|top_p|seed|format\b|schema|structured|guided|grammar|tool|function|reasoning"
    r"|thinking|system (?:role|message)|parameter"
)


def is_out_of_money(text: str, body: str = "") -> bool:
    """Return True if an error says that the account has no credit left, so that waiting cannot help.

    A quota per minute recovers, but Google words it as OpenAI words an empty account: the whole `body` tells
    them apart. A quota per day, or of 0, does not recover soon enough.
    """
    low, body = text.lower(), (body or text).lower()
    if _BROKE.search(low):
        return True
    return _QUOTA in low and (_FOR_GOOD.search(body) is not None or not _FOR_NOW.search(body))


# a content filter of the provider refused the texts
FILTERED = re.compile("content_filter|content management policy|moderation|flagged", re.IGNORECASE)
UNFIT = re.compile("json_validate_failed|tool_use_failed", re.IGNORECASE)
"""The server threw an answer away that did not match the schema (Groq's words, by way of OpenRouter)."""
UNFINISHED = re.compile("try again with higher max_tokens|output limit was reached", re.IGNORECASE)
"""The answer was longer than its limit, and nothing of it came back (OpenAI)."""

_LENGTH = re.compile(r"max_(?:completion_|output_)?tokens|(?:completion|output) tokens|in the completion")
_OVER = re.compile(r"too (?:large|big|high)|at most|less than|maximum|exceed|greater than|>|up to")


def is_over_limit(text: str) -> bool:
    """Return True if an error message says that the requested token limit of the answer is too high."""
    low = text.lower()
    return _LENGTH.search(low) is not None and _OVER.search(low) is not None


Action: TypeAlias = Literal[
    "take", "retry", "wait", "more room", "too long", "filtered", "ask again", "change", "stop"
]
"""The client's next step after a request: `take` its answer, `change` its form, or what `next_action` says."""


def next_action(status: int, text: str, body: str, *, worked: bool) -> Action:
    """Return what to do after a response without an answer: the action of the first rule that applies.

    `text` is the error message, `body` the beginning of the whole body; `worked` is True if the endpoint
    has answered before.
    """
    low, busy = text.lower(), status in {429, 503, 529}
    poor = is_out_of_money(text, body)
    # the refusal of a parameter or schema with the status of a fault, which no repetition mends
    refused = status >= 500 and ((_REFUSED.search(low) and _PARAMETER.search(low)) or UNFIT.search(low))
    long = status == 413 or (status not in {401, 402, 403, 404} and _TOO_LONG.search(low))
    forbidden = status == 403 and not FILTERED.search(low)
    missing = _NO_MODEL.search(low) or (status == 404 and not _UNSUPPORTED.search(low))
    rules: tuple[tuple[Action, object], ...] = (
        # the texts are more than the model takes at once (of a 429: than the limit per minute): ask about less
        ("too long", ("request too large" in low if busy else long) and not UNFINISHED.search(text)),
        # send it again when the endpoint asks to, which costs no attempt
        ("wait", busy and not refused and not poor),
        # no request to this endpoint will be answered: no money, no key, no such path
        ("stop", not refused and (poor or status in {401, 402} or _KEY.search(low))),
        ("stop", status == 405 or 300 <= status < 400),
        # of an endpoint that has worked this may be a hiccup, or about one text
        ("stop", not worked and not refused and (forbidden if status == 403 else missing)),
        # it failed on the way: send it again, which costs an attempt
        ("retry", not refused and (status >= 500 or status in {UNKNOWN, 408, 409, 425})),
        # the answer did not fit into its limit, and nothing of it came back
        ("more room", UNFINISHED.search(text)),
        # a content filter of the provider refused the texts: this question gets no answer
        ("filtered", FILTERED.search(text)),
        # the endpoint threw an answer away that did not match the schema
        ("ask again", UNFIT.search(text)),
    )
    return next((action for action, applies in rules if applies), "change")


class RetryDecision(NamedTuple):
    """The client's next step after a request, with the response that it follows from."""

    action: Action
    text: str = ""  # the endpoint's error message, or the failure in transit
    status: int = 0  # 0 if there was no response
    seconds: float | None = None  # of Retry-After
    body: Mapping[str, Json] = FrozenDict()

    @property
    def why(self) -> str:
        """The reason for the step: the error message, after the HTTP status if there was a response."""
        return f"HTTP {self.status}: {self.text}" if self.status else self.text


def decide(status: int, headers: Mapping[str, str], raw: bytes, *, worked: bool) -> RetryDecision:
    """Return what to do after a response; `worked` is True if the endpoint has answered before."""
    result: Json = None
    if sent_as_success := 200 <= status < 300:
        with suppress(ValueError, RecursionError):
            result = decode(raw)
        if not isinstance(result, dict):
            return RetryDecision("retry", "the body of the response is cut short or is not JSON")
        if (failed := failure_in(result)) is None:
            return RetryDecision("take", body=result)
        status, raw = failed[0], json.dumps(failed[1]).encode()
    text = message_of(raw, status, headers) + (", sent as a success" if sent_as_success else "")
    body = raw[:8000].decode("utf-8", "replace")
    action = next_action(status, text, body, worked=worked)
    seconds = retry_after(headers, body) if action == "wait" else None
    return RetryDecision(action, text, status, seconds, result or FrozenDict())
