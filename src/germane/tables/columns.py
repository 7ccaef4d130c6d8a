"""Functions shared by all tables: rows as JSON lines, and columns as DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import Struct

from germane.encoding import Json, encode, encode_records
from germane.errors import MissingPart, install_extra

__all__ = ["batched"]

T = TypeVar("T")

Library: TypeAlias = Literal["pandas", "polars"]
Frame: TypeAlias = Any
"""A DataFrame of pandas or polars; germane imports either library only when a frame is requested."""


def batched(rows: Iterable[T], size: int = 1000) -> Iterator[list[T]]:
    """Yield the rows in lists of `size` rows, the last may be shorter (3.12's `itertools.batched`)."""
    remaining = iter(rows)
    while some := list(islice(remaining, size)):
        yield some


def json_lines(rows: Iterable[Struct]) -> Iterator[bytes]:
    """Yield the rows as JSON Lines; each bytes object contains many lines."""
    return map(encode_records, batched(rows))


def to_frame(columns: Mapping[str, Sequence[Json]], library: Library) -> Frame:
    """Return the columns as a DataFrame of `library`; nested values are written as JSON strings.

    Raises MissingPart if the library is not installed.
    """
    flat = {
        name: [
            encode(value).decode() if isinstance(value, dict | list | tuple) else value for value in values
        ]
        for name, values in columns.items()
    }
    try:
        module = import_module(library)
    except ImportError:
        fix = install_extra("tables") if library == "polars" else f"pip install {library}"
        raise MissingPart(f"{library} is not installed", fix=fix) from None
    return module.DataFrame(flat, strict=False) if library == "polars" else module.DataFrame(flat)
