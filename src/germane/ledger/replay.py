"""Answers that are there, and no others: a ledger or a committed export of one, read and never written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

from germane.ledger.jsonl import judgements_of, readable
from germane.ledger.store import INSERT, Ledger, LedgerTable, SQLiteLedger, create_table, to_row
from germane.ledger.upkeep import judges_and_kinds
from germane.questions.question import AnyQuestion
from germane.types import ItemRow

__all__ = ["ExportedLedger", "describe_missing"]


class ExportedLedger(SQLiteLedger):
    """The judgements of a JSONL file (`germane ledger export`, a report's judgements.jsonl) as a ledger to read.

    They are held in memory. Of two answers under one key the first holds; errors are left out. InputError at the first
    line that is not a judgement.
    """

    def __init__(self, where: str | Path) -> None:
        super().__init__(where, reading=True)

    def _open(self, *, reading: bool) -> sqlite3.Connection:
        readable([self.path])
        db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        create_table(db)
        db.executemany(
            INSERT, (to_row(judgement) for judgement in judgements_of(self.path) if judgement.error is None)
        )
        db.execute(f"PRAGMA query_only={reading:d}")
        return db


def describe_missing(
    ledger: Ledger, name: str, missing: Mapping[str, AnyQuestion], rows: Iterable[ItemRow]
) -> str:
    """The answers that a replayed ledger lacks, by their places in the samples, and what to do; "" where none."""
    if not missing:
        return ""
    kinds = {question.item: question.kind for question in missing.values()}
    items = [row for row in rows if row.of is None and row.item in kinds]
    others = set(kinds) - {row.item for row in items}
    named_by_kind = (f"{kind} for a script" for item, kind in kinds.items() if item in others)
    positions = list(dict.fromkeys([*map(_place, items), *named_by_kind]))
    more = f" and {len(positions) - _NAMED} more" if len(positions) > _NAMED else ""
    named = f": {', '.join(positions[:_NAMED])}{more}" if positions else ""
    judges = ", ".join(judges_and_kinds(ledger)[0] if isinstance(ledger, LedgerTable) else ()) or "nobody"
    return (
        f"{len(missing)} {'answer is' if len(missing) == 1 else 'answers are'} not in {name}{named} "
        f"(it has answers of {judges}); "
        "run this where there is a key, then: germane ledger export -o FILE"
    )


_NAMED = 10
"""Missing answers that are named one by one."""


def _place(row: ItemRow) -> str:
    system = f" of {row.system}" if row.system else ""
    trial = f" trial {row.trial}" if row.trial else ""
    rank = "" if row.rank is None else f" at rank {row.rank}"
    call = "" if row.call in {None, 1} else f" of call {row.call}"
    return f"{row.kind} of {row.sample}{system}{trial}{rank}{call}"
