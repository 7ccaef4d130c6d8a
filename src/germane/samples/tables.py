"""CSV and TSV with a header: one sample a row, lists and objects as JSON in their cell."""

from __future__ import annotations

import ast
import csv
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from germane.errors import InputError, Place
from germane.samples.fields import SPELLINGS
from germane.samples.jsontext import JsonFault, decode
from germane.samples.opening import shown_name
from germane.samples.source import FieldOf, Row, read_lines
from germane.samples.wrong import Step, Wrong
from germane.types import Json

__all__ = ["read_table"]

_WORDS = {"id", "query", "system", "reference", "response", "error"}
_SINGLE = {"contexts", "retrieved_context_ids", "qrels", "forbidden", "tags"}
_NUMBERED = re.compile(r"(?P<name>.+?)[_. \[]?(?P<number>\d+)\]?")
_CELL_LIMIT = 2**31 - 1


def read_table(delimiter: str, path: Path, field_of: FieldOf) -> Iterator[Row]:
    """The rows of a table; several columns of contexts (`context_1`, `context_2`, ...) are one list, in their order."""
    csv.field_size_limit(_CELL_LIMIT)
    rows = _rows(path, delimiter)
    first = next(rows, None)
    if first is None:
        return
    line, header = first
    header = [name.strip() for name in header]
    lists_as, lists = _context_columns(header, field_of)
    _check_header(header, lists, field_of, Place(shown_name(path), line))
    for line, cells in rows:
        place = Place(shown_name(path), line)
        if len(cells) != len(header):
            problem = f"this row has {len(cells)} cells and the header {len(header)}"
            fix = "write one cell a column; put a text with the separator or a line break in quotes"
            raise InputError(problem, fix=fix, place=place)
        try:
            row = _row(header, cells, lists, field_of)
            if lists:
                row[lists_as] = [_one(cells[column]) for column in lists if cells[column].strip()]
        except Wrong as wrong:
            raise wrong.error(place) from None
        yield line, row, functools.partial(_place, place)


def _place(place: Place, _: Sequence[Step]) -> Place:
    return place


def _rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, each with the line it starts on."""
    reader = csv.reader((line for _, line in read_lines(path)), delimiter=delimiter, strict=True)
    start = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        problem = f"this row is no {'TSV' if delimiter == chr(9) else 'CSV'}: {error}"
        fix = 'write a quote inside a quoted cell twice (""), and close every quote'
        raise InputError(problem, fix=fix, place=Place(shown_name(path), start)) from None


def _context_columns(header: list[str], field_of: FieldOf) -> tuple[str, list[int]]:
    """The columns that together are the list of contexts, where there are several: what they are called, in order."""
    found: list[tuple[int, int, str]] = []
    for column, name in enumerate(header):
        match = _NUMBERED.fullmatch(name)
        if match and field_of(name) is None and field_of(match["name"]) == "contexts":
            found.append((int(match["number"]), column, match["name"]))
    if found:
        return found[0][2], [column for _, column, _ in sorted(found)]
    same = [column for column, name in enumerate(header) if field_of(name) == "contexts"]
    several = len(same) > 1 and len({header[column] for column in same}) == 1
    return (header[same[0]], same) if several else ("", [])


def _check_header(header: list[str], lists: list[int], field_of: FieldOf, place: Place) -> None:
    seen: set[str] = set()
    for column, name in enumerate(header):
        if name and name in seen and column not in lists:
            raise InputError(f"two columns are named {name!r}", fix="rename one of them", place=place)
        seen.add(name)
    if not any(field_of(name) == "query" for name in header):
        known = ", ".join(spelling for spelling, field in SPELLINGS.items() if field.name == "query")
        problem = f"no column is the query; the columns are {', '.join(header)}"[:300]
        raise InputError(problem, fix=f"name one of {known}, or map it: --columns query=NAME", place=place)


def _row(header: list[str], cells: list[str], lists: list[int], field_of: FieldOf) -> dict[str, Json]:
    """A row as JSON: empty cells are absent."""
    row: dict[str, Json] = {}
    for column, (name, cell) in enumerate(zip(header, cells, strict=True)):
        if cell and name and column not in lists:
            try:
                row[name] = _value(cell, field_of(name))
            except Wrong as wrong:
                raise wrong.under(name) from None
    return row


def _one(cell: str) -> Json:
    """One context: an object as JSON, or a text."""
    value = _structure(cell) if cell.lstrip().startswith("{") else None
    return value if isinstance(value, dict) else cell


def _value(cell: str, field: str | None) -> Json:
    """What a cell means: words stay as they are, lists and objects are read, one value is a list of one."""
    if field is None or field in _WORDS:
        return cell
    if cell.lstrip().startswith(("[", "{")):
        value = _structure(cell)
        if value is None:
            raise Wrong("starts like a list or an object and is none", 'write JSON: ["a", "b"]')
        return value
    if field in _SINGLE:
        return [cell.strip()] if field != "contexts" else [cell]
    try:
        return decode(cell.strip().lower() if field == "answerable" else cell.strip())
    except JsonFault as fault:
        raise Wrong(f"is {cell[:40]!r}: {fault.problem}", "write JSON in this cell") from None


def _structure(cell: str) -> Json:
    """A list or an object written as JSON, else as Python writes it; None where it is neither."""
    try:
        return decode(cell.strip())
    except JsonFault:
        try:
            value = ast.literal_eval(cell.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return None
        return value if isinstance(value, list | dict) else None
