"""Programs: generators that ask questions and return a result. Measures use judges through them only.

A program yields a tuple of questions and is sent a tuple of the same length: the typed answer to each, or an
`Unanswered` in its place. `ask` and `ask_all` wrap that exchange::

    claims = yield from ask(Claims(sample.query, sample.reference))
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from germane.errors import AnswerError
from germane.questions.question import Question
from germane.types import Json, Judgement

__all__ = ["Answer", "Missing", "Unanswered"]

A = TypeVar("A")
R = TypeVar("R")

Program: TypeAlias = Generator[Sequence[Question[Any]], tuple[Any, ...], R]


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A placeholder for a missing answer, with the reason why it is missing."""

    why: str


class Answer(Struct, frozen=True, gc=False):
    """A judgement together with the typed answer parsed from it, or with Unanswered."""

    judgement: Judgement
    value: Any
    children: tuple[Judgement, ...] = ()  # of a panel's members, or about parts of the contexts

    @property
    def usable(self) -> bool:
        """True if the judgement has a usable answer."""
        return not isinstance(self.value, Unanswered)

    @property
    def holds(self) -> bool:
        """True if the question need not be asked again: it has a usable answer, or an error."""
        return not isinstance(self.value, Unanswered) or self.judgement.error is not None


def answered(question: Question[Any], judgement: Judgement) -> Answer:
    """Return a judgement with its typed answer (a grade "2" becomes 2), or with Unanswered if unusable."""
    value, given = value_of(question, judgement.answer, judgement.error), judgement.answer
    if isinstance(given, dict) and isinstance(given.get("grade"), str) and not isinstance(value, Unanswered):
        judgement = replace(judgement, answer={**given, "grade": value.grade})
    return Answer(judgement, value)


def value_of(question: Question[Any], answer: Json, error: str | None) -> Any:
    """Return the typed answer parsed from a payload, or Unanswered with the error or the parsing problem."""
    if error is not None:
        return Unanswered(error)
    try:
        return question.parse(answer)
    except AnswerError as unusable:
        return Unanswered(f"unusable answer: {unusable}")


class Missing(Exception):
    """Raised in a program at the `yield` whose answer is missing; `why` is the reason."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


def ask(question: Question[A]) -> Program[A]:
    """Ask one question and return its typed answer. Raises Missing if there is none."""
    (answer,) = yield from ask_each([question])
    return answer


def ask_all(questions: Iterable[Question[A]]) -> Program[tuple[A | Unanswered, ...]]:
    """Ask several questions at once and return the typed answer to each, or Unanswered in its place."""
    asked = tuple(questions)
    return (yield asked) if asked else ()


def ask_each(questions: Iterable[Question[A]]) -> Program[tuple[A, ...]]:
    """Ask several questions at once and return the typed answers. Raises Missing if one has no answer."""
    answers = yield from ask_all(questions)
    results: list[A] = []
    for answer in answers:
        if isinstance(answer, Unanswered):
            raise Missing(answer.why)
        results.append(answer)
    return tuple(results)
