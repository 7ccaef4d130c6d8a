"""The ledger in a PostgreSQL database, shared by machines and by a team.

It holds the same rows under the same keys as the ledger in a file. The first committed answer to a key wins, whoever
writes it: rows are inserted in the order of their keys, so that no two writers wait for each other, and what stands already
stays.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from germane.errors import InputError, LedgerError, MissingPart, install_extra
from germane.ledger.store import (
    COLUMNS,
    DECLARED,
    FORMAT,
    INDEXES,
    SELECT,
    LedgerTable,
    Row,
    check_format,
    from_row,
)
from germane.types import Judgement

T = TypeVar("T")

_TYPES = {"TEXT": 'text COLLATE "C"', "INTEGER": "bigint", "REAL": "double precision"}
"""SQLite's types in PostgreSQL; texts in the order of their bytes, as there: exports of both are in one order."""
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
"""The number of the lock under which the table is made: an arbitrary one."""
_WAIT_SECONDS = 60.0
"""The wait for a server that was there: as long as for another program's lock on a file."""
_STEP_SECONDS = 0.2

_HINTS = {
    "53100": "; free some space",
    "53300": "; raise max_connections, or use fewer workers: each holds two connections",
    "42501": "; ask for the right to SELECT, INSERT and DELETE, and once to CREATE",
    "25006": "; name the primary server: this one only reads",
}
"""The fix of an error, by PostgreSQL's code."""
_LOGIN = "; set PGPASSWORD, or write it to ~/.pgpass, wherever a worker runs"
_PASSWORD = re.compile("pass|secret|token", re.IGNORECASE)
"""Words in the name of a URL's parameter that holds a password."""
_SHOWN_OPTIONS = re.compile(r"(?:\s*-c\s*search_path=[\w,$]+)*\s*", re.IGNORECASE)
"""`options` of a URL that name where the table is; others may hold anything."""
_NO_URL = "this is not a URL of a database"
_URL_FIX = "write postgresql://USER@HOST/DATABASE, and the password to PGPASSWORD"


def _whole(url: str) -> str:
    """Return a URL with two slashes after its scheme: a `Path` leaves one of them."""
    return re.sub(r"^(\w+):/(?!/)", r"\1://", url.strip())


def _split(url: str) -> tuple[str, dict[str, str]]:
    """Return a database URL without its secrets, and the variables in which libpq reads these.

    InputError, without showing the URL, if what is password and what is host cannot be told apart.
    """
    try:
        parts = urlsplit(_whole(url))
        _ = parts.port if "," not in parts.netloc else None
    except ValueError:  # a bracket that is not closed, a port that is not a number
        raise InputError(_NO_URL, fix=_URL_FIX) from None
    named = all("=" in piece for piece in parts.query.split("&") if piece)
    if not named or parts.netloc.count("@") > 1 or "@" in parts.path + parts.fragment:
        raise InputError(_NO_URL, fix=_URL_FIX)
    pairs = parse_qsl(parts.query)
    secrets = {
        name: value
        for name, value in pairs
        if _PASSWORD.search(name) or (name == "options" and not _SHOWN_OPTIONS.fullmatch(value))
    }
    query = urlencode([pair for pair in pairs if pair[0] not in secrets])
    login, at, host = parts.netloc.rpartition("@")
    # not urlunsplit: it drops the slashes of a URL without a host, which means a socket here
    place = f"{parts.scheme}://{login.partition(':')[0]}{at}{host}{parts.path}" + f"?{query}" * bool(query)
    password = secrets.get("password") or unquote(parts.password or "")
    variables = {"PGPASSWORD": password, "PGOPTIONS": secrets.get("options", "")}
    return place, {name: value for name, value in variables.items() if value}


class PostgresLedger(LedgerTable):
    """A ledger in one table of a PostgreSQL database, created if it is missing.

    An answer is committed when it arrives, on the server's disk. A server that goes away is waited for up to a minute. With
    `read_only`, nothing is changed or made. A password may stand in the URL, in PGPASSWORD or in ~/.pgpass; it is shown nowhere.

    Raises MissingPart without the extra, InputError where the URL is none, LedgerError where the database cannot be used or
    its table is another program's or of another version.
    """

    chunk = 5000

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        try:
            import psycopg
        except ImportError:
            raise MissingPart("a ledger in PostgreSQL needs psycopg", fix=install_extra("postgres")) from None
        self._pg, self._url, self._read_only = psycopg, _whole(url), read_only
        self._place, _ = _split(url)
        self._locks = {False: threading.RLock(), True: threading.RLock()}
        self._connections: dict[bool, Any] = {}
        self._empty = False
        self._until: float | None = None
        """Up to when the server is waited for that went away: once, whatever is to be read or written meanwhile."""
        try:
            psycopg.conninfo.conninfo_to_dict(self._url)
        except psycopg.Error:
            raise InputError(_NO_URL, fix=_URL_FIX) from None
        try:
            self._connections[False] = self._connect()
            self._prepare(self._connections[False])
        except psycopg.Error as error:
            self.close()
            raise self._explained(error) from None
        except LedgerError:
            self.close()
            raise

    @property
    def place(self) -> str:
        """The URL of the database, without its password."""
        return self._place

    @staticmethod
    def password_apart(url: str) -> str:
        """Return a URL without its password, which is set as PGPASSWORD for this process and its children."""
        place, variables = _split(url)
        os.environ.update(variables)
        return place

    def _connect(self) -> Any:
        return self._pg.connect(self._url, autocommit=True, connect_timeout=10, application_name="germane")

    @contextmanager
    def _locked(self, db: Any) -> Iterator[None]:
        """Open a transaction that creates tables; other processes wait until it ends.

        `IF NOT EXISTS` alone fails where two connections make a table at the same time.
        """
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            yield

    def _prepare(self, db: Any) -> None:
        """Create the table if it is missing. LedgerError if it belongs to another program or version."""
        with nullcontext() if self._read_only else self._locked(db):
            value = db.execute(
                "SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE oid = to_regclass('judgements')"
            ).fetchone()
            self._empty = value is None and self._read_only
            for statement in _SCHEMA if value is None and not self._read_only else ():
                db.execute(statement)
        if value is None:
            return
        if (version := re.fullmatch(rf"{_ABOUT} ([0-9]+)", value[0] or "")) is None:
            other = "has a table `judgements` of another program; name another database"
            raise LedgerError(f"{self.place} {other}")
        check_format(self.place, int(version[1]), "name another database")

    def _explained(self, error: Exception) -> LedgerError:
        words = " ".join(str(error).split())
        hint = _LOGIN if "password" in words else _HINTS.get(getattr(error, "sqlstate", None) or "", "")
        return LedgerError(f"the ledger {self.place} cannot be used: {words}{hint}")

    def _with(self, work: Callable[[Any], T], *, writing: bool = False) -> T:
        """Call `work` with the connection for reading or writing, and return its result.

        It is done again where the server went away meanwhile: doing it twice must be the same as once.
        """
        with self._locks[writing]:
            while True:
                try:
                    db = self._connections.get(writing)
                    if db is None or db.closed:
                        db = self._connections[writing] = self._connect()
                    result = work(db)
                except self._pg.OperationalError as error:
                    if (db := self._connections.get(writing)) is not None and not db.closed:
                        raise self._explained(error) from None  # the server is there: a full disk
                    self._until = self._until or time.monotonic() + _WAIT_SECONDS
                    if time.monotonic() > self._until:
                        raise self._explained(error) from None
                    time.sleep(_STEP_SECONDS)
                except (self._pg.Error, ValueError) as error:
                    raise self._explained(error) from None
                else:
                    self._until = None
                    return result

    def ready(self) -> None:
        """Check that rows can be written. LedgerError if not."""

        def ask(db: Any) -> None:
            row = db.execute(
                "SELECT current_setting('transaction_read_only') = 'off', has_table_privilege('judgements', 'INSERT')"
            ).fetchone()
            if row != (True, True):
                raise LedgerError(f"the ledger {self.place} can only be read; ask for the right to INSERT")

        self._with(ask, writing=True)

    def _look_up(self, column: str, values: Sequence[str]) -> list[Judgement]:
        if self._empty:
            return []
        sql = f"{SELECT} WHERE {column} = ANY(%s)"
        return self._with(lambda db: list(map(from_row, db.execute(sql, (list(values),)))))

    def _insert(self, rows: Sequence[Row], useless: Sequence[tuple[str, str]]) -> set[str]:
        def store(db: Any) -> set[str]:
            # one statement is one transaction, and one way to the server and back
            with db.transaction() if useless else nullcontext():
                for value in useless:
                    db.execute("DELETE FROM judgements WHERE key = %s AND answer = %s", value)
                columns = list(map(list, zip(*rows, strict=True)))
                return {key for (key,) in db.execute(_INSERT, columns)} if rows else set()

        return self._with(store, writing=True)

    def rows(self, sql: str, values: Sequence[Any] = (), read: Callable[[Row], Any] = tuple) -> Iterator[Any]:
        """Yield the rows of a query, each through `read`."""
        if self._empty:
            return
        with self._locks[False]:
            try:
                db = self._connections[False]
                with db.transaction(), db.cursor(name="germane_rows") as cursor:
                    cursor.itersize = 1000
                    cursor.execute(sql.replace("?", "%s"), values)
                    yield from map(read, cursor)
            except (self._pg.Error, ValueError) as error:
                raise self._explained(error) from None

    def make(self, statements: Sequence[str]) -> None:
        """Execute statements in one transaction under the ledger's lock."""

        def execute(db: Any) -> None:
            with self._locked(db):
                for statement in statements:
                    db.execute(statement)

        self._with(execute, writing=True)

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Execute a statement and return the number of rows that it changed."""
        return int(self._with(lambda db: db.execute(sql.replace("?", "%s"), values).rowcount, writing=True))

    @property
    def size(self) -> int:
        """Bytes of the table and its indexes."""
        results = self.rows("SELECT pg_total_relation_size('judgements')")
        return next((int(row[0]) for row in results), 0)

    def close(self) -> None:
        """Close all connections to the database."""
        for writing, lock in self._locks.items():
            with lock, suppress(self._pg.Error):
                if (db := self._connections.get(writing)) is not None:
                    db.close()
