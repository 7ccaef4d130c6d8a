"""Limits of an endpoint: concurrency, pauses, requests and tokens per minute, circuit breaker."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import deque
from collections.abc import Callable
from math import floor, inf
from time import monotonic

from germane.judges.client.retry import RetryPolicy, check_number

SLOW = 2.5  # latency of this many times the lowest one means that more requests would only queue
FORGOTTEN = 1.02  # growth of the lowest latency per answer: one very fast answer does not count for good
MINUTE = 61.0  # seconds in which a minute's units leave: one more, for requests that are on their way


class AdaptiveConcurrency:
    """A semaphore that finds its own size: slow start, then additive increase, multiplicative decrease.

    The size begins at `start` (default: the limit) and grows by one per answer (doubling per round trip) until
    the endpoint throttles, and by one per round trip from then on (AIMD). Answers that take `SLOW` times as
    long as the fastest do not make it grow. A throttled request halves it, at most once per round trip.

    A pause holds all requests back until the time of a Retry-After, or for the backoff of an endpoint that is
    down. An answer to a request that was sent after the refused one ends the pause early.
    """

    def __init__(self, limit: int, start: int | None = None) -> None:
        self.limit = max(1, limit)
        self.size = float(min(self.limit, start or self.limit))
        self.in_flight = 0
        self._slow_start = start is not None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._halved_at = -1.0
        self._fastest = inf
        self._paused_until = self._refused = 0.0

    @property
    def paused(self) -> bool:
        """True while all requests are held back."""
        return self._paused_until > monotonic()

    async def pause(self) -> None:
        """Wait until the endpoint's pause ends, plus a random delay (at most 1 s) against bursts."""
        left = self._paused_until - monotonic()
        late = random.random() * min(1.0, left / 10)  # noqa: S311 - no secret
        while self._paused_until and left > 0:
            await asyncio.sleep(min(left, 0.1))  # it may end early
            left = self._paused_until + late - monotonic()

    async def acquire(self) -> None:
        """Wait until fewer requests are in flight than the current size, then count one more."""
        if not self._waiting and self.in_flight < int(self.size):
            self.in_flight += 1
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.release()  # it was admitted and cancelled at once
            raise

    def release(self) -> None:
        """Count one request less in flight, and let the next waiting request go."""
        self.in_flight -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.in_flight < int(self.size):
            future = self._waiting.popleft()
            if not future.done():
                self.in_flight += 1
                future.set_result(None)

    def succeeded(self, sent: float) -> None:
        """Increase the size after an answer to a request sent at the monotonic time `sent`; end a pause."""
        if sent >= self._refused:
            self._paused_until = 0.0
        latency = monotonic() - sent
        self._fastest = min(self._fastest * FORGOTTEN, latency)
        if self.size < self.limit and latency <= SLOW * self._fastest:
            self.size = min(self.limit, self.size + (1 if self._slow_start else 1 / self.size))
            self._admit()

    def throttled(self, sent: float, seconds: float | None = None) -> None:
        """Halve the size, at most once per round trip, and pause, after a request sent at `sent` failed."""
        self._slow_start = False
        if sent > self._halved_at:
            self._halved_at = monotonic()
            self.size = max(1.0, self.size / 2)
        if seconds is not None:
            self._refused = max(self._refused, sent)
            self._paused_until = max(self._paused_until, monotonic() + seconds)


class RateLimiter:
    """A limit of requests and tokens per minute, and of requests in flight, which several judges may share.

    `rpm` and `tpm` are requests and tokens per minute, used evenly over the minute; `in_flight` is the
    maximum of requests in flight; None is no limit. Requests are sent in the order of their arrival. Raises
    InputError unless a rate is above 0.
    """

    def __init__(
        self, *, rpm: float | None = None, tpm: float | None = None, in_flight: int | None = None
    ) -> None:
        for name, value in (("rpm", rpm), ("tpm", tpm)):
            if value is not None:
                check_number(name, value)
        rates = (floor(rpm) if rpm and rpm >= 1 else rpm, tpm)
        self._seconds = [MINUTE / rate if rate else 0.0 for rate in rates]  # per request, and per token
        self._free_at = [0.0, 0.0]  # the times from which the next request, and the next tokens, may be used
        self._in_flight = AdaptiveConcurrency(in_flight or sys.maxsize)
        self._turn = asyncio.Lock()

    async def acquire(self, tokens: Callable[[], float]) -> float:
        """Wait until a request may be sent; return the tokens counted for it: `tokens()`, called then."""
        await self._in_flight.acquire()
        if not any(self._seconds):
            return 0.0
        if not self._turn.locked():
            self._turn = asyncio.Lock()  # one that was waited for belongs to the event loop of then
        try:
            async with self._turn:  # the first in line waits for the rates, the others for the lock
                while True:
                    if (wait := max(self._free_at) - monotonic()) <= 0:
                        break
                    await asyncio.sleep(min(wait, 1.0))  # what others took may turn out to be less
                used, now = (1, tokens()), monotonic()
                for which, seconds in enumerate(self._seconds):
                    # more than a minute's units delay the next ones by no more than a minute
                    coming = max(self._free_at[which], now) + used[which] * seconds
                    self._free_at[which] = min(coming, now + max(MINUTE, seconds))
                return used[1]
        except asyncio.CancelledError:
            self.release()
            raise

    def correct(self, tokens: float, requests: int = 0) -> None:
        """Count more tokens and requests as used (fewer if negative) than before they were sent."""
        self._free_at[0] += requests * self._seconds[0]
        self._free_at[1] += tokens * self._seconds[1]

    def release(self) -> None:
        """Count one request less in flight."""
        self._in_flight.release()


class CircuitBreaker:
    """Counts an endpoint's failures in a row: if `open`, requests slow down; if `exhausted`, no more go out.

    A circuit only opens for an endpoint that has answered before.
    """

    def __init__(self, policy: RetryPolicy) -> None:
        self.reached = False  # True once the endpoint has ever answered
        self._policy = policy
        self._failures, self._last = 0, ""
        self._opened: float | None = None
        self._failed_at = 0.0

    @property
    def open(self) -> bool:
        """True if the endpoint has failed several times in a row."""
        return self._opened is not None

    @property
    def exhausted(self) -> str:
        """The reason to give the endpoint up, if it failed for more than `outage` seconds; else ""."""
        if self._opened is None or self._failed_at - self._opened < self._policy.outage:
            return ""
        return f"{self._failures} requests in a row failed, the last with: {self._last}; no more are sent"

    def succeeded(self) -> None:
        """Close the circuit, since an answer (even a refusal) shows that the endpoint is up."""
        self._failures, self._opened, self.reached = 0, None, True

    def failed(self, why: str) -> bool:
        """Count one more failure in a row; return True if it opened the circuit."""
        self._failures += 1
        self._last, self._failed_at = why, monotonic()
        if self.open or not self.reached or self._failures < self._policy.circuit_failures:
            return False
        self._opened = self._failed_at
        return True
