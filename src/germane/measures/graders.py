"""A grader: a measure as one case uses it - its reported name, weight, whether it is required, its options."""

from __future__ import annotations

from dataclasses import dataclass, field

from germane.judges.script import ScriptGrade
from germane.measures.measure import Definition, Measure, define
from germane.types import FrozenDict

__all__ = ["CODE_JUDGE", "Grader", "graders_of"]

PASS, BORDERLINE = 0.8, 0.6
STRICT = "strict: "
"""How the note on a score begins that fails the verdict of a case with a strict grader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """A measure with what an eval file says about it.

    `name` is what it is reported under. `required` is the least value that the case must reach, as a gate on
    the evaluation. `strict` fails the case's verdict on any irrelevant context and leaves the score;
    `expected_relevant_count` adds a note where fewer are found. `script` is what a `code_judge` runs.
    """

    measure: Measure
    name: str = ""
    weight: float = 1.0
    required: float | None = None
    strict: bool = False
    expected_relevant_count: int | None = None
    script: ScriptGrade | None = None
    options: FrozenDict = field(default_factory=FrozenDict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or str(self.measure))


def graders_of(measures: tuple[Measure, ...]) -> tuple[Grader, ...]:
    """Plain measures as graders of equal weight."""
    return tuple(Grader(measure=measure) for measure in measures)


def _never(*_: object, **__: object) -> None:
    raise AssertionError("a code_judge is run through its grader's script")


define(
    Definition(
        name="code_judge",
        family="judged",
        compute=_never,
        needs=(),
        formula="what the script prints as score",
        doc="A grading program of the user's: one JSON document on stdin, one on stdout. Declared in an eval file.",
        reference="AgentV's code_judge protocol",
        nothing="no score printed: error",
        calls="1 process a case",
        aliases=("code-judge", "code_grader", "code-grader"),
    )
)
CODE_JUDGE = Measure("code_judge")
