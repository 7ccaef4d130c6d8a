"""A system that is a command: the prompt goes in quoted, the answer comes from its output file or its stdout."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from germane.errors import InputError, TargetError
from germane.samples.cases import Case
from germane.samples.section import Section
from germane.targets.answers import complete
from germane.targets.entry import Entry
from germane.targets.target import Asked, sample_of
from germane.types import Json, Sample

__all__ = ["CliTarget", "open_cli"]

_SLOT = re.compile(r"\{(PROMPT|EVAL_ID|ATTEMPT|FILES|OUTPUT_FILE)\}")
_TAIL = 2000
_KNOWN = ("text", "output_messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class CliTarget:
    """Runs a command for each query, in `cwd`, for at most `timeout` seconds; `env` adds to the environment."""

    name: str
    template: str
    cwd: Path
    timeout: float = 120.0
    env: Mapping[str, str]
    workers: int = 4
    live: ClassVar[bool] = True

    async def answer(self, asked: Asked) -> Sample:
        """What the command answered; TargetError with the end of its stderr where it failed."""
        with tempfile.TemporaryDirectory(prefix="germane-") as folder:
            output = Path(folder) / "answer.json"
            started = time.monotonic()
            stdout = await self._run(_filled(self.template, asked, output))
            ms = (time.monotonic() - started) * 1000
            if "{OUTPUT_FILE}" not in self.template:
                return complete(asked, stdout.strip(), ms=ms)
            if not output.exists():
                raise TargetError("the command wrote nothing to OUTPUT_FILE")
            return complete(asked, _read(output), ms=ms)

    async def close(self) -> None:
        """Nothing to let go of: every process ended with its answer."""

    async def _run(self, command: str) -> str:
        """The stdout of a command; its whole process group is gone afterwards, whatever happens."""
        try:
            process = await asyncio.create_subprocess_exec(
                *_shell(command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self.cwd,
                env={**os.environ, **self.env},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise TargetError(f"the command cannot be started in {self.cwd}: {error}") from None
        try:
            out, err = await asyncio.wait_for(process.communicate(), self.timeout)
        except TimeoutError:
            raise TargetError(f"the command took more than {self.timeout:g} s") from None
        finally:
            await _end(process)
        if process.returncode:
            said = err.decode("utf-8", "replace").strip()[-_TAIL:] or "its stderr is empty"
            raise TargetError(f"the command ended with exit code {process.returncode}: {said}")
        return out.decode("utf-8", "replace")


def _shell(command: str) -> list[str]:
    return ["cmd", "/c", command] if sys.platform == "win32" else ["sh", "-c", command]


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill what is left of a process and of everything that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _filled(template: str, asked: Asked, output: Path) -> str:
    """The command with every slot filled, each value quoted for the shell; in one pass, so no value is a slot."""
    sample = sample_of(asked)
    files = (*asked.guideline_files, *asked.input_files) if isinstance(asked, Case) else ()
    values = {
        "PROMPT": shlex.quote(sample.query),
        "EVAL_ID": shlex.quote(sample.id),
        "ATTEMPT": str(sample.trial),
        "FILES": " ".join(map(shlex.quote, files)),
        "OUTPUT_FILE": shlex.quote(str(output)),
    }
    return _SLOT.sub(lambda slot: values[slot[1]], template)


def _read(output: Path) -> Any:
    """What an output file says: an object with text or output_messages, else its raw text."""
    text = output.read_text(encoding="utf-8", errors="replace")
    try:
        document: Json = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(document, dict) or not any(key in document for key in _KNOWN):
        return text
    return document


def open_cli(entry: Entry, section: Section) -> CliTarget:
    """The command that an entry of a targets file describes."""
    template = section.text("command_template", "command")
    if not template:
        fix = "write command_template: my-rag --out {OUTPUT_FILE} {PROMPT}"
        raise InputError(f"the target {entry.name} has no command_template", fix=fix, place=entry.place)
    if "{PROMPT}" not in template and "{EVAL_ID}" not in template:
        fix = "put {PROMPT} where the question belongs; it comes quoted"
        raise InputError(f"the command of {entry.name} is told no question", fix=fix, place=entry.place)
    given = section.text("cwd")
    cwd = (
        entry.path(given)
        if given
        else entry.folder.parent
        if entry.folder.name == ".agentv"
        else entry.folder
    )
    if not cwd.is_dir():
        fix = "name a folder, relative to the targets file"
        raise InputError(
            f"the target {entry.name} starts in {cwd}, which is no folder", fix=fix, place=entry.place
        )
    timeout = section.number("timeout", "timeout_seconds", low=0.001)
    return CliTarget(
        name=entry.name,
        template=template,
        cwd=cwd,
        timeout=120.0 if timeout is None else timeout,
        env={key: str(value) for key, value in section.mapping("env").items()},
        workers=entry.workers or 4,
    )
