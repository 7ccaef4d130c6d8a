"""The ledger in a PostgreSQL database: shared by machines and by a team, and left behind when a machine dies.

It holds the same rows under the same keys as the ledger in a file. The first committed answer to a key wins, whoever
writes it: rows are inserted in the order of their keys, so that no two writers wait for each other, and what stands already
stays.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from operator import itemgetter
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from germane.errors import InputError, LedgerError, MissingPart, install_extra
from germane.ledger.store import COLUMNS, FORMAT, SELECT, Row, from_row, to_row, without_password
from germane.types import Judgement

T = TypeVar("T")

_TYPES = {"requests": "bigint", "input_tokens": "bigint", "output_tokens": "bigint", "cost_usd": "double precision",
          "ms": "double precision"}  # fmt: skip
"""The types of the columns that are no text."""
_OPTIONAL = {"parent", "request", "cost_usd", "ms", "at"}
_TEXT = 'text COLLATE "C"'
"""Text in the order of its bytes, as SQLite has it: exports of both are in one order."""


def _column(name: str) -> str:
    needed = " PRIMARY KEY" if name == "key" else "" if name in _OPTIONAL else " NOT NULL"
    return f"{name} {_TYPES.get(name, _TEXT)}{needed}"


_ABOUT = "germane ledger, format"
"""What the comment on the table says, before the number of its format."""
_SCHEMA = (
    f"CREATE TABLE judgements ({', '.join(map(_column, COLUMNS))})",
    "CREATE INDEX judgements_item ON judgements (item)",
    "CREATE INDEX judgements_parent ON judgements (parent) WHERE parent IS NOT NULL",
    f"COMMENT ON TABLE judgements IS '{_ABOUT} {FORMAT}'",
)
_ARRAYS = ", ".join(f"%s::{_TYPES.get(name, 'text')}[]" for name in COLUMNS)
_INSERT = (
    f"INSERT INTO judgements ({', '.join(COLUMNS)}) SELECT * FROM unnest({_ARRAYS}) "  # noqa: S608 - constants
    "ON CONFLICT (key) DO NOTHING RETURNING key"
)
_LOCK = 7_273_051
"""The number of the lock under which the table is made: an arbitrary one."""
_CHUNK = 5000
"""Keys that are looked up together."""
_WAIT_SECONDS = 60.0
"""How long a server that was there is waited for: as long as for another program's lock on a file."""
_STEP_SECONDS = 0.2

_HINTS = {
    "53100": "; free some space",
    "53300": "; raise max_connections, or use fewer workers: each holds two connections",
    "42501": "; ask for the right to SELECT, INSERT and DELETE, and once to CREATE",
    "25006": "; name the primary server: this one only reads",
}
"""What to do about an error, by PostgreSQL's code."""
_LOGIN = "; set PGPASSWORD, or write it to ~/.pgpass, wherever a worker runs"


class PostgresLedger:
    """A ledger in one table of a PostgreSQL database, which is made where there is none.

    An answer is committed when it arrives, on the server's disk. A server that goes away is waited for up to a minute. With
    `reading`, nothing is changed or made. A password may stand in the URL, in PGPASSWORD or in ~/.pgpass; it is shown nowhere.

    Raises MissingPart without the extra, InputError where the URL is none, LedgerError where the database cannot be used or
    its table is another program's or of another version.
    """

    def __init__(self, url: str, *, reading: bool = False) -> None:
        try:
            import psycopg
        except ImportError:
            raise MissingPart("a ledger in PostgreSQL needs psycopg", fix=install_extra("postgres")) from None
        url = re.sub(r"^(\w+):/+", r"\1://", url)  # a path leaves one slash of two
        self._pg, self._url, self._reading_only = psycopg, url, reading
        self._locks = {False: threading.RLock(), True: threading.RLock()}
        self._connections: dict[bool, Any] = {}
        self._empty = False
        try:
            urlsplit(url).port  # noqa: B018 - it raises
            psycopg.conninfo.conninfo_to_dict(url)
        except (ValueError, psycopg.Error):
            raise InputError(
                "this is not a URL of a database", fix="write postgresql://USER@HOST/DATABASE"
            ) from None
        try:
            self._connections[False] = self._connect()
            self._prepare(self._connections[False])
        except psycopg.Error as error:
            self.close()
            raise self._explained(error) from error
        except LedgerError:
            self.close()
            raise

    @property
    def place(self) -> str:
        """The URL without its password."""
        return without_password(self._url)

    def _connect(self) -> Any:
        return self._pg.connect(self._url, autocommit=True, connect_timeout=10, application_name="germane")

    def _prepare(self, db: Any) -> None:
        """Make the table where there is none. LedgerError where it is another program's, or of another version."""
        with db.transaction():
            if not self._reading_only:
                db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            value = db.execute(
                "SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE oid = to_regclass('judgements')"
            ).fetchone()
            if value is None and self._reading_only:
                self._empty = True
            elif value is None:
                for statement in _SCHEMA:
                    db.execute(statement)
        if value is not None:
            version = re.fullmatch(rf"{_ABOUT} ([0-9]+)", value[0] or "")
            if version is None:
                raise LedgerError(
                    f"{self.place} has a table `judgements` of another program; name another database"
                )
            if int(version[1]) != FORMAT:
                newer = int(version[1]) > FORMAT
                raise LedgerError(
                    f"{self.place}: written by {'a newer' if newer else 'an older'} germane (format {version[1]}, this one "
                    f"writes {FORMAT}); {'update germane, or ' if newer else ''}name another database"
                )

    def _explained(self, error: Exception) -> LedgerError:
        words = " ".join(str(error).split())
        hint = _LOGIN if "password" in words else _HINTS.get(getattr(error, "sqlstate", None) or "", "")
        return LedgerError(f"the ledger {self.place} cannot be used: {words}{hint}")

    def _with(self, work: Callable[[Any], T], *, writing: bool = False) -> T:
        """What `work` returns on the connection that reads or writes.

        It is done again where the server went away meanwhile: doing it twice must be the same as once.
        """
        until = None
        with self._locks[writing]:
            while True:
                try:
                    db = self._connections.get(writing)
                    if db is None or db.closed:
                        db = self._connections[writing] = self._connect()
                    return work(db)
                except self._pg.OperationalError as error:
                    if (db := self._connections.get(writing)) is not None and not db.closed:
                        raise self._explained(error) from error  # the server is there: a full disk
                    until = until or time.monotonic() + _WAIT_SECONDS
                    if time.monotonic() > until:
                        raise self._explained(error) from error
                    time.sleep(_STEP_SECONDS)
                except (self._pg.Error, ValueError) as error:
                    raise self._explained(error) from error

    def ready(self) -> None:
        """Ask whether rows may be written. LedgerError where they may not."""

        def ask(db: Any) -> None:
            row = db.execute(
                "SELECT current_setting('transaction_read_only') = 'off', has_table_privilege('judgements', 'INSERT')"
            ).fetchone()
            if row != (True, True):
                raise LedgerError(f"the ledger {self.place} can only be read; ask for the right to INSERT")

        self._with(ask, writing=True)

    def find(self, keys: Sequence[str]) -> dict[str, Judgement]:
        """The judgements stored under these keys, looked up in batches."""
        return {judgement.key: judgement for judgement in self._where("key", sorted(keys))}

    def children(self, keys: Sequence[str]) -> list[Judgement]:
        """The judgements whose parent is one of these keys, in the order of their own keys."""
        return sorted(self._where("parent", keys), key=lambda judgement: judgement.key)

    def _where(self, column: str, values: Sequence[str]) -> Iterator[Judgement]:
        for start in range(0, 0 if self._empty else len(values), _CHUNK):
            some = list(values[start : start + _CHUNK])
            sql = f"{SELECT} WHERE {column} = ANY(%s)"
            yield from map(from_row, self._with(lambda db: db.execute(sql, (some,)).fetchall()))  # noqa: B023 - called at once

    def put(
        self, judgements: Sequence[Judgement], *, replacing: Sequence[Judgement] = ()
    ) -> dict[str, Judgement]:
        """Store them in one transaction; what then stands under each key: an earlier answer wins."""
        try:
            rows = sorted(
                {row[0]: row for row in map(to_row, reversed(judgements))}.values(), key=itemgetter(0)
            )
            useless = [(judgement.key, to_row(judgement)[COLUMNS.index("answer")]) for judgement in replacing]
        except (TypeError, ValueError) as error:
            raise self._explained(error) from error

        def store(db: Any) -> set[str]:
            # one statement is one transaction, and one way to the server and back
            with db.transaction() if useless else nullcontext():
                for value in useless:
                    db.execute("DELETE FROM judgements WHERE key = %s AND answer = %s", value)
                columns = list(map(list, zip(*rows, strict=True)))
                return {key for (key,) in db.execute(_INSERT, columns)} if rows else set()

        added = self._with(store, writing=True)
        stands = {judgement.key: judgement for judgement in reversed(judgements)}
        earlier = [key for key in stands if key not in added]
        return stands | self.find(earlier) if earlier else stands

    def rows(self, sql: str, values: Sequence[Any] = (), read: Callable[[Row], Any] = tuple) -> Iterator[Any]:
        """What is read of each row of a query whose values stand as `?`, as it is needed."""
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
                raise self._explained(error) from error

    def make(self, statements: Sequence[str]) -> None:
        """Make tables that may be there. `IF NOT EXISTS` alone fails where two connections make one at the same time."""

        def execute(db: Any) -> None:
            with db.transaction():
                db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                for statement in statements:
                    db.execute(statement)

        self._with(execute, writing=True)

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """How many rows a statement has changed whose values stand as `?`."""
        return int(self._with(lambda db: db.execute(sql.replace("?", "%s"), values).rowcount, writing=True))

    @property
    def size(self) -> int:
        """Bytes of the table and its indexes."""
        results = self.rows("SELECT pg_total_relation_size('judgements')")
        return next((int(row[0]) for row in results), 0)

    def __len__(self) -> int:
        return next((int(row[0]) for row in self.rows("SELECT count(*) FROM judgements")), 0)

    def close(self) -> None:
        """Close the connections."""
        for writing, lock in self._locks.items():
            with lock, suppress(self._pg.Error):
                if (db := self._connections.get(writing)) is not None:
                    db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
