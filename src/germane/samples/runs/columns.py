"""Lines as columns: where each field starts and ends, its bytes as words of eight, its number from its digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from germane.samples.runs.results import Floats, NotTabular, Numbers

Keys: TypeAlias = NDArray[np.uint64]
Bytes: TypeAlias = NDArray[np.uint8]
_ODD, _SEED = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_POWERS = 10 ** np.arange(19)
_MASKS = np.array([(1 << 8 * length) - 1 for length in range(9)], np.uint64)
_TENS = 10.0 ** np.arange(19)
_DIGITS = 15
"""Digits of a number that are put together here: as a whole number they are below 2**53, so that one division rounds once."""
_ZEROS, _HIGH, _TO_HIGH = (np.uint64(byte * 0x0101010101010101) for byte in (0x30, 0x80, 0x46))
"""Eight times `0`, the highest bit of a byte, and what brings every byte above `9` there."""
_PAIRS = np.uint64(0x000000FF000000FF)


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts as their bytes in one buffer, and where each starts and ends; a sequence of str."""

    data: Bytes
    start: Numbers
    end: Numbers

    @classmethod
    def of(cls, texts: Sequence[str]) -> Texts:
        """The texts of a sequence."""
        data = "".join(texts).encode("utf-8", "surrogatepass")
        sizes = np.fromiter(
            (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")) for text in texts),
            np.int64,
            len(texts),
        )
        ends = np.cumsum(sizes)
        return cls(np.frombuffer(data, np.uint8), ends - sizes, ends)

    @classmethod
    def joined(cls, several: Sequence[Texts]) -> Texts:
        """All of several, one after another."""
        offsets = np.cumsum([0, *(len(texts.data) for texts in several[:-1])])
        return cls(
            np.concatenate([texts.data for texts in several]),
            np.concatenate([texts.start + offset for texts, offset in zip(several, offsets, strict=True)]),
            np.concatenate([texts.end + offset for texts, offset in zip(several, offsets, strict=True)]),
        )

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, at: Any) -> Any:
        """The text at a position; of a slice or an array of positions, those texts."""
        if isinstance(at, slice | np.ndarray):
            return Texts(self.data, self.start[at], self.end[at])
        return self.data[self.start[at] : self.end[at]].tobytes().decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return (text.decode("utf-8", "surrogatepass") for text in self.bytes())

    def bytes(self) -> Iterator[bytes]:
        """Each text as its bytes."""
        data = self.data.tobytes()
        return (data[a:b] for a, b in zip(self.start.tolist(), self.end.tolist(), strict=True))

    def to_list(self) -> list[str]:
        """The texts as a list."""
        return list(self)

    def compact(self) -> Texts:
        """The same without the bytes that are none of theirs."""
        sizes = self.end - self.start
        ends = np.cumsum(sizes)
        source = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(self.start - (ends - sizes), sizes)
        return Texts(self.data[source], ends - sizes, ends)

    @property
    def words(self) -> list[Keys]:
        """The bytes of each text as numbers of eight bytes, shape (texts,) each, with zeros behind its end."""
        length = self.end - self.start
        if len(self.data) > 32 * int(length.sum()) + 4096:  # a few texts of a long buffer
            return self.compact().words
        count = (int(length.max(initial=0)) + 7) // 8
        padded = np.concatenate([self.data, np.zeros(8 * count + 8, np.uint8)])
        window: Keys = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
        return [
            window[self.start + at] & _MASKS.take(length - at, mode="clip") for at in range(0, 8 * count, 8)
        ]

    def hashed(self, seed: Keys) -> Keys:
        """A number for each text and its seed: equal where both are, and seldom else."""
        result = (seed + np.uint64(1)) * _SEED  # small seeds and short texts are far apart
        result ^= result >> np.uint64(29)
        for word in self.words:
            mixed = (result ^ word) * _ODD
            result = np.where(word != 0, mixed ^ (mixed >> np.uint64(29)), result)
        return result

    def equals(self, other: Texts) -> NDArray[np.bool_]:
        """Whether each text is the other's at the same position."""
        same: NDArray[np.bool_] = self.end - self.start == other.end - other.start
        ours, theirs = self.words, other.words
        for number in range(max(len(ours), len(theirs))):
            zero = np.uint64(0)
            same &= (ours[number] if number < len(ours) else zero) == (
                theirs[number] if number < len(theirs) else zero
            )
        return same

    def descending(self) -> list[Keys]:
        """Keys for `np.lexsort`, the most important last, by which the greatest text is first, byte by byte."""
        return [~word.byteswap() for word in reversed(self.words)]


@dataclass(frozen=True, eq=False)
class Rows:
    """Query, document and number (score or grade) of some rows."""

    query: Texts
    doc: Texts
    number: Floats

    @classmethod
    def joined(cls, several: Sequence[Rows]) -> Rows:
        """All of several, one after another."""
        if len(several) == 1:
            return several[0]
        query, doc = (Texts.joined([getattr(rows, name) for rows in several]) for name in ("query", "doc"))
        return cls(query, doc, np.concatenate([rows.number for rows in several]))

    def __len__(self) -> int:
        return len(self.number)

    def __getitem__(self, at: slice) -> Rows:
        rows = Rows(self.query[at], self.doc[at], self.number[at])
        first, end, _ = at.indices(len(self))
        inside = self.starts[(self.starts > first) & (self.starts < end)]
        rows.__dict__["starts"] = (
            np.concatenate([[first], inside, [end]]) - first
        )  # known, so not looked for again
        return rows

    def compact(self) -> Rows:
        """The same without the bytes of other rows."""
        rows = Rows(self.query.compact(), self.doc.compact(), self.number)
        rows.__dict__["starts"] = self.starts
        return rows

    @cached_property
    def starts(self) -> Numbers:
        """The row at which each query starts, and where the last one ends."""
        query = self.query
        size = query.end - query.start
        changes: NDArray[np.bool_] = size[1:] != size[:-1]
        for word in query.words:
            changes |= word[1:] != word[:-1]
        inside: Numbers = np.flatnonzero(changes) + 1
        return np.concatenate([[0], inside, [len(self)]])


class Fields:
    """The fields of plain lines: where each starts and ends. NotTabular where the bytes are no UTF-8."""

    def __init__(self, data: bytes, between: str) -> None:
        if data.startswith(b"\xef\xbb\xbf"):
            raise NotTabular("a line begins with a byte-order mark")
        try:
            data.isascii() or data.decode()
        except UnicodeDecodeError:
            raise NotTabular("a line is no UTF-8") from None
        self.data = np.frombuffer(data, np.uint8)
        if self.data.min() < 9:
            raise NotTabular("there are control characters")
        separators = self.data <= 32 if between == " " else (self.data == ord(between)) | (self.data == 10)
        self._ends = np.flatnonzero(separators)
        last = np.flatnonzero(self.data[self._ends] == 10)
        self._first = np.concatenate([[0], last[:-1] + 1])
        self.counts = last - self._first + 1
        """The number of fields in each line."""
        self._lines = np.concatenate([[0], self._ends[last[:-1]] + 1])

    def bounds(self, column: int) -> tuple[Numbers, Numbers]:
        """Where the field of that number starts and ends in each line; NotTabular where a line has fewer."""
        if (self.counts <= column).any():
            raise NotTabular("a line has too few columns")
        start = self._ends[self._first + column - 1] + 1 if column else self._lines
        return start, self._ends[self._first + column]

    def texts(self, column: int, *, strip: bool = False) -> Texts:
        """The texts of a column; with `strip` without blanks around them."""
        start, end = self.bounds(column)
        if strip:
            start, end = start.copy(), end.copy()
            while (odd := (start < end) & (self.data[np.minimum(start, len(self.data) - 1)] <= 32)).any():
                start[odd] += 1
            while (odd := (start < end) & (self.data[end - 1] <= 32)).any():
                end[odd] -= 1
            edges = np.concatenate([self.data[start[start < end]], self.data[end[start < end] - 1]])
            if (edges >= 128).any():
                raise NotTabular("a cell may begin or end with white space beyond ASCII")
        return Texts(self.data, start, end)

    def numbers(self, column: int, *, whole: bool = False) -> Floats:
        """The numbers of a column; NotTabular where one is none, or with `whole` not written with digits alone."""
        return _numbers(self.data, *self.bounds(column), whole=whole)


def _numbers(data: Bytes, start: Numbers, end: Numbers, *, whole: bool = False) -> Floats:
    """Numbers from their digits, which are exact below 2**53; others as Python reads them."""
    negative = data[start] == 45
    points = np.flatnonzero(data == 46)
    second: NDArray[np.bool_] | bool = False
    if len(points) == len(start) and (points >= start).all() and (points < end).all():  # one in each
        dot = points
    else:
        points = np.append(points, [len(data)] * 2)
        at = np.searchsorted(points, start)
        dot, second = np.minimum(points[at], end), points[at + 1] < end
    before, behind = dot - start - negative, np.maximum(end - dot - 1, 0)
    odd = (before > 8) | (behind > 8) | (before + behind > _DIGITS) | (before + behind < 1) | second
    padded = np.concatenate([np.zeros(8, np.uint8), data])
    before_byte: Keys = np.ndarray((len(data) + 1,), "<u8", padded, strides=(1,))
    upper, is_number = _digits(before_byte[dot], before)
    lower, is_decimal = _digits(before_byte[end], behind)
    odd |= ~(is_number & is_decimal)
    if whole and (odd | (dot < end)).any():
        raise NotTabular("a grade is not a whole number")
    result: Floats = (upper * _POWERS.take(behind, mode="clip") + lower) / _TENS.take(behind, mode="clip")
    np.negative(result, out=result, where=negative)
    if odd.any():
        rows = np.flatnonzero(odd)
        result[rows] = _as_python_does(Texts(data, start[rows], end[rows]))
    return result


def _digits(word: Keys, length: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
    """The whole numbers that the last bytes of each word spell, up to eight of them, and whether they are digits; 0 of none."""
    others = _MASKS.take(8 - length, mode="clip")
    word = (word & ~others) | (_ZEROS & others)
    are_digits = (((word + _TO_HIGH) | (word - _ZEROS)) & _HIGH) == 0
    word = word - _ZEROS
    word = word * np.uint64(10) + (word >> np.uint64(8))
    word = (word & _PAIRS) * np.uint64(100 + (1_000_000 << 32)) + (
        (word >> np.uint64(16)) & _PAIRS
    ) * np.uint64(1 + (10_000 << 32))
    return (word >> np.uint64(32)).astype(np.int64), are_digits


def _as_python_does(texts: Texts) -> Floats:
    """Texts as Python reads them as numbers; NotTabular where one is none."""
    words = np.stack(texts.words, axis=-1) if texts.words else np.zeros((len(texts), 1), np.uint64)
    spelt = words.view(f"S{8 * words.shape[1]}").ravel()
    if b"_" in spelt.tobytes() or (texts.start == texts.end).any():
        raise NotTabular("a value is no number")
    try:
        return spelt.astype(np.float64)
    except ValueError:
        raise NotTabular("a value is no number") from None
