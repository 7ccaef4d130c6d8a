"""The ledger of an evaluation that was begun with another one: what that holds is not asked again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from germane.judging.ledger import Ledger
from germane.types import Judgement

__all__ = ["MovedFrom"]


class MovedFrom:
    """A ledger to which another one's answers are brought as they are wanted.

    Args:
        ledger: Where answers are kept from now on.
        first: Where they were; it is only read.
        keep: Whether what is found there is kept here too; not where this ledger is only looked at.
    """

    def __init__(self, ledger: Ledger, first: Ledger, *, keep: bool = True) -> None:
        self._ledger, self._first, self._keep = ledger, first, keep

    @property
    def place(self) -> str:
        """Where answers are kept from now on."""
        return self._ledger.place

    def ready(self) -> None:
        """Whether answers can be kept."""
        self._ledger.ready()

    def get(self, keys: Sequence[str]) -> dict[str, Judgement]:
        """What is known here, else there."""
        found = self._ledger.get(keys)
        if len(found) < len(keys) and (there := self._first.get([key for key in keys if key not in found])):
            found.update(self._ledger.put(list(there.values())) if self._keep else there)
        return found

    def put(
        self, judgements: Sequence[Judgement], *, replacing: Mapping[str, Judgement] | None = None
    ) -> dict[str, Judgement]:
        """Store them here."""
        return self._ledger.put(judgements, replacing=replacing)

    def changed(self) -> bool:
        """Whether somebody else has written here."""
        return self._ledger.changed()

    def close(self) -> None:
        """Release both."""
        self._first.close()
        self._ledger.close()
