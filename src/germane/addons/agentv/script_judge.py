"""The script judge: a program of the user's grades one case (the code-judge protocol).

One JSON document goes to the program's stdin, one comes from its stdout: `{score, hits, misses, reasoning, details}`,
or `{score, assertions: [{text, passed, evidence}]}`. A non-zero exit, a time-out, output that is not JSON or has no
score is an error, never a score of 0.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from germane.addons.agentv.loopback import AskJudge, Loopback
from germane.addons.agentv.script import ScriptGrade
from germane.errors import AnswerError
from germane.judges import LocalJudge, Reply
from germane.processes import MAX_STDOUT, Finished, child_environment, run_program
from germane.questions import AnyQuestion
from germane.samples.files import JsonFault
from germane.types import FrozenDict, Json

TAIL = 2000
"""Characters of a program's stderr that an error shows: the last ones."""
NO_JUDGE = "the script asks for a judge (target: max_calls), and none is named: --judge openai:gpt-4o-mini"


class ScriptJudge(LocalJudge):
    """Runs grading programs, each in its own process group with a time-out and a small environment.

    Args:
        concurrency: The number of programs that run at once.
        ask: The judge that a script is lent (`asker.judge`); None lends none.
    """

    name = "script"
    _together = 1

    def __init__(self, concurrency: int = 4, ask: AskJudge | None = None) -> None:
        self.concurrency, self.ask = concurrency, ask

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """Run the script for each question; the replies are in the order of the questions."""
        return [await self._run(question) for question in questions]

    async def _run(self, question: AnyQuestion) -> Reply:
        if not isinstance(question, ScriptGrade):
            return Reply(error=f"a script cannot answer a question of kind {question.kind}")
        if question.max_calls is None:
            return await self._start(question, {})
        if self.ask is None:
            return Reply(error=NO_JUDGE)
        async with Loopback(self.ask, question.max_calls) as lent:
            reply = await self._start(question, lent.environment)
        if lent.stopped is not None:  # its score would rest on questions that nobody answered
            raise lent.stopped
        calls = {"call_count": lent.calls, "max_calls": question.max_calls}
        return replace(reply, provenance=FrozenDict({**reply.provenance, "target_proxy": FrozenDict(calls)}))

    async def _start(self, question: ScriptGrade, own: Mapping[str, str]) -> Reply:
        """Run a question's script and return its reply."""
        document = json.dumps(question.document, ensure_ascii=False).encode("utf-8", "replace")
        environment = child_environment(question.env, own)
        argv = question.argv
        if isinstance(question.command, str):  # a login shell sets PATH anew, without a virtual environment
            argv = (*argv[:-1], f'PATH="$PATH":{shlex.quote(environment["PATH"])}; {argv[-1]}')
        try:
            finished = await run_program(
                argv, cwd=question.cwd, env=environment, seconds=question.timeout, stdin=document
            )
        except OSError as fault:
            theirs = str(fault.strerror or fault)
            why = f"could not start `{question.command_line}` in {question.cwd}: {theirs}"
            return _failed(question, why, theirs, None)
        return _reply(question, finished)


def _reply(question: ScriptGrade, finished: Finished) -> Reply:
    """Return a finished program's answer, or its fault as germane and as AgentV report it."""
    command, ms, seconds = question.command_line, finished.ms, f"after {question.timeout:g} s"
    if finished.timed_out:
        why = f"`{command}` was stopped {seconds}{_printed(question, finished)}"
        return _failed(question, why, f"timed out {seconds}", ms)
    if finished.flooded:
        why = f"`{command}` was stopped: it printed more than {MAX_STDOUT // 1_000_000} MB"
        return _failed(question, why, "stdout is too long", ms)
    if finished.code:
        hint = ""
        if finished.code == 127:
            hint = "is the program installed and on PATH? (`env: [NAME]` passes more variables on)"
        printed = _printed(question, finished) or "; it printed nothing"
        why = f"`{command}` ended with exit code {finished.code}{f' ({hint})' if hint else ''}{printed}"
        stderr, theirs = finished.tail(TAIL), f"Code evaluator exited with code {finished.code}"
        cut = f"...(truncated, last {TAIL} chars)\n" if len(stderr) == TAIL else ""
        return _failed(question, why, f"{theirs}: {cut}{stderr}" if stderr else theirs, ms)
    problem = ""
    try:
        payload = question.printed(finished.stdout.decode("utf-8-sig"))
        question.parse(payload)
    except UnicodeDecodeError:
        problem = "its stdout is not UTF-8"
    except JsonFault as fault:
        problem = f"it printed not one JSON document: {fault}"
    except (ValueError, RecursionError, AnswerError) as fault:
        problem = str(fault)
    if problem and not question.agentv:
        return Reply(error=f"`{command}`: {problem}{_printed(question, finished)}", ms=ms)
    return Reply(
        payload=_agentv_payload(finished.stdout) if problem else payload, ms=ms, provenance=_of(question)
    )


_NAME = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_KEYS = ("_KEY", "_TOKEN", "_SECRET")


def _printed(question: ScriptGrade, finished: Finished) -> str:
    """Return the tail of a program's output for an error message, with advice about an environment variable that it lacked."""
    ends = {
        "stderr": finished.tail(TAIL),
        "stdout": finished.stdout.decode("utf-8", "replace").strip()[-TAIL:],
    }
    text = "".join(f"; its {name} ends: {end}" for name, end in ends.items() if end)
    passed = child_environment(question.env)
    for name in _NAME.findall(text):
        if name not in passed and (name in os.environ or name.endswith(_KEYS)):
            state = "is set here and was not passed on" if name in os.environ else "is not set here: set it"
            return f"{text} ({name} {state}; write `env: [{name}]`)"
    return text


def _failed(question: ScriptGrade, why: str, theirs: str, ms: float | None) -> Reply:
    """Return the reply of a program that failed: an error with `why`, or for AgentV a score of 0 with its words, `theirs`."""
    if not question.agentv:
        return Reply(error=why, ms=ms)
    payload = {"score": 0, "misses": [f"Code evaluator failed: {theirs}"], "reasoning": theirs}
    return Reply(payload=payload, ms=ms, provenance=_of(question))


def _agentv_payload(stdout: bytes) -> dict[str, Json]:
    """Return the result that AgentV reads from a program's output: without an object, or a number as score, it is 0."""
    try:
        payload = json.loads(stdout.decode("utf-8-sig"), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        payload = None
    result = dict(payload) if isinstance(payload, dict) else {}
    score = result.get("score")
    number = isinstance(score, int | float) and not isinstance(score, bool)
    return {**result, "score": score if number else 0, "assertions": []}


def _of(question: ScriptGrade) -> FrozenDict:
    return FrozenDict(of=question.of) if question.of else FrozenDict()
