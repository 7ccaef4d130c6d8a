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

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, repeat
from math import isinf, isnan
from numbers import Real
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct
from msgspec.structs import asdict

from germane.clean import counted
from germane.errors import InputError, Invalid, SourceLocation, describe
from germane.samples.cells import (
    CellCounts,
    is_joined_ids,
    list_in_cell,
    looks_listed,
    table_rows,
)
from germane.samples.fields import failure, id_in, read_id
from germane.samples.files import (
    BadRows,
    decoded,
    json_in,
    numbered_lines,
    on_disk,
    opened,
    shown_name,
    whole_text,
)
from germane.samples.frames import in_columns, is_table, parquet_batches
from germane.samples.runs.detecting import WHOLE, first_lines, format_of, is_bare_triple, is_number
from germane.samples.runs.ranks import (
    NumberedLists,
    RankedScores,
    mapped_to_ranks,
    ranks_not_scores,
    rising_scores,
)
from germane.samples.runs.results import (
    GOLD,
    LARGEST_GRADE,
    NAME_THEM,
    RUN,
    FileRow,
    Format,
    Kind,
    Qrels,
    Results,
    Run,
)
from germane.samples.runs.roles import BETWEEN, chosen_key, frame_roles, roles_of_keys, table_columns
from germane.samples.runs.shapes import Record, in_roles, row_fields, row_list, scalar

__all__ = ["read_run"]


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
        source = source if isinstance(source, Mapping) or is_table(source) else row_list(source, "run", RUN)
        run = _collect_run("run", _rows(source, "run", None, columns, RUN, bad), bad)
        triples = isinstance(source, list) and all(
            type(row) in {tuple, list} and len(row) == 3 for row in source
        )
        return ranks_not_scores(run) if triples else run
    with on_disk(source) as file:
        name, fmt = shown_name(source), format_of(file, fmt)
        if fmt == "trec":
            return _trec_run(file, name, bad)
        run = _collect_run(name, _rows(file, name, fmt, columns, RUN, bad), bad)
        bare = fmt in BETWEEN and not columns and is_bare_triple(first_lines(file), BETWEEN[fmt])
        return ranks_not_scores(run) if bare else run


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
        source = source if isinstance(source, Mapping) or is_table(source) else row_list(source, "gold", GOLD)
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
                records = _table_records(BETWEEN[fmt], stream, name, kind, columns, bad)
                yield from _record_rows(records, name, kind, bad)


def _mapped_records(
    source: Mapping[Any, Any], name: str, kind: Kind, bad: BadRows, columns: Mapping[str, str] | None
) -> Iterator[Record]:
    """The lists of a mapping of Python under the roles of runs or gold, their ids as text."""
    seen, names = set[str](), chosen_key(columns)
    for key, listed in source.items():
        try:
            query = read_id(scalar(key))
            if query in seen:
                raise Invalid("is there twice, as a number and as text", "write ids as text")  # noqa: TRY301
            record = {"query": query, **in_roles(listed, kind)}
        except Invalid as wrong:
            wrong.path = (f"query {str(key)[:60]}", *wrong.path)
            bad.add(wrong.error(SourceLocation(name)))
        else:
            seen.add(query)
            yield 0, record, names


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


def _whole(text: bytes) -> int:
    written = WHOLE.fullmatch(text)
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
    elif kind is RUN and is_number(cells[4]) and isnan(float(cells[4])):
        return _nan(cells[0].decode(), cells[2].decode(), location)
    else:
        problem = f"the {kind.value} {cells[least - 1].decode()[:60]!r} is not a {what}"
    return InputError(problem, fix=kind.trec, place=location)


def _record_rows(records: Iterator[Record], name: str, kind: Kind, bad: BadRows) -> Iterator[FileRow]:
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
    fix = NAME_THEM.format(what) if isinstance(value, _BareCell) else f"write {what} as a number"
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
    return json_in(decoded(text, name, line), name, line, otherwise=kind.json, infinite=True)


def _json_records(
    values: Iterator[tuple[int, Any]],
    name: str,
    kind: Kind,
    bad: BadRows,
    columns: Mapping[str, str] | None = None,
) -> Iterator[Record]:
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
    roles = roles_of_keys if len(value) < 50 else roles_of_keys.__wrapped__
    key = roles(tuple(value), kind, columns)
    chosen = chosen_key(dict(columns))
    if "query" in key and isinstance(value[key["query"]], str | Real):
        if kind is RUN and "doc" not in key:
            _check_lists(key.get("docs", ""), value)
        yield {role: value[name] for role, name in key.items()}, chosen | key
        return
    if kind is RUN and not all(isinstance(listed, Mapping | list) for listed in value.values()):
        raise Invalid("no query id here", kind.json)
    for query, listed in value.items():
        yield {"query": query, kind.list_role: listed}, chosen


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
) -> Iterator[Record]:
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


def _texts(stream: BinaryIO, name: str, bad: BadRows) -> Iterator[str]:
    """The lines of a file; one that is no UTF-8 is a bad row, and empty."""
    for number, line in enumerate(stream, 1):
        text = "\n"
        with bad:
            text = decoded(line, name, number)
        yield text


def _frame_records(
    frame: Any, name: str, kind: Kind, columns: Mapping[str, str] | None, before: int = 0
) -> Iterator[Record]:
    """The rows of a DataFrame under the roles of their columns; a place's line is the number of the row."""
    frame = in_columns(frame)
    names = getattr(frame, "column_names", None) or frame.columns  # an Arrow table has both
    result = frame_roles([str(column) for column in names], name, columns, kind)
    names_of = chosen_key(columns) | result
    listed = (frame[column] for column in result.values())
    values = (value.to_pylist() if hasattr(value, "to_pylist") else value.to_list() for value in listed)
    for number, row in enumerate(zip(*values, strict=True), before + 1):
        yield number, dict(zip(result, row, strict=True)), names_of


def _parquet_records(
    path: str | Path, name: str, kind: Kind, columns: Mapping[str, str] | None
) -> Iterator[Record]:
    before = 0
    for frame in parquet_batches(path, lambda names: frame_roles(names, name, columns, kind).values()):
        yield from _frame_records(frame, name, kind, columns, before)
        before += len(frame)
