"""The question that a program of the user's answers: grade this case (the code-judge protocol)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from germane.errors import AnswerError
from germane.questions.question import Question
from germane.types import FrozenDict, Json


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """The result of a grading program: a score from 0 to 1, and what it rests on."""

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
