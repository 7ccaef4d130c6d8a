"""The ledger at a place: a file of SQLite, a table of PostgreSQL, or an export that is only read."""

from __future__ import annotations

from pathlib import Path

from germane.errors import InputError
from germane.ledger.replay import ExportedLedger
from germane.ledger.store import LedgerTable, SQLiteLedger, file_of, is_database
from germane.tables.stored import is_parts

_SQLITE = b"SQLite format 3\0"


def open_at(where: str | Path, *, reading: bool = False) -> LedgerTable:
    """The ledger in a file, or in the database that a postgresql:// URL names; made where there is none.

    With `reading`, nothing is made or changed. Raises InputError where no ledger can be kept at such a place, LedgerError
    where it cannot be used.
    """
    if is_database(where):
        from germane.ledger.postgres import PostgresLedger

        return PostgresLedger(str(where), reading=reading)
    return SQLiteLedger(where, reading=reading)


def open_for_replay(where: str | Path) -> LedgerTable:
    """A ledger, or an export of one as JSON lines, to be read only; nothing is made or changed.

    Raises InputError where it is neither, LedgerError where a ledger cannot be used.
    """
    if is_database(where):
        return open_at(where, reading=True)
    path = file_of(where)
    if is_parts(path):
        return ExportedLedger(path)
    if path.is_dir():
        raise InputError(
            f"--replay {path} is a folder",
            fix=f"name a ledger, an export, or {path / 'judgements.jsonl'} of a report",
        )
    if not path.is_file():
        raise InputError(
            f"--replay {path}: no such file",
            fix="make it where there is a key: germane ledger export -o FILE",
        )
    with path.open("rb") as file:
        is_sqlite = file.read(len(_SQLITE)) == _SQLITE
    return SQLiteLedger(path, reading=True) if is_sqlite else ExportedLedger(path)
