"""A system that is a command: the prompt goes in quoted, the answer comes from its output file or its stdout."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr

from germane.errors import InputError, Place, TargetError
from germane.processes import MAX_STDOUT, child_environment, has_files, misplaced, run_program
from germane.samples.evalfile import Case
from germane.samples.validation import Wrong
from germane.samples.yamltext import Positive, plain_value
from germane.targets.target import Target
from germane.types import Json

_SLOT = re.compile(r"\{(PROMPT|EVAL_ID|ATTEMPT|FILES|OUTPUT_FILE)\}")
_TAIL = 2000
_ANSWERS = {"text", "output_messages", "outputMessages", "output"}
_PASSED_ON = ("TMP", "TZ", "SHELL", "USER", "LOGNAME", "COMSPEC", "USERPROFILE", "APPDATA", "LOCALAPPDATA")
"""Variables of the environment that a command gets besides those of every program: none of them is a secret."""


def _environment(value: Any) -> Json:
    """`env: {NAME: value}` sets variables, `env: [NAME]` passes them on."""
    given = plain_value(value)
    if isinstance(given, dict):
        return {name: str(inner) for name, inner in given.items()}
    names = given if isinstance(given, list) else [given]
    return {str(name): os.environ[str(name)] for name in names if str(name) in os.environ}


def _with_question(template: str) -> str:
    if "{PROMPT}" not in template and "{EVAL_ID}" not in template:
        raise Wrong("is told no question", "put {PROMPT} where the question belongs; it comes quoted")
    return template


class CliTarget(Target):
    """Runs a command for each query, in `cwd`, for at most `timeout` seconds.

    `cwd` is relative to the targets file's folder; where the files that the command names stand in the eval file's
    folder instead (AgentV starts there), to that one.

    The command sees an allow-list of the environment's variables, and those that `env` names or sets.
    """

    aliases: ClassVar = {"command_template": ("command",), "timeout": ("timeout_seconds",)}

    command_template: Annotated[
        str, Field(examples=["my-rag --out {OUTPUT_FILE} {PROMPT}"]), AfterValidator(_with_question)
    ]
    cwd: str = ""
    timeout: Positive = 120.0
    env: Annotated[dict[str, str], BeforeValidator(_environment)] = Field(default_factory=dict)
    _folder: Path = PrivateAttr(default_factory=Path)

    def open(self, place: Place, folder: Path, evals: Path) -> None:
        """Find the folder that it starts in."""
        usual = folder.parent if folder.name == ".agentv" else folder
        starts = [(start / self.cwd).resolve() for start in ((folder, evals) if self.cwd else (usual, evals))]
        self._folder = next(
            (one for one in starts if one.is_dir() and has_files(self.command_template, one)), starts[0]
        )
        if not self._folder.is_dir():
            problem = f"the target {self.name} starts in {self._folder}, which is no folder"
            raise InputError(problem, fix="name a folder, relative to the targets file", place=place)

    async def ask(self, case: Case) -> Json:
        """The command's answer; TargetError with the end of its stderr where it failed."""
        with tempfile.TemporaryDirectory(prefix="germane-") as folder:
            output = Path(folder) / "answer.json"
            stdout = await self._run(_filled(self.command_template, case, output))
            if "{OUTPUT_FILE}" not in self.command_template:
                return stdout.strip()
            if not output.exists():
                raise TargetError("the command wrote nothing to OUTPUT_FILE")
            return _read(output)

    async def _run(self, command: str) -> str:
        """The stdout of a command; its whole process group is gone afterwards, whatever happens."""
        argv = ["cmd", "/c", command] if sys.platform == "win32" else ["sh", "-c", command]
        environment = child_environment(_PASSED_ON, self.env)
        try:
            finished = await run_program(argv, cwd=self._folder, env=environment, seconds=self.timeout)
        except (OSError, ValueError) as error:
            raise TargetError(f"the command cannot be started in {self._folder}: {error}") from None
        if finished.timed_out:
            raise TargetError(f"the command took more than {self.timeout:g} s")
        if finished.flooded:
            raise TargetError(f"the command printed more than {MAX_STDOUT // 1_000_000} MB")
        if finished.code:
            tail = finished.tail(_TAIL) or "its stderr is empty"
            hint = misplaced(command, self._folder)
            why = f" ({hint})" if hint else ""
            raise TargetError(f"the command ended with exit code {finished.code}{why}: {tail}")
        return finished.stdout.decode("utf-8", "replace")


def _filled(template: str, case: Case, output: Path) -> str:
    """The command with every slot filled, each value quoted for the shell; in one pass, so no value is a slot."""
    sample = case.sample
    values = {
        "PROMPT": shlex.quote(sample.query),
        "EVAL_ID": shlex.quote(sample.id),
        "ATTEMPT": str(sample.trial),
        "FILES": " ".join(map(shlex.quote, (*case.guideline_files, *case.input_files))),
        "OUTPUT_FILE": shlex.quote(str(output)),
    }
    return _SLOT.sub(lambda slot: values[slot[1]], template)


def _read(output: Path) -> Json:
    """The content of an output file: an object with text, output_messages or output, else its raw text."""
    text = output.read_text(encoding="utf-8", errors="replace")
    try:
        document: Json = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return document if isinstance(document, dict) and document.keys() & _ANSWERS else text
