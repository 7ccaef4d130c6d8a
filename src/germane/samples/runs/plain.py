"""Plain blocks of runs and gold: lines of TREC, cells of tables, JSON objects and columns of Parquet, read by numpy.

Each function returns the rows of a block of whole lines as columns, or raises NotPlain where a row must be read by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from germane.errors import SourceLocation
from germane.samples.cells import delimiter_of
from germane.samples.files import JsonFault, parse_json_lines, parse_strict_json
from germane.samples.runs.columns import Fields, Rows, Texts
from germane.samples.runs.formats import (
    GOLD,
    LARGEST_GRADE,
    RUN,
    Floats,
    Kind,
    NotPlain,
    is_number,
    roles_of,
    table_columns,
)

_USUAL = bytes(byte for byte in range(256) if byte >= 32 or byte in b"\t\n")
_BLANKS = bytes.maketrans(b"\t\v\f\r", b"    ")


def trec_rows(data: bytes, line: int, kind: Kind, *, ranks: bool) -> Rows:
    """Return the rows of lines in TREC's columns, the first of which has this number; with `ranks` those beside the scores."""
    fields = Fields(_separated(data), " ")
    query, doc = fields.texts(0), fields.texts(2)
    if (fields.data[query.start] == ord("#")).any():
        raise NotPlain("there are comments")
    if kind is GOLD:
        if (fields.counts != 4).any():
            raise NotPlain("a line of gold has not four columns")
        return _rows(query, doc, fields.numbers(3, whole=True), None, line, kind)
    beside = None
    if ranks:
        try:
            beside = fields.numbers(3)
        except NotPlain:  # ranks that are not numbers are ignored
            beside = np.array(
                [float(rank) if is_number(rank) else np.nan for rank in fields.texts(3).bytes()]
            )
    return _rows(query, doc, fields.numbers(4), beside, line, kind)


def table_head(
    line: bytes, between: str, place: SourceLocation, kind: Kind, columns: Mapping[str, str] | None
) -> tuple[list[str], dict[str, int], bool]:
    """Return the cells of a table's first line, the position of each role's column, and whether that line is a header."""
    if b'"' in line or not line.strip() or line.rstrip(b"\r\n").translate(None, _USUAL):
        raise NotPlain("the first line is blank, quoted or holds control characters")
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise NotPlain("the first line is not UTF-8") from None
    if delimiter_of(text, between) != between:
        raise NotPlain("the table has another separator")
    head = [cell.strip() for cell in text.split(between)]
    return head, *table_columns(head, place, kind, columns)


def table_rows(
    data: bytes, line: int, between: str, positions: Mapping[str, int], kind: Kind, *, ranks: bool
) -> Rows:
    """Return the rows of a table without quotes whose roles have these columns."""
    value = kind.value if kind.value in positions else "rank"
    if b'"' in data or not {"query", "doc", value} <= positions.keys():
        raise NotPlain("cells are quoted, or hold no single documents with numbers")
    fields = Fields(_lines(data), between)
    query, doc = (fields.texts(positions[role], strip=True) for role in ("query", "doc"))
    beside = fields.numbers(positions["rank"]) if ranks and "rank" in positions and value != "rank" else None
    numbers = fields.numbers(positions[value])
    return _rows(query, doc, -numbers if value == "rank" else numbers, beside, line, kind)


def json_rows(data: bytes, line: int, kind: Kind, columns: Mapping[str, str] | None) -> Rows:
    """Return the rows of lines of JSON, one result or grade each, with the same keys and ids that are texts."""
    data = _lines(data)
    try:
        first = parse_strict_json(data.partition(b"\n")[0].decode())
        names = roles_of(list(first), kind, columns) if isinstance(first, dict) else {}
        if not {"query", "doc", kind.value} <= names.keys():
            raise NotPlain("a line is not a single result")
        records = parse_json_lines(data)
    except (JsonFault, UnicodeDecodeError, ValueError) as fault:
        raise NotPlain(str(fault)) from None
    keys, count = list(first), len(records)
    alike = all(data.count(f'"{key}":'.encode()) == count for key in keys)
    if b"\\" in data or not alike or data.count(b'":') != count * len(keys) or data.count(b"\n") != count:
        raise NotPlain("a line has other keys, or an escape")
    if not all(isinstance(record, dict) for record in records):
        raise NotPlain("a line is not an object")
    roles = ["query", "doc", kind.value, *["rank"] * (kind is RUN and "rank" in names)]
    query, doc, *numbers = ([record.get(names[role]) for record in records] for role in roles)
    kinds = {type(number) for values in numbers for number in values}
    if {*map(type, query), *map(type, doc)} != {str} or not kinds <= {int, float}:
        raise NotPlain("an id is not a text, or a value not a number")
    try:
        value, *rank = (np.array(values, np.float64) for values in numbers)
    except OverflowError:
        raise NotPlain("a number is too large") from None
    return _rows(Texts.of(query), Texts.of(doc), value, rank[0] if rank else None, line, kind)


def frame_rows(frame: Mapping[str, Any], line: int, kind: Kind) -> Rows:
    """Return the rows of columns of polars by role, one result or grade per row; `line` is the number of the first."""
    value = kind.value
    if not {"query", "doc", value} <= frame.keys():
        raise NotPlain("a row is not a single result")
    numbers = [frame[name] for name in (value, "rank") if name in frame]
    ids = [frame[name] for name in ("query", "doc")]
    texts = [column.cast(str) for column in ids if column.dtype == str or column.dtype.is_integer()]
    if len(texts) < len(ids) or not all(column.dtype.is_numeric() for column in numbers):
        raise NotPlain("a column is of another type")
    if any(column.null_count() for column in (*texts, *numbers)):
        raise NotPlain("a value is missing")
    query, doc = map(_texts, texts)
    made, *rank = (column.cast(float).to_numpy() for column in numbers)
    return _rows(query, doc, made, rank[0] if rank else None, line, kind)


def _texts(column: Any) -> Texts:
    """Return the texts of a column of polars."""
    ends = np.cumsum(column.str.len_bytes().to_numpy(), dtype=np.int64)
    data = column.str.join("").item().encode() if len(column) else b""
    return Texts(np.frombuffer(data, np.uint8), np.concatenate([[0], ends])[: len(ends)], ends)


def _rows(query: Texts, doc: Texts, numbers: Floats, ranks: Floats | None, line: int, kind: Kind) -> Rows:
    """Return rows of lines that follow one another; NotPlain where one has no query, or a number that must be looked at."""
    if (query.start == query.end).any() or not np.isfinite(numbers).all():
        raise NotPlain("a query is missing, or a number not finite")
    if kind is GOLD and not ((abs(numbers) <= LARGEST_GRADE) & (numbers % 1 == 0)).all():
        raise NotPlain("a grade is not a whole number")
    return Rows(query, doc, numbers, np.arange(line, line + len(numbers)), ranks)


def _lines(data: bytes) -> bytes:
    """Return lines with line feeds alone; NotPlain where one is blank or holds control characters."""
    data = (data.replace(b"\r\n", b"\n") if b"\r" in data else data).removesuffix(b"\n") + b"\n"
    if data.translate(None, _USUAL) or data.startswith(b"\n") or b"\n\n" in data:
        raise NotPlain("there are blank lines or control characters")
    return data


def _separated(data: bytes) -> bytes:
    """Return lines with single blanks or tabs between columns; NotPlain where one is blank."""
    data = data.replace(b"\r\n", b"\n") if b"\r" in data else data
    if data[0] > 32 and data[-1] == 10 and _single(data):
        return data
    data = data.translate(_BLANKS)
    if data.translate(None, _USUAL):
        raise NotPlain("there are control characters")
    raw = np.frombuffer(data, np.uint8)
    kept = raw != 32
    kept[1:] |= kept[:-1].copy()  # the first of several blanks
    data = raw[kept].tobytes().removesuffix(b"\n") + b"\n"
    if not _single(data):
        data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n")
    if data.startswith(b"\n") or b"\n\n" in data:
        raise NotPlain("there are blank lines")
    return data


def _single(data: bytes) -> bool:
    """Return True if white space is only blanks, tabs and line feeds, none of them after another."""
    raw = np.frombuffer(data, dtype=np.uint8)
    controls = (raw - 11).min() < 21  # 11 to 31: smaller numbers wrap around
    return not controls and (len(raw) < 2 or np.maximum(raw[1:], raw[:-1]).min() > 32)
