"""The caller's thread and event loop, in which clients made by the caller may be used."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Caller(NamedTuple):
    """The caller of an evaluation.

    `loop` is its own event loop, None where coroutines cannot be awaited in one; `run` hands a function to its `thread`,
    which runs it as soon as it can.
    """

    loop: asyncio.AbstractEventLoop | None
    thread: int
    run: Callable[[Callable[[], object]], object]


_caller: ContextVar[Caller | None] = ContextVar("caller", default=None)


def caller() -> Caller:
    """Return the caller of the evaluation in this context; without one, the running loop's."""
    if (known := _caller.get()) is not None:
        return known
    loop = asyncio.get_running_loop()
    return Caller(loop, threading.get_ident(), loop.call_soon_threadsafe)


async def called_by(known: Caller, work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine on behalf of this caller."""
    _caller.set(known)
    return await work


async def in_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine in a loop that germane starts in the caller's thread; functions called there see no loop."""
    loop = asyncio.get_running_loop()

    def outside(function: Callable[[], object]) -> None:
        asyncio._set_running_loop(None)  # noqa: SLF001 - else the function could not call asyncio.run
        try:
            function()
        finally:
            asyncio._set_running_loop(loop)  # noqa: SLF001

    own = Caller(None, threading.get_ident(), lambda call: loop.call_soon_threadsafe(outside, call))
    return await called_by(own, work)
