"""The ledger's file and its table: opened for writing or for reading, refused where it is not ours to use, its faults explained."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from germane.errors import LedgerError

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

_CHECKED = 50_000_000
"""Bytes up to which a file's structure is checked whenever it is opened (0.15 s)."""

_HINTS = {
    sqlite3.SQLITE_FULL: "; free some space",
    sqlite3.SQLITE_IOERR: "; the disk may be full: free some space",
    sqlite3.SQLITE_BUSY: "; another program is writing to it: try again when that has finished",
    sqlite3.SQLITE_LOCKED: "; another program is writing to it: try again when that has finished",
    sqlite3.SQLITE_READONLY: "; it cannot be written: look at its permissions and those of its folder",
    sqlite3.SQLITE_CANTOPEN: "; look at the permissions of the file and its folder",
    sqlite3.SQLITE_PERM: "; look at the permissions of the file and its folder",
}
_WAIT_SECONDS = 60
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG}
_DAMAGE_WITHOUT_CODE = ("Could not decode", "unsupported file format")


def files_of(path: Path) -> list[Path]:
    """A ledger's file, its write-ahead log, and the log's index; the latter two need not exist."""
    return [path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")]


def connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    """A connection in autocommit mode, for any thread, that waits up to a minute for another program's lock."""
    where = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(
        where, uri=True, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
    )


@contextmanager
def transaction(db: sqlite3.Connection, how: str = "IMMEDIATE") -> Iterator[None]:
    """All of what is done inside, or nothing; "DEFERRED" for one state of the file while it is only read."""
    db.execute(f"BEGIN {how}")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk has rolled back already
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        raise


def open_for_writing(path: Path) -> sqlite3.Connection:
    """A connection that makes the file (mode 0600), its folder and its table where there are none.

    Nothing is written to a file of another program or of another version. Raises LedgerError, OSError, sqlite3.Error.
    """
    _refuse_other_kinds(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.touch(0o600, exist_ok=False)  # SQLite gives the log the same mode
    db = connect(path)
    try:
        with transaction(db, "DEFERRED"):
            new = _is_new(db, path)
        _refuse_damaged(db, path)
        _use_log(db)
        for pragma in ("synchronous=NORMAL", "wal_autocheckpoint=0", "cache_size=-32000"):
            db.execute(f"PRAGMA {pragma}").fetchone()
        if new:
            with transaction(db):
                if _is_new(db, path):  # another process may have been faster
                    create_table(db)
    except BaseException:
        db.close()
        raise
    return db


def create_table(db: sqlite3.Connection) -> None:
    """Make the table and its indexes in an empty database."""
    for statement in SCHEMA:
        db.execute(statement)
    db.execute(f"PRAGMA user_version={FORMAT}")


def open_for_reading(path: Path, *, damaged: bool = False) -> sqlite3.Connection:
    """A connection that changes nothing, also where nobody can write; to a file that may be `damaged`, if so asked.

    Raises LedgerError, OSError, sqlite3.Error.
    """
    _refuse_other_kinds(path)
    if not path.exists():
        raise LedgerError(f"there is no ledger {path}")
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    log = files_of(path)[1]
    if not writable and log.exists() and log.stat().st_size:
        raise LedgerError(
            f"{path} has answers in {log.name}, which SQLite cannot read where nobody can write; "
            "copy both to another folder"
        )
    db = connect(path, "rw" if writable else "ro&immutable=1")
    try:
        db.execute("PRAGMA query_only=ON")
        with transaction(db, "DEFERRED"):
            if _is_new(db, path):
                raise LedgerError(f"{path} is no ledger: it is empty; name another file")  # noqa: TRY301
        if not damaged:
            _refuse_damaged(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _refuse_other_kinds(path: Path) -> None:
    if path.is_dir():
        raise LedgerError(f"{path} is a folder; name the ledger's file, such as {path / 'ledger.sqlite'}")
    for file in files_of(path):
        if file.is_symlink():
            raise LedgerError(
                f"{file} is a symbolic link, through which nothing is written; name the file itself"
            )


def _is_new(db: sqlite3.Connection, path: Path) -> bool:
    """Whether the database is empty. LedgerError where it is another program's, or of another version."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' LIMIT 3")]
    columns = tuple(name for _, name, *_ in db.execute("PRAGMA table_info(judgements)"))
    if not tables and not version:
        return True
    if not columns or not version:
        raise LedgerError(
            f"{path} is no ledger: it holds {', '.join(tables) or 'no table'}; name another file"
        )
    if version > FORMAT:
        raise LedgerError(
            f"{path}: written by a newer germane (format {version}, this one writes {FORMAT}); "
            "update germane, or name another file"
        )
    if version < FORMAT:
        raise LedgerError(
            f"{path}: written by an older germane (format {version}, this one writes {FORMAT}), whose answers cannot be "
            "looked up any more; name another file, or move this one away"
        )
    if columns != COLUMNS:
        raise LedgerError(f"{path} is no ledger: its table has other columns; name another file")
    return False


def _use_log(db: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; SQLite does not wait by itself where another process switches a new file."""
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def integrity(db: sqlite3.Connection, most: int = 1) -> list[str]:
    """What SQLite's `integrity_check` finds wrong, at most so many problems; nothing where the file is sound."""
    found = (line for (text,) in db.execute(f"PRAGMA integrity_check({most})") for line in text.splitlines())
    return [line for line in found if line != "ok" and not line.startswith("***")]


def _refuse_damaged(db: sqlite3.Connection, path: Path) -> None:
    """An answer behind a damaged page would seem not to be there, and be paid for again."""
    if path.stat().st_size <= _CHECKED and (problems := integrity(db)):
        raise LedgerError(f"the ledger {path} is damaged: {problems[0]}; {recovery(path)}")


def recovery(path: Path) -> str:
    """The command that saves what can still be read of a damaged file."""
    fresh = path.with_name(f"recovered-{path.name}")
    return (
        f"save what can be read: sqlite3 {path} .recover | sqlite3 {fresh}; then use --ledger {fresh} "
        "(Debian's sqlite3 cannot .recover: that of sqlite.org can)"
    )


def is_damage(error: Exception) -> bool:
    """Whether the file itself is at fault: SQLite, or the reader of its JSON, cannot make sense of it."""
    if isinstance(error, sqlite3.Error):
        return _code(error) in _DAMAGE or str(error).startswith(_DAMAGE_WITHOUT_CODE)
    return isinstance(error, ValueError) and not isinstance(error, UnicodeEncodeError)


def explain(error: Exception, path: Path) -> LedgerError:
    """A fault of the ledger's file as a LedgerError that says what to do."""
    if is_damage(error):
        other = " (if it never was a ledger: name another file)" if "not a database" in str(error) else ""
        return LedgerError(f"the ledger {path} is damaged: {error}{other}; {recovery(path)}")
    return LedgerError(f"the ledger {path} cannot be used: {error}{_HINTS.get(_code(error), '')}")


def _code(error: Exception) -> int:
    """SQLite's primary error code; 0 where there is none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
