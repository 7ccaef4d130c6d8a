"""Call a judge, check its replies, and make judgements of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from germane.clean import counted
from germane.encoding import encode, now
from germane.errors import AnswerError, GermaneError
from germane.judges.judge import GroupScope, Judge, Reply
from germane.questions.asking import Answer, answered
from germane.questions.question import AnyQuestion, asked_as
from germane.types import FrozenDict, Judgement, Usage

__all__ = ["judgement_of"]

_log = logging.getLogger("germane")


def judgement_of(
    key: str,
    question: AnyQuestion,
    judge: Judge,
    reply: Reply,
    *,
    parent: str | None = None,
    session: str = "",
) -> Judgement:
    """Return a judge's reply to a question as a judgement, to be stored under `key`.

    `parent` is the key of the judgement that this one was merged into, `session` the id of the session that
    paid for it. Raises TypeError or ValueError if the reply cannot be written as JSON.
    """
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
    """Return a reply as an Answer: the judgement with the typed answer. An invalid reply becomes an error.

    `key` is the judgement's ledger key, `session` the id of the session that paid for it.
    """
    try:
        answer = answered(question, judgement_of(key, question, judge, reply, session=session))
        children = [
            judgement_of(judge.key(window), window, judge, child, parent=key, session=session)
            for window, child in reply.children
        ]
    except Exception as error:  # noqa: BLE001 - whatever somebody's own judge put into it
        why = f"the reply of the judge {judge.name} is invalid: {type(error).__name__}: {error}"
        return answer_of(key, question, judge, Reply(error=why, usage=reply.usage))
    if not answer.usable and reply.error is None:
        return Answer(structs.replace(answer.judgement, answer=None, error=answer.value.why), answer.value)
    return structs.replace(answer, children=tuple(children))


async def replies_of(judge: Judge, questions: tuple[AnyQuestion, ...], scope: GroupScope) -> Sequence[Reply]:
    """Ask the judge and return one reply per question. If it raises any other exception, all are errors.

    Raises:
        GermaneError: The judge raised it on purpose, for example JudgeError because it cannot be used at all.
        CancelledError: The task was cancelled by something other than the judge.
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
        if scope.task.cancelling():
            raise
        wrong = "its answer() cancelled its own task"
    except Exception as error:  # noqa: BLE001 - whatever somebody's own judge raises
        _log.debug("the judge %s failed", judge.name, exc_info=True)
        wrong = f"{type(error).__name__}: {error}"
    return [Reply(error=f"the judge {judge.name} failed: {wrong}") for _ in questions] if wrong else replies


def _wrong(replies: Sequence[Any], count: int) -> str:
    """Return a description of the fault in a judge's replies to `count` questions; "" if they are valid."""
    for reply in replies:
        if not (isinstance(reply, Reply) and isinstance(reply.usage, Usage)):
            return "its answer() must return Reply objects, or payloads as dicts"
        used: tuple[Any, ...] = (reply.usage.requests, reply.usage.input_tokens, reply.usage.output_tokens)
        if not all(isinstance(number, int) and 0 <= number < 1 << 53 for number in used):
            return f"the usage of a reply must be whole numbers of requests and tokens, not {used}"
    count_text = f"its answer() returned {counted(len(replies), 'reply')} to {counted(count, 'question')}"
    return "" if len(replies) == count else count_text
