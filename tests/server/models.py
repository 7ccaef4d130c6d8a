"""A model server for tests and benchmarks: real HTTP on 127.0.0.1, OpenAI-compatible, scripted.

::

    with ModelServer(script=[Act(status=429), None]) as server:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="test")

`python -m tests.server --latency 0.2` runs one in its own process and prints its URL.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self, TypeAlias

from germane.errors import InputError
from germane.questions.question import known_kinds
from germane.types import Json
from tests.server.acts import FINE, Act
from tests.server.asked import Asked
from tests.server.rules import Rule, by_overlap, payload_for, rule_from
from tests.server.wire import Connection, response

_LIMITS = {"max_tokens", "max_completion_tokens"}

Script: TypeAlias = Iterable[Act | None] | Callable[[Asked], Act | None]
"""What to do with each request: a list that ends in good behaviour, or a function. None = answer as one should."""


class ModelServer:
    """An OpenAI-compatible `/v1/chat/completions` in a thread of its own, for use in `with`.

    Args:
        script: What to do with each request; without one every request is answered.
        answer: The rule for answers: (kind, sections by name, schema) -> payload, or one payload for each kind of
            question, `{"relevance": {"grade": 3}}`; other kinds are answered by words in common.
        latency: Seconds until an answer.
        schema, tools, temperature, system: Whether it takes these; otherwise it answers 400 and says so.
        limit_name: The name under which it takes a token limit ("" = both).
        keep: Whether to keep every request in `asked`.
        port: Where to listen; 0 = any that is free.

    Beside `asked` it counts: `count` requests, `bytes` of them, `in_flight` and `most_in_flight` that somebody
    waited for at once.

    Raises:
        InputError: `answer` names a kind of question that there is not.

    What the script or the rule raises is answered as a 500 with its text, and raised again when the server is left.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        answer: Rule | Mapping[str, Json] = by_overlap,
        latency: float = 0.0,
        schema: bool = True,
        tools: bool = True,
        temperature: bool = True,
        system: bool = True,
        limit_name: str = "",
        keep: bool = True,
        port: int = 0,
    ) -> None:
        self._next = script if callable(script) else _one_by_one(script)
        self._answer, self._latency, self._keep, self._port = rule_from(answer), latency, keep, port
        self._takes = {"response_format": schema, "tools": tools, "temperature": temperature}
        self._system, self._limit_name = system, limit_name
        self.asked: list[Asked] = []
        known_kinds()  # imported now, not while the first request waits
        self.count = self.bytes = self.most_in_flight = 0
        self.fault: Exception | None = None
        self._thread: threading.Thread | None = None
        self._connections: set[Connection] = set()

    @property
    def url(self) -> str:
        """The base URL, `http://127.0.0.1:PORT/v1`; InputError where no port is known before the server starts."""
        if not self._port:
            raise InputError("the model server has no port yet", fix="use it in `with`, or give it a port")
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def in_flight(self) -> int:
        """How many requests somebody waits for."""
        return sum(connection.waiting for connection in list(self._connections))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, _t: type[BaseException] | None, _e: BaseException | None, _b: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Listen; returns when the port is open. InputError where it cannot be had, or the server runs already."""
        if self._thread is not None:
            raise InputError("the model server runs already", fix="start it once, or another one")
        try:
            listening = socket.create_server(("127.0.0.1", self._port), backlog=1024)
        except (OSError, OverflowError) as error:
            raise InputError(
                f"port {self._port} cannot be listened on: {error}", fix="leave it out to get any free one"
            ) from None
        self._port = listening.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(listening, started), name="germane-model-server", daemon=True
        )
        self._thread.start()
        started.wait()

    def stop(self) -> None:
        """Break all connections and end the thread; raises what the script or the rule raised first."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._thread = None
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault

    def _run(self, listening: socket.socket, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            self._loop.create_server(
                lambda: Connection(self._on_request, self._connections),
                sock=listening,
                backlog=1024,
            )
        )
        self._loop.call_soon(started.set)
        self._loop.run_forever()
        self._loop.run_until_complete(self._wind_down(server))
        self._loop.close()

    async def _wind_down(self, server: asyncio.Server) -> None:
        """Break all connections, also those that are only just being accepted."""
        server.close()
        for _ in range(5):
            for connection in list(self._connections):
                connection.abort()
            await asyncio.sleep(0)

    def _on_request(self, connection: Connection, path: str, headers: Mapping[str, str], raw: bytes) -> None:
        asked = Asked(self.count, path, headers, raw)
        self.count += 1
        self.bytes += len(raw)
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        if self._keep:
            self.asked.append(asked)
        act = self._act_on(asked)
        if not act.hang:
            seconds = self._latency if act.latency is None else act.latency
            self._loop.call_later(seconds, self._send, connection, asked, act)

    def _act_on(self, asked: Asked) -> Act:
        """The script's act, unless the request holds what this server does not take."""
        try:
            act = self._refusal(asked) or self._next(asked) or FINE
            if not isinstance(act, Act):
                raise TypeError(f"a script gives an Act or None, not {act!r}")  # noqa: TRY301
        except Exception as fault:  # noqa: BLE001 - whatever a test's own script raises
            return self._broken(fault)
        return act

    def _broken(self, fault: Exception) -> Act:
        """A 500 that says what the test's own script raised; it is asked again at once, not for a minute."""
        self.fault = self.fault or fault
        why = f"the test's own script or rule raised {type(fault).__name__}: {fault}"
        return Act(status=500, error=why, headers={"retry-after": "0"})

    def _refusal(self, asked: Asked) -> Act | None:
        """The 400 (or 404) for a request that this server does not take; None where it takes it."""
        if not asked.path.partition("?")[0].endswith("/v1/chat/completions"):
            return Act(status=404, error=f"there is no {asked.path} here")
        if wrong := asked.malformed:
            return Act(status=400, error=f"not a chat completion: {wrong}")
        for name, takes in self._takes.items():
            if not takes and name in asked.json:
                return Act(status=400, error=f"'{name}' is not supported with this model")
        if not self._system and asked.system:
            return Act(status=400, error="System role not supported")
        for name in _LIMITS - {self._limit_name} if self._limit_name else ():
            if name in asked.json:
                use = f"Use '{self._limit_name}' instead."
                return Act(status=400, error=f"Unsupported parameter: '{name}'. {use}")
        return None

    def _send(self, connection: Connection, asked: Asked, act: Act) -> None:
        connection.waiting -= 1
        if connection.transport is None:
            return
        try:
            body = self._body(asked, act)
            data = response(act.status, act.headers, body)
        except Exception as fault:  # noqa: BLE001 - whatever a test's own rule raises
            act = self._broken(fault)
            body = _error(act)
            data = response(act.status, act.headers, body)
        if act.reset or act.truncate:
            data = data[: len(data) - len(body) // 2]
        connection.write(data, close=act.truncate, reset=act.reset, drip=act.drip)

    def _body(self, asked: Asked, act: Act) -> bytes:
        if act.body is not None:
            return act.body.encode() if isinstance(act.body, str) else act.body
        return _error(act) if act.status != 200 else self._completion(asked, act)

    def _text(self, asked: Asked, act: Act) -> str:
        """What the model says."""
        if act.text is not None:
            return act.text
        payload = payload_for(asked, self._answer)
        if asked.kinds == ["completion"]:  # no schema was asked for
            return str(payload["text"])
        return json.dumps(act.change(payload) if act.change else payload, ensure_ascii=False)

    def _completion(self, asked: Asked, act: Act) -> bytes:
        text = self._text(asked, act)
        if act.cut:
            text = text[: len(text) // 2]
        message: dict[str, Json] = {"role": "assistant", "content": text}
        if act.refusal:
            message |= {"content": None, "refusal": act.refusal}
        elif asked.mode == "tool":
            call = {"id": "1", "type": "function", "function": {"name": asked.named[0], "arguments": text}}
            message |= {"content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "length" if act.cut else act.finish}
        found = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": asked.json.get("model"),
            "choices": [choice],
        }
        if act.usage is not False:
            used = {"prompt_tokens": len(asked.raw) // 4, "completion_tokens": len(text) // 4}
            found["usage"] = used if act.usage is True else used | dict(act.usage)
        return json.dumps(found, ensure_ascii=False).encode()


def _one_by_one(script: Iterable[Act | None]) -> Callable[[Asked], Act | None]:
    acts = iter(script)
    return lambda _: next(acts, None)


def _error(act: Act) -> bytes:
    return json.dumps({"error": {"message": act.error or f"status {act.status}", "type": None}}).encode()
