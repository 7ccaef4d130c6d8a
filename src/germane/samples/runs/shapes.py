"""Converts Python's shapes of runs and gold: mappings, lists of rows, records and tuples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from germane.errors import InputError, Invalid, SourceLocation, describe
from germane.samples.fields import read_id
from germane.samples.frames import fields_of, is_table, plain
from germane.samples.runs.results import RUN, Kind


def row_list(source: Any, name: str, kind: Kind) -> list[Any]:
    """Return the rows of an iterable. Raises InputError for other values."""
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return list(source)
    raise InputError(f"{describe(source)} is not {kind.name}", fix=kind.python, place=SourceLocation(name))


def row_fields(row: Any, kind: Kind) -> Any:
    """Return the fields of a mapping, a record, or a tuple with the columns of a table without a header."""
    if isinstance(row, Struct):
        row = asdict(row)
    fields = row if isinstance(row, Mapping) else fields_of(row)
    if fields is None and isinstance(row, tuple | list) and len(row) in kind.bare:
        fields = {name: value for name, value in zip(kind.bare[len(row)], row, strict=True) if name}
    if fields is None:
        return row
    return {str(name): scalar(value) if _is_scalar(value) else plain(value) for name, value in fields.items()}


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | bytes | Real | Decimal | None)


def scalar(value: Any) -> Any:
    """Return a number of NumPy or of another library as Python's own and bytes as text; other values unchanged."""
    if isinstance(value, bytes):
        return read_id(value) if value else ""
    if type(value) in {int, float, str, bool} or not isinstance(value, Real | Decimal | np.bool_):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def in_roles(listed: Any, kind: Kind) -> dict[str, Any]:
    """Return the documents of a query by role, given as a mapping to numbers or a list. Raises Invalid."""
    if is_table(listed) and not hasattr(listed, "to_list"):
        raise Invalid("is a table", "give one table of all queries, or lists")
    if hasattr(listed, "to_dict") and hasattr(listed, "index"):  # a series of pandas
        listed = listed.to_list() if listed.index.to_list() == [*range(len(listed))] else listed.to_dict()
    if isinstance(listed, Mapping):
        if {*map(type, listed)} <= {str} and {*map(type, listed.values())} <= {int, float}:
            return {kind.list_role: listed}
        graded = {_document(doc): scalar(number) for doc, number in listed.items()}
        if len(graded) < len(listed):
            raise Invalid("has a document twice, as a number and as text", "write ids as text")
        return {kind.list_role: graded}
    if isinstance(listed, set | frozenset) and kind is RUN:
        raise Invalid("is a set, which has no order", kind.python)
    if _is_scalar(listed) or not isinstance(listed, Iterable):
        raise Invalid(f"is {describe(listed)}", kind.python)
    items = [item if type(item) is str else _item(item) for item in listed]
    if items and all(type(item) is tuple for item in items):
        docs, numbers = zip(*items, strict=True)
        once = len({*docs}) == len(docs)
        return (
            {kind.list_role: dict(zip(docs, numbers, strict=True))}
            if once
            else {kind.list_role: [*docs], kind.value: [*numbers]}
        )
    return {kind.list_role: items}


def _item(item: Any) -> Any:
    """Return a document of a list: its id, its fields, or a pair (id, number)."""
    if isinstance(item, Struct):
        return item
    if _is_scalar(item) or isinstance(item, Mapping) or (fields := fields_of(item)) is not None:
        return item if isinstance(item, Mapping) else scalar(item) if _is_scalar(item) else fields
    if isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[1], Real | Decimal):
        return _document(item[0]), scalar(item[1])
    return plain(item)


def _document(value: Any) -> str:
    """Return the id of a document. Raises Invalid."""
    try:
        return read_id(scalar(value))
    except Invalid as wrong:
        wrong.problem = f"has a document whose id {wrong.problem}"
        raise
