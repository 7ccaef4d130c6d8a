"""A system that is a command: it gets the query as a variable, and answers in its output file or on stdout."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BeforeValidator, Field, PlainValidator, PrivateAttr

from germane.errors import InputError, Invalid, SourceLocation, TargetError, describe
from germane.evalfiles.case import Case
from germane.processes import MAX_STDOUT, child_environment, run_program
from germane.targets.target import LARGEST, Target
from germane.types import Json
from germane.yamltext import Positive, plain_value

_TAIL = 2000
_ANSWERS = {"text", "output_messages", "outputMessages", "output"}
_PASSED_ON = ("TMP", "TZ", "SHELL", "USER", "LOGNAME", "COMSPEC", "USERPROFILE", "APPDATA", "LOCALAPPDATA")
"""Variables of the environment that a command gets besides those of every program: none of them is a secret."""
_SLOT = re.compile(r"\{(PROMPT|EVAL_ID|ATTEMPT|FILES|OUTPUT_FILE)\}")
_QUOTED = re.compile(r"""'[^']*'|"(?:[^"`$\\]|\$(?!\())*\"""")
_NOT_A_WORD = re.compile(
    r"""['"`]|\\(?!\n)|\(\(|<<|(?<!\S)(?:eval|trap|ssh)\s|(?<!\S)-\w*c(?:\s+(?:-\S+\s+)*\S*)?$"""
)
"""What stands before a slot, outside of complete quotes, where a shell would not read its value as one word of data: an open
quote, a backslash, arithmetic, a heredoc, and commands and flags whose argument is code."""
_Values: TypeAlias = Mapping[str, str | Sequence[str]]
"""The value of each slot: a text, or the paths of files."""


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
        _check_slots(content)
        return str(content)
    return tuple(map(str, words))


def _check_slots(template: str) -> None:
    """Raise Invalid if a slot is within quotes, or if a shell might parse its value as code."""
    for slot in _SLOT.finditer(template):
        before = _QUOTED.sub(lambda quoted: re.sub(r"[^\w-]", "", quoted[0]), template[: slot.start()])
        if _NOT_A_WORD.search(before):
            name = "FILE_1" if slot[1] == "FILES" else slot[1]
            fix = f"""write "$GERMANE_{name}" there, or the command as a list: [my-rag, "{slot[0]}"]"""
            raise Invalid(f"has {slot[0]} where a shell would not read it as one word", fix)


def _variables(slot: str, value: str | Sequence[str]) -> dict[str, str]:
    """Return the variables of one slot with their values: GERMANE_PROMPT; files are GERMANE_FILE_1 and so on."""
    if isinstance(value, str):
        return {f"GERMANE_{slot}": value}
    return {f"GERMANE_FILE_{number}": text for number, text in enumerate(value, 1)}


def _argv(template: Sequence[str], values: _Values) -> tuple[str, ...]:
    """Return a command that runs without a shell, with the values filled in; `{FILES}` alone becomes a word per file."""
    words: list[str] = []
    for word in template:
        if word == "{FILES}":
            words += values["FILES"]
        else:
            words.append(
                _SLOT.sub(lambda slot: " ".join(_variables(slot[1], values[slot[1]]).values()), word)
            )
    return tuple(words)


class CliTarget(Target):
    """Runs a command for each query, in `cwd`, for at most `timeout` seconds.

    A text is read by a shell, in which `{PROMPT}` is the quoted variable `"$GERMANE_PROMPT"`; a list is a program and its
    arguments, in which `{PROMPT}` is the query itself. `{EVAL_ID}`, `{ATTEMPT}` and `{OUTPUT_FILE}` go in the same way,
    and `{FILES}` as a word per file (`$GERMANE_FILE_1`).

    `cwd` is relative to the targets file's folder; without it the command starts there, or in the parent of `.agentv`.

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
    env: Annotated[dict[str, str], BeforeValidator(_environment)] = Field(default_factory=dict)
    _folder: Path = PrivateAttr(default_factory=Path)

    def open(self, location: SourceLocation, folder: Path, evals: Path) -> None:
        """Find the folder that it starts in."""
        del evals
        usual = folder.parent if folder.name == ".agentv" else folder
        self._folder = (folder / self.cwd).resolve() if self.cwd else usual
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
            return _answer(_written(output))

    async def _run(self, case: Case, output: Path) -> str:
        """Run the command and return its stdout; its whole process group has ended afterwards in any case."""
        sample = case.sample
        values: _Values = {
            "PROMPT": sample.query,
            "EVAL_ID": sample.id,
            "ATTEMPT": str(sample.trial),
            "FILES": (*case.guideline_files, *case.input_files),
            "OUTPUT_FILE": str(output),
        }
        environment, template = child_environment(_PASSED_ON, self.env), self.command_template
        if isinstance(template, str):
            of_slots = {slot: _variables(slot, value) for slot, value in values.items()}
            script = _SLOT.sub(lambda slot: " ".join(map('"${}"'.format, of_slots[slot[1]])), template)
            command: tuple[str, ...] = ("sh", "-c", script)
            environment |= {name: text for variables in of_slots.values() for name, text in variables.items()}
        else:
            command = _argv(template, values)
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
            raise TargetError(f"the command ended with exit code {finished.code} in {self._folder}: {tail}")
        return finished.stdout.decode("utf-8", "replace")


def _written(output: Path) -> str:
    """Return the text of the output file; TargetError if it is missing, a link, a pipe or too long."""
    if output.is_symlink() or not output.is_file():
        raise TargetError("the command wrote no file to OUTPUT_FILE")
    with output.open("rb") as file:
        written = file.read(LARGEST + 1)
    if len(written) > LARGEST:
        raise TargetError(f"OUTPUT_FILE is longer than {LARGEST // 1_000_000} MB")
    return written.decode("utf-8", "replace")


def _answer(text: str) -> Json:
    """Return the content of an output file: an object with text, output_messages or output, else its raw text."""
    try:
        document: Json = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return document if isinstance(document, dict) and document.keys() & _ANSWERS else text
