"""How much may leave in a minute: requests, tokens, and how many in flight, for everybody who shares these limits.

What is taken is taken as a request leaves, one after the other: nothing is set aside for who waits elsewhere.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import floor, inf
from time import monotonic

from germane.errors import InputError
from germane.judging.limits import Level

__all__ = ["Limits", "Share", "Window"]

MINUTE = 61.0
"""Seconds: a minute, and one more for what is on its way to whoever counts."""

AT_ONCE = 5.0
"""Seconds' worth that may leave at once after a quiet while; the rest is spread."""


@dataclass(slots=True)
class _Taken:
    """So many units, taken then."""

    at: float
    units: float


class Window:
    """At most so many units in any minute. More than that at once is taken where nothing was taken for a minute.

    Args:
        per_minute: How many; of less than one, one in so much longer a time.
    """

    def __init__(self, per_minute: float) -> None:
        self._most = max(1.0, per_minute)
        self._period = MINUTE * max(1.0, 1 / per_minute)
        self._interval = 60 / per_minute
        self._log: deque[_Taken] = deque()
        self._sum = 0.0
        self._next = 0.0

    def wait(self, units: float) -> float:
        """Seconds until so many may be taken, as far as is known now."""
        now = monotonic()
        while self._log and self._log[0].at + self._period <= now:
            self._sum -= self._log.popleft().units
        if not self._log:
            self._sum = 0.0
        if units > self._most:  # it fits no minute: it leaves when nothing else did for one
            return max(0.0, self._free_at(units) - now)
        return max(0.0, self._next - now, self._free_at(units) - now)

    def _free_at(self, units: float) -> float:
        """When enough of what was taken is a minute old."""
        over, at = self._sum + units - self._most, 0.0
        for taken in self._log:
            if over <= 0:
                break
            over -= taken.units
            at = taken.at + self._period
        return at

    def take(self, units: float) -> _Taken:
        """Take so many, now."""
        now = monotonic()
        self._next = min(max(self._next, now - AT_ONCE) + units * self._interval, now + self._period)
        self._sum += units
        self._log.append(taken := _Taken(now, units))
        return taken

    def correct(self, taken: _Taken, units: float) -> None:
        """It was so many in truth; 0 gives it back."""
        more = units - taken.units
        self._next += more * self._interval
        if self._log and taken.at >= self._log[0].at:
            self._sum += more
            taken.units = units


@dataclass(slots=True)
class Share:
    """What one request has taken of the limits."""

    requests: _Taken | None = None
    tokens: _Taken | None = None


class Limits:
    """What all who share them keep to together, each None = no limit. Who waits is served in the order of arrival.

    Args:
        rpm, tpm: Requests and tokens a minute, more than 0.
        in_flight: Requests in flight, from 1.

    Raises:
        InputError: A rate is none.
    """

    def __init__(
        self, *, rpm: float | None = None, tpm: float | None = None, in_flight: int | None = None
    ) -> None:
        for name, value in (("rpm", rpm), ("tpm", tpm)):
            if value is not None and not 0 < value < inf:
                raise InputError(
                    f"{name}={value!r} is not possible", fix="write how many a minute: more than 0"
                )
        self._requests = Window(floor(rpm) if rpm >= 1 else rpm) if rpm else None
        self._tokens = Window(tpm) if tpm else None
        self._places = Level(in_flight) if in_flight else None
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def any(self) -> bool:
        """Whether there is a limit at all."""
        return bool(self._requests or self._tokens or self._places)

    async def take(self, tokens: Callable[[], float]) -> Share:
        """Wait for one request of about so many tokens, as far as is known then; nothing is taken where it is cancelled."""
        if self._places is not None:
            await self._places.acquire()
        try:
            if self._queue or self._wait(tokens) > 0:
                await self._turn(tokens)
        except asyncio.CancelledError:
            self.land()
            raise
        return Share(
            self._requests.take(1) if self._requests else None,
            self._tokens.take(tokens()) if self._tokens else None,
        )

    async def _turn(self, tokens: Callable[[], float]) -> None:
        """The first in the queue waits until it may leave, the others for it."""
        turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            if self._queue[0] is not turn:
                await turn
            wait = self._wait(tokens)
            while wait > 0:
                await asyncio.sleep(min(wait, 1.0))  # what was taken may turn out to be less
                wait = self._wait(tokens)
        finally:
            self._queue.remove(turn)
            if self._queue and not self._queue[0].done():
                self._queue[0].set_result(None)

    def _wait(self, tokens: Callable[[], float]) -> float:
        wait = self._requests.wait(1) if self._requests else 0.0
        return max(wait, self._tokens.wait(tokens())) if self._tokens else wait

    def used(self, share: Share, tokens: float) -> None:
        """So many tokens it was in truth."""
        if self._tokens and share.tokens:
            self._tokens.correct(share.tokens, tokens)

    def give_back(self, share: Share) -> None:
        """The request did not leave."""
        if self._requests and share.requests:
            self._requests.correct(share.requests, 0)
        self.used(share, 0)
        self.land()

    def land(self) -> None:
        """A request is not in flight any more."""
        if self._places is not None:
            self._places.release()
