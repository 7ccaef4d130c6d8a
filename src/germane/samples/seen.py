"""Which identities have come before, and where: some 25 bytes each, a fifth of what a dict of integers takes."""

from __future__ import annotations

from array import array

__all__ = ["Seen"]

_FREE = 0


class Seen:
    """Where each key came first. Only the keys' hashes (64 bits) are kept, in an open table.

    A key's number is below 2**32.
    """

    def __init__(self) -> None:
        self._hashes, self._numbers = array("q", [_FREE]) * 64, array("I", [0]) * 64
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def first(self, key: object, number: int) -> int:
        """The number that this key was first given: this one, where it is new."""
        if 3 * self._count >= 2 * len(self._hashes):
            self._grow()
        hashed = hash(key) or 1
        place = self._place(hashed)
        if self._hashes[place] == _FREE:
            self._hashes[place], self._numbers[place] = hashed, number
            self._count += 1
        return self._numbers[place]

    def _place(self, hashed: int) -> int:
        hashes, mask = self._hashes, len(self._hashes) - 1
        place = hashed & mask
        while hashes[place] not in (_FREE, hashed):
            place = (place + 1) & mask
        return place

    def _grow(self) -> None:
        hashes, numbers = self._hashes, self._numbers
        size = 2 * len(hashes)
        self._hashes, self._numbers = array("q", [_FREE]) * size, array("I", [0]) * size
        for hashed, number in zip(hashes, numbers, strict=True):
            if hashed != _FREE:
                place = self._place(hashed)
                self._hashes[place], self._numbers[place] = hashed, number
