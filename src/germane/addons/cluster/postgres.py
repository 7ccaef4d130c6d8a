"""The ledger in a PostgreSQL database, shared by machines and by a team.

It contains the same rows under the same keys as the ledger in a file. The first committed answer under a key
stays, whichever process writes it. Rows are inserted in the order of their keys to avoid deadlocks.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from germane.errors import InputError, LedgerError, MissingPart, install_extra
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
)
from germane.types import Judgement

_TYPES = {"TEXT": 'text COLLATE "C"', "INTEGER": "bigint", "REAL": "double precision"}
"""PostgreSQL's types by SQLite's. Strings are sorted by bytes, as in SQLite, so that exports agree."""
_COLUMNS = {name: re.sub("^[A-Z]+", lambda match: _TYPES[match[0]], text) for name, text in DECLARED.items()}
_ABOUT = "germane ledger, format"
"""The comment on the table, before the number of its format."""
_SCHEMA = (
    f"CREATE TABLE judgements ({', '.join(f'{name} {text}' for name, text in _COLUMNS.items())})",
    *INDEXES,
    f"COMMENT ON TABLE judgements IS '{_ABOUT} {FORMAT}'",
)
_ARRAYS = ", ".join(f"%s::{re.split(' COLLATE| NOT| PRIMARY', text)[0]}[]" for text in _COLUMNS.values())
_INSERT = (
    f"INSERT INTO judgements ({', '.join(COLUMNS)}) SELECT * FROM unnest({_ARRAYS}) "  # noqa: S608 - constants
    "ON CONFLICT (key) DO NOTHING RETURNING key"
)
_LOCK = 7_273_051
"""The (arbitrary) number of the lock under which tables are created."""
_SECRET = re.compile("pass|secret|token|options", re.IGNORECASE)
"""Words in the name of a URL's parameter that may contain a password."""


def _split(url: str) -> tuple[str, str]:
    """Return a database URL without its password, and the password."""
    url = re.sub(r"^(\w+):/(?!/)", r"\1://", url.strip())  # a `Path` leaves one of two slashes
    try:
        parts = urlsplit(url)
        login, at, host = parts.netloc.rpartition("@")
        unclear = "@" in login + parts.path + parts.query + parts.fragment or _SECRET.search(parts.query)
        if unclear:
            raise ValueError  # noqa: TRY301 - as urlsplit does for an unclosed bracket
        _ = parts.port
    except ValueError:
        fix = "write postgresql://USER@HOST:PORT/DATABASE, and the password to PGPASSWORD"
        raise InputError("this is not a URL of a database", fix=fix) from None
    user, _, password = login.partition(":")
    return url.replace(f"{login}{at}{host}", f"{user}{at}{host}", 1), unquote(password)


class PostgresLedger(Ledger):
    """A ledger in one table of a PostgreSQL database, created if it is missing.

    Each answer is committed to the server's disk as soon as it arrives. With `read_only`, nothing is changed
    or created. A password may be in the URL, in PGPASSWORD or in ~/.pgpass; it is never shown.

    Raises MissingPart if the extra is not installed, InputError if the URL is invalid, and LedgerError if the
    database cannot be used or its table belongs to another program or version.
    """

    chunk = 5000

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        try:
            import psycopg
        except ImportError:
            raise MissingPart("a ledger in PostgreSQL needs psycopg", fix=install_extra("postgres")) from None
        self._pg: Any = psycopg
        self._place, password = _split(url)
        self._secret = {"password": password} if password else {}
        self._locks = {False: threading.RLock(), True: threading.RLock()}
        self._connections: dict[bool, Any] = {}
        """The connection for reading and the one for writing, which must not wait for a long query."""
        try:
            with self._connected() as db, nullcontext() if read_only else self._locked(db):
                about = db.execute(
                    "SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE oid = to_regclass('judgements')"
                ).fetchone()
                for statement in _SCHEMA if about is None and not read_only else ():
                    db.execute(statement)
            self._empty = about is None and read_only
            if about is not None:
                if (version := re.fullmatch(rf"{_ABOUT} ([0-9]+)", about[0] or "")) is None:
                    other = "has a table `judgements` of another program; name another database"
                    raise LedgerError(f"{self.place} {other}")  # noqa: TRY301 - as check_format does
                check_format(self.place, int(version[1]), "name another database")
        except LedgerError:
            self.close()
            raise

    @property
    def place(self) -> str:
        """The URL of the database, without its password."""
        return self._place

    @staticmethod
    def password_apart(url: str) -> str:
        """Return `url` without its password, and set PGPASSWORD to the password."""
        place, password = _split(url)
        if password:
            os.environ["PGPASSWORD"] = password
        return place

    @contextmanager
    def _locked(self, db: Any) -> Iterator[None]:
        """Return a context with a transaction that may create tables; other processes wait until it ends."""
        with db.transaction():  # `IF NOT EXISTS` alone fails if two connections create a table at once
            db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            yield

    @contextmanager
    def _connected(self, *, writing: bool = False) -> Iterator[Any]:
        """Return a context with the connection for reading or writing, which is opened if necessary."""
        with self._locks[writing]:
            try:
                db = self._connections.get(writing)
                if db is None or db.closed:
                    more = {"autocommit": True, "connect_timeout": 10, "application_name": "germane"}
                    db = self._connections[writing] = self._pg.connect(self.place, **more, **self._secret)
                yield db
            except (self._pg.Error, ValueError, TypeError) as error:
                words = " ".join(str(error).split())
                raise LedgerError(f"the ledger {self.place} cannot be used: {words}") from None

    def ready(self) -> None:
        """Check that rows can be written. Raises LedgerError if they cannot."""
        sql = "SELECT current_setting('transaction_read_only') = 'off' AND has_table_privilege('judgements', 'INSERT')"
        with self._connected(writing=True) as db:
            if db.execute(sql).fetchone() != (True,):
                raise LedgerError(f"the ledger {self.place} can only be read; ask for the right to INSERT")

    def _look_up(self, column: str, values: Sequence[str]) -> list[Judgement]:
        if self._empty:
            return []
        with self._connected() as db:
            return list(map(from_row, db.execute(f"{SELECT} WHERE {column} = ANY(%s)", (list(values),))))

    def _insert(self, rows: Sequence[Row], useless: Sequence[tuple[str, str]]) -> set[str]:
        with self._connected(writing=True) as db, db.transaction() if useless else nullcontext():
            for value in useless:
                db.execute("DELETE FROM judgements WHERE key = %s AND answer = %s", value)
            columns = list(map(list, zip(*rows, strict=True)))
            # one statement is one transaction and one round trip to the server
            return {key for (key,) in db.execute(_INSERT, columns)} if rows else set()

    def rows(self, sql: str, values: Sequence[Any] = (), read: Callable[[Row], Any] = tuple) -> Iterator[Any]:
        """Yield the rows of an SQL query, each converted by `read`; `values` replace its question marks."""
        if self._empty:
            return
        with self._connected() as db, db.transaction(), db.cursor(name="germane_rows") as cursor:
            cursor.itersize = 1000
            cursor.execute(sql.replace("?", "%s"), values)
            yield from map(read, cursor)

    def make(self, statements: Sequence[str]) -> None:
        """Execute SQL statements in one transaction, while other processes create no tables."""
        with self._connected(writing=True) as db, self._locked(db):
            for statement in statements:
                db.execute(statement)

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Execute an SQL statement, and return the number of rows that it changed."""
        with self._connected(writing=True) as db:
            return int(db.execute(sql.replace("?", "%s"), values).rowcount)

    @property
    def size(self) -> int:
        """The size of the table and its indexes in bytes."""
        results = self.rows("SELECT pg_total_relation_size('judgements')")
        return next((int(row[0]) for row in results), 0)

    def close(self) -> None:
        """Close all connections to the database."""
        for writing, lock in self._locks.items():
            with lock, suppress(self._pg.Error):
                if (db := self._connections.get(writing)) is not None:
                    db.close()
