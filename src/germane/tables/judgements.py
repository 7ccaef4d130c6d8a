"""The table of judgements: one flat row per answer of a judge, and counts of how the judge was asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, TypeAlias

from msgspec import convert, to_builtins

from germane.encoding import digest, encode
from germane.tables.scores import SampleKey
from germane.types import NOTHING, Json, Judgement, Usage

__all__ = ["AskedCounts", "asked_counts", "count_asked", "load_judgement"]

AskedCounts: TypeAlias = Counter[tuple[str, str, str]]
"""The number of judgements for each (kind, field of the provenance, value of the field)."""

_WRITTEN = tuple(name for name in Judgement.__struct_fields__ if name != "provenance")
_OWN = frozenset(_WRITTEN)
_COUNTED = "agreement", "failed", "fused", "list_size", "windows", "mode", "model", "left_out", "against"

GRADED = "graded"
"""The kind of the rows that hold results of an eval file's graders."""


def result_of_case(sample: SampleKey, grader: str) -> tuple[str, ...]:
    """Return the key of a grader's result: the sample's id, system and trial, and the grader's name."""
    return *map(str, sample), grader


def result_item(sample: SampleKey, grader: str) -> str:
    """Return the item under which a grader's result for a sample is stored."""
    return digest({"kind": GRADED, "of": result_of_case(sample, grader)})


class JudgementTable:
    """Judgements by key, in order of first use; a later judgement with a known key is ignored."""

    def __init__(self, judgements: Iterable[Judgement] = ()) -> None:
        self._rows: dict[str, Judgement] = {}
        self.extend(judgements)

    def add(self, judgement: Judgement) -> bool:
        """Add a judgement unless its key is present; return True if it was added."""
        if judgement.key in self._rows:
            return False
        self._rows[judgement.key] = judgement
        return True

    def extend(self, judgements: Iterable[Judgement]) -> Self:
        """Add judgements whose keys are not present, and return the table."""
        for judgement in judgements:
            self.add(judgement)
        return self

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Judgement]:
        return iter(self._rows.values())


def is_asked_again(judgement: Judgement) -> bool:
    """Return True if a judgement was made by `germane audit --again`; measures do not read those."""
    how = judgement.provenance
    # a repeated verdict of a panel: only its members hold the replica numbers
    merged_again = judgement.parent is not None and ("votes" in how or "failed" in how)
    return bool(how) and ((how.get("replica") or 0) < 0 or merged_again)


def count_asked(counts: AskedCounts, judgements: Iterable[Judgement]) -> AskedCounts:
    """Add judgements to the counts of how a judge was asked, and return the counts.

    Judgements of `germane audit --again` are left out. The members of a panel count too, except for `against`
    (with or without reference), which is counted once per verdict of the panel.
    """
    for judgement in judgements:
        if is_asked_again(judgement):
            continue
        kind, merged = judgement.kind, judgement.parent is None
        ways = list(_ways(judgement.provenance))
        if merged:
            ways += [("n", "")] if judgement.error is None else [("n", ""), ("errors", "")]
        for field, value in ways:
            if merged or field != "against":
                counts[kind, field, value] += 1
    return counts


def _ways(how: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "votes" in how or "failed" in how:
        yield "panel", ""
    for field in _COUNTED if how else ():
        value = how.get(field)
        if value is None or value == ():
            continue
        if field in {"failed", "fused", "windows"}:
            yield field, ""
        elif field == "left_out":
            yield from ((field, str(name)) for name in ((value,) if isinstance(value, str) else value))
        elif field != "list_size" or value != 1:
            yield field, str(value)


def asked_json(counts: AskedCounts) -> dict[str, Json]:
    """Return the counts by kind for the manifest, such as {"relevance": {"n": 40, "fused": 36, ...}}.

    `with_reference` and `without_reference` count the verdicts judged with and without a reference, if known.
    """
    fields: dict[str, Json] = {}
    for (kind, field, value), n in sorted(counts.items()):
        mine = fields.setdefault(kind, {})
        if field == "against":
            name = "with_reference" if value == "reference" else "without_reference"
            mine[name] = mine.get(name, 0) + n
        elif value:
            mine.setdefault(field, {})[value] = n
        else:
            mine[field] = n
    return fields


def asked_counts(row: Mapping[str, Mapping[str, Any]]) -> AskedCounts:
    """Return the counts in JSON from `asked_json`; in `against`, all values but `reference` are `other`."""
    counts: AskedCounts = Counter()
    against = {"with_reference": "reference", "without_reference": "other"}
    for kind, fields in row.items():
        for field, result in fields.items():
            if field in against:
                counts[kind, "against", against[field]] += result
            elif isinstance(result, Mapping):
                counts.update({(kind, field, value): n for value, n in result.items()})
            else:
                counts[kind, field, ""] += result
    return counts


def dump_judgement(judgement: Judgement) -> dict[str, Json]:
    """Return a judgement as a flat JSON object that includes its provenance; empty fields are left out.

    The key comes first, so that a reader can skip a line by its first bytes.
    """
    fields: dict[str, Json] = to_builtins(judgement)
    if judgement.usage == Usage():
        fields.pop("usage", None)
    for name, value in fields.pop("provenance", NOTHING).items():
        if value is not None:
            fields.setdefault(name, value)
    return fields


def judgement_line(judgement: Judgement) -> bytes:
    """Return a judgement as a line of judgements.jsonl."""
    return encode(dump_judgement(judgement)) + b"\n"


def load_judgement(row: dict[str, Json]) -> Judgement:
    """Return the judgement in a flat JSON object. Raises ValueError if the object is not a judgement."""
    values = {name: row[name] for name in row if name in _OWN}
    values["provenance"] = {name: value for name, value in row.items() if name not in _OWN}
    return convert(values, Judgement)
