"""A set of 64-bit numbers in arrays: what tells millions of rows apart without an object for each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np

_RECENT = 1 << 15
"""Numbers that are held in a dict; then they join the sorted ones."""


class NumberSet:
    """Signed 64-bit numbers, such as hashes, in the order in which they were added: some 12 bytes each.

    A `set` of ints takes 60 to 100. The numbers are sorted, but for the newest, which are merged with them from time to time.
    """

    __slots__ = ("_order", "_recent", "_sorted")

    def __init__(self) -> None:
        self._recent: dict[int, int] = {}
        self._sorted, self._order = np.empty(0, np.int64), np.empty(0, np.int32)

    def add(self, number: int) -> bool:
        """Add a number; returns whether it was new."""
        if number in self:
            return False
        self._recent[number] = len(self)
        self._merge()
        return True

    def add_all(self, numbers: Sequence[int]) -> list[bool]:
        """Add numbers in their order; returns which of them were new."""
        distinct = set(numbers)
        if (
            len(distinct) < len(numbers)
            or not self._recent.keys().isdisjoint(distinct)
            or self._any_sorted(numbers)
        ):
            return list(map(self.add, numbers))
        self._recent.update(zip(numbers, count(len(self)), strict=False))
        self._merge()
        return [True] * len(numbers)

    def _any_sorted(self, numbers: Sequence[int]) -> bool:
        if not len(self._sorted):
            return False
        ordered = np.sort(np.array(numbers, dtype=np.int64))  # neighbours are found side by side
        at = self._sorted.searchsorted(ordered)
        return bool((self._sorted.take(at, mode="clip") == ordered).any())

    def _merge(self) -> None:
        """Sort in the newest numbers where there are enough of them."""
        if len(self._recent) < _RECENT:
            return
        numbers = np.concatenate([self._sorted, np.fromiter(self._recent, np.int64)])
        order = np.concatenate([self._order, np.arange(len(self._order), len(self), dtype=np.int32)])
        by = numbers.argsort(kind="stable")
        self._sorted, self._order, self._recent = numbers[by], order[by], {}

    def index(self, number: int) -> int:
        """The number of entries that were added before this one; -1 where it is not in the set."""
        if (at := self._recent.get(number, -1)) >= 0 or not len(self._sorted):
            return at
        slot = self._sorted.searchsorted(number)
        return int(self._order[slot]) if slot < len(self._sorted) and self._sorted[slot] == number else -1

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self.index(number) >= 0

    def __len__(self) -> int:
        return len(self._sorted) + len(self._recent)
