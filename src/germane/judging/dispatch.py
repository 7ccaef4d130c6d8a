"""Questions on their way to judges: queued in lanes, handed over in groups, called back where they must not leave.

A judge is handed so many groups at once as it takes (`concurrency`). One that holds requests back (see `flight`) can be
handed more than it sends: what has not left comes back where the pool stops, where the ledger has an answer by then, and
where another evaluation turns out to ask the same questions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol

from germane.errors import Interrupted, JudgeError
from germane.judges.judge import Judge, Reply
from germane.judging.budget import Budget
from germane.judging.flight import Flight
from germane.judging.said import said_by
from germane.judging.sharing import begin_use, end_use
from germane.judging.spending import unsent
from germane.judging.waiting import Asked, Lane

__all__ = ["Desk", "Dispatch"]


class Desk(Protocol):
    """Whom a dispatch works for."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task that is waited for; what it raises stops everything."""
        ...

    def said(
        self,
        judge: Judge,
        asked: Sequence[Asked],
        replies: Sequence[Reply],
        stopped: BaseException | None = None,
    ) -> None:
        """A judge has answered a group, or what of it was answered when it was stopped: the rest fails with that."""
        ...

    async def news(self, asked: list[Asked]) -> list[Asked]:
        """Those of them that another evaluation has not answered by now; the others are settled."""
        ...

    def unanswered(self, asked: Iterable[Asked], why: str) -> None:
        """Nobody was asked these: an error each."""
        ...

    def fail(self, asked: Iterable[Asked], error: BaseException) -> None:
        """There will be no answer to these."""
        ...

    def stop(self, reason: BaseException | None = None) -> None:
        """Start nothing new."""
        ...

    def can_spare(self, judge: Judge, why: str) -> bool:
        """Whether others answer without this judge, which cannot be used."""
        ...

    def landed(self) -> None:
        """A group has come back, answered or not, and what could be started was."""
        ...


class Dispatch:
    """The lanes of a pool.

    Args:
        desk: The pool.
        budget: What may be spent.
        before_asking: Called once, before the first question is put to a judge that costs: the last chance to raise.
    """

    def __init__(self, desk: Desk, budget: Budget, before_asking: Callable[[], None] | None) -> None:
        self._desk, self._budget, self._before_asking = desk, budget, before_asking
        self._lanes: dict[int, Lane] = {}
        self._flights: set[Flight] = set()
        self._stopped: BaseException | None = None
        self._in_company = False

    @property
    def busy(self) -> bool:
        """Whether anything is in flight."""
        return any(lane.running for lane in self._lanes.values())

    def add(self, judge: Judge, asked: list[Asked]) -> None:
        """Put these questions to this judge, as soon as that may be."""
        lane = self._lanes.get(id(judge)) or self._begun(judge)
        if self._stopped is not None:
            self._desk.fail(asked, self._stopped)
        elif lane.lost:
            self._desk.unanswered(asked, lane.lost)
        else:
            lane.add(asked)
            self._pump()

    def _begun(self, judge: Judge) -> Lane:
        lane = Lane(judge)
        begin_use(judge)
        self._lanes[id(judge)] = lane
        if self._in_company:
            lane.shuffle()
        return lane

    def stop(self, reason: BaseException) -> None:
        """Hand nothing over, let nothing leave and ask nothing again any more: all of that fails with `reason`."""
        self._stopped = self._stopped or reason
        for lane in self._lanes.values():
            self._desk.fail(lane.clear(), self._stopped)
        for flight in self._flights:
            flight.stop()

    def abort(self) -> None:
        """Give up what is in flight too."""
        for flight in self._flights:
            flight.cancel()

    def share(self) -> None:
        """Another evaluation writes to the ledger too: it is looked at before each group leaves, in an order of our own."""
        if not self._in_company:
            self._in_company = True
            for lane in self._lanes.values():
                lane.shuffle()
            for flight in self._flights:
                flight.call_back()

    async def close(self) -> None:
        """Release the judges."""
        while self._lanes:
            _, lane = self._lanes.popitem()
            await end_use(lane.judge)

    def _pump(self) -> None:
        """Start what may be started. What a limit forbids waits for what is in flight, which may cost less."""
        for lane in self._lanes.values():
            while (group := lane.next()) is not None:
                reserved = self._budget.reserve(lane.judge, [asked.question for asked in group])
                if reserved is None:
                    if self.busy or not self._cut(lane, group):
                        return
                    continue
                if self._before_asking is not None and lane.judge.stored:
                    last_chance, self._before_asking = self._before_asking, None
                    last_chance()
                self._desk.spawn(self._put(lane, lane.start(), reserved))

    def _cut(self, lane: Lane, group: list[Asked]) -> bool:
        """Cut a group down to what the limits allow; where that is nothing, the pool stops."""
        questions = [asked.question for asked in group]
        if fitting := self._budget.fitting(lane.judge, questions):
            lane.cut(fitting)
            return True
        self._desk.stop(self._budget.reached(lane.judge, questions))
        return False

    async def _put(self, lane: Lane, group: list[Asked], reserved: float) -> None:
        flight = Flight(group, self._news)
        self._flights.add(flight)
        replies: Sequence[Reply] | None = None
        try:
            replies = await self._replies(lane.judge, flight)
        except asyncio.CancelledError:
            if self._stopped is None and not flight.called_back:
                self._desk.fail(flight.asked, Interrupted("interrupted"))
                raise
        except JudgeError as error:
            if not self._desk.can_spare(lane.judge, str(error)):
                raise
            lane.lost = str(error)
        finally:
            self._flights.discard(flight)
            lane.running -= 1
        said = replies or ()
        spared = len(group) - len(said) + unsent(said)
        self._budget.settle(lane.judge, reserved, [reply.usage for reply in said], spared=spared)
        self._land(lane, flight, replies)
        self._pump()
        self._desk.landed()

    async def _replies(self, judge: Judge, flight: Flight) -> Sequence[Reply] | None:
        """What the judge says; None where nothing may be asked any more."""
        if self._in_company:
            await self._news(flight)
        if self._stopped is not None:
            return None
        return await said_by(judge, flight) if flight.asked else ()

    async def _news(self, flight: Flight) -> bool:
        """Whether somebody else has answered some of these meanwhile."""
        asked = flight.asked
        if not self._in_company or not asked[0].judge.stored:
            return False
        flight.asked = await self._desk.news(asked)
        return len(flight.asked) < len(asked)

    def _land(self, lane: Lane, flight: Flight, replies: Sequence[Reply] | None) -> None:
        asked = flight.asked
        if not asked:
            return
        if replies is not None:
            self._desk.said(lane.judge, asked, replies, self._stopped if flight.stopped else None)
        elif self._stopped is not None:
            self._desk.fail(asked, self._stopped)
        elif lane.lost:
            self._desk.unanswered([*asked, *lane.clear()], lane.lost)
        else:
            lane.back(asked)
