"""Write to a ledger from an event loop, through a thread that commits answers in groups."""

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
    """A thread that stores judgements, so that the event loop never waits for a disk or a lock.

    Judgements that arrive during a commit are committed together by the next one. An instance belongs to one
    event loop. In the thread, `before` is called before each commit (if it raises, `put` raises, but the rows
    are stored), and `after` after it, with the judgements now stored under the keys.
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
        """Store judgements, all or none, and return after the commit, which may include those of other calls.

        The result has the judgements now stored under all committed keys. Raises the ledger's error.
        """
        committed: asyncio.Future[Stands] = self._loop.create_future()
        self._batches.put((judgements, replacing, committed))
        return await committed

    def close(self) -> None:
        """Commit the judgements that are waiting, and end the thread."""
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
    """Return the result of a commit, or its error, to all callers of `put` that wait for it."""
    for _, _, committed in group:
        if committed.done():
            continue
        if failure is None:
            committed.set_result(stored)
        else:
            committed.set_exception(failure)
