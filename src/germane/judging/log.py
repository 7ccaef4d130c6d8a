"""SQLite's write-ahead log: its frames, and whether any that was committed is damaged.

SQLite reads the log up to the first frame whose checksum is wrong and drops the rest as what a crash cut off, without
a word. Yet where a sound frame that ends a transaction follows later, no crash did that: a committed answer is lost.
See the chapter on the WAL format in SQLite's documentation.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Frame", "beside", "damage_in_log", "files_of", "frames"]

HEADER, FRAME_HEADER = 32, 24
_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}
_SIZES = frozenset(2**n for n in range(9, 17))


class Frame(NamedTuple):
    """A page as a transaction left it. `pages` > 0 ends the transaction; `sums` is the checksum up to here."""

    number: int
    pages: int
    salt: bytes
    sums: tuple[int, int]
    head: bytes
    page: bytes


def beside(path: Path) -> Path:
    """The log of a database."""
    return path.with_name(path.name + "-wal")


def files_of(path: Path) -> list[Path]:
    """A database, its log, and the index of that in shared memory; the latter two need not exist."""
    return [path, beside(path), path.with_name(path.name + "-shm")]


def frames(log: bytes, size: int) -> Iterator[Frame]:
    """Every frame of a log of pages of this size, sound or not."""
    for at in range(HEADER, len(log) - FRAME_HEADER - size + 1, size + FRAME_HEADER):
        number, pages, salt, *sums = struct.unpack_from(">II8sII", log, at)
        page = log[at + FRAME_HEADER : at + FRAME_HEADER + size]
        yield Frame(number, pages, salt, (sums[0], sums[1]), log[at : at + 8], page)


def damage_in_log(log: bytes) -> str | None:
    """What is wrong with a log, beyond an end that a crash cut off; None where nothing is."""
    if len(log) <= HEADER:
        return None
    magic, _, size, _, salt, *sums = struct.unpack_from(">IIII8sII", log)
    order = _MAGIC.get(magic)
    if order is None or size not in _SIZES or _summed(order, log[:24]) != (sums[0], sums[1]):
        return "the write-ahead log has a damaged header"
    before, first_bad = (sums[0], sums[1]), 0
    for number, frame in enumerate(frames(log, size), 1):
        mine = frame.salt == salt
        if not first_bad or (mine and frame.pages):
            right = mine and _summed(order, frame.page, _summed(order, frame.head, before)) == frame.sums
            if right and first_bad:
                return f"the write-ahead log is damaged at its frame {first_bad}, and answers follow"
            first_bad = first_bad or (0 if right else number)
        before = frame.sums
    return None


def _summed(order: str, data: bytes, sums: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for n in range(0, len(words), 2):
        first = (first + words[n] + second) & 0xFFFFFFFF
        second = (second + words[n + 1] + first) & 0xFFFFFFFF
    return first, second
