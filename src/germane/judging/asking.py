"""The pool: one async place where questions become judgements.

Questions that arrive together are keyed, deduplicated, looked up in the ledger in one batch, and what is missing
is grouped by the judge and asked, at most `concurrency` groups at once. An answer is committed to the ledger
before anybody sees it; commits close at 100 rows, after 100 ms, or when nothing else is in flight.

A question to a panel becomes one question to each of its members, whose answers are kept under their own keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, Self

from germane.errors import Interrupted
from germane.judging.archive import Archive
from germane.judging.budget import Budget
from germane.judging.judge import AnyQuestion, Judge
from germane.judging.judges.panel import PanelJudge
from germane.judging.keyring import Keyring
from germane.judging.ledger import Ledger
from germane.judging.programs import Answer, answered
from germane.judging.spending import Receipts, Spent, Tally
from germane.judging.waiting import Arrived, Asked, Batch, Lane, batch_for
from germane.types import Judgement

__all__ = ["Answerer", "Pool"]

_ROWS, _SECONDS = 100, 0.1


class Answerer(Protocol):
    """Whoever answers questions: the pool, a store of old answers, a counter."""

    async def judge(self, questions: Sequence[AnyQuestion]) -> Sequence[Answer]:
        """One answer a question, in order."""
        ...


class Pool:
    """Asks a judge, through the ledger. Use as an async context manager.

    Args:
        route: Who answers a question.
        ledger: Where answers are kept; None keeps none.
        known: Judgements by key that hold without looking further (a resumed evaluation's own).
        receipts: What this evaluation has paid for in earlier sessions, and where it writes that down.
        budget: What may be spent; where it is used up, the pool stops with LimitReached.
        before_asking: Called once, before the first question is put to a judge that costs: the last chance to raise.
        on_progress: Called with the pool whenever something was answered.
    """

    def __init__(
        self,
        route: Callable[[AnyQuestion], Judge],
        ledger: Ledger | None = None,
        *,
        known: Mapping[str, Judgement] | None = None,
        receipts: Receipts | None = None,
        budget: Budget | None = None,
        before_asking: Callable[[], None] | None = None,
        on_progress: Callable[[Pool], None] = lambda _: None,
    ) -> None:
        self.tally = Tally(receipts)
        self.expected = 0
        self.answered = 0
        self._route, self._on_progress = route, on_progress
        self._known: dict[str, Judgement] = dict(known or {})
        self._budget, self._before_asking = budget or Budget(), before_asking
        self._archive = Archive(ledger)
        self._key_of = Keyring()
        self._open: dict[str, Asked] = {}
        self._arrived: list[Arrived] = []
        self._lanes: dict[int, Lane] = {}
        self._unsaved: list[tuple[Asked, Answer]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._asking: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._in_company = False

    @property
    def spent(self) -> Spent:
        """What was asked and paid in this session."""
        return self.tally.spent

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            self.stop(error)
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._save()
        for lane in self._lanes.values():
            await lane.judge.close()
        self._archive.close()

    def stop(self, reason: BaseException | None = None) -> None:
        """Start nothing new; what is in flight is finished and kept, the rest fails with `reason`."""
        self._failure = self._failure or reason or Interrupted("interrupted")
        arrived, self._arrived = self._arrived, []
        for one in arrived:
            one.batch.fail(self._failure)
        for lane in self._lanes.values():
            self._fail(lane.clear(), self._failure)
        self._save()

    def abort(self) -> None:
        """Stop, and give up what is in flight too; what was answered is kept."""
        self.stop()
        for task in self._asking:
            task.cancel()

    async def judge(self, questions: Sequence[AnyQuestion]) -> Sequence[Answer]:
        """One answer a question, in order; returns when all are durable."""
        if not questions:
            return ()
        future: asyncio.Future[Sequence[Answer]] = asyncio.get_running_loop().create_future()
        batch = batch_for(future, len(questions))
        self._ask(batch, [(question, self._route(question)) for question in questions])
        return await future

    def _ask(self, batch: Batch, asked: Sequence[tuple[AnyQuestion, Judge]]) -> None:
        if self._failure is not None:
            batch.fail(self._failure)
            return
        if not self._arrived:
            asyncio.get_running_loop().call_soon(self._welcome)
        self.expected += len(asked)
        self._arrived += [
            Arrived(self._key_of(question, judge), question, judge, batch, place)
            for place, (question, judge) in enumerate(asked)
        ]

    def _welcome(self) -> None:
        arrived, self._arrived = self._arrived, []
        if arrived:
            self._spawn(self._look_up(arrived))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, work: asyncio.Task[None]) -> None:
        self._tasks.discard(work)
        self._asking.discard(work)
        if not work.cancelled() and (error := work.exception()) is not None:
            self.stop(error)
            unsaved = {asked.key for asked, _ in self._unsaved}
            self._fail([asked for asked in self._open.values() if asked.key not in unsaved], error)

    def _fail(self, asked: Iterable[Asked], error: BaseException) -> None:
        for one in asked:
            self._open.pop(one.key, None)
            one.fail(error)

    async def _look_up(self, arrived: list[Arrived]) -> None:
        try:
            found = await self._find(arrived)
        except BaseException as error:
            for one in arrived:
                one.batch.fail(error)
            raise
        missing: dict[int, list[Asked]] = {}
        for one in arrived:
            judgement = found.get(one.key)
            answer = None if judgement is None else answered(one.question, judgement)
            if answer is not None and (answer.usable or answer.judgement.error is not None):
                self._known_already(one, answer)
                one.batch.take(one.place, answer)
                continue
            if answer is not None:
                self._archive.refuse(answer)
            if (asked := self._open.get(one.key)) is not None:
                self._known_already(one)
                asked.waiting.append((one.batch, one.place))
            else:
                self.tally.first(one.key)
                self._open[one.key] = asked = Asked(
                    one.key, one.question, one.judge, [(one.batch, one.place)]
                )
                missing.setdefault(id(one.judge), []).append(asked)
        for questions in missing.values():
            self._queue(questions)
        self._on_progress(self)

    async def _find(self, arrived: list[Arrived]) -> dict[str, Judgement]:
        """What is known of these questions."""
        found = (
            {one.key: self._known[one.key] for one in arrived if one.key in self._known}
            if self._known
            else {}
        )
        keys = {one.key for one in arrived if one.judge.stored and one.key not in found}
        return found | await self._archive.find(keys)

    def _known_already(self, one: Arrived, answer: Answer | None = None) -> None:
        self.tally.known(one.key, one.judge, answer)
        self.answered += 1

    def _queue(self, asked: list[Asked]) -> None:
        judge = asked[0].judge
        if self._failure is not None:
            self._fail(asked, self._failure)
        elif isinstance(judge, PanelJudge):
            for one in asked:
                self._convene(one, judge)
        else:
            self._lanes.setdefault(id(judge), Lane(judge)).add(asked)
            self._pump()

    def _convene(self, asked: Asked, panel: PanelJudge, said: Sequence[Answer] = ()) -> None:
        members = panel.next_members(asked.question, said)
        if not members:
            self._combine(asked, panel, said)
            return
        batch = Batch(
            len(members),
            lambda more: self._convene(asked, panel, [*said, *more]),
            partial(self._fail, [asked]),
        )
        self._ask(batch, [(asked.question, member) for member in members])

    def _combine(self, asked: Asked, panel: PanelJudge, votes: Sequence[Answer]) -> None:
        self.tally.combined(asked.key, [vote.judgement.key for vote in votes])
        self._settle(asked, answered(asked.question, panel.combine(asked.key, asked.question, votes)))

    def _pump(self) -> None:
        """Start what may be started. What a limit forbids waits for what is in flight, which may cost less."""
        for lane in self._lanes.values():
            while (group := lane.next()) is not None:
                reserved = self._budget.reserve(lane.judge, [asked.question for asked in group])
                if reserved is None:
                    if any(one.running for one in self._lanes.values()) or not self._cut(lane, group):
                        return
                    continue
                if self._before_asking is not None and lane.judge.stored:
                    last_chance, self._before_asking = self._before_asking, None
                    last_chance()
                lane.start()
                self._asking.add(self._spawn(self._put(lane, group, reserved)))

    def _cut(self, lane: Lane, group: list[Asked]) -> bool:
        """Cut a group down to what the limits allow; where that is nothing, the pool stops."""
        questions = [asked.question for asked in group]
        if fitting := self._budget.fitting(lane.judge, questions):
            lane.cut(fitting)
            return True
        self.stop(self._budget.reached(lane.judge, questions))
        return False

    async def _put(self, lane: Lane, group: list[Asked], reserved: float) -> None:
        asked = group
        try:
            if self._in_company and lane.judge.stored:
                asked = await self._unanswered(group)
            questions = tuple(one.question for one in asked)
            replies = await lane.judge.answer(questions) if questions else ()
        except asyncio.CancelledError:
            self._fail(asked, self._failure or Interrupted("interrupted"))
            raise
        finally:
            lane.running -= 1
        spared = len(group) - len(asked)
        self._budget.settle(lane.judge, reserved, [reply.usage for reply in replies], spared=spared)
        answers = [one.answer(reply) for one, reply in zip(asked, replies, strict=True)]
        self.tally.paid(lane.judge, [answer.judgement for answer in answers])
        for one, answer in zip(asked, answers, strict=True):
            self._take(one, answer)
        self._pump()
        if len(self._unsaved) >= _ROWS or not any(one.running for one in self._lanes.values()):
            self._save()
        elif self._unsaved and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._save)

    def _take(self, asked: Asked, answer: Answer) -> None:
        if answer.judgement.error is None and asked.judge.stored and self._archive.ledger is not None:
            self._unsaved.append((asked, answer))
        else:
            self._settle(asked, answer)

    def _settle(self, asked: Asked, answer: Answer) -> None:
        self._open.pop(asked.key, None)
        if answer.judgement.error is not None or (self._archive.ledger is None and asked.judge.stored):
            self._known[asked.key] = (
                answer.judgement
            )  # nobody else remembers it, and it is asked once an evaluation
        self.answered += 1
        asked.settle(answer)

    def _save(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rows, self._unsaved = self._unsaved, []
        if rows:
            self._spawn(self._commit(rows))

    async def _commit(self, rows: list[tuple[Asked, Answer]]) -> None:
        try:
            stands, others_wrote = await self._archive.keep([answer.judgement for _, answer in rows])
        except BaseException as error:
            self._fail([asked for asked, _ in rows], error)
            raise
        for asked, answer in rows:
            first = stands[asked.key]
            self._settle(asked, answer if first is answer.judgement else answered(asked.question, first))
        self._on_progress(self)
        if others_wrote and not self._in_company:
            self._in_company = True
            for lane in self._lanes.values():
                lane.shuffle()

    async def _unanswered(self, group: list[Asked]) -> list[Asked]:
        """Another evaluation pays into the same ledger: what it has answered since is not asked any more."""
        found = await self._archive.find(asked.key for asked in group)
        left = []
        for asked in group:
            answer = answered(asked.question, found[asked.key]) if asked.key in found else None
            if answer is not None and answer.usable:
                self.tally.spent.cached += 1
                self._settle(asked, answer)
            else:
                left.append(asked)
        return left
