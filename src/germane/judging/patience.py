"""How long one call may take, and how often it may fail."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Self

__all__ = ["Deadline", "Patience"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait (seconds) and how often to try.

    `connect` for a connection, `read` for one whole answer, `deadline` for a call with all its attempts and waits.
    """

    connect: float = 10.0
    read: float = 120.0
    deadline: float = 600.0
    attempts: int = 3
    backoff: float = 0.5
    longest: float = 60.0

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
