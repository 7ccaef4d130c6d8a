"""What an endpoint's errors mean, whatever status they come with: give up, ask for less, or another matter."""

from __future__ import annotations

import re

__all__ = [
    "broke",
    "fewer",
    "filtered",
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


_BROKE = ("insufficient_quota", "insufficient balance", "credit balance is too low")
_QUOTA = "exceeded your current quota"
_FOR_NOW = re.compile(r"retry in|per ?minute|retry ?delay")
_FOR_GOOD = re.compile(r"per ?day|limit: 0(?![.\d])")
_KEY = re.compile(
    r"(?:invalid|incorrect|wrong|expired|missing|no)[ _](?:x-)?api[ _-]?key"
    r"|api key (?:not (?:valid|found)|(?:is |was )?(?:invalid|expired|missing|required))"
    r"|unauthenticated|no auth credentials|invalid authentication|login fail"
)
_NO_MODEL = re.compile(
    r"\bmodels?\b\S*(?:\s+\S+){0,4}?\s+(?:does not exist|not exist|(?:is |was )?not (?:found|loaded)|could not be found)"
    r"|(?:unknown|no such)[ _]model\b|not a valid model|model_not_found|invalid_model\b|invalid model(?: id| name|:)"
)
_UNSUPPORTED = re.compile(
    r"support\w*\b.{0,60}(?:tool|function|json|schema|structured|response.format)|requested parameters|response_format"
)
"""What servers answer with a 404 to a request for something that no model of theirs does (OpenRouter)."""


def broke(said: str, body: str = "") -> bool:
    """Whether there is no money left, which no waiting mends.

    An allowance a minute comes back, though Google says of it what OpenAI says of an empty account: the whole
    `body` tells them apart. One a day, or of none at all, does not come back soon enough.
    """
    low = said.lower()
    if any(words in low for words in _BROKE):
        return True
    body = (body or said).lower()
    return _QUOTA in low and (_FOR_GOOD.search(body) is not None or not _FOR_NOW.search(body))


def too_long(status: int, said: str) -> bool:
    """Whether the texts are more than the model takes at once; asked to wait, only a request beyond the limit is."""
    low = said.lower()
    if status in {429, 503, 529}:
        return "request too large" in low
    return status not in {401, 402, 403, 404} and (status == 413 or _TOO_LONG.search(low) is not None)


def useless(status: int, said: str, *, worked: bool = False) -> bool:
    """Whether no other request can fare better: no key, no money, no such model or path.

    Of an endpoint that has `worked`, only the first two are believed: the rest may be a hiccup, or about one text.
    """
    low = said.lower()
    if status in {401, 402} or broke(said) or _KEY.search(low):
        return True
    if status == 403 and not worked:
        return not ("moderation" in low or "flagged" in low)
    if worked:
        return status == 405 or 300 <= status < 400
    missing = _NO_MODEL.search(low) is not None or (status == 404 and not _UNSUPPORTED.search(low))
    return missing or status == 405 or 300 <= status < 400


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
