"""Tables made of columns: the values of one field over many rows. A row object exists only while it is read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice
from operator import attrgetter
from sys import intern
from typing import Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar, get_args

from msgspec.structs import fields

from germane.encoding import encode, encode_records
from germane.errors import MissingPart, install_extra
from germane.types import Json

R = TypeVar("R")
_AT_ONCE = 1000
"""Rows that are taken apart together."""

Library: TypeAlias = Literal["pandas", "polars"]
Frame: TypeAlias = Any
"""A DataFrame of pandas or polars. Neither is imported before one is asked for."""


class RowTable(Generic[R]):
    """Rows of one type, stored as columns, every distinct text of those that are added together once, every item once in all tables. Iterating over it makes the row objects.

    A subclass names the type of its rows, a record with these fields.
    """

    row: ClassVar[Any]
    _of_texts: ClassVar[Collection[str]]
    """The columns of texts, or of texts and None."""

    def __init_subclass__(cls) -> None:
        cls._of_texts = {field.name for field in fields(cls.row) if _is_text(field.type)}

    def __init__(self, rows: Iterable[R] = ()) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in self.row.__struct_fields__}
        self.extend(rows)

    def extend(self, rows: Iterable[R]) -> Self:
        """Append rows, or all those of a table of the same type."""
        if isinstance(rows, RowTable):
            for name, column in self._columns.items():
                column.extend(rows.column(name))
            return self
        interned, values_of = dict[str, str]().setdefault, attrgetter(*self._columns)
        remaining = iter(rows)
        while some := list(islice(remaining, _AT_ONCE)):
            columns = zip(*map(values_of, some), strict=True)
            for name, values in zip(self._columns, columns, strict=True):
                texts = map(intern, map(str, values)) if name == "item" else map(interned, values, values)
                self._columns[name] += texts if name in self._of_texts else values
        return self

    def add(self, count: int, **values: Sequence[Any] | str | float | None) -> None:
        """Append `count` rows: of each field a list of their values, or the one value that all have."""
        for name, column in self._columns.items():
            value = values[name]
            column.extend(value if isinstance(value, list) else [value] * count)

    def texts(self) -> Iterator[tuple[bytes, int]]:
        """The rows as lines of JSON, many together, each time with their number."""
        remaining: Iterator[Any] = iter(self)
        while some := list(islice(remaining, _AT_ONCE)):
            yield encode_records(some), len(some)

    def column(self, name: str) -> list[Any]:
        """One column by its field's name."""
        return self._columns[name]

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __iter__(self) -> Iterator[R]:
        return map(self.row, *self._columns.values())

    def to_columns(self) -> dict[str, Sequence[Json]]:
        """The values of each field, for a DataFrame."""
        return {name: list(column) for name, column in self._columns.items()}


def _is_text(annotation: Any) -> bool:
    """True if a field holds a text, one of some texts, or None."""
    kinds = get_args(annotation) or (annotation,)
    return all(kind in {str, type(None)} or type(kind) is str for kind in kinds)


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
