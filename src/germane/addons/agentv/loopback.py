"""A judge for grading scripts: a server on 127.0.0.1 that forwards questions to the evaluation's judge.

What is asked goes through the ledger and counts against the budget like any other question.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self, TypeAlias

from germane.addons.agentv.script import TextCompletion
from germane.errors import GermaneError
from germane.questions.asking import Answer, Unanswered
from germane.types import Json

AskJudge: TypeAlias = Callable[[Sequence[TextCompletion]], Coroutine[Any, Any, Sequence[Answer]]]
"""The function that answers questions: `asker.judge`."""
MAX_BODY = 4_000_000
"""Bytes of a request that are read."""
_NO_QUESTION = "Missing required field: question"


class Loopback:
    """Serves the judge to a script, for at most `max_calls` calls; an async context manager.

    `GET /info` tells the limit and the calls so far, `POST /invoke {question, systemPrompt?}` asks once,
    `POST /invokeBatch {requests: [...]}` several times at once; every request needs the bearer token.

    Attributes:
        calls: The number of calls so far.
        stopped: The error that ended the evaluation while it was asked, if any.
    """

    def __init__(self, ask: AskJudge, max_calls: int) -> None:
        self._ask, self.max_calls = ask, max_calls
        self.calls = 0
        self.stopped: GermaneError | None = None
        self._authorization = f"Bearer {secrets.token_hex(32)}"
        self._counting = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"loopback": self}))
        self._server.daemon_threads = True

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that give a script the server's address and token."""
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        token = self._authorization.removeprefix("Bearer ")
        return {"AGENTV_TARGET_PROXY_URL": url, "AGENTV_TARGET_PROXY_TOKEN": token}

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._server.shutdown)
        self._server.server_close()

    def answer(self, asked: str, authorization: str, body: bytes) -> Json:
        """Return the document for a request, `POST /invoke`; called in a thread of the server's."""
        if not hmac.compare_digest(authorization.encode(), self._authorization.encode()):
            raise _Denied(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        if asked == "GET /info":
            named = {"targetName": "judge", "availableTargets": ["judge"]}
            return {**named, "maxCalls": self.max_calls, "callCount": self.calls}
        if asked not in {"POST /invoke", "POST /invokeBatch"}:
            raise _Denied(HTTPStatus.NOT_FOUND, "Not found")
        try:
            document = json.loads(body)
        except (ValueError, RecursionError) as fault:
            raise _Denied(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {fault}") from None
        if not isinstance(document, dict):
            raise _Denied(HTTPStatus.BAD_REQUEST, "the body is not a JSON object")
        if asked == "POST /invokeBatch":
            if not isinstance(requests := document.get("requests"), list):
                raise _Denied(HTTPStatus.BAD_REQUEST, "Missing required field: requests (array)")
            return {"responses": list(map(_response, self._answers(requests)))}
        (answer,) = self._answers([document])
        if answer is None:
            raise _Denied(HTTPStatus.BAD_REQUEST, _NO_QUESTION)
        if isinstance(answer.value, Unanswered):
            raise _Denied(HTTPStatus.INTERNAL_SERVER_ERROR, answer.value.why)
        return _response(answer)

    def _answers(self, requests: Sequence[Json]) -> list[Answer | None]:
        """Ask in the event loop; None for a request that asks nothing. The calls are counted first."""
        questions = list(map(_question, requests))
        asked = [question for question in questions if question is not None]
        with self._counting:
            if asked and self.calls + len(asked) > self.max_calls:
                raise _Denied(HTTPStatus.TOO_MANY_REQUESTS, f"Max calls exceeded (limit: {self.max_calls})")
            self.calls += len(asked)
        try:
            answers = iter(asyncio.run_coroutine_threadsafe(self._ask(asked), self._loop).result())
        except (GermaneError, CancelledError) as stopped:
            self.stopped = stopped if isinstance(stopped, GermaneError) else None
            why = str(stopped) or "the evaluation was stopped"
            raise _Denied(HTTPStatus.SERVICE_UNAVAILABLE, why) from None
        return [None if question is None else next(answers) for question in questions]


class _Denied(Exception):
    """A refused request: the HTTP status and the reason."""


def _question(request: Json) -> TextCompletion | None:
    text = request.get("question") if isinstance(request, Mapping) else None
    if not isinstance(text, str) or not text:
        return None
    system = request.get("systemPrompt")
    return TextCompletion(text=text, system=system if isinstance(system, str) else "")


def _response(answer: Answer | None) -> dict[str, Json]:
    """Return an answer with the keys of both generations of the protocol; an error is returned as its text."""
    if answer is None or isinstance(answer.value, Unanswered):
        why = _NO_QUESTION if answer is None else answer.value.why
        return {"outputMessages": [], "output": [], "rawText": f"Error: {why}"}
    messages, usage = [{"role": "assistant", "content": answer.value}], answer.judgement.usage
    tokens = {"input": usage.input_tokens, "output": usage.output_tokens}
    return {"outputMessages": messages, "output": messages, "rawText": answer.value, "tokenUsage": tokens}


class _Handler(BaseHTTPRequestHandler):
    loopback: ClassVar[Loopback]
    protocol_version = "HTTP/1.1"
    timeout = 600

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if size.isdecimal() and int(size) <= MAX_BODY:
            self._answer(self.rfile.read(int(size)))
            return
        self.close_connection = True
        self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": "send a Content-Length, at most 4 MB"})

    def _answer(self, body: bytes) -> None:
        authorization = self.headers.get("Authorization", "")
        try:
            value = self.loopback.answer(f"{self.command} {self.path}", authorization, body)
            self._send(HTTPStatus.OK, value)
        except _Denied as denied:
            status, why = denied.args
            self._send(status, {"error": why})

    def _send(self, status: int, document: Json) -> None:
        body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
        with contextlib.suppress(ConnectionError):  # the script has ended meanwhile
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
        """Log nothing."""
