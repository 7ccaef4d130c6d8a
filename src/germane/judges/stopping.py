"""How a pool stops its judges: no request is sent any more, and what was sent is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar


class Stopped(Exception):
    """No further request is sent."""


class StopToken:
    """Stops the requests of the task in which it was made: none is sent any more, and what was sent is waited for."""

    def __init__(self) -> None:
        self.stopped = False
        self._waits = self._recalled = False
        self._task = asyncio.current_task()
        _stop_token.set(self)

    def stop(self) -> None:
        """Send no more requests; a wait for one ends."""
        if not self.stopped:
            self.stopped, self._recalled = True, self._waits
            if self._waits:
                self.cancel()

    def cancel(self) -> None:
        """Give the task up, whether or not anything was sent."""
        if self._task is not None:
            self._task.cancel()

    @property
    def cancelled(self) -> bool:
        """Whether somebody cancelled the task."""
        return self._task is not None and self._task.cancelling() > 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait inside for whatever holds a request back. Raises Stopped where no more may be sent."""
        if self.stopped:
            raise Stopped
        self._waits = True
        try:
            yield
        except asyncio.CancelledError:
            if not self._recalled or self._task is None:
                raise
            self._recalled = False
            self._task.uncancel()
            raise Stopped from None
        finally:
            self._waits = False


_stop_token: ContextVar[StopToken | None] = ContextVar("germane_stop_token", default=None)


def waiting() -> AbstractContextManager[None]:
    """The `waiting` of this task's token, if it has one."""
    token = _stop_token.get()
    return nullcontext() if token is None else token.waiting()
