"""Questions to grading programs (the code-judge protocol): their results, and the prompts that they send to the judge."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import StrictStr

from germane.errors import AnswerError
from germane.graders import GraderResult
from germane.questions import PayloadModel, Question
from germane.questions.question import Wording
from germane.samples.files import parse_strict_json
from germane.types import FrozenDict, Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptGrade(Question[GraderResult]):
    """Grade this case with this command: a list is argv, a string runs through `sh -lc`.

    `max_calls` (not None) lends the program the evaluation's judge for that many calls. With `agentv` a program that fails
    or prints no score scores 0, as with AgentV.
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
    """The sample, system, trial and grader, by which the stored judgement can be looked up."""

    @property
    def about(self) -> str:
        """The document that the program reads."""
        return json.dumps(self.document, ensure_ascii=False)

    @property
    def argv(self) -> tuple[str, ...]:
        """The program and its arguments; a command in one text is run by a login shell."""
        return ("sh", "-lc", self.command) if isinstance(self.command, str) else self.command

    @property
    def command_line(self) -> str:
        """The command as its author wrote it."""
        return self.command if isinstance(self.command, str) else shlex.join(self.command)

    def inputs(self) -> dict[str, Json]:
        """Return the command, the folder that it runs in, and the document on its stdin."""
        return {"argv": list(self.argv), "cwd": self.cwd, "document": self.document}

    def validate(self, payload: Json, *, as_answered: bool = False) -> Json:  # noqa: ARG002 - it has one form
        """Check that the program's JSON output is a result, and return all of it, with any further keys."""
        self.parse(payload)
        return payload

    def printed(self, text: str) -> Json:
        """Return the output as parsed JSON; with `agentv`, the last value of a repeated key counts."""
        return json.loads(text, parse_constant=lambda _: None) if self.agentv else parse_strict_json(text)

    def parse(self, payload: Json) -> GraderResult:
        """Return the result in a program's output, of AgentV 2 or 4; AnswerError without a valid score.

        The score must be from 0 to 1 and each `passed` a boolean. With AgentV compatibility, the score is
        clipped to that range, and any truthy `passed` counts as true.
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
        if isinstance(score, bool) or not isinstance(score, int | float) or score != score:  # noqa: PLR0124 - NaN
            raise AnswerError(f'the script must print a number as "score", not {_as_json(score)}')
        if not 0 <= score <= 1 and not self.agentv:
            raise AnswerError(f'"score" must be a number from 0 to 1, not {_as_json(score)}')
        details, verdict = payload.get("details"), payload.get("verdict")
        return GraderResult(
            score=float(min(1, max(0, score))),
            hits=_texts(payload.get("hits")) or tuple(met),
            misses=_texts(payload.get("misses")) or tuple(failed),
            reasoning=str(payload.get("reasoning") or ""),
            details=FrozenDict(details) if isinstance(details, Mapping) else FrozenDict(),
            verdict=verdict if verdict in {"pass", "borderline", "fail"} else None,
        )

    def typical(self) -> Json:
        """Return a payload of ordinary size: a score of one half."""
        return {"score": 0.5, "hits": [], "misses": [], "reasoning": ""}


def findings(
    assertions: Iterable[Mapping[str, Json]], *, lenient: bool = False
) -> tuple[list[str], list[str]]:
    """Return the texts of AgentV 4's `[{text, passed, evidence}]` that passed, and of those that did not.

    Raises AnswerError if a `passed` is not a boolean; `lenient` accepts any value and tests if it is truthy.
    """
    met, failed = list[str](), list[str]()
    for number, one in enumerate(assertions, 1):
        passed = one.get("passed")
        if not (lenient or isinstance(passed, bool)):
            found = f"not {_as_json(passed)}" if "passed" in one else "and is missing"
            raise AnswerError(f'"passed" of assertion {number} must be true or false, {found}')
        text = " - ".join(str(one[name]) for name in ("text", "evidence") if one.get(name))
        (met if passed else failed).append(text)
    return met, failed


def _as_json(value: Json) -> str:
    return json.dumps(value)[:80]


def _texts(value: Json) -> tuple[str, ...]:
    """Return the texts of a list that are not blank."""
    listed = value if isinstance(value, list | tuple) else ()
    return tuple(text for text in listed if isinstance(text, str) and text.strip())


PLAIN = "Do what is asked."


class CompletionPayload(PayloadModel):
    """The answer to TextCompletion, as a payload: `{text}`."""

    text: StrictStr


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCompletion(Question[str]):
    """Answer this text, in whatever form it asks for: what a script puts to the judge that it is lent."""

    kind: ClassVar[str] = "completion"
    free_text: ClassVar[bool] = True
    item_fields: ClassVar[tuple[str, ...]] = ("text",)
    context_fields: ClassVar[tuple[str, ...]] = ("system",)
    Payload: ClassVar[type[PayloadModel]] = CompletionPayload

    text: str
    system: str = ""

    @property
    def wording(self) -> Wording:
        """The text as the prompt, with the system prompt that goes with it."""
        return Wording(self.text, system=self.system or PLAIN)

    def answer(self, payload: CompletionPayload) -> str:
        """Return the text of the answer, as the model wrote it."""
        return payload.text

    def typical(self) -> Json:
        """Return a payload of ordinary size: one sentence."""
        return {"text": "The passage answers the question."}
