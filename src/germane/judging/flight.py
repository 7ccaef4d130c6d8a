"""A group of questions that was handed to a judge: until its first request leaves, it can be called back.

After that it can be stopped: what is out is waited for, but not asked again.

A judge may hold requests back (a place in flight, so many a minute, an endpoint that is down). Where a pool stops, or an
answer comes from elsewhere meanwhile, what is held back must not leave. A judge that holds nothing back says nothing:
what was handed to it is on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from germane.judges.client.limits import stop_token
from germane.judging.waiting import Asked

__all__ = ["Flight"]


class Flight:
    """One group on its way, in the task that made it.

    Args:
        asked: The group.
        news: Called as it leaves; True where some of it need not be asked any more. Then it does not leave.
    """

    __slots__ = ("_left", "_news", "_recalls", "_task", "_waits", "asked", "called_back", "stopped")

    def __init__(self, asked: list[Asked], news: Callable[[Flight], Awaitable[bool]]) -> None:
        self.asked, self._news = asked, news
        self.called_back = self.stopped = self._left = self._waits = self._recalls = False
        self._task = asyncio.current_task()
        stop_token.set(self)

    def call_back(self) -> None:
        """Let it not leave any more, if it has not left: its task is cancelled where it waits."""
        if self._left or self.called_back:
            return
        self.called_back = True
        if self._waits:
            self.cancel()

    def stop(self) -> None:
        """Let no request of it leave any more: it is called back or, where one has left, no further one is made."""
        if not self._left:
            self.call_back()
        elif not self.stopped:
            self.stopped = True
            if self._waits:
                self._recalls = True
                self.cancel()

    def recalled(self) -> bool:
        """Whether it was stopped in a wait after its first request: then its task goes on, with what it has."""
        if not self._recalls or self._task is None:
            return False
        self._recalls = False
        self._task.uncancel()
        return True

    def cancel(self) -> None:
        """Give it up, whether or not it has left."""
        if self._task is not None:
            self._task.cancel()

    @property
    def cancelled(self) -> bool:
        """Whether somebody cancelled the task."""
        return self._task is not None and self._task.cancelling() > 0

    def wait(self) -> bool:
        """A request of it is held back from here on. CancelledError where it has been called back, False where it was stopped."""
        self._waits = not self.stopped
        if self.called_back and not self._left:
            raise asyncio.CancelledError
        return self._waits

    async def leave(self) -> None:
        """Its request leaves now. CancelledError where it must not."""
        if not self._left and await self._news(self):
            self.called_back = True
            raise asyncio.CancelledError
        self._left, self._waits = True, False
