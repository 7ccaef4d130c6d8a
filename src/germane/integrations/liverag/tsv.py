"""A table with a header, tabs between its columns and quotes around what needs them, as pandas writes it."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from germane.errors import InputError, Place
from germane.samples.files import read_lines, shown_name

__all__ = ["tsv_rows"]

_HUGE = 2**31 - 1


def tsv_rows(path: Path) -> Iterator[tuple[Place, dict[str, str]]]:
    """Each row as column -> cell, with the line that it starts on; blank lines are passed over."""
    file = shown_name(path)
    reader = csv.reader((line for _, line in read_lines(path)), delimiter="\t", strict=True)
    limit = csv.field_size_limit(_HUGE)  # a list of passages is longer than the 128 kB that the module allows
    header: list[str] = []
    start = 1
    try:
        for cells in reader:
            place, start = Place(file, start), reader.line_num + 1
            if not cells:
                continue
            if not header:
                header = _header(cells, place)
            elif len(cells) != len(header):
                problem = f"this row has {len(cells)} columns, the header {len(header)}"
                raise InputError(problem, fix="give every row all columns, with tabs between", place=place)
            else:
                yield place, dict(zip(header, cells, strict=True))
    except csv.Error as fault:
        fix = 'put a text that holds " or a line break in quotes, and double the quotes in it ("")'
        raise InputError(f"this row cannot be read: {fault}", fix=fix, place=Place(file, start)) from None
    finally:
        csv.field_size_limit(limit)


def _header(cells: list[str], place: Place) -> list[str]:
    names = [cell.strip() for cell in cells]
    if twice := next((name for name in names if name and names.count(name) > 1), None):
        raise InputError(f"the column {twice!r} is there twice", fix="keep one", place=place)
    return names
