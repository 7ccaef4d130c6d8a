"""When a request may leave for an endpoint: after its pause, with a place in flight, within the limits, held back by nothing.

Whoever waits here can be called back (see `flight`), and gives back what it had taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from time import monotonic

from germane.errors import JudgeError
from germane.judging.flight import Flight, current
from germane.judging.hold import Hold
from germane.judging.limits import Circuit, Level
from germane.judging.patience import Deadline
from germane.judging.rates import Limits, Share

__all__ = ["BYTES", "Departure", "Gate", "Recalled"]


BYTES = 4
"""Of a request, for each token that the model reads: more than most texts have."""


class Recalled(Exception):
    """This request must not leave any more, though others of its call have."""


@dataclass(slots=True)
class Departure:
    """A request that has left: when, and what it has taken of the limits."""

    at: float
    share: Share | None = None


class Gate:
    """The way out to one endpoint.

    Args:
        level: How many requests may be in flight.
        limits: What is shared with others; None = nothing.
        longest: Seconds that an endpoint may ask everybody to wait.
    """

    def __init__(self, level: Level, limits: Limits | None, *, longest: float) -> None:
        self.level, self.limits = level, limits
        self.circuit, self.hold = Circuit(), Hold(longest)
        self.closed = ""
        """Why nobody leaves any more."""

        self._answers, self._output = 0, 0.0

    async def depart(
        self, tokens: Callable[[], float], deadline: Deadline, *, pause: float = 0.0, refused: bool = False
    ) -> Departure:
        """Wait until a request of about so many tokens may leave, and a `pause` at first; it is in flight on return.

        The clock of its call stands still meanwhile, but for what the endpoint asked this call to wait.

        Raises:
            Recalled: another request of its call has left, and this one must not.
            CircuitOpen: the endpoint does not answer.
            JudgeError: the gate is closed.
        """
        flight = current()
        try:
            if flight is not None and not flight.wait():
                raise Recalled
            if pause:
                await asyncio.sleep(pause)
            while True:
                heeds = True
                if self.hold.stands:
                    with nullcontext() if refused else deadline.held():
                        heeds = not await self.hold.over()
                with deadline.held():
                    probes = self.circuit.open and await self.circuit.enter()
                    departure = await self._leave(tokens, flight, heeds=heeds, probes=probes)
                if departure is not None:
                    return departure
        except asyncio.CancelledError:
            if flight is not None and flight.recalled():
                raise Recalled from None
            raise

    async def _leave(
        self, tokens: Callable[[], float], flight: Flight | None, *, heeds: bool, probes: bool
    ) -> Departure | None:
        """Take all that a request needs; None, and all of it is given back, where it may not leave after all."""
        await self.level.acquire()
        share, left = None, False
        try:
            if self.limits is not None:
                share = await self.limits.take(tokens)
            if self.closed:
                raise JudgeError(self.closed)
            if (heeds and self.hold.stands) or (self.circuit.open and not probes):
                return None
            if flight is not None:
                await flight.leave()
            left = True
            return Departure(monotonic(), share)
        finally:
            if not left:
                self.level.release()
                if self.limits is not None and share is not None:
                    self.limits.give_back(share)

    def landed(self, departure: Departure) -> None:
        """A request is not in flight any more."""
        self.level.release()
        if self.limits is not None and departure.share is not None:
            self.limits.land()

    def expected(self, size: int, typical: Callable[[], int]) -> float:
        """Tokens of a request of that many bytes and its answer: as long as answers here are, before that as is `typical`."""
        return size / BYTES + (self._output / self._answers if self._answers else typical())

    def used(self, departure: Departure, sent: int, back: int) -> None:
        """What a request and its answer really were, in tokens."""
        self._answers += 1
        self._output += back
        if self.limits is not None and departure.share is not None:
            self.limits.used(departure.share, sent + back)
