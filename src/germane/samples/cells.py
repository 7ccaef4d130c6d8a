"""Reads the rows of CSV and TSV files, and parses the cells of tables: lists, words for missing values."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, pairwise

from germane.clean import counted
from germane.errors import InputError, Invalid, SourceLocation
from germane.samples.files import Notice
from germane.samples.strictjson import JsonFault, parse_strict_json
from germane.types import Json

_MISSING = re.compile(r"#NA|#?N/A|#N/A N/A|-?1\.#(IND|QNAN)|-?(NaN|nan)|<NA>|NA|n/a|NULL|null|None")
"""The cells that mean a missing value, as in pandas."""
_NAMING = {"id", "query", "system"}
"""Fields whose cells are read unchanged, even if they look like a missing value ("None")."""
_TEXTS = {"reference", "criterion", "response", "error", "cluster"}
_LISTS = {"retrieved_context_ids", "qrels", "forbidden", "tags"}


def is_missing(cell: str) -> bool:
    """Return True if a cell is a word for a missing value (nan, None, N/A, ...)."""
    return _MISSING.fullmatch(cell.strip()) is not None


class TableRow(dict[str, Json]):
    """A row of a CSV file or DataFrame; its strings must be parsed as cells, unlike those of a JSON row."""


# rows of CSV and TSV


def delimiter_of(first: str, usual: str) -> str:
    """Return the separator of a table whose first line is `first`.

    It is `usual`, unless that is a comma and the line has none, but a `;` or a tab. Commas in quotes or in
    numbers do not count.
    """
    outside = re.sub(r'"[^"]*"|\d,\d', "", first)  # a comma within a number does not separate cells
    if usual != "," or "," in outside:
        return usual
    return next((mark for mark in ";\t" if mark in outside), usual)


def table_rows(
    lines: Iterable[str],
    delimiter: str,
    name: str,
    note: Callable[[str], None] = lambda _: None,
    skipped: int = 0,
) -> Iterator[tuple[int, list[str]]]:
    """Yield each non-empty row of a CSV or TSV file as (number of its first line, list of its cells).

    If the file has another separator than `delimiter`, `note` is called with a message. `skipped` is the
    number of lines that were left out after the first. Raises InputError for a row that is not valid CSV.
    """
    lines = iter(lines)
    first: list[str] = []  # the first line with content, and the blank lines before it
    while not (first and first[-1].strip()) and (line := next(lines, "")):
        first.append(line)
    between = delimiter_of(first[-1] if first else "", delimiter)
    if between != delimiter:
        text = "the cells of this CSV file were read as separated by {}, since its first line has no comma"
        note(text.format("a tab" if between == "\t" else repr(between)))
    csv.field_size_limit(2**31 - 1)  # ten passages in one cell exceed the default of 128 KiB
    rows = chain(first, lines)
    reader = csv.reader(_quote_letters(rows) if between == "\t" else rows, delimiter=between, strict=True)
    while True:
        start = reader.line_num + 1 + (skipped if reader.line_num else 0)
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = f"this row cannot be split into cells: {error}"
            fix = 'write a quote inside a quoted cell twice (""), and close every quote'
            raise InputError(problem, fix=fix, place=SourceLocation(name, start)) from None
        if any(cell.strip() for cell in cells):
            yield start, cells


def _quote_letters(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a TSV file, with each quote escaped that opens a cell but is not closed.

    A line is yielded unchanged if it or the next line has more or fewer cells than the first line, because
    the quoted cell may then continue on the next line.
    """
    width = 0
    for line, following in pairwise(chain(lines, [""])):
        cells = line.rstrip("\r\n").split("\t")
        width = width or len(cells) * bool(line.strip())
        if '"' in line and len(cells) == width and (not following or following.count("\t") == width - 1):
            for at, cell in enumerate(cells):
                if cell.startswith('"') and not re.fullmatch(r'"(?:[^"]|"")*"', cell):
                    cells[at] = '"' + cell.replace('"', '""') + '"'
            yield "\t".join(cells) + "\n"
        else:
            yield line


def named_rows(
    lines: Iterable[str], delimiter: str, name: str, note: Callable[[str], None] = lambda _: None
) -> Iterator[tuple[SourceLocation, dict[str, str]]]:
    """Yield each row of a CSV or TSV file with a header as (its location, mapping from column to cell).

    The arguments are those of `table_rows`. Raises InputError for two columns with one name, or a row that
    has more or fewer cells than the header.
    """
    rows = table_rows(lines, delimiter, name, note)
    for first, names in rows:
        header, place = [cell.strip() for cell in names], SourceLocation(name, first)
        if twice := next((cell for cell in header if cell and header.count(cell) > 1), None):
            problem, fix = f"two columns are named {twice!r}", "rename one of the two columns"
            raise InputError(problem, fix=fix, place=place)
        for line, cells in rows:
            place = SourceLocation(name, line)
            if len(cells) != len(header):
                problem = f"this row has {counted(len(cells), 'cell')}, but the header has {len(header)}"
                fix = "write one cell per column, and put quotes around a cell with a separator or line break"
                raise InputError(problem, fix=fix, place=place)
            yield place, dict(zip(header, cells, strict=True))


# values of cells


_STRING = re.compile(r"""(?:[bBuUrR]{0,2})(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.DOTALL)


def structure(text: str) -> Json:
    """Return the list or object that a string holds, as JSON or a Python literal; None for other strings."""
    with suppress(Invalid):
        return list_in_cell(text)
    return None


def list_in_cell(text: str) -> Json:
    """Parse a list or an object, as JSON or a Python literal. Raises Invalid for other cells."""
    text = text.strip()
    try:
        value = parse_strict_json(text)
    except JsonFault as fault:
        if "occurs twice" in fault.problem:
            raise Invalid(f"has {fault.problem.replace('occurs ', '')}", fault.fix) from None
        refuse_printed_array(text)
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            value = None
    value = list(value) if isinstance(value, tuple) else value
    if not isinstance(value, list | dict):
        raise Invalid("starts like a list or an object, but is not valid JSON", 'write JSON: ["a", "b"]')
    return value


def refuse_printed_array(text: str) -> None:
    """Raise Invalid if a string is a printed NumPy array, whose strings have no commas between them."""
    keeps = "to_json(orient='records', lines=True) or to_parquet"
    fix = f"write JSON; pandas and datasets keep lists with {keeps}"
    if "array(" in _STRING.sub("", text):
        raise Invalid("is a printed NumPy array, not a list", fix)
    for first, second in pairwise(_STRING.finditer(text)):
        if not text[first.end() : second.start()].strip():
            raise Invalid("has strings without commas between them, like a printed NumPy array", fix)


def looks_listed(cell: str) -> bool:
    """Return True if a cell starts like a JSON list or object or a NumPy array, or is a Python tuple."""
    text = cell.lstrip()
    if text.startswith(("('", '("')):
        return structure(text) is not None
    return text.startswith(("[", "{", "array(", '"[', '"{'))


def is_joined_ids(value: Json) -> bool:
    """Return True if a value is a string like several ids: `d1;d2`, or words of one pattern: `d1 d2`."""
    text = value.strip() if isinstance(value, str) else ""
    if re.search(r"[;|,]", text):
        return True
    shapes = {re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", word)) for word in text.split()}
    return len(shapes) == 1 and " " in text and "9" in shapes.pop()


_JOINED_PASSAGES = re.compile(
    r"""[.!?]["')\]]?(?:\s*\|\s*\S|[;,](?=[^\W\d_a-z]))|[^\W\d_]{3}(?:\|(?=[^\W\d_a-z])|;(?=[^\W\d_]))"""
    r"""|\S[ \t\r]*\n(?:[ \t\r]*\n\s*\S|\s*\[?2[].):]\s)"""
)
"""Matches a separator of joined passages: `|` or `;` after a sentence or between words without a space, a
blank line, or a line that begins with the number 2."""
_ENTITY = re.compile(r"&#?\w+;")


def read_cell(cell: str, field: str | None) -> tuple[Json, str]:
    """Parse a cell of a table; return its value, and the reason why it may be wrong (in `_DOUBTS`) or "".

    `field` is the column's sample field, or None for metadata. A field of lists gets a list of one value.
    Raises Invalid if the field needs JSON and the cell is not valid JSON.
    """
    value: Json = cell or None
    doubt = ""
    if not cell or field is None or field in _NAMING:
        pass
    elif is_missing(cell):
        value, doubt = None, "missing"
    elif field == "contexts" and (cell.lstrip().startswith('"') or not looks_listed(cell)):
        value, doubt = [cell], "passages" if _JOINED_PASSAGES.search(_ENTITY.sub(" ", cell)) else ""
    elif field in {"answerable", "error"}:
        value = yes_no(cell)
    elif field not in _TEXTS and looks_listed(cell):
        value = list_in_cell(cell)
    elif field in _LISTS:
        value = [cell.strip()]
    elif field not in _TEXTS:
        try:
            value = parse_strict_json(cell.strip())
        except JsonFault as fault:
            if field != "metadata":
                problem = f"is {cell[:40]!r}, not JSON: {fault.problem}"
                raise Invalid(problem, "write JSON in this cell, such as 3 or [0, 4]") from None
    return value, doubt


_YES_NO = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def yes_no(cell: Json) -> Json:
    """Return True or False for a cell such as 1, 0.0, "true" or "False"; return any other value unchanged."""
    return _YES_NO.get(str(cell).strip().lower(), cell)


_DOUBTS = {
    "missing": (
        "the column {!r} has a word like nan, None or N/A in {}, read as a missing value",
        "leave the cell empty if the value is missing",
    ),
    "ids": (
        "the field {!r} looks like several ids joined by ; | , or a blank in {}, but was read as one",
        'write several ids as a list: ["d1", "d2"]',
    ),
    "passages": (
        "the field {!r} looks like several passages joined by |, ; or lines in {}, but was read as one",
        'write several passages as a list: ["first", "second"]',
    ),
}
"""Maps each reason why a cell's value may be wrong to the problem and the fix of its Notice."""


class CellCounts:
    """Counts cells that may have been read wrongly by reason and column, with the first one's location."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], tuple[int, SourceLocation]] = {}

    def add(self, reason: str, name: str, place: SourceLocation) -> None:
        """Count a cell of the column `name`; `reason` is a key of `_DOUBTS`."""
        count, first = self._counts.get((reason, name)) or (0, place)
        self._counts[reason, name] = count + 1, first

    def notices(self, rows: int = 0) -> Iterator[Notice]:
        """Yield one Notice per column and reason.

        Joined passages are reported only if a tenth of the `rows` seem to have them: web pages do.
        """
        for (reason, name), (count, first) in self._counts.items():
            if reason != "passages" or 10 * count >= rows:
                problem, fix = _DOUBTS[reason]
                yield Notice(problem.format(name, counted(count, "row")), fix, first)
