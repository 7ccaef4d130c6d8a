"""The pool: one async place where questions become judgements.

Questions that arrive together are keyed, deduplicated, looked up in the ledger in one batch, and what is missing
is handed to the judge (see `dispatch`). An answer is committed to the ledger before anybody sees it; commits close at
100 rows, after 100 ms, or when nothing else is in flight.

A question to a panel becomes one question to each of its members, whose answers are kept under their own keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, Self

from germane.errors import Interrupted
from germane.judges.judge import Judge, Reply
from germane.judges.panel import Attendance, PanelJudge
from germane.judging.archive import Archive
from germane.judging.budget import Budget
from germane.judging.dispatch import Dispatch
from germane.judging.ledger import Ledger
from germane.judging.recall import Recall
from germane.judging.saving import Saving
from germane.judging.spending import Receipts, Spent, Tally
from germane.judging.waiting import Arrived, Asked, Batch, batch_for
from germane.questions import AnyQuestion
from germane.questions.asking import Answer, answered
from germane.types import Judgement

__all__ = ["Answerer", "Pool"]


class Answerer(Protocol):
    """Whoever answers questions: the pool, a store of old answers, a counter."""

    async def known(self, asked: Sequence[Sequence[AnyQuestion]]) -> Sequence[Sequence[Answer] | None]:
        """For each of several lists of questions: their answers where nobody need be asked for any, else None."""
        ...

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
            Whether the ledger can be written is looked at then too.
        on_unsaved: Gets answers that have arrived and that the ledger did not take, before the error is raised.
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
        before_asking: Callable[[], None] = lambda: None,
        on_unsaved: Callable[[Sequence[Judgement]], None] = lambda _: None,
        on_progress: Callable[[Pool], None] = lambda _: None,
    ) -> None:
        self.tally = Tally(receipts)
        self.expected = 0
        self.answered = 0
        self._route, self._on_progress = route, on_progress
        self._archive, self._before_asking = Archive(ledger, on_unsaved), before_asking
        self._recall = Recall(self._archive, self.tally, known)
        self._saving = Saving(
            self._archive, spawn=self.spawn, settle=self._settle, fail=self.fail, saved=self._was_saved
        )
        self._dispatch = Dispatch(self, budget or Budget(), self._last_look)
        self._attendance = Attendance()
        self._open: dict[str, Asked] = {}
        self._arrived: list[Arrived] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None

    @property
    def spent(self) -> Spent:
        """What was asked and paid in this session."""
        return self.tally.spent

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            self.stop(error)
        try:
            await self._finish()
        except asyncio.CancelledError:  # once more: that gives up what is in flight
            self.abort()
            await self._finish()
            raise
        finally:
            await self._dispatch.close()
            self._archive.close()

    def _last_look(self) -> None:
        """Before anything is paid: is there a reason not to ask, and could an answer be kept?"""
        self._before_asking()
        self._archive.ready()

    async def _finish(self) -> None:
        """Wait for what is in flight, and keep it."""
        while self._tasks:
            await asyncio.wait(self._tasks)
            self._saving.now()

    def stop(self, reason: BaseException | None = None) -> None:
        """Start nothing new; what is in flight is finished and kept, the rest fails with `reason`."""
        self._failure = self._failure or reason or Interrupted("interrupted")
        arrived, self._arrived = self._arrived, []
        for one in arrived:
            one.batch.fail(self._failure)
        self._dispatch.stop(self._failure)
        self._saving.now()

    def abort(self) -> None:
        """Stop, and give up what is in flight too; what was answered is kept."""
        self.stop()
        self._dispatch.abort()

    async def known(self, asked: Sequence[Sequence[AnyQuestion]]) -> Sequence[Sequence[Answer] | None]:
        """For each list of questions: their answers where all are known, else None: these must be asked."""
        if self._failure is not None:
            raise self._failure
        answers = await self._recall.together([(some, [self._route(one) for one in some]) for some in asked])
        self._found(sum([len(some) for some in answers if some is not None]))
        self._on_progress(self)
        return answers

    def _found(self, count: int) -> None:
        """So many need not be asked."""
        self.expected += count
        self.answered += count
        self._meet()

    def _meet(self) -> None:
        if self._archive.shared:
            self._dispatch.share()

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
            Arrived(self._recall.key_of(question, judge), question, judge, batch, place)
            for place, (question, judge) in enumerate(asked)
        ]

    def _welcome(self) -> None:
        arrived, self._arrived = self._arrived, []
        if arrived:
            self.spawn(self._look_up(arrived))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task that is waited for; what it raises stops the pool."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, work: asyncio.Task[None]) -> None:
        self._tasks.discard(work)
        if not work.cancelled() and (error := work.exception()) is not None:
            self.stop(error)
            self.fail([asked for asked in self._open.values() if asked not in self._saving], error)

    def fail(self, asked: Iterable[Asked], error: BaseException) -> None:
        """There will be no answer to these."""
        for one in asked:
            self._open.pop(one.key, None)
            one.fail(error)

    async def _look_up(self, arrived: list[Arrived]) -> None:
        try:
            found = await self._recall.find([arrived])
            self._meet()
        except BaseException as error:
            for one in arrived:
                one.batch.fail(error)
            raise
        missing: dict[int, list[Asked]] = {}
        for one in arrived:
            judgement = found.get(one.key)
            answer = None if judgement is None else answered(one.question, judgement)
            if answer is not None and answer.holds:
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

    def _was_saved(self) -> None:
        self._on_progress(self)
        self._meet()

    def _known_already(self, one: Arrived, answer: Answer | None = None) -> None:
        self.tally.known(one.key, one.judge, one.question, answer)
        self.answered += 1

    def _queue(self, asked: list[Asked]) -> None:
        judge = asked[0].judge
        if self._failure is not None:
            self.fail(asked, self._failure)
        elif isinstance(judge, PanelJudge):
            self._attendance.call(judge)
            for one in asked:
                self._convene(one, judge)
        else:
            self._dispatch.add(judge, asked)

    def can_spare(self, judge: Judge, why: str) -> bool:
        """Whether others answer without this judge, which cannot be used."""
        return self._attendance.can_spare(judge, why)

    def _convene(self, asked: Asked, panel: PanelJudge, said: Sequence[Answer] = ()) -> None:
        members = panel.next_members(asked.question, said)
        if not members:
            self._combine(asked, panel, said)
            return
        batch = Batch(
            len(members),
            lambda more: self._convene(asked, panel, [*said, *more]),
            partial(self.fail, [asked]),
        )
        self._ask(batch, [(asked.question, member) for member in members])

    def _combine(self, asked: Asked, panel: PanelJudge, votes: Sequence[Answer]) -> None:
        self.tally.combined(asked.key, [vote.judgement.key for vote in votes])
        self._settle(asked, answered(asked.question, panel.combine(asked.key, asked.question, votes)))

    def said(
        self,
        judge: Judge,
        asked: Sequence[Asked],
        replies: Sequence[Reply],
        stopped: BaseException | None = None,
    ) -> None:
        """A judge has answered a group, or what of it was answered when it was stopped: the rest fails with that."""
        answers = [one.answer(reply) for one, reply in zip(asked, replies, strict=True)]
        try:
            self.tally.paid(judge, [answer.judgement for answer in answers], stopped=stopped is not None)
        finally:  # where that cannot be written down, the answers are kept all the same
            for one, answer in zip(asked, answers, strict=True):
                if stopped is not None and answer.judgement.error is not None:
                    self.fail([one], stopped)
                else:
                    self._take(one, answer)

    def landed(self) -> None:
        """A group has come back, answered or not, and what could be started was."""
        self._saving.soon(more=self._dispatch.busy)

    def unanswered(self, asked: Iterable[Asked], why: str) -> None:
        """Nobody was asked these: an error each."""
        if answers := [(one, one.answer(Reply(error=why))) for one in asked]:
            self.tally.paid(answers[0][0].judge, [answer.judgement for _, answer in answers])
        for one, answer in answers:
            self._settle(one, answer)

    async def news(self, asked: list[Asked]) -> list[Asked]:
        """Those of them that another evaluation has not answered by now; the others are settled."""
        found = await self._archive.find(one.key for one in asked)
        self._meet()
        left = []
        for one in asked:
            answer = answered(one.question, found[one.key]) if one.key in found else None
            if answer is not None and answer.usable:
                self.tally.spent.cached += 1
                self._settle(one, answer)
            else:
                left.append(one)
        return left

    def _take(self, asked: Asked, answer: Answer) -> None:
        if answer.judgement.error is None and asked.judge.stored and self._archive.ledger is not None:
            self._saving.add(asked, answer)
        else:
            self._settle(asked, answer)

    def _settle(self, asked: Asked, answer: Answer) -> None:
        self._open.pop(asked.key, None)
        if answer.judgement.error is not None or (self._archive.ledger is None and asked.judge.stored):
            self._recall.remember(answer.judgement)
        self.answered += 1
        asked.settle(answer)
