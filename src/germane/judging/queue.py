"""Questions on their way to judges: one pending question, a judge's queue of groups, and a group in the judge's hands."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from germane.encoding import encode, now
from germane.errors import AnswerError, GermaneError, JudgeError
from germane.judges.client.limits import stop_token
from germane.judges.judge import Judge, Reply
from germane.questions.asking import Answer, Unanswered, answered
from germane.questions.question import AnyQuestion, key_of
from germane.types import FrozenDict, Judgement, Usage

_log = logging.getLogger("germane")
_NOT_ONCE = "group() must return each of the questions that it gets, the same objects, exactly once"
_LARGEST = 2**53


@dataclass(slots=True, eq=False)
class Pending:
    """One distinct question that has no answer yet; `future` gets its answer, or the reason why there will be none."""

    key: str
    question: AnyQuestion
    judge: Judge
    future: asyncio.Future[Answer]

    def answer(self, reply: Reply) -> Answer:
        """The judgement that a reply makes, and its typed answer; a reply that cannot be read or stored is an error."""
        try:
            answer = answered(self.question, judgement_of(self.key, self.question, self.judge, reply))
            children = tuple(self._child(question, child) for question, child in reply.children)
        except Exception as error:  # noqa: BLE001 - whatever somebody's own judge put into it
            why = f"what the judge {self.judge.name} said cannot be read: {type(error).__name__}: {error}"
            return self.answer(Reply(error=why, usage=reply.usage))
        if isinstance(answer.value, Unanswered) and reply.error is None:
            return Answer(replace(answer.judgement, answer=None, error=answer.value.why), answer.value)
        return answer._replace(children=children)

    def _child(self, question: AnyQuestion, reply: Reply) -> Judgement:
        """A window of this question, under a key of its own."""
        key = key_of(question, self.judge.identity, self.judge.prompt_hash(question))
        return judgement_of(key, question, self.judge, reply, parent=self.key)

    def settle(self, answer: Answer) -> None:
        """Hand the answer to everybody who waits for it."""
        if not self.future.done():
            self.future.set_result(answer)

    def fail(self, error: BaseException) -> None:
        """There will be no answer."""
        if not self.future.done():
            self.future.set_exception(error)
            self.future.exception()  # retrieved, even where nobody waits any more


def judgement_of(
    key: str, question: AnyQuestion, judge: Judge, reply: Reply, parent: str | None = None
) -> Judgement:
    """The row of a reply; TypeError or ValueError where it is no JSON and cannot be stored."""
    replica = judge.identity.get("replica")
    asked = question.settings() if replica is None else {**question.settings(), "replica": replica}
    judgement = Judgement(
        key=key,
        item=question.item,
        kind=question.kind,
        judge=judge.name,
        prompt=judge.prompt_hash(question),
        answer=reply.payload if reply.error is None else None,
        error=reply.error,
        parent=parent,
        request=reply.request,
        usage=reply.usage,
        ms=reply.ms,
        at=now("milliseconds"),
        provenance=FrozenDict({**asked, **reply.provenance}) if asked else reply.provenance,
    )
    encode([judgement.answer, judgement.provenance])
    return judgement


class Group:
    """Questions that were handed to a judge together, in the task that made this.

    Once it is stopped, no further request of it is sent, and what is sent is waited for. A judge whose requests wait (for a
    place, a rate limit, an endpoint that is down) says so through `stop_token`: `wait` before, `sent` when one is sent.
    """

    __slots__ = ("_recalled", "_task", "_waits", "pending", "stopped")

    def __init__(self, pending: list[Pending]) -> None:
        self.pending, self.stopped = pending, False
        self._waits = self._recalled = False
        self._task = asyncio.current_task()
        stop_token.set(self)

    def stop(self) -> None:
        """Send no more of its requests."""
        if not self.stopped:
            self.stopped, self._recalled = True, self._waits
            if self._waits:
                self.cancel()

    def cancel(self) -> None:
        """Give it up, whether or not anything was sent."""
        if self._task is not None:
            self._task.cancel()

    @property
    def cancelled(self) -> bool:
        """Whether somebody cancelled the task."""
        return self._task is not None and self._task.cancelling() > 0

    # What a judge calls whose requests wait

    def wait(self) -> bool:
        """A request waits from here on; False where no more may be sent."""
        self._waits = not self.stopped
        return self._waits

    def sent(self) -> None:
        """A request is sent now."""
        self._waits = False

    def recalled(self) -> bool:
        """Whether a CancelledError in a wait means that no more may be sent, and the call is to end with what it has."""
        if not self._recalled or self._task is None:
            return False
        self._recalled = False
        self._task.uncancel()
        return True


@dataclass(slots=True)
class JudgeQueue:
    """The groups that wait for one judge: questions that open others go first.

    JudgeError where the judge's concurrency is no whole number from 1.
    """

    judge: Judge
    running: int = 0
    lost: str = ""
    """Why the judge cannot be used any more, where others go on without it."""

    _first: deque[list[Pending]] = field(default_factory=deque)
    _then: deque[list[Pending]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        most = self.judge.concurrency
        if type(most) is not int or most < 1:
            raise JudgeError(
                f"the judge {self.judge.name} has a concurrency of {most!r}: it must be a whole number from 1"
            )

    def add(self, pending: Sequence[Pending]) -> None:
        """Queue these questions, grouped as the judge wants them; JudgeError where it groups others."""
        by_id = {id(one.question): one for one in pending}
        try:
            groups = self.judge.group([one.question for one in pending])
            found = [[by_id.pop(id(question)) for question in group] for group in groups]
        except GermaneError:
            raise
        except Exception as error:
            why = _NOT_ONCE if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
            raise JudgeError(f"the judge {self.judge.name} cannot group questions: {why}") from error
        if by_id:
            raise JudgeError(f"the judge {self.judge.name} cannot group questions: {_NOT_ONCE}")
        for group in filter(None, found):
            (self._first if any(one.question.opens for one in group) else self._then).append(group)

    def next(self) -> list[Pending] | None:
        """The group to be asked next; it stays in the queue. None while the judge has enough to do."""
        queue = self._first or self._then
        return queue[0] if queue and self.running < self.judge.concurrency else None

    def start(self) -> list[Pending]:
        """Take that group out of the queue."""
        self.running += 1
        return (self._first or self._then).popleft()

    def split(self, size: int) -> None:
        """Leave so many questions in that group; the others become the group after it."""
        queue = self._first or self._then
        group = queue.popleft()
        queue.extendleft((group[size:], group[:size]))

    def clear(self) -> list[Pending]:
        """Empty the queue; what stood in it."""
        left = [one for queue in (self._first, self._then) for group in queue for one in group]
        self._first.clear()
        self._then.clear()
        return left


async def replies_of(judge: Judge, group: Group) -> Sequence[Reply]:
    """One reply per question of the group. What goes wrong inside the judge fails these questions alone.

    What germane raises on purpose (JudgeError: the judge cannot be used at all) is raised, and so is CancelledError where
    somebody else cancelled.
    """
    try:
        coming: object = judge.answer(tuple([one.question for one in group.pending]))
        replies = await coming if inspect.isawaitable(coming) else _NO_COROUTINE
    except AnswerError as error:
        wrong = str(error)
    except GermaneError:
        raise
    except asyncio.CancelledError:
        if group.cancelled:
            raise
        wrong = "it cancelled its own work"
    except Exception as error:  # noqa: BLE001 - whatever somebody's own judge raises
        _log.debug("the judge %s failed", judge.name, exc_info=True)
        wrong = f"{type(error).__name__}: {error}"
    else:
        if isinstance(replies, list | tuple):  # a plain mapping is a payload
            replies = [Reply(payload=one) if isinstance(one, Mapping) else one for one in replies]
        if not (wrong := _wrong(replies, len(group.pending))):
            return cast("Sequence[Reply]", replies)
    return [Reply(error=f"the judge {judge.name} failed: {wrong}") for _ in group.pending]


_NO_COROUTINE = object()


def _wrong(replies: object, count: int) -> str:
    """Why these are not one reply per question; "" where they are."""
    if replies is _NO_COROUTINE:
        return "answer() is no coroutine: write `async def answer(self, questions)`"
    if not isinstance(replies, Sequence):
        return f"answer() must return a list of replies, not {type(replies).__name__}"
    for reply in replies:
        if not (isinstance(reply, Reply) and isinstance(reply.usage, Usage)):
            return (
                f"answer() must return Reply objects or their payloads as dicts, not {type(reply).__name__}"
            )
        if not isinstance(provenance := cast("object", reply.provenance), Mapping):
            return f"a reply's provenance is a mapping, not {type(provenance).__name__}"
        used = cast(
            "tuple[object, ...]", (reply.usage.requests, reply.usage.input_tokens, reply.usage.output_tokens)
        )
        if not all(isinstance(number, int) and 0 <= number < _LARGEST for number in used):
            return f"a reply's usage is no count of requests and tokens: {used}"
    return "" if len(replies) == count else f"{len(replies)} replies came to {count} questions"
