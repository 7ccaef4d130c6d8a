"""Reads result files of other programs: tables, printed results, and the logs and exports that add-ons know."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from germane import addons
from germane.clean import shorten
from germane.errors import InputError, SourceLocation
from germane.results.rows import (
    Located,
    MeasuredRow,
    ResultFile,
    is_printed,
    printed_results,
    table_results,
)
from germane.samples.cells import named_rows
from germane.samples.files import JsonFault, json_in, parse_strict_json, read_lines, shown_name

Object: TypeAlias = Mapping[str, Any]


def read_results(path: str | Path) -> ResultFile | None:
    """Return the results in another program's file, or None for a JSON object without results (such as germane's own).

    Raises InputError if the file cannot be read, has an unknown format, no results, or two values of a measure for one case.
    """
    name = shown_name(path)
    place = SourceLocation(name)
    try:
        found = _results(path, name)
        rows = None if found is None else list(found)
    except (AttributeError, KeyError, TypeError, ValueError) as fault:  # in a log or an export
        problem = f"this log or export has an unknown form: {type(fault).__name__}: {fault}"
        fix = "write a table with the columns id, measure and value"
        raise InputError(problem, fix=fix, place=place) from None
    if rows is None:
        return None
    if not rows:
        fix = "write the columns id, measure and value, or id and a column per measure; write a log with its samples"
        raise InputError("this file has no results per case", fix=fix, place=place)
    counts = Counter((row.sample, row.system, row.trial, row.measure) for row in rows)
    (sample, system, trial, measure), times = counts.most_common(1)[0]
    if times > 1:
        case = f"the case {shorten(sample, 60)}{f' of {system}' if system else ''}"
        problem = f"{case} has {times} values of {measure} in trial {trial}"
        fix = "keep one value; add a column trial (0, 1, ...) for repetitions, a column system for several systems"
        raise InputError(problem, fix=fix, place=place)
    return ResultFile(name, rows)


def _results(path: str | Path, name: str) -> Iterable[MeasuredRow] | None:
    """Return the results in a file whose format is detected from its first characters; `name` is its name in messages."""
    if zipfile.is_zipfile(path):
        with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
            members = dict.fromkeys(archive.namelist(), str(path))
            if read := addons.reader_of(members, kind="results", known=False):
                return read([members])  # type: ignore[no-any-return]
    filled = (line for line in read_lines(path) if line[1].strip())
    head = list(islice(filled, 2))
    first = head[0][1].lstrip() if head else ""
    if re.match(r'\{\s*"schema_version"', "".join(text for _, text in head).lstrip()):
        return None
    lines = [*head, *filled]
    if first[:1] in {"{", "["}:
        rows = _json_rows(lines, name)
        return _of_document(rows, name) if isinstance(rows, Mapping) else _of_rows(rows)
    if is_printed(first):
        return printed_results(lines, name)
    delimiter = "\t" if "\t" in first and "," not in first else ","
    table = named_rows((text for _, text in lines), delimiter, name)
    return table_results([(SourceLocation(name, lines[(at.line or 1) - 1][0]), row) for at, row in table])


def _json_rows(lines: Sequence[tuple[int, str]], name: str) -> list[Located] | Object:
    """Return the rows of a JSON list or of JSON Lines, each with its location, or the object if the file is one JSON object."""
    number, first = lines[0]
    rows: list[tuple[SourceLocation, Any]] = []
    if len(lines) > 1 and first.lstrip().startswith("{"):
        with suppress(JsonFault):  # the first line of an object that spans several lines
            parse_strict_json(first, infinite=True)
            rows = [(SourceLocation(name, at), json_in(line, name, at, infinite=True)) for at, line in lines]
    if not rows:
        value = json_in("".join(line for _, line in lines), name, number, infinite=True)
        if isinstance(value, list):
            rows = [(SourceLocation(f"{name}, row {at}"), row) for at, row in enumerate(value, 1)]
        elif name.removesuffix(".gz").removesuffix(".zst").endswith((".jsonl", ".ndjson")):
            rows = [(SourceLocation(name, number), value)]
        else:
            document: Object = value
            return document
    if wrong := next((where for where, row in rows if not isinstance(row, Mapping)), None):
        fix = 'write {"id": "q1", "nDCG@10": 0.5}'
        raise InputError("this row of results is not an object", fix=fix, place=wrong)
    return rows


def _of_document(document: Object, name: str) -> Iterable[MeasuredRow] | None:
    """Return the results in a JSON document that an add-on knows or that is a table, or None for any other object.

    Tables are those of MLflow (columns and data) and pytrec_eval (an object of numbers per query).
    """
    if read := addons.reader_of(document, kind="results"):
        return read([document])  # type: ignore[no-any-return]
    columns, data, values = document.get("columns"), document.get("data"), list(document.values())
    rows: list[Object] = []
    if isinstance(columns, list) and isinstance(data, list):
        rows = [dict(zip(columns, row, strict=False)) for row in data]
    elif all(isinstance(value, Mapping) and value for value in values):
        numbers = (number for value in values for number in value.values())
        if all(isinstance(number, int | float) for number in numbers):
            rows = [{"id": query, **value} for query, value in document.items()]
    located = [(SourceLocation(f"{name}, row {at}"), row) for at, row in enumerate(rows, 1)]
    return table_results(located) if rows else None


def _of_rows(located: Sequence[Located]) -> Iterable[MeasuredRow]:
    """Return the results in JSON rows: of a program that an add-on knows, or of a table."""
    rows = [row for _, row in located]
    read = addons.reader_of(rows[0], kind="results", known=False) if rows else None
    return read(rows) if read else table_results(located)
