"""A transport to the user's own model: a LangChain chat model, or any function that answers a prompt."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from germane.errors import AnswerError, InputError
from germane.judges.client.chat import chat_completion
from germane.judges.client.providers import Service
from germane.judges.client.retry import TransportError
from germane.judges.client.transport import Response, Secrets
from germane.judges.judge import GaveUp
from germane.types import Json

__all__ = ["prompt_of"]

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
            raise InputError(
                f"{model!r} is not a function or chat model",
                fix="pass a function that takes a prompt and returns a string, or a LangChain chat model",
            )
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
        try:
            answer = await self._call(turns)
        except (AnswerError, GaveUp):
            raise
        except Exception as error:  # noqa: BLE001 - the user's own model may raise any exception
            text, status = f"{type(error).__name__}: {error}", getattr(error, "status_code", None)
            if type(status) is int and status >= 400:
                headers = getattr(getattr(error, "response", None), "headers", {})
                return status, dict(headers), json.dumps({"error": {"message": text}}).encode()
            raise TransportError(text) from None
        return 200, {}, json.dumps(_completion(answer), ensure_ascii=False).encode("utf-8", "replace")

    async def _call(self, turns: Sequence[tuple[str, str]]) -> Any:
        value: Any = turns if self._chats else prompt_of(turns)
        if self._awaits:
            return await self._function(value)
        answer = await asyncio.to_thread(self._function, value)
        return await answer if inspect.isawaitable(answer) else answer

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
