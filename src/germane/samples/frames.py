"""Converts DataFrames, arrays and documents of other libraries (pandas, NumPy, LangChain) to plain rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from germane.clean import some_of
from germane.errors import InputError, SourceLocation, install_extra
from germane.samples.cells import TableRow
from germane.samples.fields import SPELLINGS, id_in
from germane.samples.files import check_readable, shown_name
from germane.types import Json, Sample

_JSON = (str, int, float, list, dict, type(None))
LIST = 'give a list of samples: evaluate([{"query": "...", "contexts": [...]}], ...)'


def records(source: Any) -> Iterator[Any]:
    """Return an iterator over the rows of a table or a list; each mapping is converted to a plain dict.

    NaN and pandas' missing values become None, NumPy arrays lists, and documents of LangChain and nodes of
    LlamaIndex contexts. A data class, named tuple or pydantic model is a mapping of its fields; other rows
    are returned unchanged. Raises InputError if `source` has no rows.
    """
    rows = source = collected(source)
    if hasattr(source, "iter_rows"):  # polars
        rows = source.iter_rows(named=True)
    elif hasattr(source, "to_pylist"):  # pyarrow
        rows = source.to_pylist()
    elif hasattr(source, "to_dict") and hasattr(source, "columns"):  # pandas
        rows = in_columns(source).to_dict("records")
    elif isinstance(source, Mapping | Sample):
        keys = [] if isinstance(source, Sample) else list(map(repr, source))
        what = f"one mapping with the keys {some_of(keys, 5)}" if keys else "one sample"
        fix = f"{LIST}; of a data set give one split, of columns pandas.DataFrame(columns)"
        raise InputError(f"the samples are given as {what}, not as a list of samples", fix=fix)
    elif (
        isinstance(source, bytes)
        or not isinstance(source, Iterable)
        or (hasattr(source, "model_dump") and not hasattr(source, "__len__"))  # one sample, by its fields
    ):
        problem = f"the samples are given as {type(source).__name__}, not as a list of samples"
        raise InputError(problem, fix=LIST)
    kind = dict if rows is source else TableRow
    found = (row if isinstance(row, Mapping) else fields_of(row) or row for row in rows)
    return (kind(_mapping(row)) if isinstance(row, Mapping) else row for row in found)


def _mapping(row: Mapping[Any, Any]) -> dict[str, Json]:
    """Return a row as a plain dict; a pandas Series of qrels maps document ids to grades."""
    result: dict[str, Json] = {}
    for key, cell in row.items():
        value = cell
        if SPELLINGS.get(key) == "qrels" and hasattr(cell, "to_dict") and hasattr(cell, "dtype"):
            kind, index = cell.dtype.kind, cell.index
            if kind in "iu" and index.name is None and index.dtype.kind in "iu" and len(cell):
                problem = "the qrels are a Series of whole numbers, which may be document ids or grades"
                fix = "give ids as series.tolist(), or grades by id as series.to_dict()"
                raise InputError(problem, fix=fix)
            value = cell.to_dict() if kind in "iuf" else cell
        result[str(key)] = plain(value)
    return result


def is_table(value: Any) -> bool:
    """Return True if a value is a DataFrame or an Arrow table, False for others, such as a list of rows."""
    return hasattr(value, "columns") or hasattr(value, "to_pylist")


_BATCH = 1 << 16
"""The number of Parquet rows per batch.

Batches four times as large need 40 MB more memory and the same CPU time.
"""


def parquet_batches(
    path: str | Path, columns: Callable[[list[str]], Iterable[str]] = lambda names: names
) -> Iterator[Any]:
    """Yield the rows of a Parquet file in batches, each a polars DataFrame.

    `columns` maps the names of all columns to those to read. Raises InputError without polars, or if the file
    cannot be read.
    """
    location = SourceLocation(shown_name(path))
    try:
        import polars
    except ImportError:
        problem = "reading Parquet files needs the package polars"
        raise InputError(problem, fix=install_extra("tables"), place=location) from None
    try:
        check_readable(path)
        table = polars.scan_parquet(path)
        names = list(dict.fromkeys(columns(table.collect_schema().names())))
        yield from table.select(names).collect_batches(chunk_size=_BATCH)
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError) as fault:
        problem = f"this is not a readable Parquet file: {fault}"
        raise InputError(problem, fix="export the file again", place=location) from None


def collected(source: Any) -> Any:
    """Return the rows of a polars LazyFrame as a DataFrame, or any other value unchanged."""
    return source.collect() if hasattr(source, "collect_schema") and hasattr(source, "collect") else source


def in_columns(table: Any) -> Any:
    """Return a pandas DataFrame with its named index levels as columns, or any other table unchanged."""
    if hasattr(table, "reset_index") and {*table.index.names} - {None, *table.columns}:
        return table.reset_index()
    return table


def plain(value: Any) -> Json:
    """Convert a value of another library to JSON: an array to a list, NaN to None.

    Missing values in a mapping are left out. A value of an unknown type is returned unchanged.
    """
    kind = type(value)
    if kind is str or value is None:
        return value
    if isinstance(value, list) or kind is tuple:
        return [plain(inner) for inner in value]
    if isinstance(value, Mapping):
        return {str(key): made for key, inner in value.items() if (made := plain(inner)) is not None}
    if isinstance(value, float) and math.isnan(value):
        return None
    return value if kind in {int, bool, float} else _foreign(value)


def _foreign(value: Any) -> Json:
    """Convert an object of another library to JSON; return an object of an unknown type unchanged."""
    for read in ("tolist", "to_list"):  # an array or a number of NumPy, a series of pandas or polars
        if hasattr(value, read):
            return plain(getattr(value, read)())
    if (result := document(value)) is not None:
        return result
    if is_table(value):  # a table of contexts
        return list(records(value))
    if (fields := fields_of(value)) is not None:
        return plain(fields)
    if isinstance(value, Iterator):
        return [plain(inner) for inner in value]
    return None if type(value).__name__ in {"NAType", "NaTType"} else value


def fields_of(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a data class, named tuple or pydantic model as a mapping, or None for others."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    method = getattr(value, "_asdict", None) or getattr(value, "model_dump", None)
    return method() if callable(method) else None


def document(value: Any) -> dict[str, Json] | None:
    """Return a document of LangChain or Haystack, or a node of LlamaIndex, as Context's fields, or None."""
    node = getattr(value, "node", value)
    if hasattr(node, "page_content"):
        text = node.page_content
    elif callable(getattr(node, "get_content", None)):
        text = node.get_content()
    elif hasattr(node, "content") and hasattr(node, "meta"):
        text = node.content
    else:
        return None
    name = getattr(node, "id", None) or getattr(node, "node_id", None) or getattr(node, "id_", None)
    metadata = getattr(node, "metadata", None) or getattr(node, "meta", None) or {}
    facts = {str(key): plain(item) for key, item in metadata.items()}
    if part_of := getattr(node, "ref_doc_id", None):  # the document of a node of LlamaIndex
        facts["ref_doc_id"] = str(part_of)
    name = id_in(facts) if name is None else name
    made = {
        "text": text,
        "id": None if name is None else str(name),
        "score": plain(getattr(value, "score", None)),
        "metadata": {key: item if isinstance(item, _JSON) else str(item) for key, item in facts.items()},
    }
    return {key: item for key, item in made.items() if item not in (None, {})}
