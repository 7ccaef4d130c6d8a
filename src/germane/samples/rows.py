"""One row, as a dict from wherever it came, to one sample."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from germane.errors import InputError
from germane.samples import kinds
from germane.samples.fields import IDS_FIELD, SAMPLE_FIELDS, SPELLINGS
from germane.samples.notices import Notice, Warn, nearest
from germane.samples.source import Where
from germane.samples.wrong import Wrong, say
from germane.types import Context, Json, Sample

__all__ = ["Columns", "RowReader", "parse_columns"]

Columns = Mapping[str, str]

_OWN = {field.name: field for field in SAMPLE_FIELDS}
_READERS = {spelling: (field.name, field.kind.read) for spelling, field in SPELLINGS.items()}


def parse_columns(text: str) -> dict[str, str]:
    """`query=Query,contexts=Context` as a mapping of our names to theirs."""
    columns: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        ours, equals, theirs = (piece.strip() for piece in part.partition("="))
        if not equals or not theirs:
            raise InputError(f"{part!r} maps no column", fix="write OURS=THEIRS, as in query=Question")
        columns[ours] = theirs
    check_columns(columns)
    return columns


def check_columns(columns: Columns) -> None:
    """InputError where a mapping names a field that samples do not have."""
    for ours in columns:
        if ours not in SPELLINGS:
            near = nearest(ours, SPELLINGS)
            fix = f"did you mean {near}?" if near else f"write one of {', '.join(_OWN)}"
            raise InputError(f"columns: a sample has no field {ours!r}", fix=fix)


class RowReader:
    """Rows to samples; `columns` maps our field names to the names used in the rows, `warn` gets what looks wrong."""

    def __init__(self, columns: Columns | None = None, warn: Warn | None = None) -> None:
        self._warn = warn
        check_columns(columns or {})
        mapped = {theirs: _READERS[ours] for ours, theirs in (columns or {}).items()}
        taken = {name for name, _ in mapped.values()}
        free = {spelling: known for spelling, known in _READERS.items() if known[0] not in taken}
        self._readers = {**free, **mapped}

    def field_of(self, key: str) -> str | None:
        """The field that a key of a row means; None = metadata."""
        return self._readers[key][0] if key in self._readers else None

    def read(self, row: Json, number: int, where: Where) -> Sample:
        """The sample that a row describes; `number` is its id where it has none. Raises InputError."""
        try:
            return self._sample(row, number, where)
        except Wrong as wrong:
            raise wrong.error(where(wrong.path)) from None

    def _sample(self, row: Json, number: int, where: Where) -> Sample:
        if not isinstance(row, dict):
            raise Wrong(
                f"a sample is an object, and this is {say(row)}", 'write {"id": "q1", "query": "..."}'
            )
        known, more = self._sort(row, where)
        if "query" not in known:
            raise Wrong("this sample has no query", 'write "query": "the question that was asked"')
        if "id" not in known:
            known["id"] = str(number)
        if IDS_FIELD in known:
            known["contexts"] = _with_ids(known.get("contexts"), known.pop(IDS_FIELD))
        if more:
            known["metadata"] = kinds.frozen({**known.get("metadata", {}), **more})
        return Sample(**known)

    def _sort(self, row: dict[str, Json], where: Where) -> tuple[dict[str, Any], dict[str, Json]]:
        """The fields of a row that mean something, read; and the others, which are metadata."""
        known: dict[str, Any] = {}
        more: dict[str, Json] = {}
        spelt: dict[str, str] = {}
        for key, value in row.items():
            name, read = self._readers.get(key, ("", None))
            if read is None:
                more[key] = value
                if near := _near(key):
                    problem = f"the field {key!r} is not known and kept as metadata"
                    self._remark(problem, f"did you mean {near!r}?", key, where)
            elif value is None:
                continue
            elif name in known and not self._better(name, key, spelt[name], row, where):
                more[key] = value
            else:
                if name in known:
                    more[spelt[name]] = row[spelt[name]]
                try:
                    known[name] = read(value)
                except Wrong as wrong:
                    raise wrong.under(key) from None
                spelt[name] = key
        return known, more

    def _better(self, name: str, key: str, first: str, row: dict[str, Json], where: Where) -> bool:
        """Whether a second spelling of a field is read instead of the first: only our own name is."""
        better, other = (key, first) if key == name else (first, key)
        if row[key] != row[first]:
            problem = f"{better!r} and {other!r} both mean {name}; {better!r} is read"
            self._remark(problem, "keep one of them", other, where)
        return key == name

    def _remark(self, problem: str, fix: str, key: str, where: Where) -> None:
        if self._warn is not None:
            self._warn(Notice(problem, fix, where((key,))))


def _with_ids(contexts: tuple[Context, ...] | None, ids: tuple[str, ...]) -> tuple[Context, ...]:
    """Contexts with ids that stood beside them; without contexts, contexts that are ids only."""
    if contexts is None:
        return tuple(Context(id=document) for document in ids)
    if len(contexts) != len(ids):
        counts = f"{len(ids)} ids for {len(contexts)} contexts"
        raise Wrong(f"gives {counts}", "write one id for each context, in the same order", IDS_FIELD)
    for number, (context, document) in enumerate(zip(contexts, ids, strict=True)):
        if context.id is not None and context.id != document:
            raise Wrong(
                f"is {document!r}, but that context has the id {context.id!r}", "keep one", IDS_FIELD, number
            )
    return tuple(replace(context, id=document) for context, document in zip(contexts, ids, strict=True))


@functools.lru_cache(maxsize=4096)
def _near(key: str) -> str | None:
    return None if key in SPELLINGS else nearest(key, SPELLINGS)
