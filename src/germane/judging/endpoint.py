"""One endpoint over HTTP: sends a body until there is an answer, within the budgets of failure, and says what answers mean.

Three budgets. Asked to wait (429, 503): waits as told (see `hold`), else backs off with jitter, and spends no attempt,
until the call's deadline. Transport faults (5xx, timeout, reset, a body cut short): `attempts` tries, and in an
outage as long as the circuit has patience. When a request may leave is the gate's business.
Unusable answers are the caller's to count. What makes the endpoint useless (no such key, no such model, no
money) is a JudgeError, raised to everybody from then on.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from time import monotonic

from germane.errors import JudgeError, LimitReached
from germane.judging.attempts import Rejected, Spending, Unanswered
from germane.judging.completions import used
from germane.judging.delays import retry_after
from germane.judging.failures import UNKNOWN, failure_in, said
from germane.judging.gate import Departure, Gate, Recalled
from germane.judging.hold import HEEDED
from germane.judging.limits import CircuitOpen
from germane.judging.lookout import Lookout
from germane.judging.patience import Deadline, Patience
from germane.judging.statuses import broke, too_long, useless
from germane.judging.transport import Fault, Response, Transport
from germane.types import Json

__all__ = ["Endpoint"]

ENOUGH, OFTEN, LEAST, LAST, FORGET, STALLED = 20, 6.0, 15.0, 60.0, 0.98, 2.0
"""A hang is noticed early: after ENOUGH answers, one is waited for OFTEN as long as the slowest of late took, LEAST
that many seconds, LAST in the last attempt. Before that, after STALLED seconds at least, it
leaves its place to another request."""

SHOWN = 8000
"""Bytes of an error that are read."""

TOLD = 0.05
"""Seconds: who says less says nothing that keeps anybody from asking at once."""

YEARS = 3e8
"""Seconds: nobody cares for a later date."""

_log = logging.getLogger("germane")


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
        gate: When a request may leave for it.
        patience: How long to wait, how often to try.
    """

    def __init__(self, transport: Transport, gate: Gate, patience: Patience) -> None:
        self.transport, self.gate, self.patience = transport, gate, patience
        self._worked = False
        self._answers, self._slowest = 0, 0.0

    async def post(
        self,
        body: Callable[[], bytes],
        size: int,
        typical: Callable[[], int],
        spending: Spending,
        deadline: Deadline,
    ) -> dict[str, Json]:
        """The JSON object that the endpoint answers with.

        Args:
            body: Asked for as the request leaves.
            size: About how many bytes that will be.
            typical: How many tokens the answer may have.
            spending: What the call has used; counted on.
            deadline: When the call ends.

        Raises:
            Rejected: it does not take the request.
            Unanswered: waiting or trying again came to an end, or would last beyond the deadline.
            LimitReached: it asks everybody to wait longer than any call does.
            JudgeError: it cannot be used at all.
        """
        pause, tokens = 0.0, partial(self.gate.expected, size, typical)
        while True:
            try:
                refused = spending.waits > 0
                departure = await self.gate.depart(tokens, deadline, pause=pause, refused=refused)
                spending.departure = departure
                return await self._once(body, spending, departure)
            except Recalled:
                raise Unanswered("interrupted before it was asked again") from None
            except CircuitOpen as held:
                raise self._gone(f"{held}; not asked any more") from None
            except _Throttled as throttled:
                spending.waits += 1
                pause, why = self._pause(throttled.wait, spending), f"asked to wait ({throttled})"
            except Fault as fault:
                self._count(fault, spending)
                pause, why = self.patience.pause(spending.lost), str(fault)
            if pause > deadline.left:
                rest = f"a wait of {pause:.0f} s is more than is left of {deadline.seconds:.0f} s a call"
                raise Unanswered(f"{why}; {rest}")

    def _pause(self, told: float | None, spending: Spending) -> float:
        """How long a call waits that was asked to. What is longer than the hold heeds is waited there, if it is meant."""
        backoff = self.patience.pause(spending.waits)
        if told is None or told > HEEDED:
            return backoff
        told += random.uniform(0, min(1.0, told / 10))  # noqa: S311 - no secret
        return max(told, backoff) if spending.waits > 1 or told < TOLD else told

    def _count(self, fault: Fault, spending: Spending) -> None:
        """One more fault; Unanswered where there is no further attempt."""
        circuit = self.gate.circuit
        spending.faults += 1
        if isinstance(fault, _GivenUp) and spending.early < self.patience.attempts:
            spending.early += 1
        else:
            spending.lost += not circuit.open  # in an outage the circuit's patience decides for all
        if spending.lost >= self.patience.attempts:
            raise self._gone(f"no answer in {spending.lost} attempts: {fault}") from None
        if circuit.exhausted:
            raise self._gone(f"{circuit.why}; not asked any more") from None

    def _gone(self, why: str) -> Exception:
        """JudgeError where the endpoint never once answered, else Unanswered."""
        if self.gate.circuit.alive:
            return Unanswered(why)
        self.gate.closed = f"{self.transport.url} does not answer: {why}"
        return JudgeError(self.gate.closed)

    async def _once(
        self, body: Callable[[], bytes], spending: Spending, departure: Departure
    ) -> dict[str, Json]:
        sent, more = departure.at, ""
        try:
            content = body()
            spending.requests += 1
            last = spending.lost + 1 >= self.patience.attempts
            status, headers, raw = await self._send(content, sent, last=last)
            found = _json(raw) if 200 <= status < 300 else None
        except Fault as fault:
            self._faulty(str(fault))
            raise
        finally:
            self.gate.landed(departure)
        if found is not None:
            if (failure := failure_in(found)) is None:
                self._answered(sent)
                return found
            spending.count(used(found))
            status, raw, more = failure[0], json.dumps(failure[1]).encode(), ", sent as a success"
        told = self._without_secrets(said(raw, status, headers)) + more
        return self._failed(status, headers, told, raw[:SHOWN].decode("utf-8", "replace"), sent)

    async def _send(self, body: bytes, sent: float, *, last: bool) -> Response:
        """One request; who does not answer in time is overloaded or dead, and pressed less in either case."""
        lost = partial(self._lost, last=last)
        try:
            async with Lookout(self.gate.level, late=partial(self._usual, STALLED), lost=lost) as lookout:
                return await self.transport.send(body)
        except TimeoutError:
            self.gate.level.throttled(sent)
            kind = _GivenUp if lookout.seconds < self.patience.read else Fault
            raise kind(f"no answer within {lookout.seconds:.3g} s") from None

    def _faulty(self, why: str) -> None:
        circuit = self.gate.circuit
        if circuit.failed(why):
            _log.warning(
                "%s does not answer: %s; trying for %.0f s more", self.transport.url, why, circuit.patience
            )

    def _without_secrets(self, text: str) -> str:
        """An error's text as it may be shown, even where a server repeats the key."""
        for secret in self.transport.secrets:
            text = text.replace(secret, "***")
        return text

    def _answered(self, sent: float) -> None:
        self._worked = True
        self._answers += 1
        self._slowest = max(monotonic() - sent, FORGET * self._slowest)
        gate = self.gate
        gate.circuit.succeeded()
        gate.hold.answered(sent)
        gate.level.answered(sent)

    def _failed(
        self, status: int, headers: Mapping[str, str], said: str, body: str, sent: float
    ) -> dict[str, Json]:
        gate, poor = self.gate, broke(said, body)
        if too_long(status, said):
            gate.circuit.succeeded()
            raise Rejected(status, said, too_long=True)
        if status in {429, 503, 529} and not poor:
            raise self._throttled(retry_after(headers, body), f"HTTP {status}: {said}", sent)
        if poor or useless(status, said, worked=self._worked):
            gate.circuit.succeeded()
            gate.closed = f"{self.transport.url} cannot be used: HTTP {status}: {said}"
            raise JudgeError(gate.closed)
        if status >= 500 or status in {UNKNOWN, 408, 409, 425}:
            gate.circuit.alive = gate.circuit.alive or status != UNKNOWN
            fault = f"HTTP {status}: {said}"
            self._faulty(fault)
            raise Fault(fault)
        gate.circuit.succeeded()
        raise Rejected(status, said)

    def _throttled(self, wait: float | None, said: str, sent: float) -> Exception:
        """Less is in flight from now on, and where it said how long to wait, nothing leaves until then."""
        self.gate.circuit.succeeded()
        self.gate.level.throttled(sent)
        if wait is not None and self.gate.hold.refused(sent, wait):
            return LimitReached(f"{self.transport.url} asks to wait until {_clock(wait)} ({said})")
        return _Throttled(wait, said)

    def _lost(self, *, last: bool) -> float:
        """Seconds after which a request is given up: the last attempt has the longest, but not as a probe in an outage."""
        return self._usual(LAST if last and not self.gate.circuit.open else LEAST)

    def _usual(self, least: float) -> float:
        """Seconds after which an answer is late, by how long answers take here."""
        if self._answers < ENOUGH:
            return self.patience.read
        return min(self.patience.read, max(least, OFTEN * self._slowest))

    def used(self, spending: Spending, sent: int, back: int) -> None:
        """How many tokens the last request of a call and its answer really were."""
        if spending.departure is not None:
            self.gate.used(spending.departure, sent, back)

    async def close(self) -> None:
        """Close connections; a later call opens new ones."""
        self.gate.closed = ""
        await self.transport.close()


def _clock(wait: float) -> str:
    """The time then, with its date where that is not today's."""
    now = datetime.now().astimezone()
    then = now + timedelta(seconds=min(wait, YEARS))
    return f"{then:%H:%M}" if then.date() == now.date() else f"{then:%Y-%m-%d %H:%M}"


def _json(raw: bytes) -> dict[str, Json]:
    try:
        found = json.loads(raw)
    except ValueError:
        raise Fault("the body of the response is cut short or no JSON") from None
    if not isinstance(found, dict):
        raise Fault("the body of the response is no JSON object")
    return found
