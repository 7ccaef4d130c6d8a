"""The table of judgements: one flat row per answer of a judge.

It also counts how the judge was asked, and describes the judge and its cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType, convert, to_builtins

from germane.clean import counted
from germane.encoding import Line, digest, encode, internal
from germane.errors import option
from germane.tables.scores import SampleKey
from germane.types import NOTHING, Json, Judgement, Usage

__all__ = ["AskedCounts", "asked_counts", "count_asked", "load_judgement"]

AskedCounts: TypeAlias = Counter[tuple[str, str, str]]
"""The number of judgements for each (kind, field of the provenance, value of the field)."""

_OWN = {*Judgement.__struct_fields__} - {"provenance"}
_COUNTED = "agreement", "failed", "fused", "list_size", "windows", "mode", "model", "left_out"

GRADED = "graded"
"""The kind of the rows that hold results of an eval file's graders."""


def result_item(sample: SampleKey, grader: str) -> str:
    """Return the key (`Judgement.item`) under which a grader's result for a sample is stored."""
    return digest({"kind": GRADED, "of": (*map(str, sample), grader)})


class JudgementTable:
    """A table of judgements with distinct keys, in order of first use. Adding a key again does nothing."""

    def __init__(self, judgements: Iterable[Judgement] = ()) -> None:
        self._rows: dict[str, Judgement] = {}
        self.extend(judgements)

    def add(self, judgement: Judgement) -> bool:
        """Add a judgement unless its key is present; return True if it was added."""
        count = len(self._rows)
        self._rows.setdefault(judgement.key, judgement)
        return len(self._rows) > count

    def extend(self, judgements: Iterable[Judgement]) -> Self:
        """Add the judgements whose keys are not present yet, and return the table."""
        for judgement in judgements:
            self.add(judgement)
        return self

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Judgement]:
        return iter(self._rows.values())


def count_asked(counts: AskedCounts, judgements: Iterable[Judgement]) -> AskedCounts:
    """Add 1 to the counts for each way in which each judgement was asked, and return `counts`.

    A key of `counts` is (kind of question, field, value), such as ("relevance", "mode", "schema"); the value
    "" counts every value. Judgements of `germane audit --again` are left out. Judgements with a parent, such
    as the answers of a panel's members, are counted too, except under `n`, `errors`, `with_reference` and
    `without_reference`.
    """
    for judgement in judgements:
        how, alone = judgement.provenance, judgement.parent is None
        panel = "votes" in how or "failed" in how
        # asked again by an audit; a panel's repeated verdict has no replica number, but its members have
        if how and ((how.get("replica") or 0) < 0 or (panel and not alone)):
            continue
        ways = list[tuple[str, str]]()
        if alone:
            ways += [("n", ""), *[("errors", "")] * (judgement.error is not None)]
            if (against := how.get("against")) is not None:
                ways.append(("with_reference" if against == "reference" else "without_reference", ""))
        if panel:
            ways.append(("panel", ""))
        for field in _COUNTED if how else ():
            value = how.get(field)
            if value is None or value == ():
                continue
            if field in {"failed", "fused", "windows"}:
                ways.append((field, ""))
            elif field == "left_out":
                ways += [(field, str(name)) for name in ((value,) if isinstance(value, str) else value)]
            elif field != "list_size" or value != 1:
                ways.append((field, str(value)))
        for field, value in ways:
            counts[judgement.kind, field, value] += 1
    return counts


def asked_json(counts: AskedCounts) -> dict[str, Json]:
    """Return the counts by kind of question, such as {"relevance": {"n": 40, "mode": {"schema": 40}}}."""
    fields: dict[str, Json] = {}
    for (kind, field, value), n in sorted(counts.items()):
        of_kind = fields.setdefault(kind, {})
        if value:
            of_kind.setdefault(field, {})[value] = n
        else:
            of_kind[field] = n
    return fields


def asked_counts(row: Mapping[str, Mapping[str, Any]]) -> AskedCounts:
    """Return the counts in the JSON object that `asked_json` made."""
    counts: AskedCounts = Counter()
    for kind, fields in row.items():
        for field, n in fields.items():
            of_values = n if isinstance(n, Mapping) else {"": n}
            counts.update({(kind, field, value): times for value, times in of_values.items()})
    return counts


def dump_judgement(judgement: Judgement) -> dict[str, Json]:
    """Return a judgement with its provenance as a flat JSON object without empty fields, the key first."""
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


JUDGE_COUNTS = ("calls", "cached", "shared", "requests", "errors")  # in a judge's entry


class Tokens(Line):
    """The number of tokens sent to a judge (input) and received from it (output)."""

    input: int
    output: int


class JudgeLine(Line, rename=internal("identity")):
    """The judge and its cost, over all sessions of the evaluation.

    `calls` counts questions that were asked and paid for. `cached` counts questions that an earlier
    evaluation had asked, and `shared` questions that this evaluation had already asked. `errors` counts
    questions without an answer, whether or not a request was sent. `requests` includes repeated requests.
    `estimated` is true if an endpoint reported no tokens and the numbers are estimates. `stand_in` is the
    warning about a judge that only stands in for a model.
    """

    source: str | None
    calls: int
    cached: int
    shared: int
    requests: int
    errors: int
    tokens: Tokens
    cost_usd: float | None
    estimated: bool | UnsetType = UNSET
    stand_in: str | UnsetType = UNSET
    identity: dict[str, Any] = msgspec.field(default_factory=dict)

    @classmethod
    def stored(cls, entry: Mapping[str, Json] | None) -> JudgeLine:
        """Return the judge in a manifest or a `--json` document.

        Raises ValidationError if the entry is damaged. Without an entry, all counts are 0 and the source is
        None.
        """
        given = entry or {}
        none = {"source": None, "cost_usd": None, "tokens": {"input": 0, "output": 0}}
        counts = dict.fromkeys(JUDGE_COUNTS, 0)
        return convert({**none, **counts, **given, "_identity": given.get("identity") or {}}, cls)

    def __post_init__(self) -> None:
        self.stand_in = self.stand_in or UNSET

    @property
    def spent(self) -> str:
        """The cost of judging as a string: calls, cached answers, requests, tokens and price."""
        share = f" ({self.cached / (self.calls + self.cached):.0%})" if self.cached else ""
        words = [counted(self.calls, "call"), f"{self.cached} cached{share}"]
        if self.shared:
            words.append(f"{self.shared} shared")
        if self.requests or self.tokens.input or self.tokens.output:
            words.append(counted(self.requests, "request"))
            about = "about " if self.estimated else ""
            words.append(f"{about}{self.tokens.input:,} + {self.tokens.output:,} tokens")
            unknown = f"price unknown ({option('--price', 'price=')})"
            words.append(unknown if self.cost_usd is None else f"{about}${self.cost_usd:.4f}")
        if self.errors:
            words.append(f"{self.errors} failed")
        return ", ".join(words)
