"""Looks after one request: late, it leaves its place to another; lost, it is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Self

from germane.judging.limits import Level

__all__ = ["Lookout"]

SOON = 5.0
"""Seconds after which it is looked at again: what counts as lost is learned from others meanwhile."""


class Lookout:
    """TimeoutError where a request is lost. Use as an async context manager around it.

    Args:
        level: Told when the request is late, and when it is over after all.
        late, lost: After how many seconds it is, as far as is known now.
    """

    def __init__(self, level: Level, *, late: Callable[[], float], lost: Callable[[], float]) -> None:
        self._level, self._late, self._lost = level, late, lost
        self._began, self._stalled = monotonic(), False
        self._timeout = asyncio.timeout(None)
        self._look_in(min(late(), lost()))

    @property
    def seconds(self) -> float:
        """How long it has been waited for."""
        return monotonic() - self._began

    def _look_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(min(seconds, SOON), self._look)

    def _look(self) -> None:
        if not self._stalled and self.seconds >= self._late():
            self._stalled = True
            self._level.stall()
        if (left := self._lost() - self.seconds) <= 0:
            self._timeout.reschedule(0)
        else:
            self._look_in(left)

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._stalled:
            self._level.stall(-1)
        await self._timeout.__aexit__(kind, error, trace)
