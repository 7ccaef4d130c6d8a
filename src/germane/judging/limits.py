"""How hard an endpoint may be pressed: requests in flight, and when to stop asking.

Nothing here knows HTTP. `Level` finds how many requests may be in flight, `Circuit` stops hammering an endpoint that
is dead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from math import inf
from time import monotonic

__all__ = ["Circuit", "CircuitOpen", "Level"]

SLOW = 2.5
"""Latency this many times the calmest seen means that more requests would only queue."""

RARELY = 5
"""How much rarer the probes of a dead endpoint become."""

BEFORE = 5.0
"""Seconds for which an endpoint that was never reached is tried: it may just be starting."""


class Level:
    """A semaphore that finds its own size, at most `cap`.

    A given size starts at the cap. One to be found starts at `start` and grows by one an answer (doubling
    each round trip) until the endpoint throttles or slows down; from then by one a round trip. In the first round,
    where nobody knows yet how fast it can be, an answer much slower than the quickest does not count. A throttled
    request halves it, at most once a round trip. A request that has stalled leaves its place to another, up to half
    of the cap and never beyond it: a few that hang must not hold up the rest.
    """

    def __init__(self, cap: int, start: int | None = None) -> None:
        self.cap = max(1, cap)
        self.size = float(min(self.cap, start or self.cap))
        self.busy = self.stalled = 0
        self._searching = start is not None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._cut_at = -1.0
        self._answers, self._took, self._calm = 0, 0.0, 0.0
        self._quickest = inf
        self._trip = int(self.size)

    async def acquire(self) -> float:
        """Wait for a place; returns the time of departure."""
        if self._waiting or not self._room():
            place = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            try:
                await place
            except asyncio.CancelledError:
                self._give_up(place)
                raise
        else:
            self.busy += 1
        return monotonic()

    def _give_up(self, place: asyncio.Future[None]) -> None:
        if place.done() and not place.cancelled():
            self.release()
        elif place in self._waiting:
            self._waiting.remove(place)

    def _room(self) -> bool:
        return self.busy < min(self.cap, int(self.size) + min(self.stalled, self.cap // 2))

    def release(self) -> None:
        """Give the place back."""
        self.busy -= 1
        self._admit()

    def stall(self, by: int = 1) -> None:
        """A request in flight has stalled; -1: it has ended after all."""
        self.stalled += by
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._room():
            place = self._waiting.popleft()
            if not place.done():
                self.busy += 1
                place.set_result(None)

    def answered(self, sent: float) -> None:
        """The endpoint kept up with a request sent then: rise."""
        took = monotonic() - sent
        self._answers += 1
        self._took += took
        self._quickest = min(self._quickest, took)
        queued = not self._calm and took > SLOW * self._quickest
        if self._answers >= self._trip:
            self._round()
        if self.size < self.cap and not queued:
            self.size = min(self.cap, self.size + (1 if self._searching else 1 / self.size))
            self._admit()

    def _round(self) -> None:
        """One round trip is over: does the endpoint still answer as fast as it can?"""
        mean = self._took / self._answers
        self._answers, self._took = 0, 0.0
        if not self._calm or mean < self._calm:
            self._calm = mean
        if self._searching and mean > SLOW * self._calm:
            self._searching = False
            self.size = max(1.0, self.size / 2)
        self._trip = int(self.size)

    def throttled(self, sent: float) -> None:
        """The endpoint asked for less: halve, unless that request left before the last cut."""
        self._searching = False
        if sent > self._cut_at:
            self._cut_at = monotonic()
            self.size = max(1.0, self.size / 2)


class CircuitOpen(Exception):
    """The endpoint is not being asked for now."""


class Circuit:
    """Opens after `limit` transport faults in a row; then one probe now and then until one succeeds.

    Who comes while it is open waits for a probe to succeed. Once one has failed `patience` seconds after it opened
    (BEFORE where the endpoint was never reached), everybody is turned away at once (a restart within that time loses
    nothing), and only who has not failed yet may still be a probe. Probes become rarer, up to RARELY times `probe_every`.
    """

    def __init__(self, limit: int = 10, patience: float = 30.0, probe_every: float = 1.0) -> None:
        self.limit, self.probe_every = limit, probe_every
        self.faults = 0
        self.last = ""
        self.alive = False
        """Whether the endpoint was ever reached."""

        self._patience = patience
        self._opened: float | None = None
        self._failed_at = self._probe_at = 0.0
        self._wait = probe_every

    @property
    def open(self) -> bool:
        """Whether requests are held back."""
        return self._opened is not None

    @property
    def patience(self) -> float:
        """Seconds for which a dead endpoint is tried."""
        return self._patience if self.alive else min(BEFORE, self._patience)

    @property
    def exhausted(self) -> bool:
        """Whether it is open and was tried for so long."""
        return self._opened is not None and self._failed_at - self._opened >= self.patience

    @property
    def why(self) -> str:
        """What has opened it."""
        return f"{self.faults} requests in a row failed, the last with: {self.last}"

    async def enter(self) -> bool:
        """Pass where the circuit is closed or, as the probe (True), when one is due; else wait or raise CircuitOpen."""
        while self._opened is not None:
            now = monotonic()
            if now >= self._probe_at:
                self._wait = min(self._wait * 2, RARELY * self.probe_every)
                self._probe_at = now + self._wait
                return True
            if self.exhausted:
                raise CircuitOpen(self.why)
            await asyncio.sleep(min(self._probe_at - now, 1.0))
        return False

    def succeeded(self) -> None:
        """Any answer, even a refusal, shows that the endpoint lives."""
        self.faults, self._opened, self.alive = 0, None, True

    def failed(self, why: str) -> bool:
        """One more transport fault in a row; whether that opened it."""
        self.faults += 1
        self.last, self._failed_at = why, monotonic()
        if self._opened is not None or self.faults < self.limit:
            return False
        self._opened = self._failed_at
        self._wait = self.probe_every
        self._probe_at = self._opened + self._wait
        return True
