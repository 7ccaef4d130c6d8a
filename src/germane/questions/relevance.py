"""The question of whether a passage is relevant to the query, and the grades that answer it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from msgspec import Struct

from germane.clean import blank
from germane.encoding import relevance_items
from germane.errors import AnswerError
from germane.questions.question import Question, Vote
from germane.types import Json, Scale

if TYPE_CHECKING:
    from germane.questions.payload import PayloadModel

Rubric = Literal["trec", "usefulness"]
A = TypeVar("A")

EMPTY = "the passage is empty"
HIGHEST = 3  # the highest grade of the graded scale, from 0
HELPS = 2  # the lowest grade that is converted to yes on the binary scale


class Grade(Struct, frozen=True, gc=False):
    """The relevance of a passage: a grade from 0 to 3, as the rubric defines them, or 0 or 1 (binary scale).

    If the judge gives probabilities, `probabilities` contains one per grade, from grade 0 up; `grade` is then
    the most probable grade.
    """

    grade: int
    reasoning: str = ""
    scale: Scale = "graded"
    probabilities: tuple[float, ...] = ()


@cache
def _payload(*, binary: bool = False, probabilities: bool = False) -> type[PayloadModel]:
    from germane.questions import payload

    if probabilities:
        return payload.RelevantDistribution if binary else payload.GradeDistribution
    return payload.RelevantPayload if binary else payload.GradePayload


@dataclass(frozen=True, slots=True, kw_only=True)
class AboutPassage(Question[A]):
    """Base class of questions about one passage; its prompt shows reference, response and criterion."""

    batched: ClassVar[bool] = True
    item_fields: ClassVar[tuple[str, ...]] = ("query", "history", "passage")
    context_fields: ClassVar[tuple[str, ...]] = ("reference", "response", "criterion")

    query: str
    passage: str
    reference: str | None = None
    response: str | None = None
    criterion: str | None = None
    history: tuple[tuple[str, str], ...] = ()

    def settings(self) -> dict[str, str]:
        """Return `against`: the first of reference, response and criterion that is given, else "query"."""
        return {"against": next((name for name in self.context_fields if getattr(self, name)), "query")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Relevance(AboutPassage[Grade]):
    """Asks whether a passage is relevant to the query.

    `rubric` selects the definition of the grades: `trec` is that of UMBRELA, and `usefulness` grades how much
    the passage helps to answer the query.
    """

    kind: ClassVar[str] = "relevance"

    scale: Scale = "graded"
    rubric: Rubric = "trec"

    @classmethod
    def usual_payload(cls) -> type[PayloadModel]:
        """Return the payload type with a grade from 0 to 3; its field descriptions are in the prompt hash."""
        return _payload()

    def payload_type(self, payload: Json = None) -> type[PayloadModel]:
        """Return the payload type for the question's scale, or that which fits a given payload."""
        fields = payload if isinstance(payload, dict) else {}
        binary = self.scale == "binary" or ("relevant" in fields and "grade" not in fields)
        return _payload(binary=binary, probabilities="probabilities" in fields)

    @property
    def prompt(self) -> str:
        """The name of the prompt file: relevance, relevance_binary or relevance_usefulness."""
        if self.scale == "binary":
            return "relevance_binary"
        return "relevance" if self.rubric == "trec" else f"relevance_{self.rubric}"

    def settings(self) -> dict[str, str]:
        """Return the settings `against`, `scale` and, on the graded scale, `rubric`."""
        wording = {"rubric": self.rubric} if self.scale == "graded" else {}
        return {**AboutPassage.settings(self), "scale": self.scale, **wording}

    def answer(self, payload: Any) -> Grade:
        """Return the Grade in a payload: 0 to 3, or 0 or 1 on the binary scale."""
        fields = vars(payload)  # pydantic is slow to say that an attribute is not there
        probabilities = tuple(fields.get("probabilities", ()))
        if "relevant" in fields:
            return Grade(int(payload.relevant), payload.reasoning, "binary", probabilities)
        return Grade(payload.grade, payload.reasoning, "graded", probabilities)

    def short(self, payload: Json) -> str:
        """Return the grade as a string, with probabilities if given: `2 (0: 5%, 1: 15%, 2: 60%, 3: 20%)`."""
        chances = payload.get("probabilities", ())
        short = Question.short(self, {key: payload[key] for key in payload if key != "probabilities"})
        if len(chances) == 2:
            return f"{short} (yes: {chances[1]:.0%})"
        of_grades = ", ".join(f"{grade}: {chance:.0%}" for grade, chance in enumerate(chances))
        return f"{short} ({of_grades})" if chances else short

    def vote(self, payloads: Sequence[Json]) -> Vote | None:
        """Return the majority vote. If one vote is only yes or no, all grades are converted to yes or no."""
        votes = [self.validate(payload, as_answered=True) for payload in payloads]
        if self.scale == "binary" or all("grade" in vote for vote in votes):
            return Question.vote(self, votes)
        relevant = [{"relevant": vote.get("grade", 0) >= HELPS, **vote} for vote in votes]
        return Question.vote(replace(self, scale="binary"), relevant)

    def unasked(self) -> Json | AnswerError:
        """Return "not relevant" for an empty passage, an AnswerError for a missing passage, else None."""
        if not self.passage:
            return AnswerError("the context has no text")
        verdict = {"relevant": False} if self.scale == "binary" else {"grade": 0}
        return {"reasoning": EMPTY, **verdict} if blank(self.passage) else None

    def typical(self) -> Json:
        """Return a payload of typical size: a reason of one sentence, and grade 2 or yes."""
        reasoning = "The passage names the thing that the query asks about and explains it."
        return {"reasoning": reasoning, **({"relevant": True} if self.scale == "binary" else {"grade": 2})}


class Passages(Sequence[Relevance]):
    """A sequence of relevance questions with the same settings. Each question object is created on access.

    `cells` contains a (query, passage) pair per question; `history` and `shared` are the fields that are
    equal for all questions.
    """

    def __init__(
        self, cells: Sequence[tuple[str, str]], history: tuple[tuple[str, str], ...] = (), **shared: Any
    ) -> None:
        self.cells, self.history, self._alike = cells, history, shared

    @cached_property
    def example(self) -> Relevance:
        """The first question. Its prompt, settings and way of parsing are the same for all questions."""
        first: Relevance = self[0]
        return first

    @cached_property
    def items(self) -> list[str]:
        """The item (digest) of each question, in order."""
        return relevance_items(self.cells, self.history)

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        query, passage = self.cells[at]
        return Relevance(query=query, passage=passage, history=self.history, **self._alike)


def examples_of(questions: Sequence[Question[Any]]) -> Iterable[Question[Any]]:
    """Return `questions`; if they are `Passages`, return the first question as often as there are passages.

    That is enough where only prompt and settings matter, because only query and passage differ.
    """
    if isinstance(questions, Passages) and questions.cells:
        return repeat(questions.example, len(questions.cells))
    return questions
