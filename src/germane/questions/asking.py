"""Programs, which are generators that ask questions and return a result, and functions to run them.

Measures use judges only through programs. The questions are answered by a judge or from stored answers.

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
    """A judgement and its `value`: the typed answer parsed from it, or an Unanswered if there is none."""

    judgement: Judgement
    value: Any
    children: tuple[Judgement, ...] = ()  # the judgements of panel members, or about parts of the contexts

    @property
    def usable(self) -> bool:
        """True if `value` is a typed answer: the judgement is no error and its payload could be parsed."""
        return not isinstance(self.value, Unanswered)

    @property
    def holds(self) -> bool:
        """True if the question need not be asked again: the judgement is an error or has a valid payload."""
        return not isinstance(self.value, Unanswered) or self.judgement.error is not None


def answered(question: Question[Any], judgement: Judgement) -> Answer:
    """Return the Answer with this judgement and the typed answer in it (a grade "2" is parsed as 2)."""
    value, given = value_of(question, judgement.answer, judgement.error), judgement.answer
    if isinstance(given, dict) and isinstance(given.get("grade"), str) and not isinstance(value, Unanswered):
        judgement = replace(judgement, answer={**given, "grade": value.grade})
    return Answer(judgement, value)


def value_of(question: Question[Any], answer: Json, error: str | None) -> Any:
    """Return the typed answer in the payload `answer`; Unanswered if it is unusable or an `error`."""
    if error is not None:
        return Unanswered(error)
    try:
        return question.parse(answer)
    except AnswerError as unusable:
        return Unanswered(f"unusable answer: {unusable}")


class Missing(Exception):
    """Raised in a program when the answer to its question is missing; `why` is the reason."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


def ask(question: Question[A]) -> Program[A]:
    """Ask one question and return the typed answer. Raises Missing if the question gets no answer."""
    (answer,) = yield from ask_each([question])
    return answer


def ask_all(questions: Iterable[Question[A]]) -> Program[tuple[A | Unanswered, ...]]:
    """Ask several questions at once; return, for each of them, the typed answer or Unanswered."""
    asked = tuple(questions)
    return (yield asked) if asked else ()


def ask_each(questions: Iterable[Question[A]]) -> Program[tuple[A, ...]]:
    """Ask several questions at once; return the typed answers. Raises Missing if one gets no answer."""
    answers = yield from ask_all(questions)
    results: list[A] = []
    for answer in answers:
        if isinstance(answer, Unanswered):
            raise Missing(answer.why)
        results.append(answer)
    return tuple(results)


_SIGNALS_SECONDS = 0.1
"""The longest time for which `start` runs programs before it lets signals be handled."""

Trace = list[tuple[Sequence[AnyQuestion], Sequence[Answer]]]
"""The steps of one program, in order: the questions that it asked together, and the answers to them."""


FindAnswers: TypeAlias = Callable[
    [Sequence[Sequence[AnyQuestion]]], Awaitable[Sequence[Sequence[Answer | None]]]
]
"""Returns the known answer to each question of several lists, or None if a judge must be asked."""
AskJudge: TypeAlias = Callable[[Sequence[AnyQuestion]], Awaitable[Sequence[Answer]]]
"""Returns one answer per question, in order."""


class Running(Generic[R]):
    """A running program (a generator that yields questions and receives the answers) and its state.

    `questions` are those that it asked last. `stored` contains an answer to each of them, or None if a judge
    must answer. `trace` contains earlier questions with answers; `result` is set once it is `finished`.
    """

    __slots__ = ("_program", "finished", "questions", "result", "stored", "trace")

    def __init__(self, program: Program[R]) -> None:
        self._program, self.trace = program, Trace()
        self.questions: Sequence[AnyQuestion] | None = None
        self.stored: Sequence[Answer | None] = ()
        self.result: R
        self.finished = False
        self.go_on(())

    def go_on(self, answers: Sequence[Answer]) -> None:
        """Send the program the answers to its current questions, and run it until it asks again or ends."""
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
        """Run the program until it has a `result`. `ask` answers the questions without a stored answer."""
        while not self.finished:
            assert ask is not None
            questions = self.questions or ()
            stored = self.stored or [None] * len(questions)
            missing = [number for number, answer in enumerate(stored) if answer is None]
            new = iter(await ask([questions[number] for number in missing]))
            self.go_on([next(new) if answer is None else answer for answer in stored])


async def start(programs: Iterable[Program[R]], find: FindAnswers) -> list[Running[R]]:
    """Start the programs, run each one until a question has no stored answer, and return them in order.

    `find` is also called with no questions between starts, so that a signal can interrupt a long series.
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
    """Run programs concurrently until all have returned; if one fails, the others are cancelled."""
    tasks = [asyncio.ensure_future(program.finish(ask)) for program in programs if not program.finished]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


FindValues: TypeAlias = Callable[[Sequence[Sequence[AnyQuestion]]], Sequence[Sequence[Any]]]
"""Returns the stored answer to each question of several lists, or `Unanswered` if no answer is stored."""


def results_of(programs: Sequence[Program[R]], find: FindValues) -> list[R]:
    """Return the results of programs that are run with the answers of `find` only."""
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
    """Run a program with the answers from `find`; return its result and its (question, answer) pairs."""
    exchange: list[tuple[AnyQuestion, Any]] = []

    def noted(asked: Sequence[Sequence[AnyQuestion]]) -> Sequence[Sequence[Any]]:
        found = find(asked)
        exchange.extend(zip(asked[0], found[0], strict=True))
        return found

    return results_of([program], noted)[0], exchange
