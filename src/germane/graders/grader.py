"""Graders: each reads a case with the system's answer, and returns a score from 0 to 1 with its evidence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, TypeVar

import numpy as np
from pydantic import AfterValidator, Field, PlainValidator, ValidationError, model_validator

from germane import yamltext
from germane.errors import GermaneError, InputError, Invalid, describe
from germane.evalfiles.case import Case
from germane.measures.graders import BORDERLINE, PASS, STRICT, define_grader
from germane.measures.outcome import Outcome
from germane.questions.asking import Missing, Program
from germane.samples.files import check_trusted
from germane.types import FrozenDict, Json, Sample, Status
from germane.yamltext import Keys, Share, YamlModel, plain, wrong_in

R = TypeVar("R")


def is_answered(case: Case) -> bool:
    """Return whether the system's answer is known, even if it is empty."""
    return case.sample.response is not None or any(m.role == "assistant" for m in case.sample.messages)


Verdict: TypeAlias = Literal["pass", "borderline", "fail"]
Checks: TypeAlias = Iterable[tuple[bool | None, str]]
"""Pairs of a result (None = it does not count) and its description; "" has none."""

Number = Annotated[yamltext.Number, Field(ge=0.0), plain]
Numbers = Annotated[dict[str, Number], AfterValidator(FrozenDict), plain]
"""A mapping from names to numbers, none below 0."""


def _gate(value: Any) -> Any:
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise Invalid(f"is {describe(value)}", "write true (0.8) or a number from 0 to 1")
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
        raise Invalid(f"is {describe(value)}", "write a command: python3 grade.py")
    check_trusted(f"a grader runs {' '.join(words)!r}")
    return str(value) if isinstance(value, str) else tuple(map(str, words))


_Words: TypeAlias = str | tuple[str, ...]
Command = Annotated[_Words, PlainValidator(_command, json_schema_input_type=_Words)]
"""A list is a program and its arguments, a text runs through `sh -lc`."""


def verdict_of(score: float, least: float = PASS) -> Verdict:
    """Return `pass` from `least` (0.8), `borderline` from 0.6, else `fail`."""
    return "pass" if score >= least else "borderline" if score >= BORDERLINE else "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraderResult:
    """The result of a grader for one case.

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
        """Return the result of a case that lacks what the grader needs."""
        return cls(score=None, status="skipped", why=why)

    @classmethod
    def failed(cls, why: str) -> GraderResult:
        """Return the result of a grader that failed, because its judge or script failed."""
        return cls(score=None, status="error", why=why)

    @classmethod
    def of_checks(cls, checks: Checks, what: str = "") -> GraderResult:
        """Return the share of the checks that are met; the reasoning counts them under the name `what`."""
        results = list(checks)
        hits = tuple(message for met, message in results if met)
        misses = tuple(message for met, message in results if not met and message)
        total = sum(met is not None for met, _ in results)
        if not total:
            return cls.skipped("there was nothing to check")
        reasoning = f"{len(hits)}/{total} {what}" if what else ""
        return cls(score=len(hits) / total, hits=hits, misses=misses, reasoning=reasoning)

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
        checks = [(text, True) for text in self.hits] + [(text, False) for text in self.misses]
        rows: list[dict[str, Json]] = []
        for finding, passed in checks:
            text, _, evidence = finding.partition(" - ")
            rows.append({"text": text, "passed": passed} | ({"evidence": evidence} if evidence else {}))
        return rows

    def as_json(self) -> dict[str, Json]:
        """Return the result in the form of both generations of AgentV."""
        result: dict[str, Json] = {"score": self.score, "verdict": self.verdict, "hits": list(self.hits)}
        result |= {"misses": list(self.misses), "reasoning": self.reasoning, "assertions": self.assertions}
        result |= {"details": self.details} if self.details else {}
        return result if self.status == "ok" else {**result, "status": self.status, "why": self.why}


class CaseGrader(YamlModel, ABC):
    """Base class of all graders: reported name, weight, and the score that a case must reach.

    Attributes:
        name: Reported name. Default: its type.
        weight: Its weight in the mean of the case's graders.
        required: True (the score must reach `min_score`, or 0.8), or the least score itself: a gate on the case.
        min_score: Lowest score that passes. Default: 0.8.
        compatibility: "agentv" gives the values of AgentV 2.1 (January 2026) where they differ from germane's: data that
            is missing, a judge or a script that fails then score 0.

    Raises:
        InputError: A parameter cannot be used.
    """

    type: ClassVar[str]
    """The name of the grader's type in eval files."""
    opens_config: ClassVar[bool] = True
    """Whether options may stand under `config` as well."""
    named_by_value: ClassVar[bool] = False
    """Whether one without a name is called by its type and value, as its entry stands."""
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
        """Raise InputError for an unusable parameter of a grader made in Python."""
        if not isinstance(value, dict):
            return handler(value)
        try:
            made = handler(value)
        except ValidationError as error:
            wrong = wrong_in(error)
            wrong.problem = f"{cls.type}{':' if wrong.path else ''} {wrong.error(None).problem}"
            raise InputError(wrong.problem, fix=wrong.fix) from None
        try:
            hash(made)
        except TypeError as error:  # a field of a user's own grader
            fix = "write a tuple in place of a list, a FrozenDict in that of a dict"
            raise InputError(
                f"{cls.type}: an option cannot be a value that changes: {error}", fix=fix
            ) from None
        return made

    @classmethod
    def complete(cls, keys: Keys) -> None:
        """Add the fields that are set once for all graders of a file, or by the type."""
        values = keys.values
        values |= keys.context.get("fixed", {})
        keys.what = str(values.get("name") or values.get("test") or values.get("measure") or cls.what)
        super().complete(keys)

    @property
    def label(self) -> str:
        """The name in reports."""
        return self.name or self.type

    @property
    def stored_type(self) -> str:
        """The type that its scores are stored under."""
        return self.type

    @property
    def gate(self) -> float | None:
        """The least score that a case must reach; None if the grader is not a gate."""
        if self.required is True:
            return PASS if self.min_score is None else self.min_score
        return None if self.required is False else float(self.required)

    @property
    def asks(self) -> bool:
        """True if it needs a judge."""
        return False

    @property
    def agentv(self) -> bool:
        """True if the grader computes AgentV's own values."""
        return self.compatibility == "agentv"

    @abstractmethod
    def compute(self, case: Case) -> Program[GraderResult]:
        """Return the result before `negate` and `min_score`; Missing may be raised."""

    def missing(self, why: str) -> GraderResult:
        """Return the result of a case for which a judge's answer is missing: an error."""
        return GraderResult.failed(why)

    def unanswered(self, case: Case) -> GraderResult | None:
        """Return a skipped result if the system's answer is unknown, else None; always None for AgentV, which takes it as empty."""
        return None if self.agentv or is_answered(case) else GraderResult.skipped("no response")

    def grade_sample(self, sample: Sample, case: Case | None) -> Program[GraderResult]:
        """Grade a sample within its case of an eval file, or as a case of its own."""
        return self.grade(Case(sample=sample) if case is None else case)

    def grade(self, case: Case) -> Program[GraderResult]:
        """Grade one case: a generator of questions that returns the result; the case's content never makes it raise."""
        sample = case.sample
        if sample.failed:
            return GraderResult.failed(sample.error or "")
        try:
            result = yield from self.compute(case)
            if (result.score is None) is (result.status == "ok") or not 0 <= (result.score or 0) <= 1:
                problem = (
                    f"{self.label} gave the status {result.status} and the score {describe(result.score)}"
                )
                return GraderResult.failed(
                    f"{problem}; a score from 0 to 1 stands where the status is ok, and only there"
                )
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
        """Return `pass` if the score reaches `min_score` (0.8 by default), else `borderline` or `fail`."""
        return verdict_of(score, PASS if self.min_score is None else self.min_score)


class DirectGrader(CaseGrader):
    """A grader without questions: a plain function of the case."""

    def compute(self, case: Case) -> Program[GraderResult]:
        """Return the result of `check` as a program without questions; an error if it returns no result."""
        yield from ()
        result: Any = self.check(case)
        if isinstance(result, GraderResult):
            return result
        if isinstance(result, bool | int | float | np.bool_ | np.number) and 0 <= result <= 1:
            return GraderResult(score=float(result))
        problem = f"check of {self.label} must return true or false, a number from 0 to 1 or a GraderResult"
        return GraderResult.failed(f"{problem}, not {describe(result)}")

    @abstractmethod
    def check(self, case: Case) -> GraderResult | float | bool:
        """Return the result, the score alone (0 to 1), or whether the case passes."""

    def absent(self, miss: str, reasoning: str) -> GraderResult:
        """Return the result for a case without the data: skipped, or AgentV's 0."""
        if not self.agentv:
            return GraderResult.skipped(reasoning)
        return GraderResult(score=0.0, verdict="fail", misses=(miss,), reasoning=reasoning)


def together(programs: Iterable[Program[R]]) -> Program[list[R]]:
    """Run programs side by side, so that their next questions are asked together; return their results in order."""
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
