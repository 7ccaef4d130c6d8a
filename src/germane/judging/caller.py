"""Run coroutines wherever germane is called, and functions in the thread that called it.

Clients that were made in the caller's thread may not work in others. A signal (Ctrl-C) ends a coroutine.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar, cast

from germane.errors import Interrupted

__all__ = ["run_coroutine"]

T = TypeVar("T")
RunThere: TypeAlias = Callable[[Callable[[], object]], object]
"""Passes a function to the thread that called the evaluation; the thread runs it as soon as it can."""

_run_there: ContextVar[RunThere | None] = ContextVar("run_there", default=None)


def callers_thread() -> RunThere:
    """Return a function that runs functions in the thread that called germane.

    If that thread is not known, they run in the thread of the current event loop.
    """
    return _run_there.get() or asyncio.get_running_loop().call_soon_threadsafe


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

    _run_there.set(lambda call: loop.call_soon_threadsafe(outside, call))
    return await work


def run_coroutine(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result.

    If an event loop is already running (as in a notebook), the coroutine runs in another thread. Functions of
    targets that must run in the calling thread are then called there while it waits. An interruption (Ctrl-C)
    cancels the coroutine, and is raised once the coroutine has ended.
    """
    running = False
    with suppress(RuntimeError):
        running = asyncio.get_running_loop() is not None
    if not running:
        # asyncio computes the repr of its task, and thus of the task's result, when it restores the signal
        # handler; so the task has no result
        results = list[T]()

        async def run() -> None:
            results.append(await in_own_loop(work))

        asyncio.run(run())
        return results[0]
    calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = Future()

    async def main() -> T:
        begun.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        _run_there.set(calls.put)
        return await work

    with ThreadPoolExecutor(1, "germane-evaluate") as executor:  # at its end it waits for the thread
        result = executor.submit(asyncio.run, main())
        result.add_done_callback(lambda _: calls.put(None))
        try:
            while (call := calls.get()) is not None:
                call()
            return result.result()
        except BaseException:
            loop, task = begun.result()
            with suppress(RuntimeError):  # the loop has just ended
                loop.call_soon_threadsafe(cast("asyncio.Task[Any]", task).cancel)
            raise


async def interruptibly(work: Any) -> Any:
    """Await a coroutine and return its result. Raises Interrupted if a signal (Ctrl-C) arrives before."""
    task = asyncio.ensure_future(work)
    with interruptible(task.cancel):
        try:
            return await task
        except asyncio.CancelledError:
            raise Interrupted("interrupted") from None


_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def interruptible(*steps: Callable[[], object]) -> Iterator[None]:
    """Return a context in which each signal (such as Ctrl-C) calls the next of `steps` in the event loop.

    Signals that arrive after the last step act as usual. A signal raises KeyboardInterrupt if the loop has
    not called the previous step yet, for example because a long regular expression blocks the loop. Outside
    of the main thread, signals are not handled.
    """
    loop, left, before = asyncio.get_running_loop(), list(steps), dict[signal.Signals, Any]()

    def restore() -> None:
        while before:
            number, handler = before.popitem()
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    waiting: list[Callable[[], object]] = []

    def step() -> None:
        if not left:
            restore()
        waiting.pop()()

    def take(_number: int, _frame: object) -> None:
        if waiting:
            restore()
            loop.set_exception_handler(lambda *_: None)  # the loop ends: nobody awaits its tasks any more
            raise KeyboardInterrupt
        waiting.append(left.pop(0))
        loop.call_soon_threadsafe(step)

    with suppress(ValueError):  # not the main thread
        for number in _SIGNALS:
            if number.name != "SIGHUP" or signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores it
                before[number] = signal.signal(number, take)
    try:
        yield
    finally:
        restore()
