"""A table's lines as parts in Parquet, and back again to the byte.

A part's columns are the fields of the table's record: texts, numbers and truth values as such, what is nested as JSON. A line
that its columns do not give back (half a surrogate pair in a text, a number of more than 64 bits) is kept whole beside them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from germane.encoding import decode, encode
from germane.errors import InputError, MissingPart, install_extra
from germane.types import ItemRow, Judgement, Sample, Score

_LINE = "line"
GROUP = 2_500
"""Rows that are turned into columns, or back, together: a row group of the file."""
_ESCAPED = r'["\\\x00-\x1f]'
"""Characters that JSON escapes."""
_KINDS = {"StrType": "String", "IntType": "Int64", "FloatType": "Float64", "BoolType": "Boolean", "LiteralType": "String"}  # fmt: skip


class _Table(NamedTuple):
    """The form of a table's lines, which follow from its record.

    Attributes:
        record: The record, whose fields are the columns.
        order: The fields that stand first in a line, as they do there; the others follow.
        rest: The column of what a line says beside the record's fields, as a JSON object; "" where it says nothing else.
        nulls: Whether a line has its empty fields, too.
    """

    record: type[msgspec.Struct]
    order: tuple[str, ...] = ()
    rest: str = ""
    nulls: bool = False


_TABLES = {
    "samples": _Table(Sample, rest="more"),
    "items": _Table(ItemRow, nulls=True),
    "judgements": _Table(Judgement, rest="provenance"),
    "scores": _Table(Score, ("sample", "system", "trial", "measure", "type"), nulls=True),
}


def polars(what: str) -> Any:
    """The library that reads and writes Parquet; MissingPart where it is not installed."""
    try:
        return import_module("polars")
    except ImportError:
        raise MissingPart(f"{what} needs polars", fix=install_extra("tables")) from None


@cache
def _columns(name: str) -> dict[str, str]:
    """The columns of a table with the types that they have in polars; "" = JSON as a text."""
    table = _TABLES[name]
    types = {field.name: _kind(field.type) for field in msgspec.inspect.type_info(table.record).fields}  # type: ignore[attr-defined]
    names = dict.fromkeys([*table.order, *types])
    return {name: types[name] for name in names if name != table.rest}


@cache
def _left_out(name: str) -> dict[str, bytes]:
    """The value, as JSON, of a field that a line leaves out."""
    fields = msgspec.structs.fields(_TABLES[name].record)
    kinds = _columns(name)
    return {
        field.name: encode(field.default)
        for field in fields
        if field.name in kinds and type(field.default) in {str, int}
    }


def _kind(declared: Any) -> str:
    if isinstance(declared, msgspec.inspect.UnionType):
        some = [type_ for type_ in declared.types if not isinstance(type_, msgspec.inspect.NoneType)]
        return _kind(some[0]) if len(some) == 1 else ""
    if isinstance(declared, msgspec.inspect.Metadata):
        return _kind(declared.type)
    return _KINDS.get(type(declared).__name__, "")


def write_part(file: Path, lines: Sequence[bytes]) -> None:
    """Write lines of a table as a part in its folder (`scores.parquet/`), which is there whole or not at all."""
    pl, name = polars(f"{file.parent.name}"), _name_of(file)
    chunks = [lines[first : first + GROUP] for first in range(0, max(len(lines), 1), GROUP)]
    table = pl.concat([_frame(pl, name, some) for some in chunks])
    file.parent.mkdir(exist_ok=True)
    temporary = file.with_name(f".{file.name}")
    with temporary.open("wb") as out:
        # a higher level takes CPU and gains little
        table.write_parquet(out, compression="zstd", compression_level=1, row_group_size=GROUP)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(file)


def read_part(file: Path) -> Iterator[bytes]:
    """The lines of a part."""
    pl, rows = _rows(file, lambda rows: rows)
    for some in rows.iter_slices(GROUP):
        yield from _lines(pl, _name_of(file), some)


def read_fields(file: Path, name: str) -> Iterator[bytes]:
    """The lines of the rows of a part of samples that have a field, with that field and what names the sample alone."""
    pl = polars(f"{file}")
    column, filled = name, pl.col(_LINE).is_not_null()
    if name in _columns("samples"):
        filled |= pl.col(name).is_not_null()
    else:
        column = _TABLES["samples"].rest
        filled |= pl.col(column).str.contains(encode(name).decode() + ":", literal=True)
    names = ("id", "system", "trial", column, _LINE)
    _, rows = _rows(file, lambda rows: rows.filter(filled).select(*names))
    for some in rows.iter_slices(GROUP):
        yield from _lines(pl, "samples", some)


def read_group(file: Path, number: int) -> list[bytes]:
    """The lines of one row group of a part; the first is number 0."""
    pl, rows = _rows(file, lambda rows: rows.slice(number * GROUP, GROUP))
    return _lines(pl, _name_of(file), rows)


def _rows(file: Path, wanted: Callable[[Any], Any]) -> tuple[Any, Any]:
    """polars, and the wanted rows of a part; InputError where it is damaged."""
    pl = polars(f"{file}")
    try:
        return pl, wanted(pl.scan_parquet(file)).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as fault:
        reason = str(fault).partition("\n")[0]
        raise InputError(
            f"{file} is damaged: {reason}", fix="restore it, or run the evaluation again"
        ) from None


def _name_of(part: Path) -> str:
    return part.parent.name.partition(".")[0]


_fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_NULL = msgspec.Raw(b"null")


def _fields(line: bytes) -> dict[str, msgspec.Raw]:
    """The fields of a line, each as JSON."""
    try:
        return _fields_of(line)
    except msgspec.DecodeError:  # half a surrogate pair, which msgspec refuses
        return {name: msgspec.Raw(encode(value)) for name, value in decode(line).items()}


def _frame(pl: Any, name: str, lines: Sequence[bytes]) -> Any:
    rows, absent = [_fields(line) for line in lines], _left_out(name)
    columns = []
    for column, kind in _columns(name).items():
        default = msgspec.Raw(absent.get(column, b"null"))
        columns.append(_series(pl, column, kind, [row.pop(column, default) for row in rows]))
    if rest := _TABLES[name].rest:
        columns.append(pl.Series(rest, [_object(row) if row else None for row in rows], pl.String))
    frame = pl.DataFrame([*columns, pl.Series(_LINE, [None] * len(rows), pl.String)])
    unlike = [
        None if value == line else line[:-1].decode()
        for value, line in zip(_lines(pl, name, frame), lines, strict=True)
    ]
    return frame.with_columns(pl.Series(_LINE, unlike, pl.String))


def _object(row: Mapping[str, msgspec.Raw]) -> str:
    fields = ",".join(f"{encode(name).decode()}:{str(value, 'utf-8')}" for name, value in row.items())
    return "{" + fields + "}"


def _series(pl: Any, name: str, kind: str, cells: Sequence[msgspec.Raw]) -> Any:
    """A column of cells as JSON."""
    if not kind:
        return pl.Series(name, [None if cell == _NULL else str(cell, "utf-8") for cell in cells], pl.String)
    values, dtype = decode(b"[%b]" % b",".join(cells)), getattr(pl, kind)
    try:
        return pl.Series(name, values, dtype)
    except (TypeError, OverflowError, UnicodeEncodeError, pl.exceptions.PolarsError):
        return pl.Series(name, [_fitting(value, kind) for value in values], dtype)


def _fitting(value: Any, kind: str) -> Any:
    """A value as far as a column of this type can hold it."""
    if kind == "String":
        return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None
    if kind == "Boolean":
        return value if isinstance(value, bool) else None
    fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1 << 63
    return (
        (float(value) if kind == "Float64" else value if isinstance(value, int) else None) if fits else None
    )


def _lines(pl: Any, name: str, frame: Any) -> list[bytes]:
    """The lines of a table's rows, with the fields whose columns are there."""
    table, absent, cells = _TABLES[name], _left_out(name), []
    for column, kind in _columns(name).items():
        if column not in frame.columns:
            continue
        head = f',"{column}":'
        cell = pl.lit(head) + _texts(pl, frame[column], kind)
        if not table.nulls and column in absent:
            cell = pl.when(cell != head + absent[column].decode()).then(cell)
        cells.append(cell.fill_null(f"{head}null" if table.nulls else ""))
    if table.rest in frame.columns:
        inner = frame[table.rest].str.slice(1)  # its brace ends the line
        cells.append((pl.lit(",") + inner).fill_null("}"))
    else:
        cells.append(pl.lit("}"))
    built = frame.select(
        pl.coalesce(_LINE, pl.lit("{") + pl.concat_str(cells).str.slice(1)) + "\n"
    ).to_series()
    return [line.encode() for line in built.to_list()]


def _texts(pl: Any, values: Any, kind: str) -> Any:
    """A column as JSON; null where it is."""
    if not kind:
        return values
    if kind == "Float64":
        texts = encode(values.to_list())[1:-1].decode().split(",") if len(values) else []
        return pl.Series(values.name, texts, pl.String).set(values.is_null(), None)
    if kind != "String":
        return values.cast(pl.String)
    texts = pl.select(pl.lit('"') + values + pl.lit('"')).to_series().alias(values.name)
    if (escaped := values.str.contains(_ESCAPED).fill_null(False)).any():
        rows = escaped.arg_true()
        texts = texts.scatter(rows, [encode(value).decode() for value in values.gather(rows).to_list()])
    return texts
