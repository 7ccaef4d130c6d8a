"""Ranked results and gold from files: TREC, tables (TSV, CSV, Parquet) and JSON, found by content; plain or packed.

A TREC run has lines `query Q0 document rank score tag ...`, TREC gold (qrels) lines `query 0 document grade`, as
trec_eval reads them: split at ASCII white space, the rank ignored, lines that begin with # skipped, whatever
follows the tag of a run ignored. A table has a header, or a known number of columns; JSON is one sample, one
result or one grade per line, or one document: a list of these, or {query: {document: score}}. A folder is a data set
as BEIR has it, its gold `qrels/test.tsv`.

Each format is a generator of rows. A row that cannot be read does not end the reading: `BadRows` takes its fault. Columns that
are not needed may hold anything, bytes that are no UTF-8 included.
"""

from __future__ import annotations

import csv
import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from itertools import chain, pairwise, repeat
from math import isinf, isnan
from numbers import Integral, Real
from operator import gt, lt
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict
from numpy.typing import NDArray

from germane.clean import counted, fold
from germane.errors import InputError, Invalid, SourceLocation, describe
from germane.samples.cells import (
    CellCounts,
    delimiter_of,
    is_joined_ids,
    list_in_cell,
    looks_listed,
    table_rows,
)
from germane.samples.fields import RESULT, failure, id_in, id_keys, read_id
from germane.samples.files import (
    BadRows,
    JsonFault,
    decoded,
    numbered_lines,
    on_disk,
    opened,
    parse_strict_json,
    shown_name,
    whole_text,
)
from germane.samples.frames import fields_of, in_columns, is_table, parquet_batches, plain

Format: TypeAlias = Literal["trec", "tsv", "csv", "jsonl", "json", "parquet"]
Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Gold: query id -> document id -> grade."""
FileRow: TypeAlias = tuple[int, str, str | None, float | None]
"""Line, query, document and score or grade. Document None = the query is there, and nothing came back or is known; a result
without a score has None."""


@dataclass(slots=True)
class Results:
    """The results of one query, in the order of the file; `scores` is empty for a list without scores."""

    ids: list[str] = field(default_factory=list)
    scores: array[float] = field(default_factory=lambda: array("d"))
    lines: array[int] = field(default_factory=lambda: array("q"))


@dataclass(slots=True)
class Run:
    """The ranked results of one system: query id -> results. `name` is the file, `notes` are remarks about it."""

    name: str
    queries: dict[str, Results] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class NotTabular(Exception):
    """A large file must be read in another way, for this reason."""


EXAMPLES = 3
"""The number of queries that a remark names."""

Numbers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Hits:
    """The ranks of the gold documents in a run.

    `queries` are those of the gold, `sizes` the number of documents of each, `docs` and `grades` all of them. `lengths` is the
    number of results of each query, -1 where it is not in the run; `ignored` is the number of the run's other queries, and
    `first_ignored` are the first of them in the order of the file. A hit is a document with a grade: `row` is the number of its query in the gold, `rank` counts from 1, `doc` is its
    number among the documents. Hits are sorted by row and rank. `notes` are remarks; `repeated` and `folded` count results that
    were dropped: a document named again, a further chunk. `tied` counts the queries of which a relevant document stands
    elsewhere than in the file, since scores tie. `ids` are the queries of a large run one after another, and where each
    ends.
    """

    queries: Any
    sizes: Numbers
    docs: Any
    grades: Floats
    lengths: Numbers
    ignored: int
    first_ignored: Sequence[str]
    row: Numbers
    rank: Numbers
    doc: Numbers
    ids: tuple[bytes, Numbers] | None = None
    notes: Sequence[str] = ()
    repeated: int = 0
    folded: int = 0
    tied: int = 0

    @property
    def grade(self) -> Floats:
        """The gold grade of each hit, shape (hits,)."""
        return self.grades[self.doc]


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """The differences between runs and gold: the roles of their columns, of tables without a header, and examples."""

    name: str
    roles: tuple[str, ...]
    list_role: str
    value: str
    bare: Mapping[int, tuple[str, ...]]
    trec: str
    json: str
    python: str


RUN = Kind(
    name="a run",
    roles=("query", "doc", "docs", "score", "rank"),
    list_role="docs",
    value="score",
    bare={
        2: ("query", "doc"),
        3: ("query", "doc", "score"),
        4: ("query", "doc", "rank", "score"),
        5: ("query", "", "doc", "rank", "score"),
        6: ("query", "", "doc", "rank", "score", ""),
    },
    trec="write: query Q0 document rank score tag",
    json='write {"id": "q1", "contexts": [{"id": "d7"}]} or {"query_id": "q1", "doc_id": "d7", "score": 1.5}',
    python='write {"q1": {"d7": 1.5}}, or {"q1": ["d7", "d2"]}, best first',
)
GOLD = Kind(
    name="gold",
    roles=("query", "doc", "gold", "grade"),
    list_role="gold",
    value="grade",
    bare={2: ("query", "doc"), 3: ("query", "doc", "grade"), 4: ("query", "", "doc", "grade")},
    trec="write: query 0 document grade",
    json='write {"id": "q1", "qrels": {"d7": 2}} or {"query_id": "q1", "doc_id": "d7", "relevance": 2}',
    python='write {"q1": {"d7": 2}}, or {"q1": ["d7"]}',
)
_NAME_THEM = "give the table a header, e.g. query_id, doc_id, {0}, or say --columns query=...,doc=...,{0}=..."
_BETWEEN = {"tsv": "\t", "csv": ","}
_WHOLE = re.compile(rb"([+-]?\d{1,18})(?:\.0*)?")


def read_run(
    source: Any,
    *,
    fmt: Format | None = None,
    columns: Mapping[str, str] | None = None,
    bad: BadRows | None = None,
) -> Run:
    """The ranked results in a file, a DataFrame, or a mapping: query id -> {document id: score}, or ids, best first.

    A DataFrame (pandas, polars, a table of Arrow) has a row per result, or one per query with lists of ids (and scores).
    `columns` maps query, doc, score, ... to the header's own names. Rows that cannot be read are one InputError at the
    end, or left out and said in the notes, as `bad` has it.
    """
    bad = bad or BadRows()
    if not isinstance(source, str | Path):
        source = source if isinstance(source, Mapping) or is_table(source) else _row_list(source, "run", RUN)
        run = _collect_run("run", _rows(source, "run", None, columns, RUN, bad), bad)
        triples = isinstance(source, list) and all(
            type(row) in {tuple, list} and len(row) == 3 for row in source
        )
        return _ranks_not_scores(run) if triples else run
    with on_disk(source) as file:
        name, fmt = shown_name(source), format_of(file, fmt)
        if fmt == "trec":
            return _trec_run(file, name, bad)
        run = _collect_run(name, _rows(file, name, fmt, columns, RUN, bad), bad)
        bare = fmt in _BETWEEN and not columns and _is_bare_triple(_head(file), _BETWEEN[fmt])
        return _ranks_not_scores(run) if bare else run


def read_qrels(
    source: Any,
    *,
    fmt: Format | None = None,
    columns: Mapping[str, str] | None = None,
    keep_first: bool = False,
    bad: BadRows | None = None,
) -> Qrels:
    """The gold grades in a file, a BEIR folder, a DataFrame or a mapping: query id -> document id -> grade.

    `keep_first` settles grades that disagree. Rows that cannot be read are one InputError at the end, or left out, as
    `bad` has it.
    """
    bad = bad or BadRows()
    if not isinstance(source, str | Path):
        source = (
            source if isinstance(source, Mapping) or is_table(source) else _row_list(source, "gold", GOLD)
        )
        name, what = "qrels", "table"
        qrels = _collect_qrels(
            name, _rows(source, name, None, columns, GOLD, bad), bad, keep_first=keep_first
        )
    else:
        path = gold_file(source)
        name, what = shown_name(path), "file"
        with on_disk(path) as file:
            rows = _rows(file, name, format_of(file, fmt, GOLD), columns, GOLD, bad)
            qrels = _collect_qrels(name, rows, bad, keep_first=keep_first)
    if not qrels:
        raise InputError(f"no gold in this {what}", fix=GOLD.trec, place=SourceLocation(name))
    return qrels


def gold_file(path: str | Path) -> str | Path:
    """The gold of a folder as BEIR or MTEB has it: qrels/test.tsv or .parquet, or the only file in qrels; a file is itself."""
    if not Path(path).is_dir():
        return path
    folder = Path(path) / "qrels"
    files = sorted(folder.glob("*.tsv")) or sorted(folder.glob("*.parquet"))
    test = [file for file in files if re.fullmatch(r"test(-\d+-of-\d+)?", file.stem)] or files
    if len(test) != 1:
        names = ", ".join(str(file) for file in files) or str(Path(path) / "qrels" / "test.tsv")
        problem, fix = "this folder has no qrels/test.tsv", f"name a file: {names}"
        raise InputError(problem, fix=fix, place=SourceLocation(str(path)))
    return test[0]


def _rows(
    source: Any, name: str, fmt: Format | None, columns: Mapping[str, str] | None, kind: Kind, bad: BadRows
) -> Iterator[FileRow]:
    """The rows of a file, or of a DataFrame (no format), that can be read."""
    if fmt is None:
        if isinstance(source, Mapping):
            records = _mapped_records(source, name, kind, bad, columns)
        elif isinstance(source, list):
            rows = ((number, row_fields(row, kind)) for number, row in enumerate(source, 1))
            records = _json_records(rows, name, kind, bad, columns)
        else:
            records = _frame_records(source, name, kind, columns)
        yield from _record_rows(records, name, kind, bad)
    elif fmt == "parquet":
        yield from _record_rows(_parquet_records(source, name, kind, columns), name, kind, bad)
    else:
        with opened(source) as stream:
            if fmt == "trec":
                yield from _trec_grades(stream, name, bad)
            elif fmt in {"jsonl", "json"}:
                values = _json_values(stream, name, fmt, kind, bad)
                yield from _record_rows(_json_records(values, name, kind, bad, columns), name, kind, bad)
            else:
                records = _table_records(_BETWEEN[fmt], stream, name, kind, columns, bad)
                yield from _record_rows(records, name, kind, bad)


def _row_list(source: Any, name: str, kind: Kind) -> list[Any]:
    """The rows of a list, a generator or another iterable of Python."""
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return list(source)
    raise InputError(f"{describe(source)} is not {kind.name}", fix=kind.python, place=SourceLocation(name))


def row_fields(row: Any, kind: Kind) -> Any:
    """The fields of a row as JSON has them: of a mapping, a record, or a tuple with the columns of a table without a header."""
    if isinstance(row, Struct):
        row = asdict(row)
    fields = row if isinstance(row, Mapping) else fields_of(row)
    if fields is None and isinstance(row, tuple | list) and len(row) in kind.bare:
        fields = {name: value for name, value in zip(kind.bare[len(row)], row, strict=True) if name}
    if fields is None:
        return row
    return {
        str(name): _scalar(value) if _is_scalar(value) else plain(value) for name, value in fields.items()
    }


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | bytes | Real | Decimal | None)


def _scalar(value: Any) -> Any:
    """A number of NumPy or of another library as Python's own, bytes as text; anything else as it is."""
    if isinstance(value, bytes):
        return read_id(value) if value else ""
    if type(value) in {int, float, str, bool} or not isinstance(value, Real | Decimal | np.bool_):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def _mapped_records(
    source: Mapping[Any, Any], name: str, kind: Kind, bad: BadRows, columns: Mapping[str, str] | None
) -> Iterator[_Record]:
    """The lists of a mapping of Python under the roles of runs or gold, their ids as text."""
    seen, names = set[str](), _chosen_key(columns)
    for key, listed in source.items():
        try:
            query = read_id(_scalar(key))
            if query in seen:
                raise Invalid("is there twice, as a number and as text", "write ids as text")  # noqa: TRY301
            record = {"query": query, **_in_roles(listed, kind)}
        except Invalid as wrong:
            wrong.path = (f"query {str(key)[:60]}", *wrong.path)
            bad.add(wrong.error(SourceLocation(name)))
        else:
            seen.add(query)
            yield 0, record, names


def _in_roles(listed: Any, kind: Kind) -> dict[str, Any]:
    """What a query of a mapping is mapped to, under roles: documents with numbers, or a list. Raises Invalid."""
    if is_table(listed) and not hasattr(listed, "to_list"):
        raise Invalid("is a table", "give one table of all queries, or lists")
    if hasattr(listed, "to_dict") and hasattr(listed, "index"):  # a series of pandas
        listed = listed.to_list() if listed.index.to_list() == [*range(len(listed))] else listed.to_dict()
    if isinstance(listed, Mapping):
        if {*map(type, listed)} <= {str} and {*map(type, listed.values())} <= {int, float}:
            return {kind.list_role: listed}
        graded = {_document(doc): _scalar(number) for doc, number in listed.items()}
        if len(graded) < len(listed):
            raise Invalid("has a document twice, as a number and as text", "write ids as text")
        return {kind.list_role: graded}
    if isinstance(listed, set | frozenset) and kind is RUN:
        raise Invalid("is a set, which has no order", kind.python)
    if _is_scalar(listed) or not isinstance(listed, Iterable):
        raise Invalid(f"is {describe(listed)}", kind.python)
    items = [item if type(item) is str else _item(item) for item in listed]
    if items and all(type(item) is tuple for item in items):
        docs, numbers = zip(*items, strict=True)
        once = len({*docs}) == len(docs)
        return (
            {kind.list_role: dict(zip(docs, numbers, strict=True))}
            if once
            else {kind.list_role: [*docs], kind.value: [*numbers]}
        )
    return {kind.list_role: items}


def _item(item: Any) -> Any:
    """A document in a list: its id, its fields, or a pair of id and number as a tuple."""
    if isinstance(item, Struct):
        return item
    if _is_scalar(item) or isinstance(item, Mapping) or (fields := fields_of(item)) is not None:
        return item if isinstance(item, Mapping) else _scalar(item) if _is_scalar(item) else fields
    if isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[1], Real | Decimal):
        return _document(item[0]), _scalar(item[1])
    return plain(item)


def _document(value: Any) -> str:
    """The id of a document of a query. Raises Invalid."""
    try:
        return read_id(_scalar(value))
    except Invalid as wrong:
        wrong.problem = f"has a document whose id {wrong.problem}"
        raise


def _collect_run(name: str, rows: Iterable[FileRow], bad: BadRows) -> Run:
    """A run from its results; a NaN score, and a list with scores on some of its places only, are bad rows."""
    queries: dict[str, Results] = {}
    last, results = None, Results()
    for line, query, doc, score in rows:
        if query != last:
            last, results = query, queries.setdefault(query, Results())
        if doc is None:
            continue
        if (score is None) == bool(results.scores) and results.ids:
            problem = f"query {query} has results with and without scores"
            fix = "give each of them a score, or none"
            bad.add(InputError(problem, fix=fix, place=SourceLocation(name, line)))
            continue
        if score is not None:
            if score != score:  # noqa: PLR0124 - the test for NaN
                bad.add(_nan(query, doc, SourceLocation(name, line)))
                continue
            results.scores.append(score)
        results.ids.append(doc)
        results.lines.append(line)
    bad.check()
    return Run(name, queries, bad.notes())


def _nan(query: str, doc: str, where: SourceLocation) -> InputError:
    problem = f"the score of document {doc} in query {query} is NaN, which has no place in an order"
    return InputError(problem, fix="write a number (inf and -inf are allowed) or drop the line", place=where)


def _collect_qrels(
    name: str, rows: Iterable[FileRow], bad: BadRows, *, keep_first: bool
) -> dict[str, dict[str, int]]:
    """Gold from its grades; two different grades of one document are a bad row unless the first is to be kept."""
    qrels: dict[str, dict[str, int]] = {}
    for line, query, doc, value in rows:
        grades, grade = qrels.setdefault(query, {}), int(value or 0)
        if doc is not None and grades.setdefault(doc, grade) != grade and not keep_first:
            problem = f"document {doc} of query {query} has grade {grade} here and {grades[doc]} above"
            fix = "keep one of them, or give --duplicates first"
            bad.add(InputError(problem, fix=fix, place=SourceLocation(name, line)))
    bad.check()
    return qrels


class RankedScores:
    """Tells if a file that names both ranks and scores gives the best rank the lowest score, from its rows, one by one."""

    def __init__(self) -> None:
        self._pairs: dict[str, array[float]] | None = {}
        self._last: tuple[str, float, float] | None = None

    def add(self, query: str, rank: float, score: float) -> None:
        """Take a row; nothing is kept once two rows of a query say that scores do not rise."""
        if self._pairs is None:
            return
        if self._last is not None and self._last[0] == query:
            _, before, other = self._last
            if before == rank or (before < rank) is not (other < score):
                self._pairs = None
                return
        self._last = query, rank, score
        self._pairs.setdefault(query, array("d")).extend((rank, score))

    @property
    def undecided(self) -> bool:
        """True while rows can still change what `rises` says."""
        return self._pairs is not None

    @property
    def rises(self) -> bool:
        """True if the scores of every query rise with its ranks, one of them of three documents or more."""
        lists = [sorted(zip(pairs[::2], pairs[1::2], strict=True)) for pairs in (self._pairs or {}).values()]
        return max(map(len, lists), default=0) > 2 and all(
            a[0] < b[0] and a[1] < b[1] for listed in lists for a, b in pairwise(listed)
        )


class NumberedLists:
    """Decides if a column that nobody named holds ranks or scores, from the numbers of all lists, added one by one.

    Numbers that are 1 to n or 0 to n - 1 in every list, and 2 somewhere, are ranks where they rise from row to row and scores
    where they fall; in any other order nobody can tell. Other whole numbers are scores, which a note says where they rise down
    every list.
    """

    def __init__(self) -> None:
        self.longest = 0
        self._firsts = set[int]()
        self._counts = self._rises = self._falls = self._whole = True
        self._most = 0

    def add(self, numbers: Sequence[float]) -> None:
        """Take the numbers of one list, in the order of its rows; nothing is looked at once they can only be scores."""
        if not numbers or (not self._counts and not (self._whole and self._rises)):
            return
        n, ordered = len(numbers), sorted(numbers)
        first = int(ordered[0] != 0)
        self.longest = max(self.longest, n)
        self._firsts.add(first)
        self._most = max(self._most, first + n - 1)
        self._counts &= ordered == list(range(first, first + n))
        self._rises &= all(map(lt, numbers, numbers[1:]))
        self._falls &= all(map(gt, numbers, numbers[1:]))
        self._whole &= all(number % 1 == 0 for number in numbers)

    @property
    def count_from_one(self) -> bool:
        """True if every list up to now holds 1 to n, in any order."""
        return self._counts and 0 not in self._firsts

    def decide(self, name: str) -> tuple[bool, str]:
        """True if the numbers are ranks, and the note that belongs to it; InputError where nobody can tell."""
        if self._counts and self._most >= _RANKS:
            counting = " or ".join(
                f"{first}, {first + 1}, {first + 2}, ..." for first in sorted(self._firsts)
            )
            if self._rises:
                return True, read_as_rank(name, counting)
            if self._falls:
                down = " or ".join(map(str, sorted(self._firsts)))
                note = f"{name}: the third column counts down to {down} and was read as the score"
                return False, note if self.longest > _RANKS else ""
            raise InputError(
                f"the third column counts {counting} in another order than the rows: it may be the rank or a score",
                fix="write what it is as a header: query_id, doc_id, rank (1 is best), or query_id, doc_id, score (highest is best)",
                place=SourceLocation(name),
            )
        if self._whole and self._rises and self.longest >= _RANKS and not self._counts:
            return (
                False,
                f"{name}: the third column rises down every list and was read as the score; {_IF_RANK}",
            )
        return False, ""


_RANKS = 2
"""A number that a column of ranks holds: 0 and 1 alone are scores. Also, the length of lists that tell little."""
_IF_RANK = "if it is the rank, write a header: query_id, doc_id, rank"


def _ranks_not_scores(run: Run) -> Run:
    """A run whose bare third column may be the rank (MS MARCO's format): without scores where it is, with a note."""
    lists = [results for results in run.queries.values() if results.ids]
    numbers = NumberedLists()
    for results in lists:
        numbers.add(results.scores)
    is_rank, note = numbers.decide(run.name)
    for results in lists if is_rank else ():
        del results.scores[:]
    return replace(run, notes=(*run.notes, note)) if note else run


def read_as_rank(name: str, counting: str = "1, 2, 3, ...") -> str:
    """The note that a column was taken for the rank."""
    return f"{name}: the third column counts {counting} and was read as the rank"


def rising_scores(name: str) -> str:
    """The note that a file names ranks and scores, and the best rank has the lowest score."""
    return f"{name}: scores rise down the ranks; the highest score is taken for the best"


def mapped_to_ranks(name: str) -> str:
    """The note that a mapping of documents to numbers may mean ranks."""
    return f"{name}: documents are mapped to 1, 2, 3, ..., which were read as scores: the highest is taken for the best"


# TREC


def _trec_run(path: str | Path, name: str, bad: BadRows) -> Run:
    """A run in TREC's columns, in one loop without an object per line."""
    queries: dict[str, Results] = {}
    raw, query, results, ranked, comments = b"", "", Results(), RankedScores(), 0
    with opened(path) as stream:
        for number, line in enumerate(stream, 1):
            cells = line.split(None, 5)
            try:
                score, doc = float(cells[4]), cells[2].decode()
                if score - score != 0 and b"inf" not in cells[4].lower():  # NaN, or more than a number holds
                    raise ValueError  # noqa: TRY301 - all faults are named in one place
                if cells[0] != raw:
                    if cells[0][:1] == b"#":
                        float(cells[3])  # else the line is a comment
                    query = cells[0].decode()
                    results = queries.setdefault(query, Results())
                    raw = cells[0]
            except (IndexError, ValueError):
                if cells and cells[0][:1] == b"#":
                    comments += 1
                elif cells:
                    bad.add(_trec_fault(line, SourceLocation(name, number), RUN))
                continue
            results.ids.append(doc)
            results.scores.append(score)
            results.lines.append(number)
            if ranked.undecided and cells[3].isdigit():
                ranked.add(query, float(cells[3]), score)
    bad.check()
    bad.remarks += [*[rising_scores(name)] * ranked.rises, *_left_out(comments, name)]
    return Run(name, queries, bad.notes())


def _trec_grades(stream: BinaryIO, name: str, bad: BadRows) -> Iterator[FileRow]:
    """The lines of gold in TREC's columns."""
    comments = 0
    for number, line in enumerate(stream, 1):
        cells = line.split()
        if not cells:
            continue
        try:
            query, _, doc, grade = cells
            row = number, query.decode(), doc.decode(), _whole(grade)
        except ValueError:
            if cells[0][:1] == b"#":
                comments += 1
            else:
                bad.add(_trec_fault(line, SourceLocation(name, number), GOLD))
        else:
            yield row
    bad.remarks += _left_out(comments, name)


def _left_out(comments: int, name: str) -> list[str]:
    """The note on lines that begin with # and are no rows."""
    return [f"{name}: {counted(comments, 'comment line')} left out"] if comments else []


LARGEST_GRADE = 10**9
"""The largest gold grade; 3 is usual."""


def _whole(text: bytes) -> int:
    written = _WHOLE.fullmatch(text)
    if not written or abs(grade := int(written[1])) > LARGEST_GRADE:
        raise ValueError
    return grade


def _trec_fault(line: bytes, location: SourceLocation, kind: Kind) -> InputError:
    """The fault of a line that is none of a run, or of gold."""
    try:
        decoded(line, location.file, location.line)
    except InputError as fault:
        return fault
    cells = line.split()
    columns, least, what = (6, 5, "number") if kind is RUN else (4, 4, f"whole number up to {LARGEST_GRADE}")
    if len(cells) < least or (kind is GOLD and len(cells) > columns):
        problem = f"{kind.name} has {counted(columns, 'column')}, this line {len(cells)}"
    elif kind is RUN and _is_number(cells[4]) and isnan(float(cells[4])):
        return _nan(cells[0].decode(), cells[2].decode(), location)
    else:
        problem = f"the {kind.value} {cells[least - 1].decode()[:60]!r} is not a {what}"
    return InputError(problem, fix=kind.trec, place=location)


# tables and JSON


_Record: TypeAlias = tuple[int, Mapping[str, Any], Mapping[str, str]]
"""A row of a table or of JSON as role -> value, with its line, and the names of the columns that play roles."""


def _record_rows(records: Iterator[_Record], name: str, kind: Kind, bad: BadRows) -> Iterator[FileRow]:
    """The rows of all records that can be read."""
    counts, ranked, numbers, mapped = CellCounts(), RankedScores(), NumberedLists(), kind is RUN
    for line, record, names in records:
        if mapped and (mapped := numbers.count_from_one and _maps_to_numbers(record)):
            numbers.add([*record["docs"].values()])
        try:
            rows = list(
                _rows_in(line, _counted(record, names, kind, counts, SourceLocation(name, line)), names, kind)
            )
        except Invalid as wrong:
            if not line and f"query {record['query']} " not in wrong.problem:
                wrong.problem = f"query {str(record['query'])[:60]}: {wrong.problem}"
            bad.add(wrong.error(SourceLocation(name, line)))
        else:
            if kind is RUN and ranked.undecided and "rank" in record and "doc" in record:
                with suppress(Invalid):
                    ranked.add(str(record["query"]), _number(record["rank"], "rank"), rows[0][3] or 0.0)
            yield from rows
    bad.remarks += map(str, counts.taken())
    bad.remarks += [rising_scores(name)] * ranked.rises
    bad.remarks += [mapped_to_ranks(name)] * (mapped and numbers.count_from_one and numbers.longest > 2)


def _maps_to_numbers(record: Mapping[str, Any]) -> bool:
    """True if a record of a run maps documents to numbers."""
    docs = record.get("docs")
    return isinstance(docs, Mapping) and all(isinstance(value, int | float) for value in docs.values())


def _counted(
    record: Mapping[str, Any],
    names: Mapping[str, str],
    kind: Kind,
    counts: CellCounts,
    place: SourceLocation,
) -> Mapping[str, Any]:
    """The record, in which a cell that holds a word for nothing has no value; cells that look like several ids are counted."""
    cell = None if "doc" in record else record.get(kind.list_role)
    if not isinstance(cell, str) or looks_listed(cell):
        return record
    column = names.get(kind.list_role, kind.list_role)
    if counts.is_missing(cell, column, lambda: place):
        return {**record, kind.list_role: None}
    if is_joined_ids(cell):
        counts.add("ids", column, place)
    return record


def _rows_in(line: int, record: Mapping[str, Any], names: Mapping[str, str], kind: Kind) -> Iterator[FileRow]:
    """The rows of one record: a single one, a list of ids, or a mapping of ids to scores or grades. Raises Invalid.

    In a list of gold ids each has grade 1.
    """
    query, number = record["query"], _score if kind is RUN else _grade
    if (query := _id(query)) is None:
        given = record["query"]
        lacks = given is None or given == "" or (isinstance(given, float) and isnan(given))
        problem = "this row has no query id" if lacks else f"{describe(given)} is not a query id"
        raise Invalid(problem, "fill it in or drop the row" if lacks else "write a text or a whole number")
    if "doc" in record:
        doc, value = record["doc"], None
        if (doc := _id(doc) if doc != "" else "") is None:
            raise Invalid(f"{describe(record['doc'])} is not a document id", RUN.json)
        if kind is GOLD or record.get("score") is not None:
            value = number(record.get(kind.value, 1))
        elif "rank" in record:
            value = -_number(record["rank"], "rank")
        yield line, query, doc, value
        return
    docs, values = (
        _in_cell(record.get(role), names.get(role, role)) for role in (kind.list_role, kind.value)
    )
    if docs is None:
        return
    yield line, query, None, None
    if isinstance(docs, list) and isinstance(values, list):
        docs = _paired(docs, values)
    if isinstance(docs, Mapping):
        exact = kind is RUN and set(map(type, docs.values())) == {float}
        numbers = docs.values() if exact else map(number, docs.values())
        yield from zip(repeat(line), repeat(query), docs, numbers)
    else:
        yield from (
            (line, query, doc, None if kind is RUN else 1)
            for doc in _listed(query, docs, kind, names.get("doc", ""))
        )


def _in_cell(value: Any, column: str) -> Any:
    """The list or object that a text writes, None for NaN; anything else as it is. Raises Invalid that names the column."""
    if isinstance(value, float) and isnan(value):
        return None
    try:
        return list_in_cell(value) if isinstance(value, str) and looks_listed(value) else value
    except Invalid as wrong:
        raise wrong.under(column) from None


def _score(value: Any) -> float:
    return _number(value, "score")


def _grade(value: Any) -> float:
    number = float(value) if isinstance(value, bool) else _number(value, "grade")
    if not number.is_integer() or abs(number) > LARGEST_GRADE:
        problem = f"the grade {str(value)[:60]!r} is not a whole number up to {LARGEST_GRADE}"
        raise Invalid(problem, "write e.g. 0, 1 or 2")
    return number


class _Cell(str):
    """A cell of a table: a number may be written in it, which a text in JSON is not."""

    __slots__ = ()


class _BareCell(_Cell):
    """A cell of a table without a header."""

    __slots__ = ()


_COMMA = re.compile(r"[+-]?\d+,\d+")


def _number(value: Any, what: str) -> float:
    if type(value) is float and value - value == 0:  # the usual
        return value
    if isinstance(value, _Cell) or (isinstance(value, int | float) and not isinstance(value, bool)):
        with suppress(ValueError, OverflowError):
            number = float(value)
            if not isinf(number) or "inf" in str(value).lower():  # else it is too large for a number
                return number
    text = repr(str(value)[:60]) if isinstance(value, str) else json.dumps(value)
    fix = _NAME_THEM.format(what) if isinstance(value, _BareCell) else f"write {what} as a number"
    if isinstance(value, str) and _COMMA.fullmatch(value):
        fix = f"write a point: {value.replace(',', '.')}"
    raise Invalid(f"the {what} {text[:60]} is not a number", fix)


def _paired(docs: list[Any], values: list[Any]) -> dict[str, Any]:
    """Ids with their scores or grades."""
    paired = {read_id(doc): value for doc, value in zip(docs, values, strict=False)}
    if not len(docs) == len(values) == len(paired):
        problem = f"{counted(len(docs), 'id')}, {len(paired)} of them different, have {len(values)} scores"
        raise Invalid(problem, "give each id once, with one score")
    return paired


def _listed(query: str, value: Any, kind: Kind, key: str) -> list[str]:
    """The ids in a list of ids or of objects with an id, or one id; of several of an object that under this key."""
    if isinstance(value, str | Real) and (isinstance(value, str) or _id(value) is not None):
        return [text] if (text := (_id(value) or "").strip()) else []
    ids = [_id(item, key) for item in value] if isinstance(value, list | tuple) else [None]
    if None not in ids:
        return [id_ for id_ in ids if id_ is not None]
    problem = f"query {query} has contexts without an id"
    if kind is GOLD:
        problem = f"the gold of query {query} is neither a list of ids nor grades"
    raise Invalid(problem, kind.json)


def _id(item: Any, key: str = "") -> str | None:
    """The id that this is, or that an object has, under this key or another one; None where it has none."""
    if isinstance(item, Mapping | Struct):
        fields = asdict(item) if isinstance(item, Struct) else item
        return id_in({key: fields[key]} if key in fields else fields)
    with suppress(Invalid):
        return read_id(item)
    return None


def roles_of(names: Sequence[str], kind: Kind, columns: Mapping[str, str] | None = None) -> dict[str, str]:
    """The name that plays each role; `columns` (role or its name -> name here) comes first."""
    folded = {fold(name): name for name in reversed(names)}
    chosen = {role(key, kind.roles): name for key, name in (columns or {}).items()}
    result = {}
    for ours in kind.roles:
        by_flag = [chosen[ours]] if ours in chosen else []
        candidates = [*by_flag, *(folded[fold(name)] for name in RESULT[ours].names if fold(name) in folded)]
        if hit := next((name for name in candidates if name in names), None):
            result[ours] = hit
    return result


@lru_cache(maxsize=64)
def _roles_of_keys(keys: tuple[str, ...], kind: Kind, columns: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return roles_of(keys, kind, dict(columns))


def document_columns(
    source: Any,
    fmt: Format | None = None,
    columns: Mapping[str, str] | None = None,
    kind: Kind = RUN,
) -> list[str]:
    """The columns that could hold the document's id, or the keys in a list of documents, in order of preference.

    `source` is a file of this format or, without one, a DataFrame, a list of rows or a mapping. None where `columns` names it.
    """
    if any(role(key) == "doc" for key in columns or ()):
        return []
    names = list[str]()
    first: Mapping[Any, Any] = {}
    if isinstance(source, list | Mapping):
        row = source if isinstance(source, Mapping) else row_fields(source[0], kind) if source else None
        first = row if isinstance(row, Mapping) else {}
    elif fmt is None:
        source = in_columns(source)
        found: Any = getattr(source, "column_names", None) or getattr(source, "columns", ())
        first = {str(name): next(iter(source[name]), None) for name in found}
    elif fmt in _BETWEEN:
        lines = [line.decode(errors="replace") for line in _head(source)[:1]]
        mark = delimiter_of(lines[0], _BETWEEN[fmt]) if lines else ","
        names = [name.strip() for row in csv.reader(lines, delimiter=mark) for name in row]
    elif fmt == "parquet":
        batch = next(parquet_batches(source), None)
        first = {} if batch is None else next(batch.iter_rows(named=True), {})
    elif fmt != "trec":
        text = b"\n".join(_head(source)).decode(errors="replace")
        with suppress(ValueError):
            row, _ = json.JSONDecoder().raw_decode(text.lstrip("[ \t\n"))
            first = row if isinstance(row, dict) else {}
    names = names or [str(name) for name in first]
    folded = {fold(name): name for name in reversed(names)}
    docs = (folded[fold(name)] for name in RESULT["doc"].names if fold(name) in folded)
    roles = roles_of(names, kind, columns)
    if "query" in roles and (columns_of_docs := list(dict.fromkeys(docs))):
        return columns_of_docs
    listed = (
        first.get(roles.get(kind.list_role, "")) if "query" in roles else next(iter(first.values()), None)
    )
    items = plain(listed) if isinstance(listed, Sized) and not isinstance(listed, str | bytes) else None
    item = items[0] if isinstance(items, list) and items else None
    return list(id_keys(tuple(map(str, item)))) if isinstance(item, Mapping) else []


def role(key: str, allowed: Sequence[str] = ()) -> str:
    """The role that a key of `--columns` means: its own name or one of the names that it goes by."""
    for ours in (*allowed, *RESULT):
        if fold(key) == fold(ours) or fold(key) in {fold(name) for name in RESULT[ours].names}:
            return ours
    fix = "write query=, doc=, docs=, score=, rank= or grade="
    raise InputError(f"--columns does not know {key!r}", fix=fix)


def _json_values(
    stream: BinaryIO, name: str, fmt: Format, kind: Kind, bad: BadRows
) -> Iterator[tuple[int, Any]]:
    """The values of a file of JSON with their lines: one per line, or those of a list that is the whole document."""
    if fmt == "json":
        document = _parse(whole_text(stream, name), name, 1, kind)
        yield from ((0, value) for value in (document if isinstance(document, list) else [document]))
        return
    for number, line in numbered_lines(stream):
        values: list[Any] = []
        with bad:
            values.append(_parse(line, name, number, kind))
        yield from ((number, value) for value in values)


def _parse(text: bytes, name: str, line: int, kind: Kind) -> Any:
    """The JSON value of a text; infinite scores are allowed, other than in samples."""
    written = decoded(text, name, line)
    try:
        return parse_strict_json(written, infinite=True)
    except JsonFault as fault:
        raise fault.error(name, written, line, fault.fix or kind.json) from None


def _json_records(
    values: Iterator[tuple[int, Any]],
    name: str,
    kind: Kind,
    bad: BadRows,
    columns: Mapping[str, str] | None = None,
) -> Iterator[_Record]:
    """JSON objects under the roles of their keys; {query: ...} without a query id is a record per query."""
    chosen = tuple((columns or {}).items())
    for line, value in values:
        try:
            records = list(_records_in(value, kind, chosen))
        except Invalid as wrong:
            bad.add(wrong.error(SourceLocation(name, line)))
        else:
            yield from ((line, record, names) for record, names in records)


def _records_in(
    value: Any, kind: Kind, columns: tuple[tuple[str, str], ...]
) -> Iterator[tuple[dict[str, Any], Mapping[str, str]]]:
    if not isinstance(value, dict):
        raise Invalid(f"{json.dumps(value, default=str)[:60]} is not a JSON object", kind.json)
    roles = _roles_of_keys if len(value) < 50 else _roles_of_keys.__wrapped__
    key = roles(tuple(value), kind, columns)
    chosen = _chosen_key(dict(columns))
    if "query" in key and isinstance(value[key["query"]], str | Real):
        if kind is RUN and "doc" not in key:
            _check_lists(key.get("docs", ""), value)
        yield {role: value[name] for role, name in key.items()}, chosen | key
        return
    if kind is RUN and not all(isinstance(listed, Mapping | list) for listed in value.values()):
        raise Invalid("no query id here", kind.json)
    for query, listed in value.items():
        yield {"query": query, kind.list_role: listed}, chosen


def _chosen_key(columns: Mapping[str, str] | None) -> dict[str, str]:
    """The column of the document's id that is chosen, by its role: it may be a key in a list of documents."""
    return {"doc": name for key, name in (columns or {}).items() if role(key) == "doc"}  # noqa: B035


def _check_lists(docs: str, record: Mapping[str, Any]) -> None:
    """Raise Invalid for a list that holds no ids: a bare string among a sample's `contexts` is a text, among `doc_ids` an id."""
    if record.get("calls"):
        raise Invalid("this sample has several calls", "use germane run, which ranks per call")
    if (failed := failure(record.get("error"))) is not None:
        fix = "use germane run, which counts it as an error, or leave it out and give --missing skip"
        raise Invalid(f"this query failed: {failed[:80]}", fix)
    listed = record.get(docs)
    if docs == "contexts" and isinstance(listed, list) and any(isinstance(item, str) for item in listed):
        raise Invalid("these contexts are texts without ids, and gold is about ids", RUN.json)


def _table_records(
    delimiter: str, stream: BinaryIO, name: str, kind: Kind, columns: Mapping[str, str] | None, bad: BadRows
) -> Iterator[_Record]:
    """The rows of a table under the roles of its header, or of its number of columns."""
    note = lambda text: bad.remarks.append(f"{name}: {text}")  # noqa: E731
    rows = table_rows(_texts(stream, name, bad), delimiter, name, bad, note)
    first = next(rows, None)
    if first is None:
        return
    head = [cell.strip() for cell in first[1]]
    positions, named = table_columns(head, SourceLocation(name, first[0]), kind, columns)
    names = {role: head[at] for role, at in positions.items()} if named else {}
    cell = _Cell if named else _BareCell
    width = max(positions.values()) + 1
    for line, cells in rows if named else chain([first], rows):
        if len(cells) < width:
            problem = f"this row has {counted(len(cells), 'column')}, the first one {len(head)}"
            fix = "give every row all columns"
            bad.add(InputError(problem, fix=fix, place=SourceLocation(name, line)))
        else:
            yield line, {role: cell(cells[at].strip()) for role, at in positions.items()}, names


def table_columns(
    head: Sequence[str], location: SourceLocation, kind: Kind, columns: Mapping[str, str] | None
) -> tuple[dict[str, int], bool]:
    """The index of the column of each role, by a table's first row, and True if that row is a header."""
    header = roles_of(head, kind, columns)
    named = "query" in header and len(header) > 1
    if columns and not named:
        problem = f"the header has no such columns: {', '.join(head)[:200]}"
        raise InputError(problem, fix="--columns query=...,doc=...", place=location)
    if not named and len(head) not in kind.bare:
        few, many = min(kind.bare), max(kind.bare)
        problem = f"a table without a header has {few} to {many} columns, this line {len(head)}"
        raise InputError(problem, fix=_NAME_THEM.format("score"), place=location)
    positions = {role: head.index(column) for role, column in header.items()}
    if not named:
        if kind is RUN:
            _refuse_shifted(head, location)
        positions = {role: at for at, role in enumerate(kind.bare[len(head)]) if role}
    if "doc" not in positions and kind.list_role not in positions:
        fix = _NAME_THEM.format(kind.roles[-1])
        raise InputError("no column holds the document", fix=fix, place=location)
    return positions, named


def _texts(stream: BinaryIO, name: str, bad: BadRows) -> Iterator[str]:
    """The lines of a file; one that is no UTF-8 is a bad row, and empty."""
    for number, line in enumerate(stream, 1):
        text = "\n"
        with bad:
            text = decoded(line, name, number)
        yield text


def _frame_records(
    frame: Any, name: str, kind: Kind, columns: Mapping[str, str] | None, before: int = 0
) -> Iterator[_Record]:
    """The rows of a DataFrame under the roles of their columns; a place's line is the number of the row."""
    frame = in_columns(frame)
    names = getattr(frame, "column_names", None) or frame.columns  # an Arrow table has both
    result = frame_roles([str(column) for column in names], name, columns, kind)
    names_of = _chosen_key(columns) | result
    listed = (frame[column] for column in result.values())
    values = (value.to_pylist() if hasattr(value, "to_pylist") else value.to_list() for value in listed)
    for number, row in enumerate(zip(*values, strict=True), before + 1):
        yield number, dict(zip(result, row, strict=True)), names_of


def frame_roles(
    names: Sequence[str], name: str, columns: Mapping[str, str] | None, kind: Kind = RUN
) -> dict[str, str]:
    """The column that plays each role; InputError where none holds the query, or none the documents."""
    result = roles_of(names, kind, columns)
    if "query" not in result or not {"doc", kind.list_role} & set(result):
        fix = "name them query_id and doc_id, or say columns={'query': ..., 'doc': ...}"
        raise InputError(
            f"no columns hold query and document: {', '.join(names)[:200]}",
            fix=fix,
            place=SourceLocation(name),
        )
    return result


def _parquet_records(
    path: str | Path, name: str, kind: Kind, columns: Mapping[str, str] | None
) -> Iterator[_Record]:
    before = 0
    for frame in parquet_batches(path, lambda names: frame_roles(names, name, columns, kind).values()):
        yield from _frame_records(frame, name, kind, columns, before)
        before += len(frame)


# which format


def format_of(path: str | Path, fmt: Format | None = None, kind: Kind = RUN) -> Format:
    """The given format, else Parquet by the file's first bytes, JSON by its first character, TREC by its columns, or a table."""
    fmt = fmt or _detected(_head(path), path, kind)
    if fmt == "trec" and kind is RUN:
        with opened(path) as stream:
            lines = stream.peek(1 << 12)[: 1 << 12].splitlines()  # type: ignore[attr-defined]
        number = next((at for at, line in enumerate(lines, 1) if line.strip() and line[:1] != b"#"), 0)
        if number:
            cells = [cell.decode(errors="replace") for cell in lines[number - 1].split()]
            _refuse_shifted(cells, SourceLocation(shown_name(path), number))
    return fmt


def _refuse_shifted(cells: Sequence[str], location: SourceLocation) -> None:
    """InputError where a run of five columns lacks the second one, Q0, and so the document would be read from the rank."""
    shifted = (
        len(cells) == 5 and cells[1].upper() != "Q0" and all(_is_number(cell.encode()) for cell in cells[2:4])
    )
    if shifted:
        problem = f"this run has five columns, the second is {cells[1][:40]!r} and not Q0"
        fix = f"{RUN.trec}; without Q0 write a header: query_id, doc_id, rank, score, tag, with tabs between"
        raise InputError(problem, fix=fix, place=location)


def _detected(lines: list[bytes], path: str | Path, kind: Kind) -> Format:
    first = lines[0].strip() if lines else b""
    suffix = Path(str(path).removesuffix(".gz").removesuffix(".zst")).suffix.lower()
    if suffix == ".parquet" or first[:4] == b"PAR1":
        return "parquet"
    if first[:1] in {b"{", b"["}:
        return "json" if _one_document(lines, suffix) else "jsonl"
    if suffix == ".csv":
        return "csv"
    if _looks_trec(first.split(), kind):
        return "trec"
    if b"\t" in first or suffix == ".tsv":
        return "tsv"
    return "csv" if first.count(b",") and len(first.split()) < 4 else "trec"


def _head(path: str | Path) -> list[bytes]:
    """The first lines that are not blank or comments; the last one may be cut off."""
    with opened(path) as stream:
        head: bytes = stream.peek(1 << 16)[: 1 << 16]  # type: ignore[attr-defined]
    return [line for line in head.splitlines() if line.strip() and line[:1] != b"#"]


def _one_document(lines: list[bytes], suffix: str) -> bool:
    """True if JSON goes on after its first line: it is one document, not one object per line."""
    if lines[0].lstrip()[:1] == b"[":
        return True
    if len(lines) == 1:
        return suffix == ".json"
    try:
        json.loads(lines[0])
    except ValueError:
        return True
    return False


def _looks_trec(cells: list[bytes], kind: Kind) -> bool:
    if kind is GOLD:
        return len(cells) == 4 and bool(_WHOLE.fullmatch(cells[3]))
    return len(cells) >= 5 and _is_number(cells[4])


def _is_bare_triple(lines: Sequence[bytes], between: str) -> bool:
    """True if a table begins with three columns, the third a number, and so has no header."""
    first = lines[0].decode(errors="replace") if lines else ""
    cells = first.encode().split(delimiter_of(first, between).encode()) if lines else []
    return len(cells) == 3 and _is_number(cells[2])


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
