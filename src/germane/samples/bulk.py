"""Large runs: of each query only the ranks of its gold documents and the length of its list, block by block, by polars.

A ranked measure over gold labels needs no more of a run. Blocks are cut where a query ends, so that memory is bounded by
the block and the gold. Gold documents are found by a 64-bit hash of query and document, and each match is compared exactly.
A file that is not plain (an odd line, a query in two pieces, a document twice, a quoted cell, an id in JSON that is no
text) is left to `read_run` and `read_qrels`, which know lines and name faults. The extra `tables` brings polars: import
this module where it is installed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from germane.errors import InputError, SourceLocation
from germane.samples.files import JsonFault, opened, parse_strict_json, shown_name
from germane.samples.frames import parquet_batches
from germane.samples.trec import (
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
    frame_roles,
    read_as_rank,
    roles_of,
    table_columns,
)

BLOCK = 2 << 20
"""Bytes that are parsed together."""
_PIECE = 1 << 17
"""Bytes that are looked through together, which stay in the processor's cache."""
_QUERY_SEED, _DOC_SEED = 1, 2
_SLOTS = 4
"""The lookup table in front of a block's gold has 2**_SLOTS to 2**(_SLOTS + 1) slots per document."""

Keys: TypeAlias = NDArray[np.uint64]


class Gold:
    """Gold in columns: its queries, how many documents each has (`sizes`), the documents and their grades."""

    def __init__(self, queries: pl.Series, sizes: Numbers, docs: pl.Series, grades: Floats) -> None:
        self.queries, self.sizes, self.docs, self.grades = queries, sizes, docs, grades
        hashed = queries.hash(_QUERY_SEED).to_numpy()
        self._order = np.argsort(hashed).astype(np.int32)
        self._sorted = hashed[self._order]
        self._starts = np.cumsum(sizes) - sizes
        self._key = docs.hash(_DOC_SEED).to_numpy() ^ np.repeat(hashed, sizes)
        if _has_duplicates(self._sorted) or _has_duplicates(np.sort(self._key)):
            raise NotTabular("a query or a document may stand twice in the gold")

    @classmethod
    def of(cls, qrels: Mapping[str, Mapping[str, int]]) -> Gold | None:
        """The columns of a mapping; None where two of its hashes are equal."""
        docs = pl.Series([doc for grades in qrels.values() for doc in grades], dtype=pl.String)
        sizes = np.fromiter(map(len, qrels.values()), np.int64, len(qrels))
        values = chain.from_iterable(grades.values() for grades in qrels.values())
        grades = np.fromiter(values, np.float64, len(docs))
        try:
            return cls(pl.Series(list(qrels), dtype=pl.String), sizes, docs, grades)
        except NotTabular:
            return None

    @classmethod
    def read(cls, path: str | Path, fmt: Format, columns: Mapping[str, str] | None = None) -> Gold | None:
        """The gold in a file; None where `read_qrels` must read it."""
        try:
            frames = list(_frames(path, fmt, columns, GOLD, []))
            if not frames:
                return None
            frame = pl.concat(frames, rechunk=True)
            frames.clear()
            starts, queries = _queries(frame["query"])
            grades = frame["grade"].cast(pl.Float64).to_numpy()
            if not (abs(grades) <= LARGEST_GRADE).all() or (grades % 1).any():
                return None
            return cls(queries, np.diff(starts), frame["doc"], grades)
        except NotTabular:
            return None

    def rows(self, hashed: Keys) -> Numbers:
        """The number of each query with one of these hashes, -1 where there is none."""
        if not len(self._sorted):
            return np.full(len(hashed), -1)
        at = np.minimum(np.searchsorted(self._sorted, hashed), len(self._sorted) - 1)
        return np.where(self._sorted[at] == hashed, self._order[at], np.int64(-1))

    @property
    def ids(self) -> tuple[bytes, Numbers]:
        """The queries one after another, and where each ends."""
        ends = np.cumsum(self.queries.str.len_bytes().to_numpy(), dtype=np.int64)
        return self.queries.str.join("").item().encode(), ends

    def matches(
        self, key: Keys, docs: pl.Series, starts: Numbers, rows: Numbers
    ) -> tuple[Numbers, Numbers, Numbers]:
        """The gold documents in some results: their positions, the positions of their queries in `rows`, and their numbers here.

        `starts` are where the results of each query start and the last end, `rows` the number of each query here.
        """
        judged = np.flatnonzero(rows >= 0)
        sizes = self.sizes[rows[judged]]
        number = np.repeat(judged, sizes)
        at = np.arange(len(number)) + np.repeat(self._starts[rows[judged]] - np.cumsum(sizes) + sizes, sizes)
        order = np.argsort(self._key[at])
        number, at = number[order], at[order]
        positions, hit = _find(key, self._key[at])
        number, at = number[hit], at[hit]
        own = (starts[number] <= positions) & (positions < starts[number + 1])
        same = own & (self.docs[at] == docs[positions]).to_numpy()
        return positions[same], number[same], at[same]


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
    for frame in _frames(path, fmt, columns, RUN, []):
        starts, queries = _queries(frame["query"])
        docs = frame["doc"].to_list()
        bounds = zip(queries.to_list(), starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        yield {query: docs[first:end] for query, first, end in bounds}


def _hits(path: str | Path, gold: Gold, fmt: Format, columns: Mapping[str, str] | None) -> Hits:
    notes, ignored = list[str](), list[str]()  # the first queries without gold
    others = array("Q")  # the hashes of all of them
    lengths, tied = np.full(len(gold.sizes), -1), 0
    found: list[tuple[Numbers, Numbers, Numbers]] = []
    for frame in _frames(path, fmt, columns, RUN, notes):
        block = _Block(frame)
        rows = gold.rows(block.hashed)
        has = rows >= 0
        if not has.all():
            ignored += block.queries.filter(~has)[: EXAMPLES - len(ignored)].to_list()
            others.frombytes(block.hashed[~has].tobytes())
        if not has.any():
            continue
        judged = rows[has]
        if not (gold.queries[judged] == block.queries.filter(has)).all():
            raise NotTabular("two queries have the same hash")
        if (lengths[judged] >= 0).any():
            raise NotTabular("a query is in two pieces")
        lengths[judged] = np.diff(block.starts)[has]
        positions, number, doc = gold.matches(block.key, block.docs, block.starts, rows)
        found.append((rows[number], block.ranks(positions, number), doc))
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
    """Some queries of a run with all their results."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.starts, self.queries = _queries(frame["query"])
        self.docs, self._score = frame["doc"], frame["score"].to_numpy()
        self.hashed: Keys = self.queries.hash(_QUERY_SEED).to_numpy()
        self.key = np.repeat(self.hashed, np.diff(self.starts))
        self.key ^= self.docs.hash(_DOC_SEED).to_numpy()
        if not np.isfinite(self._score).all():  # NaN, infinity, or more than a number holds
            raise NotTabular("a score is not finite")
        if _has_duplicates(np.sort(self.key)):
            raise NotTabular("a document may stand twice in a query")
        if _has_duplicates(np.sort(self.hashed)):
            raise NotTabular("a query is in two pieces")

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
        return _ranks(self._score + 0.0, self.docs, self.starts)  # -0.0 + 0.0 is 0.0


def _queries(query: pl.Series) -> tuple[Numbers, pl.Series]:
    """The row at which each query of a column starts (and the last ends), and the queries."""
    changes = np.flatnonzero((query[1:] != query[:-1]).to_numpy()) + 1
    starts = np.concatenate([[0], changes, [len(query)]])
    return starts, query[starts[:-1]]


def _has_duplicates(ordered: Keys) -> bool:
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


def _ranks(score: Floats, docs: pl.Series, starts: Numbers) -> Numbers:
    """The rank of each result of a block within its query: by score, and by id where that is tied, both descending.

    Query and score are put into one whole number that sorts like them; of the score the last bits are left out. Results
    that have the same number are then compared exactly.
    """
    bits = np.uint64(max(1, (len(starts) - 2).bit_length()))
    sizes = np.diff(starts)
    raw = score.view(np.uint64)
    sign = np.uint64(1 << 63)
    raw = np.where(raw & sign, raw, ~(raw | sign))  # greater scores first
    queries = np.repeat(np.arange(len(sizes), dtype=np.uint64), sizes)
    composite = (queries << (np.uint64(64) - bits)) | (raw >> bits)
    order = np.argsort(composite)
    ordered = composite[order]
    same = ordered[1:] == ordered[:-1]
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
        members = order[tied]
        frame = pl.DataFrame({"group": ordered[tied], "score": score[members], "doc": docs[members]})
        by_id = pl.arg_sort_by("group", "score", "doc", descending=[False, True, True])
        order[tied] = members[frame.select(by_id).to_series().to_numpy()]
    rank = np.empty(len(score), dtype=np.int64)
    rank[order] = np.arange(1, len(score) + 1) - np.repeat(starts[:-1], sizes)
    return rank


def _frames(
    path: str | Path, fmt: Format, columns: Mapping[str, str] | None, kind: Kind, notes: list[str]
) -> Iterator[pl.DataFrame]:
    """Query, document and number of a file's rows, some whole queries at a time; remarks are added to `notes`."""
    if fmt == "trec":
        yield from _whole_queries(_trec_frames(path, kind))
    elif fmt == "parquet":
        yield from _whole_queries(_parquet_frames(path, columns, kind))
    elif fmt == "jsonl":
        yield from _whole_queries(_json_frames(path, columns, kind))
    elif fmt in {"tsv", "csv"}:
        between = "\t" if fmt == "tsv" else ","
        head, positions, named = _table_head(path, between, columns, kind)
        frames = _whole_queries(_table_frames(path, between, len(head), positions, kind, skip=named))
        if kind is RUN and not named and len(head) == 3:
            frames = _ranks_not_scores(frames, shown_name(path), notes)
        yield from frames
    else:
        raise NotTabular("a document is read as a whole")


def _whole_queries(frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The frames, cut where a query ends."""
    open_query: list[pl.DataFrame] = []  # its rows so far
    for frame in filter(len, frames):
        query = frame["query"]
        others = (query != query.last()).arg_true()
        cut = others[-1] + 1 if len(others) else 0
        if open_query and (cut or open_query[0]["query"][0] != query[0]):
            yield pl.concat([*open_query, frame[:cut]], rechunk=True)
            open_query = []
        elif cut:
            yield frame[:cut].rechunk()
        open_query.append(frame[cut:])
    if open_query:
        yield pl.concat(open_query, rechunk=True)


def _parquet_frames(
    path: str | Path, columns: Mapping[str, str] | None, kind: Kind
) -> Iterator[pl.DataFrame]:
    """The columns of a Parquet file: its rows are results (or grades), or queries with lists."""
    roles: dict[str, str] = {}

    def chosen(names: list[str]) -> Iterable[str]:
        roles.update(frame_roles(names, shown_name(path), columns, kind))
        return roles.values()

    for batch in parquet_batches(path, chosen):
        yield _results(batch.select(**{role: pl.col(name) for role, name in roles.items()}), kind)


def _results(frame: pl.DataFrame, kind: Kind) -> pl.DataFrame:
    """The rows of a table as query, doc and number; NotTabular where they are not three columns of results."""
    roles, value = frame.columns, kind.value
    listed = [role for role in (kind.list_role, value) if isinstance(frame.schema.get(role), pl.List)]
    if "doc" not in roles and kind.list_role not in listed:
        raise NotTabular("the documents are not lists")
    if "doc" not in roles:
        frame = frame.with_columns(doc=kind.list_role).drop(kind.list_role)
        if value not in listed:
            ranks = -pl.int_ranges(pl.col("doc").list.len())
            frame = frame.with_columns((ranks if kind is RUN else pl.lit(1)).alias(value))
        frame = frame.explode("doc", *([value] if value in listed or kind is RUN else []))
    elif value not in roles and "rank" in roles:
        frame = frame.with_columns(score=-pl.col("rank"))
    elif (
        kind is RUN
        and "rank" in roles
        and frame["score"].dtype.is_numeric()
        and frame["rank"].dtype.is_numeric()
    ):
        _refuse_rising_scores(frame)
    kinds = frame.schema
    ids = [kinds[name] == pl.String or kinds[name].is_integer() for name in ("query", "doc")]
    if value not in kinds or not kinds[value].is_numeric() or not all(ids):
        raise NotTabular("a column is of another type")
    frame = frame.select(pl.col("query", "doc").cast(pl.String), pl.col(value).cast(pl.Float64))
    if any(column.null_count() for column in frame) or (frame["query"] == "").any():
        raise NotTabular("a value is missing")
    return frame


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


def _table_frames(
    path: str | Path, between: str, width: int, positions: Mapping[str, int], kind: Kind, *, skip: bool
) -> Iterator[pl.DataFrame]:
    """The rows of a table without quotes; `skip` the first line, which is its header."""
    schema: dict[str, pl.DataType] = {str(at): pl.String() for at in range(width)}
    schema |= {str(at): pl.Float64() for role, at in positions.items() if role in {kind.value, "rank"}}
    roles = {role: pl.col(str(at)) for role, at in positions.items()}
    for data in _plain_blocks(path, skip=skip):
        if b'"' in data:
            raise NotTabular("cells are quoted")
        frame = _csv(data, between, schema, list(positions.values())).select(**roles)
        yield _results(frame.with_columns(pl.col("query", "doc").str.strip_chars()), kind)


def _ranks_not_scores(frames: Iterator[pl.DataFrame], name: str, notes: list[str]) -> Iterator[pl.DataFrame]:
    """Bare rows, with scores made of their third column where it counts 1, 2, 3, ... in every query: it is the rank then.

    NotTabular where the first rows leave it open (1 to n in another order, from 0, or numbers that rise): `read_run` decides.
    """
    ranks: bool | None = None
    for frame in frames:
        starts, _ = _queries(frame["query"])
        numbers, sizes = frame["score"].to_numpy(), np.diff(starts)
        positions = np.arange(len(frame)) - np.repeat(starts[:-1], sizes) + 1
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
        yield frame.with_columns(-pl.col("score")) if ranks else frame


def _rises(numbers: Floats, starts: Numbers) -> bool:
    """True if the numbers of every query rise from row to row; `starts` are where each query starts and the last ends."""
    rises = numbers[1:] > numbers[:-1]
    rises[starts[1:-1] - 1] = True  # where a query starts
    return bool(rises.all()) and bool((np.diff(starts) > 1).any())


def _refuse_rising_scores(frame: pl.DataFrame) -> None:
    """NotTabular where the scores of every query rise with its ranks, as far as these rows say."""
    ordered = frame.sort("query", "rank", maintain_order=True)
    starts, _ = _queries(ordered["query"])
    if all(_rises(ordered[name].to_numpy(), starts) for name in ("rank", "score")):
        raise NotTabular("scores rise down the ranks")


def _json_frames(path: str | Path, columns: Mapping[str, str] | None, kind: Kind) -> Iterator[pl.DataFrame]:
    """The rows of JSON Lines that all have the same keys, and ids that are texts without escapes."""
    keys, names = list[str](), list[str]()
    for data in _plain_blocks(path):
        if not keys:
            keys = _keys_of(data.partition(b"\n")[0])
            roles = roles_of(keys, kind, columns)
            if not {"query", "doc", kind.value} <= set(roles):
                raise NotTabular("a line is not a single result")
            names = [roles[role] for role in ("query", "doc", kind.value)]
        types = [pl.String(), pl.String(), pl.Float64()]
        try:
            frame = pl.read_ndjson(data, schema=dict(zip(names, types, strict=True)))
        except pl.exceptions.PolarsError as error:
            raise NotTabular(str(error)) from None
        rows = len(frame)
        texts = sum(data.count(f'"{key}":{blank}"'.encode()) for key in names[:2] for blank in ("", " "))
        once = all(data.count(f'"{key}":'.encode()) == rows for key in keys)
        if b"\\" in data or not once or texts != 2 * rows or data.count(b'":') != rows * len(keys):
            raise NotTabular("a line has other keys, an escape, or an id that is not text")
        yield _results(frame.select(query=names[0], doc=names[1], **{kind.value: names[2]}), kind)


def _keys_of(line: bytes) -> list[str]:
    try:
        first = parse_strict_json(line.decode())
    except (JsonFault, UnicodeDecodeError) as fault:
        raise NotTabular(str(fault)) from None
    return list(first) if isinstance(first, dict) else []


def _trec_frames(path: str | Path, kind: Kind) -> Iterator[pl.DataFrame]:
    """Query, document and number of lines in TREC's columns; NotTabular where a line is none of a run, or of gold."""
    names = ("query", "0", "doc", "rank", "score", "tag") if kind is RUN else ("query", "0", "doc", "grade")
    schema: dict[str, pl.DataType] = dict.fromkeys(names, pl.String())
    schema[kind.value] = pl.Float64() if kind is RUN else pl.Int64()
    for number, block in enumerate(_blocks(path)):
        separator, data = _separated(block)
        if kind is RUN and not number:
            _refuse_rising_trec(data, separator, schema)
        frame = _csv(data, separator, schema, [0, 2, 4 if kind is RUN else 3])
        if kind is GOLD and data.count(separator.encode()) != 3 * len(frame):
            raise NotTabular("a line of gold has more than four columns")
        if b"#" in data and frame["query"].str.starts_with("#").any():
            raise NotTabular("there are comments")
        yield frame


def _refuse_rising_trec(data: bytes, separator: str, schema: Mapping[str, pl.DataType]) -> None:
    """NotTabular where the first block of a TREC run leaves it open if all scores rise down the ranks."""
    try:
        ranked = _csv(data, separator, {**schema, "rank": pl.Float64()}, [0, 3, 4])
    except NotTabular:  # the rank is no number, and nobody reads it
        return
    _refuse_rising_scores(ranked)


def _csv(
    data: bytes, separator: str, schema: Mapping[str, pl.DataType], columns: Sequence[int]
) -> pl.DataFrame:
    """The columns asked for of lines without quotes; NotTabular where one cannot be read or is missing in a line."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise NotTabular("a line begins with a byte-order mark, which polars would drop")
    try:
        frame = pl.read_csv(
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
    except pl.exceptions.PolarsError as error:
        raise NotTabular(str(error)) from None
    if any(column.null_count() for column in frame):
        raise NotTabular("a line has too few columns")
    return frame


def _separated(data: bytes) -> tuple[str, bytes]:
    """The one byte that separates the columns, and the lines with no other white space, and none twice in a row."""
    tabs = b"\t" in data
    if data[0] > 32 and not (tabs and b" " in data) and _single(data):
        return ("\t" if tabs else " "), data
    data = data.translate(_BLANKS)
    if data.translate(None, _USUAL):
        raise NotTabular("there are control characters")
    raw = np.frombuffer(data, dtype=np.uint8)
    data = b"".join(_single_blanks(raw, start) for start in range(0, len(raw), _PIECE))
    if not _single(data):  # blanks at the ends of lines, or empty lines
        data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n")
        while b"\n\n" in data:
            data = data.replace(b"\n\n", b"\n")
    return " ", data.lstrip()


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
