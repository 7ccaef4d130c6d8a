"""The ledger: answers that were paid for, durable in SQLite, shared by evaluations and processes.

An answer is keyed by everything that changes it (see `questions.key_of`). Errors are not kept: they are asked
again. The first committed answer to a key wins, whoever writes second. Every row carries a checksum, so that a
damaged answer is never taken for a verdict.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, Self

from germane.errors import LedgerError
from germane.judging.connections import to_read, to_write
from germane.judging.faults import explain, refuse_damaged_log, refuse_damaged_tree
from germane.judging.layout import (
    ADD_CHECKSUM,
    COLUMNS,
    CREATE,
    FORMAT,
    columns_of,
    from_row,
    names,
    to_row,
    version_of,
)
from germane.types import Judgement

__all__ = ["Ledger", "SQLiteLedger", "find_ledger"]

_NAMES = ", ".join(COLUMNS)
_CHUNK = 500
_SMALL = 100_000_000  # bytes whose structure is looked at in 0.15 s, whenever the ledger is opened
_PRAGMAS = ("cell_size_check=ON", "busy_timeout=60000", "cache_size=-32000")
_WRITING = ("journal_mode=WAL", "synchronous=FULL")


class Ledger(Protocol):
    """A durable store of judgements: small enough that another database can stand behind it (see `opening`).

    One object may serve several evaluations at once, each of which calls from a thread of its own. Whatever goes wrong
    is a LedgerError.
    """

    @property
    def place(self) -> str:
        """Where it is, wherever one looks from: what opens it again, and what people read. It holds no password."""
        ...

    def ready(self) -> None:
        """Nothing, if answers can be kept just now: that is found out by a small write. LedgerError if not."""
        ...

    def get(self, keys: Sequence[str]) -> dict[str, Judgement]:
        """The judgements known under these keys."""
        ...

    def put(
        self, judgements: Sequence[Judgement], *, replacing: Mapping[str, Judgement] | None = None
    ) -> dict[str, Judgement]:
        """Store them durably; what now stands under each key (an earlier answer wins).

        `replacing` are stored judgements, by key, that were found to be unusable: each makes room for the new one
        of its key, unless somebody else has replaced it meanwhile.
        """
        ...

    def changed(self) -> bool:
        """Whether somebody else than this thread has written to it since this thread last asked."""
        ...

    def close(self) -> None:
        """Release the store."""
        ...


class _Thread(threading.local):
    """What a ledger knows of each thread: how often it has committed, and what others had written when it asked."""

    commits = 0
    others: tuple[int, int] | None = None


class SQLiteLedger:
    """A ledger in one SQLite file (write-ahead log, every commit synced), shared safely by threads and processes.

    A ledger of an older format is brought to this one when it is opened. With `reading`, nothing is changed or
    made, whatever the format, and the file may stand where nobody can write.

    Raises LedgerError where the file is no ledger, is damaged, or cannot be used.
    """

    def __init__(self, path: Path, *, reading: bool = False) -> None:
        self.path = path = path.expanduser()
        if path.is_dir():
            raise LedgerError(f"{path} is a folder; name the ledger's file, such as {path / 'ledger.sqlite'}")
        self._turn = threading.RLock()
        self._thread, self._commits = _Thread(), 0
        with self._explained():
            refuse_damaged_log(path)
            self.db = to_read(path) if reading else to_write(path)
            try:
                with self._transaction("BEGIN"):
                    columns = columns_of(self.db, path, new=not reading)  # before anything is written
                self._set(_PRAGMAS)
                if path.stat().st_size <= _SMALL:
                    refuse_damaged_tree(self.db)
                self._set(() if reading else _WRITING)
                self.select = f"SELECT {names(columns if reading else self._migrated())} FROM judgements"  # noqa: S608 - constants
            except BaseException:
                self.db.close()
                raise

    def _set(self, pragmas: Sequence[str]) -> None:
        for pragma in pragmas:
            self.db.execute(f"PRAGMA {pragma}").fetchone()

    def _migrated(self) -> tuple[str, ...]:
        """Bring the table to the present format; its columns."""
        if self.format == FORMAT and "checksum" in columns_of(self.db, self.path, new=True):
            return COLUMNS
        with self.writing():
            columns = columns_of(self.db, self.path, new=True)  # another process may have been faster
            if not columns:
                self.db.execute(CREATE)
            elif "checksum" not in columns:
                self.db.execute(ADD_CHECKSUM)
            self.db.execute(f"PRAGMA user_version={FORMAT}")
        return COLUMNS

    @property
    def place(self) -> str:
        """The absolute path of the file."""
        return str(self.path.absolute())

    def ready(self) -> None:
        """Write one page, synced: it may be said anew which format this is. LedgerError where that cannot be."""
        with self.using(), self.writing():
            self.db.execute(f"PRAGMA user_version={FORMAT}")

    @property
    def format(self) -> int:
        """The format of the file."""
        return version_of(self.db)

    @contextmanager
    def using(self) -> Iterator[None]:
        """This thread's turn: one connection has one transaction, whose rows nobody may see before they are durable.

        Faults of the file become LedgerErrors that say what to do.
        """
        with self._turn, self._explained():
            if self._thread.others is None:
                self._thread.others = self._others()
            yield

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:
            raise explain(error, self.path) from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One synced transaction of the thread whose turn it is: all of it or nothing."""
        with self._transaction("BEGIN IMMEDIATE"):
            yield
        self._commits += 1
        self._thread.commits += 1

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self.db.execute(begin)
        try:
            yield
            self.db.execute("COMMIT")
        except BaseException:
            if self.db.in_transaction:  # a full disk has rolled back already
                with suppress(sqlite3.Error):
                    self.db.execute("ROLLBACK")
            raise

    def get(self, keys: Sequence[str]) -> dict[str, Judgement]:
        """The judgements known under these keys, looked up in batches."""
        found: dict[str, Judgement] = {}
        wanted = sorted(map(bytes.fromhex, keys))  # neighbours stand on one page
        with self.using():
            for start in range(0, len(wanted), _CHUNK):
                chunk = wanted[start : start + _CHUNK]
                marks = ",".join("?" * len(chunk))
                for row in self.db.execute(f"{self.select} WHERE key IN ({marks})", chunk):
                    judgement = from_row(row)
                    found[judgement.key] = judgement
        return found

    def put(
        self, judgements: Sequence[Judgement], *, replacing: Mapping[str, Judgement] | None = None
    ) -> dict[str, Judgement]:
        """Store them in one synced transaction; what now stands under each key.

        An earlier answer wins, but for one that `replacing` names by its key and that still stands as it says.
        """
        if self.add(judgements, replacing=replacing) == len(judgements):
            return {judgement.key: judgement for judgement in judgements}
        return self.get([judgement.key for judgement in judgements])

    def add(
        self, judgements: Sequence[Judgement], *, replacing: Mapping[str, Judgement] | None = None
    ) -> int:
        """Store them as `put` does; how many were."""
        marks = ",".join("?" * len(COLUMNS))
        with self.using(), self.writing():
            if replacing:
                standing = self.get(list(replacing))
                useless = [(bytes.fromhex(key),) for key, one in standing.items() if one == replacing[key]]
                self.db.executemany("DELETE FROM judgements WHERE key = ?", useless)
            before = self.db.total_changes
            rows = map(to_row, judgements)
            self.db.executemany(f"INSERT OR IGNORE INTO judgements ({_NAMES}) VALUES ({marks})", rows)  # noqa: S608 - constants
            return self.db.total_changes - before

    def changed(self) -> bool:
        """Whether anybody but this thread has written since it last asked, or else first used this ledger.

        That is another process, or another thread: through another object or through this one.
        """
        with self.using():
            before, self._thread.others = self._thread.others, self._others()
            return before != self._thread.others

    def _others(self) -> tuple[int, int]:
        """What others have written: a number that changes with each commit of another connection, and commits here."""
        (version,) = self.db.execute("PRAGMA data_version").fetchone()
        return version, self._commits - self._thread.commits

    def __len__(self) -> int:
        with self.using():
            (count,) = self.db.execute("SELECT count(*) FROM judgements").fetchone()
        return int(count)

    def close(self) -> None:
        """Close the file, when no thread is at work on it."""
        with self._turn:
            self.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def find_ledger(start: Path) -> Path:
    """`.germane/ledger.sqlite` beside the nearest germane.toml or pyproject.toml, else in `start`."""
    for folder in (start, *start.parents):
        if (folder / "germane.toml").is_file() or (folder / "pyproject.toml").is_file():
            return folder / ".germane" / "ledger.sqlite"
    return start / ".germane" / "ledger.sqlite"
