"""Lines of a file that are found by name, of which only the places are held in memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NAME = np.dtype("S16")
"""The bytes of a short name: all of them are compared, as every name is as long."""


class LineIndex:
    """The offsets of lines in a file by the short name of each: 24 bytes per line."""

    def __init__(self) -> None:
        self._names, self._offsets = bytearray(), array("q")

    def add(self, name: bytes, offset: int) -> None:
        """Add a line, before the index is first searched."""
        self._names += name
        self._offsets.append(offset)

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.bytes_], NDArray[np.int64]]:
        """The names in ascending order, lines of one name as they were added, and the offset of each."""
        names = np.frombuffer(bytes(self._names), _NAME)
        order = np.argsort(names, kind="stable")
        self._names = bytearray()
        return names[order], np.array(self._offsets, dtype=np.int64)[order]

    def find(self, names: Iterable[bytes]) -> list[int]:
        """Return the offset of the first line of each of these names; -1 where there is none."""
        (known, offsets), wanted = self._sorted, np.frombuffer(b"".join(names), _NAME)
        if not len(known):
            return [-1] * len(wanted)
        at: NDArray[Any] = np.searchsorted(known, wanted).clip(0, len(known) - 1)
        result: list[int] = np.where(known[at] == wanted, offsets[at], -1).tolist()
        return result


def lines_at(path: Path, offsets: Iterable[int]) -> Iterator[bytes]:
    """Iterate over the lines that begin at these offsets of a file."""
    with path.open("rb") as file:
        for offset in offsets:
            file.seek(offset)
            yield file.readline()
