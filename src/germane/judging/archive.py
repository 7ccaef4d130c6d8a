"""The ledger behind a thread of its own: looked up and written to without holding up the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from germane.judging.alone import ListedToo
from germane.judging.ledger import Ledger
from germane.questions.asking import Answer
from germane.types import Judgement

__all__ = ["Archive"]

T = TypeVar("T")


class Archive:
    """What the pool sees of its ledger.

    Args:
        ledger: Where answers are kept; None keeps none.
        on_unsaved: Gets those that the ledger did not take, as they would lie there, before the error is raised.
    """

    def __init__(
        self, ledger: Ledger | None, on_unsaved: Callable[[Sequence[Judgement]], None] = lambda _: None
    ) -> None:
        self.ledger = None if ledger is None else ListedToo(ledger)
        self._on_unsaved = on_unsaved
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="germane-ledger")
        self._useless: dict[str, Judgement] = {}
        self.shared = False
        """Whether somebody else has written to the ledger while this pool used it."""

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def find(self, keys: Iterable[str]) -> dict[str, Judgement]:
        """What is known under these keys."""
        ledger, wanted = self.ledger, list(keys)
        if ledger is None or not wanted:
            return {}
        return await self._looking(lambda: ledger.get(wanted))

    async def _looking(self, work: Callable[[], T]) -> T:
        """Work on the ledger, and a look at whether somebody else writes to it."""
        ledger = self.ledger
        assert ledger is not None
        found, changed = await self._in_thread(lambda: (work(), ledger.changed()))
        self.shared = self.shared or changed
        return found

    def refuse(self, answer: Answer) -> None:
        """A stored answer that cannot be used: the next one to its question takes its place."""
        self._useless[answer.judgement.key] = answer.judgement

    async def keep(self, judgements: Sequence[Judgement]) -> dict[str, Judgement]:
        """Commit them; what now stands under each key."""
        ledger = self.ledger
        assert ledger is not None
        useless = {one.key: self._useless.pop(one.key) for one in judgements if one.key in self._useless}
        try:
            return await self._looking(lambda: ledger.put(judgements, replacing=useless))
        except Exception:
            self._on_unsaved(ledger.rows(judgements))
            raise

    def ready(self) -> None:
        """LedgerError where nothing can be kept just now. Waited for: nothing may be asked before."""
        if self.ledger is not None:
            # in the thread of all commits: one from elsewhere would seem to be somebody else's
            self._thread.submit(self.ledger.ready).result()

    def close(self) -> None:
        """Wait for what is being written."""
        self._thread.shutdown()
