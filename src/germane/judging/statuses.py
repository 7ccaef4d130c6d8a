"""What an endpoint's response says besides an answer: an error's message, how long to wait, whether to give up."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from time import time

from germane.types import Json

__all__ = ["broke", "retry_after", "said", "status_in", "too_long", "useless"]


_TOO_LONG = re.compile(
    r"context[ _](?:length|window|size)|maximum context|exceed_context|too long|too many (?:input )?tokens"
    r"|input token count|maximum (?:number of tokens|prompt length|model length|allowed number of input tokens)"
    r"|reduce the length|(?:request|prompt|message|input|content)s?[ _](?:is |are )?too[ _]large|input length"
    r"|max_new_tokens|string_above_max_length|configured limit of \d+ tokens|tokens? limit exceeded"
)
"""How servers say it: OpenAI, Azure, vLLM, SGLang, TGI, llama.cpp, Ollama, LM Studio, Anthropic, Gemini, Bedrock, ..."""


def said(raw: bytes) -> str:
    """The message in an error's body, on one line."""
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
    return (
        "insufficient_quota" in low or "exceeded your current quota" in low or "insufficient balance" in low
    )


def too_long(status: int, said: str) -> bool:
    """Whether the texts are more than the model takes at once; asked to wait, only a request beyond the limit is."""
    low = said.lower()
    if status in {429, 503, 529}:
        return "request too large" in low
    return status not in {401, 402, 403, 404} and (status == 413 or _TOO_LONG.search(low) is not None)


def useless(status: int, said: str) -> bool:
    """Whether no other request can fare better: no key, no money, no such model or path."""
    low = said.lower()
    if "api key not valid" in low or "invalid api key" in low:
        return True
    if status == 403:
        return not ("moderation" in low or "flagged" in low)
    if status == 404:
        return not any(
            word in low for word in ("response_format", "schema", "structured", "tool", "parameters")
        )
    return status in {401, 402, 429} or "model_not_found" in low


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
