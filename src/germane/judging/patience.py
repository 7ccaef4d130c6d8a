"""How long one call may take, and how often it may fail."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from time import monotonic
from types import TracebackType
from typing import Self

from germane.errors import InputError

__all__ = ["Deadline", "Patience"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait, in seconds, and how often to try.

    Attributes:
        connect: For a connection.
        read: For one whole answer.
        deadline: For a call with all its attempts and waits.
        attempts: How often a call may fail on the way (a timeout, a reset, a 500), from 1.
        backoff: After the first failure a call waits up to twice this, after each further one up to twice as long.
        longest: But never longer than this.

    Raises:
        InputError: A time is not more than 0, or `attempts` no whole number from 1.
    """

    connect: float = 10.0
    read: float = 120.0
    deadline: float = 600.0
    attempts: int = 3
    backoff: float = 0.5
    longest: float = 60.0

    def __post_init__(self) -> None:
        """A judge that never waits, or never tries, would fail every question."""
        if type(self.attempts) is not int or self.attempts < 1:
            raise InputError(
                f"Patience(attempts={self.attempts!r}) is not possible", fix="write a whole number from 1"
            )
        for name in ("connect", "read", "deadline", "backoff", "longest"):
            seconds = getattr(self, name)
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < inf:
                raise InputError(
                    f"Patience({name}={seconds!r}) is not possible", fix="write seconds: a number more than 0"
                )

    def pause(self, tries: int) -> float:
        """Exponential back-off with full jitter, for the n-th failure from 1."""
        return random.uniform(0, min(self.longest, self.backoff * 2.0**tries))  # noqa: S311


class Deadline:
    """The end of one call: TimeoutError where it is passed. Use as an async context manager.

    The time in which a call waits for its turn (our own limits, a place in flight) does not count: `held`.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = monotonic() + seconds
        self._timeout = asyncio.timeout(None)

    @property
    def left(self) -> float:
        """Seconds until then."""
        return self._at - monotonic()

    async def __aenter__(self) -> Self:
        self._at = monotonic() + self.seconds
        await self._timeout.__aenter__()
        self._set()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._timeout.__aexit__(kind, error, trace)

    def _set(self) -> None:
        if not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self.left)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Stop the clock."""
        since = monotonic()
        self._timeout.reschedule(None)
        try:
            yield
        finally:
            self._at += monotonic() - since
            self._set()
