"""Read result files of any program: detect the format and return the rows."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from germane.errors import InputError, SourceLocation
from germane.results.harnesses import export_of, export_of_rows, inspect_log
from germane.results.rows import Located, ResultFile, is_printed, printed_results, table_results
from germane.samples.cells import named_rows
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
    result: dict[str, bool] = {}
    for row in (row for file in files for row in file.rows):
        if row.higher is not None and result.setdefault(row.measure, row.higher) != row.higher:
            problem = f"{row.measure}: in one file more is better, in another less"
            raise InputError(problem, fix="write both with the same version of the program")
    return result


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
    delimiter = "\t" if lines and "\t" in lines[0][1] and "," not in lines[0][1] else ","
    for place, row in named_rows((text for _, text in lines), delimiter, name):
        yield SourceLocation(name, lines[(place.line or 1) - 1][0]), row
