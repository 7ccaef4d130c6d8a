"""Lines of a file that are found by name, of which only the places are held in memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


class LineIndex:
    """The offsets of lines in a file by the name of each: 24 bytes per line. All 16 bytes of a name are compared."""

    def __init__(self) -> None:
        self._names, self._offsets = bytearray(), array("q")

    def add(self, name: bytes, offset: int) -> None:
        """Add a line, before the index is first searched."""
        self._names += name
        self._offsets.append(offset)

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
        """The two halves of each name and its offset, by name, then in the order in which they were added."""
        first, second = _halves(self._names)
        order = np.lexsort((second, first))
        offsets = np.array(self._offsets, dtype=np.int64)[order]
        self._names = bytearray()
        return first[order], second[order], offsets

    def find(self, names: Iterable[bytes], *, newest: bool = False) -> list[int]:
        """Return the offset of the first line of each of these names, or of the last one; -1 where there is none."""
        first, second, offsets = self._sorted
        wanted, rest = _halves(b"".join(names))
        if not len(offsets):
            return [-1] * len(wanted)
        step = -1 if newest else 1
        at = np.searchsorted(first, wanted, side="right" if newest else "left") - newest
        while True:  # another name with the same first half stands before or after it
            near = at.clip(0, len(offsets) - 1)
            equal = (first[near] == wanted) & (at == near)
            passed = equal & (second[near] > rest if newest else second[near] < rest)
            if not passed.any():
                break
            at = at + step * passed
        result: list[int] = np.where(equal & (second[near] == rest), offsets[near], -1).tolist()
        return result

    def every(self, name: bytes) -> list[int]:
        """Return the offsets of all lines of a name."""
        first, second, offsets = self._sorted
        wanted, rest = _halves(name)
        start = np.searchsorted(first, wanted[0], side="left")
        end = np.searchsorted(first, wanted[0], side="right")
        result: list[int] = offsets[start:end][second[start:end] == rest[0]].tolist()
        return result


def _halves(names: bytes | bytearray) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    both = np.frombuffer(bytes(names), dtype=">u8").astype(np.uint64).reshape(-1, 2)
    return both[:, 0].copy(), both[:, 1].copy()


def lines_at(path: Path, offsets: Iterable[int]) -> Iterator[bytes]:
    """Iterate over the lines that begin at these offsets of a file."""
    with path.open("rb") as file:
        for offset in offsets:
            file.seek(offset)
            yield file.readline()
