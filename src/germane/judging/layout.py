"""How a judgement lies in the ledger: the columns of its row, the formats there have been, and the checksum.

Format 1 had no checksum, format 2 one of key and answer, format 3 has one of the whole row. An older row stays as it
was paid for: it is read by the rules of its time and never rewritten.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Sequence
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any
from zlib import crc32

from germane import unchecked
from germane.encoding import decode, encode
from germane.errors import LedgerError
from germane.types import FrozenDict, Judgement, Usage, freeze

__all__ = [
    "ADD_CHECKSUM",
    "COLUMNS",
    "CREATE",
    "FORMAT",
    "Row",
    "columns_of",
    "from_row",
    "names",
    "to_row",
    "version_of",
]

FORMAT = 3
COLUMNS = ("key", "kind", "judge", "prompt", "answer", "requests", "input_tokens", "output_tokens", "cost_usd",
           "ms", "at", "provenance", "checksum")  # fmt: skip
CREATE = """
    CREATE TABLE judgements (
        key BLOB PRIMARY KEY, kind TEXT NOT NULL, judge TEXT NOT NULL, prompt TEXT NOT NULL,
        answer TEXT NOT NULL, requests INTEGER NOT NULL, input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL, cost_usd REAL, ms REAL, at TEXT, provenance TEXT NOT NULL,
        checksum INTEGER
    ) WITHOUT ROWID
"""
ADD_CHECKSUM = "ALTER TABLE judgements ADD COLUMN checksum INTEGER"
"""What a table of format 1 lacks; NULL in the rows that are there."""

Row = Sequence[Any]
_NEWEST = 15  # no germane is newer than that: a higher number is damage
_NUMBERS = struct.Struct("<3q2d")
_NAN = float("nan")


def names(columns: Sequence[str]) -> str:
    """What to select for a row, of a table that has these columns."""
    return ", ".join(name if name in columns else "NULL" for name in COLUMNS)


def version_of(db: sqlite3.Connection) -> int:
    """The format of a ledger's file; 0 where it is new."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(version)


def columns_of(db: sqlite3.Connection, path: Path, *, new: bool) -> tuple[str, ...]:
    """The columns of a ledger's table; none where the file is empty, if it may be `new`. Nothing is written.

    Raises LedgerError where the file is another database or of a newer germane, ValueError where it is damaged.
    """
    found = version_of(db)
    if FORMAT < found <= _NEWEST:
        raise LedgerError(f"{path}: written by a newer germane (format {found}); update germane")
    columns = tuple(name for _, name, *_ in db.execute("PRAGMA table_info(judgements)"))
    if found == 0 and not columns:
        others = ", ".join(name for (name,) in db.execute("SELECT name FROM sqlite_master LIMIT 3"))
        if others or not new:
            raise LedgerError(
                f"{path} is no ledger: {f'it holds {others}' if others else 'it is empty'}; name another file"
            )
    elif not 1 <= found <= FORMAT:
        raise ValueError(f"format {found} is not known")
    elif columns[: len(COLUMNS) - 1] != COLUMNS[:-1]:
        raise ValueError("its table of judgements is not as it should be")
    return columns


def to_row(judgement: Judgement) -> Row:
    """A judgement as a row of the table."""
    used = judgement.usage
    row = (
        bytes.fromhex(judgement.key),
        judgement.kind,
        judgement.judge,
        judgement.prompt,
        encode(judgement.answer).decode(),
        used.requests,
        used.input_tokens,
        used.output_tokens,
        _real(used.cost_usd),
        _real(judgement.ms),
        judgement.at,
        encode(judgement.provenance).decode(),
    )
    return (*row, _checksum(*row))


def from_row(row: Row) -> Judgement:
    """The judgement in a row of the table; ValueError where the row is damaged."""
    try:
        return _judgement(row)
    except (TypeError, AttributeError, RecursionError, struct.error) as error:
        raise ValueError(f"the answer under {bytes(row[0] or b'').hex()} is damaged: {error}") from None


def _judgement(row: Row) -> Judgement:
    key, kind, judge, prompt, answer, requests, tokens_in, tokens_out, cost, ms, at, provenance, checksum = (
        row
    )
    if checksum is not None and checksum != _checksum(*row[:-1]):
        older = crc32(answer.encode(), crc32(key))  # as format 2 wrote it
        if checksum != older:
            raise ValueError(f"the answer under {key.hex()} is damaged")
    if ms is not None and not isfinite(ms):
        raise ValueError(f"the answer under {key.hex()} is damaged: it took {ms} ms")
    return unchecked.judgement(
        key.hex(),
        kind,
        judge,
        prompt,
        freeze(decode(answer)),
        _usage(requests, tokens_in, tokens_out, cost),
        ms,
        at,
        _provenance(provenance),
    )


@lru_cache(maxsize=1024)
def _usage(requests: int, tokens_in: int, tokens_out: int, cost: float | None) -> Usage:
    return Usage(requests=requests, input_tokens=tokens_in, output_tokens=tokens_out, cost_usd=cost)


@lru_cache(maxsize=1024)
def _provenance(text: str) -> FrozenDict:
    """Most answers came about alike."""
    return FrozenDict(freeze(decode(text)))


def _checksum(
    key: bytes,
    kind: str,
    judge: str,
    prompt: str,
    answer: str,
    requests: int,
    tokens_in: int,
    tokens_out: int,
    cost: float | None,
    ms: float | None,
    at: str | None,
    provenance: str,
) -> int:
    """Of all columns but itself."""
    texts = f"{kind}\0{judge}\0{prompt}\0{answer}\0{at or ''}\0{provenance}"
    numbers = _NUMBERS.pack(
        requests, tokens_in, tokens_out, _NAN if cost is None else cost, _NAN if ms is None else ms
    )
    return crc32(key + texts.encode() + numbers)


def _real(value: float | None) -> float | None:
    """A number as SQLite gives it back: a float, and no -0.0."""
    return None if value is None else value + 0.0
