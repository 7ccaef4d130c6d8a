"""What a judge says to a group of questions, whoever wrote the judge: a reply to each, or why there is none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

from germane.errors import AnswerError, GermaneError
from germane.judges.judge import Judge, Reply
from germane.judging.flight import Flight
from germane.types import Usage

__all__ = ["said_by"]

_log = logging.getLogger("germane")
_MOST = 2**53


async def said_by(judge: Judge, flight: Flight) -> Sequence[Reply]:
    """One reply a question of the flight. What goes wrong inside the judge fails these questions alone.

    What germane raises on purpose (JudgeError: the judge cannot be used at all) is raised, and so is CancelledError where
    somebody else cancelled.
    """
    try:
        replies = await judge.answer(tuple([one.question for one in flight.asked]))
    except AnswerError as error:
        wrong = str(error)
    except GermaneError:
        raise
    except asyncio.CancelledError:
        if flight.called_back or flight.cancelled:
            raise
        wrong = "it cancelled its own work"
    except Exception as error:  # noqa: BLE001 - whatever somebody's own judge raises
        _log.debug("the judge %s failed", judge.name, exc_info=True)
        wrong = f"{type(error).__name__}: {error}"
    else:
        if not (wrong := _wrong(replies, len(flight.asked))):
            return replies
    return [Reply(error=f"the judge {judge.name} failed: {wrong}") for _ in flight.asked]


def _wrong(replies: Any, count: int) -> str:
    """Why these are not one reply a question; "" where they are."""
    if not isinstance(replies, Sequence):
        return f"answer() must return a list of replies, not {type(replies).__name__}"
    for reply in replies:
        if not (isinstance(reply, Reply) and isinstance(reply.usage, Usage)):
            return f"answer() must return Reply objects, not {type(reply).__name__}"
        if not isinstance(told := cast("object", reply.provenance), Mapping):
            return f"a reply's provenance is a mapping, not {type(told).__name__}"
        used: tuple[Any, ...] = (reply.usage.requests, reply.usage.input_tokens, reply.usage.output_tokens)
        if not all(isinstance(number, int) and 0 <= number < _MOST for number in used):
            return f"a reply's usage is no count of requests and tokens: {used}"
    return "" if len(replies) == count else f"{len(replies)} replies came to {count} questions"
