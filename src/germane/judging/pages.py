"""Rows straight out of the pages of an SQLite file and its log, for one that SQLite cannot read any more.

A judgement stands whole on one page of the table's tree (or goes on in a chain of overflow pages), so every page can
be read on its own: neither the header of the file nor the other pages are needed. See the file format's chapters on
b-tree pages and records. What is found may be damaged, or deleted long ago: the caller judges each row.
"""

from __future__ import annotations

import struct
from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Any

from germane.judging.log import frames

__all__ = ["rows_in"]

_LEAF, _INTERIOR = 0x0A, 0x02
_PAGE = 4096
_LONGEST = 1 << 24  # bytes of a row: a damaged length must not follow pages in a circle for ever
_SIZES = frozenset(2**n for n in range(9, 17))
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


def rows_in(data: bytes, log: bytes) -> Iterator[tuple[Any, ...]]:
    """Every record of every page that looks like one of a table without rowid: the newest in the log first.

    The size of pages stands in headers that may be damaged: the usual one is tried as well.
    """
    for size in dict.fromkeys((_size(data[16:18], 2), _size(log[8:12], 4), _PAGE)):
        stored = {n: data[(n - 1) * size : n * size] for n in range(1, len(data) // size + 1)}
        written = list(frames(log, size))
        pages = ChainMap({frame.number: frame.page for frame in written}, stored)
        for frame in reversed(written):
            yield from _rows(frame.page, pages, 100 if frame.number == 1 else 0)
        for number, page in stored.items():
            yield from _rows(page, pages, 100 if number == 1 else 0)


def _size(field: bytes, width: int) -> int:
    size = int.from_bytes(field, "big")
    size = 65536 if width == 2 and size == 1 else size
    return size if size in _SIZES else _PAGE


def _rows(page: bytes, pages: Mapping[int, bytes], start: int) -> Iterator[tuple[Any, ...]]:
    if len(page) <= start + 8 or page[start] not in {_LEAF, _INTERIOR}:
        return
    inner = page[start] == _INTERIOR
    (count,) = struct.unpack(">H", page[start + 3 : start + 5])
    first = start + (12 if inner else 8)
    for at in range(first, min(first + 2 * count, len(page) - 1), 2):
        (offset,) = struct.unpack(">H", page[at : at + 2])
        try:
            yield _record(_payload(page, offset + (4 if inner else 0), pages))
        except (IndexError, ValueError, KeyError, struct.error):  # this row is lost, the next may not be
            continue


def _payload(page: bytes, at: int, pages: Mapping[int, bytes]) -> bytes:
    """The bytes of a record, with those on its overflow pages."""
    length, at = _varint(page, at)
    usable = len(page)
    most, least = (usable - 12) * 64 // 255 - 23, (usable - 12) * 32 // 255 - 23
    if length <= most:
        return page[at : at + length]
    if length > _LONGEST:
        raise ValueError("no answer is that long")
    rest = least + (length - least) % (usable - 4)
    local = rest if rest <= most else least
    found = bytearray(page[at : at + local])
    (following,) = struct.unpack(">I", page[at + local : at + local + 4])
    while len(found) < length:
        chained = pages[following]
        found += chained[4 : 4 + min(usable - 4, length - len(found))]
        (following,) = struct.unpack(">I", chained[:4])
    return bytes(found)


def _record(payload: bytes) -> tuple[Any, ...]:
    size, at = _varint(payload, 0)
    values, body = [], size
    while at < size:
        kind, at = _varint(payload, at)
        value, body = _value(payload, kind, body)
        values.append(value)
    if body != len(payload):
        raise ValueError("the record is cut")
    return tuple(values)


def _value(payload: bytes, kind: int, at: int) -> tuple[Any, int]:
    if kind == 0:
        return None, at
    if kind in _INTEGERS:
        end = at + _INTEGERS[kind]
        return int.from_bytes(payload[at:end], "big", signed=True), end
    if kind == 7:
        return struct.unpack(">d", payload[at : at + 8])[0], at + 8
    if kind in {8, 9}:
        return kind - 8, at
    if kind < 12:
        raise ValueError("no such type")
    end = at + (kind - 12) // 2
    raw = payload[at:end]
    return (raw.decode() if kind % 2 else raw), end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for n in range(9):
        byte = data[at + n]
        if n == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + n + 1
    raise AssertionError
