"""A target that is queried over HTTP. JSON pointers select the answer and the contexts in its responses."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self
from urllib.parse import quote

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from germane.clean import counted, mask_urls
from germane.errors import Invalid, TargetError, describe
from germane.evalfiles import Case, content_text
from germane.evalfiles.model import Positive, WholeNumber, plain
from germane.judges.client.retry import retry_after
from germane.judges.client.transport import Secrets
from germane.samples.contexts import failure_of
from germane.targets.target import LARGEST, Target
from germane.types import Json

if TYPE_CHECKING:
    import httpx2

_SLOT = re.compile(r"\{\{\s*(query|id|history|metadata)\s*[.}]")
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_TAIL = 300
_PAUSE = 0.5
"""Seconds to wait before the second attempt; the wait doubles before each later attempt."""


def _address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise Invalid(f"is {describe(url)}, not an HTTP address", "write url: https://host/search")
    return url


def _pointer(pointer: str) -> str:
    if pointer and not pointer.startswith("/"):
        raise Invalid(f"is {pointer!r}, not a JSON pointer", f"write /{pointer.replace('.', '/')}")
    return pointer


Pointer = Annotated[str, AfterValidator(_pointer)]


class HttpTarget(Target):
    """A target that sends an HTTP request for each query, for at most `timeout` seconds including retries.

    A request is repeated after a lost connection and after the statuses 408, 425, 429, 500, 502, 503 and 504.
    In the URL (percent-encoded), the headers and the body, `{{query}}`, `{{id}}`, `{{trial}}`, `{{history}}`
    and `{{metadata}}` are replaced by values of the case. If a string in the body consists of only one of
    them, it is replaced by the JSON value.

    `answer` and `contexts` are JSON pointers (RFC 6901) into the response. `context` maps the fields of a
    context to pointers into each entry of `contexts`. Without pointers, the response is read as {response,
    contexts}. A redirect is an error that names the new URL.
    """

    aliases: ClassVar = {
        "url": ("endpoint",),
        "answer_at": ("answer", "response"),
        "contexts_at": ("contexts",),
        "timeout": ("timeout_seconds",),
    }

    url: Annotated[str, Field(examples=["https://host/search"]), AfterValidator(_address)]
    method: str = ""
    headers: Annotated[dict[str, str], plain] = Field(default_factory=dict)
    body: Annotated[Any, plain] = None
    answer_at: Pointer | None = None
    contexts_at: Pointer | None = None
    context: Annotated[dict[str, Pointer], plain] = Field(default_factory=dict)
    timeout: Positive = 60.0
    retries: WholeNumber = 2
    _client: Any = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _with_question(self) -> Self:
        if not _SLOT.search(self.url + json.dumps(self.body, default=str)):
            fix = 'write body: {question: "{{query}}"}, or {{query}} in the url'
            raise Invalid("does not send the query", fix)
        return self

    async def ask(self, case: Case) -> Json:
        """Send the request of a case and return the answer in the response.

        A response that is not JSON is returned as a string if the target has no pointers. Raises TargetError
        if the request fails or the response contains no answer.
        """
        text = await self._sent(case)
        try:
            document = json.loads(text.removeprefix("\ufeff"))
        except (ValueError, RecursionError):
            if self.answer_at or self.contexts_at:
                problem = f"the response is not JSON, so answer and contexts cannot be found in it: {text[:_TAIL]!r}"
                raise TargetError(
                    f"{problem}; check url, or leave the settings answer and contexts out of the targets file"
                ) from None
            return text
        if not (self.answer_at or self.contexts_at):
            return document
        result: dict[str, Json] = {}
        if isinstance(document, dict) and (failed := failure_of(document)) is not None:
            raise TargetError(failed)
        if self.answer_at is not None and (answer := _at(document, self.answer_at)) is not None:
            result["response"] = _as_text(answer)
        if self.contexts_at is not None:
            listed = _at(document, self.contexts_at)
            if not isinstance(listed, list):
                fix = "set contexts: in the target to the JSON pointer of the list of contexts"
                raise TargetError(f"the response has no list at {self.contexts_at}; {fix}")
            result["contexts"] = [
                {name: _at(value, pointer, needed=False) for name, pointer in self.context.items()} or value
                for value in listed
            ]
        return result

    async def close(self) -> None:
        """Close the HTTP client and its connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _sent(self, case: Case) -> str:
        """Send the request of a case, with retries, and return the text of the first successful response."""
        import httpx2

        failure = ""
        if self._client is None:
            self._client = httpx2.AsyncClient(timeout=None)
        try:
            async with asyncio.timeout(self.timeout):
                for attempt in range(self.retries + 1):
                    pause = _PAUSE * 2**attempt
                    try:
                        response, text = await self._response(self._request(case))
                    except TargetError:
                        raise
                    except Exception as error:  # noqa: BLE001 - not only httpx2's own, e.g. for a port above 65535
                        fault = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
                        failure = self._masked(f"{type(fault).__name__}: {fault}".removesuffix(": "))
                    else:
                        if response.is_success:
                            return text
                        why = self._masked(text)[:_TAIL].strip() or "no body"
                        failure = f"HTTP {response.status_code}: {why}"
                        if response.status_code not in _AGAIN:
                            raise TargetError(failure)
                        pause = retry_after(response.headers) or pause
                    if attempt < self.retries:
                        await asyncio.sleep(pause)
        except TimeoutError:
            before = f"; the last attempt failed with {failure}" if failure else ""
            problem = f"no response within {self.timeout:g} s (timeout: of the target){before}"
            raise TargetError(problem) from None
        raise TargetError(f"the request failed ({counted(self.retries + 1, 'attempt')}): {failure}")

    def _request(self, case: Case) -> httpx2.Request:
        sample = case.sample
        values: dict[str, Json] = {"query": sample.query, "id": sample.id, "trial": sample.trial}
        values["history"] = [{"role": m.role, "content": content_text(m.content)} for m in sample.history]
        values["metadata"] = dict(case.metadata)
        method = (self.method or ("GET" if self.body is None else "POST")).upper()
        url = _fill_slots(self.url, values, partial(quote, safe=""))
        headers = {name: _fill_slots(value, values) for name, value in self.headers.items()}
        for name, value in headers.items():
            if not (value.isascii() and value.isprintable()):
                problem = f"the header {name} would have characters that HTTP does not allow"
                raise TargetError(f"{problem}; send the text in the url or the body")
        body = _filled(self.body, values)
        sent = {"content": body.encode()} if isinstance(body, str) else {} if body is None else {"json": body}
        return self._client.build_request(method, url, headers=headers, **sent)  # type: ignore[no-any-return]

    def _masked(self, text: str) -> str:
        return Secrets(self.headers, url=self.url).mask_text(text)

    async def _response(self, request: httpx2.Request) -> tuple[httpx2.Response, str]:
        response = await self._client.send(request, stream=True)
        try:
            if (
                response.next_request is not None
            ):  # redirects are not followed, because another host must not see the keys in the headers
                moved = mask_urls(str(response.next_request.url))
                problem = f"HTTP {response.status_code}: the url redirects to {moved}"
                raise TargetError(f"{problem}; write url: {moved}")
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > LARGEST:
                    most = LARGEST // 1_000_000
                    raise TargetError(f"the response is longer than {most} MB; return fewer contexts")
        finally:
            await response.aclose()
        return response, body.decode("utf-8", "replace")


def _at(document: Json, pointer: str, *, needed: bool = True) -> Json:
    """Return the value at a JSON pointer; if there is none, None or, if it is `needed`, a TargetError."""
    result = document
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(result, dict) and name in result:
            result = result[name]
        elif isinstance(result, list) and name.isdecimal() and int(name) < len(result):
            result = result[int(name)]
        elif needed:
            fix = "correct the JSON pointer in the target"
            raise TargetError(f"the response has no value at {pointer}; {fix}")
        else:
            return None
    return result


_NAMED = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}")


def _filled(document: Json, values: Mapping[str, Json]) -> Json:
    """Return a JSON value with `{{name}}` and `{{name.key}}` in its strings replaced by their values.

    Names that are not in `values` are left unchanged. A string that consists only of `{{name}}` is replaced
    by the value itself, which may be a list or an object.
    """
    if isinstance(document, dict):
        return {key: _filled(inner, values) for key, inner in document.items()}
    if isinstance(document, list):
        return [_filled(inner, values) for inner in document]
    if not isinstance(document, str):
        return document
    whole = _NAMED.fullmatch(document.strip())
    value = None if whole is None else _value_of(whole, values)
    return _fill_slots(document, values) if value is None else value


def _fill_slots(text: str, values: Mapping[str, Json], quote: Callable[[str], str] = str) -> str:
    """Return a string with each `{{name}}` and `{{name.key}}` replaced by its value, converted by `quote`.

    Names that are not in `values`, and a `{{name}}` within a value, are left unchanged.
    """

    def replaced(slot: re.Match[str]) -> str:
        value = _value_of(slot, values)
        return slot[0] if value is None else quote(_as_text(value))

    return _NAMED.sub(replaced, text)


def _value_of(slot: re.Match[str], values: Json) -> Json:
    for step in slot[1].split("."):
        values = values.get(step) if isinstance(values, Mapping) else None
    return values


def _as_text(value: Json) -> str:
    """Return a string unchanged; return any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
