"""What is known to be relevant: grades of documents, groups of them, pieces of text."""

from __future__ import annotations

from typing import Any

from germane.samples import kinds
from germane.samples.kinds import Field, Kind, each, listed
from germane.samples.wrong import Wrong, say
from germane.types import Evidence, FrozenDict, Json

__all__ = ["EVIDENCE", "EVIDENCE_FIELDS", "GROUPS", "QRELS"]

_QRELS = 'write {"d7": 2, "d9": 0}, or a list of the relevant ids: ["d7"]'


def _qrels(value: Json) -> FrozenDict:
    """Grades of documents: a mapping, or a list of ids, which is grade 1 for each."""
    if isinstance(value, list | tuple):
        return FrozenDict(dict.fromkeys(kinds.IDS.read(value), 1))
    if not isinstance(value, dict):
        raise Wrong(f"is {say(value)}", _QRELS)
    grades: dict[str, Any] = {}
    for document, grade in value.items():
        try:
            grades[document] = kinds.WHOLE.read(grade)
        except Wrong as wrong:
            raise wrong.under(document) from None
    if "" in grades:
        raise Wrong("has an empty document id", _QRELS)
    return FrozenDict(grades)


def _groups(value: Json) -> tuple[tuple[str, ...], ...]:
    return each(
        kinds.IDS.read, listed(value, '[["d1", "d7"], ["d3"]]: every group must be hit, any id of it will do')
    )


EVIDENCE_FIELDS = (
    Field("quote", kinds.TEXT, "the words themselves"),
    Field("doc", kinds.ID, "the document they stand in"),
    Field("start", kinds.OFFSET, "where they start in the document, in characters"),
    Field("end", kinds.OFFSET, "where they end"),
)
_EVIDENCE_READ = {field.name: field.kind.read for field in EVIDENCE_FIELDS}
_EVIDENCE = 'write {"quote": "..."} or {"doc": "d7", "start": 0, "end": 120}'


def _evidence(value: Json) -> Evidence:
    if type(value) is str:
        value = {"quote": value}
    if not isinstance(value, dict) or not value.keys() <= _EVIDENCE_READ.keys():
        raise Wrong(f"is {say(value)} that is no evidence", _EVIDENCE)
    read: dict[str, Any] = {}
    for key, inner in value.items():
        try:
            if inner is not None:
                read[key] = _EVIDENCE_READ[key](inner)
        except Wrong as wrong:
            raise wrong.under(key) from None
    if not read.get("quote") and not read.keys() >= {"doc", "start", "end"}:
        raise Wrong("has neither a quote nor doc, start and end", _EVIDENCE)
    if read.get("start", 0) > read.get("end", read.get("start", 0)):
        raise Wrong("ends before it starts", _EVIDENCE)
    return Evidence(**read)


def _evidences(value: Json) -> tuple[Evidence, ...]:
    return each(_evidence, listed(value, '[{"quote": "..."}]'))


QRELS = Kind(
    _qrels,
    {
        "anyOf": [
            {"type": "object", "additionalProperties": kinds.WHOLE.schema, "propertyNames": {"minLength": 1}},
            kinds.IDS.schema,
        ]
    },
)
GROUPS = Kind(_groups, {"type": "array", "items": kinds.IDS.schema})
EVIDENCE = Kind(_evidences, {"type": "array", "items": {"$ref": "#/$defs/evidence"}})
