"""The ledger: answers that were paid for, durable in SQLite, shared by evaluations and processes.

An answer is keyed by everything that changes it (see `questions.key_of`). Errors are not kept: they are asked
again. The first committed answer to a key wins, whoever writes second. Every row carries a checksum of its key
and answer, so that a damaged answer is never taken for a verdict.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, Self
from zlib import crc32

from germane.encoding import decode, encode
from germane.errors import LedgerError
from germane.types import FrozenDict, Judgement, Usage

__all__ = ["COLUMNS", "FORMAT", "Ledger", "SQLiteLedger", "find_ledger", "from_row", "to_row"]

FORMAT = 2
COLUMNS = ("key", "kind", "judge", "prompt", "answer", "requests", "input_tokens", "output_tokens", "cost_usd",
           "ms", "at", "provenance", "checksum")  # fmt: skip
_NAMES = ", ".join(COLUMNS)
_CHUNK = 500
_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE IF NOT EXISTS judgements (
            key BLOB PRIMARY KEY, kind TEXT NOT NULL, judge TEXT NOT NULL, prompt TEXT NOT NULL,
            answer TEXT NOT NULL, requests INTEGER NOT NULL, input_tokens INTEGER NOT NULL,
            output_tokens INTEGER NOT NULL, cost_usd REAL, ms REAL, at TEXT, provenance TEXT NOT NULL
        ) WITHOUT ROWID
        """,
    ),
    ("ALTER TABLE judgements ADD COLUMN checksum INTEGER",),  # NULL in rows that format 1 wrote
)
"""What makes format n + 1 out of format n. Rows are never rewritten: an older row stays as it was paid for."""

Row = Sequence[Any]
_NO_PROVENANCE = FrozenDict()


class Ledger(Protocol):
    """A durable store of judgements: small enough that another database can stand behind it."""

    def get(self, keys: Sequence[str]) -> dict[str, Judgement]:
        """The judgements known under these keys."""
        ...

    def put(self, judgements: Sequence[Judgement]) -> dict[str, Judgement]:
        """Store them durably; what now stands under each key (an earlier answer wins)."""
        ...

    def close(self) -> None:
        """Release the store."""
        ...


class SQLiteLedger:
    """A ledger in one SQLite file (write-ahead log, every commit synced), shared safely between processes.

    Raises LedgerError where the file is no ledger, is damaged, or cannot be written. A ledger of an older
    format is brought to this one when it is opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self.explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            self.db = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
            try:
                for pragma in (
                    "journal_mode=WAL",
                    "synchronous=FULL",
                    "busy_timeout=60000",
                    "cache_size=-8000",
                ):
                    self.db.execute(f"PRAGMA {pragma}").fetchone()
                self._migrate()
            except BaseException:
                self.db.close()
                raise

    def _migrate(self) -> None:
        if self.format == FORMAT:
            return
        with self.writing():
            if (found := self.format) > FORMAT:
                raise LedgerError(f"{self.path}: written by a newer germane (format {found}); update germane")
            for steps in _MIGRATIONS[found:]:
                for step in steps:
                    self.db.execute(step)
            self.db.execute(f"PRAGMA user_version={FORMAT}")

    @property
    def format(self) -> int:
        """The format of the file."""
        (version,) = self.db.execute("PRAGMA user_version").fetchone()
        return int(version)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Faults of the file as LedgerErrors that say what to do."""
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:
            raise LedgerError(
                f"the ledger {self.path} cannot be used: {error}{_hint(error, self.path)}"
            ) from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One synced transaction: all of it or nothing."""
        self.db.execute("BEGIN IMMEDIATE")
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
        with self.explained():
            for start in range(0, len(wanted), _CHUNK):
                chunk = wanted[start : start + _CHUNK]
                marks = ",".join("?" * len(chunk))
                rows = self.db.execute(f"SELECT {_NAMES} FROM judgements WHERE key IN ({marks})", chunk)  # noqa: S608 - only question marks
                for row in rows:
                    judgement = from_row(row)
                    found[judgement.key] = judgement
        return found

    def put(self, judgements: Sequence[Judgement]) -> dict[str, Judgement]:
        """Store them in one synced transaction; what now stands under each key."""
        marks = ",".join("?" * len(COLUMNS))
        with self.explained(), self.writing():
            before = self.db.total_changes
            rows = map(to_row, judgements)
            self.db.executemany(f"INSERT OR IGNORE INTO judgements ({_NAMES}) VALUES ({marks})", rows)  # noqa: S608 - constants
            stored = self.db.total_changes - before
        if stored == len(judgements):
            return {judgement.key: judgement for judgement in judgements}
        return self.get([judgement.key for judgement in judgements])

    def __len__(self) -> int:
        with self.explained():
            (count,) = self.db.execute("SELECT count(*) FROM judgements").fetchone()
        return int(count)

    def close(self) -> None:
        """Close the file."""
        self.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _hint(error: Exception, path: Path) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB} or isinstance(error, ValueError):
        return f"; see what is left of it: germane ledger check --ledger {path} (--repair mends it)"
    return "; free some space" if code == sqlite3.SQLITE_FULL else ""


def to_row(judgement: Judgement) -> Row:
    """A judgement as a row of the table."""
    used = judgement.usage
    key, answer = bytes.fromhex(judgement.key), encode(judgement.answer)
    return (
        key,
        judgement.kind,
        judgement.judge,
        judgement.prompt,
        answer.decode(),
        used.requests,
        used.input_tokens,
        used.output_tokens,
        used.cost_usd,
        judgement.ms,
        judgement.at,
        encode(judgement.provenance).decode(),
        crc32(answer, crc32(key)),
    )


def from_row(row: Row) -> Judgement:
    """The judgement in a row of the table; ValueError where the row is damaged."""
    key, kind, judge, prompt, answer, requests, tokens_in, tokens_out, cost, ms, at, provenance, checksum = (
        row
    )
    if checksum is not None and checksum != crc32(answer.encode(), crc32(key)):
        raise ValueError(f"the answer under {key.hex()} is damaged")
    return Judgement(
        key=key.hex(),
        kind=kind,
        judge=judge,
        prompt=prompt,
        answer=decode(answer),
        usage=Usage(requests=requests, input_tokens=tokens_in, output_tokens=tokens_out, cost_usd=cost),
        ms=ms,
        at=at,
        provenance=_NO_PROVENANCE if provenance == "{}" else FrozenDict(decode(provenance)),
    )


def find_ledger(start: Path) -> Path:
    """`.germane/ledger.sqlite` beside the nearest germane.toml or pyproject.toml, else in `start`."""
    for folder in (start, *start.parents):
        if (folder / "germane.toml").is_file() or (folder / "pyproject.toml").is_file():
            return folder / ".germane" / "ledger.sqlite"
    return start / ".germane" / "ledger.sqlite"
