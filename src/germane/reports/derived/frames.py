"""The tables of a report as columns, for a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from germane.errors import InputError
from germane.folder.rows import Tables
from germane.tables.judgements import judgement_columns
from germane.tables.labels import Label
from germane.tables.scores import SampleKey
from germane.types import Json, PlaceRow


def columns_of(tables: Tables, table: str) -> Mapping[str, Sequence[Json]]:
    """Return the columns of a table by its name."""
    if table == "samples":
        from germane.samples.rows import sample_to_json

        rows = list(map(sample_to_json, tables.samples))
        names = dict.fromkeys(["id", "query", "system", "trial", *(name for row in rows for name in row)])
        missing: dict[str, Json] = {"system": "", "trial": 0}
        return {
            "sample" if name == "id" else name: [row.get(name, missing.get(name)) for row in rows]
            for name in names
        }
    if table == "judgements":
        return judgement_columns(tables.judgements)
    if table == "scores":
        return tables.scores.to_columns()
    if (record := {"places": PlaceRow, "labels": Label}.get(table)) is not None:
        records = list(getattr(tables, table))
        return {name: [getattr(row, name) for row in records] for name in record.__struct_fields__}
    raise InputError(f"unknown table {table!r}", fix="samples, places, judgements, labels or scores")


def columns_of_samples(tables: Tables, measures: Iterable[str]) -> dict[str, Sequence[Json]]:
    """Return one row per sample, in input order: a column per measure, and the reasons of missing values."""
    rows: dict[SampleKey, dict[str, Json]] = {}
    for score in tables.scores:
        row = rows.setdefault(score.key, {})
        row[score.measure] = score.value
        if score.status != "ok":
            row.setdefault("", []).append(f"{score.measure}: {score.status}: {score.why}")
    queries = {sample.key: sample.query for sample in tables.samples}
    results: dict[str, Sequence[Json]] = {"sample": [key[0] for key in rows]}
    if queries:
        results["query"] = [queries.get(key) for key in rows]
    results |= {"system": [key[1] for key in rows], "trial": [key[2] for key in rows]}
    results |= {name: [row.get(name) for row in rows.values()] for name in measures}
    return results | {"why": ["; ".join(row.get("", ())) or None for row in rows.values()]}
