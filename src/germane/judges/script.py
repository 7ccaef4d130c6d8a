"""The script judge: a program of the user's grades one case (the code-judge protocol).

One JSON document goes to the program's stdin, one comes from its stdout: `{score, hits, misses, reasoning, details}`,
or `{score, assertions: [{text, passed, evidence}]}`. A non-zero exit, a time-out, output that is not JSON or has no
score is an error, never a score of 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from germane.errors import AnswerError
from germane.judges.judge import LocalJudge, Reply
from germane.questions import AnyQuestion, Question
from germane.types import FrozenDict, Json

__all__ = ["ScriptGrade", "ScriptJudge", "ScriptResult", "read_result"]

_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "SYSTEMROOT",
              "AGENTV_TARGET_PROXY_URL", "AGENTV_TARGET_PROXY_TOKEN")  # fmt: skip
_TAIL = 2000


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """What a grading program said: a score from 0 to 1, and what it rests on."""

    score: float
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str = ""
    details: FrozenDict = field(default_factory=FrozenDict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptGrade(Question[ScriptResult]):
    """Grade this case with this command: a list is argv, a string runs through `sh -lc`."""

    kind: ClassVar[str] = "script"

    command: str | tuple[str, ...]
    document: FrozenDict
    cwd: str = "."
    timeout: float = 120.0
    env: tuple[str, ...] = ()
    of: tuple[str, ...] = field(default=(), compare=False)
    """Sample, system, trial and grader: by these the judgement is found again, when someone looks."""

    @property
    def about(self) -> str:
        """The document that the program reads."""
        return json.dumps(self.document, ensure_ascii=False)

    @property
    def argv(self) -> tuple[str, ...]:
        """The program and its arguments."""
        return ("sh", "-lc", self.command) if isinstance(self.command, str) else self.command

    def inputs(self) -> dict[str, Json]:
        """Command, place and document."""
        return {"argv": list(self.argv), "cwd": self.cwd, "document": self.document}

    def schema(self) -> dict[str, Json]:
        """What the protocol asks of a program."""
        return {"type": "object", "properties": {"score": {"type": "number"}}, "required": ["score"]}

    def read(self, payload: Json) -> ScriptResult:
        """The result, with the score clamped to 0..1 as the protocol has it."""
        return read_result(payload)

    def checked(self, payload: Json) -> Json:
        """The whole document: a program may say more than is scored."""
        self.read(payload)
        return payload

    def typical(self) -> Json:
        """A score."""
        return {"score": 0.5, "hits": [], "misses": [], "reasoning": ""}


def read_result(payload: Json) -> ScriptResult:
    """A grading program's document, either generation; AnswerError where it holds no score."""
    if not isinstance(payload, Mapping):
        raise AnswerError(f"the script must print one JSON object, not {type(payload).__name__}")
    checks = payload.get("assertions") or ()
    if not isinstance(checks, Sequence) or not all(isinstance(check, Mapping) for check in checks):
        raise AnswerError('"assertions" must be a list of {text, passed, evidence}')
    score = payload.get("score")
    if score is None and checks:
        score = sum(bool(check.get("passed")) for check in checks) / len(checks)
    if isinstance(score, bool) or not isinstance(score, int | float) or score != score:  # noqa: PLR0124 - NaN
        raise AnswerError(f'the script printed no number as "score": {json.dumps(score)[:80]}')
    passed = [str(check.get("text", "")) for check in checks if check.get("passed")]
    failed = [str(check.get("text", "")) for check in checks if not check.get("passed")]
    details = payload.get("details")
    return ScriptResult(
        score=min(1.0, max(0.0, float(score))),
        hits=tuple(map(str, payload.get("hits") or passed)),
        misses=tuple(map(str, payload.get("misses") or failed)),
        reasoning=str(payload.get("reasoning") or ""),
        details=FrozenDict(details) if isinstance(details, Mapping) else FrozenDict(),
    )


class ScriptJudge(LocalJudge):
    """Runs grading programs, each in its own process group with a time-out and a small environment."""

    name = "script"

    def __init__(self, concurrency: int = 4) -> None:
        self.concurrency = concurrency

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        """One process a question."""
        return [(question,) for question in questions]

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """The one script's reply."""
        return [await self._run(question) for question in questions]

    async def _run(self, question: AnyQuestion) -> Reply:
        if not isinstance(question, ScriptGrade):
            return Reply(error=f"a script cannot answer a question of kind {question.kind}")
        began = time.monotonic()
        try:
            process = await asyncio.create_subprocess_exec(
                *question.argv, cwd=question.cwd, env=_environment(question.env), start_new_session=True,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
        except OSError as fault:
            return Reply(
                error=f"could not start `{shlex.join(question.argv)}` in {question.cwd}: {fault.strerror or fault}"
            )
        try:
            document = json.dumps(question.document, ensure_ascii=False).encode("utf-8", "replace")
            out, err = await asyncio.wait_for(process.communicate(document), question.timeout)
        except TimeoutError:
            return Reply(error=f"`{shlex.join(question.argv)}` was stopped after {question.timeout:g} s")
        finally:
            _end(process)
        return _reply(question, process.returncode or 0, out, err, (time.monotonic() - began) * 1000)


def _reply(question: ScriptGrade, code: int, out: bytes, err: bytes, ms: float) -> Reply:
    said = err.decode("utf-8", "replace")[-_TAIL:].strip()
    command = shlex.join(question.argv)
    if code:
        hint = (
            "; is the program installed and on PATH? (`env: [NAME]` passes more variables on)"
            if code == 127
            else ""
        )
        return Reply(
            error=f"`{command}` ended with exit code {code}{hint}: {said or 'nothing on stderr'}", ms=ms
        )
    try:
        payload: Any = json.loads(out.decode("utf-8-sig"), parse_constant=lambda _: None)
        question.read(payload)
    except (ValueError, AnswerError) as fault:
        shown = out.decode("utf-8", "replace").strip()[:200]
        why = str(fault) if isinstance(fault, AnswerError) else f"not one JSON document: {shown!r}"
        return Reply(
            error=f"`{command}` printed {why}"
            if why.startswith("not")
            else f"`{command}`: {why}{': ' + said if said else ''}",
            ms=ms,
        )
    return Reply(payload=payload, ms=ms, provenance=FrozenDict(of=question.of))


def _environment(names: Sequence[str]) -> dict[str, str]:
    wanted = {*_PASSED_ON, *names}
    passed = {name: value for name, value in os.environ.items() if name in wanted or name.startswith("LC_")}
    # last, so that nothing of the user's changes: a script that calls `germane` finds the one that runs it
    return {
        **passed,
        "PATH": os.pathsep.join([passed.get("PATH", os.defpath), str(Path(sys.executable).parent)]),
    }


def _end(process: asyncio.subprocess.Process) -> None:
    """Whatever the script started ends with it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
