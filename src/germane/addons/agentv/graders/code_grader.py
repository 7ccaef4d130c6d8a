"""A grader that runs the user's program (the code-judge protocol), and the prompts that the program sends to the judge."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, ClassVar

from pydantic import Field, StrictStr

from germane.addons.agentv.graders.transcript import names_of, resolve_cwd, script_document
from germane.clean import fold
from germane.errors import AnswerError
from germane.evalfiles import Case
from germane.evalfiles.model import (
    JsonMapping,
    Keys,
    Number,
    Texts,
    WholeNumber,
    for_model,
    plain,
    plain_value,
)
from germane.graders import CaseGrader, Command, GraderResult
from germane.measures import ask
from germane.questions import PayloadModel, Program, Question
from germane.questions.prompts import worded
from germane.questions.question import Prompt
from germane.types import FrozenDict, Json, freeze


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptGrade(Question[GraderResult]):
    """Asks a program to grade a case.

    `command` is a list of the program and its arguments, or a string that is run by `sh -lc`. `document` is
    the JSON object that the program reads on stdin, and `cwd` the folder in which it runs. It is stopped
    after `timeout` seconds. `env` names environment variables that are passed on. If `max_calls` is not None,
    the program may call the evaluation's judge that many times. With `agentv`, the score is 0 if the program
    fails or prints no score, as with AgentV.
    """

    kind: ClassVar[str] = "script"
    by_program: ClassVar[str] = "germane.addons.agentv.script_judge:ScriptJudge"

    command: str | tuple[str, ...]
    document: FrozenDict
    cwd: str = "."
    timeout: float = 120.0
    env: tuple[str, ...] = ()
    max_calls: int | None = None
    agentv: bool = False
    of: tuple[str, ...] = field(default=(), compare=False)
    """The sample's id, the system, the trial and the grader's name; stored judgements are looked up by
    them."""

    @property
    def about(self) -> str:
        """The document that the program reads on stdin, as JSON."""
        return json.dumps(self.document, ensure_ascii=False)

    @property
    def argv(self) -> tuple[str, ...]:
        """The program and its arguments; a command written as a string is run by a login shell."""
        return ("sh", "-lc", self.command) if isinstance(self.command, str) else self.command

    def inputs(self) -> dict[str, Json]:
        """Return the command, its folder, the document on its stdin, and limits other than the defaults."""
        usual = {declared.name: declared.default for declared in fields(self)}
        limits = {"env": self.env, "timeout": self.timeout, "max_calls": self.max_calls}
        given = {name: value for name, value in limits.items() if value != usual[name]}
        return {"argv": list(self.argv), "cwd": self.cwd, "document": self.document, **given}

    def validate(self, payload: Json, *, as_answered: bool = False) -> Json:  # noqa: ARG002 - it has one form
        """Return the program's JSON output unchanged, with any other keys.

        Raises AnswerError if it is not a result.
        """
        self.parse(payload)
        return payload

    def parse(self, payload: Json) -> GraderResult:
        """Return the result in a program's JSON output, which is in the form of AgentV 2 or 4.

        The score must be from 0 to 1, and each `passed` a boolean. With `agentv`, the score is clipped to
        this range, and any truthy `passed` counts as true. Raises AnswerError if the output is invalid or
        contains no score.
        """
        if not isinstance(payload, Mapping):
            raise AnswerError(f"the script must print one JSON object, not {type(payload).__name__}")
        checks = payload.get("assertions") or ()
        if not isinstance(checks, Sequence) or not all(isinstance(check, Mapping) for check in checks):
            raise AnswerError('"assertions" must be a list of {text, passed, evidence}')
        met, failed = findings(checks, lenient=self.agentv)
        score = payload.get("score")
        if score is None and checks:
            score = len(met) / len(checks)
        shown = json.dumps(score)[:80]
        if isinstance(score, bool) or not isinstance(score, int | float) or score != score:  # noqa: PLR0124 - NaN
            raise AnswerError(f'the script must print a number as "score", not {shown}')
        if not 0 <= score <= 1 and not self.agentv:
            raise AnswerError(f'"score" must be a number from 0 to 1, not {shown}')
        texts: dict[str, tuple[str, ...]] = {}
        for name in ("hits", "misses"):
            listed = payload.get(name)
            listed = listed if isinstance(listed, list | tuple) else ()
            texts[name] = tuple(text for text in listed if isinstance(text, str) and text.strip())
        details, verdict = payload.get("details"), payload.get("verdict")
        return GraderResult(
            score=float(min(1, max(0, score))),
            hits=texts["hits"] or tuple(met),
            misses=texts["misses"] or tuple(failed),
            reasoning=str(payload.get("reasoning") or ""),
            details=FrozenDict(details) if isinstance(details, Mapping) else FrozenDict(),
            verdict=verdict if verdict in {"pass", "borderline", "fail"} else None,
        )

    def typical(self) -> Json:
        """Return a payload of typical size, from which costs are estimated: a score of one half."""
        return {"score": 0.5, "hits": [], "misses": [], "reasoning": ""}


def findings(
    assertions: Iterable[Mapping[str, Json]], *, lenient: bool = False
) -> tuple[list[str], list[str]]:
    """Return two lists of texts: AgentV 4 assertions that passed, and assertions that failed.

    An assertion is `{text, passed, evidence}`. Raises AnswerError if `passed` is not a boolean; with
    `lenient`, any value is accepted, and a truthy value means passed.
    """
    met, failed = list[str](), list[str]()
    for number, assertion in enumerate(assertions, 1):
        passed = assertion.get("passed")
        if not (lenient or isinstance(passed, bool)):
            found = f"not {json.dumps(passed)[:80]}" if "passed" in assertion else "and is missing"
            raise AnswerError(f'"passed" of assertion {number} must be true or false, {found}')
        text = " - ".join(str(assertion[name]) for name in ("text", "evidence") if assertion.get(name))
        (met if passed else failed).append(text)
    return met, failed


PLAIN = "Do what is asked."


class CompletionPayload(PayloadModel):
    """The answer to TextCompletion, as a payload: `{text}`."""

    text: StrictStr


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCompletion(Question[str]):
    """Asks a judge to answer a prompt that a grading script sends; the answer is free text.

    `text` is the prompt and `system` the system prompt.
    """

    kind: ClassVar[str] = "completion"
    free_text: ClassVar[bool] = True
    item_fields: ClassVar[tuple[str, ...]] = ("text",)
    context_fields: ClassVar[tuple[str, ...]] = ("system",)
    Payload: ClassVar[type[PayloadModel]] = CompletionPayload

    text: str
    system: str = ""

    @property
    def wording(self) -> Prompt:
        """The prompt, with the script's system prompt or a default one."""
        return worded(self.text, system=self.system or PLAIN)

    def answer(self, payload: CompletionPayload) -> str:
        """Return the text of the model's answer, unchanged."""
        return payload.text

    def typical(self) -> Json:
        """Return a payload of typical size, from which costs are estimated: one sentence."""
        return {"text": "The passage answers the question."}


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
