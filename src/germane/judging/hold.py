"""A wait that an endpoint asked for holds for everybody, until it is over or the endpoint shows that it was not meant so."""

from __future__ import annotations

import asyncio
import random
from time import monotonic

__all__ = ["HEEDED", "Hold"]

HEEDED = 60.0
"""Seconds: nobody leaves in a wait up to this. In a longer one a request now and then finds out whether it is meant."""

SOON, RARELY = 2.0, 60.0
"""Seconds until the first such request; the time between them doubles up to the second."""

SPREAD = 0.1
"""The part of a wait by which requests are spread after it, a second at most: not all leave in the same instant."""


class Hold:
    """Nobody leaves before a time that the endpoint has named.

    An answer to a request that left no earlier than the one that was refused lifts it: a refusal that others did not
    get binds nobody else.

    Args:
        longest: Seconds that are waited at most.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._until = self._began = self._last_refused = 0.0
        self._probe_at = self._pause = 0.0
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def stands(self) -> bool:
        """Whether requests are held back."""
        return self._until > 0 and self._until > monotonic()

    def refused(self, sent: float, seconds: float) -> bool:
        """A request that left then was told to wait so long. Whether that is meant, and longer than anybody waits."""
        now = monotonic()
        probed = self.stands and sent >= self._began
        if not self.stands:
            self._began, self._pause, self._probe_at = now, SOON, now + SOON
        self._last_refused = max(self._last_refused, sent)
        self._until = now + seconds if probed else max(self._until, now + seconds)
        return probed and seconds > self._longest

    def answered(self, sent: float) -> None:
        """A request that left then was answered."""
        if self._until and sent >= self._last_refused:
            self._until = 0.0
            for waiter in self._waiting:
                _wake(waiter)

    async def over(self) -> bool:
        """Wait until nobody is held back; True for who is to find out whether that still has to be."""
        spread = random.random()  # noqa: S311 - no secret
        while (left := self._until - (now := monotonic())) > 0:
            probes = self._until - self._began > HEEDED
            if probes and now >= self._probe_at:
                self._pause = min(2 * self._pause, RARELY)
                self._probe_at = now + self._pause
                return True
            left += spread * min(1.0, SPREAD * left)
            await self._rest(min(left, self._probe_at - now) if probes else left)
        return False

    async def _rest(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        timer = loop.call_later(seconds, _wake, waiter)
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiting.discard(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
