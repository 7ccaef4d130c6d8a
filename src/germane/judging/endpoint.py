"""One endpoint over HTTP: sends a body until there is an answer, within the budgets of failure.

Three budgets. Asked to wait (429, 503): waits as told, else backs off with jitter, and spends no attempt,
until the call's deadline. Transport faults (5xx, timeout, reset, a body cut short): `attempts` tries, and in an
outage as long as the circuit has patience.
Unusable answers are the caller's to count. What makes the endpoint useless (no such key, no such model, no
money) is a JudgeError, raised to everybody from then on.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import monotonic

from germane.errors import JudgeError
from germane.judging.completions import Used, used
from germane.judging.delays import retry_after
from germane.judging.failures import UNKNOWN, failure_in, said
from germane.judging.flight import Flight, current
from germane.judging.limits import Circuit, CircuitOpen, Level, Rate
from germane.judging.lookout import Lookout
from germane.judging.patience import Deadline, Patience
from germane.judging.statuses import broke, too_long, useless
from germane.judging.transport import Fault, Response, Transport
from germane.types import Json

__all__ = ["Endpoint", "Rejected", "Spending", "Unanswered"]

ENOUGH, OFTEN, LEAST, FORGET, STALLED = 20, 6.0, 15.0, 0.98, 2.0
"""A hang is noticed early: after ENOUGH answers, one is waited for OFTEN as long as the slowest of late took, LEAST
that many seconds; the last attempt is given all of the read timeout. Before that, after STALLED seconds at least, it
leaves its place to another request."""

SHOWN = 8000
"""Bytes of an error that are read."""

BEFORE = 5.0
"""Seconds for which an endpoint that was never reached is tried: it may just be starting."""

_log = logging.getLogger("germane")


@dataclass(slots=True)
class Spending:
    """What one call has used so far."""

    started: float = field(default_factory=monotonic)
    requests: int = 0
    waits: int = 0
    faults: int = 0
    reasked: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False

    def count(self, used: Used) -> None:
        """Add the tokens of a request, as far as they are known."""
        sent, back, cached = used
        self.input_tokens += sent or 0
        self.output_tokens += back or 0
        self.cached_tokens += cached


class Unanswered(Exception):
    """This call got no answer; the text says why. Other calls may fare better."""


class Rejected(Exception):
    """The endpoint will not take this request as it stands (400, 404, 422, ...)."""

    def __init__(self, status: int, text: str, *, too_long: bool = False) -> None:
        super().__init__(f"HTTP {status}: {text}")
        self.status, self.text, self.too_long = status, text, too_long


class _Throttled(Exception):
    """Asked to wait so many seconds (None = not said)."""

    def __init__(self, wait: float | None, said: str) -> None:
        super().__init__(said)
        self.wait = wait


class _GivenUp(Fault):
    """Not waited for as long as it might have been: no attempt, as often as there are attempts."""


class Endpoint:
    """Sends requests to one endpoint, pressing it no harder than it takes.

    Args:
        transport: The far end.
        level: How many requests may be in flight.
        patience: How long to wait, how often to try.
        rpm, tpm: Requests and tokens a minute at most.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        level: Level,
        patience: Patience,
        rpm: float | None = None,
        tpm: float | None = None,
    ) -> None:
        self.transport, self.level, self.patience = transport, level, patience
        self.circuit = Circuit()
        self._rpm = Rate(rpm) if rpm else None
        self._tpm = Rate(tpm) if tpm else None
        self._dead: str = ""
        self._alive = self._worked = False
        self._answers, self._slowest = 0, 0.0

    async def post(
        self, body: Callable[[], bytes], size: int, spending: Spending, deadline: Deadline
    ) -> dict[str, Json]:
        """The JSON object that the endpoint answers with. The body, of about that size, is asked for as it leaves.

        Raises:
            Rejected: it does not take the request.
            Unanswered: waiting or trying again came to an end, or would last beyond the deadline.
            JudgeError: it cannot be used at all.
        """
        waits = faults = early = 0
        while True:
            try:
                with deadline.held():
                    sent = await self._depart(size)
                return await self._once(body, spending, sent, last=faults + 1 >= self.patience.attempts)
            except CircuitOpen as held:
                raise self._gone(f"{held}; not asked any more") from None
            except _Throttled as throttled:
                waits += 1
                spending.waits += 1
                pause = self.patience.pause(waits) if throttled.wait is None else throttled.wait
                why = f"asked to wait ({throttled})"
            except Fault as fault:
                if isinstance(fault, _GivenUp) and early < self.patience.attempts:
                    early += 1
                else:
                    faults += not self.circuit.open  # in an outage the circuit's patience decides for all
                spending.faults += 1
                if faults >= self.patience.attempts:
                    raise self._gone(f"no answer in {faults} attempts: {fault}") from None
                pause, why = self.patience.pause(faults), str(fault)
            if pause > deadline.left:
                rest = f"a wait of {pause:.0f} s is more than is left of {deadline.seconds:.0f} s a call"
                raise Unanswered(f"{why}; {rest}")
            await asyncio.sleep(pause)

    def _gone(self, why: str) -> Exception:
        """JudgeError where the endpoint never once answered, else Unanswered."""
        if self._alive:
            return Unanswered(why)
        self._dead = f"{self.transport.url} does not answer: {why}"
        return JudgeError(self._dead)

    async def _depart(self, size: int) -> float:
        """Wait until this request may leave; returns when it did, with a place in flight taken."""
        flight = current()
        if flight is not None:
            flight.wait()
        while True:
            probe = self.circuit.open and await self.circuit.enter(None if self._alive else BEFORE)
            sent = await self._place(size, flight)
            if not self._dead and (probe or not self.circuit.open):
                return sent
            self.level.release()
            if self._dead:
                raise JudgeError(self._dead)

    async def _place(self, size: int, flight: Flight | None) -> float:
        """A place in flight, as soon as the rates allow one; a flight that turns back there gives all of it back."""
        wait = self._reserve(1, size / 4)
        try:
            if wait:
                await asyncio.sleep(wait)
            sent = await self.level.acquire()
            try:
                if flight is not None:
                    await flight.leave()
            except asyncio.CancelledError:
                self.level.release()
                raise
        except asyncio.CancelledError:
            self._reserve(-1, -size / 4)
            raise
        return sent

    def _reserve(self, requests: int, tokens: float) -> float:
        """Seconds to wait for what the rates allow; less than nothing gives back."""
        wait = self._rpm.reserve(requests) if self._rpm else 0.0
        return max(wait, self._tpm.reserve(tokens)) if self._tpm else wait

    async def _once(
        self, body: Callable[[], bytes], spending: Spending, sent: float, *, last: bool
    ) -> dict[str, Json]:
        try:
            content = body()
            spending.requests += 1
            status, headers, raw = await self._send(content, sent, last=last)
        except Fault as fault:
            self._faulty(str(fault))
            raise
        finally:
            self.level.release()
        more = ""
        if 200 <= status < 300:
            found = _json(raw)
            if (failure := failure_in(found)) is None:
                self._answered(sent)
                return found
            spending.count(used(found))
            status, raw, more = failure[0], json.dumps(failure[1]).encode(), ", sent as a success"
        told = self._without_secrets(said(raw, status, headers)) + more
        return self._failed(status, headers, told, raw[:SHOWN].decode("utf-8", "replace"), sent)

    async def _send(self, body: bytes, sent: float, *, last: bool) -> Response:
        """One request; who does not answer in time is overloaded or dead, and pressed less in either case."""
        lost = partial(self._usual, self.patience.read if last else LEAST)
        try:
            async with Lookout(self.level, late=partial(self._usual, STALLED), lost=lost) as lookout:
                return await self.transport.send(body)
        except TimeoutError:
            self.level.throttled(sent)
            kind = _GivenUp if lookout.seconds < self.patience.read else Fault
            raise kind(f"no answer within {lookout.seconds:.3g} s") from None

    def _faulty(self, why: str) -> None:
        if self.circuit.failed(why):
            seconds = self.circuit.patience if self._alive else BEFORE
            _log.warning("%s does not answer: %s; trying for %.0f s more", self.transport.url, why, seconds)

    def _without_secrets(self, text: str) -> str:
        """An error's text as it may be shown, even where a server repeats the key."""
        for secret in self.transport.secrets:
            text = text.replace(secret, "***")
        return text

    def _answered(self, sent: float) -> None:
        self._alive = self._worked = True
        self._answers += 1
        self._slowest = max(monotonic() - sent, FORGET * self._slowest)
        self.circuit.succeeded()
        self.level.answered(sent)

    def _failed(
        self, status: int, headers: Mapping[str, str], said: str, body: str, sent: float
    ) -> dict[str, Json]:
        poor = broke(said, body)
        if too_long(status, said):
            self._alive = True
            self.circuit.succeeded()
            raise Rejected(status, said, too_long=True)
        if status in {429, 503, 529} and not poor:
            self._alive = True
            self.circuit.succeeded()
            self.level.throttled(sent)
            raise _Throttled(retry_after(headers, body), f"HTTP {status}: {said}")
        if poor or useless(status, said, worked=self._worked):
            self.circuit.succeeded()
            self._dead = f"{self.transport.url} cannot be used: HTTP {status}: {said}"
            raise JudgeError(self._dead)
        if status >= 500 or status in {UNKNOWN, 408, 409, 425}:
            self._alive = self._alive or status != UNKNOWN
            fault = f"HTTP {status}: {said}"
            self._faulty(fault)
            raise Fault(fault)
        self.circuit.succeeded()
        self._alive = True
        raise Rejected(status, said)

    def _usual(self, least: float) -> float:
        """Seconds after which an answer is late, by how long answers take here."""
        if self._answers < ENOUGH:
            return self.patience.read
        return min(self.patience.read, max(least, OFTEN * self._slowest))

    def used(self, tokens: int, size: int) -> None:
        """What a request really used, against the estimate that was reserved for it."""
        if self._tpm:
            self._tpm.correct(tokens - size / 4)

    async def close(self) -> None:
        """Close connections; a later call opens new ones."""
        self._dead = ""
        await self.transport.close()


def _json(raw: bytes) -> dict[str, Json]:
    try:
        found = json.loads(raw)
    except ValueError:
        raise Fault("the body of the response is cut short or no JSON") from None
    if not isinstance(found, dict):
        raise Fault("the body of the response is no JSON object")
    return found
