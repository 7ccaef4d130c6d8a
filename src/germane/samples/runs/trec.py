"""Reads lines in TREC's columns one by one, and names their faults.

A run has lines `query Q0 document rank score tag ...`, gold (qrels) lines `query 0 document grade`, as trec_eval reads them:
split at ASCII white space, the rank ignored, lines that begin with # skipped, anything after the tag of a run ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isnan, nan
from typing import Any

from germane.clean import counted
from germane.errors import InputError, SourceLocation
from germane.samples.files import decoded
from germane.samples.runs.detecting import WHOLE, is_number
from germane.samples.runs.ranks import Reading, nan_error
from germane.samples.runs.results import GOLD, LARGEST_GRADE, RUN, Kind


def trec_lines(lines: Iterable[bytes], first: int, reading: Reading) -> Iterator[tuple[Any, ...]]:
    """Iterate over the rows of lines in TREC's columns; the first line has this number."""
    cells_of = _run_cells if reading.kind is RUN else _gold_cells
    for number, line in enumerate(lines, first):
        try:
            query, doc, value, rank = cells_of(line)
            query.decode(), doc.decode()
        except (IndexError, ValueError):
            start = line.split(None, 1)
            if start and start[0][:1] != b"#":
                reading.reject(_trec_fault(line, reading.at(number), reading.kind))
        else:
            yield number, query, doc, value, rank


def _run_cells(line: bytes) -> tuple[bytes, bytes, float, float]:
    cells = line.split(None, 5)
    score = float(cells[4])
    if score - score != 0 and b"inf" not in cells[4].lower():  # NaN, or more than a number holds
        raise ValueError
    if cells[0][:1] == b"#":
        float(cells[3])  # else the line is a comment
    return cells[0], cells[2], score, float(cells[3]) if is_number(cells[3]) else nan


def _gold_cells(line: bytes) -> tuple[bytes, bytes, float, float]:
    query, _, doc, grade = line.split()
    written = WHOLE.fullmatch(grade)
    if not written or abs(value := int(written[1])) > LARGEST_GRADE:
        raise ValueError
    return query, doc, value, nan


def _trec_fault(line: bytes, location: SourceLocation, kind: Kind) -> InputError:
    """Return the fault of an invalid line."""
    try:
        decoded(line, location.file, location.line)
    except InputError as fault:
        return fault
    cells = line.split()
    columns, least, what = (6, 5, "number") if kind is RUN else (4, 4, f"whole number up to {LARGEST_GRADE}")
    if len(cells) < least or (kind is GOLD and len(cells) > columns):
        problem = f"{kind.name} has {counted(columns, 'column')}, this line {len(cells)}"
    elif kind is RUN and is_number(cells[4]) and isnan(float(cells[4])):
        return nan_error(cells[0].decode(), cells[2].decode(), location)
    else:
        problem = f"the {kind.value} {cells[least - 1].decode()[:60]!r} is not a {what}"
    return InputError(problem, fix=kind.trec, place=location)
