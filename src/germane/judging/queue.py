"""Questions on their way to a judge: one pending question, the queue of groups, and what the judge replies to a group."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from msgspec import structs

from germane.clean import counted
from germane.encoding import encode, now, replace_surrogates
from germane.errors import AnswerError, GermaneError, JudgeError
from germane.judges.judge import GroupScope, Judge, Reply
from germane.questions.asking import Answer, answered
from germane.questions.question import AnyQuestion, asked_as
from germane.types import FrozenDict, Judgement, Usage

__all__ = ["judgement_of"]

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
            children = tuple(
                judgement_of(self.judge.key(window), window, self.judge, child, parent=self.key)
                for window, child in reply.children
            )
        except Exception as error:  # noqa: BLE001 - whatever somebody's own judge put into it
            why = f"what the judge {self.judge.name} said cannot be read: {type(error).__name__}: {error}"
            return self.answer(Reply(error=why, usage=reply.usage))
        if not answer.usable and reply.error is None:
            return Answer(
                structs.replace(answer.judgement, answer=None, error=answer.value.why), answer.value
            )
        return structs.replace(answer, children=children)


def judgement_of(
    key: str, question: AnyQuestion, judge: Judge, reply: Reply, parent: str | None = None
) -> Judgement:
    """The row of a reply; TypeError or ValueError where it is not JSON and cannot be stored."""
    replica = judge.identity.get("replica")
    asked = asked_as(question) if replica is None else {**asked_as(question), "replica": replica}
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
    if _HALF not in encode([judgement.answer, judgement.provenance, judgement.error]):
        return judgement
    return structs.replace(
        judgement,
        answer=replace_surrogates(judgement.answer),
        error=replace_surrogates(judgement.error),
        provenance=FrozenDict(replace_surrogates(dict(judgement.provenance))),
    )


_HALF = rb"\ud"
"""The beginning of half a surrogate pair, as JSON has it."""


@dataclass(slots=True)
class JudgeQueue:
    """The groups that wait for one judge: questions that open others go first.

    JudgeError where the judge's concurrency is not a whole number from 1.
    """

    judge: Judge
    running: int = 0
    lost: str = ""
    """The reason why the judge cannot be used any more, where others go on without it."""

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
        by_id = {id(pending.question): pending for pending in pending}
        try:
            groups = self.judge.group([pending.question for pending in pending])
            results = [[by_id.pop(id(question)) for question in group] for group in groups]
        except GermaneError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a judge of the user raises
            why = _NOT_ONCE if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
            raise JudgeError(f"the judge {self.judge.name} cannot group questions: {why}") from None
        if by_id:
            raise JudgeError(f"the judge {self.judge.name} cannot group questions: {_NOT_ONCE}")
        for group in filter(None, results):
            (self._first if any(pending.question.has_followups for pending in group) else self._then).append(
                group
            )

    def next(self) -> list[Pending] | None:
        """The group to be asked next; it stays in the queue. None while the judge has enough to do."""
        queue = self._first or self._then
        return queue[0] if queue and self.running < self.judge.concurrency else None

    def start(self) -> list[Pending]:
        """Take that group out of the queue."""
        self.running += 1
        return (self._first or self._then).popleft()

    def split(self, size: int) -> None:
        """Leave `size` questions in that group; the others become the group after it."""
        queue = self._first or self._then
        group = queue.popleft()
        queue.extendleft((group[size:], group[:size]))

    def clear(self) -> list[Pending]:
        """Empty the queue; what stood in it."""
        left = [pending for queue in (self._first, self._then) for group in queue for pending in group]
        self._first.clear()
        self._then.clear()
        return left


async def replies_of(judge: Judge, questions: tuple[AnyQuestion, ...], scope: GroupScope) -> Sequence[Reply]:
    """One reply per question. What goes wrong inside the judge fails these questions alone.

    What germane raises on purpose (JudgeError: the judge cannot be used at all) is raised, and so is CancelledError where
    somebody else cancelled.
    """
    try:
        coming: object = judge.answer(questions)
        if inspect.isawaitable(coming):
            replies = await coming
            if isinstance(replies, list | tuple):  # a plain mapping is a payload
                replies = [Reply(payload=reply) if isinstance(reply, Mapping) else reply for reply in replies]
            wrong = _wrong(replies, len(questions))
        else:
            wrong = "answer() is not a coroutine: write `async def answer(self, questions)`"
    except AnswerError as error:
        wrong = str(error)
    except GermaneError:
        raise
    except asyncio.CancelledError:
        if scope.cancelled:
            raise
        wrong = "it cancelled its own work"
    except Exception as error:  # noqa: BLE001 - whatever somebody's own judge raises
        _log.debug("the judge %s failed", judge.name, exc_info=True)
        wrong = f"{type(error).__name__}: {error}"
    return [Reply(error=f"the judge {judge.name} failed: {wrong}") for _ in questions] if wrong else replies


def _wrong(replies: Any, count: int) -> str:
    """The reason why these are not one reply per question; "" where they are."""
    if not isinstance(replies, Sequence):
        return f"answer() must return a list of replies, not {type(replies).__name__}"
    for reply in replies:
        if not (isinstance(reply, Reply) and isinstance(reply.usage, Usage)):
            return (
                f"answer() must return Reply objects or their payloads as dicts, not {type(reply).__name__}"
            )
        if not isinstance(provenance := cast("object", reply.provenance), Mapping):
            return f"a reply's provenance is a mapping, not {type(provenance).__name__}"
        used: tuple[Any, ...] = (reply.usage.requests, reply.usage.input_tokens, reply.usage.output_tokens)
        if not all(isinstance(number, int) and 0 <= number < _LARGEST for number in used):
            return f"a reply's usage is not a count of requests and tokens: {used}"
    count_text = f"{counted(len(replies), 'reply')} came to {counted(count, 'question')}"
    return "" if len(replies) == count else count_text
