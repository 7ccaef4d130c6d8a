"""Transports send one request and return the response, without retries or rate limits.

HTTPTransport sends to a URL, FunctionTransport calls the user's own model.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import unquote

from germane.clean import MASK, hidden_in, mask_urls
from germane.errors import AnswerError, InputError
from germane.judges.client.chat import chat_completion
from germane.judges.client.providers import Service
from germane.judges.client.retry import TransportError
from germane.judges.judge import GaveUp
from germane.processes import submitted
from germane.types import Json
from germane.version import __version__

__all__ = ["Secrets", "prompt_of"]

LARGEST = 8_000_000  # maximum bytes of a response: no answer is that long
SHARED_BY = 8  # requests per client; small pools are faster, because each request visits all connections

Response = tuple[int, Mapping[str, str], bytes]  # an HTTP response: its status, headers and body

_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json",
    "accept-encoding": "identity",
    "user-agent": f"germane/{__version__}",
}

_LONG = 16  # minimum length of keys that are masked in answers too; shorter strings may occur by chance
_HEADER_LONG = 9  # minimum length of a header's value that may be a key, whatever the header's name is
_OF_KEYS = re.compile("auth|key|token|secret|cookie|^sig|^code$|pass", re.IGNORECASE)


class Secrets:
    """The API keys in the headers and the URL for one server. They are masked if the server repeats them."""

    def __init__(self, headers: Mapping[str, str], key: str = "", url: str = "") -> None:
        values = {key}
        for name, value in (*headers.items(), *hidden_in(url).items()):
            if value.strip() and (len(value) >= _HEADER_LONG or _OF_KEYS.search(name)):
                values.add(value.split()[-1])  # removes a scheme such as Bearer
        values |= set(map(unquote, values))
        self._keys = sorted(filter(None, values), key=len, reverse=True)
        long = [key for key in self._keys if len(key) >= _LONG]
        self._plain = [key.encode() for key in long]
        spelt = "|".join("".join(map(_as_json, key)) for key in long)
        self._escaped = re.compile(spelt.encode()) if long else None

    def mask(self, data: bytes) -> bytes:
        """Return a response's body with every key of 16 or more characters masked, even if JSON-escaped."""
        escapes = b"u00" in data or b"\\/" in data
        if self._escaped is None or not (escapes or any(key in data for key in self._plain)):
            return data
        return self._escaped.sub(MASK.encode(), data)

    def mask_text(self, text: str) -> str:
        """Return an error message or header with every key masked; short keys only as whole words."""
        for key in self._keys:
            word = re.escape(key) if len(key) >= _LONG else rf"(?<!\w){re.escape(key)}(?!\w)"
            text = re.sub(word, MASK, text)
        return text


def _as_json(char: str) -> str:
    """Return a regular expression that matches a character, plain or as a (possibly nested) JSON escape."""
    slashes = r"\\*" if char == "/" else ""
    return rf"(?:{slashes}{re.escape(char)}|\\+u(?i:{ord(char):04x}))"


class HTTPTransport:
    """A transport that sends each request as a POST to one URL; at most `most` are expected in flight.

    `connect` is how many seconds to wait for a connection. The caller limits the time for the answer. An
    instance belongs to one event loop.
    """

    def __init__(self, url: str, headers: Mapping[str, str], *, connect: float, most: int) -> None:
        import httpx2  # imported here, so that the time of the first request does not include it

        self.url = mask_urls(url)
        self.secrets = Secrets(headers, url=url)
        self._headers = {**_HEADERS, **headers}
        self._timeouts = {"timeout": {"connect": connect, "read": None, "write": None, "pool": None}}
        self._parsed = httpx2.URL(url)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=2 * SHARED_BY)
        secure = httpx2.create_ssl_context() if self.url.startswith("https") else False
        opened = (httpx2.AsyncClient(limits=limits, verify=secure) for _ in range(-(-most // SHARED_BY)))
        self._clients = dict.fromkeys(opened, 0)  # the number of requests in flight, by client

    async def send(self, body: bytes) -> Response:
        """Send one request and return the response. Raises TransportError if there is no complete one."""
        import httpx2

        clients = self._clients
        client = min(clients, key=clients.__getitem__)
        clients[client] += 1
        try:
            request = httpx2.Request(
                "POST", self._parsed, headers=self._headers, content=body, extensions=self._timeouts
            )
            response = await client.send(request, stream=True)
            try:
                encoding = response.headers.get("content-encoding", "identity").lower()
                if encoding != "identity":
                    why = f"the response is compressed ({encoding[:20]}), which the request did not allow"
                    raise TransportError(why)
                raw = bytearray()
                async for chunk in response.aiter_raw():
                    raw += chunk
                    if len(raw) > LARGEST:
                        raise TransportError(f"the response is longer than the allowed {LARGEST:,} bytes")
            finally:
                await response.aclose()
            return response.status_code, response.headers, bytes(raw)
        except httpx2.RequestError as error:
            raise TransportError(": ".join(filter(None, (type(error).__name__, str(error))))) from None
        finally:
            clients[client] -= 1

    async def close(self) -> None:
        """Close the connections; no further request can be sent."""
        for client in self._clients:
            await client.aclose()


OwnModel: TypeAlias = Any  # a function from prompt to text, or a chat model with `invoke` or `ainvoke`

_AT_ONCE = 4  # concurrent calls of a function that runs in threads: it may be a model on this machine


class FunctionTransport:
    """A transport that calls the user's own model. `send` uses the format of OpenAI's chat completions.

    `at_once` is the default number of concurrent calls: 4 for a function that runs in threads, otherwise None
    (adaptive). Raises InputError if the model cannot be called.
    """

    secrets = Secrets({})

    def __init__(self, model: OwnModel, name: str | None = None) -> None:
        self._chats = callable(getattr(model, "invoke", None)) or callable(getattr(model, "ainvoke", None))
        if isinstance(model, type) or not (callable(model) or self._chats):
            fix = "pass a function that takes a prompt and returns a string, or a LangChain chat model"
            raise InputError(f"{model!r} is not a function or chat model", fix=fix)
        if name is not None and not name.strip():
            raise InputError("the name of a judge is empty", fix='write name="my-model"')
        kind = getattr(model, "__name__", None) or type(model).__name__
        if self._chats:
            self._function: Any = getattr(model, "ainvoke", None) or model.invoke
            own = (getattr(model, key, None) for key in ("model_name", "model"))
            named = name or next((value for value in own if isinstance(value, str)), "")
            self.service = Service(provider="langchain", model=named, url=kind)
        else:
            self._function = model if inspect.isroutine(model) else model.__call__
            provider = "python" if name else f"python:{kind}"
            self.service = Service(provider=provider, model=name or "", url=f"the function {kind}")
        self.url, self._model = self.service.name, model
        self._awaits = inspect.iscoroutinefunction(self._function)
        self.at_once = None if self._chats or self._awaits else _AT_ONCE

    @property
    def settings(self) -> dict[str, Json]:
        """The settings of a chat model that can change an answer: strings, numbers and booleans, no keys."""
        params = getattr(self._model, "_identifying_params", None)
        if not isinstance(params, Mapping):
            return {}
        plain = (str, int, float, bool)
        names = [name for name in params if type(params[name]) in plain and "key" not in str(name).lower()]
        return {"parameters": {str(name): params[name] for name in names}} if names else {}

    async def send(self, body: bytes) -> Response:
        """Call the model once and return its answer as a chat completion.

        An exception with an HTTP status becomes a response with that status, any other a TransportError.
        """
        turns = [(message["role"], message["content"]) for message in json.loads(body)["messages"]]
        value: Any = turns if self._chats else prompt_of(turns)
        try:
            call = partial(self._function, value)
            answer = call() if self._awaits else asyncio.wrap_future(submitted(call))
            while inspect.isawaitable(answer):
                answer = await answer
        except (AnswerError, GaveUp):
            raise
        except Exception as error:  # noqa: BLE001 - the user's own model may raise any exception
            text, status = f"{type(error).__name__}: {error}", getattr(error, "status_code", None)
            if type(status) is int and status >= 400:
                headers = getattr(getattr(error, "response", None), "headers", {})
                return status, dict(headers), json.dumps({"error": {"message": text}}).encode()
            raise TransportError(text) from None
        return 200, {}, json.dumps(_completion(answer), ensure_ascii=False).encode("utf-8", "replace")

    async def close(self) -> None:
        """Do nothing, because this transport opens no connection."""


def prompt_of(turns: Iterable[tuple[str, str]]) -> str:
    """Return (role, text) messages as one prompt, in which "You answered:" precedes each earlier answer."""
    return "\n\n".join(f"You answered:\n{text}" if role == "assistant" else text for role, text in turns)


def _completion(answer: Any) -> dict[str, Json]:
    content = answer if isinstance(answer, str) else getattr(answer, "content", answer)
    if isinstance(content, list):
        content = "".join(
            value if isinstance(value, str) else str(value.get("text", "")) for value in content
        )
    if not isinstance(content, str):
        raise TransportError(f"the model returned {type(answer).__name__} instead of a string")
    used = getattr(answer, "usage_metadata", None) or {}
    meta = getattr(answer, "response_metadata", None) or {}
    finish = meta.get("finish_reason") or "stop"
    return chat_completion({"content": content}, finish, meta.get("model_name"), used)
