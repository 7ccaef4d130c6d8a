"""Reads the cells of CSV, TSV, Parquet and DataFrames: quotes, separators, lists, and words for missing values."""

from __future__ import annotations

import ast
import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain, pairwise
from typing import TypeAlias

from germane.clean import counted
from germane.errors import InputError, Invalid, SourceLocation
from germane.samples.fields import yes_no
from germane.samples.files import JsonFault, Notice, Warn, parse_strict_json
from germane.types import Json, Step

_MISSING = re.compile(r"#NA|#?N/A|#N/A N/A|-?1\.#(IND|QNAN)|-?(NaN|nan)|<NA>|NA|n/a|NULL|null|None")
"""The cells that mean a missing value, as in pandas."""
NAMING = frozenset({"id", "query", "system"})
"""Fields whose cells are kept as written, even if they look like a missing value ("None")."""
TEXTS = frozenset({"reference", "criterion", "response", "error", "cluster"})
LISTS = frozenset({"contexts", "retrieved_context_ids", "qrels", "forbidden", "tags"})


def is_missing(cell: str) -> bool:
    """Return True if a cell is a word for a missing value (nan, None, N/A, ...)."""
    return _MISSING.fullmatch(cell.strip()) is not None


class TableRow(dict[str, Json]):
    """A row of a CSV file or DataFrame, whose texts must be parsed as cells, unlike the typed values of a JSON row."""


# rows of CSV and TSV


def delimiter_of(first: str, usual: str) -> str:
    """Return the separator of a table by its first line: `;` or tab if a CSV has no commas, else `usual`."""
    outside = re.sub(r'"[^"]*"|\d,\d', "", first)  # a comma within a number does not separate cells
    if usual != "," or "," in outside:
        return usual
    return next((mark for mark in ";\t" if mark in outside), usual)


def table_rows(
    lines: Iterable[str],
    delimiter: str,
    name: str,
    note: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[int, list[str]]]:
    """Yield the non-empty rows of a CSV or TSV file as lists of cells, each after the line number on which it starts.

    `note` is called with a message if a CSV file has another separator. Raises InputError for a row that is not valid CSV.
    """
    lines = iter(lines)
    first: list[str] = []  # the first line with content, and the blank ones before it
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
        start = reader.line_num + 1
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
    """Yield the lines of a TSV file, and escape quotes that open a cell but do not close it (as in MS MARCO).

    If this line or the next has more or fewer cells than the first line, the quote may enclose a line break,
    and the line is left unchanged.
    """
    width = 0
    for line, following in pairwise(chain(lines, [""])):
        cells = line.rstrip("\r\n").split("\t")
        width = width or len(cells) * bool(line.strip())
        if '"' in line and len(cells) == width and (not following or following.count("\t") == width - 1):
            yield "\t".join(map(_quoted_letter, cells)) + "\n"
        else:
            yield line


def _quoted_letter(cell: str) -> str:
    enclosed = not cell.startswith('"') or re.fullmatch(r'"(?:[^"]|"")*"', cell)
    return cell if enclosed else '"' + cell.replace('"', '""') + '"'


def named_rows(
    lines: Iterable[str],
    delimiter: str,
    name: str,
    note: Callable[[str], None] = lambda _: None,
    check: Callable[[list[str], SourceLocation], None] = lambda _header, _place: None,
) -> Iterator[tuple[SourceLocation, dict[str, str]]]:
    """Yield the rows of a CSV or TSV file with a header, each as a mapping after its location (file and line).

    `check` is called with the header and its location. Raises InputError for a repeated column or a wrong number of cells.
    """
    rows = table_rows(lines, delimiter, name, note)
    for first, names in rows:
        header, place = [cell.strip() for cell in names], SourceLocation(name, first)
        if twice := next((cell for cell in header if cell and header.count(cell) > 1), None):
            problem, fix = f"two columns are named {twice!r}", "rename one of the two columns"
            raise InputError(problem, fix=fix, place=place)
        check(header, place)
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
    """Return the list or object that a text holds as JSON or as a Python literal, or None if it holds neither."""
    with suppress(Invalid):
        return list_in_cell(text)
    return None


def list_in_cell(text: str) -> Json:
    """Return the list or object in a cell, as JSON or a Python literal. Raises Invalid for other texts."""
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
    """Raise Invalid for a printed NumPy array: it lacks commas, so Python would join its strings into one."""
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


def is_joined_ids(text: str) -> bool:
    """Return True if a text looks like several joined ids: `d1;d2`, or words of one pattern with digits such as `d1 d2`."""
    text = text.strip()
    if re.search(r"[;|,]", text):
        return True
    shapes = {re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", word)) for word in text.split()}
    return len(shapes) == 1 and " " in text and "9" in shapes.pop()


_JOINED_PASSAGES = re.compile(
    r"""[.!?]["')\]]?(?:\s*\|\s*\S|[;,](?=[^\W\d_a-z]))|[^\W\d_]{3}(?:\|(?=[^\W\d_a-z])|;(?=[^\W\d_]))"""
)
"""A separator that prose does not have: `|` or `;` after a sentence, or between two words without a blank."""
_ENTITY = re.compile(r"&#?\w+;")
_OFTEN = 10
"""A note about joined passages is given if at least one cell in 10 looks joined, since web pages may hold separators."""
Locate: TypeAlias = Callable[[Sequence[Step]], SourceLocation]


class CellCounts:
    """Counts suspicious cells (missing, or several values joined) by reason and column, with the first location."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], tuple[int, SourceLocation]] = {}
        self.passages = Counter[str]()
        """The number of cells per column that were read as one passage each."""

    def add(self, reason: str, name: str, place: SourceLocation) -> None:
        """Count a cell of the column `name`; `reason` is "missing", "ids" or "passages" (several joined in one cell)."""
        count, first = self._counts.get((reason, name)) or (0, place)
        self._counts[reason, name] = count + 1, first

    def taken(self) -> list[Notice]:
        """Return a Notice for each column and reason counted so far, and reset the counts."""
        notices = [
            _notice(what, name, *found)
            for (what, name), found in self._counts.items()
            if what != "passages" or _OFTEN * found[0] >= self.passages[name]
        ]
        self._counts.clear()
        self.passages.clear()
        return notices


class Cells:
    """Converts the cells of table rows to values, and counts suspicious cells for notes at the end.

    `field_of` returns the sample field that a column name means, or None.
    """

    def __init__(self, field_of: Callable[..., str | None]) -> None:
        self.field_of = field_of
        self.counts = CellCounts()
        self.notes: list[Notice] = []
        self._fields = lru_cache(maxsize=100)(self._fields_of)

    def _fields_of(self, header: tuple[str, ...]) -> list[tuple[str, str | None]]:
        return [(name, self.field_of(name, header)) for name in header if name]

    def values(self, row: TableRow, where: Locate) -> dict[str, Json]:
        """Return the values of a row by column name, None for a missing value. Raises Invalid with the column as its path."""
        made: dict[str, Json] = {}
        for name, field in self._fields(tuple(row)):
            value = row[name]
            try:
                made[name] = self._value(value, name, field, where) if isinstance(value, str) else value
            except Invalid as wrong:
                raise wrong.under(name) from None
        return made

    def _value(self, cell: str, name: str, field: str | None, where: Locate) -> Json:
        """Return a cell's value for its field, None if it is missing; a list field makes a single value a list."""
        if not cell:
            return None
        if field is None or field in NAMING:
            return cell
        if is_missing(cell):
            self.counts.add("missing", name, where((name,)))
            return None
        if field in TEXTS:
            return cell
        if field == "contexts" and (cell.lstrip().startswith('"') or not looks_listed(cell)):
            self.counts.passages[name] += 1
            if _JOINED_PASSAGES.search(_ENTITY.sub(" ", cell)):
                self.counts.add("passages", name, where((name,)))
            return [cell]
        return _value(cell, field)

    def warn(self, warn: Warn) -> None:
        """Call `warn` with a Notice for each remark on the file and each kind of suspicious cell, and forget them."""
        for notice in [*self.notes, *self.counts.taken()]:
            warn(notice)
        self.notes.clear()


def _value(cell: str, field: str) -> Json:
    """Return the value of a cell as its field needs it: a list or object, a list of one, True or False, or a number."""
    if looks_listed(cell):
        return list_in_cell(cell)
    text = cell.strip()
    if field in LISTS:
        return [text]
    if field == "answerable" and type(yes := yes_no(text)) is bool:
        return yes
    try:
        value = parse_strict_json(text)
    except JsonFault as fault:
        if field == "metadata":
            return cell
        problem = f"is {cell[:40]!r}, not JSON: {fault.problem}"
        raise Invalid(problem, "write JSON in this cell, such as 3 or [0, 4]") from None
    return yes_no(value) if field == "answerable" else value


def _notice(what: str, name: str, count: int, first: SourceLocation) -> Notice:
    """Return a Notice about suspicious cells in the column `name`; `what` is the reason, `first` the first location."""
    if what == "missing":
        problem = f"the column {name!r} has a word like nan, None or N/A in {counted(count, 'row')}, read as a missing value"
        return Notice(problem, "leave the cell empty if the value is missing", first)
    if what == "ids":
        joined, fix = "ids joined by ; | , or a blank", 'write several ids as a list: ["d1", "d2"]'
    else:
        joined, fix = "passages joined by | or ;", 'write several passages as a list: ["first", "second"]'
    rows = counted(count, "row")
    problem = f"the field {name!r} looks like several {joined} in {rows}, but was read as one"
    return Notice(problem, fix, first)
