"""Runs and gold in columns: of each query only the ranks of its gold documents and the length of its list, block by block.

A ranked measure over gold labels needs no more of a run. A block of plain lines becomes columns by numpy: where each field starts
and ends, its bytes as words of eight, numbers from their digits. Blocks are cut where a query ends, so that memory is bounded by the
block and the gold. A hash of words finds the rows that may be gold documents, and the words decide. A file that is not plain (an odd
line, a query in two pieces, a document twice, a quoted cell, an id in JSON that is no text) is left to `read_run` and `read_qrels`,
which know lines and name faults.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.errors import InputError, SourceLocation
from germane.samples.files import JsonFault, opened, parse_json_lines, parse_strict_json, shown_name
from germane.samples.frames import parquet_batches
from germane.samples.runs.columns import Fields, Keys, Rows, Texts
from germane.samples.runs.ranks import read_as_rank
from germane.samples.runs.results import (
    EXAMPLES,
    GOLD,
    LARGEST_GRADE,
    RUN,
    Floats,
    Format,
    Hits,
    Kind,
    NotTabular,
    Numbers,
)
from germane.samples.runs.roles import frame_roles, roles_of, table_columns

BLOCK = 1 << 20
"""Bytes that are parsed together."""
_PIECE = 1 << 17
"""Bytes that are looked through together, which stay in the processor's cache."""
_SEEDS = np.zeros(1, np.uint64)
"""The seed of the hashes of queries."""
_SLOTS = 4
"""The lookup table in front of a block's gold has 2**_SLOTS to 2**(_SLOTS + 1) slots per document."""


class Gold:
    """Gold in columns: its queries, how many documents each has (`sizes`), the documents and their grades."""

    def __init__(self, queries: Texts, sizes: Numbers, docs: Texts, grades: Floats) -> None:
        self.queries, self.sizes, self.docs, self.grades = queries, sizes, docs, grades
        hashed = queries.hashed(_SEEDS)
        self._order = np.argsort(hashed)
        self._sorted = hashed[self._order]
        self._starts = np.cumsum(sizes) - sizes
        self._key = docs.hashed(np.repeat(np.arange(len(sizes), dtype=np.uint64), sizes))
        if _has_duplicates(self._sorted) or _has_duplicates(np.sort(self._key)):
            raise NotTabular("a query or a document may be in the gold twice")

    @classmethod
    def of(cls, qrels: Mapping[str, Mapping[str, int]]) -> Gold | None:
        """The columns of a mapping; None where two of its hashes are equal."""
        docs = Texts.of([doc for grades in qrels.values() for doc in grades])
        sizes = np.fromiter(map(len, qrels.values()), np.int64, len(qrels))
        values = chain.from_iterable(grades.values() for grades in qrels.values())
        grades = np.fromiter(values, np.float64, len(docs))
        try:
            return cls(Texts.of(list(qrels)), sizes, docs, grades)
        except NotTabular:
            return None

    @classmethod
    def read(cls, path: str | Path, fmt: Format, columns: Mapping[str, str] | None = None) -> Gold | None:
        """The gold in a file; None where `read_qrels` must read it."""
        try:
            some = [
                (
                    rows.query[rows.starts[:-1]].compact(),
                    np.diff(rows.starts),
                    rows.doc.compact(),
                    rows.number,
                )
                for rows in _rows(path, fmt, columns, GOLD, [])
            ]
            if not some:
                return None
            queries, sizes, docs, grades = zip(*some, strict=True)
            some.clear()
            all_grades = np.concatenate(grades)
            if not (abs(all_grades) <= LARGEST_GRADE).all() or (all_grades % 1).any():
                return None
            return cls(Texts.joined(queries), np.concatenate(sizes), Texts.joined(docs), all_grades)
        except NotTabular:
            return None

    def rows(self, queries: Texts, hashed: Keys) -> Numbers:
        """The number of each of these queries, -1 where there is none."""
        if not len(self._sorted):
            return np.full(len(hashed), -1)
        at = np.minimum(np.searchsorted(self._sorted, hashed), len(self._sorted) - 1)
        rows = np.where(self._sorted[at] == hashed, self._order[at], np.int64(-1))
        has = np.flatnonzero(rows >= 0)
        if not queries[has].equals(self.queries[rows[has]]).all():
            raise NotTabular("two queries have the same hash")
        return rows

    @property
    def ids(self) -> tuple[bytes, Numbers]:
        """The queries one after another, and where each ends."""
        return b"".join(self.queries.bytes()), np.cumsum(self.queries.end - self.queries.start)

    def matches(self, key: Keys, docs: Texts, number: Numbers, rows: Numbers) -> tuple[Numbers, Numbers]:
        """The gold documents in some results: their positions, and their numbers here.

        `key` are the hashes of the results with the numbers of their queries here, `number` the positions of these queries in `rows`.
        """
        judged = np.flatnonzero(rows >= 0)
        sizes = self.sizes[rows[judged]]
        of_query = np.repeat(judged, sizes)
        at = np.arange(len(of_query)) + np.repeat(
            self._starts[rows[judged]] - np.cumsum(sizes) + sizes, sizes
        )
        order = np.argsort(self._key[at])
        of_query, at = of_query[order], at[order]
        positions, hit = _find(key, self._key[at])
        of_query, at = of_query[hit], at[hit]
        same = (number[positions] == of_query) & docs[positions].equals(self.docs[at])
        return positions[same], at[same]


def read_hits(
    path: str | Path, gold: Gold, fmt: Format, columns: Mapping[str, str] | None = None
) -> Hits | None:
    """The hits of a run, ordered by score and then by document id, both descending, as trec_eval does.

    None where `read_run` must read the file.
    """
    try:
        return _hits(path, gold, fmt, columns)
    except NotTabular:
        return None


def read_lists(
    path: str | Path, fmt: Format, columns: Mapping[str, str] | None = None
) -> Iterator[dict[str, list[str]]]:
    """The ids of each query's results, in the order of the file, some queries at a time."""
    for rows in _rows(path, fmt, columns, RUN, []):
        starts, docs = rows.starts, rows.doc.to_list()
        bounds = zip(rows.query[starts[:-1]], starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        yield {query: docs[first:end] for query, first, end in bounds}


def _hits(path: str | Path, gold: Gold, fmt: Format, columns: Mapping[str, str] | None) -> Hits:
    notes, ignored = list[str](), list[str]()  # the first queries without gold
    others = array("Q")  # the hashes of all of them
    lengths, tied = np.full(len(gold.sizes), -1), 0
    found: list[tuple[Numbers, Numbers, Numbers]] = []
    for rows in _rows(path, fmt, columns, RUN, notes):
        block = _Block(rows, gold)
        if not block.has.all():
            names = block.queries[~block.has]
            ignored += names[: EXAMPLES - len(ignored)].to_list()
            others.frombytes(block.hashed[~block.has].tobytes())
        if not block.has.any():
            continue
        judged = block.row[block.has]
        if (lengths[judged] >= 0).any() or len(np.unique(judged)) < len(judged):
            raise NotTabular("a query is in two pieces")
        lengths[judged] = np.diff(rows.starts)[block.has]
        positions, doc = gold.matches(block.key, block.docs, block.number, block.row)
        number = block.number[positions]
        found.append((block.row[number], block.ranks(positions, number), doc))
        moved = block.moved_ties(positions, number)
        tied += len(np.unique(number[moved[gold.grades[doc[moved]] > 0]]))
    if not found and not others:
        raise NotTabular("there are no results")
    if _has_duplicates(np.sort(np.asarray(others))):
        raise NotTabular("a query is in two pieces")
    none = np.empty(0, np.int64)
    row, rank, doc = map(np.concatenate, zip(*(found or [(none, none, none)]), strict=True))
    order = np.argsort((row << 32) | rank)
    return Hits(
        queries=gold.queries,
        sizes=gold.sizes,
        docs=gold.docs,
        grades=gold.grades,
        lengths=lengths,
        ignored=len(others),
        first_ignored=ignored,
        row=row[order],
        rank=rank[order],
        doc=doc[order],
        ids=gold.ids,
        notes=notes,
        tied=tied,
    )


class _Block:
    """Some queries of a run with all their results, and the number of each query in the gold."""

    def __init__(self, rows: Rows, gold: Gold) -> None:
        self.starts, self.docs, self._score = rows.starts, rows.doc, rows.number
        self.queries: Texts = rows.query[self.starts[:-1]]
        self.hashed = self.queries.hashed(_SEEDS)
        self.row = gold.rows(self.queries, self.hashed)
        self.has = self.row >= 0
        sizes = np.diff(self.starts)
        self.number = np.repeat(np.arange(len(sizes)), sizes)
        """The position of each result's query in this block."""
        if not np.isfinite(self._score).all():  # NaN, infinity, or more than a number holds
            raise NotTabular("a score is not finite")
        self.key = self.docs.hashed(self.row[self.number].astype(np.uint64))
        ours = self.key if self.has.all() else self.key[self.has[self.number]]
        if _has_duplicates(np.sort(ours)):
            raise NotTabular("a document may be in a query twice")

    def ranks(self, positions: Numbers, number: Numbers) -> Numbers:
        """The ranks of the results at some positions; `number` are those of their queries."""
        if not len(positions) or self._falls:
            return positions - self.starts[number] + 1
        return self._ranks[positions]

    def moved_ties(self, positions: Numbers, number: Numbers) -> Numbers:
        """Which of the results stand elsewhere than in the file, though the scores of their query never rise in it."""
        if not len(positions) or self._falls:
            return np.empty(0, np.int64)
        rises = self._score[1:] > self._score[:-1]
        rises[self.starts[1:-1] - 1] = False
        unsorted = np.zeros(len(self.starts) - 1, np.bool_)
        unsorted[np.searchsorted(self.starts, np.flatnonzero(rises) + 1, "right") - 1] = True
        elsewhere = self._ranks[positions] != positions - self.starts[number] + 1
        return np.flatnonzero(elsewhere & ~unsorted[number])

    @cached_property
    def _falls(self) -> bool:
        """True if the scores of each query fall from result to result."""
        falls = self._score[1:] < self._score[:-1]
        falls[self.starts[1:-1] - 1] = True  # where a query starts
        return bool(falls.all())

    @cached_property
    def _ranks(self) -> Numbers:
        """The rank of each result within its query: by score, and by id where that is tied, both descending."""
        score = self._score + 0.0  # -0.0 + 0.0 is 0.0
        bits = np.uint64(max(1, (len(self.starts) - 2).bit_length()))
        raw, sign = score.view(np.uint64), np.uint64(1 << 63)
        raw = np.where(raw & sign, raw, ~(raw | sign))  # greater scores first
        # query and score in one whole number that sorts like them, but for the last bits of the score
        composite = (self.number.astype(np.uint64) << (np.uint64(64) - bits)) | (raw >> bits)
        order = np.argsort(composite)
        ordered = composite[order]
        same = ordered[1:] == ordered[:-1]
        if same.any():
            tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
            members = order[tied]
            keys = (*self.docs[members].descending(), -score[members], ordered[tied])
            order[tied] = members[np.lexsort(keys)]
        rank = np.empty(len(score), dtype=np.int64)
        rank[order] = np.arange(1, len(score) + 1) - np.repeat(self.starts[:-1], np.diff(self.starts))
        return rank


def _has_duplicates(ordered: NDArray[Any]) -> bool:
    return bool((ordered[1:] == ordered[:-1]).any())


def _find(key: Keys, sorted_keys: Keys) -> tuple[Numbers, Numbers]:
    """The positions of the keys that are wanted ones, which are sorted, and the positions of these.

    A table in front of them tells most other keys apart.
    """
    if not len(sorted_keys):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    shift = np.uint64(64 - max(10, len(sorted_keys).bit_length() + _SLOTS))
    slots = np.zeros(1 << (64 - int(shift)), dtype=np.bool_)
    slots[(sorted_keys >> shift).view(np.int64)] = True
    positions = np.flatnonzero(slots.take((key >> shift).view(np.int64)))
    at = np.searchsorted(sorted_keys, key[positions])
    at[at == len(sorted_keys)] = 0
    hit = sorted_keys[at] == key[positions]
    return positions[hit], at[hit]


def _rows(
    path: str | Path, fmt: Format, columns: Mapping[str, str] | None, kind: Kind, notes: list[str]
) -> Iterator[Rows]:
    """A file's rows, some whole queries at a time; remarks are added to `notes`."""
    if fmt == "trec":
        yield from _whole_queries(_trec_rows(path, kind))
    elif fmt == "parquet":
        yield from _whole_queries(_parquet_rows(path, columns, kind))
    elif fmt == "jsonl":
        yield from _whole_queries(_json_rows(path, columns, kind))
    elif fmt in {"tsv", "csv"}:
        between = "\t" if fmt == "tsv" else ","
        head, positions, named = _table_head(path, between, columns, kind)
        rows = _whole_queries(_table_rows(path, between, positions, kind, skip=named))
        if kind is RUN and not named and len(head) == 3:
            rows = _ranks_not_scores(rows, shown_name(path), notes)
        yield from rows
    else:
        raise NotTabular("a document is read as a whole")


def _whole_queries(blocks: Iterator[Rows]) -> Iterator[Rows]:
    """The rows, cut where a query ends."""
    open_query: list[Rows] = []  # its rows so far
    for rows in filter(len, blocks):
        cut = int(rows.starts[-2])
        first = rows.query[:1]
        if open_query and (cut or not open_query[0].query[:1].equals(first)[0]):
            yield Rows.joined([*open_query, rows[:cut]])
            open_query = []
        elif cut:
            yield rows[:cut]
        open_query.append(rows[cut:].compact())
    if open_query:
        yield Rows.joined(open_query)


def _parquet_rows(path: str | Path, columns: Mapping[str, str] | None, kind: Kind) -> Iterator[Rows]:
    """The rows of a Parquet file: results (or grades), or queries with lists."""
    roles: dict[str, str] = {}

    def chosen(names: list[str]) -> Iterable[str]:
        roles.update(frame_roles(names, shown_name(path), columns, kind))
        return roles.values()

    for batch in parquet_batches(path, chosen):
        yield _results({role: batch[name] for role, name in roles.items()}, kind)


def _results(frame: Mapping[str, Any], kind: Kind) -> Rows:
    """Columns of polars as rows; NotTabular where they are not three columns of results."""
    import polars as pl  # reads Parquet alone

    table, value = pl.DataFrame(dict(frame)), kind.value
    listed = [role for role in (kind.list_role, value) if isinstance(table.schema.get(role), pl.List)]
    if "doc" not in frame and kind.list_role not in listed:
        raise NotTabular("the documents are not lists")
    if "doc" not in frame:
        table = table.with_columns(doc=kind.list_role).drop(kind.list_role)
        if value not in listed:
            counted = -pl.int_ranges(pl.col("doc").list.len())
            table = table.with_columns((counted if kind is RUN else pl.lit(1)).alias(value))
        table = table.explode("doc", *([value] if value in listed or kind is RUN else []))
    elif value not in frame and "rank" in frame:
        table = table.with_columns(score=-pl.col("rank"))
    kinds = table.schema
    ids = [kinds[name] == pl.String or kinds[name].is_integer() for name in ("query", "doc")]
    if value not in kinds or not kinds[value].is_numeric() or not all(ids):
        raise NotTabular("a column is of another type")
    ranks = (
        table["rank"].cast(pl.Float64).to_numpy()
        if "doc" in frame and "rank" in kinds and kinds["rank"].is_numeric()
        else None
    )
    table = table.select(pl.col("query", "doc").cast(pl.String), pl.col(value).cast(pl.Float64))
    if any(column.null_count() for column in table):
        raise NotTabular("a value is missing")
    query, doc = map(_texts, (table["query"], table["doc"]))
    return _checked(Rows(query, doc, table[value].to_numpy()), ranks if value in frame else None, kind)


def _texts(column: Any) -> Texts:
    """The texts of a column of polars."""
    ends = np.cumsum(column.str.len_bytes().to_numpy(), dtype=np.int64)
    data = column.str.join("").item().encode() if len(column) else b""
    return Texts(np.frombuffer(data, np.uint8), np.concatenate([[0], ends])[: len(ends)], ends)


def _checked(rows: Rows, ranks: Floats | None, kind: Kind) -> Rows:
    """The rows; NotTabular where a query has no name, or the scores of every query rise with its ranks."""
    if (rows.query.start == rows.query.end).any():
        raise NotTabular("a value is missing")
    if kind is RUN and ranks is not None:
        number = np.repeat(np.arange(len(rows.starts) - 1), np.diff(rows.starts))
        order = np.lexsort((ranks, number))
        if all(_rises(values[order], rows.starts) for values in (ranks, rows.number)):
            raise NotTabular("scores rise down the ranks")
    return rows


def _blocks(path: str | Path, *, skip: bool = False) -> Iterator[bytes]:
    """The lines of a file in blocks that are not blank, without the first line where it is to be skipped."""
    with opened(path) as stream:
        if skip:
            stream.readline()
        while data := stream.read(BLOCK):
            data += stream.readline()
            if not data.isspace():
                yield data if data.endswith(b"\n") else data + b"\n"


_USUAL = bytes(byte for byte in range(256) if byte >= 32 or byte in b"\t\n")


def _plain_blocks(path: str | Path, *, skip: bool = False) -> Iterator[bytes]:
    """Such blocks with line feeds alone; NotTabular where there are control characters."""
    for block in _blocks(path, skip=skip):
        data = block.replace(b"\r\n", b"\n") if b"\r" in block else block
        if data.translate(None, _USUAL):
            raise NotTabular("there are control characters")
        yield data


def _table_head(
    path: str | Path, between: str, columns: Mapping[str, str] | None, kind: Kind
) -> tuple[list[str], Mapping[str, int], bool]:
    """The cells of a table's first line, where the column of each role stands, and whether that line is a header."""
    with opened(path) as stream:
        line = stream.readline()
    if b'"' in line or line.rstrip(b"\r\n").translate(None, _USUAL):
        raise NotTabular("cells are quoted, or there are control characters")
    try:
        head = [cell.strip() for cell in line.decode().split(between)]
        return head, *table_columns(head, SourceLocation(shown_name(path), 1), kind, columns)
    except (UnicodeDecodeError, InputError) as fault:
        raise NotTabular(str(fault)) from None


def _table_rows(
    path: str | Path, between: str, positions: Mapping[str, int], kind: Kind, *, skip: bool
) -> Iterator[Rows]:
    """The rows of a table without quotes; `skip` the first line, which is its header."""
    value = kind.value if kind.value in positions else "rank"
    if not {"query", "doc", value} <= positions.keys():
        raise NotTabular("it has no column of single documents with numbers")
    for data in _plain_blocks(path, skip=skip):
        if b'"' in data:
            raise NotTabular("cells are quoted")
        lines = data.lstrip(b"\n")
        while b"\n\n" in lines:
            lines = lines.replace(b"\n\n", b"\n")
        fields = Fields(lines, between)
        query, doc = (fields.texts(positions[role], strip=True) for role in ("query", "doc"))
        ranks = fields.numbers(positions["rank"]) if "rank" in positions else None
        numbers = fields.numbers(positions[value])
        yield _checked(
            Rows(query, doc, -numbers if value == "rank" else numbers),
            None if value == "rank" else ranks,
            kind,
        )


def _ranks_not_scores(blocks: Iterator[Rows], name: str, notes: list[str]) -> Iterator[Rows]:
    """Bare rows, with scores made of their third column where it counts 1, 2, 3, ... in every query: it is the rank then.

    NotTabular where the first rows leave it open (1 to n in another order, from 0, or numbers that rise): `read_run` decides.
    """
    ranks: bool | None = None
    for rows in blocks:
        starts, numbers = rows.starts, rows.number
        sizes = np.diff(starts)
        positions = np.arange(len(rows)) - np.repeat(starts[:-1], sizes) + 1
        counting = bool((numbers == positions).all())
        if ranks is None:
            least, most = (ends.reduceat(numbers, starts[:-1]) for ends in (np.minimum, np.maximum))
            numbered = bool((np.isin(least, [0, 1]) & (most == least + sizes - 1)).all())
            ranks = counting and bool(sizes.max() > 2)
            if not ranks and (numbered or _rises(numbers, starts)):
                raise NotTabular("the third column may be the rank")
            notes += [read_as_rank(name)] if ranks else []
        if ranks and not counting:
            raise NotTabular("the third column does not count everywhere")
        yield Rows(rows.query, rows.doc, -numbers) if ranks else rows


def _rises(numbers: Floats, starts: Numbers) -> bool:
    """True if the numbers of every query rise from row to row; `starts` are where each query starts and the last ends."""
    rises = numbers[1:] > numbers[:-1]
    rises[starts[1:-1] - 1] = True  # where a query starts
    return bool(rises.all()) and bool((np.diff(starts) > 1).any())


def _json_rows(path: str | Path, columns: Mapping[str, str] | None, kind: Kind) -> Iterator[Rows]:
    """The rows of JSON Lines that all have the same keys, and ids that are texts without escapes."""
    keys, names = list[str](), list[str]()
    for data in _plain_blocks(path):
        if not keys:
            keys = _keys_of(data.partition(b"\n")[0])
            roles = roles_of(keys, kind, columns)
            if not {"query", "doc", kind.value} <= set(roles):
                raise NotTabular("a line is not a single result")
            names = [roles[role] for role in ("query", "doc", kind.value)]
        try:
            records = parse_json_lines(data)
        except ValueError as fault:
            raise NotTabular(str(fault)) from None
        count = len(records)
        odd = not data.startswith(b"{") or data.count(b"\n{") != count - 1 or data.count(b"}\n") != count
        if odd or data.count(b"\n") != count:
            raise NotTabular("a line is not one object")
        once = all(data.count(f'"{key}":'.encode()) == count for key in keys)
        if b"\\" in data or not once or data.count(b'":') != count * len(keys):
            raise NotTabular("a line has other keys, or an escape")
        if not all(isinstance(record, dict) for record in records):
            raise NotTabular("a line is no object")
        queries, docs, numbers = ([record.get(name) for record in records] for name in names)
        if {*map(type, queries), *map(type, docs)} != {str} or not {*map(type, numbers)} <= {int, float}:
            raise NotTabular("an id is no text, or a value no number")
        try:
            made = np.array(numbers, np.float64)
        except OverflowError:
            raise NotTabular("a number is too large") from None
        yield _checked(Rows(Texts.of(queries), Texts.of(docs), made), None, kind)


def _keys_of(line: bytes) -> list[str]:
    try:
        first = parse_strict_json(line.decode())
    except (JsonFault, UnicodeDecodeError) as fault:
        raise NotTabular(str(fault)) from None
    return list(first) if isinstance(first, dict) else []


def _trec_rows(path: str | Path, kind: Kind) -> Iterator[Rows]:
    """The rows of lines in TREC's columns; NotTabular where a line is none of a run, or of gold."""
    for number, block in enumerate(_blocks(path)):
        fields = Fields(_separated(block), " ")
        query, doc = fields.texts(0), fields.texts(2)
        if (fields.data[query.start] == ord("#")).any():
            raise NotTabular("there are comments")
        if kind is GOLD:
            if (fields.counts != 4).any():
                raise NotTabular("a line of gold has not four columns")
            yield Rows(query, doc, fields.numbers(3, whole=True))
            continue
        ranks = None
        if not number:  # the first block says whether all scores rise down the ranks
            with suppress(NotTabular):  # the rank is no number, and nobody reads it
                ranks = fields.numbers(3)
        yield _checked(Rows(query, doc, fields.numbers(4)), ranks, kind)


def _separated(data: bytes) -> bytes:
    """The lines with blanks or tabs between columns, and none twice in a row."""
    if data[0] > 32 and _single(data):
        return data
    data = data.translate(_BLANKS)
    if data.translate(None, _USUAL):
        raise NotTabular("there are control characters")
    raw = np.frombuffer(data, dtype=np.uint8)
    data = b"".join(_single_blanks(raw, start) for start in range(0, len(raw), _PIECE))
    if not _single(data):  # blanks at the ends of lines, or empty lines
        data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n")
        while b"\n\n" in data:
            data = data.replace(b"\n\n", b"\n")
    return data.lstrip()


_BLANKS = bytes.maketrans(b"\t\v\f\r", b"    ")


def _single(data: bytes) -> bool:
    """True if white space is only blanks, tabs and line feeds, none of them after another."""
    raw = np.frombuffer(data, dtype=np.uint8)
    controls = (raw - 11).min() < 21  # 11 to 31: smaller numbers wrap around
    return not controls and (len(raw) < 2 or np.maximum(raw[1:], raw[:-1]).min() > 32)


def _single_blanks(raw: NDArray[np.uint8], start: int) -> bytes:
    """A piece of the bytes without the blanks that follow a blank."""
    piece = raw[start : start + _PIECE]
    kept: NDArray[np.bool_] = piece != 32
    kept[1:] |= kept[:-1].copy()
    kept[0] |= start == 0 or raw[start - 1] != 32
    return piece[kept].tobytes()
