"""Stores the rows of runs and gold as NumPy columns, which are read and matched without Python loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from germane.samples.runs.formats import Floats, Numbers

Keys: TypeAlias = NDArray[np.uint64]
Bytes: TypeAlias = NDArray[np.uint8]
_ODD, _SEED = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
MASKS = np.array([(1 << 8 * length) - 1 for length in range(9)], np.uint64)
"""Masks of the first 0 to 8 bytes of a little-endian word."""
_COPIED = 1 << 12
"""The number of strings whose bytes are copied in one step."""
_SLOT_BITS = 4
"""The lookup table of an Index has 2**4 to 2**5 slots per string: most unknown strings hit an empty slot."""


@dataclass(frozen=True, eq=False)
class Texts:
    """Strings, stored as UTF-8 bytes from `start` to `end` of one buffer."""

    data: Bytes
    start: Numbers
    end: Numbers

    @classmethod
    def of(cls, texts: Iterable[str | bytes]) -> Texts:
        """Return a Texts that holds these strings; bytes must be UTF-8."""
        encoded = [text if isinstance(text, bytes) else text.encode(*_UTF8) for text in texts]
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        ends = np.cumsum(sizes)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), ends - sizes, ends)

    @classmethod
    def joined(cls, several: Sequence[Texts]) -> Texts:
        """Return the concatenation of several Texts."""
        sizes = [len(texts.data) for texts in several]
        offset = np.repeat(np.cumsum([0, *sizes[:-1]]), list(map(len, several)))
        data, start, end = map(np.concatenate, zip(*((t.data, t.start, t.end) for t in several), strict=True))
        return cls(data, start + offset, end + offset)

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, at: Any) -> Any:
        """Return the string at a position, or the Texts of a slice, an array of positions or a mask."""
        if isinstance(at, slice | np.ndarray):
            return Texts(self.data, self.start[at], self.end[at])
        return self.data[self.start[at] : self.end[at]].tobytes().decode(*_UTF8)

    def __iter__(self) -> Iterator[str]:
        return (text.decode(*_UTF8) for text in self.bytes())

    def bytes(self) -> Iterator[bytes]:
        """Return an iterator over the strings as UTF-8 bytes."""
        data = self.data.tobytes()
        return (data[a:b] for a, b in zip(self.start.tolist(), self.end.tolist(), strict=True))

    def compact(self) -> Texts:
        """Return a copy whose buffer holds the bytes of these strings and nothing else."""
        sizes = self.end - self.start
        ends = np.cumsum(sizes)
        data = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
        for first in range(0, len(self), _COPIED):  # all positions at once would need much memory
            some = slice(first, first + _COPIED)
            offset = int(ends[first] - sizes[first])
            at = np.repeat(self.start[some] - (ends[some] - sizes[some]) + offset, sizes[some])
            at += np.arange(len(at))
            data[offset : offset + len(at)] = self.data[at]
        return Texts(data, ends - sizes, ends)

    @property
    def words(self) -> list[Keys]:
        """The bytes of the strings as little-endian 64-bit words.

        Array n of the list holds the n-th word of each string, padded with zeros.
        """
        length = self.end - self.start
        if len(self.data) > 32 * int(length.sum()) + 4096:  # only a small part of the buffer is used
            return self.compact().words
        count = (int(length.max(initial=0)) + 7) // 8
        padded = np.concatenate([self.data, np.zeros(8 * count + 8, np.uint8)])
        window: Keys = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
        words = range(0, 8 * count, 8)
        return [window[self.start + at] & MASKS.take(length - at, mode="clip") for at in words]

    def hashed(self, of: Numbers) -> Keys:
        """Return a 64-bit hash of each pair (string, number at the same position in `of`).

        Different pairs seldom have the same hash.
        """
        result = (of.astype(np.uint64) + np.uint64(1)) * _SEED  # hashes of small numbers are far apart
        result ^= result >> np.uint64(29)
        for word in self.words:
            mixed = (result ^ word) * _ODD
            result = np.where(word != 0, mixed ^ (mixed >> np.uint64(29)), result)
        return result

    def equals(self, other: Texts) -> NDArray[np.bool_]:
        """Return a mask that is True where the string equals the string at the same position in `other`."""
        same: NDArray[np.bool_] = self.end - self.start == other.end - other.start
        for ours, theirs in zip_longest(self.words, other.words, fillvalue=np.uint64(0)):
            same &= ours == theirs
        return same

    def descending(self) -> list[Keys]:
        """Return the keys with which `np.lexsort` sorts the strings by their bytes in descending order."""
        return [~(self.end - self.start).astype(np.uint64), *(~word.byteswap() for word in self.words[::-1])]


_UTF8 = "utf-8", "surrogatepass"


def has_duplicates(keys: NDArray[Any]) -> bool:
    """Return True if any two of the keys are equal."""
    ordered = np.sort(keys)
    return bool((ordered[1:] == ordered[:-1]).any())


def numbered(texts: Texts, of: Numbers) -> tuple[Numbers, Numbers]:
    """Number the distinct pairs (string, its number in `of`) from 0, in order of first appearance.

    Return the number of the pair at each position, and the first position of each distinct pair.
    """
    _, first, codes = np.unique(texts.hashed(of), return_index=True, return_inverse=True)
    same = first[codes]
    if not ((of == of[same]) & texts.equals(texts[same])).all():  # two pairs have the same hash
        known: dict[tuple[int, bytes], int] = {}
        pairs = zip(of.tolist(), texts.bytes(), strict=True)
        codes = np.fromiter((known.setdefault(pair, len(known)) for pair in pairs), np.int64, len(texts))
        first = np.unique(codes, return_index=True)[1]
    order = np.argsort(first)
    return np.argsort(order)[codes], first[order]


class Index:
    """Finds pairs of a string and a number (a document id and its query's index), which must be distinct."""

    def __init__(self, texts: Texts, of: Numbers) -> None:
        self._texts, self._of = texts, of
        keys = texts.hashed(of)
        self._order = np.argsort(keys)
        self._sorted = keys[self._order]
        # a table of the hashes' first bits rejects most unknown strings
        self._shift = np.uint64(64 - max(10, len(keys).bit_length() + _SLOT_BITS))
        self._slots = np.zeros(1 << (64 - int(self._shift)), dtype=np.bool_)
        self._slots[(keys >> self._shift).view(np.int64)] = True
        self._exact: dict[tuple[int, bytes], int] | None = None
        if has_duplicates(keys):  # two pairs have the same hash
            self._exact = {pair: at for at, pair in enumerate(zip(of.tolist(), texts.bytes(), strict=True))}

    def find(self, texts: Texts, of: Numbers, keys: Keys | None = None) -> tuple[Numbers, Numbers]:
        """Return the positions of the known pairs (string, its number in `of`), here and in the index.

        `keys` are the hashes of the pairs, if they are known already.
        """
        if self._exact is not None:
            pairs = zip(of.tolist(), texts.bytes(), strict=True)
            found = [(at, self._exact[pair]) for at, pair in enumerate(pairs) if pair in self._exact]
            positions, known = np.array(found, np.int64).reshape(-1, 2).T
            return positions, known
        if not len(self._sorted):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        keys = texts.hashed(of) if keys is None else keys
        positions = np.flatnonzero(self._slots.take((keys >> self._shift).view(np.int64)))
        at = np.minimum(np.searchsorted(self._sorted, keys[positions]), len(self._sorted) - 1)
        hit = self._sorted[at] == keys[positions]
        positions, known = positions[hit], self._order[at[hit]]
        same = (of[positions] == self._of[known]) & texts[positions].equals(self._texts[known])
        return positions[same], known[same]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a run or of gold, one array per column.

    `number` is the score or grade, `line` the line number (0 if unknown, NO_DOCUMENT for a query without
    results), `rank` the rank. A missing score or rank is nan; `rank` is None if ranks were not read.
    """

    query: Texts
    doc: Texts
    number: Floats
    line: Numbers
    rank: Floats | None = None

    @classmethod
    def of(cls, rows: Iterable[tuple[Any, ...]]) -> Rows:
        """Convert rows of the form (line, query, document, number, rank), each but the query maybe None."""
        lines, queries, docs, *numbers = zip(*rows, strict=True)
        number, rank = (np.array(values, np.float64) for values in numbers)  # None is nan
        line = np.where([doc is None for doc in docs], NO_DOCUMENT, np.array(lines, np.int64))
        return cls(Texts.of(queries), Texts.of(doc or "" for doc in docs), number, line, rank)

    @classmethod
    def joined(cls, several: Sequence[Rows]) -> Rows:
        """Return the concatenation of several Rows."""
        if len(several) == 1:
            return several[0]
        ranks = [rows.rank for rows in several if rows.rank is not None]
        return cls(
            Texts.joined([rows.query for rows in several]),
            Texts.joined([rows.doc for rows in several]),
            np.concatenate([rows.number for rows in several]),
            np.concatenate([rows.line for rows in several]),
            np.concatenate(ranks) if len(ranks) == len(several) else None,
        )

    def __len__(self) -> int:
        return len(self.number)

    def __getitem__(self, at: slice | NDArray[Any]) -> Rows:
        rank = None if self.rank is None else self.rank[at]
        return Rows(self.query[at], self.doc[at], self.number[at], self.line[at], rank)

    def compact(self) -> Rows:
        """Return a copy whose buffers hold the bytes of its ids and nothing else."""
        return Rows(self.query.compact(), self.doc.compact(), self.number, self.line, self.rank)

    @cached_property
    def starts(self) -> Numbers:
        """The position 0, each position at which another query begins, and the number of rows."""
        query = self.query
        size = query.end - query.start
        changes: NDArray[np.bool_] = size[1:] != size[:-1]
        for word in query.words:
            changes |= word[1:] != word[:-1]
        inside: Numbers = np.flatnonzero(changes) + 1
        return np.concatenate([[0], inside, [len(self)]])


NO_DOCUMENT = -1


@dataclass(frozen=True, eq=False)
class Lists:
    """The ranked lists, or the gold, of some queries: query n has the rows starts[n] to starts[n + 1] - 1."""

    queries: Texts
    starts: Numbers
    rows: Rows

    @cached_property
    def of(self) -> Numbers:
        """The index of each row's query in `queries`."""
        return np.repeat(np.arange(len(self.queries)), self.sizes)

    @cached_property
    def sizes(self) -> Numbers:
        """The number of rows of each query."""
        return np.diff(self.starts)

    @cached_property
    def index(self) -> Index:
        """An Index that finds the row of a document id of a query, whose document ids must be distinct."""
        return Index(self.rows.doc, self.of)

    @cached_property
    def _query_index(self) -> Index:
        return Index(self.queries, np.zeros(len(self.queries), np.int64))

    def find(self, queries: Texts) -> Numbers:
        """Return the index of each query id in this object's queries, or -1 for an unknown query id."""
        numbers = np.full(len(queries), -1)
        positions, known = self._query_index.find(queries, np.zeros(len(queries), np.int64))
        numbers[positions] = known
        return numbers

    def grades(self) -> dict[str, dict[str, int]]:
        """Return the grades of gold as a mapping: query id -> document id -> grade."""
        pairs = list(zip(self.rows.doc, map(int, self.rows.number.tolist()), strict=True))
        ends = self.starts.tolist()
        return {query: dict(pairs[a:b]) for query, a, b in zip(self.queries, ends, ends[1:], strict=False)}

    def by_document(self, doc_id: Callable[[str], str]) -> Lists:
        """Return this gold by `doc_id(chunk id)`; a document gets the best grade of its chunks."""
        docs = Texts.of(map(doc_id, self.rows.doc))
        codes, first = numbered(docs, self.of)
        best = np.full(len(first), -np.inf)
        np.maximum.at(best, codes, self.rows.number)
        rows = replace(self.rows[first], doc=docs[first].compact(), number=best)
        return Lists(self.queries, np.searchsorted(self.of[first], np.arange(len(self.queries) + 1)), rows)

    def kept(self, mask: NDArray[np.bool_]) -> Lists:
        """Return a Lists of the same queries, but only with the rows for which `mask` is True."""
        starts = np.concatenate([[0], np.cumsum(mask)])[self.starts]
        return Lists(self.queries, starts, self.rows[mask])

    def of_queries(self, mask: NDArray[np.bool_]) -> Lists:
        """Return a Lists of only the queries for which `mask` is True, with all of their rows."""
        if mask.all():
            return self
        starts = np.concatenate([[0], np.cumsum(self.sizes[mask])])
        return Lists(self.queries[mask], starts, self.rows[mask[self.of]])


def whole_queries(blocks: Iterable[Rows]) -> Iterator[Lists]:
    """Regroup the rows of consecutive blocks into Lists, so that no query is divided between two Lists.

    Only a query whose rows are not consecutive in the file appears more than once.
    """
    left: list[Rows] = []  # rows of a query that may continue in the next block
    for rows in filter(len, blocks):
        starts, count = rows.starts, sum(map(len, left))
        goes_on = bool(left) and bool(rows.query[:1].equals(left[0].query[:1])[0])
        if len(starts) > 2 or (left and not goes_on):
            first = [0] if goes_on or not left else [0, count]
            yield _lists([*left, rows[: starts[-2]]], np.concatenate([first, starts[1:-1] + count]))
            left = []
        left.append(rows[starts[-2] :].compact())
    if left:
        yield _lists(left, np.array([0, sum(map(len, left))]))


def _lists(several: Sequence[Rows], starts: Numbers) -> Lists:
    rows = Rows.joined(several)
    return Lists(rows.query[starts[:-1]], starts, rows)


def all_queries(blocks: Iterable[Rows]) -> Lists | None:
    """Return the rows of all blocks, grouped by query in order of first appearance; None without rows."""
    several = [rows.compact() for rows in blocks if len(rows)]
    if not several:
        return None
    rows = Rows.joined(several)
    starts = rows.starts
    queries: Texts = rows.query[starts[:-1]]
    codes, first = numbered(queries, np.zeros(len(queries), np.int64))
    sizes = np.diff(starts)
    if len(first) < len(queries):  # some queries occur in several places
        rows = rows[np.argsort(np.repeat(codes, sizes), kind="stable")]
        sizes = np.bincount(codes, sizes).astype(np.int64)
    return Lists(queries[first].compact(), np.concatenate([[0], np.cumsum(sizes)]), rows)
