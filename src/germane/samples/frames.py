"""Converts DataFrames, arrays and documents of other libraries (pandas, NumPy, LangChain, ...) to plain rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from germane.errors import InputError, SourceLocation, install_extra
from germane.samples.cells import TableRow
from germane.samples.fields import OF_GOLDENS, SPELLINGS, id_in, yes_no
from germane.samples.files import check_readable, shown_name
from germane.types import Json, Sample

_PLAIN = frozenset({str, int, bool, type(None)})
_JSON = (str, int, float, list, dict, type(None))
LIST = 'give a list of samples: evaluate([{"query": "...", "contexts": [...]}], ...)'


def records(source: Any) -> Iterator[Any]:
    """Return an iterator over the rows of a table or list as plain mappings; rows that are not mappings stay unchanged.

    NaN, None and pandas' missing values are left out. NumPy arrays become lists; documents of LangChain (`page_content`)
    and nodes of LlamaIndex (`node`, `get_content()`) become contexts. Raises InputError if the source has no rows.
    """
    rows = _records(source)
    kind = dict if rows is source else TableRow
    return (kind(_mapping(row)) if isinstance(row, Mapping) else row for row in rows)


def _mapping(row: Mapping[Any, Any]) -> dict[str, Json]:
    fields = dict(_fields(row))
    if "context" in fields:  # its meaning depends on the other keys, even those without a value
        fields |= {name: None for name in OF_GOLDENS & row.keys() if name not in fields}
    return fields


def not_rows(source: Mapping[Any, Any] | Sample) -> InputError:
    """Return the InputError for data set splits, columns or one sample, given in place of a list of samples."""
    source = {} if isinstance(source, Sample) else source
    values, what, fix = list(source.values()), "one sample", LIST
    if any(hasattr(value, "columns") or hasattr(value, "column_names") for value in values):
        names = ", ".join(map(repr, list(source)[:5]))
        problem = f"the samples are given as a data set with the splits {names}"
        return InputError(problem, fix=f"give one split: data[{next(iter(source))!r}]")
    listed = [isinstance(v, list | tuple) or hasattr(v, "to_list") or hasattr(v, "tolist") for v in values]
    if listed and all(listed):
        what, fix = "a mapping of columns", "give rows: pandas.DataFrame(columns), or a list of mappings"
    return InputError(f"the samples are given as {what}, not as a list of samples", fix=fix)


def is_table(value: Any) -> bool:
    """Return True if a value is a DataFrame or an Arrow table, and False for anything else, such as a list of rows."""
    return hasattr(value, "columns") or hasattr(value, "to_pylist")


_BATCH = 1 << 16
"""Parquet rows per batch; four times as many take 40 MB more and as much CPU."""


def parquet_batches(
    path: str | Path, columns: Callable[[list[str]], Iterable[str]] = lambda names: names
) -> Iterator[Any]:
    """Yield a Parquet file as polars DataFrames; `columns` maps all column names to those to read.

    Raises InputError if polars is not installed or the file cannot be read.
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
    except FileNotFoundError:
        raise InputError("no such file", fix="check the path", place=location) from None
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError) as fault:
        problem = f"this is not a readable Parquet file: {fault}"
        raise InputError(problem, fix="export the file again", place=location) from None


def _records(source: Any) -> Iterable[Any]:
    """Return the rows of a DataFrame or Arrow table, or any other iterable unchanged. Raises InputError for other values."""
    if hasattr(source, "iter_rows"):  # polars
        return source.iter_rows(named=True)  # type: ignore[no-any-return]
    if hasattr(source, "to_pylist"):  # pyarrow
        return source.to_pylist()  # type: ignore[no-any-return]
    if hasattr(source, "to_dict") and hasattr(source, "columns"):  # pandas
        return in_columns(source).to_dict("records")  # type: ignore[no-any-return]
    if not isinstance(source, Iterable) or isinstance(source, bytes):
        problem = f"the samples are given as {type(source).__name__}, not as a list of samples"
        raise InputError(problem, fix=LIST)
    return source


def in_columns(table: Any) -> Any:
    """Return a pandas DataFrame with its named index levels turned into columns, other tables unchanged."""
    if hasattr(table, "reset_index") and {*table.index.names} - {None, *table.columns}:
        return table.reset_index()
    return table


def _fields(row: Mapping[Any, Any]) -> Iterator[tuple[str, Json]]:
    for key, cell in row.items():
        value = cell.to_dict() if SPELLINGS.get(key) == "qrels" and _holds_grades(cell) else cell
        made = value if type(value) in _PLAIN else plain(value)
        if made is not None:
            yield str(key), yes_no(made) if key == "answerable" else made


def _holds_grades(cell: Any) -> bool:
    """Return True if a value is a pandas Series of grades by document id. Raises InputError if they may be ids."""
    if not (hasattr(cell, "to_dict") and hasattr(cell, "dtype")) or cell.dtype.kind not in "iuf":
        return False
    if cell.dtype.kind != "f" and cell.index.name is None and cell.index.dtype.kind in "iu" and len(cell):
        problem = "the qrels are a Series of whole numbers, which may be document ids or grades"
        raise InputError(problem, fix="give ids as series.tolist(), or grades by id as series.to_dict()")
    return True


def plain(value: Any) -> Json:
    """Return a value of another library as JSON (an array as a list, NaN as None); unknown types are returned unchanged."""
    for read in ("tolist", "to_list"):  # an array or a number of NumPy, a series of pandas or polars
        if hasattr(value, read):
            value = getattr(value, read)()
            break
    if (result := document(value)) is not None:
        return result
    if is_table(value):  # of contexts
        return list(records(value))
    if isinstance(value, Mapping):
        return dict(_fields(value))
    if (fields := fields_of(value)) is not None:
        return plain(fields)
    if isinstance(value, list | tuple | Iterator):
        return [plain(value) for value in value]
    missing = isinstance(value, float) and math.isnan(value)
    return None if missing or type(value).__name__ in {"NAType", "NaTType"} else value


def fields_of(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a data class, named tuple or pydantic model as a mapping, or None for other values."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    method = getattr(value, "_asdict", None) or getattr(value, "model_dump", None)
    return method() if callable(method) else None


def document(value: Any) -> dict[str, Json] | None:
    """Return a document of LangChain or Haystack, or a node of LlamaIndex, as a mapping of Context's fields.

    Returns None for any other value.
    """
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
    name = id_in(facts) if name is None else name
    made = {
        "text": text,
        "id": None if name is None else str(name),
        "score": plain(getattr(value, "score", None)),
        "metadata": {key: item if isinstance(item, _JSON) else str(item) for key, item in facts.items()},
    }
    return {key: item for key, item in made.items() if item not in (None, {})}
