"""Columns: the values of one field over many rows, and tables made of them. A row object exists only while it is read."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from operator import attrgetter
from typing import Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from germane.encoding import encode
from germane.errors import MissingPart
from germane.types import Json

R = TypeVar("R")

Kind: TypeAlias = Literal["text", "int", "object"]
Library: TypeAlias = Literal["pandas", "polars"]
Frame: TypeAlias = Any
"""A DataFrame of pandas or polars. Neither is imported before one is asked for."""


class TextColumn:
    """Text or None, of which every distinct value is stored once; `codes` holds its number for each row."""

    kind = "text"

    def __init__(self) -> None:
        self._number: dict[str | None, int] = {}
        self._codes = array("i")

    def append(self, value: str | None) -> None:
        """Add the value of one row."""
        number = self._number
        self._codes.append(number.setdefault(value, len(number)))

    def extend(self, values: Iterable[str | None]) -> None:
        """Add the values of several rows."""
        number = self._number
        self._codes.extend([number.setdefault(value, len(number)) for value in values])

    def merge(self, other: TextColumn) -> None:
        """Add the values of another column."""
        number = self._number
        codes = np.array([number.setdefault(value, len(number)) for value in other.values], dtype=np.int32)
        if len(other):
            self._codes.frombytes(codes[other.codes].tobytes())

    @property
    def values(self) -> list[str | None]:
        """The distinct values, by code."""
        return list(self._number)

    @property
    def codes(self) -> NDArray[np.int32]:
        """The code of each row's value."""
        return np.array(self._codes, dtype=np.int32)

    def __len__(self) -> int:
        return len(self._codes)

    def __iter__(self) -> Iterator[str | None]:
        values = self.values
        return (values[code] for code in self._codes)


class IntColumn:
    """Whole numbers from 0, or None."""

    kind = "int"

    def __init__(self) -> None:
        self._numbers = array("q")

    def append(self, value: int | None) -> None:
        """Add the value of one row."""
        self._numbers.append(-1 if value is None else value)

    def extend(self, values: Iterable[int | None]) -> None:
        """Add the values of several rows."""
        self._numbers.extend([-1 if value is None else value for value in values])

    def merge(self, other: IntColumn) -> None:
        """Add the values of another column."""
        self._numbers.extend(other._numbers)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The values; -1 = None."""
        return np.array(self._numbers, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[int | None]:
        return (None if number < 0 else number for number in self._numbers)


class ObjectColumn(list[Any]):
    """Any values."""

    kind = "object"
    merge = list.extend


_KINDS: dict[Kind, type[TextColumn | IntColumn | ObjectColumn]] = {
    "text": TextColumn,
    "int": IntColumn,
    "object": ObjectColumn,
}


class RowTable(Generic[R]):
    """Rows of one type, stored as columns. Iterating over it makes the row objects.

    A subclass names the type of its rows and the kind of column of each of their fields.
    """

    row: ClassVar[type[Any]]
    fields: ClassVar[Mapping[str, Kind]]

    def __init__(self, rows: Iterable[R] = ()) -> None:
        self._columns = {name: _KINDS[kind]() for name, kind in self.fields.items()}
        self.extend(rows)

    def extend(self, rows: Iterable[R]) -> Self:
        """Append rows, or all those of a table of the same type."""
        if isinstance(rows, RowTable):
            for name, column in self._columns.items():
                column.merge(rows.column(name))
        else:
            columns = zip(*map(attrgetter(*self.fields), rows), strict=True)
            for column, values in zip(self._columns.values(), columns, strict=False):  # no rows, no columns
                column.extend(values)
        return self

    def records(self) -> Iterator[dict[str, Any]]:
        """Each row as field -> value, without a row object."""
        names = list(self._columns)
        for values in zip(*self._columns.values(), strict=True):
            yield dict(zip(names, values, strict=True))

    def column(self, name: str) -> Any:
        """One column by its field's name."""
        return self._columns[name]

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __iter__(self) -> Iterator[R]:
        make = self.row
        return (make(**record) for record in self.records())

    def to_columns(self) -> dict[str, Sequence[Json]]:
        """The values of each field, for a DataFrame."""
        return {name: list(column) for name, column in self._columns.items()}


def to_frame(columns: Mapping[str, Sequence[Json]], library: Library) -> Frame:
    """A DataFrame of pandas or polars; nested values are JSON text in it. MissingPart where it is not installed."""
    flat = {name: list(map(_flat, values)) for name, values in columns.items()}
    try:
        module = import_module(library)
    except ImportError:
        extra = "'germane[tables]'" if library == "polars" else library
        raise MissingPart(f"{library} is not installed", fix=f"pip install {extra}") from None
    if library == "polars":
        return module.DataFrame(flat, strict=False)
    return module.DataFrame({name: _series(module, values) for name, values in flat.items()})


def _flat(value: Json) -> Json:
    return encode(value).decode() if isinstance(value, dict | list | tuple) else value


def _series(pandas: Any, values: list[Json]) -> Any:
    """Whole numbers stay whole where some are missing."""
    kinds = set(map(type, values)) - {type(None)}
    return pandas.array(values, dtype="Int64") if kinds == {int} else pandas.Series(values)
