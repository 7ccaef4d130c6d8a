"""Open a ledger: an SQLite file, a PostgreSQL table, or an export, which is read-only."""

from __future__ import annotations

from pathlib import Path

from germane.addons import load
from germane.errors import InputError
from germane.ledger.address import file_of, store_of
from germane.ledger.sqlite import SQLiteLedger
from germane.ledger.store import Ledger

__all__ = ["open_at"]

_SQLITE = b"SQLite format 3\0"


def open_at(where: str | Path, *, read_only: bool = False) -> Ledger:
    """Return the ledger at a path or URL, created if missing; with `read_only` nothing is changed.

    Raises InputError if the address is invalid, LedgerError if the ledger cannot be used.
    """
    if (store := store_of(where)) is not None:
        ledger: Ledger = load(store)(str(where), read_only=read_only)
        return ledger
    return SQLiteLedger(where, read_only=read_only)


def open_for_replay(where: str | Path) -> Ledger:
    """Return a ledger, or an export of one, read-only. Raises InputError or LedgerError if unusable."""
    if store_of(where) is not None:
        return open_at(where, read_only=True)
    from germane.ledger.jsonl import judgements_of, readable

    path = file_of(where)
    if not path.is_file():
        fix = "name a ledger, a file that `germane ledger export` wrote, or a report's judgements.jsonl"
        raise InputError(f"--replay {path} is not a file", fix=fix)
    readable([path])
    with path.open("rb") as file:
        is_sqlite = file.read(len(_SQLITE)) == _SQLITE
    return SQLiteLedger(path, read_only=True, rows=None if is_sqlite else judgements_of(path))
