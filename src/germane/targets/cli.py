"""A system that is a command: it gets the prompt as a variable, and answers in its output file or on stdout."""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, PlainValidator, PrivateAttr

from germane.errors import InputError, Invalid, SourceLocation, TargetError, describe
from germane.evalfiles.case import Case
from germane.processes import MAX_STDOUT, child_environment, files_in, misplaced, run_program
from germane.targets.shelltext import argv, check_slots, variables, with_variables
from germane.targets.target import LARGEST, Target
from germane.types import Json
from germane.yamltext import Positive, plain_value

_TAIL = 2000
_ANSWERS = {"text", "output_messages", "outputMessages", "output"}
_PASSED_ON = ("TMP", "TZ", "SHELL", "USER", "LOGNAME", "COMSPEC", "USERPROFILE", "APPDATA", "LOCALAPPDATA")
"""Variables of the environment that a command gets besides those of every program: none of them is a secret."""


def _environment(value: Any) -> Json:
    """Return variables: `env: {NAME: value}` sets them, `env: [NAME]` passes them on."""
    content = plain_value(value)
    if isinstance(content, dict):
        return {name: str(inner) for name, inner in content.items()}
    names = content if isinstance(content, list) else [content]
    return {str(name): os.environ[str(name)] for name in names if str(name) in os.environ}


def _command(value: Any) -> str | tuple[str, ...]:
    """Return a text for a shell, or a list of a program and its arguments."""
    content = plain_value(value)
    words = [content] if isinstance(content, str) else content
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise Invalid(f"is {describe(content)}", "write a command: my-rag {PROMPT}")
    if not any(name in word for name in ("PROMPT", "EVAL_ID") for word in words):
        raise Invalid("is told no question", "put {PROMPT} where the question belongs; it is one word")
    if isinstance(content, str):
        check_slots(content)
        return str(content)
    return tuple(map(str, words))


class CliTarget(Target):
    """Runs a command for each query, in `cwd`, for at most `timeout` seconds.

    A text is read by a shell, in which `{PROMPT}` is the quoted variable `"$GERMANE_PROMPT"`; a list is a program and its
    arguments, in which `{PROMPT}` is the query itself. `{EVAL_ID}`, `{ATTEMPT}` and `{OUTPUT_FILE}` go in the same way,
    and `{FILES}` as a word per file (`$GERMANE_FILE_1`).

    `cwd` is relative to the targets file's folder; where the files that the command names stand in the eval file's
    folder instead (AgentV starts there), to that one.

    The command sees an allow-list of the environment's variables, and those that `env` names or sets.
    """

    aliases: ClassVar = {"command_template": ("command",), "timeout": ("timeout_seconds",)}

    command_template: Annotated[
        str | tuple[str, ...],
        Field(examples=["my-rag --out {OUTPUT_FILE} {PROMPT}"]),
        PlainValidator(_command, json_schema_input_type=str | list[str]),
    ]
    cwd: Annotated[str, Field(pattern=r"^[^\x00]*$")] = ""
    timeout: Positive = 120.0
    max_mb: Positive = LARGEST
    env: Annotated[dict[str, str], BeforeValidator(_environment)] = Field(default_factory=dict)
    _folder: Path = PrivateAttr(default_factory=Path)

    def open(self, location: SourceLocation, folder: Path, evals: Path) -> None:
        """Find the folder that it starts in."""
        usual = folder.parent if folder.name == ".agentv" else folder
        starts = [(start / self.cwd).resolve() for start in ((folder, evals) if self.cwd else (usual, evals))]
        named = files_in(self.command_template)
        self._folder = next(
            (start for start in starts if start.is_dir() and all((start / file).exists() for file in named)),
            starts[0],
        )
        if not self._folder.is_dir():
            problem = f"the target {self.name} starts in {self._folder}, which is not a folder"
            raise InputError(problem, fix="name a folder, relative to the targets file", place=location)

    async def ask(self, case: Case) -> Json:
        """Return the command's answer; TargetError with the end of its stderr if it failed."""
        with tempfile.TemporaryDirectory(prefix="germane-") as folder:
            output = Path(folder) / "answer.json"
            stdout = await self._run(case, output)
            if "OUTPUT_FILE" not in str(self.command_template):
                return stdout.strip()
            return _answer(self._written(output))

    async def _run(self, case: Case, output: Path) -> str:
        """Run the command and return its stdout; its whole process group has ended afterwards in any case."""
        sample = case.sample
        values: dict[str, str | tuple[str, ...]] = {
            "PROMPT": sample.query,
            "EVAL_ID": sample.id,
            "ATTEMPT": str(sample.trial),
            "FILES": (*case.guideline_files, *case.input_files),
            "OUTPUT_FILE": str(output),
        }
        environment = child_environment(_PASSED_ON, self.env)
        if isinstance(self.command_template, str):
            shell = ("cmd", "/v:on", "/c") if sys.platform == "win32" else ("sh", "-c")
            command: tuple[str, ...] = (*shell, with_variables(self.command_template, values))
            environment |= variables(values)
        else:
            command = argv(self.command_template, values)
        try:
            finished = await run_program(command, cwd=self._folder, env=environment, seconds=self.timeout)
        except (OSError, ValueError) as error:
            raise TargetError(f"the command cannot be started in {self._folder}: {error}") from None
        if finished.timed_out:
            raise TargetError(f"the command took more than {self.timeout:g} s")
        if finished.flooded:
            raise TargetError(f"the command printed more than {MAX_STDOUT // 1_000_000} MB")
        if finished.code:
            tail = finished.tail(_TAIL) or "its stderr is empty"
            hint = misplaced(self.command_template, self._folder)
            why = f" ({hint})" if hint else ""
            raise TargetError(f"the command ended with exit code {finished.code}{why}: {tail}")
        return finished.stdout.decode("utf-8", "replace")

    def _written(self, output: Path) -> str:
        """Return the text of the output file; TargetError if it is missing or longer than the limit.

        A link, a pipe or a device, which the command may have put there, is not read.
        """
        most = int(self.max_mb * 1_000_000)
        more = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            with open(output, "rb", opener=lambda path, flags: os.open(path, flags | more)) as file:
                regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                written = file.read(most + 1) if regular else b""
        except FileNotFoundError:
            raise TargetError("the command wrote nothing to OUTPUT_FILE") from None
        except OSError:  # a link, a folder
            regular, written = False, b""
        if not regular:
            raise TargetError("the command made no regular file of OUTPUT_FILE: it must write to that path")
        if len(written) > most:
            raise TargetError(f"OUTPUT_FILE is longer than {self.max_mb:g} MB (max_mb sets the limit)")
        return written.decode("utf-8", "replace")


def _answer(text: str) -> Json:
    """Return the content of an output file: an object with text, output_messages or output, else its raw text."""
    try:
        document: Json = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return document if isinstance(document, dict) and document.keys() & _ANSWERS else text
