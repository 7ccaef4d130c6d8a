"""Run functions in the thread that called germane, since clients made there may not work in others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
RunThere: TypeAlias = Callable[[Callable[[], object]], object]
"""Passes a function to the thread that called the evaluation; the thread runs it as soon as it can."""

_run_there: ContextVar[RunThere | None] = ContextVar("run_there", default=None)


def callers_thread() -> RunThere:
    """Return a function that runs functions in the thread that called germane.

    If that thread is not known, they run in the thread of the current event loop.
    """
    return _run_there.get() or asyncio.get_running_loop().call_soon_threadsafe


async def called_by(run_there: RunThere, work: Coroutine[Any, Any, T]) -> T:
    """Await `work` and return its result; until then, `callers_thread` returns the function `run_there`."""
    _run_there.set(run_there)
    return await work


async def in_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` and return its result, in an event loop that germane started in the caller's thread.

    Functions that are run through `callers_thread` see no running loop, so that they may call asyncio.run.
    """
    loop = asyncio.get_running_loop()

    def outside(function: Callable[[], object]) -> None:
        asyncio._set_running_loop(None)  # noqa: SLF001 - else the function could not call asyncio.run
        try:
            function()
        finally:
            asyncio._set_running_loop(loop)  # noqa: SLF001

    return await called_by(lambda call: loop.call_soon_threadsafe(outside, call), work)
