"""Parses blocks of regular lines of runs and gold with NumPy: TREC, tables and JSON Lines.

Each reader returns the rows of a block of whole lines as columns, or raises NotPlain if its rows must be read
one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from germane.samples.files import parse_json_lines
from germane.samples.runs.columns import MASKS, Floats, Keys, Lists, Numbers, Texts
from germane.samples.runs.formats import GOLD, LARGEST_GRADE, RUN, Kind, Reading, roles_of

_POWERS = 10 ** np.arange(19)
_TENS = 10.0 ** np.arange(19)
_DIGITS = 15
"""The most digits of a number computed from its digits: below 2**53, a single division rounds exactly."""
_ZEROS, _HIGH, _TO_HIGH = (np.uint64(byte * 0x0101010101010101) for byte in (0x30, 0x80, 0x46))
"""Words of eight equal bytes.

The bytes are the digit `0`, the highest bit, and the number that sets this bit when added to a byte above
`9`.
"""
_PAIRS = np.uint64(0x000000FF000000FF)


class NotPlain(Exception):
    """Raised, with a reason, if a block of rows cannot be parsed with NumPy and must be read row by row."""


def trec_rows(data: bytes, line: int, reading: Reading) -> Lists:
    """Return the rows of a block of lines in TREC format; `line` is the number of the first line.

    The rank column of a run is read only while `reading.rises` is True. Raises NotPlain for irregular lines.
    """
    fields = _LineFields(data, " ")
    query, doc = fields.texts(0), fields.texts(2)
    if (fields.data[query.start] == ord("#")).any():
        raise NotPlain("the file has comment lines")
    if reading.kind is GOLD:
        if (fields.counts != 4).any():
            raise NotPlain("a line of gold does not have four columns")
        return _rows(query, doc, fields.numbers(3, whole=True), None, line, GOLD)
    if (fields.counts > 6).any():
        raise NotPlain("a tag has a blank, or an id")
    ranks = fields.numbers(3) if reading.rises else None
    return _rows(query, doc, fields.numbers(4), ranks, line, RUN)


def table_rows(data: bytes, line: int, between: str, positions: Mapping[str, int], reading: Reading) -> Lists:
    """Return the rows of a block of lines whose cells are separated by `between`.

    `line` is the number of the first line. `positions` maps each role to the index of its column. Raises
    NotPlain for quoted cells and other irregular lines.
    """
    value = reading.kind.value if reading.kind.value in positions else "rank"
    if b'"' in data or not {"query", "doc", value} <= positions.keys():
        raise NotPlain("a row is not one document id and one number, without quotes")
    fields = _LineFields(data, between)
    if "system" in positions:
        _require_one(fields.texts(positions["system"]), line, reading)
    query, doc = fields.texts(positions["query"]), fields.texts(positions["doc"])
    numbers, ranks = fields.numbers(positions[value]), None
    if reading.rises and "rank" in positions and value != "rank":
        ranks = fields.numbers(positions["rank"])
    return _rows(query, doc, -numbers if value == "rank" else numbers, ranks, line, reading.kind)


def json_rows(data: bytes, line: int, reading: Reading) -> Lists:
    """Return the rows of a block of JSON Lines, where each line holds one result or one grade.

    `line` is the number of the first line. Raises NotPlain if the lines have different keys, an id is not a
    string, or a line is irregular in another way.
    """
    kind, data = reading.kind, data.removesuffix(b"\n") + b"\n"
    names: Mapping[str, str] = {}
    for lines in (data[: data.index(b"\n") + 1], data):  # the first line tells most irregular blocks
        try:
            records = parse_json_lines(lines)
        except ValueError:
            raise NotPlain("a line is not JSON") from None
        if lines.count(b"\n") != len(records) or {*map(type, records)} != {dict}:
            raise NotPlain("a line is blank or not an object")
        keys = {*map(tuple, records)}
        names = roles_of(keys.pop(), kind, reading.columns)
        if keys or not {"query", "doc", kind.value} <= names.keys():
            raise NotPlain("the lines have different keys, or are not single results")
    if "system" in names:
        _require_one(Texts.of([str(record[names["system"]]) for record in records]), line, reading)
    roles = ["query", "doc", kind.value, *["rank"] * (kind is RUN and "rank" in names)]
    query, doc, *numbers = ([record[names[role]] for record in records] for role in roles)
    kinds = {type(number) for values in numbers for number in values}
    if {*map(type, query), *map(type, doc)} != {str} or not kinds <= {int, float}:
        raise NotPlain("every id must be a string, and every score or grade a number")
    try:
        value, *rank = (np.array(values, np.float64) for values in numbers)
    except OverflowError:
        raise NotPlain("a number is too large") from None
    return _rows(Texts.of(query), Texts.of(doc), value, rank[0] if rank else None, line, kind)


def _require_one(systems: Texts, line: int, reading: Reading) -> None:
    """Raise NotPlain if the rows are of several systems, and InputError if not of that of the rows above."""
    hashes = systems.hashed(np.zeros(len(systems), np.int64))
    if (hashes != hashes[0]).any():
        raise NotPlain("the rows are of several systems, and the row with the second one must be named")
    reading.require_one_system(systems[0], "system", line)


def frame_rows(frame: Any, names: Mapping[str, str], line: int, reading: Reading) -> Lists:
    """Return the rows of a polars DataFrame, each of which is one result or one grade.

    `names` maps each role to the name of its column, and `line` is the number of the first row. Raises
    NotPlain for other frames, for missing values, and for ids and numbers of other types.
    """
    value = reading.kind.value
    if not hasattr(frame, "collect_schema") or names.keys() - {"rank", "system"} != {"query", "doc", value}:
        raise NotPlain("the rows are not results in a polars DataFrame")
    if "system" in names and len(frame):
        _require_one(Texts.of(map(str, frame[names["system"]].unique())), line, reading)
    ids: list[Texts] = []
    for column in (frame[names["query"]], frame[names["doc"]]):  # of strings or whole numbers
        texts = column.cast(str) if column.dtype.is_integer() else column
        if str(texts.dtype) != "String" or texts.null_count():
            raise NotPlain("a row has no id")
        sizes = texts.str.len_bytes().to_numpy().astype(np.int64)
        ends = np.cumsum(sizes)
        joined = "".join(texts.str.join("")).encode()
        ids.append(Texts(np.frombuffer(joined, np.uint8), ends - sizes, ends))
    roles = [value, *(["rank"] if reading.rises and "rank" in names else [])]
    columns = [frame[names[role]] for role in roles]
    if any(column.null_count() or not column.dtype.is_numeric() for column in columns):
        raise NotPlain("a row has no number")
    numbers, *rank = (column.to_numpy().astype(np.float64) for column in columns)
    query, doc = ids
    return _rows(query, doc, numbers, rank[0] if rank else None, line, reading.kind)


def _rows(query: Texts, doc: Texts, numbers: Floats, ranks: Floats | None, line: int, kind: Kind) -> Lists:
    """Return these columns, whose lines are numbered from `line`, as Lists."""
    if any((ids.start == ids.end).any() for ids in (query, doc)) or not np.isfinite(numbers).all():
        raise NotPlain("every row must have two ids and a finite number")
    if kind is GOLD and not ((abs(numbers) <= LARGEST_GRADE) & (numbers % 1 == 0)).all():
        raise NotPlain("a grade is not a whole number")
    return Lists.grouped(query, doc, numbers, np.arange(line, line + len(numbers)), ranks)


class _LineFields:
    """The fields of a block of lines, split at the separator `between` (" ": at single blanks and tabs).

    `counts` is the number of fields of each line. Creating one raises NotPlain for bytes that are not UTF-8,
    control characters and blank lines.
    """

    def __init__(self, data: bytes, between: str) -> None:
        data = (data.replace(b"\r\n", b"\n") if b"\r" in data else data).removesuffix(b"\n") + b"\n"
        try:
            data.isascii() or data.decode()
        except UnicodeDecodeError:
            raise NotPlain("a line is not UTF-8") from None
        gaps = _has_gaps(data) if between == " " else data.startswith(b"\n") or b"\n\n" in data
        if gaps and between == " ":
            while b"  " in data:
                data = data.replace(b"  ", b" ")
            data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n").removeprefix(b" ")
            gaps = _has_gaps(data)
        if gaps:
            raise NotPlain("a line is blank, or its columns are not separated by blanks or single tabs")
        raw = self.data = np.frombuffer(data, np.uint8)
        if raw.min() < 9 or (raw - 11).min() < 21:  # 11 to 31: smaller numbers wrap around
            raise NotPlain("a line has control characters")
        separators = raw <= 32 if between == " " else (raw == ord(between)) | (raw == 10)
        self._between = between
        self._ends = np.flatnonzero(separators)
        last = np.flatnonzero(raw[self._ends] == 10)
        self._first = np.concatenate([[0], last[:-1] + 1])
        self.counts = last - self._first + 1
        self._lines = np.concatenate([[0], self._ends[last[:-1]] + 1])

    def _bounds(self, column: int) -> tuple[Numbers, Numbers]:
        """Return the offsets at which field number `column` (from 0) starts and ends in each line."""
        if (self.counts <= column).any():
            raise NotPlain("a line has too few columns")
        start = self._ends[self._first + column - 1] + 1 if column else self._lines
        return start, self._ends[self._first + column]

    def texts(self, column: int) -> Texts:
        """Return field number `column` (from 0) of each line. NotPlain: white space around a cell."""
        start, end = self._bounds(column)
        if self._between != " ":
            filled = start < end
            edges = np.concatenate([self.data[start[filled]], self.data[end[filled] - 1]])
            if (edges <= 32).any() or (edges >= 128).any():
                raise NotPlain("there may be white space at the start or end of a cell")
        return Texts(self.data, start, end)

    def numbers(self, column: int, *, whole: bool = False) -> Floats:
        """Return field number `column` (from 0) of each line as a float, as Python's float() does.

        A number is computed from its digits if the result is exact, else it is passed to float(). Raises
        NotPlain for an invalid number, and, if `whole` is True, for a number that is not a plain integer.
        """
        (start, end), data = self._bounds(column), self.data
        negative = data[start] == 45
        points = np.flatnonzero(data == 46)
        second: NDArray[np.bool_] | bool = False
        if len(points) == len(start) and (points >= start).all() and (points < end).all():  # one per number
            dot = points
        else:
            points = np.append(points, [len(data)] * 2)
            at = np.searchsorted(points, start)
            dot, second = np.minimum(points[at], end), points[at + 1] < end
        before, behind = dot - start - negative, np.maximum(end - dot - 1, 0)
        odd = (before > 8) | (behind > 8) | (before + behind > _DIGITS) | (before + behind < 1) | second
        padded = np.concatenate([np.zeros(8, np.uint8), data])
        before_byte: Keys = np.ndarray((len(data) + 1,), "<u8", padded, strides=(1,))
        upper, is_number = _digits(before_byte[dot], before)
        lower, is_decimal = _digits(before_byte[end], behind)
        odd |= ~(is_number & is_decimal)
        if whole and (odd | (dot < end)).any():
            raise NotPlain("a grade is not a whole number")
        result: Floats = (upper * _POWERS.take(behind, mode="clip") + lower) / _TENS.take(behind, mode="clip")
        np.negative(result, out=result, where=negative)
        if odd.any():
            texts = Texts(data, start[odd], end[odd])
            words = np.stack(texts.words, axis=-1) if texts.words else np.zeros((len(texts), 1), np.uint64)
            spelt = words.view(f"S{8 * words.shape[1]}").ravel()
            if b"_" in spelt.tobytes() or (texts.start == texts.end).any():
                raise NotPlain("a value is not a number")
            try:
                result[odd] = spelt.astype(np.float64)
            except ValueError:
                raise NotPlain("a value is not a number") from None
        return result


def _has_gaps(data: bytes) -> bool:
    """Return True if a line has white space at its start, or twice in a row."""
    raw = np.frombuffer(data, np.uint8)
    return bool(raw[0] <= 32 or np.maximum(raw[1:], raw[:-1]).min(initial=255) <= 32)


def _digits(word: Keys, length: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
    """Parse the last `length` bytes of each word as an integer; without bytes the integer is 0."""
    others = MASKS.take(8 - length, mode="clip")
    word = (word & ~others) | (_ZEROS & others)
    are_digits = (((word + _TO_HIGH) | (word - _ZEROS)) & _HIGH) == 0
    word = word - _ZEROS
    word = word * np.uint64(10) + (word >> np.uint64(8))
    word = (word & _PAIRS) * np.uint64(100 + (1_000_000 << 32)) + (
        (word >> np.uint64(16)) & _PAIRS
    ) * np.uint64(1 + (10_000 << 32))
    return (word >> np.uint64(32)).astype(np.int64), are_digits
