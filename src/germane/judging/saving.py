"""Answers on their way into the ledger: in groups that close at 100 rows, after 100 ms, or when nothing else comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from germane.judging.archive import Archive
from germane.judging.waiting import Asked
from germane.questions.asking import Answer, answered

__all__ = ["Saving"]

_ROWS, _SECONDS = 100, 0.1


class Saving:
    """Keeps answers, and hands them out when they are durable.

    Args:
        archive: The ledger.
        spawn: Starts a task that is waited for; what it raises stops everything.
        settle: Called with each answer that stands now.
        fail: Called where the ledger took nothing.
        saved: Called after each group.
    """

    def __init__(
        self,
        archive: Archive,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        settle: Callable[[Asked, Answer], None],
        fail: Callable[[list[Asked], BaseException], None],
        saved: Callable[[], None],
    ) -> None:
        self._archive, self._spawn, self._settle, self._fail = archive, spawn, settle, fail
        self._saved = saved
        self._rows: list[tuple[Asked, Answer]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._began = False

    def __contains__(self, asked: Asked) -> bool:
        return any(one.key == asked.key for one, _ in self._rows)

    def add(self, asked: Asked, answer: Answer) -> None:
        """This answer is to be kept."""
        self._rows.append((asked, answer))

    def soon(self, *, more: bool) -> None:
        """Close the group if it is time; `more` says whether anything is in flight."""
        if len(self._rows) >= _ROWS or not more:
            self.now()
        elif self._rows and self._timer is None:
            # the first at once: whoever else is asking the same learns of it
            self._timer = asyncio.get_running_loop().call_later(_SECONDS if self._began else 0, self.now)

    def now(self) -> None:
        """Close the group."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rows, self._rows = self._rows, []
        if rows:
            self._began = True
            self._spawn(self._commit(rows))

    async def _commit(self, rows: list[tuple[Asked, Answer]]) -> None:
        try:
            stands = await self._archive.keep([answer.judgement for _, answer in rows])
        except BaseException as error:
            self._fail([asked for asked, _ in rows], error)
            raise
        for asked, answer in rows:
            first = stands[asked.key]
            self._settle(asked, answer if first is answer.judgement else answered(asked.question, first))
        self._saved()
