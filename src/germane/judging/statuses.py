"""What an endpoint's response says besides an answer: an error's message, how long to wait, whether to give up."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from time import time

from germane.types import Json

__all__ = [
    "broke",
    "fewer",
    "filtered",
    "retry_after",
    "said",
    "status_in",
    "too_long",
    "unfinished",
    "unfit",
    "useless",
]


_TOO_LONG = re.compile(
    r"context[ _](?:length|window|size)|maximum context|exceed_context|too long|too many (?:input )?tokens"
    r"|input token count|maximum (?:number of tokens|prompt length|model length|allowed number of input tokens)"
    r"|reduce the length|(?:request|prompt|message|input|content)s?[ _](?:is |are )?too[ _]large|input length"
    r"|max_new_tokens|must have less than \d+ tokens|max(?:imum)? input tokens|input tokens \d+ cannot exceed"
    r"|longer than (?:the )?model|exceeds n_ctx|string_above_max_length|configured limit of \d+ tokens|tokens? limit exceeded"
)
"""How servers say it: OpenAI, Azure, vLLM, SGLang, TGI, llama.cpp, Ollama, LM Studio, Anthropic, Gemini, Bedrock, ..."""


_BROKE = (
    "insufficient_quota",
    "exceeded your current quota",
    "insufficient balance",
    "credit balance is too low",
)
_NOWHERE = re.compile(
    r"(?:404:? )?(?:page |file )?not found(?: \(\w+\))?|method not allowed|invalid url.*|<.*|", re.IGNORECASE
)
_USELESS = (
    *("api key not valid", "invalid api key", "invalid_api_key"),
    *("model_not_found", "invalid model id", "invalid model name"),
)
_NO_MODEL = re.compile(r"\bmodel\b.{0,80}\bdoes not exist")
_TAG = re.compile(r"<(?:script|style).*?</(?:script|style)>|<[^>]*>", re.DOTALL | re.IGNORECASE)


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


def _message(raw: bytes) -> str:
    text = raw[:4000].decode("utf-8", "replace")
    try:
        found = json.loads(raw)
        found = found.get("error", found) if isinstance(found, dict) else found
        text = found.get("message") or found.get("detail") or text if isinstance(found, dict) else str(found)
        code = found.get("code") or found.get("type") if isinstance(found, dict) else None
        text = f"{text} ({code})" if code else str(text)
    except ValueError:
        pass
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split())[:500])


def status_in(error: Json) -> int:
    """The status of an error that came with 200 (as OpenRouter sends them)."""
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 500


def broke(said: str) -> bool:
    """Whether there is no money left, which no waiting mends."""
    low = said.lower()
    return any(words in low for words in _BROKE)


def too_long(status: int, said: str) -> bool:
    """Whether the texts are more than the model takes at once; asked to wait, only a request beyond the limit is."""
    low = said.lower()
    if status in {429, 503, 529}:
        return "request too large" in low
    return status not in {401, 402, 403, 404} and (status == 413 or _TOO_LONG.search(low) is not None)


def useless(status: int, said: str) -> bool:
    """Whether no other request can fare better: no key, no money, no such model or path."""
    low = said.lower()
    if broke(said) or any(words in low for words in _USELESS) or _NO_MODEL.search(low):
        return True
    if status == 403:
        return not ("moderation" in low or "flagged" in low)
    if status == 404:
        return not any(
            word in low for word in ("response_format", "schema", "structured", "tool", "parameters")
        )
    return status in {401, 402, 405, 429} or 300 <= status < 400


_FILTERED = ("content_filter", "content management policy", "content policy", "moderation", "flagged")
_UNFIT = ("json_validate_failed", "tool_use_failed", "failed_generation")
_UNFINISHED = ("try again with higher max_tokens", "output limit was reached")
_ROOM = re.compile(
    r"max_(?:completion_|output_|new_)?tokens|maxoutputtokens|(?:completion|output) tokens|in the completion"
)
_OVER = re.compile(
    r"too (?:large|big|high)|at most|less than|maximum|exceed|greater than|>|supported range|up to"
)
_CONTEXT = re.compile(r"context (?:length|window|size)(?: is| of)? (\d+)")
_PROMPT = re.compile(r"(\d+) (?:input tokens|prompt tokens|in the messages|tokens from the input)")
_NUMBER = re.compile(r"\d[\d,]*")
LEAST = 64
"""Tokens in which no answer fits."""


def filtered(said: str) -> bool:
    """Whether a filter of the provider's refused the texts."""
    low = said.lower()
    return any(words in low for words in _FILTERED)


def unfit(said: str) -> bool:
    """Whether the server itself threw an answer away that did not fit the schema (Groq)."""
    low = said.lower()
    return any(words in low for words in _UNFIT)


def unfinished(said: str) -> bool:
    """Whether the answer was longer than the room it was given, and nothing of it came back (OpenAI)."""
    low = said.lower()
    return any(words in low for words in _UNFINISHED)


def fewer(said: str, asked: int) -> int | None:
    """How many tokens an answer may be asked to have instead of `asked`; None where the error is about another thing."""
    low = said.lower()
    if not (_ROOM.search(low) and _OVER.search(low)):
        return None
    if (whole := _CONTEXT.search(low)) and (prompt := _PROMPT.search(low)):
        left = int(whole[1]) - int(prompt[1])
        return left if LEAST <= left < asked else None
    told = [int(number.replace(",", "")[:9]) for number in _NUMBER.findall(low)]
    left = max((number for number in told if LEAST <= number < asked), default=asked // 2)
    return left if left >= LEAST else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as the response says: milliseconds, seconds, or a date."""
    try:
        if (ms := headers.get("retry-after-ms")) is not None:
            return max(0.0, float(ms) / 1000)
    except ValueError:
        pass
    said = headers.get("retry-after")
    if said is None:
        return None
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(said).timestamp() - time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
