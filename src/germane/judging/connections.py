"""A connection to a ledger's file: to write, or to look only."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from germane.errors import LedgerError
from germane.judging.log import beside

__all__ = ["to_read", "to_write"]


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    where = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(where, uri=True, timeout=60, isolation_level=None, check_same_thread=False)


def to_write(path: Path) -> sqlite3.Connection:
    """A connection that makes the file, and its folder, where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return _connected(path, "rwc")


def to_read(path: Path) -> sqlite3.Connection:
    """A connection that looks only. SQLite likes to write beside a ledger even for that, but need not.

    Raises LedgerError where there is no file, or where answers that stand beside it cannot be read.
    """
    if not path.exists():
        raise LedgerError(f"there is no ledger {path}")
    with suppress(FileNotFoundError):
        if beside(path).stat().st_size and not _writable(path):
            raise LedgerError(
                f"{path} has answers that stand in {beside(path).name} still, which cannot be read where nobody can "
                "write; copy both to another folder"
            )
    db = _connected(path, "rw" if _writable(path) else "ro&immutable=1")
    db.execute("PRAGMA query_only=ON")
    return db


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
