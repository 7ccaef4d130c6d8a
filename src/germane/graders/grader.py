"""The base classes of graders, which score a case with the system's answer from 0 to 1 and give reasons."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, TypeVar

import numpy as np
from pydantic import AfterValidator, Field, PlainValidator, ValidationError, model_validator

from germane.errors import GermaneError, InputError, Invalid, describe
from germane.evalfiles import Case, model
from germane.evalfiles.model import Keys, Share, YamlModel, all_faults, plain
from germane.measures.declaration import DECLARED, PASS, STRICT, Grader, define_grader, verdict_of
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.questions.asking import Missing, Program
from germane.samples.files import check_trusted
from germane.types import FrozenDict, Json, Sample, Status

R = TypeVar("R")


def is_answered(case: Case) -> bool:
    """Return True if the system's answer to a case is known, even if the answer is empty."""
    return case.sample.response is not None or any(m.role == "assistant" for m in case.sample.messages)


Verdict: TypeAlias = Literal["pass", "borderline", "fail"]
Checks: TypeAlias = Iterable[tuple[bool | None, str]]
"""Pairs of a check's result (None if the check does not count) and its description (may be "")."""

Number = Annotated[model.Number, Field(ge=0.0), plain]
Numbers = Annotated[dict[str, Number], AfterValidator(FrozenDict), plain]
"""A mapping from names to numbers >= 0."""


def _gate(value: Any) -> Any:
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        problem = f"is {describe(value)}, neither true nor a number from 0 to 1"
        raise Invalid(
            problem, "write true (lowest passing score 0.8) or the lowest passing score, such as 0.7"
        )
    return value


Gate01 = Annotated[
    bool | float,
    PlainValidator(_gate, json_schema_input_type=bool | Annotated[float, Field(ge=0, le=1)]),
    plain,
]


def _command(value: Any) -> str | tuple[str, ...]:
    words = (value,) if isinstance(value, str) else value
    texts = isinstance(words, list | tuple) and all(isinstance(word, str) for word in words)
    if not texts or not "".join(words).strip():
        raise Invalid(f"is {describe(value)}, not a command", "write a command: python3 grade.py")
    check_trusted(f"a grader would run {' '.join(words)!r}")
    return str(value) if isinstance(value, str) else tuple(map(str, words))


_Words: TypeAlias = str | tuple[str, ...]
Command = Annotated[_Words, PlainValidator(_command, json_schema_input_type=_Words)]
"""A command of an eval file: a list is a program and its arguments, a string is run by `sh -lc`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraderResult:
    """The result of a grader for one case.

    Unless `status` is "ok", `score` is None and `why` is the reason. `bounds` are those of an incomplete
    score. `hits` and `misses` describe the checks that passed and failed.
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
        """Return a skipped result, for a case that lacks data that the grader needs; `why` names the data."""
        return cls(score=None, status="skipped", why=why)

    @classmethod
    def failed(cls, why: str) -> GraderResult:
        """Return an error result, for a grader whose judge or script failed; `why` is the reason."""
        return cls(score=None, status="error", why=why)

    @classmethod
    def of_checks(cls, checks: Checks, what: str = "") -> GraderResult:
        """Return the proportion of checks that passed, or a skipped result if none counts.

        `checks` are pairs of a result (None: the check does not count) and its description. `what` names them
        in the reasoning: "2/3 fields".
        """
        results = list(checks)
        hits = tuple(message for met, message in results if met)
        misses = tuple(message for met, message in results if not met and message)
        total = sum(met is not None for met, _ in results)
        if not total:
            return cls.skipped("the case has nothing that this grader can check")
        reasoning = f"{len(hits)}/{total} {what}" if what else ""
        return cls(score=len(hits) / total, hits=hits, misses=misses, reasoning=reasoning)

    @property
    def outcome(self) -> Outcome:
        """The result as an Outcome, from which a row of the report's scores is made."""
        why = self.why
        if self.verdict == "fail" and self.score is not None and verdict_of(self.score) != "fail":
            why = f"{STRICT}{'; '.join(self.misses[:1]) or 'the verdict of the grader is fail'}"
        return Outcome(self.score, self.status, why, self.bounds)

    @property
    def assertions(self) -> list[dict[str, Json]]:
        """The hits and misses in the form of AgentV 4: a list of `{text, passed, evidence}`."""
        rows: list[dict[str, Json]] = []
        for number, finding in enumerate((*self.hits, *self.misses)):
            text, _, evidence = finding.partition(" - ")
            row: dict[str, Json] = {"text": text, "passed": number < len(self.hits)}
            rows.append({**row, "evidence": evidence} if evidence else row)
        return rows

    def as_json(self) -> dict[str, Json]:
        """Return the result as a JSON object with the keys of both AgentV 2 and AgentV 4."""
        result: dict[str, Json] = {"score": self.score, "verdict": self.verdict, "hits": list(self.hits)}
        result |= {"misses": list(self.misses), "reasoning": self.reasoning, "assertions": self.assertions}
        result |= {"details": self.details} if self.details else {}
        return result if self.status == "ok" else {**result, "status": self.status, "why": self.why}


class CaseGrader(YamlModel, ABC):
    """Base class of all graders, which score one case from 0 to 1.

    Attributes:
        name: The name in reports. Default: the grader's type.
        weight: The weight in the mean score of the case's graders.
        required: Whether the whole case fails if this grader's score is too low. True: below `min_score`. A
            number: below this number.
        min_score: The lowest score that passes. Default: 0.8.
        compatibility: "agentv" computes the values of AgentV 2.1 (January 2026) where they differ from germane's: missing
            data and a failed judge or script then score 0.
    """

    type: ClassVar[str]
    """The name of the grader's type in eval files."""
    opens_config: ClassVar[bool] = True
    """Whether options may also be written under the key `config`."""
    named_by_value: ClassVar[bool] = False
    """Whether a grader without a name is named by its type and value (`contains-Paris`)."""
    computed: ClassVar[tuple[str, ...]] = ("compatibility",)
    unread: ClassVar = dict.fromkeys(
        ("preprocessors", "target", "model", "temperature", "maxsteps"), "the run's flags name the judge"
    )
    refused: ClassVar = frozenset({"negate"})

    name: str = ""
    weight: Number = 1.0
    required: Gate01 = False
    min_score: Share | None = None
    compatibility: Literal["agentv"] | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.what = getattr(cls, "type", cls.what)
        if "type" in vars(cls) and not cls.__module__.startswith("germane."):
            define_grader(cls.type)

    @model_validator(mode="wrap")
    @classmethod
    def _made(cls, value: Any, handler: Callable[[Any], Self]) -> Self:
        """Return the grader that pydantic's `handler` makes of `value`, the mapping of its options."""
        if not isinstance(value, dict):
            return handler(value)
        try:
            made = handler(value)
        except ValidationError as error:
            loc, wrong = all_faults(error)[0]
            problem = wrong.under(*loc[:1]).error(None).problem
            raise InputError(f"{cls.type}{':' if wrong.path else ''} {problem}", fix=wrong.fix) from None
        try:
            hash(made)
        except TypeError as error:  # a field of a user's own grader
            problem = f"{cls.type}: an option has a value that is not hashable: {error}"
            fix = "give a tuple instead of a list, a FrozenDict instead of a dict"
            raise InputError(problem, fix=fix) from None
        return made

    @classmethod
    def complete(cls, keys: Keys) -> None:
        """Add the fields that the file sets for all graders, or that the type implies, to `keys`."""
        values = keys.values
        values |= keys.context.get("fixed", {})
        keys.what = str(values.get("name") or values.get("test") or values.get("measure") or cls.what)
        super().complete(keys)

    @property
    def label(self) -> str:
        """The grader's name in reports: `name`, or else its type."""
        return self.name or self.type

    @property
    def stored_type(self) -> str:
        """The type under which the grader's scores are stored in reports."""
        return self.type

    @property
    def gate(self) -> float | None:
        """The score that the grader must reach, or else the case fails; None if it is not `required`."""
        if self.required is True:
            return PASS if self.min_score is None else self.min_score
        return None if self.required is False else float(self.required)

    @property
    def scored(self) -> Grader:
        """The Grader that an evaluation uses in place of this one; it calls this grader for each case."""
        return Grader(
            measure=Measure.parse(self.stored_type),
            name=self.label,
            weight=self.weight,
            required=self.gate,
            strict=True,
            by=self,
            options=DECLARED,
        )

    @property
    def asks(self) -> bool:
        """True if the grader needs a judge."""
        return False

    @property
    def agentv(self) -> bool:
        """True if `compatibility` is "agentv", so that scores equal AgentV's where germane's would differ."""
        return self.compatibility == "agentv"

    @abstractmethod
    def compute(self, case: Case) -> Program[GraderResult]:
        """Compute the result of a case, as a generator that yields questions for the judge.

        Without a verdict, `grade` adds one by `min_score`. Raises Missing if a question has no answer.
        """

    def missing(self, why: str) -> GraderResult:
        """Return the result of a case for which a judge's answer is missing: an error with the reason `why`."""
        return GraderResult.failed(why)

    def unanswered(self, case: Case) -> GraderResult | None:
        """Return a skipped result if the system's answer is unknown, else None.

        With AgentV compatibility, an unknown answer is an empty one.
        """
        if self.agentv or is_answered(case):
            return None
        return GraderResult.skipped("the sample has no response")

    def grade_sample(self, sample: Sample, case: Case | None) -> Program[GraderResult]:
        """Grade `case`, the sample's case in an eval file; if it is None, grade the sample as a new case."""
        return self.grade(Case(sample=sample) if case is None else case)

    def grade(self, case: Case) -> Program[GraderResult]:
        """Grade one case: a generator that yields questions for the judge and returns the result.

        An exception that the grader raises becomes an error result.
        """
        sample = case.sample
        if sample.failed:
            return GraderResult.failed(sample.error or "")
        try:
            result = yield from self.compute(case)
            if (result.score is None) is (result.status == "ok") or not 0 <= (result.score or 0) <= 1:
                given = f"the status {result.status} and the score {describe(result.score)}"
                fix = "return a score from 0 to 1 with the status ok, and None with any other"
                return GraderResult.failed(f"{self.label} returned {given}; {fix}")
        except Missing as missing:
            result = self.missing(missing.why)
        except GermaneError:
            raise
        except Exception as fault:  # noqa: BLE001 - a grader may be a user's own; its fault is one case's error
            return GraderResult.failed(f"{self.label} raised {type(fault).__name__}: {fault}")
        if result.score is None:
            return result
        return replace(result, verdict=result.verdict or self.verdict(result.score))

    def verdict(self, score: float) -> Verdict:
        """Return "pass" for a score from `min_score` (default 0.8), "borderline" from 0.6, else "fail"."""
        return verdict_of(score, PASS if self.min_score is None else self.min_score)


class DirectGrader(CaseGrader):
    """Base class of graders that need no judge: `check` computes the result from the case."""

    def compute(self, case: Case) -> Program[GraderResult]:
        """Return the result of `check`, without asking a judge.

        If `check` returns a value of the wrong type, the result is an error.
        """
        yield from ()
        result: Any = self.check(case)
        if isinstance(result, GraderResult):
            return result
        if isinstance(result, bool | int | float | np.bool_ | np.number) and 0 <= result <= 1:
            return GraderResult(score=float(result))
        problem = f"check of {self.label} must return True, False, a number from 0 to 1 or a GraderResult"
        return GraderResult.failed(f"{problem}, not {describe(result)}")

    @abstractmethod
    def check(self, case: Case) -> GraderResult | float | bool:
        """Check a case and return a GraderResult, a score from 0 to 1, or True if the case passes."""

    def absent(self, miss: str, reasoning: str) -> GraderResult:
        """Return the result for a case that lacks data: skipped, or the score 0 with AgentV compatibility.

        `reasoning` is the reason; `miss` is added to the misses of a score 0.
        """
        if not self.agentv:
            return GraderResult.skipped(reasoning)
        return GraderResult(score=0.0, verdict="fail", misses=(miss,), reasoning=reasoning)


def together(programs: Iterable[Program[R]]) -> Program[list[R]]:
    """Run several generators of questions in parallel, and return their results in order.

    The next questions of all generators are yielded together, so that a judge can answer them in one batch.
    """
    running = list(programs)
    results: dict[int, R] = {}
    asking: dict[int, Sequence[Any]] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(running)))
    while len(results) < len(running):
        for number, answer in answers.items():
            try:
                asking[number] = running[number].send(answer)
            except StopIteration as end:
                results[number] = end.value
        if not asking:
            break
        replies = iter((yield tuple(question for questions in asking.values() for question in questions)))
        answers = {number: tuple(next(replies) for _ in questions) for number, questions in asking.items()}
        asking = {}
    return [results[number] for number in range(len(running))]
