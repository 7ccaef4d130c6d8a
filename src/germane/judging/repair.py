"""Is a ledger whole, and if it is not: a fresh one with everything that is intact in the damaged file."""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from germane.errors import LedgerError
from germane.judging.ledger import COLUMNS, FORMAT, SQLiteLedger, from_row
from germane.judging.pages import rows_in_database, rows_in_log
from germane.types import Json, Judgement

__all__ = ["Checked", "Repaired", "check", "repair"]

_BATCH = 1000
_PROBLEMS = 20
_BESIDE = ("", "-wal", "-shm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found in a file: judgements that are sound, and what is wrong."""

    path: Path
    judgements: int
    problems: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def as_json(self) -> dict[str, Json]:
        """For `--json`."""
        found = {"ledger": str(self.path), "judgements": self.judgements, "problems": list(self.problems)}
        return {"schema_version": 1, "sound": self.sound, **found}


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """How many judgements a fresh ledger has from the damaged file, which is kept under another name."""

    path: Path
    judgements: int
    kept: Path


def check(path: Path) -> Checked:
    """Look at every page and every row; nothing is changed. LedgerError where there is no such file."""
    if not path.is_file():
        raise LedgerError(f"there is no ledger {path}")
    problems: list[str] = []
    sound = 0
    try:
        with closing(_opened(path)) as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if not 1 <= version <= FORMAT:
                return Checked(path=path, judgements=0, problems=(f"format {version} is not known",))
            found = db.execute(f"PRAGMA integrity_check({_PROBLEMS})").fetchall()
            problems += [text for (text,) in found if text != "ok"]
            for row in _rows(db, version):
                if isinstance(judgement := _read(row), Judgement):
                    sound += 1
                else:
                    problems.append(judgement)
    except (sqlite3.Error, UnicodeError) as error:
        problems.append(str(error))
    return Checked(path=path, judgements=sound, problems=tuple(problems[:_PROBLEMS]))


def repair(path: Path) -> Repaired:
    """Write a fresh ledger with every sound row of the damaged file, and put it in its place.

    First through SQLite, as far as it can read, then page by page without it. The damaged file stays beside it as
    `.damaged-TIME`. Nothing else may be using the ledger.
    """
    stamp = datetime.datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    fresh = path.with_name(f"{path.name}.fresh-{stamp}")
    kept = path.with_name(f"{path.name}.damaged-{stamp}")
    with closing(SQLiteLedger(fresh)) as ledger:
        for batch in _batches(chain(_through_sqlite(path), _through_pages(path))):
            ledger.put(batch)
        count = len(ledger)
        with ledger.explained():
            ledger.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    for end in _BESIDE:
        with suppress(FileNotFoundError):
            path.with_name(path.name + end).rename(kept.with_name(kept.name + end))
    fresh.rename(path)
    return Repaired(path=path, judgements=count, kept=kept)


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=60, isolation_level=None)


def _rows(db: sqlite3.Connection, version: int, low: bytes = b"", high: bytes | None = None) -> Iterator[Any]:
    names = ", ".join(COLUMNS if version > 1 else (*COLUMNS[:-1], "NULL"))
    end = "" if high is None else "AND key < ?"
    values = [low] if high is None else [low, high]
    return iter(db.execute(f"SELECT {names} FROM judgements WHERE key >= ? {end} ORDER BY key", values))  # noqa: S608 - constants


def _through_sqlite(path: Path) -> Iterator[Any]:
    """Rows by ranges of keys: a range in which a page is damaged is halved until it gives what it has."""
    try:
        with closing(_opened(path)) as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            yield from _range(db, version, 0, 1 << 16)
    except sqlite3.Error:
        return


def _range(db: sqlite3.Connection, version: int, low: int, high: int) -> Iterator[Any]:
    top = high.to_bytes(2, "big") if high < 1 << 16 else None
    try:
        yield from _rows(db, version, low.to_bytes(2, "big"), top)
    except (sqlite3.Error, UnicodeError):
        if high - low > 1:
            middle = (low + high) // 2
            yield from _range(db, version, low, middle)
            yield from _range(db, version, middle, high)


def _through_pages(path: Path) -> Iterator[Any]:
    yield from rows_in_database(path.read_bytes())
    with suppress(FileNotFoundError):
        yield from rows_in_log(path.with_name(path.name + "-wal").read_bytes())


def _batches(rows: Iterator[Any]) -> Iterator[list[Judgement]]:
    batch: list[Judgement] = []
    for row in rows:
        if isinstance(judgement := _read(row), Judgement):
            batch.append(judgement)
        if len(batch) >= _BATCH:
            yield batch
            batch = []
    yield batch


def _read(row: Any) -> Judgement | str:
    """The judgement in a row, or what is wrong with it."""
    width = len(COLUMNS)
    if len(row) == width - 1:  # as format 1 wrote it
        row = (*row, None)
    if len(row) != width or not isinstance(row[0], bytes) or len(row[0]) != 16:
        return "a row that is no judgement"
    try:
        judgement = from_row(row)
    except (ValueError, TypeError, AttributeError) as error:
        return str(error)
    texts = (judgement.kind, judgement.judge, judgement.prompt)
    return (
        judgement
        if all(isinstance(text, str) for text in texts)
        else f"{judgement.key}: no text where one belongs"
    )
