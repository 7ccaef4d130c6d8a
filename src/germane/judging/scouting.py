"""One call finds out what an endpoint takes while the others wait for it, instead of all being rejected alike.

Nobody waits before a first rejection: an endpoint that takes everything is not slowed down.
"""

from __future__ import annotations

import asyncio

__all__ = ["Scouting", "Superseded"]


class Superseded(Exception):
    """This request must not leave as it stands: what the endpoint takes is just being found out."""


class Scouting:
    """Who is finding out, if anybody; there is one try."""

    def __init__(self) -> None:
        self._scout: object = None
        self._over: asyncio.Event | None = None

    def waits(self, call: object) -> bool:
        """Whether another call is finding out."""
        return self._scout is not None and self._scout is not call

    async def turn(self) -> None:
        """Wait until it is found out."""
        if self._over is not None:
            await self._over.wait()

    def start(self, call: object) -> None:
        """The first call that is rejected finds out."""
        if self._over is None:
            self._scout, self._over = call, asyncio.Event()

    def done(self) -> None:
        """What the endpoint takes is known without anybody finding out."""
        self._over = self._over or asyncio.Event()

    def end(self, call: object) -> None:
        """Found out, or given up: either way nobody waits any more."""
        if self._over is not None and self._scout is call:
            self._scout = None
            self._over.set()
