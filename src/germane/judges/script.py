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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from germane.errors import AnswerError
from germane.judges.judge import LocalJudge, Reply
from germane.questions.question import AnyQuestion
from germane.questions.script import ScriptGrade
from germane.types import FrozenDict

__all__ = ["ScriptJudge"]

_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "SYSTEMROOT",
              "AGENTV_TARGET_PROXY_URL", "AGENTV_TARGET_PROXY_TOKEN")  # fmt: skip
_TAIL = 2000


class ScriptJudge(LocalJudge):
    """Runs grading programs, each in its own process group with a time-out and a small environment."""

    name = "script"

    def __init__(self, concurrency: int = 4) -> None:
        self.concurrency = concurrency

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        """One process per question."""
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
    stderr = err.decode("utf-8", "replace")[-_TAIL:].strip()
    command = shlex.join(question.argv)
    if code:
        hint = (
            "; is the program installed and on PATH? (`env: [NAME]` passes more variables on)"
            if code == 127
            else ""
        )
        return Reply(
            error=f"`{command}` ended with exit code {code}{hint}: {stderr or 'nothing on stderr'}", ms=ms
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
            else f"`{command}`: {why}{': ' + stderr if stderr else ''}",
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
