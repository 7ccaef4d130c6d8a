"""Large runs: of each query only the ranks of its gold documents and the length of its list, block by block.

A ranked measure over gold labels needs no more of a run. Blocks of lines are parsed by polars (the extra `tables`), cut
where a query ends, so that memory is bounded by the block. Gold documents are found by a 64-bit hash of query and
document, and each find is compared exactly. What is not a plain run (an odd line, a query in two pieces, a document
twice) is left to `read_run`, which knows lines and says what is wrong.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from germane.errors import MissingPart
from germane.samples.files import line_limit, opened, shown_name
from germane.samples.frames import parquet_batches
from germane.samples.trec import frame_roles

__all__ = ["Hits", "NotPlain", "read_hits"]

BLOCK = 2 << 20
"""Bytes that are parsed together."""

_QUERY_SEED, _DOC_SEED = 1, 2
_SLOTS = 4
"""The lookup table in front of the gold has 2**_SLOTS to 2**(_SLOTS + 1) slots per document."""
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

    `queries` are the run's queries in the order of the file, `gold` the number of each in the gold (-1 = none), `lengths`
    how many results each has. A hit is a document with a grade: `row` is the number of its query in the gold, `rank`
    counts from 1. Hits are sorted by row and rank.
    """

    queries: list[str]
    gold: Numbers
    lengths: Numbers
    row: Numbers
    rank: Numbers
    grade: Floats


def read_hits(
    path: str | Path,
    qrels: Mapping[str, Mapping[str, int]],
    *,
    fmt: Literal["trec", "parquet"] = "trec",
    columns: Mapping[str, str] | None = None,
    block: int = BLOCK,
) -> Hits:
    """The hits of a run, ordered by score and then by document id, both descending, as trec_eval does.

    Raises NotPlain where `read_run` must read the file, and MissingPart where polars is not installed.
    """
    gold = _Gold(qrels)
    queries: list[str] = []
    numbers: list[Numbers] = []
    lengths: list[Numbers] = []
    found: list[tuple[Numbers, Numbers, Floats]] = []
    for frame in _parquet_frames(path, columns) if fmt == "parquet" else _trec_frames(path, block):
        names, rows, starts, hits = _hits(frame, gold)
        queries += names
        numbers.append(rows)
        lengths.append(np.diff(starts))
        found.append(hits)
    if len(set(queries)) < len(queries):
        raise NotPlain("a query is in two pieces")
    if not queries:
        raise NotPlain("there are no results")
    row, rank, grade = (np.concatenate(columns) for columns in zip(*found, strict=True))
    order = np.argsort((row << 32) | rank)
    return Hits(
        queries, np.concatenate(numbers), np.concatenate(lengths), row[order], rank[order], grade[order]
    )


def _polars() -> Any:
    try:
        import polars
    except ImportError:
        raise MissingPart("polars is not installed", fix="pip install 'germane[tables]'") from None
    return polars


class _Gold:
    """The gold documents, sorted by their key, with a table in front that tells most other documents apart."""

    def __init__(self, qrels: Mapping[str, Mapping[str, int]]) -> None:
        polars = _polars()
        docs = polars.Series([doc for grades in qrels.values() for doc in grades], dtype=polars.String)
        self._queries = polars.Series(list(qrels), dtype=polars.String)
        sizes = np.fromiter(map(len, qrels.values()), np.int64, len(qrels))
        hashed = self._queries.hash(_QUERY_SEED).to_numpy()
        key = docs.hash(_DOC_SEED).to_numpy() ^ np.repeat(hashed, sizes)
        self._row = np.argsort(hashed)
        self._hashed = hashed[self._row]
        order = np.argsort(key)
        self.key = key[order]
        if any((keys[1:] == keys[:-1]).any() for keys in (self.key, self._hashed)):
            raise NotPlain("two gold documents or queries share a hash")
        values = chain.from_iterable(grades.values() for grades in qrels.values())
        grades = np.fromiter(values, np.float64, len(docs))
        self.doc, self.grade = docs[order], grades[order]
        self.row = np.repeat(np.arange(len(qrels)), sizes)[order]
        bits = max(10, len(key).bit_length() + _SLOTS)
        self._shift = np.uint64(64 - bits)
        self._slots = np.zeros(1 << bits, dtype=np.bool_)
        self._slots[self._slot(key)] = True

    def _slot(self, key: Keys) -> Numbers:
        return (key >> self._shift).view(np.int64)

    def rows(self, queries: Any, hashed: Keys) -> Numbers:
        """The number of each query in the gold, -1 where it has none."""
        if not len(self._hashed):
            return np.full(len(hashed), -1)
        at = np.minimum(np.searchsorted(self._hashed, hashed), len(self._hashed) - 1)
        rows = self._row[at]
        same = (self._hashed[at] == hashed) & (self._queries[rows] == queries).to_numpy()
        return np.where(same, rows, -1)

    def find(self, key: Keys) -> tuple[Numbers, Numbers]:
        """The places of the keys that are gold documents' keys, and the numbers of these documents."""
        place = np.flatnonzero(self._slots.take(self._slot(key)))
        wanted = key[place]
        at = np.searchsorted(self.key, wanted)
        at[at == len(self.key)] = 0
        hit = self.key[at] == wanted
        return place[hit], at[hit]


def _hits(frame: Any, gold: _Gold) -> tuple[list[str], Numbers, Numbers, tuple[Numbers, Numbers, Floats]]:
    """The queries of a block, their numbers in the gold, where each starts (and the last ends); hits: row, rank, grade."""
    query, docs, score = frame["query"], frame["doc"], frame["score"].to_numpy()
    changes = np.flatnonzero((query[1:] != query[:-1]).to_numpy()) + 1
    starts = np.concatenate([[0], changes, [len(query)]])
    first = query[starts[:-1]]
    names: list[str] = first.to_list()
    hashed = first.hash(_QUERY_SEED).to_numpy()
    key = np.repeat(hashed, np.diff(starts))
    key ^= docs.hash(_DOC_SEED).to_numpy()
    ordered = np.sort(key)
    if (ordered[1:] == ordered[:-1]).any():
        raise NotPlain("a document may stand twice in a query")
    place, at = gold.find(key)
    number = np.searchsorted(starts, place, side="right") - 1
    numbers = gold.rows(first, hashed)
    row = numbers[number]
    same = (gold.row[at] == row) & (gold.doc[at] == docs[place]).to_numpy()
    place, at, number, row = place[same], at[same], number[same], row[same]
    rank = place - starts[number] + 1
    odd = (
        np.flatnonzero(~(score[1:] < score[:-1])) + 1
    )  # ties, rises, NaN, and most places where a query starts
    if np.isnan(score[odd]).any() or np.isnan(score[starts[:-1]]).any():
        raise NotPlain("a score is NaN")
    if len(place) and np.isin(odd, changes, invert=True).any():
        rank = _ranked(score + 0.0, docs, starts, place, number)  # -0.0 + 0.0 is 0.0
    return names, numbers, starts, (row, rank, gold.grade[at])


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


def _trec_frames(path: str | Path, block: int) -> Iterator[Any]:
    """The three columns of a TREC run, some queries at a time."""
    with opened(path, limited=False) as stream:
        yield from map(_parsed, _blocks(stream, block))


def _parquet_frames(path: str | Path, columns: Mapping[str, str] | None) -> Iterator[Any]:
    """The three columns of a Parquet file, some queries at a time: its rows are results, or queries with lists."""
    polars = _polars()
    roles: dict[str, str] = {}

    def chosen(names: list[str]) -> Iterable[str]:
        roles.update(frame_roles(names, shown_name(path), columns))
        return roles.values()

    rest = None
    for batch in parquet_batches(path, chosen):
        frame = _results(batch, roles)
        frame = frame if rest is None else polars.concat([rest, frame])
        cut = len(frame)
        if cut:
            last = (frame["query"] != frame["query"][-1]).arg_true()
            cut = last[-1] + 1 if len(last) else 0
        rest = frame[cut:].rechunk()
        if cut:
            yield frame[:cut].rechunk()
    if rest is not None and len(rest):
        yield rest


def _results(frame: Any, roles: Mapping[str, str]) -> Any:
    """The rows of a table as query, doc and score; NotPlain where they are not three columns of results."""
    polars = _polars()
    frame = frame.select(**{role: polars.col(name) for role, name in roles.items()})
    listed = [role for role in ("docs", "score") if isinstance(frame.schema.get(role), polars.List)]
    if "doc" not in roles and "docs" not in listed:
        raise NotPlain("the documents are no lists")
    if "doc" not in roles:
        frame = frame.with_columns(doc="docs").drop("docs")
        if "score" in listed:
            frame = frame.explode("doc", "score")
        else:
            frame = frame.with_columns(score=-polars.int_ranges(polars.col("doc").list.len())).explode(
                "doc", "score"
            )
    elif "score" not in roles and "rank" in roles:
        frame = frame.with_columns(score=-polars.col("rank"))
    kinds = frame.schema
    ids = [kinds[name] == polars.String or kinds[name].is_integer() for name in ("query", "doc")]
    if "score" not in kinds or not kinds["score"].is_numeric() or not all(ids):
        raise NotPlain("a column is of another type")
    strings = [polars.col(name).cast(polars.String) for name in ("query", "doc")]
    frame = frame.select(*strings, polars.col("score").cast(polars.Float64))
    if any(column.null_count() for column in frame) or (frame["query"] == "").any():
        raise NotPlain("a value is missing")
    return frame


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
            yield block if block.endswith(b"\n") else block + b"\n"
        if back:
            stream.seek(end - len(data), os.SEEK_CUR)
        else:
            rest = data[end:]
    if rest:
        yield rest if rest.endswith(b"\n") else rest + b"\n"


def _last_query(data: bytes) -> int:
    """Where the lines of the last query begin, 0 where there is no other; a line without an end is one of them."""
    begin = at = data.rfind(b"\n") + 1
    last: list[bytes] = []
    while at:
        start = data.rfind(b"\n", 0, at - 1) + 1
        query = data[start:at].split(None, 1)[:1]
        if last and query and query != last:
            return begin
        if query:
            last, begin = query, start
        at = start
    return 0


_COLUMNS = ("query", "", "doc", "rank", "score", "tag")


def _parsed(data: bytes) -> Any:
    """The three columns of a block's lines; NotPlain where a line is not five columns with a number in the fifth."""
    polars = _polars()
    separator, data = _separated(data)
    schema = {name: polars.Float64 if name == "score" else polars.String for name in _COLUMNS}
    try:
        frame = polars.read_csv(
            data,
            separator=separator,
            has_header=False,
            quote_char=None,
            columns=[0, 2, 4],
            schema=schema,
            truncate_ragged_lines=True,
            missing_columns="insert",
            extra_columns="ignore",
        )
    except polars.exceptions.PolarsError as error:
        raise NotPlain(str(error)) from None
    if any(column.null_count() for column in frame):
        raise NotPlain("a line has too few columns")
    if frame["query"].str.starts_with("#").any():
        raise NotPlain("there are comments")
    return frame


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
_PLAINER = bytes.maketrans(_CONTROL, bytes(len(_CONTROL)))


def _normalised(data: bytes) -> bytes:
    """The lines with one blank between columns, none at the ends, and no empty lines."""
    raw = np.frombuffer(data, dtype=np.uint8)
    if ((raw < 32) != (raw == 10)).any():
        data = data.translate(_BLANKS.translate(_PLAINER))
        if b"\0" in data:
            raise NotPlain("there are control characters")
        raw = np.frombuffer(data, dtype=np.uint8)
    blank = raw == 32
    raw = raw[np.concatenate([[True], ~(blank[1:] & blank[:-1])])]
    data, feed, space = raw.tobytes(), raw == 10, raw <= 32
    if (space[1:] & space[:-1] & (feed[1:] | feed[:-1])).any():  # blanks at the ends of lines, or empty lines
        data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n")
        while b"\n\n" in data:
            data = data.replace(b"\n\n", b"\n")
    return data.lstrip()
