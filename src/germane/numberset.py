"""A set of 64-bit numbers in two arrays: what tells millions of rows apart without an object for each."""

from __future__ import annotations

from array import array

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
        numbers, places = self._numbers, self._places
        mask = len(places) - 1
        at = number & mask
        while found := places[at]:
            if numbers[found - 1] == number:
                return False
            at = (at + 1) & mask
        numbers.append(number)
        places[at] = len(numbers)
        if 3 * len(numbers) > 2 * mask:
            self._grow()
        return True

    def _grow(self) -> None:
        places = array("i", bytes(8 * len(self._places)))
        mask = len(places) - 1
        for index, number in enumerate(self._numbers, 1):
            at = number & mask
            while places[at]:
                at = (at + 1) & mask
            places[at] = index
        self._places = places

    def index(self, number: int) -> int:
        """How many numbers were added before this one; -1 where it is not in the set."""
        places = self._places
        mask = len(places) - 1
        at = number & mask
        while found := places[at]:
            if self._numbers[found - 1] == number:
                return found - 1
            at = (at + 1) & mask
        return -1

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self.index(number) >= 0

    def __len__(self) -> int:
        return len(self._numbers)
