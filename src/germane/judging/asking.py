"""The pool: one async place where questions become judgements.

Questions that arrive together are keyed, deduplicated, looked up in the ledger in one batch, and what is missing
is grouped by the judge and asked, at most `concurrency` groups at once. An answer is committed to the ledger
before anybody sees it; commits close at 100 rows, after 100 ms, or when nothing else is in flight.
"""

from __future__ import annotations

import asyncio
import datetime
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, Self

from germane.errors import AnswerError, Interrupted
from germane.judging.judge import AnyQuestion, Judge, Reply
from germane.judging.ledger import Ledger
from germane.judging.questions import key_of
from germane.types import Judgement, Usage

__all__ = ["Answerer", "Pool", "Spent"]

_ROWS, _SECONDS = 100, 0.1


class Answerer(Protocol):
    """Whoever turns questions into judgements: the pool, a store of old answers, a counter."""

    async def judge(self, questions: Sequence[AnyQuestion]) -> Sequence[Judgement]:
        """One judgement a question, in order."""
        ...


@dataclass(slots=True)
class Spent:
    """What judging has cost so far. `calls` are questions put to a judge, `cached` those answered before."""

    calls: int = 0
    cached: int = 0
    errors: int = 0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0

    def add(self, usage: Usage) -> None:
        """Count one reply's usage."""
        self.requests += usage.requests
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.cost_usd += usage.cost_usd or 0.0
        self.unpriced += usage.requests if usage.cost_usd is None else 0

    @property
    def cost(self) -> float | None:
        """US dollars, or None as soon as one request's price is not known."""
        return None if self.unpriced else self.cost_usd


@dataclass(slots=True)
class _Asked:
    """One distinct question in flight."""

    key: str
    question: AnyQuestion
    judge: Judge
    future: asyncio.Future[Judgement]


@dataclass(slots=True)
class _Lane:
    """One judge's queue: questions that open others go first."""

    judge: Judge
    waiting: tuple[deque[list[_Asked]], deque[list[_Asked]]] = field(
        default_factory=lambda: (deque(), deque())
    )
    running: int = 0

    def next(self) -> list[_Asked] | None:
        for queue in self.waiting:
            if queue and self.running < self.judge.concurrency:
                self.running += 1
                return queue.popleft()
        return None


class Pool:
    """Asks a judge, through the ledger. Use as an async context manager.

    Args:
        route: Who answers a question.
        ledger: Where answers are kept; None keeps none.
        known: Judgements by key that hold without looking further (a resumed evaluation's own).
        on_progress: Called with the pool whenever something was answered.
    """

    def __init__(
        self,
        route: Callable[[AnyQuestion], Judge],
        ledger: Ledger | None = None,
        *,
        known: Mapping[str, Judgement] | None = None,
        on_progress: Callable[[Pool], None] = lambda _: None,
    ) -> None:
        self.spent = Spent()
        self.expected = 0
        self.answered = 0
        self._route, self._ledger, self._known, self._on_progress = route, ledger, known or {}, on_progress
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="germane-ledger")
        self._open: dict[str, _Asked] = {}
        self._arrived: list[_Asked] = []
        self._lanes: dict[int, _Lane] = {}
        self._unsaved: list[tuple[_Asked, Judgement]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._save()
        for lane in self._lanes.values():
            await lane.judge.close()
        self._disk.shutdown()

    def stop(self, reason: BaseException | None = None) -> None:
        """Start nothing new; what is in flight is finished and kept, the rest fails with `reason`."""
        self._failure = self._failure or reason or Interrupted("interrupted")
        waiting = [
            asked
            for lane in self._lanes.values()
            for queue in lane.waiting
            for group in queue
            for asked in group
        ]
        for lane in self._lanes.values():
            for queue in lane.waiting:
                queue.clear()
        for asked in [*self._arrived, *waiting]:
            self._fail(asked, self._failure)
        self._arrived.clear()
        self._save()

    async def judge(self, questions: Sequence[AnyQuestion]) -> Sequence[Judgement]:
        """One judgement a question, in order; returns when all are durable."""
        return await asyncio.gather(*map(self._ask, questions))

    def _ask(self, question: AnyQuestion) -> asyncio.Future[Judgement]:
        loop = asyncio.get_running_loop()
        judge = self._route(question)
        key = key_of(question, judge.identity, judge.prompt_hash(question))
        self.expected += 1
        if (asked := self._open.get(key)) is not None:
            self.spent.cached += 1
            self.answered += 1
            return asked.future
        asked = _Asked(key, question, judge, loop.create_future())
        if self._failure is not None:
            self._fail(asked, self._failure)
            return asked.future
        self._open[key] = asked
        if not self._arrived:
            loop.call_soon(self._spawn_look_up)
        self._arrived.append(asked)
        return asked.future

    def _spawn(self, work: asyncio.Task[None]) -> None:
        self._tasks.add(work)
        work.add_done_callback(self._done)

    def _done(self, work: asyncio.Task[None]) -> None:
        self._tasks.discard(work)
        if not work.cancelled() and (error := work.exception()) is not None:
            self.stop(error)
            for asked in list(self._open.values()):
                if not any(asked is unsaved for unsaved, _ in self._unsaved):
                    self._fail(asked, error)

    def _fail(self, asked: _Asked, error: BaseException) -> None:
        self._open.pop(asked.key, None)
        if not asked.future.done():
            asked.future.set_exception(error)
            asked.future.exception()  # seen, even where nobody waits any more

    def _spawn_look_up(self) -> None:
        arrived, self._arrived = self._arrived, []
        if arrived:
            self._spawn(asyncio.ensure_future(self._look_up(arrived)))

    async def _look_up(self, arrived: list[_Asked]) -> None:
        found = {asked.key: self._known[asked.key] for asked in arrived if asked.key in self._known}
        keys = [asked.key for asked in arrived if asked.judge.stored and asked.key not in found]
        if self._ledger is not None and keys:
            loop = asyncio.get_running_loop()
            found.update(await loop.run_in_executor(self._disk, self._ledger.get, keys))
        missing: dict[int, list[_Asked]] = {}
        for asked in arrived:
            if (judgement := found.get(asked.key)) is not None and _readable(asked.question, judgement):
                self.spent.cached += 1
                self._settle(asked, judgement)
            else:
                missing.setdefault(id(asked.judge), []).append(asked)
        for questions in missing.values():
            self._queue(questions)
        self._on_progress(self)

    def _queue(self, asked: list[_Asked]) -> None:
        judge = asked[0].judge
        if self._failure is not None:
            for one in asked:
                self._fail(one, self._failure)
            return
        lane = self._lanes.setdefault(id(judge), _Lane(judge))
        by_id = {id(one.question): one for one in asked}
        for group in judge.group([one.question for one in asked]):
            later = not any(question.opens for question in group)
            lane.waiting[later].append([by_id[id(question)] for question in group])
        self._pump(lane)

    def _pump(self, lane: _Lane) -> None:
        while (group := lane.next()) is not None:
            self._spawn(asyncio.ensure_future(self._put(lane, group)))

    async def _put(self, lane: _Lane, group: list[_Asked]) -> None:
        try:
            replies = await lane.judge.answer(tuple(asked.question for asked in group))
        finally:
            lane.running -= 1
        for asked, reply in zip(group, replies, strict=True):
            self._take(asked, reply)
        self._pump(lane)
        if len(self._unsaved) >= _ROWS or not any(one.running for one in self._lanes.values()):
            self._save()
        elif self._unsaved and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._save)

    def _take(self, asked: _Asked, reply: Reply) -> None:
        judgement = _judgement(asked, reply)
        self.spent.calls += 1 if asked.judge.stored else 0
        self.spent.errors += judgement.error is not None
        self.spent.add(judgement.usage)
        if judgement.error is None and asked.judge.stored and self._ledger is not None:
            self._unsaved.append((asked, judgement))
        else:
            self._settle(asked, judgement)

    def _settle(self, asked: _Asked, judgement: Judgement) -> None:
        self._open.pop(asked.key, None)
        self.answered += 1
        if not asked.future.done():
            asked.future.set_result(judgement)

    def _save(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rows, self._unsaved = self._unsaved, []
        if rows:
            self._spawn(asyncio.ensure_future(self._commit(rows)))

    async def _commit(self, rows: list[tuple[_Asked, Judgement]]) -> None:
        assert self._ledger is not None
        loop = asyncio.get_running_loop()
        try:
            stands = await loop.run_in_executor(
                self._disk, self._ledger.put, [judgement for _, judgement in rows]
            )
        except BaseException as error:
            for asked, _ in rows:
                self._fail(asked, error)
            raise
        for asked, _ in rows:
            self._settle(asked, stands[asked.key])
        self._on_progress(self)


def _judgement(asked: _Asked, reply: Reply) -> Judgement:
    error = reply.error
    if error is None:
        try:
            asked.question.read(reply.payload)
        except AnswerError as unusable:
            error = f"unusable answer: {unusable}"
    return Judgement(
        key=asked.key,
        kind=asked.question.kind,
        judge=asked.judge.name,
        prompt=asked.judge.prompt_hash(asked.question),
        answer=reply.payload if error is None else None,
        error=error,
        usage=reply.usage,
        ms=reply.ms,
        at=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        provenance=reply.provenance,
    )


def _readable(question: AnyQuestion, judgement: Judgement) -> bool:
    if judgement.error is not None:
        return True
    try:
        question.read(judgement.answer)
    except AnswerError:
        return False
    return True
