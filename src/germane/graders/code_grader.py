"""The script as a grader: a program of the user's reads the case on stdin and prints a score."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from germane.graders.evidence import script_document
from germane.graders.grader import CaseGrader, GraderResult
from germane.questions.asking import Program, ask
from germane.questions.script import ScriptGrade, ScriptResult
from germane.samples.evalfile import Case
from germane.samples.yamltext import JsonMapping
from germane.types import FrozenDict, freeze


class CodeGrader(CaseGrader):
    """The score that a program prints: one JSON document on its stdin, one on its stdout.

    A program that cannot be started, ends with an error, takes longer than `timeout` or prints no score is an error, never
    a score of 0.

    Attributes:
        script: A list is the program and its arguments, a text runs through `sh -lc`.
        cwd: Where it starts.
        timeout: Seconds that it may take.
        env: Names of variables that it gets beside PATH, HOME, LANG and the like.
        max_calls: Calls that it may put to the evaluation's judge, through AGENTV_TARGET_PROXY_URL; None lends none.
        config: What the document holds under `config`.
    """

    type: ClassVar[str] = "code_judge"

    script: Annotated[str, Field(min_length=1)] | Annotated[tuple[str, ...], Field(min_length=1)]
    cwd: str = "."
    timeout: Annotated[float, Field(gt=0)] = 120.0
    env: tuple[str, ...] = ()
    max_calls: Annotated[int, Field(ge=0)] | None = None
    config: JsonMapping = FrozenDict()

    @property
    def asks(self) -> bool:
        """Whether the program is lent a judge."""
        return self.max_calls is not None

    def question(self, case: Case) -> ScriptGrade:
        """What is run for a case."""
        sample = case.sample
        return ScriptGrade(
            command=self.script,
            document=freeze(script_document(case, self.config)),
            cwd=self.cwd,
            timeout=self.timeout,
            env=self.env,
            max_calls=self.max_calls,
            agentv=self.agentv,
            of=(sample.id, sample.system, str(sample.trial), self.label),
        )

    def compute(self, case: Case) -> Program[GraderResult]:
        """Run it, and read what it printed."""
        found = yield from ask(self.question(case))
        return result_of(found)


def result_of(found: ScriptResult) -> GraderResult:
    """What a program printed, as a result."""
    return GraderResult(
        score=found.score,
        hits=found.hits,
        misses=found.misses,
        reasoning=found.reasoning,
        details=found.details,
    )
