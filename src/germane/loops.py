"""A coroutine from code that is none: on a loop of its own, whether or not one runs here already."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

__all__ = ["run_coroutine"]

T = TypeVar("T")


def run_coroutine(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in a thread where a loop is running here already (a notebook).

    What interrupts the wait (Ctrl-C) cancels the coroutine, as it does without a thread; it is raised once the
    coroutine has ended.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return _in_thread(work)


def _in_thread(work: Coroutine[Any, Any, T]) -> T:
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()
    ended: Future[T] = Future()

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None
        begun.set_result((asyncio.get_running_loop(), task))
        return await work

    def run() -> None:
        try:
            ended.set_result(asyncio.run(main()))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            ended.set_exception(error)

    thread = threading.Thread(target=run, name="germane-evaluate")
    thread.start()
    interrupt: BaseException | None = None
    while not ended.done():
        try:
            ended.exception()  # waits; a thread's join() cannot be waited for again once it was interrupted
        except BaseException as error:  # noqa: BLE001 - raised again below
            interrupt = error
            loop, task = begun.result()
            with suppress(RuntimeError):  # it has ended at this moment
                loop.call_soon_threadsafe(task.cancel)
    thread.join()
    if interrupt is not None:
        raise interrupt
    return ended.result()
