"""A target that runs a command for each query and reads the answer from its output file or stdout."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BeforeValidator, Field, PlainValidator, PrivateAttr

from germane.errors import InputError, Invalid, SourceLocation, TargetError, describe
from germane.evalfiles import Case
from germane.evalfiles.model import Positive, plain_value
from germane.processes import MAX_STDOUT, child_environment, run_program
from germane.targets.target import LARGEST, Target
from germane.types import Json

_TAIL = 2000
_ANSWERS = {"text", "output_messages", "outputMessages", "output"}
"""Keys of an answer.

An output file with a JSON object that contains such a key is read as JSON, others as text.
"""
_PASSED_ON = ("TMP", "TZ", "SHELL", "USER", "LOGNAME", "COMSPEC", "USERPROFILE", "APPDATA", "LOCALAPPDATA")
"""Environment variables that a command gets in addition to those of every program.

They contain no secrets.
"""
_SLOT = re.compile(r"\{(PROMPT|EVAL_ID|ATTEMPT|FILES|OUTPUT_FILE)\}")
_QUOTED = re.compile(r"""'[^']*'|"(?:[^"`$\\]|\$(?!\())*\"""")
_NOT_A_WORD = re.compile(
    r"""['"`]|\\(?!\n)|\(\(|<<|(?<!\S)(?:eval|trap|ssh)\s|(?<!\S)-\w*c(?:\s+(?:-\S+\s+)*\S*)?$"""
)
"""Text before a slot such as {PROMPT} after which a shell would not read the value as one word of data.

That is an open quote, a backslash, arithmetic, a heredoc, or a command or flag whose argument is code.
Complete quotes are removed before the search.
"""
_Variables: TypeAlias = Mapping[str, Mapping[str, str]]
"""Maps each slot of a command ("PROMPT", "FILES", ...) to its environment variables and their values."""

_Env: TypeAlias = dict[str, str] | list[str] | str


def _environment(value: Any) -> Json:
    """Return the variables in `env`: a mapping of values, or a list of names to copy from this process."""
    content = plain_value(value)
    if isinstance(content, dict):
        return {name: str(inner) for name, inner in content.items()}
    names = content if isinstance(content, list) else [content]
    if wrong := [name for name in names if not isinstance(name, str) or "=" in name]:
        raise Invalid(
            f"has {describe(wrong[0])}, not a name", "write names: [NAME], or values: {NAME: value}"
        )
    return {str(name): os.environ[str(name)] for name in names if str(name) in os.environ}


def _command(value: Any) -> str | tuple[str, ...]:
    content = plain_value(value)
    words = [content] if isinstance(content, str) else content
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise Invalid(f"is {describe(content)}, not a command", "write a command: my-rag {PROMPT}")
    if not any(name in word for name in ("PROMPT", "EVAL_ID") for word in words):
        raise Invalid("does not use the query", "write {PROMPT} where the query belongs: my-rag {PROMPT}")
    if not isinstance(content, str):
        return tuple(map(str, words))
    for slot in _SLOT.finditer(content):  # none may be inside quotes, or where it might be run as code
        before = _QUOTED.sub(lambda quoted: re.sub(r"[^\w-]", "", quoted[0]), content[: slot.start()])
        if _NOT_A_WORD.search(before):
            name = "FILE_1" if slot[1] == "FILES" else slot[1]
            fix = f"""write "$GERMANE_{name}" there, or the command as a list: [my-rag, "{slot[0]}"]"""
            problem = f"has {slot[0]} inside quotes or a command substitution, where it cannot be one word"
            raise Invalid(problem, fix)
    return str(content)


class CliTarget(Target):
    """A target that runs a command in the folder `cwd` for each query, for at most `timeout` seconds.

    A command that is a string runs in a shell, and `{PROMPT}` is replaced by the quoted variable
    `"$GERMANE_PROMPT"`. A command that is a list runs without a shell, and `{PROMPT}` is replaced by the
    query itself. `{EVAL_ID}`, `{ATTEMPT}` and `{OUTPUT_FILE}` are replaced in the same way, and `{FILES}` by
    one word per file (`$GERMANE_FILE_1`, ...).

    `cwd` is relative to the folder of the targets file, which is also the default. If that folder is
    `.agentv`, the default is its parent.

    The command gets only an allow-list of environment variables and the variables in `env`.
    """

    aliases: ClassVar = {"command_template": ("command",), "timeout": ("timeout_seconds",)}

    command_template: Annotated[
        str | tuple[str, ...],
        Field(examples=["my-rag --out {OUTPUT_FILE} {PROMPT}"]),
        PlainValidator(_command, json_schema_input_type=str | list[str]),
    ]
    cwd: Annotated[str, Field(pattern=r"^[^\x00]*$")] = ""
    timeout: Positive = 120.0
    env: Annotated[dict[str, str], BeforeValidator(_environment, json_schema_input_type=_Env)] = Field(
        default_factory=dict
    )
    _folder: Path = PrivateAttr(default_factory=Path)

    def open(self, location: SourceLocation, folder: Path) -> None:
        """Set the folder in which the command starts. Raises InputError if that is not a folder."""
        usual = folder.parent if folder.name == ".agentv" else folder
        self._folder = (folder / self.cwd).resolve() if self.cwd else usual
        if not self._folder.is_dir():
            problem = f"the cwd of the target {self.name} is {self._folder}, which is not a folder"
            raise InputError(problem, fix="write cwd: FOLDER, relative to the targets file", place=location)

    async def ask(self, case: Case) -> Json:
        """Run the command for a case; return its answer, from the output file or else from stdout."""
        with tempfile.TemporaryDirectory(prefix="germane-") as folder:
            output = Path(folder) / "answer.json"
            stdout = await self._run(case, output)
            if "OUTPUT_FILE" not in str(self.command_template):
                return stdout.strip()
            text = _written(output)
        try:
            document: Json = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return document if isinstance(document, dict) and document.keys() & _ANSWERS else text

    async def _run(self, case: Case, output: Path) -> str:
        """Run the command and return its stdout. At the end, its whole process group is killed."""
        sample, files = case.sample, (*case.guideline_files, *case.input_files)
        variables: _Variables = {
            "PROMPT": {"GERMANE_PROMPT": sample.query},
            "EVAL_ID": {"GERMANE_EVAL_ID": sample.id},
            "ATTEMPT": {"GERMANE_ATTEMPT": str(sample.trial)},
            "FILES": {f"GERMANE_FILE_{number}": path for number, path in enumerate(files, 1)},
            "OUTPUT_FILE": {"GERMANE_OUTPUT_FILE": str(output)},
        }
        environment, template = child_environment(_PASSED_ON, self.env), self.command_template
        if isinstance(template, str):
            script = _SLOT.sub(lambda slot: " ".join(map('"${}"'.format, variables[slot[1]])), template)
            command: tuple[str, ...] = ("sh", "-c", script)
            for values in variables.values():
                environment |= values
        else:
            command = ()
            for word in template:
                text = _SLOT.sub(lambda slot: " ".join(variables[slot[1]].values()), word)
                command += tuple(variables["FILES"].values()) if word == "{FILES}" else (text,)
        try:
            finished = await run_program(command, cwd=self._folder, env=environment, seconds=self.timeout)
        except (OSError, ValueError) as error:
            problem = f"the command cannot be started in {self._folder}: {error}"
            raise TargetError(f"{problem}; correct command: or cwd: of the target") from None
        if finished.timed_out:
            fix = "set a longer timeout: in the target"
            raise TargetError(f"the command took more than {self.timeout:g} s; {fix}")
        if finished.flooded:
            most = f"{MAX_STDOUT // 1_000_000} MB"
            raise TargetError(f"the command printed more than {most}; print less, or write {{OUTPUT_FILE}}")
        if finished.code:
            tail = finished.tail(_TAIL) or "its stderr is empty"
            raise TargetError(f"the command ended with exit code {finished.code} in {self._folder}: {tail}")
        return finished.stdout.decode("utf-8", "replace")


def _written(output: Path) -> str:
    if output.is_symlink() or not output.is_file():
        raise TargetError("the command wrote no answer; write it to the path that {OUTPUT_FILE} stands for")
    with output.open("rb") as file:
        written = file.read(LARGEST + 1)
    if len(written) > LARGEST:
        most = LARGEST // 1_000_000
        raise TargetError(f"the command wrote more than {most} MB to OUTPUT_FILE; return fewer contexts")
    return written.decode("utf-8", "replace")
