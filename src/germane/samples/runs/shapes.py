"""Converts Python's shapes of runs and gold: mappings, lists of ids, and rows as mappings or tuples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from germane.errors import InputError, Invalid, SourceLocation, describe
from germane.samples.fields import read_id
from germane.samples.frames import fields_of, plain
from germane.samples.runs.formats import RUN, Kind


def row_list(source: Any, name: str, kind: Kind) -> list[Any]:
    """Return the rows of an iterable. Raises InputError for other values."""
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return list(source)
    raise InputError(f"{describe(source)} is not {kind.name}", fix=kind.python, place=SourceLocation(name))


def row_fields(row: Any, kind: Kind) -> Any:
    """Return the fields of a mapping, a record, or a tuple with the columns of a table without a header."""
    fields = row if isinstance(row, Mapping) else fields_of(row)
    if fields is None and isinstance(row, tuple | list) and len(row) in kind.bare:
        fields = {name: value for name, value in zip(kind.bare[len(row)], row, strict=True) if name}
    if fields is None:
        return row
    return {str(name): scalar(value) if _is_scalar(value) else plain(value) for name, value in fields.items()}


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | bytes | Real | None)


def scalar(value: Any) -> Any:
    """Return a number of NumPy as Python's own and bytes as text; other values unchanged."""
    if isinstance(value, bytes):
        return read_id(value) if value else ""
    if type(value) in {int, float, str, bool} or not isinstance(value, Real | np.bool_):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def in_roles(listed: Any, kind: Kind) -> dict[str, Any]:
    """Return the documents of a query by role, given as a mapping to numbers or a list of ids. Raises Invalid."""
    if isinstance(listed, Mapping):
        if {*map(type, listed)} <= {str} and {*map(type, listed.values())} <= {int, float}:
            return {kind.list_role: listed}
        graded = {_document(doc): scalar(number) for doc, number in listed.items()}
        if len(graded) < len(listed):
            raise Invalid("has a document twice, as a number and as text", "write ids as text")
        return {kind.list_role: graded}
    if isinstance(listed, set | frozenset) and kind is RUN:
        raise Invalid("is a set, which has no order", kind.python)
    if not isinstance(listed, list | tuple | set | frozenset | np.ndarray):
        raise Invalid(f"is {describe(listed)}", kind.python)
    return {kind.list_role: [scalar(item) if _is_scalar(item) else plain(item) for item in listed]}


def _document(value: Any) -> str:
    """Return the id of a document. Raises Invalid."""
    try:
        return read_id(scalar(value))
    except Invalid as wrong:
        wrong.problem = f"has a document whose id {wrong.problem}"
        raise
