"""The common base of tables: rows as lines of JSON, and columns as DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import Struct

from germane.encoding import Json, encode, encode_records
from germane.errors import MissingPart, install_extra

T = TypeVar("T")

_AT_ONCE = 1000
"""Rows that are taken apart, or encoded, together."""

Library: TypeAlias = Literal["pandas", "polars"]
Frame: TypeAlias = Any
"""A DataFrame of pandas or polars. Neither is imported before one is asked for."""


def batched(rows: Iterable[T], size: int = _AT_ONCE) -> Iterator[list[T]]:
    """The rows in lists of `size`, the last one shorter, as `itertools.batched` of Python 3.12 gives them."""
    remaining = iter(rows)
    while some := list(islice(remaining, size)):
        yield some


def json_lines(rows: Iterable[Struct]) -> Iterator[bytes]:
    """Records as lines of JSON, many together."""
    return map(encode_records, batched(rows))


def to_frame(columns: Mapping[str, Sequence[Json]], library: Library) -> Frame:
    """A DataFrame of pandas or polars; nested values are JSON text in it. MissingPart where it is not installed."""
    flat = {name: list(map(_flat, values)) for name, values in columns.items()}
    try:
        module = import_module(library)
    except ImportError:
        fix = install_extra("tables") if library == "polars" else f"pip install {library}"
        raise MissingPart(f"{library} is not installed", fix=fix) from None
    if library == "polars":
        return module.DataFrame(flat, strict=False)
    return module.DataFrame({name: _series(module, values) for name, values in flat.items()})


def _flat(value: Json) -> Json:
    return encode(value).decode() if isinstance(value, dict | list | tuple) else value


def _series(pandas: Any, values: list[Json]) -> Any:
    """Whole numbers stay whole where some are missing."""
    kinds = set(map(type, values)) - {type(None)}
    return pandas.array(values, dtype="Int64") if kinds == {int} else pandas.Series(values)
