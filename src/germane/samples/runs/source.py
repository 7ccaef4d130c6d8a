"""Reads runs and gold as NumPy columns from files and Python objects.

A file may have the format TREC, TSV, CSV, JSON or Parquet, and may be compressed. Blocks of regular lines are
parsed with NumPy, other blocks row by row. A block ends where a query ends, so that the memory needed depends
on the size of the block and not on that of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from germane.clean import some_of
from germane.errors import InputError, SourceLocation, describe
from germane.samples.cells import delimiter_of
from germane.samples.files import OnDisk, opened, shown_name
from germane.samples.frames import collected, in_columns, is_table, parquet_batches
from germane.samples.runs import blocks, records
from germane.samples.runs.columns import (
    NO_DOCUMENT,
    Lists,
    all_queries,
    has_duplicates,
    numbered,
    whole_queries,
)
from germane.samples.runs.formats import (
    GOLD,
    MOST_COMPARED,
    RUN,
    Format,
    Kind,
    Qrels,
    Reading,
    count_from,
    format_of,
    frame_roles,
    rise,
    table_columns,
)

BLOCK = 1 << 20
"""The number of bytes that are parsed in one step."""


class Again(Exception):
    """Raised if a source must be read again from its beginning, with all rows together."""


@dataclass(eq=False)
class RowSource:
    """A run or gold that can be read several times.

    Attributes:
        source: The path of a file (`-` is standard input), a mapping, a DataFrame, or a list of rows.
        kind: RUN or GOLD.
        fmt: The format of the file; None to detect it.
        columns: Maps query, doc, score, ... to the names in the source.
        skip: Whether to leave out rows that cannot be read, with a note, instead of raising an error.
        keep_first: Whether the first of two different grades of a document counts, instead of raising an
            error.
        together: Whether to read all rows before the first query is returned. This is needed if the rows of a
            query are not consecutive.
        notes: The notes about the source. They are set when the source has been read.
    """

    source: Any
    kind: Kind = RUN
    fmt: Format | None = None
    columns: Mapping[str, str] | None = None
    skip: bool = False
    keep_first: bool = False
    together: bool = False
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.source = collected(self.source)
        if isinstance(self.source, str | Path):
            self.source = OnDisk(gold_file(self.source) if self.kind is GOLD else self.source)
        elif not isinstance(self.source, OnDisk | Mapping | list) and not is_table(self.source):
            if not isinstance(self.source, Iterable) or isinstance(self.source, bytes):
                problem = f"{describe(self.source)} is not {self.kind.name}"
                raise InputError(problem, fix=self.kind.python, place=SourceLocation(self.name))
            self.source = list(self.source)

    @property
    def name(self) -> str:
        """The name of the source in messages: the file's name, or "run" or "qrels" for a Python object."""
        if isinstance(self.source, OnDisk):
            return shown_name(self.source.given)
        return "run" if self.kind is RUN else "qrels"

    @property
    def file(self) -> Path | None:
        """The path of the file, or of the copy of standard input. None for a Python object."""
        return self.source.path if isinstance(self.source, OnDisk) else None

    @cached_property
    def format(self) -> Format | None:
        """The format of the file; None for a Python object."""
        return None if self.file is None else format_of(self.file, self.fmt, self.kind)

    @cached_property
    def gold(self) -> Lists:
        """The gold of all queries, read once. Raises InputError if the source has no gold."""
        for lists in [*self.lists()]:  # one or none, and then the notes
            return lists
        what = "table" if self.file is None else "file"
        raise InputError(f"this {what} has no gold", fix=GOLD.trec, place=SourceLocation(self.name))

    def read_together(self) -> None:
        """Set `together`, so that all rows are read before the first query is returned, and raise Again."""
        self.together = True
        raise Again

    def lists(self) -> Iterator[Lists]:
        """Yield the rows of the source as Lists, each with some whole queries; set `notes` at the end.

        Raises InputError for invalid input, and Again if the rows must be read together first.
        """
        reading = Reading(self.name, self.kind, tuple((self.columns or {}).items()), self.skip)
        rows = self._rows(reading)
        first = next(rows, None)  # this sets `reading.bare`
        if first is None and reading.unread:
            problem = f"no row holds documents; its fields are {some_of(reading.unread, 8)}"
            fix = f"{self.kind.json}, or name the field: --columns {self.kind.list_role}=NAME"
            raise InputError(problem, fix=fix, place=SourceLocation(self.name))
        rows = rows if first is None else chain([first], rows)
        several: Iterable[Lists] = whole_queries(rows)
        if self.together or self.kind is GOLD or reading.bare:
            several = filter(None, [all_queries(rows)])
        for lists in several:
            if lists.rank is not None and reading.rises:  # do the scores rise with the ranks?
                ranked = ~np.isnan(lists.rank)
                starts = np.concatenate([[0], np.cumsum(ranked)])[lists.starts]
                rank, score = lists.rank[ranked], lists.number[ranked]
                order = np.lexsort((score, rank, lists.of[ranked]))
                reading.rises = rise(rank[order], starts) and rise(score[order], starts)
                reading.longest = max(reading.longest, int(np.diff(starts).max(initial=0)))
            listed = lists.kept(lists.line != NO_DOCUMENT) if (lists.line < 0).any() else lists
            if reading.mapped:  # are the scores of each query 1 to n?
                reading.mapped = not len(listed.number) or count_from(listed.number, listed.starts)[0] == {1}
                reading.longest = max(reading.longest, int(listed.sizes.max(initial=0)))
            yield self._graded_once(listed, reading) if self.kind is GOLD else self._ranked(listed, reading)
        self.notes = reading.finish()

    def _ranked(self, lists: Lists, reading: Reading) -> Lists:
        """Return the lists of a run, without its numbers if they are ranks.

        Raises InputError if the numbers may be ranks or scores, or if a query has results with and without
        scores; then the rows are read together first.
        """
        number = lists.number
        if reading.bare and reading.are_ranks(number, lists.starts):
            return replace(lists, number=np.full(len(number), np.nan))
        missing, filled = np.isnan(number), lists.sizes > 0
        unlike_first = missing != np.repeat(missing[lists.starts[:-1][filled]], lists.sizes[filled])
        if not unlike_first.any():
            return lists
        if not self.together:
            self.read_together()
        at = int(np.argmax(unlike_first))
        problem = f"query {lists.queries[lists.of[at]]} has results with and without scores"
        fix = "give all results of the query a score, or none"
        raise InputError(problem, fix=fix, place=reading.at(int(lists.line[at])))

    def _graded_once(self, lists: Lists, reading: Reading) -> Lists:
        """Return gold with only the first row for each document of a query.

        Raises InputError if two rows give a document different grades, unless `keep_first` is set.
        """
        grade = lists.number
        if not has_duplicates(lists.doc.hashed(lists.of)):
            return lists
        codes, first = numbered(lists.doc, lists.of)
        before = first[codes]
        for at in () if self.keep_first else np.flatnonzero(grade != grade[before]).tolist():
            problem = f"document {lists.doc[at]} of query {lists.queries[lists.of[at]]} has grade {grade[at]:.0f} here"
            problem += f" and {grade[before[at]]:.0f} above"
            fix = "keep one of the two grades, or keep the first with --duplicates first"
            raise InputError(problem, fix=fix, place=reading.at(int(lists.line[at])))
        return lists.kept(before == np.arange(len(grade)))

    def ids(self) -> Iterator[tuple[str, list[str]]]:
        """Yield (query id, document ids in the order of the rows); a query may appear more than once."""
        for lists in self.lists():
            yield from lists.ids()

    def first_ids(self) -> dict[str, list[str]]:
        """Return query id -> document ids for the first queries, until it has MOST_COMPARED document ids."""
        first: dict[str, list[str]] = {}
        count = 0
        for query, docs in self.ids():
            first.setdefault(query, []).extend(docs)
            count += len(docs)
            if count >= MOST_COMPARED:
                break
        return first

    def _rows(self, reading: Reading) -> Iterator[Lists]:
        """Yield the rows of the source as columns: regular lines in blocks, other lines row by row."""
        if isinstance(self.source, Mapping | list):
            yield from records.record_blocks(records.python_records(self.source, reading), reading)
            return
        if self.file is None or self.format == "parquet":
            yield from self._frame_rows(reading)
            return
        with opened(self.file) as stream:
            if self.format == "json":
                document = records.parsed(stream.read(), 1, reading)
                listed = document if isinstance(document, list) else [document]
                yield from records.record_blocks(((0, value) for value in listed), reading)
            elif self.format in {"csv", "tsv"}:
                yield from _table_rows(stream, "\t" if self.format == "tsv" else ",", reading)
            else:
                yield from _line_rows(stream, reading, is_trec=self.format == "trec")

    def _frame_rows(self, reading: Reading) -> Iterator[Lists]:
        """Yield the rows of a DataFrame, an Arrow table or a Parquet file as columns, or else row by row."""
        frames: Iterable[Any] = [self.source]
        if self.file is not None:
            frames = parquet_batches(self.file, lambda names: frame_roles(names, reading).values())
        line = 1
        for frame in map(in_columns, frames):
            names = getattr(frame, "column_names", None) or frame.columns  # an Arrow table has both
            chosen = frame_roles([str(column) for column in names], reading)
            try:
                yield blocks.frame_rows(frame, chosen, line, reading)
            except blocks.NotPlain:
                yield from records.record_blocks(records.frame_records(frame, chosen.values(), line), reading)
            line += len(frame)


def _line_rows(stream: BinaryIO, reading: Reading, *, is_trec: bool) -> Iterator[Lists]:
    """Yield the rows of a TREC or JSON Lines file as columns; irregular blocks are read row by row."""
    line = 1
    for data in _blocks(stream):
        try:
            lists = (blocks.trec_rows if is_trec else blocks.json_rows)(data, line, reading)
            yield lists
            line += len(lists.line)  # a row per line
        except blocks.NotPlain:
            if is_trec:
                yield from records.in_blocks(records.trec_rows(BytesIO(data), line, reading), reading)
            else:
                values = records.json_records(BytesIO(data), line - 1, reading)
                yield from records.record_blocks(values, reading)
            line += data.count(b"\n")


def _table_rows(stream: BinaryIO, between: str, reading: Reading) -> Iterator[Lists]:
    """Yield the rows of a CSV or TSV table as columns; from an irregular block on, row by row."""
    first = stream.readline()
    line, data = 2, b""
    try:
        try:
            text = first.decode()
        except UnicodeDecodeError:
            raise blocks.NotPlain("the first line is not UTF-8") from None
        plain = (
            text.strip() and '"' not in text and not any(char < " " for char in text.strip() if char != "\t")
        )
        if not plain or delimiter_of(text, between) != between:
            raise blocks.NotPlain("the first line has quotes, control characters or another separator")  # noqa: TRY301
        positions, named = table_columns([cell.strip() for cell in text.split(between)], 1, reading)
        line = 2 if named else 1
        for data in _blocks(stream, b"" if named else first):
            lists = blocks.table_rows(data, line, between, positions, reading)
            yield lists
            line += len(lists.line)
    except blocks.NotPlain:
        if line == 1:  # the first line is a row, and no block was read
            line, data = 2, data.removeprefix(first)
        rest = chain(BytesIO(data), stream)
        yield from records.record_blocks(records.table_records(first, rest, line, between, reading), reading)


def _blocks(stream: BinaryIO, data: bytes = b"") -> Iterator[bytes]:
    """Yield `data`, bytes already read, and the rest of the stream in blocks of whole lines."""
    while data := data + stream.read(BLOCK):
        yield data + stream.readline()
        data = b""


def gold_file(path: str | Path) -> str | Path:
    """Return the path of the gold file in a BEIR or MTEB folder; return the path of a file unchanged.

    The gold file is qrels/test.tsv or qrels/test.parquet, or the only file in qrels. Raises InputError if
    there is not exactly one such file.
    """
    if not Path(path).is_dir():
        return path
    folder = Path(path) / "qrels"
    files = sorted(folder.glob("*.tsv")) or sorted(folder.glob("*.parquet"))
    test = [file for file in files if re.fullmatch(r"test(-\d+-of-\d+)?", file.stem)] or files
    if len(test) != 1:
        names = ", ".join(str(file) for file in files) or str(Path(path) / "qrels" / "test.tsv")
        problem = "this folder has no single gold file qrels/test.tsv"
        raise InputError(problem, fix=f"name the gold file itself: {names}", place=SourceLocation(str(path)))
    return test[0]


def read_qrels(source: Any, **how: Any) -> Qrels:
    """Read gold from a file, BEIR folder, DataFrame or mapping; return query id -> document id -> grade.

    `how` are further attributes of RowSource.
    """
    return RowSource(source, GOLD, **how).gold.grades()
