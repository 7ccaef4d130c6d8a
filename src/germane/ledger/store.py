"""The ledger: answers that were paid for, kept in SQLite, shared by evaluations and processes.

An answer is stored under its key (see `questions.key_of`) when it arrives. Errors are not stored: they are asked again.
The first committed answer to a key wins.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol, Self

from germane.encoding import decode, encode
from germane.errors import InputError, LedgerError
from germane.ledger.files import (
    COLUMNS,
    FORMAT,
    connect,
    explain,
    open_for_reading,
    open_for_writing,
    transaction,
)
from germane.types import FrozenDict, Judgement, Usage, freeze

SELECT = f"SELECT {', '.join(COLUMNS)} FROM judgements"  # noqa: S608 - constants
INSERT = f"INSERT OR IGNORE INTO judgements VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 - constants
_CHUNK = 500
_SYNC_SECONDS = 1.0
"""Seconds after which a written answer has reached the disk: what a power cut may cost. A killed process loses nothing."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""One slash, as a path leaves one of two; a Windows drive is a single letter."""


Row = Sequence[Any]


_names = attrgetter(*COLUMNS[: COLUMNS.index("answer")])


def to_row(judgement: Judgement) -> Row:
    """A judgement as the values of COLUMNS. ValueError or TypeError where its answer cannot be written as JSON."""
    answer, provenance = encode(judgement.answer).decode(), encode(judgement.provenance).decode()
    used = judgement.usage
    counts = (used.requests, used.input_tokens, used.output_tokens, used.cost_usd)
    return *_names(judgement), answer, provenance, judgement.request, *counts, judgement.ms, judgement.at


_SETTERS = [getattr(Judgement, field.name).__set__ for field in fields(Judgement)]


def from_row(row: Row) -> Judgement:
    """The judgement in the values of COLUMNS, at a fifth of the constructor's price; ValueError where its JSON is none.

    The constructor looks at each value; these were checked when they were stored.
    """
    *texts, answer, provenance, request, requests, read, wrote, cost, ms, at = row  # as COLUMNS has them
    key, item, kind, judge, prompt, parent = texts
    usage = _usage(requests, read, wrote, cost)
    values = (key, item, kind, judge, prompt, freeze(decode(answer)), None, parent, request, usage, ms, at,
              _provenance(provenance))  # fmt: skip
    made = object.__new__(Judgement)
    for put, value in zip(_SETTERS, values, strict=True):
        put(made, value)
    return made


@lru_cache(maxsize=1024)
def _usage(requests: int, input_tokens: int, output_tokens: int, cost: float | None) -> Usage:
    return Usage(requests=requests, input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=cost)


@lru_cache(maxsize=1024)
def _provenance(text: str) -> FrozenDict:
    """Most answers of a run came about alike."""
    return FrozenDict(freeze(decode(text)))


class Ledger(Protocol):
    """A durable store of judgements, which several threads may use. Whatever goes wrong is a LedgerError."""

    @property
    def place(self) -> str:
        """Where it is, in absolute terms: what opens it again, and what reports name. It holds no password."""
        ...

    def ready(self) -> None:
        """Write something small. LedgerError where answers cannot be stored just now."""
        ...

    def find(self, keys: Sequence[str]) -> dict[str, Judgement]:
        """The judgements stored under these keys."""
        ...

    def children(self, keys: Sequence[str]) -> list[Judgement]:
        """The judgements whose parent is one of these keys."""
        ...

    def put(
        self, judgements: Sequence[Judgement], *, replacing: Sequence[Judgement] = ()
    ) -> dict[str, Judgement]:
        """Store them, all or none; what then stands under each key, since an earlier answer wins.

        `replacing` are stored judgements whose answers cannot be used: they are deleted first, unless another answer
        stands under their key by now.
        """
        ...

    def close(self) -> None:
        """Release the store."""
        ...


class SQLiteLedger:
    """A ledger in one SQLite file, with a write-ahead log.

    A row is committed when it arrives, without waiting for the disk: it survives the death of the process, and within
    a second also that of the machine. With `reading`, nothing is changed or made.

    Raises InputError where no ledger can be kept at such a place, LedgerError where the file is no ledger, is of another
    version, is damaged, or cannot be used.
    """

    def __init__(self, where: str | Path, *, reading: bool = False) -> None:
        self.path = file_of(where)
        self._lock, self._sync_lock = threading.RLock(), threading.Lock()
        self._timer: threading.Timer | None = None
        self._syncing: sqlite3.Connection | None = None
        self._fault: LedgerError | None = None
        try:
            self.db = self._open(reading=reading)
        except (sqlite3.Error, OSError, ValueError) as error:
            raise explain(error, self.path) from error

    def _open(self, *, reading: bool) -> sqlite3.Connection:
        return open_for_reading(self.path) if reading else open_for_writing(self.path)

    @property
    def place(self) -> str:
        """The absolute path of the file."""
        return str(self.path.absolute())

    @contextmanager
    def using(self) -> Iterator[sqlite3.Connection]:
        """The connection, for this thread alone; faults of the file become LedgerErrors that say what to do."""
        with self._lock:
            try:
                yield self.db
            except (sqlite3.Error, OSError, ValueError) as error:
                raise explain(error, self.path) from error

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The connection within one transaction: all of it or nothing."""
        with self.using() as db:
            if (fault := self._fault) is not None:
                self._fault = None
                raise fault
            with transaction(db):
                yield db
            if self._timer is None:
                self._timer = threading.Timer(_SYNC_SECONDS, self._sync)
                self._timer.daemon = True
                self._timer.start()

    def _sync(self) -> None:
        """Bring what is in the log to the disk and into the file, on a connection of its own: nobody waits for it."""
        with self._sync_lock:
            self._timer = None
            try:
                if self._syncing is None:
                    self._syncing = connect(self.path)
                    self._syncing.execute("PRAGMA synchronous=NORMAL")
                self._syncing.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            except sqlite3.Error as error:  # told to the next who writes
                self._fault = explain(error, self.path)

    def ready(self) -> None:
        """Write one page: the number of the format, once more. LedgerError where that fails."""
        with self.writing() as db:
            db.execute(f"PRAGMA user_version={FORMAT}")

    def find(self, keys: Sequence[str]) -> dict[str, Judgement]:
        """The judgements stored under these keys, looked up in batches."""
        return {one.key: one for one in self._where("key", sorted(keys))}  # neighbours stand on one page

    def children(self, keys: Sequence[str]) -> list[Judgement]:
        """The judgements whose parent is one of these keys, in the order of their own keys."""
        return sorted(self._where("parent", keys), key=lambda one: one.key)

    def _where(self, column: str, values: Sequence[str]) -> Iterator[Judgement]:
        with self.using() as db:
            for start in range(0, len(values), _CHUNK):
                chunk = values[start : start + _CHUNK]
                marks = ",".join("?" * len(chunk))
                yield from map(from_row, db.execute(f"{SELECT} WHERE {column} IN ({marks})", chunk))

    def put(
        self, judgements: Sequence[Judgement], *, replacing: Sequence[Judgement] = ()
    ) -> dict[str, Judgement]:
        """Store them in one transaction; what then stands under each key: an earlier answer wins."""
        rows = [to_row(judgement) for judgement in judgements]
        stands = {judgement.key: judgement for judgement in judgements}
        with self.writing() as db:
            for useless in replacing:
                answer = to_row(useless)[COLUMNS.index("answer")]
                db.execute("DELETE FROM judgements WHERE key = ? AND answer = ?", (useless.key, answer))
            earlier = [row[0] for row in rows if not db.execute(INSERT, row).rowcount]
        return stands | self.find(earlier) if earlier else stands

    def __len__(self) -> int:
        with self.using() as db:
            (count,) = db.execute("SELECT count(*) FROM judgements").fetchone()
        return int(count)

    def close(self) -> None:
        """Bring everything to the disk, and close the file."""
        if (timer := self._timer) is not None:
            timer.cancel()
            self._sync()
        with self._lock, self._sync_lock:
            if self._syncing is not None:
                self._syncing.close()
            self.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_there(where: str | Path) -> bool:
    """Whether there is a ledger at a place already. InputError where none can be."""
    return file_of(where).exists()


def file_of(where: str | Path) -> Path:
    """The file of a ledger. InputError where the place is not a file's."""
    if found := _SCHEME.match(str(where)):
        raise InputError(
            f"there is no way to keep a ledger at {found[1]}://...: it is one file",  # no more: it may hold a password
            fix="write the file's path, such as .germane/ledger.sqlite",
        )
    return Path(where).expanduser()


def place_from(folder: Path, where: str) -> str:
    """A place as a file in this folder names it: a path is relative to the folder."""
    return where if _SCHEME.match(where) else str(folder / file_of(where))


def find_ledger(start: Path) -> Path:
    """`.germane/ledger.sqlite` beside the nearest germane.toml or pyproject.toml, else in `start`."""
    for folder in (start, *start.parents):
        if (folder / "germane.toml").is_file() or (folder / "pyproject.toml").is_file():
            return folder / ".germane" / "ledger.sqlite"
    return start / ".germane" / "ledger.sqlite"
