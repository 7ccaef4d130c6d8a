"""The judge that a grading script is lent: a server on 127.0.0.1 that puts its questions to the evaluation's own judge.

What is asked goes through the ledger and counts against the budget like any other question.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import secrets
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, TypeAlias

from germane.errors import GermaneError
from germane.questions.asking import Answer, Unanswered
from germane.questions.script import TextCompletion
from germane.types import FrozenDict, Json

__all__ = ["AskJudge", "Loopback"]

AskJudge: TypeAlias = Callable[[Sequence[TextCompletion]], Awaitable[Sequence[Answer]]]
"""Who answers: `pool.judge`."""
MAX_BODY = 4_000_000
"""Bytes of a request that are read."""


class Loopback:
    """Lends a judge for at most `max_calls` calls; an async context manager.

    `GET /info` tells the limit and the calls so far, `POST /invoke {question, systemPrompt?}` asks once,
    `POST /invokeBatch {requests: [...]}` several times at once; every request needs the bearer token.

    Attributes:
        calls: How many calls were made.
        stopped: What ended the evaluation while it was asked, if anything did.
        environment: The variables that tell a script where the server is, and its token.
    """

    def __init__(self, ask: AskJudge, max_calls: int, name: str = "judge") -> None:
        self._ask, self.max_calls, self.name = ask, max_calls, name
        self.calls = 0
        self.stopped: GermaneError | None = None
        self.token = secrets.token_hex(32)
        self._counting = threading.Lock()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that tell a script where the server is, and its token."""
        return {"AGENTV_TARGET_PROXY_URL": self.url, "AGENTV_TARGET_PROXY_TOKEN": self.token}

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        server.daemon_threads = True
        self._server = server
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        await asyncio.to_thread(self._server.shutdown)
        self._server.server_close()

    def answer(self, method: str, path: str, authorization: str, body: bytes) -> tuple[int, Json]:
        """Status and document for a request; called in a thread of the server's."""
        try:
            return HTTPStatus.OK, self._answer(method, path, authorization, body)
        except _Denied as refused:
            return refused.status, {"error": str(refused)}

    def _answer(self, method: str, path: str, authorization: str, body: bytes) -> Json:
        if not hmac.compare_digest(authorization.encode(), f"Bearer {self.token}".encode()):
            raise _Denied(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        if (method, path) == ("GET", "/info"):
            found = {"targetName": self.name, "maxCalls": self.max_calls, "callCount": self.calls}
            return {**found, "availableTargets": [self.name]}
        if (method, path) == ("POST", "/invoke"):
            return self._one(_document(body))
        if (method, path) == ("POST", "/invokeBatch"):
            return {"responses": self._many(_document(body).get("requests"))}
        raise _Denied(HTTPStatus.NOT_FOUND, "Not found")

    def _one(self, request: Mapping[str, Json]) -> Json:
        question = _question(request)
        if question is None:
            raise _Denied(HTTPStatus.BAD_REQUEST, "Missing required field: question")
        (answer,) = self._answers([question])
        if isinstance(answer.value, Unanswered):
            raise _Denied(HTTPStatus.INTERNAL_SERVER_ERROR, answer.value.why)
        return _response(answer)

    def _many(self, requests: Json) -> list[Json]:
        if not isinstance(requests, list):
            raise _Denied(HTTPStatus.BAD_REQUEST, "Missing required field: requests (array)")
        questions = [_question(request) for request in requests]
        answers = iter(self._answers([question for question in questions if question is not None]))
        return [_response(next(answers) if question else None) for question in questions]

    def _answers(self, questions: Sequence[TextCompletion]) -> Sequence[Answer]:
        """Ask in the event loop; the calls are counted first."""
        with self._counting:
            if self.calls + len(questions) > self.max_calls:
                raise _Denied(HTTPStatus.TOO_MANY_REQUESTS, f"Max calls exceeded (limit: {self.max_calls})")
            self.calls += len(questions)
        try:
            return asyncio.run_coroutine_threadsafe(self._asked(questions), self._loop).result()
        except (GermaneError, CancelledError) as stopped:
            self.stopped = stopped if isinstance(stopped, GermaneError) else None
            why = str(stopped) or "the evaluation was stopped"
            raise _Denied(HTTPStatus.SERVICE_UNAVAILABLE, why) from None

    async def _asked(self, questions: Sequence[TextCompletion]) -> Sequence[Answer]:
        return await self._ask(questions) if questions else ()


class _Denied(Exception):
    """A request that is not answered: with which status, and why."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        self.status = status
        super().__init__(why)


def _document(body: bytes) -> Mapping[str, Json]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as fault:
        raise _Denied(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {fault}") from None
    if not isinstance(document, dict):
        raise _Denied(HTTPStatus.BAD_REQUEST, "the body is no JSON object")
    return document


def _question(request: Json) -> TextCompletion | None:
    text = request.get("question") if isinstance(request, Mapping) else None
    if not isinstance(text, str) or not text:
        return None
    system = request.get("systemPrompt")
    return TextCompletion(text=text, system=system if isinstance(system, str) else "")


def _response(answer: Answer | None) -> dict[str, Json]:
    """An answer in the protocol's words, those of both its generations; an error is its text."""
    if answer is None:
        return {"outputMessages": [], "output": [], "rawText": "Error: Missing required field: question"}
    if isinstance(answer.value, Unanswered):
        return {"outputMessages": [], "output": [], "rawText": f"Error: {answer.value.why}"}
    messages = [{"role": "assistant", "content": answer.value}]
    usage = answer.judgement.usage
    tokens = FrozenDict({"input": usage.input_tokens, "output": usage.output_tokens})
    return {"outputMessages": messages, "output": messages, "rawText": answer.value, "tokenUsage": tokens}


def _handler(loopback: Loopback) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 600

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            size = self.headers.get("Content-Length", "")
            if not size.isdecimal() or int(size) > MAX_BODY:
                self.close_connection = True
                self._send(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": "send a Content-Length, at most 4 MB"}
                )
                return
            self._answer(self.rfile.read(int(size)))

        def _answer(self, body: bytes) -> None:
            authorization = self.headers.get("Authorization", "")
            self._send(*loopback.answer(self.command, self.path, authorization, body))

        def _send(self, status: int, document: Json) -> None:
            body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
            with contextlib.suppress(ConnectionError):  # the script has ended meanwhile
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
            """Nothing: a script's calls are not the terminal's business."""

    return Handler
