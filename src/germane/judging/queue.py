"""Questions on their way to judges: one pending question, a judge's queue of groups, and a group in the judge's hands."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from germane.encoding import encode, now
from germane.errors import AnswerError, GermaneError, InputError, JudgeError
from germane.judges.client.limits import stop_token
from germane.judges.judge import Judge, Reply
from germane.judges.panel import Replica
from germane.questions.asking import Answer, Unanswered, answered
from germane.questions.question import AnyQuestion, key_of
from germane.types import FrozenDict, Judgement, Usage

__all__ = [
    "Group",
    "JudgeQueue",
    "Pending",
    "acquire_judge",
    "judgement_of",
    "release_judge",
    "replies_of",
]

_log = logging.getLogger("germane")
_MOST = 2**53
_NOT_ONCE = "group() must return each of the questions that it gets, the same objects, exactly once"


@dataclass(slots=True, eq=False)
class Pending:
    """One distinct question that has no answer yet.

    `future` gets its answer, or the reason why there will be none. `version` is the ledger's when it was last looked up.
    """

    key: str
    question: AnyQuestion
    judge: Judge
    future: asyncio.Future[Answer]
    version: int = 0

    def answer(self, reply: Reply) -> Answer:
        """The judgement that a reply makes, and its typed answer; a reply that cannot be read or stored is an error."""
        try:
            return self._read(reply)
        except Exception as error:  # noqa: BLE001 - whatever somebody's own judge put into it
            why = f"what the judge {self.judge.name} said cannot be read: {type(error).__name__}: {error}"
            return self._read(Reply(error=why, usage=reply.usage))

    def _read(self, reply: Reply) -> Answer:
        judgement = judgement_of(self.key, self.question, self.judge, reply)
        answer = answered(self.question, judgement)
        if isinstance(answer.value, Unanswered) and judgement.error is None:
            return Answer(replace(judgement, answer=None, error=answer.value.why), answer.value)
        if not reply.children:
            return answer
        return answer._replace(
            children=tuple(
                judgement_of(
                    key_of(question, self.judge.identity, self.judge.prompt_hash(question)),
                    question,
                    self.judge,
                    child,
                    parent=self.key,
                )
                for question, child in reply.children
            )
        )

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

    Until its first request is sent a group can be withdrawn; after that, no further request of it (a retry) is sent once it
    is stopped, and what is sent is waited for. A judge whose requests wait (for a place, a rate limit, an endpoint that is
    down) tells so through `stop_token`; the requests of one that does not count as sent at once.

    Args:
        pending: The questions.
        answered: Called before the first request is sent: whether some of them need not be asked any more.
    """

    __slots__ = ("_answered", "_ends", "_sent", "_task", "_waits", "pending", "stopped", "withdrawn")

    def __init__(self, pending: list[Pending], answered: Callable[[Group], bool]) -> None:
        self.pending, self._answered = pending, answered
        self.stopped = self.withdrawn = self._sent = self._waits = self._ends = False
        self._task = asyncio.current_task()
        stop_token.set(self)

    def stop(self) -> None:
        """Send no more of its requests."""
        if not self._sent:
            self.withdrawn = True
        elif not self.stopped:
            self.stopped = self._ends = True
        else:
            return
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
        """A request waits from here on; False where no more may be sent. CancelledError where none was sent yet."""
        self._waits = not self.stopped
        if self.withdrawn and not self._sent:
            raise asyncio.CancelledError
        return self._waits

    async def leave(self) -> None:
        """A request is sent now; CancelledError where it must not be."""
        if not self._sent and self._answered(self):
            self.withdrawn = True
            raise asyncio.CancelledError
        self._sent, self._waits = True, False

    def recalled(self) -> bool:
        """Whether a CancelledError in a wait means that no more may be sent, and the call is to end with what it has."""
        if not (self._ends and self._task is not None):
            return False
        self._ends = False
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
        """Queue these questions, grouped as the judge wants them. JudgeError where it groups others."""
        for group in _grouped(self.judge, pending):
            self._queue_of(group).append(group)

    def put_back(self, group: list[Pending]) -> None:
        """Queue a group again that was withdrawn."""
        self._queue_of(group).appendleft(group)

    def _queue_of(self, group: list[Pending]) -> deque[list[Pending]]:
        return self._first if any(one.question.opens for one in group) else self._then

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


def _grouped(judge: Judge, pending: Sequence[Pending]) -> list[list[Pending]]:
    """The groups that a judge makes of these: each of its questions exactly once."""
    by_id = {id(one.question): one for one in pending}
    try:
        groups = [
            [by_id.pop(id(question)) for question in group]
            for group in judge.group([one.question for one in pending])
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


async def replies_of(judge: Judge, group: Group) -> Sequence[Reply]:
    """One reply per question of the group. What goes wrong inside the judge fails these questions alone.

    What germane raises on purpose (JudgeError: the judge cannot be used at all) is raised, and so is CancelledError where
    somebody else cancelled.
    """
    try:
        replies = await judge.answer(tuple([one.question for one in group.pending]))
    except AnswerError as error:
        wrong = str(error)
    except GermaneError:
        raise
    except asyncio.CancelledError:
        if group.withdrawn or group.cancelled:
            raise
        wrong = "it cancelled its own work"
    except Exception as error:  # noqa: BLE001 - whatever somebody's own judge raises
        _log.debug("the judge %s failed", judge.name, exc_info=True)
        wrong = f"{type(error).__name__}: {error}"
    else:
        if not (wrong := _wrong(replies, len(group.pending))):
            return replies
    return [Reply(error=f"the judge {judge.name} failed: {wrong}") for _ in group.pending]


def _wrong(replies: Any, count: int) -> str:
    """Why these are not one reply per question; "" where they are."""
    if not isinstance(replies, Sequence):
        return f"answer() must return a list of replies, not {type(replies).__name__}"
    for reply in replies:
        if not (isinstance(reply, Reply) and isinstance(reply.usage, Usage)):
            return f"answer() must return Reply objects, not {type(reply).__name__}"
        if not isinstance(provenance := cast("object", reply.provenance), Mapping):
            return f"a reply's provenance is a mapping, not {type(provenance).__name__}"
        used: tuple[Any, ...] = (reply.usage.requests, reply.usage.input_tokens, reply.usage.output_tokens)
        if not all(isinstance(number, int) and 0 <= number < _MOST for number in used):
            return f"a reply's usage is no count of requests and tokens: {used}"
    return "" if len(replies) == count else f"{len(replies)} replies came to {count} questions"


@dataclass(slots=True)
class _Use:
    """How many pools use a judge, and in which loop."""

    judge: Judge
    loop: asyncio.AbstractEventLoop
    pools: int = 0


_uses: dict[int, _Use] = {}
_lock = threading.Lock()


def acquire_judge(judge: Judge) -> None:
    """This loop's pool uses the judge from now on: pools may share one, and the last that releases it closes it.

    InputError where the judge serves one loop at a time and another loop's pool uses it.
    """
    loop, judge = asyncio.get_running_loop(), _asked(judge)
    with _lock:
        use = _uses.get(id(judge))
        if use is None or use.loop.is_closed():
            use = _uses[id(judge)] = _Use(judge, loop)
        if use.loop is not loop and getattr(judge, "one_loop", False):
            raise InputError(
                f"the judge {judge.name} is in use in another thread, to which its connections belong",
                fix=f'make a judge for each thread, or give its name: judge="{judge.name}"',
            )
        use.pools += 1


async def release_judge(judge: Judge) -> None:
    """This loop's pool uses the judge no longer."""
    judge = _asked(judge)
    with _lock:
        use = _uses.get(id(judge))
        if use is None:
            return
        use.pools -= 1
        if use.pools:
            return
        del _uses[id(judge)]
    try:
        await judge.close()
    except Exception as error:  # noqa: BLE001 - somebody's own judge; its answers are stored all the same
        _log.warning("the judge %s failed to close: %s: %s", judge.name, type(error).__name__, error)


def _asked(judge: Judge) -> Judge:
    """The judge that a replica asks: its connections are used."""
    while isinstance(judge, Replica):
        judge = judge.judge
    return judge
