"""Read result files of any program: detect the format and return the rows."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from germane.clean import counted
from germane.errors import InputError, SourceLocation
from germane.results.harnesses import export_of, export_of_rows, inspect_log
from germane.results.rows import Located, ResultFile, is_printed, printed_results, table_results
from germane.samples.cells import table_rows
from germane.samples.files import JsonFault, json_in, parse_strict_json, read_lines, shown_name

Lines = Sequence[tuple[int, str]]


def read_results(path: str | Path) -> ResultFile | None:
    """Return the results in another program's file; None for a JSON object without results, such as germane's own documents.

    InputError where the file cannot be read, is of no known format, or holds a value twice.
    """
    name = shown_name(path)
    try:
        results = _results(path, name)
    except (AttributeError, KeyError, TypeError, ValueError) as fault:  # somewhere in a log or an export
        problem = f"this is not a log or an export of a form that is known: {type(fault).__name__}: {fault}"
        fix = "write a table: id, measure, value"
        raise InputError(problem, fix=fix, place=SourceLocation(name)) from None
    return results and results.checked()


def _results(path: str | Path, name: str) -> ResultFile | None:
    """Return the results in the lines of a file, by its first characters."""
    if zipfile.is_zipfile(path) and (log := inspect_log(path)):
        return log
    filled = (line for line in read_lines(path) if line[1].strip())
    head = list(islice(filled, 2))
    first = head[0][1].lstrip() if head else ""
    if re.match(r'\{\s*"schema_version"', "".join(text for _, text in head).lstrip()):
        return None
    lines = [*head, *filled]
    if first[:1] in {"{", "["}:
        rows = _json_rows(lines, name)
        if isinstance(rows, Mapping):
            return export_of(rows, name)
        return export_of_rows(rows, name) or ResultFile(name, "", list(table_results(rows)))
    if is_printed(first):
        return ResultFile(name, *printed_results(lines, name))
    return ResultFile(name, "", list(table_results(list(_table(lines, name)))))


def stated_directions(files: Iterable[ResultFile]) -> dict[str, bool]:
    """Return whether more is better for the measures whose files say so; InputError if two disagree."""
    result: dict[str, tuple[bool, str]] = {}
    for file in files:
        own = {row.measure: row.higher for row in reversed(file.rows) if row.higher is not None}
        for name, higher in own.items():
            other, path = result.setdefault(name, (higher, file.path))
            if other != higher:
                ways = [f"{'more' if way else 'less'} is better" for way in (other, higher)]
                problem = f"{name}: {ways[0]} in {path}, {ways[1]} in {file.path}"
                raise InputError(problem, fix="write both with the same version of the program")
    return {name: higher for name, (higher, _) in result.items()}


def _json_rows(lines: Lines, name: str) -> list[Located] | Mapping[str, Any]:
    """Return the rows of a JSON list or of JSON lines, each with its location; a single object is returned as it is."""
    number, first = lines[0]
    if len(lines) > 1 and first.lstrip().startswith("{"):
        try:
            parse_strict_json(first, infinite=True)
        except JsonFault:
            pass  # the first line of an object that goes on
        else:
            values = ((json_in(line, name, at, infinite=True), at) for at, line in lines)
            return [_row(value, SourceLocation(name, at)) for value, at in values]
    value = json_in("".join(line for _, line in lines), name, number, infinite=True)
    if isinstance(value, list):
        return [_row(row, SourceLocation(f"{name}, row {at}")) for at, row in enumerate(value, 1)]
    if name.removesuffix(".gz").removesuffix(".zst").endswith((".jsonl", ".ndjson")):
        return [_row(value, SourceLocation(name, number))]
    return _row(value, SourceLocation(name))[1]


def _row(value: Any, where: SourceLocation) -> Located:
    if not isinstance(value, Mapping):
        raise InputError("this row is not an object", fix='write {"id": "q1", "measure": 0.5}', place=where)
    return where, value


def _table(lines: Lines, name: str) -> Iterator[Located]:
    """Yield the rows of CSV or TSV with a header, each with its line."""
    if not lines:
        return
    delimiter = "\t" if "\t" in lines[0][1] and "," not in lines[0][1] else ","
    rows = table_rows((text for _, text in lines), delimiter, name)
    header = [cell.strip() for cell in next(rows)[1]]
    if twice := next((cell for cell in header if cell and header.count(cell) > 1), None):
        where = SourceLocation(name, lines[0][0])
        raise InputError(f"two columns are named {twice!r}", fix="rename one of them", place=where)
    for at, cells in rows:
        where = SourceLocation(name, lines[at - 1][0])
        if len(cells) != len(header):
            problem = f"this row has {counted(len(cells), 'cell')} and the header {len(header)}"
            fix = "write one cell a column; put a text with the separator or a line break in quotes"
            raise InputError(problem, fix=fix, place=where)
        yield where, dict(zip(header, cells, strict=True))
