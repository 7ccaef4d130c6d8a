"""Signals that stop: Ctrl-C, a closed terminal, the end of a container."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["interruptible"]

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextlib.contextmanager
def interruptible(*steps: Callable[[], object]) -> Iterator[None]:
    """Within, each signal takes the next of these steps in the event loop; once all are taken, it does what it did before.

    Outside of the main thread nothing changes: there, somebody else handles signals.
    """
    loop, left, before = asyncio.get_running_loop(), list(steps), dict[signal.Signals, Any]()

    def restore() -> None:
        while before:
            number, handler = before.popitem()
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def take(_number: int, _frame: object) -> None:
        loop.call_soon_threadsafe(left.pop(0))
        if not left:
            restore()

    with contextlib.suppress(ValueError):  # not the main thread
        for number in _SIGNALS:
            if number.name != "SIGHUP" or signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
                before[number] = signal.signal(number, take)
    try:
        yield
    finally:
        restore()
