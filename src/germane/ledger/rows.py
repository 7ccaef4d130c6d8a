"""The ledger's table: one row per judgement, in plain columns that `sqlite3 FILE` shows to anybody.

Structured values (`answer`, `provenance`) are JSON. A judgement that is an error has no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from germane.encoding import decode, encode
from germane.types import FrozenDict, Judgement, Usage, freeze

__all__ = ["COLUMNS", "FORMAT", "SCHEMA", "from_row", "to_row"]

FORMAT = 4
"""The file's `user_version`. Formats 1 to 3 had other keys, and no items: their answers cannot be looked up any more."""

COLUMNS = ("key", "item", "kind", "judge", "prompt", "parent", "answer", "provenance", "request", "requests",
           "input_tokens", "output_tokens", "cost_usd", "ms", "at")  # fmt: skip
SCHEMA = (
    """
    CREATE TABLE judgements (
        key TEXT PRIMARY KEY, item TEXT NOT NULL, kind TEXT NOT NULL, judge TEXT NOT NULL, prompt TEXT NOT NULL,
        parent TEXT, answer TEXT NOT NULL, provenance TEXT NOT NULL, request TEXT, requests INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cost_usd REAL, ms REAL, at TEXT
    )
    """,
    "CREATE INDEX judgements_item ON judgements (item)",
    "CREATE INDEX judgements_parent ON judgements (parent) WHERE parent IS NOT NULL",
)

Row = Sequence[Any]


def to_row(judgement: Judgement) -> Row:
    """A judgement as the values of COLUMNS. ValueError or TypeError where its answer cannot be written as JSON."""
    used = judgement.usage
    return (
        judgement.key,
        judgement.item,
        judgement.kind,
        judgement.judge,
        judgement.prompt,
        judgement.parent,
        encode(judgement.answer).decode(),
        encode(judgement.provenance).decode(),
        judgement.request,
        used.requests,
        used.input_tokens,
        used.output_tokens,
        used.cost_usd,
        judgement.ms,
        judgement.at,
    )


_SETTERS = [getattr(Judgement, field.name).__set__ for field in fields(Judgement)]


def from_row(row: Row) -> Judgement:
    """The judgement in the values of COLUMNS, at a fifth of the constructor's price; ValueError where its JSON is none.

    The constructor looks at each value; these were checked when they were stored.
    """
    *texts, answer, provenance, request, requests, read, wrote, cost, ms, at = row  # as COLUMNS has them
    key, item, kind, judge, prompt, parent = texts
    usage = _usage(requests, read, wrote, cost)
    values = (key, item, kind, judge, prompt, freeze(decode(answer)), None, parent, request, usage, ms, at,
              _provenance(provenance))  # fmt: skip
    made = object.__new__(Judgement)
    for put, value in zip(_SETTERS, values, strict=True):
        put(made, value)
    return made


@lru_cache(maxsize=1024)
def _usage(requests: int, input_tokens: int, output_tokens: int, cost: float | None) -> Usage:
    return Usage(requests=requests, input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=cost)


@lru_cache(maxsize=1024)
def _provenance(text: str) -> FrozenDict:
    """Most answers of a run came about alike."""
    return FrozenDict(freeze(decode(text)))
