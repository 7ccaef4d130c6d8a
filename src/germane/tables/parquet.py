"""A table's lines as parts in Parquet, and back again to the byte.

A part's columns are the fields of the table's record: texts, numbers and truth values as such, what is nested as JSON. A line
that its columns do not give back (half a surrogate pair in a text, a number of more than 64 bits) is kept whole in addition.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from io import BytesIO
from itertools import groupby, repeat
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import msgspec

from germane.encoding import encode
from germane.errors import InputError, MissingPart, install_extra
from germane.tables.scores import ScoreTable
from germane.types import ItemRow, Judgement, Sample, Score, Whole

_LINE, _HEAD = "line", "head"
GROUP = 2_500
"""Rows that are turned back into lines together; four times as many are a row group of the file."""
_AT_ONCE = 4 << 20
"""Bytes of lines that are turned into columns together."""
_ROWS_AT_ONCE = 30_000
"""Scores that are turned into columns together."""
_ESCAPED = r'["\\\x00-\x1f]'
"""A pattern of the characters that JSON escapes in a text."""
_KINDS = {"StrType": "String", "IntType": "Int64", "FloatType": "Float64", "BoolType": "Boolean", "LiteralType": "String"}  # fmt: skip


class _Table(NamedTuple):
    """The form of a table's lines, which follow from its record.

    Attributes:
        record: The record, whose fields are the columns.
        order: The fields that stand first in a line, as they do there; the others follow.
        rest: The column of what a line holds besides the record's fields, as a JSON object; "" where it says nothing else.
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
def _left_out(name: str) -> dict[str, str | int]:
    """The value of a field that a line leaves out."""
    fields = msgspec.structs.fields(_TABLES[name].record)
    kinds = _columns(name)
    return {
        field.name: field.default
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


def write_part(file: Path, lines: IO[bytes], size: int) -> None:
    """Write lines of a table as a part in its folder (`scores.parquet/`), which is there whole or not at all.

    Args:
        file: The part.
        lines: What the lines are read from.
        size: The number of their bytes; a line that is begun is read to its end.
    """
    pl, name, frames, end = polars(f"{file.parent.name}"), _name_of(file), list[Any](), lines.tell() + size
    while (left := end - lines.tell()) > 0 and (text := lines.read(min(left, _AT_ONCE)) + lines.readline()):
        frames.append(_frame(pl, name, text))
    _store(pl, file, frames)


def write_scores(file: Path, table: ScoreTable, first: int, end: int) -> None:
    """Write the scores from row `first` to before `end` as a part, likewise."""
    pl, frames = polars(f"{file.parent.name}"), list[Any]()
    for begin in range(first, end, _ROWS_AT_ONCE):
        rows = begin, min(begin + _ROWS_AT_ONCE, end)
        fields = table.fields(*rows)
        try:
            frames.append(
                _with_line(pl, [_gathered(pl, *of, *fields[of[0]]) for of in _columns("scores").items()])
            )
        except _unfit(pl):  # half a surrogate pair
            frames.append(_frame(pl, "scores", table.text(*rows)))
    _store(pl, file, frames)


def _store(pl: Any, file: Path, frames: Iterable[Any]) -> None:
    """Write frames of a table as a part."""
    table = pl.concat([_frame(pl, _name_of(file), b""), *frames])
    file.parent.mkdir(exist_ok=True)
    temporary = file.with_name(f".{file.name}")
    with temporary.open("wb") as out:
        # a higher level takes CPU and gains little
        table.write_parquet(out, compression="zstd", compression_level=1, row_group_size=4 * GROUP)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(file)


RowFilter: TypeAlias = Mapping[str, Collection[str]]
"""The values of some columns; a row is read if it has at least one of them."""


def read_part(file: Path, where: RowFilter | None = None) -> Iterator[bytes]:
    """The lines of a part: of the rows that have one of these values, and of those that are kept whole."""
    pl = polars(f"{file}")
    chosen = pl.lit(where is None) | pl.col(_LINE).is_not_null()
    for column, values in (where or {}).items():
        texts = [value.encode("utf-8", "replace").decode() for value in values]
        chosen |= pl.col(column).is_in(pl.Series(texts, dtype=pl.String).implode())
    _, rows = _rows(file, lambda rows: rows.filter(chosen))
    for some in rows.iter_slices(GROUP):
        yield from _lines(pl, _name_of(file), some)


def read_columns(file: Path) -> Iterator[Any]:
    """The rows of a part some at a time: as a DataFrame of polars, or as lines where one of them is kept whole."""
    pl, rows = _rows(file, lambda rows: rows)
    for some in rows.iter_slices(4 * GROUP):
        plain = some[_LINE].null_count() == len(some)
        yield some if plain else _lines(pl, _name_of(file), some)


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


def _rows(file: Path, select: Callable[[Any], Any]) -> tuple[Any, Any]:
    """polars, and the wanted rows of a part; InputError where it is damaged."""
    pl = polars(f"{file}")
    try:
        return pl, select(pl.scan_parquet(file)).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as fault:
        reason = str(fault).partition("\n")[0]
        raise InputError(
            f"{file} is damaged: {reason}", fix="restore it, or run the evaluation again"
        ) from None


def _name_of(file: Path) -> str:
    return file.parent.name.partition(".")[0]


def _frame(pl: Any, name: str, text: bytes) -> Any:
    """The columns of lines; a line that they do not give back to the byte is kept whole."""
    frame = pl.DataFrame(list(_read(pl, name, text)))
    heads = pl.concat_str(_literals(pl, _cells(pl, name, frame)))
    lines = pl.Series(text.decode().split("\n")[:-1], dtype=pl.String)
    frame = frame.with_columns(heads.alias(_HEAD), lines.alias(_LINE))
    line = pl.col(_LINE)
    tail = line.str.strip_prefix(pl.col(_HEAD))
    fits, columns = tail == "}", list[Any]()
    if rest := _TABLES[name].rest:
        more = tail.str.starts_with(",")
        columns.append(pl.when(more).then("{" + tail.str.strip_prefix(",")).alias(rest))
        fits |= more
    fits = (fits & line.str.starts_with(pl.col(_HEAD))).fill_null(False)
    columns.append(pl.when(~fits).then(line).alias(_LINE))
    return frame.with_columns(columns).drop(_HEAD)


def _with_line(pl: Any, columns: Iterable[Any]) -> Any:
    return pl.DataFrame(list(columns)).with_columns(pl.lit(None, pl.String).alias(_LINE))


def _gathered(pl: Any, name: str, kind: str, values: Any, numbers: Any) -> Any:
    series = pl.Series(name, values, getattr(pl, kind or "String"), nan_to_null=True)
    return series if numbers is None else series.gather(numbers)


def _unfit(pl: Any) -> tuple[type[Exception], ...]:
    """The exceptions that polars raises where a column cannot hold a value."""
    return TypeError, OverflowError, UnicodeEncodeError, pl.exceptions.PolarsError


def _read(pl: Any, name: str, text: bytes) -> Iterator[Any]:
    rows = _rows_in(name, text)
    columns = zip(*map(msgspec.structs.astuple, rows), strict=True) if rows else repeat(())
    defaults = _decoder(name).type.__struct_defaults__
    for (column, kind), default, values in zip(_columns(name).items(), defaults, columns, strict=False):
        some = (
            values[:1] if values.count(default) == len(rows) else values
        )  # most fields of most tables are empty
        if kind:
            series = pl.Series(column, some, getattr(pl, kind))
        else:
            texts = pl.Series(column, b"\n".join(some).decode().split("\n") if some else [], pl.String)
            series = texts.set(texts == "null", None)
        yield series if some is values else series.new_from_index(0, len(rows))


def _rows_in(name: str, text: bytes) -> list[msgspec.Struct]:
    """The columns of each line; those of a line that they cannot hold (half a surrogate pair in a text) are empty."""
    decoder, rows = _decoder(name), list[msgspec.Struct]()
    try:
        rows = decoder.decode_lines(text)
    except msgspec.DecodeError:
        for line in BytesIO(text):
            try:
                rows.append(decoder.decode(line))
            except msgspec.DecodeError:
                rows.append(decoder.type())
    return rows


@cache
def _decoder(name: str) -> Any:
    """The decoder of the columns in a line of a table; what is nested stays JSON, and other fields are passed over."""
    absent = _left_out(name)
    fields = [
        (column, _TYPES[kind], absent.get(column)) if kind else (column, msgspec.Raw, msgspec.Raw(b"null"))
        for column, kind in _columns(name).items()
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Row", fields, gc=False))


_TYPES: dict[str, Any] = {"String": str | None, "Int64": Whole | None, "Float64": float | None, "Boolean": bool | None}  # fmt: skip


def _lines(pl: Any, name: str, frame: Any) -> list[bytes]:
    """The lines of a table's rows, with the fields whose columns are there."""
    lines: list[bytes] = _built(pl, name, frame).cast(pl.Binary).to_list()
    return lines


def _built(pl: Any, name: str, frame: Any) -> Any:
    """The lines of jsonl that the rows of a frame stand for, as a series of texts."""
    cells, rest = _cells(pl, name, frame), _TABLES[name].rest
    if rest in frame.columns:
        inner = frame[rest].str.slice(1)  # its brace ends the line
        cells += [(pl.lit(",") + inner).fill_null("}"), "\n"]
    else:
        cells.append("}\n")
    line = pl.concat_str(_literals(pl, cells))
    if frame[_LINE].null_count() < len(frame):
        line = pl.coalesce(pl.col(_LINE) + "\n", line)
    return frame.with_columns(line.alias(_LINE))[_LINE]


def _cells(pl: Any, name: str, frame: Any) -> list[Any]:
    """The pieces of the beginnings of lines, up to what stands beside the record's fields."""
    table, absent = _TABLES[name], _left_out(name)
    cells: list[Any] = []
    for column, kind in _columns(name).items():
        if column not in frame.columns:
            continue
        head, values = f'{"," if cells else "{"}"{column}":', frame[column]
        if not table.nulls and column in absent:
            values = values.set(values == absent[column], None)
        null = f"{head}null" if table.nulls else ""
        if values.null_count() == len(values):
            cells.append(null)
        elif values.null_count():
            text = pl.concat_str(pl.lit(head), *_literals(pl, _texts(pl, values, kind)))
            cells.append(text.fill_null(null))
        elif kind != "Float64" and (values == values[0]).all():  # 0.0 equals -0.0
            cells += [head, encode(values[0]).decode() if kind else values[0]]
        else:
            cells += [head, *_texts(pl, values, kind)]
    return cells


def _literals(pl: Any, pieces: Iterable[Any]) -> Iterator[Any]:
    """Pieces of a line in polars; texts that follow each other are one."""
    for literal, run in groupby(pieces, lambda piece: isinstance(piece, str)):
        some = list(run)
        yield from [pl.lit("".join(some))] if literal else some


def _texts(pl: Any, values: Any, kind: str) -> list[Any]:
    """A column as JSON, in pieces that follow each other; null where it is."""
    if not kind:
        return [values]
    if kind == "Float64":
        texts = encode(values.to_list())[1:-1].decode().split(",") if len(values) else []
        return [pl.Series(values.name, texts, pl.String).set(values.is_null(), None)]
    if kind != "String":
        return [values.cast(pl.String)]
    if not values.str.join().str.contains(_ESCAPED).item():
        return ['"', values, '"']
    rows = values.str.contains(_ESCAPED).fill_null(False).arg_true()
    texts = pl.select(pl.lit('"') + values + pl.lit('"')).to_series()
    return [texts.scatter(rows, [encode(value).decode() for value in values.gather(rows).to_list()])]
