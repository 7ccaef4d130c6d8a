"""Stores the rows of runs and gold as NumPy columns, which are grouped and matched without Python loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Keys: TypeAlias = NDArray[np.uint64]
Bytes: TypeAlias = NDArray[np.uint8]
_ODD, _SEED = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
MASKS = np.array([(1 << 8 * length) - 1 for length in range(9)], np.uint64)
"""Masks of the first 0 to 8 bytes of a little-endian word."""
_COPIED = 1 << 12
"""The number of strings whose bytes are copied in one step."""
_SLOT_BITS = 4
"""The lookup table of an Index has 2**4 to 2**5 slots per string: most unknown strings hit an empty slot."""
_MOST_BITS = 22
"""The lookup table has at most 2**22 slots: a larger one is slower than the search that it saves."""


@dataclass(frozen=True, eq=False)
class Texts(Sequence[str]):
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
        data, spans = self.data.tobytes(), zip(self.start.tolist(), self.end.tolist(), strict=True)
        if not data.isascii():
            return (data[a:b].decode(*_UTF8) for a, b in spans)
        text = data.decode()  # one decoding for all
        return (text[a:b] for a, b in spans)

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
            chunk = slice(first, first + _COPIED)
            offset = int(ends[first] - sizes[first])
            at = np.repeat(self.start[chunk] - (ends[chunk] - sizes[chunk]) + offset, sizes[chunk])
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

    def hashed(self, query: Numbers) -> Keys:
        """Return a 64-bit hash of each pair (string, number at the same position in `query`).

        Different pairs seldom have the same hash.
        """
        result = (query.astype(np.uint64) + np.uint64(1)) * _SEED  # hashes of small numbers are far apart
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


_UTF8 = "utf-8", "surrogatepass"


def has_duplicates(keys: NDArray[Any]) -> bool:
    """Return True if any two of the keys are equal."""
    ordered = np.sort(keys)
    return bool((ordered[1:] == ordered[:-1]).any())


def numbered(texts: Texts, query: Numbers) -> tuple[Numbers, Numbers]:
    """Number the distinct pairs (string, its number in `query`) from 0, in order of first appearance.

    Return the number of the pair at each position, and the first position of each distinct pair.
    """
    _, first, codes = np.unique(texts.hashed(query), return_index=True, return_inverse=True)
    same = first[codes]
    if not ((query == query[same]) & texts.equals(texts[same])).all():  # two pairs have the same hash
        known: dict[tuple[int, bytes], int] = {}
        pairs = zip(query.tolist(), texts.bytes(), strict=True)
        codes = np.fromiter((known.setdefault(pair, len(known)) for pair in pairs), np.int64, len(texts))
        first = np.unique(codes, return_index=True)[1]
    order = np.argsort(first)
    return np.argsort(order)[codes], first[order]


class Index:
    """Finds pairs of a string and a number (a document id and its query's index), which must be distinct."""

    def __init__(self, texts: Texts, query: Numbers) -> None:
        self._texts, self._query = texts, query
        keys = texts.hashed(query)
        self._order = np.argsort(keys)
        self._sorted = keys[self._order]
        # a table of the hashes' first bits rejects most unknown strings
        self._shift = np.uint64(64 - min(max(10, len(keys).bit_length() + _SLOT_BITS), _MOST_BITS))
        self._slots = np.zeros(1 << (64 - int(self._shift)), dtype=np.bool_)
        self._slots[(keys >> self._shift).view(np.int64)] = True
        self._exact: dict[tuple[int, bytes], int] | None = None
        if (self._sorted[1:] == self._sorted[:-1]).any():  # two pairs have the same hash
            self._exact = {
                pair: at for at, pair in enumerate(zip(query.tolist(), texts.bytes(), strict=True))
            }

    def find(self, texts: Texts, query: Numbers, keys: Keys) -> tuple[Numbers, Numbers]:
        """Return the positions of the known pairs (string, its number in `query`), here and in the index.

        `keys` are the hashes of the pairs.
        """
        if self._exact is not None:
            pairs = zip(query.tolist(), texts.bytes(), strict=True)
            found = [(at, self._exact[pair]) for at, pair in enumerate(pairs) if pair in self._exact]
            positions, known = np.array(found, np.int64).reshape(-1, 2).T
            return positions, known
        if not len(self._sorted):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        positions = np.flatnonzero(self._slots.take((keys >> self._shift).view(np.int64)))
        at = np.minimum(np.searchsorted(self._sorted, keys[positions]), len(self._sorted) - 1)
        hit = self._sorted[at] == keys[positions]
        positions, known = positions[hit], self._order[at[hit]]
        same = (query[positions] == self._query[known]) & texts[positions].equals(self._texts[known])
        return positions[same], known[same]


NO_DOCUMENT = -1


@dataclass(frozen=True, eq=False)
class Lists:
    """Ranked lists or gold, one array per column: query n has the rows starts[n] to starts[n + 1] - 1.

    `number` is the score or grade, `line` the line number (0 if unknown, NO_DOCUMENT for a query without
    results), `rank` the rank. A missing score or rank is nan; `rank` is None if ranks were not read.
    """

    queries: Texts
    starts: Numbers
    doc: Texts
    number: Floats
    line: Numbers
    rank: Floats | None = None

    @classmethod
    def grouped(
        cls, query: Texts, doc: Texts, number: Floats, line: Numbers, rank: Floats | None = None
    ) -> Lists:
        """Return rows, each with its query, as lists of consecutive rows with the same query."""
        size = query.end - query.start
        begins = np.ones(len(query), np.bool_)
        begins[1:] = size[1:] != size[:-1]
        for word in query.words:
            begins[1:] |= word[1:] != word[:-1]
        starts = np.append(np.flatnonzero(begins), len(query))
        return cls(query[starts[:-1]], starts, doc, number, line, rank)

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[Any, ...]]) -> Lists:
        """Group rows of the form (line, query, document, number, rank), each but the query maybe None."""
        lines, queries, docs, *numbers = zip(*rows, strict=True)
        number, rank = (np.array(values, np.float64) for values in numbers)  # None is nan
        line = np.where([doc is None for doc in docs], NO_DOCUMENT, np.array(lines, np.int64))
        return cls.grouped(Texts.of(queries), Texts.of(doc or "" for doc in docs), number, line, rank)

    @classmethod
    def joined(cls, several: Sequence[Lists]) -> Lists:
        """Return the concatenation of several Lists; the last list of one may continue in the next."""
        if len(several) == 1:
            return several[0]
        queries = Texts.joined([lists.queries for lists in several])
        rows = np.cumsum([0, *(len(lists.number) for lists in several)])
        starts = np.concatenate([lists.starts[:-1] + at for lists, at in zip(several, rows, strict=False)])
        first = np.cumsum([len(lists.queries) for lists in several[:-1]])
        goes_on = first[queries[first].equals(queries[first - 1])]
        ranks = [lists.rank for lists in several if lists.rank is not None]
        return cls(
            queries[np.delete(np.arange(len(queries)), goes_on)],
            np.append(np.delete(starts, goes_on), rows[-1]),
            Texts.joined([lists.doc for lists in several]),
            np.concatenate([lists.number for lists in several]),
            np.concatenate([lists.line for lists in several]),
            np.concatenate(ranks) if len(ranks) == len(several) else None,
        )

    @cached_property
    def of(self) -> Numbers:
        """The index of each row's query in `queries`."""
        return np.repeat(np.arange(len(self.queries)), self.sizes)

    @cached_property
    def sizes(self) -> Numbers:
        """The number of rows of each query."""
        return np.diff(self.starts)

    def taken(self, rows: slice | NDArray[Any], queries: Texts, starts: Numbers) -> Lists:
        """Return a Lists with these rows of this one, which are those of `queries`, beginning at `starts`."""
        rank = None if self.rank is None else self.rank[rows]
        return Lists(queries, starts, self.doc[rows], self.number[rows], self.line[rows], rank)

    def kept(self, mask: NDArray[np.bool_]) -> Lists:
        """Return a Lists of the same queries, but only with the rows for which `mask` is True."""
        return self.taken(mask, self.queries, np.concatenate([[0], np.cumsum(mask)])[self.starts])

    def of_queries(self, first: int, end: int) -> Lists:
        """Return a Lists of the queries with the indices `first` to `end` - 1."""
        begin, stop = self.starts[[first, end]].tolist()
        return self.taken(slice(begin, stop), self.queries[first:end], self.starts[first : end + 1] - begin)

    def compact(self) -> Lists:
        """Return a copy whose buffers hold the bytes of its ids and nothing else."""
        return replace(self, queries=self.queries.compact(), doc=self.doc.compact())

    def ids(self) -> Iterator[tuple[str, list[str]]]:
        """Yield (query id, its document ids in the order of the rows) for each query."""
        docs, ends = list(self.doc), self.starts.tolist()
        return zip(self.queries, map(docs.__getitem__, map(slice, ends, ends[1:])), strict=False)

    def grades(self) -> dict[str, dict[str, int]]:
        """Return the grades of gold as a mapping: query id -> document id -> grade."""
        pairs = list(zip(self.doc, map(int, self.number.tolist()), strict=True))
        ends = self.starts.tolist()
        return {query: dict(pairs[a:b]) for query, a, b in zip(self.queries, ends, ends[1:], strict=False)}

    def by_document(self, doc_id: Callable[[str], str]) -> Lists:
        """Return this gold by `doc_id(chunk id)`; a document gets the best grade of its chunks."""
        docs = Texts.of(map(doc_id, self.doc))
        codes, first = numbered(docs, self.of)
        best = np.full(len(first), -np.inf)
        np.maximum.at(best, codes, self.number)
        starts = np.searchsorted(self.of[first], np.arange(len(self.queries) + 1))
        return replace(self.taken(first, self.queries, starts), doc=docs[first].compact(), number=best)


def whole_queries(blocks: Iterable[Lists]) -> Iterator[Lists]:
    """Regroup consecutive blocks of rows, so that no query is divided between two Lists.

    Only a query whose rows are not consecutive in the file appears more than once.
    """
    left: list[Lists] = []  # rows of a query that may continue in the next block
    for lists in blocks:
        last = len(lists.queries) - 1
        if last > 0 or (left and last == 0 and lists.queries[0] != left[0].queries[0]):
            joined = Lists.joined([*left, lists])
            last = len(joined.queries) - 1
            yield joined.of_queries(0, last)
            lists, left = joined.of_queries(last, last + 1), []  # noqa: PLW2901 - what is left of the block
        if last >= 0:
            left.append(lists.compact())
    if left:
        yield Lists.joined(left)


def all_queries(blocks: Iterable[Lists]) -> Lists | None:
    """Return the rows of all blocks, grouped by query in order of first appearance; None without rows."""
    several = [lists.compact() for lists in blocks if len(lists.number)]
    if not several:
        return None
    lists = Lists.joined(several)
    codes, first = numbered(lists.queries, np.zeros(len(lists.queries), np.int64))
    if len(first) < len(lists.queries):  # some queries occur in several places
        rows = np.argsort(np.repeat(codes, lists.sizes), kind="stable")
        sizes = np.bincount(codes, lists.sizes).astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        lists = lists.taken(rows, lists.queries[first].compact(), starts)
    return lists
