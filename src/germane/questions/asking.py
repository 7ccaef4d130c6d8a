"""Programs: generators that ask questions and return a result, and how they are run.

Measures use judges through them only; their questions are answered by a judge, or by stored answers.

A program yields a tuple of questions and is sent a tuple of the same length: the typed answer to each, or an
`Unanswered` in its place. `ask` and `ask_all` wrap that exchange::

    claims = yield from ask(Claims(sample.query, sample.reference))
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from germane.errors import AnswerError
from germane.questions.question import AnyQuestion, Question
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


_SIGNALS_SECONDS = 0.1
"""The longest time for which further programs start before signals are handled."""

Trace = list[tuple[Sequence[AnyQuestion], Sequence[Answer]]]
"""The questions that one program asked at once, with the answers, in the order of asking."""


FindAnswers: TypeAlias = Callable[
    [Sequence[Sequence[AnyQuestion]]], Awaitable[Sequence[Sequence[Answer | None]]]
]
"""Returns for each list of questions the answers that need no judge, None in place of the others: live, stored or counted ones."""
AskJudge: TypeAlias = Callable[[Sequence[AnyQuestion]], Awaitable[Sequence[Answer]]]
"""Returns one answer per question, in order."""


class Running(Generic[R]):
    """A running program: its current questions, the trace of earlier ones, and finally its result."""

    __slots__ = ("_program", "finished", "questions", "result", "stored", "trace")

    def __init__(self, program: Program[R]) -> None:
        self._program, self.trace = program, Trace()
        self.questions: Sequence[AnyQuestion] | None = None
        self.stored: Sequence[Answer | None] = ()
        self.result: R
        self.finished = False
        self.go_on(())

    def go_on(self, answers: Sequence[Answer]) -> None:
        """Send the program the answers to its current questions, and run it to the next ones or its end."""
        values = None
        if self.questions is not None:
            values = tuple([answer.value for answer in answers])
            self.trace.append((self.questions, answers))
        self.stored = ()
        try:
            self.questions = self._program.send(values)  # type: ignore[arg-type]
        except StopIteration as end:
            self.result, self.finished = end.value, True

    async def finish(self, ask: AskJudge | None) -> None:
        """Run the program to its end, calling `ask` for the answers that were not stored."""
        while not self.finished:
            assert ask is not None
            questions = self.questions or ()
            stored = self.stored or [None] * len(questions)
            missing = [number for number, answer in enumerate(stored) if answer is None]
            new = iter(await ask([questions[number] for number in missing]))
            self.go_on([next(new) if answer is None else answer for answer in stored])


async def start(programs: Iterable[Program[R]], find: FindAnswers) -> list[Running[R]]:
    """Start programs, and run each as far as stored answers allow.

    Programs may take seconds before they ask, so `find` is also called in between: it raises on a signal.
    """
    running, heard = [], time.monotonic()
    for program in programs:
        if time.monotonic() - heard > _SIGNALS_SECONDS:
            await find([])
            heard = time.monotonic()
        running.append(Running(program))
    going = [program for program in running if not program.finished]
    while going:
        stored = await find([value.questions or () for value in going])
        complete = list[Running[R]]()
        for value, answers in zip(going, stored, strict=True):
            value.stored = answers
            if None not in answers:
                value.go_on(answers)  # type: ignore[arg-type]
                complete.append(value)
        going = [value for value in complete if not value.finished]
    return running


async def finish(programs: Iterable[Running[R]], ask: AskJudge | None) -> None:
    """Run several programs to the end concurrently, so that their questions reach a judge together."""
    tasks = [asyncio.ensure_future(program.finish(ask)) for program in programs if not program.finished]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


FindValues: TypeAlias = Callable[[Sequence[Sequence[AnyQuestion]]], Sequence[Sequence[Any]]]
"""Finds the stored answer to each question of several lists, `Unanswered` in place of one that is not there."""


def results_of(programs: Sequence[Program[R]], find: FindValues) -> list[R]:
    """Return the result of each program from stored answers, looked up for all programs together."""
    results: dict[int, R] = {}
    waiting: dict[int, Any] = dict.fromkeys(range(len(programs)))
    while waiting:
        asked: dict[int, Sequence[AnyQuestion]] = {}
        for number, answers in waiting.items():
            try:
                asked[number] = programs[number].send(answers)
            except StopIteration as end:
                results[number] = end.value
        waiting = dict(zip(asked, map(tuple, find([*asked.values()]) if asked else ()), strict=True))
    return [results[number] for number in range(len(programs))]


def replay(program: Program[R], find: FindValues) -> tuple[R, list[tuple[AnyQuestion, Any]]]:
    """Return a program's result from stored answers, and each of its questions with the typed answer."""
    exchange: list[tuple[AnyQuestion, Any]] = []

    def noted(asked: Sequence[Sequence[AnyQuestion]]) -> Sequence[Sequence[Any]]:
        found = find(asked)
        exchange.extend(zip(asked[0], found[0], strict=True))
        return found

    return results_of([program], noted)[0], exchange
