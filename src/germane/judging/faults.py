"""What went wrong with a ledger's file: is it damaged, or is it locked, full, or not ours to write?"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from germane.errors import LedgerError
from germane.judging.log import beside, damage_in_log

__all__ = ["damage_beside", "explain", "is_damage", "refuse_damaged_log", "refuse_damaged_tree"]

_HINTS = {
    sqlite3.SQLITE_FULL: "; free some space",
    sqlite3.SQLITE_IOERR: "; the disk may be full: free some space",
    sqlite3.SQLITE_BUSY: "; another program is writing to it: try again when that has finished",
    sqlite3.SQLITE_LOCKED: "; another program is writing to it: try again when that has finished",
    sqlite3.SQLITE_READONLY: "; it cannot be written: look at its permissions and those of its folder",
    sqlite3.SQLITE_CANTOPEN: "; look at the permissions of the file and its folder",
    sqlite3.SQLITE_PERM: "; look at the permissions of the file and its folder",
}
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG}
_DAMAGE_WITHOUT_CODE = ("Could not decode", "unsupported file format")


def is_damage(error: Exception) -> bool:
    """Whether the file itself is at fault: SQLite cannot make sense of it, or a checksum is wrong."""
    if isinstance(error, sqlite3.Error):
        return _code(error) in _DAMAGE or str(error).startswith(_DAMAGE_WITHOUT_CODE)
    return isinstance(error, ValueError) and not isinstance(error, UnicodeEncodeError)


def explain(error: Exception, path: Path) -> LedgerError:
    """A fault of a ledger's file, with what to do."""
    hint = _HINTS.get(_code(error), "")
    if is_damage(error):
        hint = f"; see what is left of it: germane ledger check --ledger {path} (--repair mends it)"
    return LedgerError(f"the ledger {path} cannot be used: {error}{hint}")


def _code(error: Exception) -> int:
    """SQLite's primary code; 0 where there is none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def refuse_damaged_log(path: Path) -> None:
    """ValueError where the log beside a ledger holds answers that opening it would lose."""
    for _ in range(3):  # somebody may be writing to it just now
        found = damage_beside(path)
        if found is None:
            return
        time.sleep(0.05)
    raise ValueError(found)


def refuse_damaged_tree(db: sqlite3.Connection) -> None:
    """ValueError where a page lies wrong: answers behind it would seem not to be there, without an error."""
    (found,) = db.execute(
        "PRAGMA integrity_check(1)"
    ).fetchone()  # quick_check passes a page in another's place
    if found != "ok":
        raise ValueError(found.splitlines()[-1])


def damage_beside(path: Path) -> str | None:
    """What is wrong with the log beside a ledger; None where nothing is, or there is none."""
    try:
        log = beside(path).read_bytes()
    except FileNotFoundError:
        return None
    if log and (not path.exists() or not path.stat().st_size):
        return "the write-ahead log is there, but the file that it belongs to is missing or empty"
    return damage_in_log(log)
