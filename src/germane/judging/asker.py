"""The Asker takes questions and returns judgements, from the ledger or from a judge.

Questions that arrive together are looked up in the ledger in one query, without repeats. The others are
passed to their judges in groups. An answer is committed to the ledger before it is used, and before another
request is started in its place. A question to a panel becomes one question to each member, and each member's
answer is stored under the member's own key.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from germane.addons import load
from germane.errors import GermaneError, Interrupted, JudgeError
from germane.judges.judge import GroupScope, Judge, Reply, answer_of, no_judge, replies_of
from germane.judges.panel import PanelJudge
from germane.judging.spending import Budget, UsageLog
from germane.questions.asking import Answer, answered
from germane.questions.question import AnyQuestion
from germane.questions.relevance import Passages, examples_of
from germane.types import Judgement

__all__ = ["Asker"]

if TYPE_CHECKING:
    from germane.ledger.store import GroupCommit, Ledger

_log = logging.getLogger("germane")


@dataclass(slots=True, eq=False)
class Pending:
    """A question that waits for its answer, which replaces `stale`, the ledger's unusable answer, if any."""

    key: str
    question: AnyQuestion
    judge: Judge
    future: asyncio.Future[Answer]
    stale: Judgement | None = None


@dataclass(slots=True, eq=False)
class Queue:
    """The groups of questions that wait for one judge, and the number of calls that are `running`."""

    judge: Judge
    running: int = 0
    groups: deque[list[Pending]] = field(default_factory=deque)


class Asker:
    """Asks judges, and stores and reuses their answers in the ledger. Use it as an async context manager.

    Args:
        judge: The judge; None if no question needs one.
        ledger: Where answers are looked up and stored. Default: answers are not stored.
        of_kind: Judges that answer in place of `judge`, by kind of question.
        earlier: The judgements already in the evaluation's folder, which take precedence over the ledger.
        usage_log: Counts the usage. Default: a log without a file.
        budget: The spending limit; once it is reached, the asker stops with LimitReached.
        keep: Called in a thread with the answers that were stored, before they are used.
        replay: The name of the ledger if only stored answers may be used. A question without a stored answer
            then gets an error as its answer and is added to `missing`.
        before_asking: Called before the first paid question; if it raises, no paid judge is asked.
        on_progress: Called with the asker whenever questions were answered.
    """

    def __init__(
        self,
        judge: Judge | None,
        ledger: Ledger | None = None,
        *,
        of_kind: Mapping[str, Judge] = MappingProxyType({}),
        earlier: Ledger | None = None,
        usage_log: UsageLog | None = None,
        budget: Budget | None = None,
        keep: Callable[[Iterable[Judgement]], object] = lambda _: None,
        replay: str = "",
        before_asking: Callable[[], None] = lambda: None,
        on_progress: Callable[[Asker], None] = lambda _: None,
    ) -> None:
        self._usage_log = usage_log or UsageLog()
        self.spent = self._usage_log.spent
        """The usage of this session so far: calls, tokens, cost and errors."""
        self.expected = 0
        """The number of questions so far, for a progress bar; `answered` counts those with an answer."""
        self.answered = 0
        self.missing: dict[str, AnyQuestion] = {}
        """The questions that a replayed ledger does not answer, by key."""
        self._judge, self._of_kind, self._programs = judge, of_kind, dict[str, Judge]()
        self._ledger, self._on_progress = ledger, on_progress
        self._replay, self._budget, self._before_asking = replay, budget or Budget(), before_asking
        self._keep, self._earlier = keep, earlier
        self._prepared: bool | None = None
        """True once `before_asking` has returned, None until it is called: judges that cost wait for it."""
        self._own = dict[str, Judgement]()
        self._pending, self._arrived = dict[str, Pending](), list[Pending]()
        self._queues: dict[int, Queue] = {}
        self._scopes: set[GroupScope] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._writer: GroupCommit | None = None

    @property
    def failed(self) -> bool:
        """True if the asker has stopped and sends no more requests."""
        return self._failure is not None

    # Opening and closing

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            self.stop(error)
        try:
            while self._tasks:
                await asyncio.wait(self._tasks)
        except asyncio.CancelledError:  # cancelled again while waiting: cancel the requests in flight too
            self.abort()
            while self._tasks:
                await asyncio.wait(self._tasks)
            raise
        finally:
            if self._writer is not None:
                self._writer.close()
            for judge in [queue.judge for queue in self._queues.values()]:
                try:
                    await judge.close()
                except Exception as fault:  # noqa: BLE001 - somebody's own judge; its answers are stored all the same
                    why = f"{type(fault).__name__}: {fault}"
                    _log.warning(
                        "close() of the judge %s failed, its answers are stored: %s", judge.name, why
                    )

    def stop(self, reason: BaseException | None = None) -> None:
        """Send no more requests; answers in flight are still stored, other questions raise `reason`."""
        self._failure = self._failure or reason or Interrupted("interrupted")
        arrived, self._arrived = self._arrived, []
        self._fail(arrived, self._failure)
        for queue in self._queues.values():
            while queue.groups:
                self._fail(queue.groups.popleft(), self._failure)
        for scope in self._scopes:
            scope.stop()

    def abort(self) -> None:
        """Send no more requests and cancel those in flight; answers that have arrived are still stored."""
        self.stop()
        for scope in self._scopes:
            scope.task.cancel()

    def _fail(self, pending: Iterable[Pending], error: BaseException) -> None:
        for value in pending:
            self._pending.pop(value.key, None)
            if not value.future.done():
                value.future.set_exception(error)
                value.future.exception()  # else asyncio warns about it if nobody waits for the future

    def _break(self, error: BaseException) -> None:
        """Stop because of an error, which all waiting questions raise; answers in flight are still stored."""
        self.stop(error)
        self._fail(list(self._pending.values()), error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task, which is awaited before the asker closes; an exception in it stops the asker."""

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                self._break(error)

        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(done)

    def _route(self, question: AnyQuestion) -> Judge:
        """Return the judge of a question: the program that its kind names, else the evaluation's judge."""
        if program := question.by_program:
            if program not in self._programs:
                self._programs[program] = load(program)(ask=None if self._judge is None else self.judge)
            return self._programs[program]
        judge = self._of_kind.get(question.kind, self._judge)
        if judge is None:
            raise no_judge([question.kind])
        return judge

    # Answers that are known

    async def lookup(self, asked: Sequence[Sequence[AnyQuestion]]) -> Sequence[Sequence[Answer | None]]:
        """Return, for each list of questions, the stored answers; None for one that a judge must answer."""
        await asyncio.sleep(0)  # lets signals be handled: a replay awaits nothing else
        if self._failure is not None:
            raise self._failure
        keyed = [self.keyed(questions) for questions in asked]
        judgements = self.find(pair for pairs in keyed for pair in pairs)
        answers = list[list[Answer | None]]()
        for questions, pairs in zip(asked, keyed, strict=True):
            both = zip(examples_of(questions), pairs, strict=True)
            answers.append(
                [self._known(judge, question, judgements.get(key)) for question, (key, judge) in both]
            )
        count = sum(len(row) - row.count(None) for row in answers)
        self.expected += count
        self.answered += count
        self._on_progress(self)
        return answers

    def keyed(self, questions: Sequence[AnyQuestion]) -> list[tuple[str, Judge]]:
        """Return, for each question, the key of its answer in the ledger and the judge that must answer."""
        if isinstance(questions, Passages):
            judge = self._route(questions.example)
            return [(key, judge) for key in judge.keys(questions)]
        return [((judge := self._route(question)).key(question), judge) for question in questions]

    def find(self, asked: Iterable[tuple[str, Judge]]) -> dict[str, Judgement]:
        """Return the stored judgements by key; `asked` are pairs of a key and the judge that must answer."""
        judges = dict(asked)
        judgements = {key: self._own[key] for key in judges if key in self._own} if self._own else {}
        if self._earlier is not None:
            judgements = self._earlier.find([key for key in judges if key not in judgements]) | judgements
        keys = [key for key, judge in judges.items() if judge.stored and judge.kept and key not in judgements]
        if keys and self._ledger is not None:
            judgements |= self._ledger.find(keys)
        return judgements

    def _known(self, judge: Judge, question: AnyQuestion, judgement: Judgement | None) -> Answer | None:
        """Return a stored judgement as an answer and count it as reused; None if the judge must be asked."""
        if judgement is None or not (answer := self.read(question, judgement)).holds:
            return None
        self._usage_log.reused(judge, question, answer)
        return answer

    def read(self, question: AnyQuestion, judgement: Judgement) -> Answer:
        """Return a stored judgement as the Answer to a question; its `children` were merged into it."""
        if judgement.parent is not None:  # it was stored as part of another judgement
            judgement = replace(judgement, parent=None)
        answer, children = answered(question, judgement), list[Judgement]()
        if self._earlier is not None:
            children = self._earlier.children([judgement.key])
        if not children and "windows" in judgement.provenance and self._ledger is not None:
            children = self._ledger.children([judgement.key])
        return replace(answer, children=tuple(children)) if children else answer

    # Questions that come in

    async def judge(
        self, questions: Sequence[AnyQuestion], judges: Sequence[Judge] | None = None
    ) -> Sequence[Answer]:
        """Return one answer per question once all are stored; `judges` may contain each question's judge."""
        if self._failure is not None and questions:
            raise self._failure
        self.expected += len(questions)
        waited = []
        loop = asyncio.get_running_loop()
        for question, judge in zip(questions, judges or map(self._route, questions), strict=True):
            key = judge.key(question)
            if (pending := self._pending.get(key)) is not None:
                self.spent.shared += judge.paid_calls(question)
                self.answered += 1
            else:
                self._pending[key] = pending = Pending(key, question, judge, loop.create_future())
                if not self._arrived:
                    loop.call_soon(self._look_up)
                self._arrived.append(pending)
            waited.append(pending.future)
        if waited:
            await asyncio.wait(waited)  # a cancelled caller must not cancel the futures, as gather would
        return [future.result() for future in waited]

    def _look_up(self) -> None:
        arrived, self._arrived = self._arrived, []
        try:
            judgements = self.find([(value.key, value.judge) for value in arrived])
            missing: dict[int, list[Pending]] = {}
            for pending in arrived:
                pending.stale = judgements.get(pending.key)
                if (answer := self._known(pending.judge, pending.question, pending.stale)) is not None:
                    self._settle(pending, answer)
                    continue
                self._usage_log.seen_before(pending.key)
                missing.setdefault(id(pending.judge), []).append(pending)
            for asked in missing.values():
                self._queue(asked[0].judge, asked)
            self._on_progress(self)
        except BaseException as error:  # noqa: BLE001 - a callback of the loop has no caller to raise to
            self._break(error)

    def _queue(self, judge: Judge, pending: list[Pending]) -> None:
        """Queue the questions for their judge; ask the members of a panel; in a replay, answer with an error."""
        if self._failure is not None:
            self._fail(pending, self._failure)
            return
        if isinstance(judge, PanelJudge):
            for value in pending:
                self._spawn(self._ask_panel(value, judge))
            return
        if self._replay and judge.stored:
            self.missing.update((pending.key, pending.question) for pending in pending)
            reply = Reply(error=f"{self._replay} has no answer to this question")
            answers = [answer_of(value.key, value.question, judge, reply) for value in pending]
            self._usage_log.paid(judge, [answer.judgement for answer in answers])
            for value, answer in zip(pending, answers, strict=True):
                self._settle(value, answer)
            return
        queue = self._queues.setdefault(id(judge), Queue(judge))
        by_id = {id(value.question): value for value in pending}
        groups = [list(map(id, group)) for group in judge.group([value.question for value in pending])]
        if Counter(chain.from_iterable(groups)) != Counter(list(by_id)):
            raise JudgeError(
                f"the judge {judge.name} cannot group questions: "
                "its group() must return each question that it was passed (the same object) exactly once"
            )
        queue.groups += [[by_id[number] for number in group] for group in groups if group]
        self._start_groups()

    async def _ask_panel(self, pending: Pending, panel: PanelJudge) -> None:
        votes: list[Answer] = []
        try:
            while members := panel.next_members(pending.question, votes):
                votes += await self.judge([pending.question] * len(members), members)
        except BaseException as error:
            self._fail([pending], error)
            if error is self._failure:
                return
            raise
        judgement = panel.combine(pending.key, pending.question, votes)
        children = [replace(vote.judgement, parent=pending.key) for vote in votes]
        self._settle(pending, replace(answered(pending.question, judgement), children=tuple(children)))

    # Groups of questions that are sent to judges

    def _start_groups(self) -> None:
        """Start as many waiting groups as the judges' concurrency and the budget allow."""
        for queue in self._queues.values():
            while queue.groups and queue.running < max(1, queue.judge.concurrency):
                group = queue.groups[0]
                if self._prepared is False and queue.judge.stored:
                    break
                questions = tuple(pending.question for pending in group)
                reserved = self._budget.reserve(queue.judge, questions)
                if reserved is None:
                    # wait only for paid judges, because a script that runs may itself wait for this answer
                    if any(other.running and other.judge.stored for other in self._queues.values()):
                        return
                    if not (size := self._budget.fitting(queue.judge, questions)):
                        self.stop(self._budget.reached(questions))
                        return
                    queue.groups[0] = group[:size]
                    queue.groups.insert(1, group[size:])
                    continue
                if self._prepared is None and queue.judge.stored:
                    self._prepared = False
                queue.running += 1
                self._spawn(self._ask(queue, queue.groups.popleft(), reserved))

    async def _ask(self, queue: Queue, group: list[Pending], reserved: float) -> None:
        """Ask the judge of `queue` one group of questions, whose expected cost is `reserved`."""
        judge = queue.judge
        scope, questions = GroupScope(judge), tuple(value.question for value in group)
        if self._prepared is False and judge.stored:
            self._before_asking()
            if self._ledger is not None:
                await asyncio.to_thread(self._ledger.ready)
            self._prepared = True
            self._start_groups()
        replies: Sequence[Reply] | None = None
        self._scopes.add(scope)
        try:
            try:
                if self._failure is None:
                    replies = await replies_of(judge, questions, scope)
            except GermaneError as error:
                replies = scope.replies
                if self._failure is None:  # else the questions fail with the reason for the stop
                    self._break(error)
            except asyncio.CancelledError:
                replies = scope.replies
                if self._failure is None:
                    self._fail(group, Interrupted("interrupted"))
                    raise
            finally:
                self._scopes.discard(scope)  # from here on abort() cannot cancel the storing of the answers
            self._budget.settle(judge, reserved, replies, len(group))
            if replies is not None:
                await self._settle_group(judge, group, replies, stopped=scope.stopped)
            elif self._failure is not None:
                self._fail(group, self._failure)
        finally:
            for work in scope.after_storing:
                work()
            queue.running -= 1
        self._start_groups()
        self._on_progress(self)

    # Answers that come in

    async def _settle_group(
        self, judge: Judge, pending: Sequence[Pending], replies: Sequence[Reply], *, stopped: bool
    ) -> None:
        """Store a judge's answers, then pass each answer to the callers that wait for it."""
        session = self._usage_log.session if judge.stored else ""
        both = [
            (value, answer_of(value.key, value.question, judge, reply, session))
            for value, reply in zip(pending, replies, strict=True)
        ]
        cut_off = self._failure if stopped else None
        self._usage_log.paid(judge, [answer.judgement for _, answer in both], stopped=cut_off is not None)
        kept = [pair for pair in both if judge.stored and judge.kept and pair[1].judgement.error is None]
        rows = [row for _, answer in kept for row in (answer.judgement, *answer.children)]
        stored = dict[str, Judgement]()
        if (rows and self._ledger is not None) or self._usage_log.unwritten:
            if self._writer is None:
                from germane.ledger.store import GroupCommit

                self._writer = GroupCommit(self._ledger, before=self._usage_log.flush, after=self._keep)
            stale = [value.stale for value, _ in kept if value.stale is not None]
            try:
                stored = await self._writer.put(rows, replacing=stale)
            except Exception as error:
                self._break(error)  # before the exception leaves, so that no other request is started
                raise
        for value, answer in both:
            if cut_off is not None and answer.judgement.error is not None:
                self._fail([value], cut_off)
                continue
            first = stored.get(value.key, answer.judgement)
            self._settle(value, answer if first is answer.judgement else self.read(value.question, first))

    def _settle(self, pending: Pending, answer: Answer) -> None:
        self._pending.pop(pending.key, None)
        kept = self._ledger is not None and pending.judge.kept
        if answer.judgement.error is not None or (pending.judge.stored and not kept):
            # the ledger does not store this answer, but the question must be asked only once per evaluation
            self._own[pending.key] = answer.judgement
        self.answered += 1
        if not pending.future.done():
            pending.future.set_result(answer)
