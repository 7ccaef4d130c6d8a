"""Who waits for what: questions in flight, those who wait for their answers, and each judge's queue."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from germane.errors import GermaneError, JudgeError
from germane.judges.judge import Judge, Reply
from germane.judging.layout import to_row
from germane.questions import AnyQuestion
from germane.questions.asking import Answer, Unanswered, answered
from germane.types import Judgement
from germane.utc import now

__all__ = ["Arrived", "Asked", "Batch", "Lane", "batch_for"]


class Batch:
    """Answers that are waited for together: each has its place, and the last one ends the wait.

    Args:
        size: How many.
        done: Called with all of them, in their places.
        fail: Called where one of them will not come.
    """

    __slots__ = ("_answers", "_done", "_missing", "fail")

    def __init__(
        self, size: int, done: Callable[[list[Answer]], None], fail: Callable[[BaseException], None]
    ) -> None:
        self._answers: list[Answer | None] = [None] * size
        self._missing, self._done, self.fail = size, done, fail

    def take(self, place: int, answer: Answer) -> None:
        """One answer."""
        self._answers[place] = answer
        self._missing -= 1
        if not self._missing:
            self._done([answer for answer in self._answers if answer is not None])


def batch_for(future: asyncio.Future[Sequence[Answer]], size: int) -> Batch:
    """A batch whose end is a future's."""

    def done(answers: list[Answer]) -> None:
        if not future.done():
            future.set_result(answers)

    def fail(error: BaseException) -> None:
        if not future.done():
            future.set_exception(error)
            future.exception()  # seen, even where nobody waits any more

    return Batch(size, done, fail)


class Arrived(NamedTuple):
    """One question that has come in, and the place where its answer is waited for."""

    key: str
    question: AnyQuestion
    judge: Judge
    batch: Batch
    place: int


@dataclass(slots=True)
class Asked:
    """One distinct question in flight, and the places where its answer is waited for."""

    key: str
    question: AnyQuestion
    judge: Judge
    waiting: list[tuple[Batch, int]]

    def answer(self, reply: Reply) -> Answer:
        """The judgement that a reply is, and what it says; one that cannot be read is an error."""
        try:
            return self._read(reply)
        except Exception as error:  # noqa: BLE001 - whatever somebody's own judge put into it
            why = f"what the judge {self.judge.name} said cannot be read: {type(error).__name__}: {error}"
            return self._read(Reply(error=why, usage=reply.usage))

    def _read(self, reply: Reply) -> Answer:
        judgement = Judgement(
            key=self.key,
            kind=self.question.kind,
            judge=self.judge.name,
            prompt=self.judge.prompt_hash(self.question),
            answer=reply.payload if reply.error is None else None,
            error=reply.error,
            usage=reply.usage,
            ms=reply.ms,
            at=now("milliseconds"),
            provenance=reply.provenance,
        )
        to_row(judgement)  # what cannot be written down is no answer: it would take others' down with it
        answer = answered(self.question, judgement)
        if isinstance(answer.value, Unanswered) and judgement.error is None:
            return Answer(replace(judgement, answer=None, error=answer.value.why), answer.value)
        return answer

    def settle(self, answer: Answer) -> None:
        """Hand the answer to everybody who waits."""
        for batch, place in self.waiting:
            batch.take(place, answer)

    def fail(self, error: BaseException) -> None:
        """Tell everybody who waits that there will be no answer."""
        for batch, _ in self.waiting:
            batch.fail(error)


@dataclass(slots=True)
class Lane:
    """One judge's queue: questions that open others go first.

    JudgeError where the judge's concurrency is none.
    """

    judge: Judge
    running: int = 0
    lost: str = ""
    """Why the judge cannot be used any more, where others go on without it."""

    _shuffled: bool = False
    _first: deque[list[Asked]] = field(default_factory=deque)
    _then: deque[list[Asked]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        most = self.judge.concurrency
        if type(most) is not int or most < 1:
            raise JudgeError(
                f"the judge {self.judge.name} has a concurrency of {most!r}: it must be a whole number from 1"
            )

    def add(self, asked: Sequence[Asked]) -> None:
        """Queue these questions, grouped as the judge wants them. JudgeError where it groups others."""
        for group in _grouped(self.judge, asked):
            self._queue_of(group).append(group)
        if self._shuffled:
            self.shuffle()

    def back(self, group: list[Asked]) -> None:
        """Queue a group again that was handed over and did not leave."""
        queue = self._queue_of(group)
        queue.insert(random.randint(0, len(queue)) if self._shuffled else 0, group)  # noqa: S311 - no secret

    def _queue_of(self, group: list[Asked]) -> deque[list[Asked]]:
        return self._first if any(one.question.opens for one in group) else self._then

    def next(self) -> list[Asked] | None:
        """The group to be asked next; it stays in the queue. None while the judge has enough to do."""
        queue = self._first or self._then
        return queue[0] if queue and self.running < self.judge.concurrency else None

    def start(self) -> list[Asked]:
        """Take that group out of the queue."""
        self.running += 1
        return (self._first or self._then).popleft()

    def cut(self, size: int) -> None:
        """Leave so many questions in that group; the others become the group after it."""
        queue = self._first or self._then
        group = queue.popleft()
        queue.extendleft((group[size:], group[:size]))

    def shuffle(self) -> None:
        """From now on in another order than anybody else's: two evaluations of the same questions then share the work."""
        self._shuffled = True
        for queue in (self._first, self._then):
            groups = list(queue)
            random.shuffle(groups)
            queue.clear()
            queue.extend(groups)

    def clear(self) -> list[Asked]:
        """Empty the queue; what stood in it."""
        left = [asked for queue in (self._first, self._then) for group in queue for asked in group]
        self._first.clear()
        self._then.clear()
        return left


def _grouped(judge: Judge, asked: Sequence[Asked]) -> list[list[Asked]]:
    """The groups that a judge makes of these: each of its questions exactly once."""
    by_id = {id(one.question): one for one in asked}
    try:
        groups = [
            [by_id.pop(id(question)) for question in group]
            for group in judge.group([one.question for one in asked])
        ]
    except GermaneError:
        raise
    except Exception as error:
        raise JudgeError(
            f"the judge {judge.name} cannot group questions: "
            + (_NOT_ONCE if isinstance(error, KeyError) else f"{type(error).__name__}: {error}")
        ) from error
    if by_id:
        raise JudgeError(f"the judge {judge.name} cannot group questions: {_NOT_ONCE}")
    return [group for group in groups if group]


_NOT_ONCE = "group() must return each of the questions that it gets, the same objects, exactly once"
