"""Groups of questions for a judge, the checks of its replies, and the judgement of each reply."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec import structs

from germane.clean import counted
from germane.encoding import encode, now
from germane.errors import AnswerError, GermaneError, JudgeError
from germane.judges.judge import GroupScope, Judge, Reply
from germane.questions.asking import Answer, answered
from germane.questions.question import AnyQuestion, asked_as
from germane.types import FrozenDict, Judgement, Usage

__all__ = ["judgement_of"]

_log = logging.getLogger("germane")
_NOT_ONCE = "group() must return each of the questions that it gets, the same objects, exactly once"


@dataclass(slots=True, eq=False)
class Pending:
    """A distinct unanswered question; `stale` is an unusable stored answer that the new one replaces."""

    key: str
    question: AnyQuestion
    judge: Judge
    future: asyncio.Future[Answer]
    stale: Judgement | None = None


class Group(NamedTuple):
    """Questions that a judge is asked together, as grouped by the judge."""

    questions: tuple[AnyQuestion, ...]
    pending: Sequence[Pending]


@dataclass(slots=True, eq=False)
class Queue:
    """The groups waiting for one judge, in the order of their arrival."""

    judge: Judge
    running: int = 0
    groups: deque[Group] = field(default_factory=deque)

    def next(self) -> Group | None:
        """Return the group that is asked next; None while the judge is busy."""
        return self.groups[0] if self.groups and self.running < max(1, self.judge.concurrency) else None

    def clear(self) -> list[Pending]:
        """Empty the queue and return its questions."""
        left = [pending for group in self.groups for pending in group.pending]
        self.groups.clear()
        return left


def judgement_of(
    key: str,
    question: AnyQuestion,
    judge: Judge,
    reply: Reply,
    *,
    parent: str | None = None,
    session: str = "",
) -> Judgement:
    """Return the row of a reply, paid for in this `session`; TypeError or ValueError where it is not JSON and cannot be stored."""
    replica = judge.identity.get("replica")
    asked = asked_as(question) if replica is None else {**asked_as(question), "replica": replica}
    if session:
        asked = {**asked, "session": session}
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
    encode([judgement.answer, judgement.provenance, judgement.error])
    return judgement


def answer_of(key: str, question: AnyQuestion, judge: Judge, reply: Reply, session: str = "") -> Answer:
    """Return the judgement of a reply with its typed answer; a reply that cannot be read or stored becomes an error."""
    try:
        answer = answered(question, judgement_of(key, question, judge, reply, session=session))
        children = [
            judgement_of(judge.key(window), window, judge, child, parent=key, session=session)
            for window, child in reply.children
        ]
    except Exception as error:  # noqa: BLE001 - whatever somebody's own judge put into it
        why = f"what the judge {judge.name} said cannot be read: {type(error).__name__}: {error}"
        return answer_of(key, question, judge, Reply(error=why, usage=reply.usage))
    if not answer.usable and reply.error is None:
        return Answer(structs.replace(answer.judgement, answer=None, error=answer.value.why), answer.value)
    return structs.replace(answer, children=tuple(children))


def grouped(judge: Judge, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
    """Return the questions as their judge groups them; JudgeError if it does not return each exactly once."""
    groups = [tuple(group) for group in judge.group(questions) if group]
    if Counter(id(question) for group in groups for question in group) != Counter(map(id, questions)):
        raise JudgeError(f"the judge {judge.name} cannot group questions: {_NOT_ONCE}")
    return groups


async def replies_of(judge: Judge, questions: tuple[AnyQuestion, ...], scope: GroupScope) -> Sequence[Reply]:
    """Return one reply per question. An exception in the judge becomes an error of these questions only.

    Raises:
        GermaneError: The judge raised it on purpose (JudgeError: it cannot be used at all).
        CancelledError: Somebody else cancelled the task.
    """
    try:
        coming: Any = judge.answer(questions)
        replies = [Reply(payload=reply) if isinstance(reply, Mapping) else reply for reply in await coming]
        wrong = _wrong(replies, len(questions))
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


def _wrong(replies: Sequence[Any], count: int) -> str:
    """Return why these are not one reply per question; "" if they are."""
    for reply in replies:
        if not (isinstance(reply, Reply) and isinstance(reply.usage, Usage)):
            return "answer() must return Reply objects or their payloads as dicts"
        used: tuple[Any, ...] = (reply.usage.requests, reply.usage.input_tokens, reply.usage.output_tokens)
        if not all(isinstance(number, int) and 0 <= number < 1 << 53 for number in used):
            return f"a reply's usage is not a count of requests and tokens: {used}"
    count_text = f"{counted(len(replies), 'reply')} came to {counted(count, 'question')}"
    return "" if len(replies) == count else count_text
