"""Ranked results and gold from tables: TSV or CSV, with a header or without."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import BinaryIO

from germane.errors import InputError, Place
from germane.samples.opening import decoded
from germane.samples.results import Found, Graded
from germane.samples.results_names import id_list, roles

__all__ = ["found", "graded", "is_bare_triple", "is_number"]

_RUN_ROLES = ("query", "doc", "docs", "score", "rank")
_GOLD_ROLES = ("query", "doc", "gold", "grade")
_BARE_RUN = {
    2: ("query", "doc"),
    3: ("query", "doc", "score"),
    4: ("query", "doc", "rank", "score"),
    5: ("query", "", "doc", "rank", "score"),
    6: ("query", "", "doc", "rank", "score", ""),
}
_BARE_GOLD = {2: ("query", "doc"), 3: ("query", "doc", "grade"), 4: ("query", "", "doc", "grade")}
_NAME_THEM = "give the table a header, e.g. query_id, doc_id, {0}, or say --columns query=...,doc=...,{0}=..."


def is_number(text: str | bytes) -> bool:
    """Whether a text is a number as Python reads one."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_bare_triple(lines: Sequence[bytes]) -> bool:
    """Whether a table begins with three columns, the third a number, and so has no header."""
    cells = re.split(rb"[\t,]", lines[0]) if lines else []
    return len(cells) == 3 and is_number(cells[2])


def found(stream: BinaryIO, name: str, columns: Mapping[str, str], *, comma: bool) -> Iterator[Found]:
    """The results of a run's table: one result a row, or one query a row with a list of ids."""
    for line, row in _rows(stream, name, _RUN_ROLES, _BARE_RUN, columns, comma=comma):
        place = Place(name, line)
        query = _query(row, place)
        if "docs" in row and "doc" not in row:
            if (ids := id_list(row["docs"])) is None:
                raise InputError(
                    f"{row['docs'][:60]!r} is no list of ids", fix='write ["d1", "d2"]', place=place
                )
            yield Found(line, query, None, None)
            yield from (Found(line, query, doc, None) for doc in ids)
        elif "score" in row:
            yield Found(line, query, row["doc"], _number(row["score"], "score", place))
        else:
            yield Found(
                line, query, row["doc"], -_number(row["rank"], "rank", place) if "rank" in row else None
            )


def graded(stream: BinaryIO, name: str, columns: Mapping[str, str], *, comma: bool) -> Iterator[Graded]:
    """The grades of a gold table: one grade a row, or one query a row with a list of relevant ids (grade 1)."""
    for line, row in _rows(stream, name, _GOLD_ROLES, _BARE_GOLD, columns, comma=comma):
        place = Place(name, line)
        query = _query(row, place)
        if "gold" in row and "doc" not in row:
            if (ids := id_list(row["gold"])) is None:
                raise InputError(
                    f"{row['gold'][:60]!r} is no list of ids", fix='write ["d1", "d2"]', place=place
                )
            yield Graded(line, query, None, 0)
            yield from (Graded(line, query, doc, 1) for doc in ids)
        elif "grade" in row:
            yield Graded(line, query, row["doc"], _grade(row["grade"], place))
        else:
            yield Graded(line, query, row["doc"], 1)


def _rows(
    stream: BinaryIO,
    name: str,
    wanted: tuple[str, ...],
    bare: Mapping[int, tuple[str, ...]],
    columns: Mapping[str, str],
    *,
    comma: bool,
) -> Iterator[tuple[int, dict[str, str]]]:
    """Each row as role -> cell, with its line number."""
    rows = _cells(stream, name, comma=comma)
    first = next(rows, None)
    if first is None:
        return
    header = roles(first[1], wanted, columns)
    named = "query" in header and len(header) > 1
    if columns and not named:
        shown = ", ".join(first[1])[:200]
        raise InputError(
            f"the header has no such columns: {shown}",
            fix="--columns query=...,doc=...",
            place=Place(name, first[0]),
        )
    positions = (
        {role: first[1].index(column) for role, column in header.items()}
        if named
        else _bare(first, bare, name)
    )
    _check(positions, wanted, Place(name, first[0]))
    width = max(positions.values()) + 1
    for line, cells in rows if named else chain([first], rows):
        if len(cells) < width:
            raise InputError(
                f"this row has {len(cells)} columns, the first one {len(first[1])}",
                fix="give every row all columns",
                place=Place(name, line),
            )
        yield line, {role: cells[position] for role, position in positions.items()}


def _bare(first: tuple[int, list[str]], bare: Mapping[int, tuple[str, ...]], name: str) -> dict[str, int]:
    """The roles of the columns of a table without a header, by their number."""
    if len(first[1]) not in bare:
        problem = (
            f"a table without a header has {min(bare)} to {max(bare)} columns, this line {len(first[1])}"
        )
        raise InputError(problem, fix=_NAME_THEM.format("score"), place=Place(name, first[0]))
    return {role: position for position, role in enumerate(bare[len(first[1])]) if role}


def _check(positions: Mapping[str, int], wanted: tuple[str, ...], place: Place) -> None:
    listed = "docs" if "docs" in wanted else "gold"
    if "doc" not in positions and listed not in positions:
        raise InputError("no column holds the document", fix=_NAME_THEM.format(wanted[-1]), place=place)


def _cells(stream: BinaryIO, name: str, *, comma: bool) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(2**31 - 1)  # lists of passages are longer than the module's default of 128 kB
    lines = (decoded(line, name, number) for number, line in enumerate(stream, 1))
    reader = csv.reader(lines, delimiter="," if comma else "\t", strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as fault:
        raise InputError(
            f"this row cannot be read: {fault}",
            fix='double a quotation mark inside quotes ("")',
            place=Place(name, reader.line_num),
        ) from None


def _query(row: Mapping[str, str], place: Place) -> str:
    if not row["query"]:
        raise InputError("this row has no query id", fix="fill it in or drop the row", place=place)
    return row["query"]


def _number(text: str, what: str, place: Place) -> float:
    try:
        return float(text)
    except ValueError:
        problem = f"the {what} {text[:40]!r} is not a number"
        raise InputError(problem, fix=_NAME_THEM.format(what), place=place) from None


def _grade(text: str, place: Place) -> int:
    value = _number(text, "grade", place)
    if not value.is_integer():
        raise InputError(f"the grade {text!r} is not a whole number", fix="write e.g. 0, 1 or 2", place=place)
    return int(value)
