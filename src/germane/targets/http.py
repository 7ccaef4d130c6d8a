"""A system behind HTTP: a request per query, the answer and the contexts by JSON pointers into the response."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import quote

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from germane.errors import TargetError
from germane.samples.evalfile import Case
from germane.samples.messages import content_text
from germane.samples.validation import Wrong, say
from germane.samples.yamltext import Positive, WholeNumber, as_text, filled, plain, with_variables
from germane.targets.target import Target
from germane.types import Json

_SLOT = re.compile(r"\{\{\s*(query|id|trial|history|metadata)\s*\}\}")
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_TAIL = 300
_PAUSE = 0.5
"""Seconds before the second attempt; twice as long before each later one."""
_LONGEST = 60.0
"""Seconds that Retry-After may ask for."""


def _address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise Wrong(f"is {say(url)}", "write url: https://host/search")
    return url


def _pointer(pointer: str) -> str:
    if pointer and not pointer.startswith("/"):
        raise Wrong(f"is {pointer!r}, which is not a JSON pointer", f"write /{pointer.replace('.', '/')}")
    return pointer


Pointer = Annotated[str, AfterValidator(_pointer)]


class HttpTarget(Target):
    """Sends a request for each query, and tries again after a time-out, a lost connection, 408, 425, 429 and 5xx.

    `{{query}}`, `{{id}}`, `{{trial}}`, `{{history}}` and `{{metadata}}` stand in the URL (percent-encoded), the headers and
    the body; a text of the body that is nothing but one of them becomes its JSON value. `answer`, `contexts` and `calls` are
    JSON pointers (RFC 6901) into the response, and `context` maps fields of a context to pointers into each of them. Without
    any of these the response is read as a sample's answer: {response, contexts}.
    """

    nodes = ("body",)
    aliases: ClassVar = {
        "url": ("endpoint",),
        "answer_at": ("answer", "response"),
        "contexts_at": ("contexts",),
        "calls_at": ("calls",),
        "timeout": ("timeout_seconds",),
    }

    url: Annotated[str, Field(examples=["https://host/search"]), AfterValidator(_address)]
    method: str = ""
    headers: Annotated[dict[str, str], plain] = Field(default_factory=dict)
    body: Any = None
    answer_at: Pointer | None = None
    contexts_at: Pointer | None = None
    calls_at: Pointer | None = None
    context: Annotated[dict[str, Pointer], plain] = Field(default_factory=dict)
    timeout: Positive = 60.0
    retries: WholeNumber = 2
    _client: Any = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _with_question(self) -> Self:
        if self.body is None and not _SLOT.search(self.url):
            raise Wrong("is told no question", 'write body: {question: "{{query}}"}, or {{query}} in the url')
        return self

    async def ask(self, case: Case) -> Json:
        """The response as an answer; TargetError with the status and the start of the body where it is none."""
        text = await self._sent(case)
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            if self.answer_at or self.contexts_at or self.calls_at:
                raise TargetError(f"the response is not JSON: {text[:_TAIL]!r}") from None
            return text
        return self._found(document)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _sent(self, case: Case) -> str:
        import httpx2

        if self._client is None:
            self._client = httpx2.AsyncClient(timeout=self.timeout, follow_redirects=True)
        values = _values(case)
        method = (self.method or ("GET" if self.body is None else "POST")).upper()
        url = filled(self.url, values, partial(quote, safe=""))
        headers = {name: filled(value, values) for name, value in self.headers.items()}
        body = None if self.body is None else with_variables(self.body, values).json()
        sent = {"content": body.encode()} if isinstance(body, str) else {} if body is None else {"json": body}
        for attempt in range(self.retries + 1):
            pause = _PAUSE * 2**attempt
            try:
                response = await self._client.request(method, url, headers=headers, **sent)
            except httpx2.TimeoutException:
                failure = f"no response within {self.timeout:g} s"
            except (httpx2.TransportError, httpx2.InvalidURL) as fault:
                failure = f"{type(fault).__name__}: {fault}".removesuffix(": ")
            else:
                if response.is_success:
                    return str(response.text)
                failure = f"HTTP {response.status_code}: {response.text[:_TAIL].strip() or 'no body'}"
                if response.status_code not in _AGAIN:
                    raise TargetError(failure)
                pause = _retry_after(response.headers.get("retry-after")) or pause
            if attempt < self.retries:
                await asyncio.sleep(min(pause, _LONGEST))
        raise TargetError(f"{failure} ({self.retries + 1} attempts)")

    def _found(self, document: Json) -> Json:
        """What the pointers name, as an answer's fields."""
        if not (self.answer_at or self.contexts_at or self.calls_at):
            return document
        found: dict[str, Json] = {}
        if self.answer_at is not None:
            found["response"] = as_text(_at(document, self.answer_at))
        if self.contexts_at is not None:
            listed = _at(document, self.contexts_at)
            if not isinstance(listed, list):
                raise TargetError(f"{self.contexts_at} of the response is no list of contexts")
            found["contexts"] = [
                {name: _at(one, pointer, needed=False) for name, pointer in self.context.items()} or one
                for one in listed
            ]
        if self.calls_at is not None:
            found["calls"] = _at(document, self.calls_at)
        return found


def _values(case: Case) -> dict[str, Json]:
    sample = case.sample
    history = [{"role": turn.role, "content": content_text(turn.content)} for turn in sample.history]
    return {
        "query": sample.query,
        "id": sample.id,
        "trial": sample.trial,
        "history": history,
        "metadata": dict(case.metadata),
    }


def _retry_after(header: str | None) -> float | None:
    return float(header) if header and header.replace(".", "", 1).isdecimal() else None


def _at(document: Json, pointer: str, *, needed: bool = True) -> Json:
    """What a JSON pointer names; TargetError where it is not there, None where it is not `needed`."""
    found = document
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        elif needed:
            raise TargetError(f"the response has nothing at {pointer}")
        else:
            return None
    return found
