"""Fast readers with NumPy for regular blocks of runs and gold in TREC format, in tables and in JSON Lines.

Each reader returns the rows of a block of whole lines as columns, or raises NotPlain if its rows must be read
one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

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
    Reading,
    roles_of,
    table_columns,
)

_USUAL = bytes(byte for byte in range(256) if byte >= 32 or byte in b"\t\n")


def trec_rows(data: bytes, line: int, reading: Reading) -> Rows:
    """Return the rows of a block of lines in TREC format; `line` is the number of the first line.

    The rank column of a run is read only while `reading.rises` is True. Raises NotPlain for irregular lines.
    """
    fields = Fields(_separated(data), " ")
    query, doc = fields.texts(0), fields.texts(2)
    if (fields.data[query.start] == ord("#")).any():
        raise NotPlain("the file has comment lines")
    if reading.kind is GOLD:
        if (fields.counts != 4).any():
            raise NotPlain("a line of gold does not have four columns")
        return _rows(query, doc, fields.numbers(3, whole=True), None, line, GOLD)
    ranks = fields.numbers(3) if reading.rises else None
    return _rows(query, doc, fields.numbers(4), ranks, line, RUN)


def table_head(line: bytes, between: str, reading: Reading) -> tuple[dict[str, int], bool]:
    """Return a mapping from each role to its column's index, and whether a table's first line is a header.

    `between` is the separator. Raises NotPlain for an irregular line, and InputError if no columns hold the
    query and the documents.
    """
    if b'"' in line or not line.strip() or line.rstrip(b"\r\n").translate(None, _USUAL):
        raise NotPlain("the first line is not a row of plain cells, without quotes or control characters")
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise NotPlain("the first line is not UTF-8") from None
    if delimiter_of(text, between) != between:
        raise NotPlain("the cells of the table are separated by another character")
    return table_columns([cell.strip() for cell in text.split(between)], 1, reading)


def table_rows(data: bytes, line: int, between: str, positions: Mapping[str, int], reading: Reading) -> Rows:
    """Return the rows of a block of lines whose cells are separated by `between`.

    `line` is the number of the first line. `positions` maps each role to the index of its column. Raises
    NotPlain for quoted cells and other irregular lines.
    """
    value = reading.kind.value if reading.kind.value in positions else "rank"
    if b'"' in data or not {"query", "doc", value} <= positions.keys():
        raise NotPlain("a row is not one document id and one number, without quotes")
    fields = Fields(_lines(data), between)
    query, doc = (fields.texts(positions[role], strip=True) for role in ("query", "doc"))
    numbers, ranks = fields.numbers(positions[value]), None
    if reading.rises and "rank" in positions and value != "rank":
        ranks = fields.numbers(positions["rank"])
    return _rows(query, doc, -numbers if value == "rank" else numbers, ranks, line, reading.kind)


def json_rows(data: bytes, line: int, reading: Reading) -> Rows:
    """Return the rows of a block of JSON Lines, where each line holds one result or one grade.

    `line` is the number of the first line. Raises NotPlain if the lines have different keys, an id is not a
    string, or a line is irregular in another way.
    """
    data, kind = _lines(data), reading.kind
    try:
        first = parse_strict_json(data.partition(b"\n")[0].decode())
        names = roles_of(tuple(first), kind, reading.chosen) if isinstance(first, dict) else {}
        if not {"query", "doc", kind.value} <= names.keys():
            raise NotPlain("a line is not a single result")
        records = parse_json_lines(data)
    except (JsonFault, UnicodeDecodeError, ValueError) as fault:
        raise NotPlain(str(fault)) from None
    keys, count = list(first), len(records)
    alike = all(data.count(f'"{key}":'.encode()) == count for key in keys)
    if b"\\" in data or not alike or data.count(b'":') != count * len(keys) or data.count(b"\n") != count:
        raise NotPlain("a line has unexpected keys or an escape sequence")
    if not all(isinstance(record, dict) for record in records):
        raise NotPlain("a line is not an object")
    roles = ["query", "doc", kind.value, *["rank"] * (kind is RUN and "rank" in names)]
    query, doc, *numbers = ([record.get(names[role]) for record in records] for role in roles)
    kinds = {type(number) for values in numbers for number in values}
    if {*map(type, query), *map(type, doc)} != {str} or not kinds <= {int, float}:
        raise NotPlain("every id must be a string, and every score or grade a number")
    try:
        value, *rank = (np.array(values, np.float64) for values in numbers)
    except OverflowError:
        raise NotPlain("a number is too large") from None
    return _rows(Texts.of(query), Texts.of(doc), value, rank[0] if rank else None, line, kind)


def frame_rows(frame: Any, names: Mapping[str, str], line: int, reading: Reading) -> Rows:
    """Return the rows of a polars DataFrame, each of which is one result or one grade.

    `names` maps each role to the name of its column, and `line` is the number of the first row. Raises
    NotPlain for other frames, for missing values, and for ids and numbers of other types.
    """
    if not hasattr(frame, "collect_schema") or names.keys() - {"rank"} != {
        "query",
        "doc",
        reading.kind.value,
    }:
        raise NotPlain("the rows are not results in a polars DataFrame")
    query, doc = (_frame_texts(frame[names[role]]) for role in ("query", "doc"))
    roles = [reading.kind.value, *(["rank"] if reading.rises and "rank" in names else [])]
    numbers = [frame[names[role]] for role in roles]
    if any(column.null_count() or not column.dtype.is_numeric() for column in numbers):
        raise NotPlain("a row has no number")
    value, *rank = (column.to_numpy().astype(np.float64) for column in numbers)
    return _rows(query, doc, value, rank[0] if rank else None, line, reading.kind)


def _frame_texts(column: Any) -> Texts:
    """Return a column of polars, of strings or whole numbers, as Texts. Raises NotPlain for other columns."""
    texts = column.cast(str) if column.dtype.is_integer() else column
    if str(texts.dtype) != "String" or texts.null_count():
        raise NotPlain("a row has no id")
    sizes = texts.str.len_bytes().to_numpy().astype(np.int64)
    ends = np.cumsum(sizes)
    return Texts(np.frombuffer("".join(texts.str.join("")).encode(), np.uint8), ends - sizes, ends)


def _rows(query: Texts, doc: Texts, numbers: Floats, ranks: Floats | None, line: int, kind: Kind) -> Rows:
    """Return a Rows made of these columns; its rows are consecutive lines, numbered from `line`.

    Raises NotPlain for a missing query, a number that is not finite, or a grade that is not a whole number.
    """
    if (query.start == query.end).any() or not np.isfinite(numbers).all():
        raise NotPlain("every row must have a query id and a finite number")
    if kind is GOLD and not ((abs(numbers) <= LARGEST_GRADE) & (numbers % 1 == 0)).all():
        raise NotPlain("a grade is not a whole number")
    return Rows(query, doc, numbers, np.arange(line, line + len(numbers)), ranks)


def _with_line_feeds(data: bytes) -> bytes:
    return (data.replace(b"\r\n", b"\n") if b"\r" in data else data).removesuffix(b"\n") + b"\n"


def _lines(data: bytes) -> bytes:
    """Return a block of lines with every line end replaced by a line feed.

    Raises NotPlain for blank lines and control characters.
    """
    data = _with_line_feeds(data)
    if data.translate(None, _USUAL) or data.startswith(b"\n") or b"\n\n" in data:
        raise NotPlain("the file has blank lines or control characters")
    return data


def _separated(data: bytes) -> bytes:
    """Return a block of lines whose columns are separated by single blanks or tabs, without blanks at line ends.

    Every line end is a line feed. Raises NotPlain for blank lines, several tabs in a row and control characters.
    """
    data = _with_line_feeds(data)
    if not _are_single(data):
        while b"  " in data:
            data = data.replace(b"  ", b" ")
        data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n").removeprefix(b" ")
        if not _are_single(data):
            raise NotPlain("the columns of a line are not separated by blanks or single tabs")
    return data


def _are_single(data: bytes) -> bool:
    """Return True if no line of the data has control characters, or white space at its start or twice in a row."""
    raw = np.frombuffer(data, dtype=np.uint8)
    controls = (raw - 11).min() < 21  # 11 to 31: smaller numbers wrap around
    return not (controls or raw[0] <= 32 or np.maximum(raw[1:], raw[:-1]).min(initial=255) <= 32)
