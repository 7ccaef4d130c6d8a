"""Open a ledger: an SQLite file, a PostgreSQL table, or a read-only export."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from germane.addons import load
from germane.clean import some_of
from germane.errors import InputError
from germane.ledger.address import file_of, is_database, store_of
from germane.ledger.sqlite import SQLiteLedger
from germane.ledger.store import Ledger, LedgerTable
from germane.questions.question import AnyQuestion
from germane.types import PlaceRow

__all__ = ["open_at"]

_SQLITE = b"SQLite format 3\0"


def open_at(where: str | Path, *, read_only: bool = False) -> LedgerTable:
    """Return the ledger in a file or database, created if missing.

    With `read_only`, nothing is made or changed. Raises InputError if no ledger can be kept at such a place, LedgerError if it
    cannot be used.
    """
    if (store := store_of(where)) is not None:
        ledger: LedgerTable = load(store)(str(where), read_only=read_only)
        return ledger
    return SQLiteLedger(where, read_only=read_only)


def open_for_replay(where: str | Path) -> LedgerTable:
    """Open a ledger, or an export of one, read-only.

    Raises InputError where it is neither, LedgerError where a ledger cannot be used.
    """
    if is_database(where):
        return open_at(where, read_only=True)
    from germane.ledger.jsonl import judgements_of, readable

    path = file_of(where)
    if path.is_dir():
        raise InputError(
            f"--replay {path} is a folder",
            fix=f"name a ledger, an export, or {path / 'judgements.jsonl'} of a report",
        )
    if not path.is_file():
        raise InputError(
            f"--replay {path}: no such file",
            fix="create it where there is a key: germane ledger export -o FILE",
        )
    readable([path])
    with path.open("rb") as file:
        is_sqlite = file.read(len(_SQLITE)) == _SQLITE
    ledger = SQLiteLedger(path, read_only=True, rows=None if is_sqlite else judgements_of(path))
    if not len(ledger):
        ledger.close()
        raise InputError(
            f"--replay {path} holds no answer",
            fix="create it where there is a key: germane ledger export -o FILE",
        )
    return ledger


def describe_missing(
    ledger: Ledger, name: str, missing: Mapping[str, AnyQuestion], rows: Iterable[PlaceRow]
) -> str:
    """Return a text with the answers that a replayed ledger lacks, by sample, and what to do; "" if none is missing."""
    from germane.ledger.upkeep import judges_and_kinds

    if not missing:
        return ""
    kinds = {question.item: question.kind for question in missing.values()}
    items = [row for row in rows if row.of is None and row.item in kinds]
    others = set(kinds) - {row.item for row in items}
    named_by_kind = (f"{kind} for a script" for item, kind in kinds.items() if item in others)
    positions = list(dict.fromkeys([*map(_location_of, items), *named_by_kind]))
    named = f": {some_of(positions)}" if positions else ""
    judges = ", ".join(judges_and_kinds(ledger)[0] if isinstance(ledger, LedgerTable) else ()) or "nobody"
    return (
        f"{len(missing)} {'answer is' if len(missing) == 1 else 'answers are'} not in {name}{named} "
        f"(it has answers of {judges}); "
        "run this where there is a key, then: germane ledger export -o FILE"
    )


def _location_of(row: PlaceRow) -> str:
    system = f" of {row.system}" if row.system else ""
    trial = f" trial {row.trial}" if row.trial else ""
    rank = "" if row.rank is None else f" at rank {row.rank}"
    call = "" if row.call in {None, 1} else f" of call {row.call}"
    return f"{row.kind} of {row.sample}{system}{trial}{rank}{call}"
