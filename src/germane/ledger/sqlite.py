"""The ledger in an SQLite file, and how ledgers are found and opened.

The address of a ledger is the path of a file, or the URL of a database that an add-on opens. A replay can
also read an export of a ledger.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from germane.addons import absent, find, load
from germane.errors import InputError, LedgerError
from germane.ledger.store import (
    COLUMNS,
    DECLARED,
    FORMAT,
    INDEXES,
    SELECT,
    Ledger,
    Row,
    check_format,
    from_row,
    to_row,
)
from germane.types import Judgement

__all__ = ["SQLiteLedger", "is_there", "open_at", "password_apart"]

_SQLITE = b"SQLite format 3\0"  # the beginning of every such file
_INSERT = f"INSERT OR IGNORE INTO judgements VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 - constants
_SYNC_SECONDS = 1.0
"""Seconds until a row is on disk: a power cut can lose the rows of this time, a killed process loses none."""
_WAIT_SECONDS = 60
"""Seconds to wait for another program's lock."""
_CACHE_KIB = 16_000
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_UNWRITABLE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG}


class SQLiteLedger(Ledger):
    """A ledger in one SQLite file, with a write-ahead log.

    A row is committed when it arrives, without waiting for the disk: from then on it survives a kill of the
    process, and after a second also a power cut.

    Args:
        where: The path of the file. The file and its folder are created if missing, unless `read_only`.
        read_only: Open an existing file and change nothing.
        rows: Judgements to read instead of the file, through a temporary database. Of several answers with
            the same key the first is used. Errors, and panel answers for which a member failed, are left out.

    Raises:
        InputError: `where` is not the path of a file.
        LedgerError: The file is not a ledger, has another format, is damaged, or cannot be used.
    """

    chunk = 500

    def __init__(
        self, where: str | Path, *, read_only: bool = False, rows: Iterable[Judgement] | None = None
    ) -> None:
        self.path, read_only = file_of(where), read_only or rows is not None
        self._writing, self._reading, self._syncing = threading.RLock(), threading.RLock(), threading.Lock()
        self._timer: threading.Timer | None = None
        self._fault: LedgerError | None = None
        with self._explained():
            if rows is not None:
                self.db = _filled(rows)
            else:
                self.db = _open_for_reading(self.path) if read_only else _open_for_writing(self.path)
            self._reader = self.db if read_only else _connect(self.path)
            self._reader.execute("PRAGMA query_only=ON")

    @property
    def place(self) -> str:
        """The absolute path of the ledger's file."""
        return str(self.path.absolute())

    @property
    def size(self) -> int:
        """The size of the ledger's file and its write-ahead log in bytes."""
        return sum(path.stat().st_size for path in files_of(self.path)[:2] if path.exists())

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of SQLite and the file system inside the context into LedgerErrors with advice."""
        try:
            yield
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            raise _explain(error, self.path) from None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the writing connection within a transaction."""
        with self._writing, self._explained():
            if (fault := self._fault) is not None:
                self._fault = None
                raise fault
            with _transaction(self.db):
                yield self.db
            if self._timer is None:
                self._timer = threading.Timer(_SYNC_SECONDS, self._sync)
                self._timer.daemon = True
                with suppress(RuntimeError):  # no thread starts once the main thread has ended: close() syncs
                    self._timer.start()

    def _sync(self) -> None:
        """Checkpoint the log to disk on a separate connection, so that no writer waits for it."""
        with self._syncing:
            self._timer = None
            try:
                with closing(_connect(self.path)) as db:
                    db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            except sqlite3.Error as error:  # raised by the next call of `writing`
                self._fault = _explain(error, self.path)

    def ready(self) -> None:
        """Write the format number to the file. Raises LedgerError if the file cannot be written."""
        self.make([f"PRAGMA user_version={FORMAT}"])

    def rows(self, sql: str, values: Sequence[Any] = (), read: Callable[[Row], Any] = tuple) -> Iterator[Any]:
        """Yield `read(row)` for each row of an SQL query, on a connection that does not wait for writers."""
        with self._reading, self._explained():
            yield from map(read, self._reader.execute(sql, values))

    def _look_up(self, column: str, values: Sequence[str]) -> list[Judgement]:
        marks = ",".join("?" * len(values))
        return list(self.rows(f"{SELECT} WHERE {column} IN ({marks})", values, from_row))

    def _insert(self, rows: Sequence[Row], useless: Sequence[tuple[str, str]]) -> set[str]:
        with self.writing() as db:
            db.executemany("DELETE FROM judgements WHERE key = ? AND answer = ?", useless)
            return {row[0] for row in rows if db.execute(_INSERT, row).rowcount}

    def make(self, statements: Sequence[str]) -> None:
        """Execute SQL statements in one transaction."""
        with self.writing() as db:
            for statement in statements:
                db.execute(statement)

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Execute an SQL statement and return the number of rows that it changed."""
        with self.writing() as db:
            return int(db.execute(sql, values).rowcount)

    def close(self) -> None:
        """Write the log into the file, and close the connections."""
        if (timer := self._timer) is not None:
            timer.cancel()
            self._sync()
        with self._reading, self._writing, self._syncing:
            self._reader.close()
            self.db.close()


def _connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    """Return a connection in autocommit mode that any thread may use."""
    where = f"{path.absolute().as_uri()}?mode={mode}"
    db = sqlite3.connect(
        where, uri=True, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
    )
    db.execute(f"PRAGMA cache_size={-_CACHE_KIB}")
    return db


@contextmanager
def _transaction(db: sqlite3.Connection, how: str = "IMMEDIATE") -> Iterator[None]:
    """Run the context in a transaction; in a "DEFERRED" one, all reads see the same state."""
    db.execute(f"BEGIN {how}")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk has rolled back already
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        raise


def _open_for_writing(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.touch(0o600, exist_ok=False)  # SQLite gives the log the same mode
    db = _connect(path)
    try:
        with _transaction(db, "DEFERRED"):
            new = _is_new(db, path)
        until = time.monotonic() + _WAIT_SECONDS
        while True:  # SQLite does not wait for a lock before it turns on the write-ahead log
            try:
                db.execute("PRAGMA journal_mode=WAL").fetchone()
                break
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)
        for pragma in ("synchronous=NORMAL", "wal_autocheckpoint=0"):
            db.execute(f"PRAGMA {pragma}").fetchone()
        if new:
            with _transaction(db):
                if _is_new(db, path):  # another process may have been faster
                    _create_table(db)
    except BaseException:
        db.close()
        raise
    return db


def _filled(rows: Iterable[Judgement]) -> sqlite3.Connection:
    """Return a temporary database of judgements, without errors and panel answers for which a member failed."""
    db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    db.execute(f"PRAGMA cache_size={-_CACHE_KIB}")
    answers = (row for row in rows if row.error is None and not row.provenance.get("failed"))
    try:
        with _transaction(db):
            _create_table(db)
            db.executemany(_INSERT, map(to_row, answers))
    except BaseException:
        db.close()
        raise
    return db


def _create_table(db: sqlite3.Connection) -> None:
    columns = ", ".join(f"{name} {declared}" for name, declared in DECLARED.items())
    for statement in (f"CREATE TABLE judgements ({columns})", *INDEXES, f"PRAGMA user_version={FORMAT}"):
        db.execute(statement)


def _open_for_reading(path: Path) -> sqlite3.Connection:
    if not path.exists():
        make = "`germane run` creates one, or name another: --ledger FILE"
        raise LedgerError(f"there is no ledger {path}; {make}")
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    db = _connect(path, "rw" if writable else "ro&immutable=1")
    try:
        db.execute("PRAGMA query_only=ON")
        with _transaction(db, "DEFERRED"):
            if _is_new(db, path):
                raise LedgerError(f"{path} is not a ledger: it is empty; name another file")  # noqa: TRY301
    except BaseException:
        db.close()
        raise
    return db


def _is_new(db: sqlite3.Connection, path: Path) -> bool:
    """Return True if the database is empty, False if it is a ledger. Raises LedgerError if it is neither."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' LIMIT 3")]
    columns = tuple(name for _, name, *_ in db.execute("PRAGMA table_info(judgements)"))
    if not tables and not version:
        return True
    if not columns or not version:
        named = ", ".join(tables) or "none"
        raise LedgerError(f"{path} is not a ledger: its tables are {named}; name another file")
    check_format(str(path), version, "name another file, or move this one away")
    if columns != COLUMNS:
        raise LedgerError(f"{path} is not a ledger: its table has other columns; name another file")
    if db.execute("SELECT 1 FROM sqlite_master WHERE type IN ('view', 'trigger')").fetchone():
        own = "it has SQL views or triggers"
        raise LedgerError(f"{path} is not a ledger created by germane: {own}; name another file")
    return False


def _explain(error: Exception, path: Path) -> LedgerError:
    code = _code(error)
    if code in _DAMAGE or isinstance(error, ValueError | TypeError):  # the latter two: a value is unreadable
        way = f"save what can be read: sqlite3 {path} .recover | sqlite3 NEW.sqlite; then use --ledger NEW.sqlite"
        return LedgerError(f"the ledger {path} is damaged or not an SQLite file: {error}; {way}")
    hint = "; another program is writing to it" if code in _BUSY else ""
    hint = "; name a file in a folder that can be written" if code in _UNWRITABLE else hint
    return LedgerError(f"the ledger {path} cannot be used: {error}{hint}")


def _code(error: Exception) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+):/")
"""The scheme of a URL. One slash is enough, because Path merges two; a single letter is a Windows drive."""


def files_of(path: Path) -> list[Path]:
    """Return the paths of a ledger's file, its write-ahead log and the log's index; some may not exist."""
    return [path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")]


def find_ledger(start: Path) -> Path:
    """Return the ledger's path in the nearest folder from `start` up with a project file, else in `start`."""
    files = ("germane.toml", "pyproject.toml")
    above = (start, *start.parents)
    folder = next((parent for parent in above if any((parent / file).is_file() for file in files)), start)
    return folder / ".germane" / "ledger.sqlite"


def address_from(folder: Path, where: str) -> str:
    """Return the ledger address `where` of a setting; a relative path is resolved against `folder`."""
    return where if _SCHEME.match(where) else str(folder / file_of(where))


def file_of(where: str | Path) -> Path:
    """Return a ledger's address as a file path, with ~ expanded. Raises InputError if it is a URL."""
    if match := _SCHEME.match(str(where)):
        raise InputError(
            f"a ledger cannot be stored at {match[1]}://...",  # no more: it may hold a password
            fix="write a file's path, such as .germane/ledger.sqlite, or postgresql://HOST/DATABASE",
        )
    return Path(where).expanduser()


def is_there(where: str | Path) -> bool:
    """Return True if the address is an existing file or a URL that an add-on can open."""
    return store_of(where) is not None or file_of(where).exists()


def store_of(where: str | Path) -> str | None:
    """Return the `module:object` of the add-on that opens a URL; None for a file or an unknown scheme."""
    match = _SCHEME.match(str(where))
    scheme = match[1].lower() if match else ""
    declared: str | None = find("stores", scheme) if scheme else None
    if declared is None and (owner := absent("stores", scheme)):
        problem = f"a ledger at {scheme}:// needs the add-on {owner}, which is not installed"
        raise InputError(problem, fix="install it, or name a file: --ledger ledger.sqlite")
    return declared


def password_apart(where: str) -> str:
    """Return a ledger's address without its password; the add-on stores the password for later use."""
    store = store_of(where)
    apart = getattr(load(store), "password_apart", None) if store is not None else None
    return where if apart is None else str(apart(where))


def open_at(where: str | Path, *, read_only: bool = False) -> Ledger:
    """Open the ledger at a path or URL; a missing file is created, unless `read_only`."""
    if (store := store_of(where)) is not None:
        ledger: Ledger = load(store)(str(where), read_only=read_only)
        return ledger
    return SQLiteLedger(where, read_only=read_only)


_REPLAYED = "name a ledger, a file that `germane ledger export` wrote, or a report's judgements.jsonl"


def open_for_replay(where: str | Path) -> Ledger:
    """Open a ledger, or an export of one, for reading."""
    if store_of(where) is not None:
        return open_at(where, read_only=True)
    from germane.ledger.jsonl import judgements_of, readable

    path = file_of(where)
    if not path.is_file():
        raise InputError(f"--replay {path} is not a file", fix=_REPLAYED)
    readable([path])
    with path.open("rb") as file:
        rows = None if file.read(len(_SQLITE)) == _SQLITE else judgements_of(path)
    ledger = SQLiteLedger(path, read_only=True, rows=rows)
    if next(ledger.rows("SELECT 1 FROM judgements LIMIT 1"), None) is None:
        ledger.close()
        raise InputError(f"--replay {path} holds no answers", fix=_REPLAYED)
    return ledger
