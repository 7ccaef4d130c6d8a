"""A set of 64-bit numbers in two arrays: what tells millions of rows apart without an object for each."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

__all__ = ["NumberSet"]


class NumberSet:
    """Signed 64-bit numbers, such as hashes, in the order in which they were added: some 16 bytes each.

    A `set` of ints takes 60 to 100. Open addressing with linear probing; at most two thirds of the places are taken.
    """

    __slots__ = ("_numbers", "_places")

    def __init__(self) -> None:
        self._numbers, self._places = array("q"), array("i", bytes(4 << 10))

    def add(self, number: int) -> bool:
        """Add a number; returns whether it was new."""
        numbers, positions = self._numbers, self._places
        mask = len(positions) - 1
        at = number & mask
        while entry := positions[at]:
            if numbers[entry - 1] == number:
                return False
            at = (at + 1) & mask
        numbers.append(number)
        positions[at] = len(numbers)
        if 3 * len(numbers) > 2 * mask:
            self._grow()
        return True

    def add_all(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Add numbers in their order; returns which of them were new."""
        new = np.zeros(len(numbers), dtype=np.bool_)
        new[np.unique(numbers, return_index=True)[1]] = True
        new[new] = self._find(numbers[new]) < 0
        start = len(self)
        self._numbers.frombytes(numbers[new].tobytes())
        if not self._grow():
            self._place(start)
        return new

    def _find(self, wanted: NDArray[np.int64]) -> NDArray[np.int32]:
        """One more than the index of each of these numbers, -1 where it is not in the set."""
        numbers = np.frombuffer(self._numbers, dtype=np.int64)
        positions = np.frombuffer(self._places, dtype=np.int32)
        result = np.full(len(wanted), -1, dtype=np.int32)
        left, at = np.arange(len(wanted)), wanted & (len(positions) - 1)
        while len(left):
            taken = positions[at]
            left, at, taken = left[taken > 0], at[taken > 0], taken[taken > 0]
            same = numbers[taken - 1] == wanted[left]
            result[left[same]] = taken[same]
            left, at = left[~same], (at[~same] + 1) & (len(positions) - 1)
        return result

    def _grow(self) -> bool:
        """Make the places twice as many until enough are free; returns whether that was necessary."""
        size = len(self._places)
        while 3 * len(self._numbers) > 2 * (size - 1):
            size *= 2
        if size == len(self._places):
            return False
        self._places = array("i", bytes(4 * size))
        self._place(0)
        return True

    def _place(self, start: int) -> None:
        """Give the numbers from this index on a place each: the first free one from where it belongs."""
        positions = np.frombuffer(self._places, dtype=np.int32)
        left = np.arange(start + 1, len(self) + 1, dtype=np.int32)
        at = np.frombuffer(self._numbers, dtype=np.int64)[start:] & (len(positions) - 1)
        while len(left):
            free = positions[at] == 0
            positions[at[free]] = left[free]  # of several that belong here the last has it, the others go on
            out = positions[at] != left
            left, at = left[out], (at[out] + 1) & (len(positions) - 1)

    def index(self, number: int) -> int:
        """The number of entries that were added before this one; -1 where it is not in the set."""
        positions = self._places
        mask = len(positions) - 1
        at = number & mask
        while entry := positions[at]:
            if self._numbers[entry - 1] == number:
                return entry - 1
            at = (at + 1) & mask
        return -1

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self.index(number) >= 0

    def __len__(self) -> int:
        return len(self._numbers)
