"""Large runs: of each query only the ranks of its gold documents and the length of its list, block by block.

A ranked measure over gold labels needs no more of a run. Blocks of lines are parsed by polars (the extra `tables`), cut
where a query ends, so that memory is bounded by the block and the gold. Gold documents are found by a 64-bit hash of query and
document, and each find is compared exactly. What is not a plain run (an odd line, a query in two pieces, a document
twice, a quoted cell, an id in JSON that is no text) is left to `read_run` and `read_qrels`, which know lines and say what is
wrong.
"""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from germane.errors import InputError, MissingPart, SourceLocation, install_extra
from germane.samples.files import JsonFault, line_limit, opened, parse_strict_json, shown_name
from germane.samples.frames import parquet_batches
from germane.samples.trec import GOLD, RUN, Format, Kind, frame_roles, read_as_rank, roles_of, table_columns

READ_IN_BULK: tuple[Format, ...] = ("trec", "tsv", "csv", "jsonl", "parquet")
"""The formats of runs that are read here; a JSON document is read as a whole by others."""

BLOCK = 2 << 20
"""Bytes that are parsed together."""

_QUERY_SEED, _DOC_SEED = 1, 2
_SLOTS = 4
"""The lookup table in front of a block's gold has 2**_SLOTS to 2**(_SLOTS + 1) slots per document."""
_GOLD_BLOCK = 1 << 18
"""Bytes of gold that are parsed together where it is not held in memory."""
_PIECE = 1 << 17
"""Bytes that are looked through together, which stay in the processor's cache."""

Keys: TypeAlias = NDArray[np.uint64]
Numbers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


class NotPlain(Exception):
    """The file is no plain run: `read_run` must read it."""


@dataclass(frozen=True, slots=True)
class Hits:
    """Where the gold documents of a run stand.

    `queries` are those of the gold, `sizes` how many documents each has, `docs` and `grades` all of them. `lengths` says how
    many results each query has, -1 where it is not in the run; `ignored` are the run's other queries, in the order of the
    file. A hit is a document with a grade: `row` is the number of its query in the gold, `rank` counts from 1, `doc` is its
    number among the documents. Hits are sorted by row and rank. `notes` are remarks; `repeated` and `folded` count results that were dropped: a document named again, a further chunk.
    """

    queries: Any
    sizes: Numbers
    docs: Any
    grades: Floats
    lengths: Numbers
    ignored: list[str]
    row: Numbers
    rank: Numbers
    doc: Numbers
    notes: Sequence[str] = ()
    repeated: int = 0
    folded: int = 0

    @property
    def grade(self) -> Floats:
        """The grade of each hit."""
        return self.grades[self.doc]


class GoldQueries:
    """The queries of gold (`queries`, a polars Series), found by their hashes."""

    def __init__(self, queries: Any) -> None:
        self.queries = queries
        self._hashed = queries.hash(_QUERY_SEED).to_numpy()
        self._order = np.argsort(self._hashed)
        self._sorted = self._hashed[self._order]
        if _twice(self._sorted):
            raise NotPlain("a query may stand twice in the gold")

    @property
    def ids(self) -> tuple[bytes, Numbers]:
        """The queries one after another, and where each ends."""
        ends = np.cumsum(self.queries.str.len_bytes().to_numpy(), dtype=np.int64)
        return self.queries.str.join("").item().encode(), ends

    def rows(self, queries: Any, hashed: Keys, begin: int) -> Numbers:
        """The number of each query in the gold, -1 where it has none; most likely they go on from `begin`."""
        if not len(self._hashed):
            return np.full(len(hashed), -1)
        if np.array_equal(self._hashed[begin : begin + len(hashed)], hashed):
            rows = np.arange(begin, begin + len(hashed))
        else:
            at = np.minimum(np.searchsorted(self._sorted, hashed), len(self._sorted) - 1)
            rows = self._order[at]
        same = (self._hashed[rows] == hashed) & (self.queries[rows] == queries).to_numpy()
        return np.where(same, rows, -1)


class Gold(GoldQueries):
    """Gold in columns: its queries, how many documents each has (`sizes`), the documents and their grades."""

    def __init__(self, queries: Any, sizes: Numbers, docs: Any, grades: Floats) -> None:
        super().__init__(queries)
        self.sizes, self.docs, self.grades = sizes, docs, grades
        self._starts = np.cumsum(sizes) - sizes
        self._key = docs.hash(_DOC_SEED).to_numpy() ^ np.repeat(self._hashed, sizes)
        if _twice(np.sort(self._key)):
            raise NotPlain("a document may stand twice in the gold")

    @classmethod
    def of(cls, qrels: Mapping[str, Mapping[str, int]]) -> Gold:
        """The columns of a mapping."""
        polars = _polars()
        queries = polars.Series(list(qrels), dtype=polars.String)
        docs = polars.Series([doc for grades in qrels.values() for doc in grades], dtype=polars.String)
        sizes = np.fromiter(map(len, qrels.values()), np.int64, len(qrels))
        values = chain.from_iterable(grades.values() for grades in qrels.values())
        return cls(queries, sizes, docs, np.fromiter(values, np.float64, len(docs)))

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        fmt: Format = "trec",
        columns: Mapping[str, str] | None = None,
        block: int = BLOCK,
    ) -> Gold:
        """The gold in a file; NotPlain where `read_qrels` must read it."""
        frames = list(_frames(path, fmt, columns, GOLD, block))
        if not frames:
            raise NotPlain("there are no grades")
        return cls.of_frame(_polars().concat(frames, rechunk=True))

    @classmethod
    def of_frame(cls, frame: Any) -> Gold:
        """The columns of some rows, each query's together."""
        starts, first = _queries(frame["query"])
        return cls(first, np.diff(starts), frame["doc"], frame["grade"].cast(_polars().Float64).to_numpy())

    def found(self, key: Keys, docs: Any, starts: Numbers, rows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """The gold documents in some results: their places, the places of their queries in `rows`, and their numbers here.

        `starts` are where the results of each query start and the last end, `rows` the number of each query here.
        """
        known = np.flatnonzero(rows >= 0)
        sizes = self.sizes[rows[known]]
        number = np.repeat(known, sizes)
        at = np.arange(len(number)) + np.repeat(self._starts[rows[known]] - np.cumsum(sizes) + sizes, sizes)
        order = np.argsort(self._key[at])
        number, at = number[order], at[order]
        positions, hit = _find(key, self._key[at])
        number, at = number[hit], at[hit]
        own = (starts[number] <= positions) & (positions < starts[number + 1])
        same = own & (self.docs[at] == docs[positions]).to_numpy()
        return positions[same], number[same], at[same]


def read_hits(
    path: str | Path,
    gold: Gold,
    *,
    fmt: Format = "trec",
    columns: Mapping[str, str] | None = None,
    block: int = BLOCK,
) -> Hits:
    """The hits of a run, ordered by score and then by document id, both descending, as trec_eval does.

    Raises NotPlain where `read_run` must read the file, and MissingPart where polars is not installed.
    """
    lengths = np.full(len(gold.queries), -1)
    ignored: list[str] = []
    hashes: list[Keys] = []
    values: list[tuple[Numbers, Numbers, Numbers]] = []
    begin = 0
    notes: list[str] = []
    for frame in _frames(path, fmt, columns, RUN, block, notes):
        starts, first = _queries(frame["query"])
        hashed = first.hash(_QUERY_SEED).to_numpy()
        rows = gold.rows(first, hashed, begin)
        mask, begin = rows >= 0, int(rows[-1]) + 1
        lengths[rows[mask]] = np.diff(starts)[mask]
        if not mask.all():
            ignored += first.filter(~mask).to_list()
        hashes.append(hashed)
        values.append(_hits(frame, gold, starts, hashed, rows))
    if not hashes:
        raise NotPlain("there are no results")
    if _twice(np.sort(np.concatenate(hashes))):
        raise NotPlain("a query is in two pieces")
    row, rank, doc = (np.concatenate(columns) for columns in zip(*values, strict=True))
    order = np.argsort((row << 32) | rank)
    return Hits(
        queries=gold.queries,
        sizes=gold.sizes,
        docs=gold.docs,
        grades=gold.grades,
        lengths=lengths,
        ignored=ignored,
        row=row[order],
        rank=rank[order],
        doc=doc[order],
        notes=notes,
    )


class GoldRanges:
    """Gold of which only some queries are in memory: it is read beside a run that has its queries in about the same order.

    Attributes:
        known: All its queries.
    """

    def __init__(
        self, path: Path, fmt: Format, columns: Mapping[str, str] | None = None, block: int = _GOLD_BLOCK
    ) -> None:
        self._read = path, fmt, columns, GOLD, block
        firsts = [_queries(frame["query"])[1] for frame in _frames(*self._read)]
        if not firsts:
            raise NotPlain("there are no grades")
        self.known = GoldQueries(_polars().concat(firsts, rechunk=True))

    def hits(
        self, path: str | Path, *, fmt: Format, columns: Mapping[str, str] | None = None, block: int = BLOCK
    ) -> Iterator[Hits]:
        """The hits of a run, for one range of the gold's queries after the other, in their order.

        Queries without gold, and remarks, are told with the last range. NotPlain where the file must be read in another way:
        all that came before does not count.
        """
        held = _Held(_frames(*self._read))
        lengths = np.full(len(self.known.queries), -1)
        hashes, ignored, notes = list[Keys](), list[str](), list[str]()
        begin = 0
        for frame in _frames(path, fmt, columns, RUN, block, notes):
            starts, first = _queries(frame["query"])
            hashed = first.hash(_QUERY_SEED).to_numpy()
            rows = self.known.rows(first, hashed, begin)
            has, begin = rows >= 0, int(rows[-1]) + 1
            hashes.append(hashed)
            if not has.all():
                ignored += first.filter(~has).to_list()
            if has.any():
                lengths[rows[has]] = np.diff(starts)[has]
                low = int(rows[has].min())
                held.add(frame, starts, hashed, rows, held.around(low, int(rows[has].max())))
                yield from held.passed(low, lengths)
        if not hashes or (lengths < 0).all():
            raise NotPlain("there are no results with gold")
        if _twice(np.sort(np.concatenate(hashes))):
            raise NotPlain("a query is in two pieces")
        for last in held.passed(len(lengths), lengths):
            yield replace(last, ignored=ignored, notes=notes) if held.empty else last


class _Held:
    """The ranges of gold that are in memory, and the hits in them: query, rank and document."""

    def __init__(self, frames: Iterator[Any]) -> None:
        self._coming = self._ranges(frames)
        self._some, self._next = deque[_Range](), next(self._coming, None)
        self._joined: _Range | None = None
        self._found = list[_Found]()

    def _ranges(self, frames: Iterator[Any]) -> Iterator[_Range]:
        begin = first = 0
        for frame in frames:
            made = _Range(begin, first, frame)
            yield made
            begin, first = made.end, first + len(frame)

    @property
    def empty(self) -> bool:
        """Whether all ranges were passed."""
        return not self._some and self._next is None

    def _read(self) -> None:
        assert self._next is not None
        self._some.append(self._next)
        self._next = next(self._coming, None)

    def around(self, low: int, high: int) -> _Range:
        """The gold of these queries and some beside them; NotPlain where it was passed already."""
        while self._next is not None and self._next.begin <= high:
            self._read()
        if low < self._some[0].begin:
            raise NotPlain("the run's queries are in another order than the gold's")
        some = [value for value in self._some if value.begin <= high and low < value.end]
        if len(some) == 1:
            return some[0]
        if self._joined is None or (self._joined.begin, self._joined.end) != (some[0].begin, some[-1].end):
            frame = _polars().concat([value.frame for value in some], rechunk=True)
            self._joined = _Range(some[0].begin, some[0].first, frame)
        return self._joined

    def add(self, frame: Any, starts: Numbers, hashed: Keys, rows: Numbers, gold: _Range) -> None:
        """Add the hits of a block of the run; `rows` are the numbers of its queries."""
        own = np.where(rows >= 0, rows - gold.begin, -1)
        row, rank, doc = _hits(frame, gold.gold, starts, hashed, own)
        self._found.append((row + gold.begin, rank, doc + gold.first))

    def passed(self, low: int, lengths: Numbers) -> Iterator[Hits]:
        """The hits of the ranges that the run has left behind, which are held no longer; its next query is `low`."""
        last = low == len(lengths)
        while last and self._next is not None:
            self._read()
            yield self._complete(lengths)
        while self._some and (last or (len(self._some) > _BEHIND and self._some[_BEHIND].end <= low)):
            yield self._complete(lengths)

    def _complete(self, lengths: Numbers) -> Hits:
        return self._some.popleft().complete(lengths, self._found)


_BEHIND = 2
"""Ranges of gold that are held although the run has passed them."""
_Found: TypeAlias = "tuple[Numbers, Numbers, Numbers]"
"""Query, rank and document of hits."""


class _Range:
    """Some queries of the gold: those from number `begin` to `end`, whose documents begin at number `first`."""

    def __init__(self, begin: int, first: int, frame: Any) -> None:
        self.begin, self.first, self.frame = begin, first, frame
        self.gold = Gold.of_frame(frame)
        self.end = begin + len(self.gold.sizes)

    def complete(self, lengths: Numbers, found: list[_Found]) -> Hits:
        """The hits of these queries, which the run has passed: they are taken out of those that were found."""
        row, rank, doc = (np.concatenate(columns) for columns in zip(_NONE, *found, strict=True))
        found[:] = [tuple(column[row >= self.end] for column in (row, rank, doc))]  # type: ignore[list-item]
        own = np.flatnonzero(row < self.end)
        own = own[np.argsort((row[own] << 32) | rank[own])]
        gold = self.gold
        return Hits(
            queries=gold.queries,
            sizes=gold.sizes,
            docs=gold.docs,
            grades=gold.grades,
            lengths=lengths[self.begin : self.end],
            ignored=[],
            row=row[own] - self.begin,
            rank=rank[own],
            doc=doc[own] - self.first,
        )


_NONE: _Found = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))


def _polars() -> Any:
    try:
        import polars
    except ImportError:
        raise MissingPart("polars is not installed", fix=install_extra("tables")) from None
    return polars


def _queries(query: Any) -> tuple[Numbers, Any]:
    """Where each query of a column starts (and the last ends), and the queries."""
    changes = np.flatnonzero((query[1:] != query[:-1]).to_numpy()) + 1
    starts = np.concatenate([[0], changes, [len(query)]])
    return starts, query[starts[:-1]]


def _twice(ordered: Keys) -> bool:
    return bool((ordered[1:] == ordered[:-1]).any())


def _find(key: Keys, wanted: Keys) -> tuple[Numbers, Numbers]:
    """The places of the keys that are wanted ones, which are sorted, and the places of these.

    A table in front of them tells most other keys apart.
    """
    if not len(wanted):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    shift = np.uint64(64 - max(10, len(wanted).bit_length() + _SLOTS))
    slots = np.zeros(1 << (64 - int(shift)), dtype=np.bool_)
    slots[(wanted >> shift).view(np.int64)] = True
    positions = np.flatnonzero(slots.take((key >> shift).view(np.int64)))
    at = np.searchsorted(wanted, key[positions])
    at[at == len(wanted)] = 0
    hit = wanted[at] == key[positions]
    return positions[hit], at[hit]


def _hits(
    frame: Any, gold: Gold, starts: Numbers, hashed: Keys, rows: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """The hits of a block: row, rank and document. `starts`, `hashed`, `rows`: where each query starts, its hash and row."""
    docs, score = frame["doc"], frame["score"].to_numpy()
    if not np.isfinite(score).all():  # NaN, infinity, or a number of more digits than a number holds
        raise NotPlain("a score is not finite")
    key = np.repeat(hashed, np.diff(starts))
    key ^= docs.hash(_DOC_SEED).to_numpy()
    if _twice(np.sort(key)):
        raise NotPlain("a document may stand twice in a query")
    positions, number, at = gold.found(key, docs, starts, rows)
    rank = positions - starts[number] + 1
    falls = score[1:] < score[:-1]
    falls[starts[1:-1] - 1] = True  # where a query starts
    if len(positions) and not falls.all():
        rank = _ranked(score + 0.0, docs, starts, positions, number)  # -0.0 + 0.0 is 0.0
    return rows[number], rank, at


def _ranked(score: Floats, docs: Any, starts: Numbers, place: Numbers, number: Numbers) -> Numbers:
    """The ranks of some places of a block: how many of the query's results have a greater score, or id where tied.

    Query and score are put into one whole number that sorts like them; of the score the last bits are left out.
    Places that have the same number are then compared exactly.
    """
    bits = np.uint64(max(1, (len(starts) - 2).bit_length()))
    raw = score.view(np.uint64)
    sign = np.uint64(1 << 63)
    raw = np.where(raw & sign, raw, ~(raw | sign))  # greater scores first
    queries = np.repeat(np.arange(len(starts) - 1, dtype=np.uint64), np.diff(starts))
    composite = (queries << (np.uint64(64) - bits)) | (raw >> bits)
    ordered = np.sort(composite)
    own = composite[place]
    first = np.searchsorted(ordered, own)
    size = np.searchsorted(ordered, own, side="right") - first
    rank = first - starts[number] + 1
    tied = np.flatnonzero(size > 1)
    if len(tied):
        rank[tied] += _above(score, docs, np.argsort(composite), first[tied], size[tied], place[tied])
    return rank


def _above(
    score: Floats, docs: Any, order: Numbers, first: Numbers, size: Numbers, place: Numbers
) -> Numbers:
    """How many of a group stand above each of these places: a greater score, or the same and a greater id.

    `order[first:first + size]` are the places of the group.
    """
    starts, which = np.unique(first, return_index=True)
    sizes = size[which]
    before = np.cumsum(sizes) - sizes
    within = np.arange(sizes.sum()) - np.repeat(before, sizes)
    members = order[np.repeat(starts, sizes) + within]
    frame = _polars().DataFrame(
        {"group": np.repeat(np.arange(len(starts)), sizes), "score": score[members], "doc": docs[members]}
    )
    by_id = frame.select(
        _polars().arg_sort_by("group", "score", "doc", descending=[False, True, True])
    ).to_series()
    standing = np.empty(len(score), dtype=np.int64)
    standing[members[by_id.to_numpy()]] = within
    return standing[place]


def _frames(
    path: str | Path,
    fmt: Format,
    columns: Mapping[str, str] | None,
    kind: Kind,
    block: int,
    notes: list[str] | None = None,
) -> Iterator[Any]:
    """Query, document and number of a file's rows, some whole queries at a time; remarks are added to `notes`."""
    if fmt == "trec":
        with opened(path, limited=False) as stream:
            for data in _blocks(stream, block):
                yield _parsed(data, kind)
    elif fmt == "parquet":
        yield from _whole_queries(_parquet_frames(path, columns, kind))
    elif fmt == "jsonl":
        yield from _whole_queries(_json_frames(path, kind, block))
    elif fmt in {"tsv", "csv"}:
        between = "\t" if fmt == "tsv" else ","
        head, positions, named = _table_head(path, between, columns, kind)
        frames = _whole_queries(_table_frames(path, between, head, positions, kind, block, skip=named))
        if notes is not None and not named and len(head) == 3:
            frames = _ranks_not_scores(frames, shown_name(path), notes)
        yield from frames
    else:
        raise NotPlain("a document is read as a whole")


def _whole_queries(frames: Iterator[Any]) -> Iterator[Any]:
    """The frames, cut where a query ends."""
    rest = None
    for part in frames:
        frame = part if rest is None else _polars().concat([rest, part])
        others = (frame["query"] != frame["query"].last()).arg_true()
        cut = others[-1] + 1 if len(others) else 0
        rest = frame[cut:].rechunk() if cut else frame
        if cut:
            yield frame[:cut].rechunk()
    if rest is not None and len(rest):
        yield rest


def _parquet_frames(path: str | Path, columns: Mapping[str, str] | None, kind: Kind) -> Iterator[Any]:
    """The columns of a Parquet file: its rows are results (or grades), or queries with lists."""
    roles: dict[str, str] = {}

    def chosen(names: list[str]) -> Iterable[str]:
        roles.update(frame_roles(names, shown_name(path), columns, kind))
        return roles.values()

    for batch in parquet_batches(path, chosen):
        yield _results(batch.select(**{role: _polars().col(name) for role, name in roles.items()}), kind)


def _results(frame: Any, kind: Kind) -> Any:
    """The rows of a table as query, doc and number; NotPlain where they are not three columns of results."""
    polars = _polars()
    roles, value = frame.columns, kind.value
    listed = [role for role in (kind.listed, value) if isinstance(frame.schema.get(role), polars.List)]
    if "doc" not in roles and kind.listed not in listed:
        raise NotPlain("the documents are no lists")
    if "doc" not in roles:
        frame = frame.with_columns(doc=kind.listed).drop(kind.listed)
        if value not in listed:
            places = -polars.int_ranges(polars.col("doc").list.len())
            frame = frame.with_columns((places if kind is RUN else polars.lit(1)).alias(value))
        frame = frame.explode("doc", *([value] if value in listed or kind is RUN else []))
    elif value not in roles and "rank" in roles:
        frame = frame.with_columns(score=-polars.col("rank"))
    kinds = frame.schema
    ids = [kinds[name] == polars.String or kinds[name].is_integer() for name in ("query", "doc")]
    if value not in kinds or not kinds[value].is_numeric() or not all(ids):
        raise NotPlain("a column is of another type")
    strings = [polars.col(name).cast(polars.String) for name in ("query", "doc")]
    frame = frame.select(*strings, polars.col(value).cast(polars.Float64))
    if any(column.null_count() for column in frame) or (frame["query"] == "").any():
        raise NotPlain("a value is missing")
    if kind is GOLD and (frame[value] % 1 != 0).any():
        raise NotPlain("a grade is no whole number")
    return frame


def _lines(path: str | Path, block: int, *, skip: bool = False) -> Iterator[bytes]:
    """The lines of a file in blocks, without the first one where it is to be skipped.

    NotPlain where one is too long or has control characters.
    """
    with opened(path, limited=False) as stream:
        if skip:
            stream.readline(line_limit())
        while data := stream.read(block):
            data += stream.readline(line_limit())
            if not data.endswith(b"\n") and len(data) > line_limit():
                raise NotPlain("a line is too long")
            data = data.replace(b"\r\n", b"\n")
            if data.translate(None, _PLAIN):
                raise NotPlain("there are control characters")
            yield data


def _table_head(
    path: str | Path, between: str, columns: Mapping[str, str] | None, kind: Kind
) -> tuple[list[str], Mapping[str, int], bool]:
    """The cells of a table's first line, where the column of each role stands, and whether that line is a header."""
    with opened(path, limited=False) as stream:
        line = stream.readline(line_limit())
    if b'"' in line or line.rstrip(b"\r\n").translate(None, _PLAIN):
        raise NotPlain("cells are quoted, or there are control characters")
    head = [cell.strip() for cell in _text(line).split(between)]
    try:
        return head, *table_columns(head, SourceLocation(shown_name(path), 1), kind, columns)
    except InputError as fault:
        raise NotPlain(str(fault)) from None


def _table_frames(
    path: str | Path,
    between: str,
    head: Sequence[str],
    positions: Mapping[str, int],
    kind: Kind,
    block: int,
    *,
    skip: bool,
) -> Iterator[Any]:
    """The rows of a table without quotes; `skip` the first line, which is its header."""
    polars = _polars()
    schema = {str(at): polars.String for at in range(len(head))}
    schema |= {str(at): polars.Float64 for role, at in positions.items() if role in {kind.value, "rank"}}
    roles = {role: polars.col(str(at)) for role, at in positions.items()}
    for data in _lines(path, block, skip=skip):
        if b'"' in data:
            raise NotPlain("cells are quoted")
        if not data.isspace():
            frame = _csv(data, between, schema, list(positions.values())).select(**roles)
            yield _results(frame.with_columns(polars.col("query", "doc").str.strip_chars()), kind)


def _ranks_not_scores(frames: Iterator[Any], name: str, notes: list[str]) -> Iterator[Any]:
    """Bare rows whose third column counts 1, 2, 3, ... in every query, which is the rank, with scores from it."""
    ranks = None
    for frame in frames:
        starts, _ = _queries(frame["query"])
        positions = np.arange(len(frame)) - np.repeat(starts[:-1], np.diff(starts)) + 1
        counting = bool((frame["score"].to_numpy() == positions).all())
        if ranks is None:
            ranks = counting
            notes += [read_as_rank(name)] * ranks
            if ranks and positions.max() == 1:
                raise NotPlain("one result per query says nothing")
        if ranks and not counting:
            raise NotPlain("the third column does not count everywhere")
        yield frame.with_columns(-_polars().col("score")) if ranks else frame


def _json_frames(path: str | Path, kind: Kind, block: int) -> Iterator[Any]:
    """The rows of JSON Lines that all have the same keys, and ids that are texts without escapes."""
    polars, keys, roles = _polars(), list[str](), dict[str, str]()
    for data in _lines(path, block):
        if not keys:
            keys = _keys_of(data.partition(b"\n")[0])
            roles = roles_of(keys, kind)
            if not {"query", "doc", kind.value} <= set(roles):
                raise NotPlain("a line is no single result")
        query, doc, value = (roles[role] for role in ("query", "doc", kind.value))
        try:
            schema = {query: polars.String, doc: polars.String, value: polars.Float64}
            frame = polars.read_ndjson(data, schema=schema)
        except polars.exceptions.PolarsError as error:
            raise NotPlain(str(error)) from None
        if _infinite(frame):
            raise NotPlain("a number is too large for one")
        rows = len(frame)
        if b"\\" in data or any(_count(data, f'"{key}":') != rows for key in keys):
            raise NotPlain("a line has other keys, or an escape")
        texts = sum(_count(data, f'"{key}":{blank}"') for key in (query, doc) for blank in ("", " "))
        if texts != 2 * rows or _count(data, '":') != rows * len(keys):
            raise NotPlain("a line has further keys, or an id that is no text")
        named = {"query": polars.col(query), "doc": polars.col(doc), kind.value: polars.col(value)}
        yield _results(frame.select(**named), kind)


def _keys_of(line: bytes) -> list[str]:
    try:
        first = parse_strict_json(_text(line))
    except JsonFault as fault:
        raise NotPlain(str(fault)) from None
    return list(first) if isinstance(first, dict) else []


def _count(data: bytes, text: str) -> int:
    return data.count(text.encode())


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as fault:
        raise NotPlain(str(fault)) from None


def _blocks(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """The lines of a stream in blocks of some `size` bytes, each of whole queries; a file on disk is not copied twice."""
    raw = getattr(stream, "raw", stream)
    back = isinstance(raw, io.FileIO) and raw.seekable()
    rest = b""
    while data := stream.read(size):
        ended = len(data) < size
        data = rest + data if rest else data
        end = len(data) if ended else _last_query(data)
        if end == 0:
            size *= 2
            if len(data) > line_limit() and b"\n" not in data:
                raise NotPlain("a line is too long")
        elif not (block := data[:end]).isspace():
            if len(block) > (limit := line_limit()) and any(len(line) > limit for line in io.BytesIO(block)):
                raise NotPlain("a line is too long")
            yield block if block.endswith(b"\n") else block + b"\n"
        if back:
            stream.seek(end - len(data), os.SEEK_CUR)
        else:
            rest = data[end:]
    if rest:
        yield rest if rest.endswith(b"\n") else rest + b"\n"


def _last_query(data: bytes) -> int:
    """Where the lines of the last query begin, 0 where there is no other; a line without an end is one of them."""
    end, last = _line(data, data.rfind(b"\n") + 1)
    begin = 0
    while begin < end:  # lines before `begin` are of other queries, the one at `end` is of the last
        after = data.find(b"\n", (begin + end) // 2) + 1
        start, query = _line(data, after)
        begin, end = (begin, start) if query == last else (after, end)
    return end


def _line(data: bytes, end: int) -> tuple[int, list[bytes]]:
    """Where the line that ends here starts, or the one before where it is blank, and its query."""
    while end:
        start = data.rfind(b"\n", 0, end - 1) + 1
        if query := data[start:end].split(None, 1)[:1]:
            return start, query
        end = start
    return 0, []


def _parsed(data: bytes, kind: Kind) -> Any:
    """Query, document and number of a block's lines in TREC's columns; NotPlain where a line is none of a run, or of gold."""
    polars = _polars()
    separator, data = _separated(data)
    rest = {"rank": polars.String, "score": polars.Float64, "tag": polars.String}
    schema = dict.fromkeys(("query", "0", "doc"), polars.String)
    schema |= rest if kind is RUN else {"grade": polars.Int64}
    frame = _csv(data, separator, schema, [0, 2, 4 if kind is RUN else 3])
    if kind is GOLD and data.count(separator.encode()) != 3 * len(frame):
        raise NotPlain("a line of gold has more than four columns")
    if b"#" in data and frame["query"].str.starts_with("#").any():
        raise NotPlain("there are comments")
    return frame


def _csv(data: bytes, separator: str, schema: Mapping[str, Any], columns: list[int]) -> Any:
    """Some columns of lines without quotes; NotPlain where one cannot be read or is missing in a line."""
    polars = _polars()
    if data.startswith(b"\xef\xbb\xbf"):
        raise NotPlain("a line begins with a byte-order mark, which polars would drop")
    try:
        frame = polars.read_csv(
            data,
            separator=separator,
            has_header=False,
            quote_char=None,
            columns=columns,
            schema=schema,
            truncate_ragged_lines=True,
            missing_columns="insert",
            extra_columns="ignore",
        )
    except polars.exceptions.PolarsError as error:
        raise NotPlain(str(error)) from None
    if any(column.null_count() for column in frame):
        raise NotPlain("a line has too few columns")
    for name in _infinite(frame):
        texts = _csv(data, separator, {**schema, name: polars.String}, columns)[name]
        if not texts.filter(frame[name].is_infinite()).str.contains("(?i)inf").all():
            raise NotPlain("a number is too large for one")
    return frame


def _infinite(frame: Any) -> list[str]:
    """The columns with an infinite number."""
    numbers = [column for column in frame if column.dtype == _polars().Float64]
    return [column.name for column in numbers if column.is_infinite().any()]


def _separated(data: bytes) -> tuple[str, bytes]:
    """The one byte that separates the columns, and the lines with no other white space, and none twice in a row."""
    raw = np.frombuffer(data, dtype=np.uint8)
    tabs = b"\t" in data
    if raw[0] > 32 and not (tabs and b" " in data) and _single(raw):
        return ("\t" if tabs else " "), data
    return " ", _normalised(data)


def _single(raw: NDArray[np.uint8]) -> bool:
    """Whether white space is only blanks, tabs and line feeds, with none beside another."""
    buffer = np.empty(_PIECE, dtype=np.uint8)
    for start in range(0, len(raw), _PIECE):
        piece = raw[start : start + _PIECE + 1]
        least = np.maximum(piece[1:], piece[:-1], out=buffer[: len(piece) - 1])
        if len(least) and least.min() <= 32:
            return False
        if np.subtract(piece[:_PIECE], 11, out=buffer[: min(len(piece), _PIECE)]).min() < 21:  # 11 to 31
            return False
    return True


_BLANKS = bytes.maketrans(b"\t\v\f\r", b"    ")
_CONTROL = bytes(byte for byte in range(32) if byte not in b"\t\n\v\f\r")
_PLAINER = _BLANKS.translate(bytes.maketrans(_CONTROL, bytes(len(_CONTROL))))
_USUAL = bytes(byte for byte in range(256) if byte >= 32 or byte == 10)
_PLAIN = _USUAL + b"\t"


def _normalised(data: bytes) -> bytes:
    """The lines with one blank between columns, none at the ends, and no empty lines."""
    if data.translate(None, _USUAL):
        data = data.translate(_PLAINER)
        if b"\0" in data:
            raise NotPlain("there are control characters")
    raw = np.frombuffer(data, dtype=np.uint8)
    data = b"".join(_single_blanks(raw, start) for start in range(0, len(raw), _PIECE))
    if not _single(np.frombuffer(data, dtype=np.uint8)):  # blanks at the ends of lines, or empty lines
        data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n")
        while b"\n\n" in data:
            data = data.replace(b"\n\n", b"\n")
    return data.lstrip()


def _single_blanks(raw: NDArray[np.uint8], start: int) -> bytes:
    """A piece of the bytes without the blanks that follow a blank."""
    piece = raw[start : start + _PIECE]
    kept: NDArray[np.bool_] = piece != 32
    kept[1:] |= kept[:-1].copy()
    kept[0] |= start == 0 or raw[start - 1] != 32
    return piece[kept].tobytes()
