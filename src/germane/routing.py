"""Who answers which question, and whether anybody has to."""

from __future__ import annotations

from collections.abc import Iterable

from germane.errors import InputError
from germane.judges.judge import Judge, Judges
from germane.judges.script import ScriptGrade, ScriptJudge
from germane.measures.graders import Grader
from germane.measures.measure import Measure
from germane.questions import AnyQuestion

__all__ = ["NAME_A_JUDGE", "Router", "needs_judge", "resolve_judge"]

NAME_A_JUDGE = "name one: --judge labels | lexical | openai:gpt-4o-mini (in Python: judge=...)"


class Router:
    """Who answers which question: scripts run themselves, everything else goes to the evaluation's judge."""

    def __init__(self, judge: Judge | None) -> None:
        self.judge = judge
        self.scripts = ScriptJudge()

    def __call__(self, question: AnyQuestion) -> Judge:
        """The judge of this question."""
        if isinstance(question, ScriptGrade):
            return self.scripts
        if self.judge is None:
            raise InputError("these measures need a judge", fix=NAME_A_JUDGE)
        return self.judge


def needs_judge(graders: Iterable[Grader]) -> bool:
    """Whether any of these graders asks a judge."""
    return any(
        grader.script is None and (grader.measure.definition.asks or _reads_verdicts(grader.measure))
        for grader in graders
    )


def _reads_verdicts(measure: Measure) -> bool:
    return measure.definition.family == "ranked" and measure.labels in {"judge", "best"}


def resolve_judge(judge: Judges | None) -> Judge:
    """A judge by name or as it is, several as a panel; InputError where none is named."""
    if judge is None:
        raise InputError("these measures need a judge", fix=NAME_A_JUDGE)
    from germane.judges import judge_from

    return judge_from(judge)
