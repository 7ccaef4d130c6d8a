"""Limits on requests to an endpoint: concurrency, pauses, rates per minute, and a circuit breaker."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import deque
from collections.abc import Callable
from math import floor, inf
from time import monotonic

from germane.judges.client.retry import RetryPolicy, check_number

SLOW = 2.5  # if the latency exceeds the lowest one by this factor, more requests would only queue
FORGOTTEN = 1.02  # factor by which the lowest latency grows per answer, so that one fast answer is forgotten
MINUTE = 61.0  # seconds over which a minute's limit is spread; one more because of delays on the network


class AdaptiveConcurrency:
    """A semaphore that adapts its size: slow start, then additive increase, multiplicative decrease (AIMD).

    The size begins at `start` (default: `limit`) and never exceeds `limit`. It grows by one per answer, so
    that it doubles per round trip, until the endpoint throttles a request; from then on it grows by one per
    round trip. Slow answers (`SLOW` times the lowest latency) do not increase it. A throttled request halves
    it, at most once per round trip.

    A pause delays all requests, for the time of a Retry-After or the backoff of an endpoint that is down. It
    ends early, or does not begin, if a request that was sent after the refused request is answered.
    """

    def __init__(self, limit: int, start: int | None = None) -> None:
        self.limit = max(1, limit)
        self.size = float(min(self.limit, start or self.limit))
        self.in_flight = 0
        self._slow_start = start is not None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._halved_at = -1.0
        self._fastest = inf
        self._paused_until = self._refused = self._answered = 0.0

    @property
    def paused(self) -> bool:
        """True while a pause delays all requests."""
        return self._paused_until > monotonic()

    async def pause(self) -> None:
        """Wait until the pause ends, plus a random time of up to 1 s to spread the requests."""
        left = self._paused_until - monotonic()
        late = random.random() * min(1.0, left / 10)  # noqa: S311 - no secret
        while self._paused_until and left > 0:
            await asyncio.sleep(min(left, 0.1))  # in short steps, because the pause may end early
            left = self._paused_until + late - monotonic()

    async def acquire(self) -> None:
        """Wait until fewer requests are in flight than the current size, then count one more as in flight."""
        if not self._waiting and self.in_flight < int(self.size):
            self.in_flight += 1
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.release()  # the request was admitted and cancelled at the same time
            raise

    def release(self) -> None:
        """Count one request less in flight, and admit the next waiting request."""
        self.in_flight -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.in_flight < int(self.size):
            future = self._waiting.popleft()
            if not future.done():
                self.in_flight += 1
                future.set_result(None)

    def succeeded(self, sent: float) -> None:
        """Increase the size after an answer, and end a pause that began before its request was `sent`."""
        self._answered = max(self._answered, sent)
        if sent >= self._refused:
            self._paused_until = 0.0
        latency = monotonic() - sent
        self._fastest = min(self._fastest * FORGOTTEN, latency)
        if self.size < self.limit and latency <= SLOW * self._fastest:
            self.size = min(self.limit, self.size + (1 if self._slow_start else 1 / self.size))
            self._admit()

    def throttled(self, sent: float, seconds: float | None = None) -> None:
        """Halve the size after a request that was `sent` then was throttled, and pause for `seconds`."""
        self._slow_start = False
        if sent > self._halved_at:
            self._halved_at = monotonic()
            self.size = max(1.0, self.size / 2)
        if seconds is not None and self._answered <= sent:
            self._refused = max(self._refused, sent)
            self._paused_until = max(self._paused_until, monotonic() + seconds)


class RateLimiter:
    """Limits on requests and tokens per minute and on requests in flight.

    Several judges may use the same object.

    `rpm` and `tpm` are the maximum requests and tokens per minute, spread evenly over the minute. `in_flight`
    is the maximum number of requests in flight. None means no limit. Requests are sent in the order of their
    arrival. Raises InputError if a rate is not above 0.
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
        """Wait until a request may be sent; return the `tokens` counted for it, 0 without a limit."""
        await self._in_flight.acquire()
        if not any(self._seconds):
            return 0.0
        if not self._turn.locked():
            self._turn = asyncio.Lock()  # a used lock belongs to the event loop that used it
        try:
            async with self._turn:  # the first in line waits for the rates, the others for the lock
                while True:
                    if (wait := max(self._free_at) - monotonic()) <= 0:
                        break
                    await asyncio.sleep(min(wait, 1.0))  # `correct` may shorten the wait meanwhile
                used, now = (1, tokens()), monotonic()
                for which, seconds in enumerate(self._seconds):
                    # a request larger than the limit of a minute delays the next by no more than a minute
                    coming = max(self._free_at[which], now) + used[which] * seconds
                    self._free_at[which] = min(coming, now + max(MINUTE, seconds))
                return used[1]
        except asyncio.CancelledError:
            self.release()
            raise

    def correct(self, tokens: float, requests: int = 0) -> None:
        """Add to the tokens and requests that count as used, once the actual numbers are known."""
        self._free_at[0] += requests * self._seconds[0]
        self._free_at[1] += min(tokens * self._seconds[1], MINUTE)  # the numbers are the server's

    def release(self) -> None:
        """Count one request less in flight."""
        self._in_flight.release()


class CircuitBreaker:
    """Counts the failures of an endpoint in a row, to decide when to send fewer requests and when to give up.

    While it is `open`, requests slow down. Once it is `exhausted`, no more requests are sent. It opens only
    if the endpoint has answered before.
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
        """The reason to give up the endpoint if it has failed for more than `outage` seconds, else ""."""
        if self._opened is None or self._failed_at - self._opened < self._policy.outage:
            return ""
        return f"{self._failures} requests in a row failed, the last with: {self._last}; no more are sent"

    def succeeded(self) -> None:
        """Close the circuit, because a response (even a refusal) shows that the endpoint is up."""
        self._failures, self._opened, self.reached = 0, None, True

    def failed(self, why: str) -> bool:
        """Count one more failure in a row; return True if it opened the circuit."""
        self._failures += 1
        self._last, self._failed_at = why, monotonic()
        if self.open or not self.reached or self._failures < self._policy.circuit_failures:
            return False
        self._opened = self._failed_at
        return True
