"""The columns and keys that hold query, document, score, rank and grade."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence, Sized
from contextlib import suppress
from functools import lru_cache
from typing import Any

from germane.clean import fold
from germane.errors import InputError, SourceLocation
from germane.samples.cells import (
    delimiter_of,
)
from germane.samples.fields import RESULT, id_keys
from germane.samples.frames import in_columns, parquet_batches, plain
from germane.samples.runs.detecting import first_lines, refuse_shifted
from germane.samples.runs.results import NAME_THEM, RUN, Format, Kind
from germane.samples.runs.shapes import row_fields

BETWEEN = {"tsv": "\t", "csv": ","}


def roles_of(names: Sequence[str], kind: Kind, columns: Mapping[str, str] | None = None) -> dict[str, str]:
    """The name that plays each role; `columns` (role or its name -> name here) comes first."""
    folded = {fold(name): name for name in reversed(names)}
    chosen = {role(key, kind.roles): name for key, name in (columns or {}).items()}
    result = {}
    for ours in kind.roles:
        by_flag = [chosen[ours]] if ours in chosen else []
        candidates = [*by_flag, *(folded[fold(name)] for name in RESULT[ours].names if fold(name) in folded)]
        if hit := next((name for name in candidates if name in names), None):
            result[ours] = hit
    return result


@lru_cache(maxsize=64)
def roles_of_keys(keys: tuple[str, ...], kind: Kind, columns: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The same, held for the keys that a file repeats."""
    return roles_of(keys, kind, dict(columns))


def document_columns(
    source: Any,
    fmt: Format | None = None,
    columns: Mapping[str, str] | None = None,
    kind: Kind = RUN,
) -> list[str]:
    """The columns that could hold the document's id, or the keys in a list of documents, in order of preference.

    `source` is a file of this format or, without one, a DataFrame, a list of rows or a mapping. None where `columns` names it.
    """
    if any(role(key) == "doc" for key in columns or ()):
        return []
    names = list[str]()
    first: Mapping[Any, Any] = {}
    if isinstance(source, list | Mapping):
        row = source if isinstance(source, Mapping) else row_fields(source[0], kind) if source else None
        first = row if isinstance(row, Mapping) else {}
    elif fmt is None:
        source = in_columns(source)
        found: Any = getattr(source, "column_names", None) or getattr(source, "columns", ())
        first = {str(name): next(iter(source[name]), None) for name in found}
    elif fmt in BETWEEN:
        lines = [line.decode(errors="replace") for line in first_lines(source)[:1]]
        mark = delimiter_of(lines[0], BETWEEN[fmt]) if lines else ","
        names = [name.strip() for row in csv.reader(lines, delimiter=mark) for name in row]
    elif fmt == "parquet":
        batch = next(parquet_batches(source), None)
        first = {} if batch is None else next(batch.iter_rows(named=True), {})
    elif fmt != "trec":
        text = b"\n".join(first_lines(source)).decode(errors="replace")
        with suppress(ValueError):
            row, _ = json.JSONDecoder().raw_decode(text.lstrip("[ \t\n"))
            first = row if isinstance(row, dict) else {}
    names = names or [str(name) for name in first]
    folded = {fold(name): name for name in reversed(names)}
    docs = (folded[fold(name)] for name in RESULT["doc"].names if fold(name) in folded)
    roles = roles_of(names, kind, columns)
    if "query" in roles and (columns_of_docs := list(dict.fromkeys(docs))):
        return columns_of_docs
    listed = (
        first.get(roles.get(kind.list_role, "")) if "query" in roles else next(iter(first.values()), None)
    )
    items = plain(listed) if isinstance(listed, Sized) and not isinstance(listed, str | bytes) else None
    item = items[0] if isinstance(items, list) and items else None
    return list(id_keys(tuple(map(str, item)))) if isinstance(item, Mapping) else []


def role(key: str, allowed: Sequence[str] = ()) -> str:
    """The role that a key of `--columns` means: its own name or one of the names that it goes by."""
    for ours in (*allowed, *RESULT):
        if fold(key) == fold(ours) or fold(key) in {fold(name) for name in RESULT[ours].names}:
            return ours
    fix = "write query=, doc=, docs=, score=, rank= or grade="
    raise InputError(f"--columns does not know {key!r}", fix=fix)


def chosen_key(columns: Mapping[str, str] | None) -> dict[str, str]:
    """The column of the document's id that is chosen, by its role: it may be a key in a list of documents."""
    return {"doc": name for key, name in (columns or {}).items() if role(key) == "doc"}  # noqa: B035


def table_columns(
    head: Sequence[str], location: SourceLocation, kind: Kind, columns: Mapping[str, str] | None
) -> tuple[dict[str, int], bool]:
    """The index of the column of each role, by a table's first row, and True if that row is a header."""
    header = roles_of(head, kind, columns)
    named = "query" in header and len(header) > 1
    if columns and not named:
        problem = f"the header has no such columns: {', '.join(head)[:200]}"
        raise InputError(problem, fix="--columns query=...,doc=...", place=location)
    if not named and len(head) not in kind.bare:
        few, many = min(kind.bare), max(kind.bare)
        problem = f"a table without a header has {few} to {many} columns, this line {len(head)}"
        raise InputError(problem, fix=NAME_THEM.format("score"), place=location)
    positions = {role: head.index(column) for role, column in header.items()}
    if not named:
        if kind is RUN:
            refuse_shifted(head, location)
        positions = {role: at for at, role in enumerate(kind.bare[len(head)]) if role}
    if "doc" not in positions and kind.list_role not in positions:
        fix = NAME_THEM.format(kind.roles[-1])
        raise InputError("no column holds the document", fix=fix, place=location)
    return positions, named


def frame_roles(
    names: Sequence[str], name: str, columns: Mapping[str, str] | None, kind: Kind = RUN
) -> dict[str, str]:
    """The column that plays each role; InputError where none holds the query, or none the documents."""
    result = roles_of(names, kind, columns)
    if "query" not in result or not {"doc", kind.list_role} & set(result):
        fix = "name them query_id and doc_id, or say columns={'query': ..., 'doc': ...}"
        raise InputError(
            f"no columns hold query and document: {', '.join(names)[:200]}",
            fix=fix,
            place=SourceLocation(name),
        )
    return result
