"""The table of judgements: one flat row per answer of a judge, and how many were asked in which way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self, TypeAlias

from msgspec import convert, to_builtins
from msgspec.json import Encoder
from msgspec.structs import replace

from germane.encoding import digest, encode
from germane.tables.scores import SampleKey
from germane.types import NOTHING, Json, Judgement, Usage

__all__ = ["AskedCounts", "asked_counts", "count_asked", "load_judgement"]

AskedCounts: TypeAlias = Counter[tuple[str, str, str]]
"""The number of judgements of a kind with a value in a field of their provenance: {(kind, field, value): n}."""

_WRITTEN = tuple(name for name in Judgement.__struct_fields__ if name != "provenance")
_OWN = frozenset(_WRITTEN)
_NOTHING: Usage = Judgement(key="", kind="", judge="").usage
_encode = Encoder().encode
_COUNTED = (
    "agreement",
    "failed",
    "fused",
    "list_size",
    "windows",
    "mode",
    "replica",
    "model",
    "fingerprint",
    "left_out",
    "against",
)


class ItemAnswer(NamedTuple):
    """The answer about an item of a kind, as JSON; None where that failed."""

    item: str
    kind: str
    answer: bytes | None


GRADED = "graded"
"""The kind of the rows that hold what graders of an eval file found in a case."""


def result_of_case(sample: SampleKey, grader: str) -> tuple[str, ...]:
    """The name of a grader's result in a case: the sample's id, system and trial, and the grader's name."""
    name, system, trial = sample
    return name, system, str(trial), grader


def result_item(sample: SampleKey, grader: str) -> str:
    """The item of what a grader found in a case."""
    return digest({"kind": GRADED, "of": result_of_case(sample, grader)})


class Judgements(ABC):
    """The judgements of an evaluation, in the order in which they were first used."""

    @abstractmethod
    def __iter__(self) -> Iterator[Judgement]: ...

    def of_items(self, items: Collection[str]) -> Iterator[Judgement]:
        """Iterate over the judgements whose item is one of these."""
        return (judgement for judgement in self if judgement.item in items)

    def answers(self) -> Iterator[ItemAnswer]:
        """Iterate over the answers about items, without judgements that were merged into others."""
        for row in self:
            if row.parent is None:
                answer = None if row.error is not None else encode(row.answer)
                yield ItemAnswer(row.item, row.kind, answer)


class JudgementTable(Judgements):
    """Judgements by key, in the order in which they were first used; a key that is there already stays as it is."""

    def __init__(self, judgements: Iterable[Judgement] = ()) -> None:
        self._rows: dict[str, Judgement] = {}
        self.extend(judgements)

    @property
    def asked(self) -> AskedCounts:
        """The number of judgements by the way in which they were asked."""
        return count_asked(Counter(), self)

    def add(self, judgement: Judgement) -> bool:
        """Add a judgement, unless its key is known; returns whether it was new."""
        if judgement.key in self._rows:
            return False
        self._rows[judgement.key] = judgement
        return True

    def extend(self, judgements: Iterable[Judgement]) -> Self:
        """Add judgements; of several under one key the first stays."""
        for judgement in judgements:
            self.add(judgement)
        return self

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Judgement]:
        return iter(self._rows.values())

    def to_columns(self) -> dict[str, Sequence[Json]]:
        """The values of each field, for a DataFrame."""
        return judgement_columns(self)


def judgement_columns(judgements: Iterable[Judgement]) -> dict[str, Sequence[Json]]:
    """The flat rows of judgements as columns, with the usage in columns of its own; None where a row lacks a field."""
    rows = []
    for judgement in judgements:
        row = dump_judgement(judgement)
        for name, used in row.pop("usage", {}).items():
            row[name if name in {"requests", "cost_usd"} else f"{name}_tokens"] = used
        rows.append(row)
    names = dict.fromkeys([*_WRITTEN[:9], *(name for row in rows for name in row)])
    return {name: [row.get(name) for row in rows] for name in names}


def is_asked_again(judgement: Judgement) -> bool:
    """Return True if `germane audit --again` asked for a judgement: a comparison alone reads it."""
    how = judgement.provenance
    merged_again = judgement.parent is not None and (
        "votes" in how or "failed" in how
    )  # its members have the replica numbers
    return bool(how) and ((how.get("replica") or 0) < 0 or merged_again)


def count_asked(counts: AskedCounts, judgements: Iterable[Judgement]) -> AskedCounts:
    """Count judgements by each way in which they were asked; returns the counts.

    Those that `germane audit --again` asked for are left out. What a judgement was asked against counts once per verdict that a measure reads: not for the members of a panel.
    """
    some = [judgement for judgement in judgements if not is_asked_again(judgement)]
    made = {id(how): _made(how) for how in {id(row.provenance): row.provenance for row in some}.values()}
    counts_of = Counter((row.kind, row.parent is None, row.error is None, id(row.provenance)) for row in some)
    for (kind, merged, fine, of), times in counts_of.items():
        if merged:
            counts[kind, "n", ""] += times
            if not fine:
                counts[kind, "errors", ""] += times
        for field, value in made[of].ways:
            if merged or field != "against":
                counts[kind, field, value] += times
    return counts


class _Made(NamedTuple):
    """A provenance, which many judgements of a ledger share, as it is counted and as it is written.

    `tail` is the end of a line, in place of the `nested` bytes in which the judgement's own JSON has it; these are 0
    where it is not written like that.
    """

    provenance: Mapping[str, Any]
    ways: tuple[tuple[str, str], ...]
    tail: bytes
    nested: int


def _made(how: Mapping[str, Any]) -> _Made:
    made = _MADE.get(id(how))
    if made is None or made.provenance is not how:
        if len(_MADE) >= _REMEMBERED:
            _MADE.clear()
        tail, nested = encode({name: value for name, value in how.items() if value is not None})[1:], 0
        if _OWN.isdisjoint(how):
            with suppress(UnicodeEncodeError):
                nested = 1 if how is NOTHING else len(b',"provenance":%b}' % _encode(how))
        made = _MADE[id(how)] = _Made(
            how, tuple(_ways(how)), (tail if tail == b"}" else b"," + tail) + b"\n", nested
        )
    return made


_MADE: dict[int, _Made] = {}
_REMEMBERED = 1000


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
    """The counts per kind, for the manifest: {"relevance": {"n": 40, "fused": 36, "mode": {"schema": 40}, ...}}.

    `with_reference` and `without_reference` count what relevance was judged against, where that is known.
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
    """The counts of which `asked_json` shows this; what relevance was judged against is told only where it was a reference."""
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
    """A judgement as a flat JSON object: its fields and those of its provenance, leaving out what says nothing.

    The key comes first, so that a reader can pass over a line that it does not want.
    """
    fields: dict[str, Json] = to_builtins(_plain(judgement))
    for name, value in fields.pop("provenance", NOTHING).items():
        if value is not None:
            fields.setdefault(name, value)
    return fields


def judgement_line(judgement: Judgement) -> bytes:
    """The line of a judgement in judgements.jsonl: `dump_judgement` written down."""
    made = _made(judgement.provenance)
    if made.nested:
        return _encode(_plain(judgement))[: -made.nested] + made.tail
    return encode(dump_judgement(judgement)) + b"\n"


def _plain(judgement: Judgement) -> Judgement:
    """The judgement with a usage that says nothing at its default, which is not written."""
    used = judgement.usage
    return replace(judgement, usage=_NOTHING) if used == _NOTHING and used is not _NOTHING else judgement


def load_judgement(row: dict[str, Json]) -> Judgement:
    """The judgement in a flat JSON object; ValueError where it is not one."""
    values = {name: row[name] for name in row if name in _OWN and (name != "usage" or row[name])}
    values["provenance"] = {name: value for name, value in row.items() if name not in _OWN}
    return convert(values, Judgement)
