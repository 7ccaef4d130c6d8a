"""The judge that a grading script is lent: a server on 127.0.0.1 that puts its questions to the evaluation's own judge.

What is asked goes through the ledger and counts against the budget like any other question.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, TypeAlias

from germane.errors import GermaneError
from germane.judging.programs import Answer, Unanswered
from germane.judging.questions.templated import Completion
from germane.types import FrozenDict, Json

__all__ = ["AskJudge", "Loopback"]

AskJudge: TypeAlias = Callable[[Sequence[Completion]], Awaitable[Sequence[Answer]]]
"""Who answers: `pool.judge`."""
MAX_BODY = 4_000_000
"""Bytes of a request that are read."""


class Loopback:
    """Lends a judge for at most `max_calls` calls; an async context manager.

    `GET /info` tells the limit and the calls so far, `POST /invoke {question, systemPrompt?}` asks once,
    `POST /invokeBatch {requests: [...]}` several times at once; every request needs the bearer token.

    Attributes:
        calls: How many calls were made.
        environment: The variables that tell a script where the server is, and its token.
    """

    def __init__(self, ask: AskJudge, max_calls: int, name: str = "judge") -> None:
        self._ask, self.max_calls, self.name = ask, max_calls, name
        self.calls = 0
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
        if not hmac.compare_digest(authorization.encode(), f"Bearer {self.token}".encode()):
            return HTTPStatus.UNAUTHORIZED, {"error": "Unauthorized"}
        if (method, path) == ("GET", "/info"):
            found = {"targetName": self.name, "maxCalls": self.max_calls, "callCount": self.calls}
            return HTTPStatus.OK, {**found, "availableTargets": [self.name]}
        if method != "POST" or path not in {"/invoke", "/invokeBatch"}:
            return HTTPStatus.NOT_FOUND, {"error": "Not found"}
        try:
            document = json.loads(body)
        except (ValueError, RecursionError) as fault:
            return HTTPStatus.BAD_REQUEST, {"error": f"the body is not JSON: {fault}"}
        many = path == "/invokeBatch"
        requests = document.get("requests") if many and isinstance(document, dict) else [document]
        if not isinstance(requests, list):
            return HTTPStatus.BAD_REQUEST, {"error": "Missing required field: requests (array)"}
        questions = [_question(request) for request in requests]
        if not many and questions[0] is None:
            return HTTPStatus.BAD_REQUEST, {"error": "Missing required field: question"}
        asked = [question for question in questions if question is not None]
        if not self._count(len(asked)):
            return HTTPStatus.TOO_MANY_REQUESTS, {"error": f"Max calls exceeded (limit: {self.max_calls})"}
        try:
            answers = iter(asyncio.run_coroutine_threadsafe(self._asked(asked), self._loop).result())
        except (GermaneError, asyncio.CancelledError) as stopped:
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(stopped) or "the evaluation was stopped"}
        if many:
            return HTTPStatus.OK, {"responses": [_response(next(answers) if q else None) for q in questions]}
        answer = next(answers)
        if isinstance(answer.value, Unanswered):
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": answer.value.why}
        return HTTPStatus.OK, _response(answer)

    async def _asked(self, questions: Sequence[Completion]) -> Sequence[Answer]:
        return await self._ask(questions) if questions else ()

    def _count(self, calls: int) -> bool:
        """Whether so many more calls are allowed; they are counted then."""
        with self._counting:
            if self.calls + calls > self.max_calls:
                return False
            self.calls += calls
            return True


def _question(request: Json) -> Completion | None:
    text = request.get("question") if isinstance(request, Mapping) else None
    if not isinstance(text, str) or not text:
        return None
    system = request.get("systemPrompt")
    return Completion(text=text, system=system if isinstance(system, str) else "")


def _response(answer: Answer | None) -> dict[str, Json]:
    """An answer in the protocol's words, those of both its generations; an error is its text."""
    if answer is None:
        return {"outputMessages": [], "output": [], "rawText": "Error: Missing required field: question"}
    if isinstance(answer.value, Unanswered):
        return {"outputMessages": [], "output": [], "rawText": f"Error: {answer.value.why}"}
    said = [{"role": "assistant", "content": answer.value}]
    usage = answer.judgement.usage
    tokens = FrozenDict({"input": usage.input_tokens, "output": usage.output_tokens})
    return {"outputMessages": said, "output": said, "rawText": answer.value, "tokenUsage": tokens}


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
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: a script's calls are not the terminal's business."""

    return Handler
