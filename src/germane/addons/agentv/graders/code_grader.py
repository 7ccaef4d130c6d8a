"""A grader that runs the user's program, which reads the case on stdin and prints a score."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import Field

from germane.addons.agentv.graders.transcript import names_of, resolve_cwd, script_document
from germane.addons.agentv.script import ScriptGrade
from germane.clean import fold
from germane.evalfiles import Case
from germane.graders import CaseGrader, Command, GraderResult
from germane.measures import ask
from germane.questions import Program
from germane.types import FrozenDict, freeze
from germane.yamltext import (
    JsonMapping,
    Keys,
    Number,
    Texts,
    WholeNumber,
    for_model,
    plain,
    plain_value,
)

MAX_CALLS = 50
"""The most judge calls that a script may make if the eval file says `target: {}`."""


class CodeGrader(CaseGrader):
    """Grades a case by running a program, which reads a JSON document on stdin and prints one with the score.

    If the program cannot be started, ends with an error, takes longer than `timeout` or prints no score, the
    result is an error, not a score of 0.

    Attributes:
        script: The program and its arguments as a list, or a string that is run by `sh -lc`.
        cwd: Working directory. Default: the eval file's folder, or the nearest folder above it that contains
            the script.
        timeout: Maximum number of seconds.
        env: Names of more environment variables that are passed on to the program.
        max_calls: How often the program may call the evaluation's judge at AGENTV_TARGET_PROXY_URL. Default:
            never.
        config: Options that are sent to the program under `config`.
    """

    type: ClassVar[str] = "code_judge"
    opens_config: ClassVar[bool] = False  # the script gets it
    aliases: ClassVar = {"script": ("command",), "timeout": ("timeout_seconds",)}

    script: Command
    cwd: str = "."
    timeout: Annotated[Number, Field(gt=0), plain] = 120.0
    env: Texts = ()
    max_calls: WholeNumber | None = None
    config: JsonMapping = FrozenDict()

    @classmethod
    def complete(cls, keys: Keys) -> None:
        """Resolve `cwd` relative to the eval file, and move unknown keys into `config`, as AgentV does.

        An unknown key that resembles a known one is an error, unless it is written under `config`.
        """
        values, passed = keys.values, keys.others
        resolve_cwd(keys, "script")
        if "target" in passed and (pairs := passed["target"].pairs) is not None:
            limits = {fold(key): for_model(inner) for key, inner in pairs.items()}
            values["max_calls"], keys.node.spelt["max_calls"] = limits.get("maxcalls", MAX_CALLS), "target"
            del passed["target"]
        keys.others = {key: passed.pop(key) for key in [*passed] if fold(key) in cls.refused}
        super().complete(keys)
        for key in passed:
            keys.refuse(key, cls.spellings(), " Put settings of the script under config:")
        value = plain_value(values.get("config", {}))
        if isinstance(value, dict):
            values["config"] = {**{key: inner.json() for key, inner in passed.items()}, **value}

    @property
    def asks(self) -> bool:
        """True if the program may call the judge."""
        return self.max_calls is not None

    def compute(self, case: Case) -> Program[GraderResult]:
        """Run the program and return the result that it prints, without its verdict."""
        question = ScriptGrade(
            command=self.script,
            document=freeze(script_document(case, self.config)),
            cwd=self.cwd,
            timeout=self.timeout,
            env=self.env,
            max_calls=self.max_calls,
            agentv=self.agentv,
            of=names_of(case, self.label),
        )
        result = yield from ask(question)
        return replace(result, verdict=None)
