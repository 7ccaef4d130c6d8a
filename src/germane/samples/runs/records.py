"""Reads runs and gold row by row, for input that cannot be read in blocks, and describes invalid rows.

A record is a row of a table or DataFrame, or a JSON object: one sample, one result, one grade, or a mapping
{query: {document: score}}. Columns and keys that are not needed are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice, repeat
from math import isinf, isnan, nan
from numbers import Integral, Real
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from germane.clean import counted
from germane.errors import InputError, Invalid, SourceLocation, describe, excerpt
from germane.samples.cells import is_joined_ids, is_missing, list_in_cell, looks_listed, table_rows
from germane.samples.fields import failure, grade_in, id_in, read_id
from germane.samples.files import HOLDERS, decoded, numbered_lines
from germane.samples.frames import fields_of, plain
from germane.samples.runs.columns import Lists
from germane.samples.runs.formats import (
    GOLD,
    LARGEST_GRADE,
    NAME_THEM,
    RESULT,
    RUN,
    WHOLE,
    Kind,
    Reading,
    is_number,
    role,
    roles_of,
    table_columns,
)
from germane.samples.strictjson import json_in
from germane.types import TOO_DEEP

Row: TypeAlias = tuple[int, str, str | None, float | None, float | None]
"""A row as (line, query, document, score or grade, rank).

The document is None if the query has no results. The score is None if the result has no score. The rank is
None unless the row also has a score.
"""
Record: TypeAlias = tuple[int, Any]
"""A record, after its line number (0 if unknown)."""
_ROWS_AT_ONCE = 1 << 15


def in_blocks(rows: Iterable[tuple[Any, ...]], reading: Reading) -> Iterator[Lists]:
    """Yield the rows in large batches, as columns."""
    remaining = iter(rows)
    try:
        while chunk := list(islice(remaining, _ROWS_AT_ONCE)):
            yield Lists.of_rows(chunk)
    except RecursionError:  # a Python object may contain itself
        raise InputError(f"a row {TOO_DEEP[0]}", fix=TOO_DEEP[1], place=reading.at(0)) from None


def record_blocks(records: Iterable[Record], reading: Reading) -> Iterator[Lists]:
    """Yield the rows of the documents in the records, as columns; errors are passed to `reading.reject`."""
    return in_blocks(_record_rows(records, reading), reading)


def _record_rows(records: Iterable[Record], reading: Reading) -> Iterator[Row]:
    id_key = next((name for key, name in reading.columns if role(key) == "doc"), "")
    for line, record in records:
        try:
            queries = _queries_in(record, reading)
        except Invalid as wrong:
            reading.reject(wrong.error(reading.at(line)))
            continue
        for values, names in queries:
            if "system" in values:
                reading.require_one_system(str(values["system"]), names["system"], line)
            if "doc" in values:
                reading.note_without_numbers(record, names)
            if reading.kind is RUN:
                mapped = isinstance(values.get("docs"), Mapping)
                reading.mapped = reading.mapped is not False and mapped
                reading.rises = reading.rises and not mapped
            try:
                rows = list(_rows_in(line, values, names, id_key, reading))
            except Invalid as wrong:
                if not line and f"query {values['query']} " not in wrong.problem:
                    wrong.problem = f"query {str(values['query'])[:60]}: {wrong.problem}"
                reading.reject(wrong.error(reading.at(line)))
                continue
            for row in rows:
                if row[3] is not None and isnan(row[3]):
                    reading.reject(_nan_error(row[1], row[2] or "", reading.at(line)))
                else:
                    yield row


def _nan_error(query: str, doc: str, where: SourceLocation) -> InputError:
    problem = f"the score of document {doc} in query {query} is NaN, which cannot be ranked"
    return InputError(problem, fix="write a number (inf and -inf are allowed) or remove the row", place=where)


def _queries_in(record: Any, reading: Reading) -> list[tuple[dict[str, Any], Mapping[str, str]]]:
    """Return, for each query in a record, two mappings by role: its values, and the record's keys."""
    kind = reading.kind
    if not isinstance(record, dict):
        raise Invalid(f"this row is {excerpt(record, 60)}, not a JSON object", kind.json)
    roles = roles_of if len(record) < 50 else roles_of.__wrapped__
    key = roles(tuple(record), kind, reading.columns)
    if "query" in key and not isinstance(record[key["query"]], Mapping | list):
        if "doc" not in key and kind.list_role not in key:
            reading.unread = tuple(record)
        if kind is RUN and "doc" not in key:  # a sample, which may not be a ranking
            if record.get("calls"):
                raise Invalid("this sample has several calls", "use `germane run`, which scores each call")
            if (failed := failure(record.get("error"))) is not None:
                fix = "use `germane run`, which reports an error, or remove the row and give --missing skip"
                raise Invalid(f"this query failed: {failed[:80]}", fix)
            listed = record.get(key.get("docs", "")) if key.get("docs") == "contexts" else None
            if isinstance(listed, list) and any(isinstance(item, str) for item in listed):
                raise Invalid(
                    "the contexts of this row have no ids, so they cannot be matched with gold", RUN.json
                )
        return [({role: record[name] for role, name in key.items()}, key)]
    held: list[Any] = next((record[key] for key in HOLDERS if isinstance(record.get(key), list)), [])
    if held and isinstance(held[0], dict) and "query" in roles(tuple(held[0]), kind, reading.columns):
        return [values for row in held for values in _queries_in(row, reading)]
    if kind is RUN and not all(isinstance(listed, Mapping | list) for listed in record.values()):
        raise Invalid("this row has no query id", kind.json)
    return [({"query": query, kind.list_role: listed}, {}) for query, listed in record.items()]


def _rows_in(
    line: int, record: Mapping[str, Any], names: Mapping[str, str], id_key: str, reading: Reading
) -> Iterator[Row]:
    """Yield the rows of one query in a record: one document, a list of ids, or ids with numbers.

    `record` holds the query's values by role, and `names` the columns by role, for messages. In a list of
    gold, each id has the grade 1. An object in a list has its id under `id_key` or another usual key.
    """
    kind, named = reading.kind, record["query"]
    if (query := _id(named)) is None:
        if named is None or named == "" or (isinstance(named, float) and isnan(named)):
            raise Invalid("this row has no query id", "fill in the query id or remove the row")
        raise Invalid(f"the query id cannot be {describe(named)}", "write a string or a whole number")
    if "doc" in record:
        yield line, query, *_one_document(record, reading)
        return
    docs = _in_cell(record.get(kind.list_role), column := names.get(kind.list_role, kind.list_role))
    values = _in_cell(record.get(kind.value), names.get(kind.value, kind.value))
    if docs is None:
        if isinstance(values, Real):
            raise Invalid(f"this row has a {kind.value} and no document id", kind.json)
        return
    if isinstance(docs, list) and values is None:
        docs, values = _with_numbers(query, docs, kind, id_key)
    if isinstance(docs, str):
        if is_missing(docs):
            reading.cells.add("missing", column, reading.at(line))
            return
        if is_joined_ids(docs):
            reading.cells.add("ids", column, reading.at(line))
    yield line, query, None, None, None
    if isinstance(docs, list) and isinstance(values, list):
        count, docs = len(docs), {read_id(doc): value for doc, value in zip(docs, values, strict=False)}
        if not count == len(values) == len(docs):
            problem = f"this row has {counted(count, 'id')} ({len(docs)} different)"
            problem += f" and {counted(len(values), 'score')}"
            raise Invalid(problem, "write each id once, with one score per id")
    if isinstance(docs, Mapping):
        if "" in docs:
            _one_document({"doc": ""}, reading)
        exact = kind is RUN and set(map(type, docs.values())) == {float}
        numbers = docs.values() if exact else (_value(value, reading) for value in docs.values())
        yield from zip(repeat(line), repeat(query), docs, numbers, repeat(None))
    else:
        number = None if kind is RUN else 1
        for doc in _listed(query, docs, kind, id_key):
            yield line, query, doc, number, None


def _with_numbers(query: str, docs: list[Any], kind: Kind, id_key: str) -> tuple[list[Any], list[Any] | None]:
    """Return a list's documents, and the numbers of pairs (id, number) or of gold's objects, else None."""
    if docs and all(isinstance(item, list) and len(item) == 2 and isinstance(item[1], Real) for item in docs):
        return [item[0] for item in docs], [item[1] for item in docs]
    if kind is RUN or not any(isinstance(item, Mapping) for item in docs):
        return docs, None
    return _listed(query, docs, kind, id_key), list(map(grade_in, docs))


def _one_document(record: Mapping[str, Any], reading: Reading) -> tuple[str, float | None, float | None]:
    """Return (document id, score or grade, rank) of a record that holds one document."""
    kind = reading.kind
    if not (doc := _id(record["doc"])):
        fix = "write a string or a whole number, or remove the row"
        raise Invalid(f"the document id cannot be {describe(record['doc'])}", fix)
    if kind is GOLD or record.get("score") is not None:
        value, rank = _value(record.get(kind.value, 1), reading), None
        with suppress(Invalid):
            rank = _number(record["rank"], "rank", reading) if "rank" in record else None
        return doc, value, rank
    return doc, -_number(record["rank"], "rank", reading) if "rank" in record else None, None


def _in_cell(value: Any, column: str) -> Any:
    """Parse a string that holds a list or an object; return None for NaN, and any other value unchanged."""
    if isinstance(value, float) and isnan(value):
        return None
    try:
        return list_in_cell(value) if isinstance(value, str) and looks_listed(value) else value
    except Invalid as wrong:
        raise wrong.under(column) from None


def _value(value: Any, reading: Reading) -> float:
    """Return a score or grade as float. Raises Invalid for another value, or a grade that is not whole."""
    if reading.kind is RUN:
        return _number(value, "score", reading)
    yes = _TRUTH.get(str(value).casefold()) if isinstance(value, bool | _Cell) else None
    number = _number(value, "grade", reading) if yes is None else yes
    if not number.is_integer() or abs(number) > LARGEST_GRADE:
        problem = f"the grade {str(value)[:60]!r} is not a whole number up to {LARGEST_GRADE}"
        raise Invalid(problem, "write e.g. 0, 1 or 2")
    return number


_TRUTH = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
"""The grades that words in a cell of gold mean."""


class _Cell(str):
    """A string from a table's cell, which may be read as a number; a string in JSON may not."""

    __slots__ = ()


def _number(value: Any, what: str, reading: Reading) -> float:
    """Return a value as float. Raises Invalid if it is not a number; `what` names it ("score", ...)."""
    if type(value) is float and value - value == 0:  # a finite float, the usual case
        return value
    if isinstance(value, _Cell) or (isinstance(value, int | float) and not isinstance(value, bool)):
        with suppress(ValueError, OverflowError):
            number = float(value)
            if not isinf(number) or "inf" in str(value).lower():  # otherwise it is too large for a float
                return number
    problem = f"the {what} {excerpt(value, 60)} is not a number"
    fix = NAME_THEM if isinstance(value, _Cell) and reading.nameless else "write {0} as a number"
    raise Invalid(problem, fix.format(what))


def _listed(query: str, value: Any, kind: Kind, key: str) -> list[str]:
    """Return the document ids in a list of ids or objects (with the id under `key`), or a single id."""
    if isinstance(value, str | Real) and (isinstance(value, str) or _id(value) is not None):
        return [text] if (text := (_id(value) or "").strip()) else []
    ids = [_id(item, key) for item in value] if isinstance(value, list | tuple) else [None]
    known = [name for name in ids if name is not None]
    if len(known) == len(ids):
        return known
    problem = f"query {query} has contexts without a document id"
    if kind is GOLD:
        problem = f"the gold of query {query} is neither a list of ids nor a mapping from ids to grades"
    raise Invalid(problem, kind.json)


def _id(item: Any, key: str = "") -> str | None:
    """Return an id, or that of an object (under `key` or a usual key), as a string; None for other values."""
    if isinstance(item, Mapping):
        return id_in({key: item[key]} if key in item else item)
    with suppress(Invalid):
        return read_id(item)
    return None


# The records of each kind of source


def json_records(stream: BinaryIO, before: int, reading: Reading) -> Iterator[Record]:
    """Yield (line number, record) for each line of JSON Lines; invalid lines are passed to `reading.reject`.

    `before` is the number of lines in the file before the stream.
    """
    for number, line in numbered_lines(stream):
        try:
            value = parsed(line, before + number, reading)
        except InputError as fault:
            reading.reject(fault)
        else:
            yield before + number, value


def parsed(text: bytes, line: int, reading: Reading) -> Any:
    """Parse a JSON text that starts on line `line`, in which NaN and Infinity are allowed."""
    name = reading.name
    return json_in(decoded(text, name, line), name, line, otherwise=reading.kind.json, infinite=True)


def table_records(
    first: bytes, rest: Iterable[bytes], number: int, delimiter: str, reading: Reading
) -> Iterator[Record]:
    """Yield (line number, record) for the rows of a CSV or TSV table in the lines `rest`.

    `first` is the first line of the file; it is a row too if it is not a header and nothing was read before.
    `number` is the number of the next line. A row with too few columns is passed to `reading.reject`.
    """
    lines = chain([(1, first)], enumerate(rest, number))
    texts = (decoded(text, reading.name, line) for line, text in lines)
    rows = table_rows(texts, delimiter, reading.name, reading.note, number - 2)
    top = next(rows, None)
    if top is None:
        return
    head = [cell.strip() for cell in top[1]]
    positions, named = table_columns(head, top[0], reading)
    keys = {head[at] if named else role: at for role, at in positions.items()}
    reading.nameless = not named
    for line, cells in rows if named or number > 2 else chain([top], rows):
        if len(cells) <= max(positions.values()):
            problem = f"this row has {counted(len(cells), 'column')}, but the first row has {len(head)}"
            reading.reject(InputError(problem, fix="write a cell for every column", place=reading.at(line)))
        else:
            yield line, {key: _Cell(cells[at].strip()) for key, at in keys.items()}


def frame_records(frame: Any, names: Iterable[str], first: int) -> Iterator[Record]:
    """Yield (row number, record) for each row of a DataFrame or an Arrow table; `first` is the first number.

    `names` are the columns to read.
    """
    columns: dict[str, list[Any]] = {}
    for name in names:
        column = frame[name]
        values = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
        columns[name] = values if {*map(type, values)} <= {int, float, str} else list(map(_native, values))
    for number, row in enumerate(zip(*columns.values(), strict=True), first):
        yield number, dict(zip(columns, row, strict=True))


def python_records(source: Mapping[Any, Any] | list[Any], reading: Reading) -> Iterator[Record]:
    """Yield (number, record) for each row of a list, or for each query of a mapping.

    The mapping maps query ids to documents. A row is a mapping, a data class or a tuple, and is numbered from
    1. The number of a query is 0. Raises InputError for an invalid query in a mapping.
    """
    kind, seen = reading.kind, set[str]()
    if isinstance(source, list):
        reading.bare = kind is RUN and all(type(row) in {tuple, list} and len(row) == 3 for row in source)
        for number, row in enumerate(source, 1):
            fields = row if isinstance(row, Mapping) else fields_of(row)
            if fields is None and isinstance(row, tuple | list) and len(row) in kind.bare:  # as in a table
                fields = {name: value for name, value in zip(kind.bare[len(row)], row, strict=True) if name}
            yield number, row if fields is None else {str(name): _native(fields[name]) for name in fields}
        return
    for key, listed in source.items():
        try:
            query = read_id(key)
            if query in seen:
                raise Invalid("occurs twice, as a number and as a string", "write ids as strings")  # noqa: TRY301
            yield 0, {"query_id": query, RESULT[kind.list_role][0]: _native_documents(listed, kind)}
        except Invalid as wrong:
            raise wrong.under(f"query {str(key)[:60]}").error(SourceLocation(reading.name)) from None
        seen.add(query)


def _native(value: Any) -> Any:
    """Convert a NumPy number to int or float (NaN stays), bytes to str, and other values as `plain` does."""
    if type(value) in {int, float, str, bool}:
        return value
    if isinstance(value, bytes):
        return read_id(value) if value else ""
    if isinstance(value, Real | np.bool_):
        return int(value) if isinstance(value, Integral) else float(value)
    return plain(value)


def _native_documents(listed: Any, kind: Kind) -> Any:
    """Return the documents of one query, a mapping from ids to numbers or a list, with ids as strings.

    Raises Invalid for any other value, or if an id in a mapping occurs both as a number and as a string.
    """
    if isinstance(listed, Mapping):
        if {*map(type, listed)} <= {str} and {*map(type, listed.values())} <= {int, float}:
            return listed
        try:
            graded = {read_id(doc): _native(number) for doc, number in listed.items()}
        except Invalid as wrong:
            raise Invalid(f"has a document whose id {wrong.problem}", wrong.fix) from None
        if len(graded) < len(listed):
            problem = "has the same document twice, once as a number and once as a string"
            raise Invalid(problem, "write ids as strings")
        return graded
    if isinstance(listed, set | frozenset) and kind is RUN:
        raise Invalid("is a set, which has no order", kind.python)
    if not isinstance(listed, list | tuple | set | frozenset | np.ndarray):
        raise Invalid(f"is {describe(listed)}, not a mapping or list of documents", kind.python)
    return list(map(_native, listed))


def trec_rows(lines: Iterable[bytes], first: int, reading: Reading) -> Iterator[tuple[Any, ...]]:
    """Yield the rows in lines of TREC format, as (line number, query, document, score or grade, rank).

    `first` is the number of the first line. Invalid lines are passed to `reading.reject`. As in trec_eval,
    columns are separated by ASCII white space, and text after the tag of a run is ignored. Comment lines,
    which begin with #, are ignored too.
    """
    rank = nan
    for number, line in enumerate(lines, first):
        try:
            if reading.kind is RUN:
                query, _, doc, place, score, *tag = line.split(None, 5)
                value = float(score)
                if value - value != 0 and b"inf" not in score.lower():  # NaN, or too large for a float
                    raise ValueError  # noqa: TRY301
                if query[:1] == b"#" or len(b" ".join(tag).split()) > 1:
                    float(place)  # else the line is a comment, or an id has a blank
                rank = float(place) if is_number(place) else nan
            else:
                query, _, doc, grade = line.split()
                written = WHOLE.fullmatch(grade)
                if not written or abs(value := int(written[1])) > LARGEST_GRADE:
                    raise ValueError  # noqa: TRY301
            query.decode(), doc.decode()
        except ValueError:
            start = line.split(None, 1)
            if start and start[0][:1] != b"#":
                reading.reject(_trec_fault(line, reading.at(number), reading.kind))
        else:
            yield number, query, doc, value, rank


def _trec_fault(line: bytes, location: SourceLocation, kind: Kind) -> InputError:
    """Return the InputError that describes an invalid line in TREC format."""
    try:
        decoded(line, location.file, location.line)
    except InputError as fault:
        return fault
    cells = line.split()
    columns, least, what = (6, 5, "number") if kind is RUN else (4, 4, f"whole number up to {LARGEST_GRADE}")
    fix = kind.trec
    if len(cells) > columns:
        fix += "; ids with blanks need a table with a header, or JSON Lines"
    if len(cells) < least or (kind is GOLD and len(cells) > columns):
        count = counted(len(cells), "column")
        problem = f"this line has {count}, but {kind.name} in TREC format has {columns}"
    elif kind is RUN and is_number(cells[4]) and isnan(float(cells[4])):
        return _nan_error(cells[0].decode(), cells[2].decode(), location)
    elif kind is RUN and len(cells) > columns and not is_number(cells[3]):
        problem = f"the rank {cells[3].decode()[:60]!r} is not a number, in a line of {len(cells)} columns"
    else:
        problem = f"the {kind.value} {cells[least - 1].decode()[:60]!r} is not a {what}"
    return InputError(problem, fix=fix, place=location)
