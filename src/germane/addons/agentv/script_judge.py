"""The script judge: the user's program grades one case (the code-judge protocol).

The program reads one JSON document on stdin and prints one on stdout: `{score, hits, misses, reasoning,
details}`, or `{score, assertions: [{text, passed, evidence}]}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import secrets
import shlex
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, TypeAlias

from germane.addons.agentv.graders.code_grader import ScriptGrade, TextCompletion
from germane.errors import AnswerError, GermaneError
from germane.judges import LocalJudge, Reply
from germane.processes import MAX_STDOUT, Program, child_environment, run_program
from germane.questions import AnyQuestion
from germane.questions.asking import Answer, Unanswered
from germane.samples.strictjson import JsonFault, parse_strict_json
from germane.types import FrozenDict, Json

AskJudge: TypeAlias = Callable[[Sequence[TextCompletion]], Coroutine[Any, Any, Sequence[Answer]]]
"""A function that asks the judge and returns its answers, such as `asker.judge`."""
MAX_BODY = 4_000_000
"""The most bytes in a request's body; a larger request is refused."""
_NO_QUESTION = "Missing required field: question"


class Loopback(ThreadingHTTPServer):
    """A local HTTP server through which a script calls the judge, at most `max_calls` times.

    It is an async context manager that runs the server. `GET /info` returns the limit and the number of calls
    so far. `POST /invoke {question, systemPrompt?}` asks one question, and `POST /invokeBatch {requests:
    [...]}` several. Every request needs the bearer token. `environment` holds the variables in which a script
    finds the server's address and token. `stopped` is the error that ended the evaluation during a call, or
    None.
    """

    daemon_threads = True

    def __init__(self, ask: AskJudge, max_calls: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._ask, self.max_calls = ask, max_calls
        self.calls = 0
        self.stopped: GermaneError | None = None
        self._token = secrets.token_hex(32)
        self._counting = threading.Lock()
        url = f"http://127.0.0.1:{self.server_address[1]}"
        self.environment = {"AGENTV_TARGET_PROXY_URL": url, "AGENTV_TARGET_PROXY_TOKEN": self._token}

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.shutdown)
        self.server_close()

    def answer(self, asked: str, authorization: str, body: bytes) -> Json:
        """Return the JSON response to a request; called in a thread of the server."""
        if not hmac.compare_digest(authorization.encode(), f"Bearer {self._token}".encode()):
            raise _Denied(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        if asked == "GET /info":
            named = {"targetName": "judge", "availableTargets": ["judge"]}
            return {**named, "maxCalls": self.max_calls, "callCount": self.calls}
        if asked not in {"POST /invoke", "POST /invokeBatch"}:
            raise _Denied(HTTPStatus.NOT_FOUND, "Not found")
        try:
            document = dict(json.loads(body))
        except (ValueError, TypeError, RecursionError) as fault:
            raise _Denied(HTTPStatus.BAD_REQUEST, f"the body is not a JSON object: {fault}") from None
        is_batch = asked == "POST /invokeBatch"
        requests = document.get("requests") if is_batch else [document]
        if not isinstance(requests, list):
            raise _Denied(HTTPStatus.BAD_REQUEST, "Missing required field: requests (array)")
        questions = list(map(_question, requests))
        valid = [question for question in questions if question is not None]
        with self._counting:
            if valid and self.calls + len(valid) > self.max_calls:
                raise _Denied(HTTPStatus.TOO_MANY_REQUESTS, f"Max calls exceeded (limit: {self.max_calls})")
            self.calls += len(valid)
        try:  # in the event loop of the evaluation
            answers = iter(asyncio.run_coroutine_threadsafe(self._ask(valid), self._loop).result())
        except (GermaneError, CancelledError) as stopped:
            self.stopped = stopped if isinstance(stopped, GermaneError) else None
            why = str(stopped) or "the evaluation was stopped"
            raise _Denied(HTTPStatus.SERVICE_UNAVAILABLE, why) from None
        results = [None if question is None else next(answers) for question in questions]
        if is_batch:
            return {"responses": list(map(_response, results))}
        (result,) = results
        if result is None:
            raise _Denied(HTTPStatus.BAD_REQUEST, _NO_QUESTION)
        if isinstance(result.value, Unanswered):
            raise _Denied(HTTPStatus.INTERNAL_SERVER_ERROR, result.value.why)
        return _response(result)


class _Denied(Exception):
    """Raised to refuse an HTTP request, with the status and the reason."""


def _question(request: Json) -> TextCompletion | None:
    text = request.get("question") if isinstance(request, Mapping) else None
    if not isinstance(text, str) or not text:
        return None
    system = request.get("systemPrompt")
    return TextCompletion(text=text, system=system if isinstance(system, str) else "")


def _response(answer: Answer | None) -> dict[str, Json]:
    """Return the JSON response with the judge's answer or error, with the keys of AgentV 2 and 4."""
    if answer is None or isinstance(answer.value, Unanswered):
        why = _NO_QUESTION if answer is None else answer.value.why
        return {"outputMessages": [], "output": [], "rawText": f"Error: {why}"}
    messages, usage = [{"role": "assistant", "content": answer.value}], answer.judgement.usage
    tokens = {"input": usage.input_tokens, "output": usage.output_tokens}
    return {"outputMessages": messages, "output": messages, "rawText": answer.value, "tokenUsage": tokens}


class _Handler(BaseHTTPRequestHandler):
    server: Loopback
    protocol_version = "HTTP/1.1"
    timeout = 600

    def do_GET(self) -> None:
        size = self.headers.get("Content-Length", "0")
        if not size.isdecimal() or int(size) > MAX_BODY:
            self.close_connection = True
            self._send(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": "send a Content-Length of at most 4 MB"}
            )
            return
        body, authorization = self.rfile.read(int(size)), self.headers.get("Authorization", "")
        try:
            self._send(HTTPStatus.OK, self.server.answer(f"{self.command} {self.path}", authorization, body))
        except _Denied as denied:
            status, why = denied.args
            self._send(status, {"error": why})

    def do_POST(self) -> None:
        self.do_GET()

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


TAIL = 2000
"""The most characters of a program's output that an error shows: the end of the output."""
NO_JUDGE = "the script needs a judge (target: max_calls), but none is named; give --judge openai:gpt-4o-mini"


class ScriptJudge(LocalJudge):
    """Answers ScriptGrade questions by running grading programs, each with a time-out.

    At most `concurrency` programs run at the same time. `ask` calls the judge for programs that may use one;
    None means that there is no judge.
    """

    name = "script"
    _together = 1

    def __init__(self, concurrency: int = 4, ask: AskJudge | None = None) -> None:
        self.concurrency, self.ask = concurrency, ask

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """Run the program of each question in turn, and return the replies in the same order."""
        replies = []
        for question in questions:
            assert isinstance(question, ScriptGrade)
            if question.max_calls is None:
                replies.append(await _run(question, {}))
            elif self.ask is None:
                replies.append(Reply(error=NO_JUDGE))
            else:
                async with Loopback(self.ask, question.max_calls) as lent:
                    reply = await _run(question, lent.environment)
                if lent.stopped is not None:  # its score would be computed without some of the answers
                    raise lent.stopped
                calls = {"call_count": lent.calls, "max_calls": question.max_calls}
                shown = FrozenDict({**reply.provenance, "target_proxy": FrozenDict(calls)})
                replies.append(replace(reply, provenance=shown))
        return replies


async def _run(question: ScriptGrade, own: Mapping[str, str]) -> Reply:
    """Run a question's program, with the extra environment variables `own`.

    The reply holds the result that the program printed, or an error if it failed. With AgentV compatibility,
    a failed program has the score 0.
    """
    document = json.dumps(question.document, ensure_ascii=False).encode("utf-8", "replace")
    environment = child_environment(question.env, own)
    argv, command = question.argv, question.command
    if isinstance(command, str):  # a login shell sets PATH anew, without a virtual environment
        argv = (*argv[:-1], f'PATH="$PATH":{shlex.quote(environment["PATH"])}; {argv[-1]}')
    else:
        command = shlex.join(command)
    provenance = FrozenDict(of=question.of)
    try:
        finished = await run_program(
            argv, cwd=question.cwd, env=environment, seconds=question.timeout, stdin=document
        )
    except OSError as fault:
        failed, ms = f"could not start `{command}` in {question.cwd}: {fault.strerror or fault}", None
    else:
        failed, ms = _failure(question, command, finished), finished.ms
    if failed and not question.agentv:
        return Reply(error=failed, ms=ms)
    if failed:
        payload: Json = {"score": 0, "misses": [f"Code evaluator failed: {failed}"], "reasoning": failed}
        return Reply(payload=payload, ms=ms, provenance=provenance)
    payload, problem = None, ""
    try:
        text = finished.stdout.decode("utf-8-sig")
        lenient = question.agentv  # a key may then be repeated, and its last value counts
        payload = json.loads(text, parse_constant=lambda _: None) if lenient else parse_strict_json(text)
        question.parse(payload)
    except UnicodeDecodeError:
        problem = "its stdout is not UTF-8"
    except JsonFault as fault:
        problem = f"it must print one JSON document: {fault}"
    except (ValueError, RecursionError, AnswerError) as fault:
        problem = str(fault)
    if problem and not question.agentv:
        return Reply(error=f"`{command}`: {problem}{_printed(finished)}", ms=ms)
    if problem:  # AgentV reads a number as the score, and 0 from anything else
        result = payload if isinstance(payload, dict) else {}
        score = result.get("score")
        number = isinstance(score, int | float) and not isinstance(score, bool)
        payload = {**result, "score": score if number else 0, "assertions": []}
    return Reply(payload=payload, ms=ms, provenance=provenance)


def _failure(question: ScriptGrade, command: str, finished: Program) -> str:
    """Return why a program that ended has failed, or "" if it has not."""
    if finished.timed_out:
        return f"`{command}` was stopped after {question.timeout:g} s{_printed(finished)}"
    if finished.flooded:
        return f"`{command}` was stopped: it printed more than {MAX_STDOUT // 1_000_000} MB"
    if not finished.code:
        return ""
    if question.agentv:  # in AgentV's words
        code, stderr = f"Code evaluator exited with code {finished.code}", finished.tail(TAIL)
        return f"{code}: {stderr}" if stderr else code
    hint = "is the program installed and on PATH? " if finished.code == 127 else ""
    hint += "`env: [NAME]` passes more environment variables on"
    printed = _printed(finished) or "; it printed nothing"
    return f"`{command}` ended with exit code {finished.code} ({hint}){printed}"


def _printed(finished: Program) -> str:
    """Return the end of a program's stderr and stdout for an error message, or "" if both are empty."""
    stdout = finished.stdout.decode("utf-8", "replace").strip()[-TAIL:]
    ends = {"stderr": finished.tail(TAIL), "stdout": stdout}
    return "".join(f"; its {name} ends: {end}" for name, end in ends.items() if end)
