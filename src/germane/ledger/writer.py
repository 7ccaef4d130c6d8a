"""Write to a ledger from an event loop, by a thread that commits in groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import TypeAlias

from germane.ledger.store import Ledger
from germane.types import Judgement

Stands: TypeAlias = dict[str, Judgement]
_Batch: TypeAlias = tuple[Sequence[Judgement], Sequence[Judgement], asyncio.Future[Stands]]


class GroupCommit:
    """Stores judgements on a separate thread, so that the event loop never waits for a disk or a lock.

    What arrives during a commit is committed together by the next one. Made and used in one event loop.

    Args:
        ledger: The ledger; None stores nothing.
        before: Called in the thread before each commit. What it raises fails the commit, though the rows are stored.
        after: Called likewise with what stands in the ledger after each commit.
    """

    def __init__(
        self,
        ledger: Ledger | None,
        before: Callable[[], object] = lambda: None,
        after: Callable[[Iterable[Judgement]], object] = lambda _: None,
    ) -> None:
        self._ledger, self._before, self._after = ledger, before, after
        self._loop = asyncio.get_running_loop()
        self._batches = SimpleQueue[_Batch | None]()
        self._thread = Thread(target=self._write, name="germane-ledger", daemon=True)
        self._thread.start()

    async def put(self, judgements: Sequence[Judgement], *, replacing: Sequence[Judgement] = ()) -> Stands:
        """Store these judgements, all or none, with whatever else is waiting; returns after the commit.

        What stands under their keys and perhaps others. Raises what the ledger's own `put` raised for the whole group.
        """
        committed: asyncio.Future[Stands] = self._loop.create_future()
        self._batches.put((judgements, replacing, committed))
        return await committed

    def close(self) -> None:
        """Commit what is waiting, and end the thread."""
        self._batches.put(None)
        self._thread.join()

    def _write(self) -> None:
        closed = False
        while not closed:
            taken = [self._batches.get()]
            while not self._batches.empty():
                taken.append(self._batches.get())
            group = [batch for batch in taken if batch is not None]
            closed = len(group) < len(taken)
            if not group:
                continue
            stored, failure = Stands(), None
            rows = [row for judgements, _, _ in group for row in judgements]
            try:
                try:
                    self._before()
                finally:
                    if rows and self._ledger is not None:
                        stored = self._ledger.put(rows, replacing=[row for _, old, _ in group for row in old])
                if stored:
                    self._after(stored.values())
            except BaseException as error:  # noqa: BLE001 - whoever waits for the commit gets it
                failure = error
            self._loop.call_soon_threadsafe(_settle, group, stored, failure)


def _settle(group: Sequence[_Batch], stored: Stands, failure: BaseException | None) -> None:
    """Settle the waiting futures."""
    for _, _, committed in group:
        if committed.done():
            continue
        if failure is None:
            committed.set_result(stored)
        else:
            committed.set_exception(failure)
