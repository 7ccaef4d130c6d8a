"""The cells of CSV, TSV, Parquet and DataFrames: quotes, separators, lists, and words for missing values."""

from __future__ import annotations

import ast
import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain, pairwise
from typing import TypeAlias

from germane.clean import counted
from germane.errors import InputError, Invalid, SourceLocation
from germane.samples.fields import yes_no
from germane.samples.files import JsonFault, Notice, Warn, parse_strict_json
from germane.types import Json, Step

MISSING = frozenset(
    [
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "<NA>",
        "N/A",
        "NA",
        "NULL",
        "NaN",
        "None",
        "n/a",
        "nan",
        "null",
    ]
)
"""Words that mean a missing value: those that pandas reads as missing."""
NAMING = frozenset({"id", "query", "system"})
"""Fields whose cells are kept as written, including words for missing values."""
TEXTS = frozenset({"reference", "criterion", "response", "error", "cluster"})
LISTS = frozenset({"contexts", "retrieved_context_ids", "qrels", "forbidden", "tags"})
_KEEP_LISTS = "pandas and datasets keep lists with to_json(orient='records', lines=True) or to_parquet"


class TableRow(dict[str, Json]):
    """A row of a CSV file or DataFrame, whose texts are parsed as cells; a row of JSON has its types already."""


# rows of CSV and TSV


def delimiter_of(first: str, usual: str) -> str:
    """Return the separator of a table by its first line: `;` or a tab in a CSV file without commas, else the usual one."""
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
    """Iterate over the non-empty rows of a CSV or TSV file, each with the line on which it starts. Raises InputError.

    `note` gets a remark where a CSV file has another separator.
    """
    lines = iter(lines)
    first: list[str] = []  # blank lines and the first that is not
    for line in lines:
        first.append(line)
        if line.strip():
            break
    between = delimiter_of(first[-1] if first else "", delimiter)
    if between != delimiter:
        shown = "a tab" if between == "\t" else repr(between)
        note(f"the cells of this CSV file are separated by {shown}, and were read so")
    csv.field_size_limit(2**31 - 1)  # ten passages in a cell are more than the module's 128 KiB
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
    """Iterate over lines of TSV in which quotes that are letters are quoted: those that begin a cell and do not enclose it.

    MS MARCO has such queries and passages. Only lines with as many cells as the first are changed, unless the next line has
    another number: then the quote may enclose line breaks.
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
    """Iterate over the rows of a table with a header, each with its place; `check` gets the header. Raises InputError."""
    rows = table_rows(lines, delimiter, name, note)
    for first, names in rows:
        header, place = [cell.strip() for cell in names], SourceLocation(name, first)
        if twice := next((cell for cell in header if cell and header.count(cell) > 1), None):
            raise InputError(f"two columns are named {twice!r}", fix="rename one of them", place=place)
        check(header, place)
        for line, cells in rows:
            place = SourceLocation(name, line)
            if len(cells) != len(header):
                problem = f"this row has {counted(len(cells), 'cell')} and the header {len(header)}"
                fix = "write one cell a column; put a text with the separator or a line break in quotes"
                raise InputError(problem, fix=fix, place=place)
            yield place, dict(zip(header, cells, strict=True))


# values of cells


_STRING = re.compile(r"""(?:[bBuUrR]{0,2})(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.DOTALL)


def structure(text: str) -> Json:
    """Return the list or object written as JSON or as a Python literal, or None."""
    try:
        return list_in_cell(text)
    except Invalid:
        return None


def list_in_cell(text: str) -> Json:
    """Return the list or object in a cell, written as JSON or as a Python literal. Raises Invalid."""
    text = text.strip()
    try:
        value = parse_strict_json(text)
    except JsonFault as fault:
        if "is there twice" in fault.problem:
            raise Invalid(f"has {fault.problem.replace('is there ', '')}", fault.fix) from None
        refuse_printed_array(text)
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            value = None
    value = list(value) if isinstance(value, tuple) else value
    if not isinstance(value, list | dict):
        raise Invalid("starts like a list or an object and is not one", 'write JSON: ["a", "b"]')
    return value


def refuse_printed_array(text: str) -> None:
    """Raise Invalid for a printed NumPy array; Python would join its quoted texts, which have no commas."""
    if "array(" in _STRING.sub("", text):
        raise Invalid("is an array as NumPy prints it, and not a list", _KEEP_LISTS)
    end = -1
    for match in _STRING.finditer(text):
        if end >= 0 and not text[end : match.start()].strip():
            problem = "has texts without a comma between them, as NumPy prints an array"
            raise Invalid(problem, f"{_KEEP_LISTS}; by hand: write JSON")
        end = match.end()


def looks_listed(cell: str) -> bool:
    """Return True if a cell starts like a list, an object or an array, or is a Python tuple."""
    text = cell.lstrip()
    tuple_begins = text.startswith(("('", '("'))
    return text.startswith(("[", "{", "array(", '"[', '"{')) or (tuple_begins and structure(text) is not None)


_PARTED = re.compile(r"[;|,]")


def is_joined_ids(text: str) -> bool:
    """Return True if a text looks like several ids: joined by a separator, or equal patterns with digits and blanks between."""
    text = text.strip()
    if _PARTED.search(text):
        return True
    shapes = {_shape(part) for part in text.split()}
    return len(shapes) == 1 and " " in text and "9" in shapes.pop()


@lru_cache(maxsize=1000)
def _shape(word: str) -> str:
    return re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", word))


_JOINED_PASSAGES = re.compile(
    r"""[.!?]["')\]]?(?:\s*\|\s*\S|[;,](?=[^\W\d_a-z]))|[^\W\d_]{3}(?:\|(?=[^\W\d_a-z])|;(?=[^\W\d_]))"""
)
"""A separator where prose has none: after a sentence, or between two words without a blank."""
_ENTITY = re.compile(r"&#?\w+;")
_OFTEN = 10
"""A note about joined passages needs one such cell in this many; web pages may hold separators too."""


Locate: TypeAlias = Callable[[Sequence[Step]], SourceLocation]


class CellCounts:
    """Counts cells that deserve a note, by reason and column, with the first place."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], tuple[int, SourceLocation]] = {}
        self.passages = Counter[str]()
        """The number of cells of each column that were read as one passage."""

    def add(self, reason: str, name: str, place: SourceLocation) -> None:
        """Count a cell: `missing`, or several `ids` or `passages` in one."""
        count, first = self._counts.get((reason, name)) or (0, place)
        self._counts[reason, name] = count + 1, first

    def is_missing(self, cell: str, name: str, place: Callable[[], SourceLocation]) -> bool:
        """Return True for a word that means a missing value, and count it."""
        missing = cell.strip() in MISSING
        if missing:
            self.add("missing", name, place())
        return missing

    def taken(self) -> list[Notice]:
        """Return a notice for each column and reason, and reset the counts."""
        notices = [
            _notice(what, name, *found)
            for (what, name), found in self._counts.items()
            if what != "passages" or _OFTEN * found[0] >= self.passages[name]
        ]
        self._counts.clear()
        self.passages.clear()
        return notices


class Cells:
    """Reads the values of table rows, and counts cells that deserve a note."""

    def __init__(self, field_of: Callable[..., str | None]) -> None:
        self.field_of = field_of
        self.counts = CellCounts()
        self._fields = lru_cache(maxsize=100)(self._fields_of)
        self.notes: list[tuple[str, SourceLocation]] = []

    def _fields_of(self, header: tuple[str, ...]) -> tuple[tuple[str, str | None], ...]:
        return tuple((name, self.field_of(name, header)) for name in header if name)

    def values(self, row: TableRow, where: Locate) -> dict[str, Json]:
        """Return the values of a row; None = missing. Raises Invalid with the path of an invalid cell."""
        made: dict[str, Json] = {}
        for name, field in self._fields(tuple(row)):
            value = row[name]
            if not isinstance(value, str):
                made[name] = value
                continue
            try:
                made[name] = self._value(value, name, field, where) if value else None
            except Invalid as wrong:
                raise wrong.under(name) from None
        return made

    def _value(self, cell: str, name: str, field: str | None, where: Locate) -> Json:
        """Return the value of a cell for its field; a single value is a list of one where the field is a list."""
        if field is None or field in NAMING:
            return cell
        if self.counts.is_missing(cell, name, partial(where, (name,))):
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
        """Warn with the remarks on the file and the counted cells."""
        for text, location in self.notes:
            warn(Notice(text, "", location))
        for notice in self.counts.taken():
            warn(notice)
        self.notes.clear()


def _value(cell: str, field: str) -> Json:
    """Return the value of a cell: a list or an object, one value of a list, yes or no, or a number."""
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
        raise Invalid(f"is {cell[:40]!r}: {fault.problem}", "write JSON in this cell") from None
    return yes_no(value) if field == "answerable" else value


def _notice(what: str, name: str, count: int, first: SourceLocation) -> Notice:
    """Return a note about cells of a column."""
    if what == "missing":
        problem = f"{name!r} holds a word like nan, None or N/A in {counted(count, 'row')}, read as missing"
        return Notice(problem, "leave such cells empty", first)
    if what == "ids":
        joined, fix = "ids joined by ; | , or a blank", 'several are a list: ["d1", "d2"]'
    else:
        joined, fix = "passages joined by | or ;", 'several are a list: ["first", "second"]'
    problem = f"{name!r} looks like several {joined} in {counted(count, 'row')}, each read as one"
    return Notice(problem, fix, first)
