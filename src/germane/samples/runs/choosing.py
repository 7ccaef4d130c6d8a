"""Chooses the column of the document's id where several could hold it: the one that run and gold have in common."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence, Sized
from contextlib import suppress
from functools import partial
from typing import Any

from germane.clean import fold
from germane.errors import InputError
from germane.samples.cells import delimiter_of
from germane.samples.contexts import column_of_documents
from germane.samples.fields import RESULT, id_keys
from germane.samples.frames import in_columns, parquet_batches, plain
from germane.samples.runs.columns import Lists
from germane.samples.runs.detecting import first_lines
from germane.samples.runs.roles import BETWEEN, role, roles_of
from germane.samples.runs.shapes import row_fields
from germane.samples.runs.source import RowSource


def choose_columns(
    run: RowSource, qrels: RowSource, doc_id: Callable[[str], str] | None
) -> tuple[list[str], Lists]:
    """Choose the columns of the document's id of a run and of gold; return notes on the choice, and the gold.

    `doc_id` maps the ids of chunks to those of documents, and is applied to the gold.
    """
    runs, notes = _by_column(run), list[str]()
    golds = {} if qrels.is_read else _by_column(qrels)
    if len(golds) > 1:
        relevant = {name: partial(_relevant, source) for name, source in golds.items()}
        note = ""
        for some in runs.values():
            with suppress(InputError):
                ids = some.first_ids().items()
                docs = {
                    q: dict.fromkeys(listed if doc_id is None else map(doc_id, listed), 1)
                    for q, listed in ids
                }
                name, note, meets = column_of_documents(qrels.name, relevant, docs, doc_id, other="the run")
                qrels.columns = golds[name].columns
                if meets:
                    break
        notes += [note] * bool(note)
    gold = qrels.gold if doc_id is None else qrels.gold.by_document(doc_id)
    if len(runs) > 1:
        lists = {name: some.first_ids for name, some in runs.items()}
        name, note, _ = column_of_documents(run.name, lists, gold.grades(), doc_id)
        notes += [note] * bool(note)
        run.columns = runs[name].columns
    return notes, gold


def _relevant(source: RowSource) -> dict[str, list[str]]:
    """Return the relevant documents of each query."""
    grades = source.gold.grades().items()
    return {query: [doc for doc, grade in some.items() if grade > 0] for query, some in grades}


def _by_column(source: RowSource) -> dict[str, RowSource]:
    """Return the source by each possible column of the document's id, or by "" where there is no choice."""
    if any(role(key) == "doc" for key in source.columns or ()):
        return {"": source}
    names = _document_columns(source)
    return {name: source.by_column(name) for name in names[1:] and names} or {"": source}


def _document_columns(source: RowSource) -> Sequence[str]:
    """Return the columns, or the keys in a list of documents, that could hold the document's id, in order of preference."""
    names, first = _first_row(source)
    names = names or [str(name) for name in first]
    folded = {fold(name): name for name in reversed(names)}
    docs = (folded[fold(name)] for name in RESULT["doc"].names if fold(name) in folded)
    roles = roles_of(names, source.kind, source.columns)
    if "query" in roles and (columns := list(dict.fromkeys(docs))):
        return columns
    listed = (
        first.get(roles.get(source.kind.list_role, ""))
        if "query" in roles
        else next(iter(first.values()), None)
    )
    items = plain(listed) if isinstance(listed, Sized) and not isinstance(listed, str | bytes) else None
    item = items[0] if isinstance(items, list) and items else None
    return id_keys(tuple(map(str, item))) if isinstance(item, Mapping) else ()


def _first_row(source: RowSource) -> tuple[list[str], Mapping[Any, Any]]:
    """Return the header of a table, or the first row of another source."""
    rows, file, fmt = source.source, source.file, source.format
    if file is None:
        if isinstance(rows, list):
            rows = row_fields(rows[0], source.kind) if rows else {}
        elif not isinstance(rows, Mapping):
            table = in_columns(rows)
            found: Any = getattr(table, "column_names", None) or getattr(table, "columns", ())
            rows = {str(name): next(iter(table[name]), None) for name in found}
        return [], rows if isinstance(rows, Mapping) else {}
    if fmt in BETWEEN:
        lines = [line.decode(errors="replace") for line in first_lines(file)[:1]]
        mark = delimiter_of(lines[0], BETWEEN[fmt]) if lines else ","
        return [name.strip() for row in csv.reader(lines, delimiter=mark) for name in row], {}
    if fmt == "parquet":
        batch = next(parquet_batches(file), None)
        return [], {} if batch is None else next(batch.iter_rows(named=True), {})
    with suppress(ValueError):  # no object of JSON
        text = b"\n".join(first_lines(file) if fmt != "trec" else []).decode(errors="replace")
        row, _ = json.JSONDecoder().raw_decode(text.lstrip("[ \t\n"))
        return [], row if isinstance(row, dict) else {}
    return [], {}
