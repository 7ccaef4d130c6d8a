"""A grader reads one case and what the system answered, and returns a score from 0 to 1 with what it rests on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from germane.errors import InputError
from germane.measures.outcome import Outcome
from germane.measures.scoring import BORDERLINE, PASS, STRICT
from germane.questions.asking import Missing, Program
from germane.samples import validation
from germane.samples.evalfile import Case
from germane.samples.validation import Wrong
from germane.types import FrozenDict, Json, Status

R = TypeVar("R")
Verdict: TypeAlias = Literal["pass", "borderline", "fail"]
SHOWN = 4
"""Hits and misses that AgentV keeps of a list: `compatibility: agentv` cuts there."""


Number = Annotated[validation.Number, Field(ge=0)]
Share = Annotated[validation.Number, Field(ge=0, le=1)]
Flag = Annotated[bool, Field(strict=True)]


def _gate(value: Any) -> Any:
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("write true (0.8) or a number from 0 to 1")
    return value


Gate01 = Annotated[
    bool | float, PlainValidator(_gate, json_schema_input_type=bool | Annotated[float, Field(ge=0, le=1)])
]


def verdict_of(score: float, least: float = PASS) -> Verdict:
    """`pass` from `least` (0.8), `borderline` from 0.6, else `fail`."""
    return "pass" if score >= least else "borderline" if score >= BORDERLINE else "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraderResult:
    """What a grader found in one case.

    `score` is None unless `status` is "ok"; `why` then says what was missing, `bounds` what an incomplete score can
    still become. `hits` and `misses` say what was met and what was not, `details` is the grader's own.
    """

    score: float | None
    verdict: Verdict | None = None
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str = ""
    details: FrozenDict = field(default_factory=FrozenDict)
    status: Status = "ok"
    why: str | None = None
    bounds: tuple[float, float] | None = None

    @classmethod
    def skipped(cls, why: str) -> GraderResult:
        """The case lacks what the grader needs."""
        return cls(score=None, status="skipped", why=why)

    @classmethod
    def failed(cls, why: str) -> GraderResult:
        """The grader could not do its work on this case: a judge or a script failed."""
        return cls(score=None, status="error", why=why)

    @property
    def outcome(self) -> Outcome:
        """The result as a measure's outcome: what a score row is made of."""
        why = self.why
        if self.verdict == "fail" and self.score is not None and self.score >= BORDERLINE:
            why = f"{STRICT}{'; '.join(self.misses[:1]) or 'the verdict of the grader is fail'}"
        return Outcome(self.score, self.status, why, self.bounds)

    @property
    def assertions(self) -> list[dict[str, Json]]:
        """Hits and misses as AgentV 4 lists them: `{text, passed, evidence}`."""
        said = [(text.partition(" - "), n < len(self.hits)) for n, text in enumerate(self.hits + self.misses)]
        return [
            {"text": text, "passed": passed, **({"evidence": evidence} if evidence else {})}
            for (text, _, evidence), passed in said
        ]

    def as_json(self) -> dict[str, Json]:
        """The result in the words of both generations of AgentV."""
        found: dict[str, Json] = {"score": self.score, "verdict": self.verdict, "hits": list(self.hits)}
        found |= {"misses": list(self.misses), "reasoning": self.reasoning, "assertions": self.assertions}
        found |= {"details": self.details} if self.details else {}
        return found if self.status == "ok" else {**found, "status": self.status, "why": self.why}


class CaseGrader(BaseModel, ABC):
    """What every grader has in common: its reported name, its weight, and what a case must reach.

    Attributes:
        name: What it is reported under; "" is its type.
        weight: Its weight in the mean of the case's graders.
        required: True (the score must reach `min_score`, or 0.8), or the least score itself: a gate on the case.
        min_score: The score from which the verdict is `pass`; None is 0.8.
        negate: Whether the score is turned round (1 - score), and hits with misses.
        compatibility: "agentv" gives the values of AgentV 2.1 (January 2026) where they differ from germane's: data that
            is missing, a judge or a script that fails then score 0.

    Raises:
        InputError: A parameter cannot be used.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    type: ClassVar[str]
    """What an eval file calls it."""

    name: str = ""
    weight: Number = 1.0
    required: Gate01 = False
    min_score: Share | None = None
    negate: Flag = False
    compatibility: Literal["agentv"] | None = None

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as invalid:
            raise ParameterError.of(self.type, invalid) from None

    @property
    def label(self) -> str:
        """The name that it is reported under."""
        return self.name or self.type

    @property
    def gate(self) -> float | None:
        """The least score that a case must reach; None where the grader is no gate."""
        if self.required is True:
            return PASS if self.min_score is None else self.min_score
        return None if self.required is False else float(self.required)

    @property
    def asks(self) -> bool:
        """Whether it needs a judge."""
        return False

    @property
    def agentv(self) -> bool:
        """Whether AgentV's own values are asked for."""
        return self.compatibility == "agentv"

    @abstractmethod
    def compute(self, case: Case) -> Program[GraderResult]:
        """What the grader finds, before `negate` and `min_score`; Missing may be raised."""

    def missing(self, why: str) -> GraderResult:
        """The result where an answer could not be had."""
        return GraderResult.failed(why)

    def grade(self, case: Case) -> Program[GraderResult]:
        """Grade one case: a generator of questions that returns the result, and never raises on what a case holds."""
        sample = case.sample
        if sample.error is not None and sample.response is None and not sample.messages:
            return GraderResult.failed(sample.error)
        try:
            found = yield from self.compute(case)
        except Missing as missing:
            found = self.missing(missing.why)
        if found.score is None:
            return found
        score, verdict = found.score, found.verdict
        if self.negate:
            score, verdict = 1 - score, verdict and ("fail" if verdict == "pass" else "pass")
            found = replace(found, score=score, hits=found.misses, misses=found.hits)
        return replace(found, verdict=verdict or self.verdict(score))

    def verdict(self, score: float) -> Verdict:
        """The verdict on a score."""
        return verdict_of(score, PASS if self.min_score is None else self.min_score)

    def shown(self, found: GraderResult) -> GraderResult:
        """The result with as many hits and misses as are kept."""
        return replace(found, hits=found.hits[:SHOWN], misses=found.misses[:SHOWN]) if self.agentv else found


class DirectGrader(CaseGrader):
    """A grader that asks nobody: a plain function of the case."""

    def compute(self, case: Case) -> Program[GraderResult]:
        """The result, without a question."""
        yield from ()
        return self.check(case)

    @abstractmethod
    def check(self, case: Case) -> GraderResult:
        """The result."""

    def absent(self, miss: str, reasoning: str) -> GraderResult:
        """The result where the case lacks the data: skipped, or AgentV's 0."""
        if not self.agentv:
            return GraderResult.skipped(reasoning)
        return GraderResult(score=0.0, verdict="fail", misses=(miss,), reasoning=reasoning)


class ParameterError(InputError):
    """A grader's parameter cannot be used; `path` are the names and indexes that lead to it."""

    path: tuple[int | str, ...] = ()

    @classmethod
    def of(cls, what: str, invalid: ValidationError) -> ParameterError:
        """The first thing that pydantic found wrong, with what to write instead."""
        first = invalid.errors(include_url=False)[0]
        path = tuple(step for step in first["loc"] if "[" not in str(step) and step not in _UNION)
        name = ".".join(map(str, path))
        given = repr(first["input"])
        shown = given if len(given) <= 60 else f"{given[:57]}..."
        problem = {"missing": "is missing", "extra_forbidden": "is not known"}.get(
            first["type"], f"is {shown}"
        )
        said = f"{what}: {name} {problem}" if name else f"{what} is not complete"
        if isinstance(cause := first.get("ctx", {}).get("error"), Wrong):
            fix = cause.fix
        elif first["type"] in _FIXES:
            fix = _FIXES[first["type"]].format_map({"name": name, **first.get("ctx", {})})
        else:
            fix = first["msg"].removeprefix("Value error, ")
            fix = fix.replace("Input should be", "write").replace("valid tuple", "list")
        error = cls(said, fix=fix[:1].lower() + fix[1:])
        error.path = path
        return error


_FIXES = {
    "missing": "write {name}: ...",
    "extra_forbidden": "remove it",
    "too_short": "write at least one",
    "string_too_short": "write a text",
    "string_type": "write a text",
    "bool_type": "write true or false",
    "float_type": "write a number",
    "greater_than_equal": "write a number from {ge:g}",
    "greater_than": "write a number above {gt:g}",
    "less_than_equal": "write a number up to {le:g}",
}
_UNION = {"bool", "float", "str", "none", "constrained-str"}

"""Steps that pydantic adds for the members of a union; others have brackets."""


def together(programs: Iterable[Program[R]]) -> Program[list[R]]:
    """Run programs side by side: what all of them ask next is asked at once. Their results, in order."""
    running = list(programs)
    results: dict[int, R] = {}
    asking: dict[int, tuple[Any, ...]] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(running)))
    while len(results) < len(running):
        for number, answer in answers.items():
            try:
                asking[number] = running[number].send(answer)
            except StopIteration as end:
                results[number] = end.value
        asked = tuple(question for questions in asking.values() for question in questions)
        if not asking:
            break
        came = iter((yield asked))
        answers = {number: tuple(next(came) for _ in questions) for number, questions in asking.items()}
        asking = {}
    return [results[number] for number in range(len(running))]
