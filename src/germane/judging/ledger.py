"""The ledger: answers that were paid for, durable in SQLite, shared by evaluations and processes.

An answer is keyed by everything that changes it (see `questions.key_of`). Errors are not kept: they are asked
again. The first committed answer to a key wins, whoever writes second.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from germane.errors import LedgerError
from germane.types import FrozenDict, Judgement, Usage

__all__ = ["Ledger", "SQLiteLedger", "find_ledger"]

_SCHEMA_VERSION = 1
_CHUNK = 500
_COLUMNS = (
    "key, kind, judge, prompt, answer, requests, input_tokens, output_tokens, cost_usd, ms, at, provenance"
)
_CREATE = """
CREATE TABLE IF NOT EXISTS judgements (
    key BLOB PRIMARY KEY, kind TEXT NOT NULL, judge TEXT NOT NULL, prompt TEXT NOT NULL, answer TEXT NOT NULL,
    requests INTEGER NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cost_usd REAL,
    ms REAL, at TEXT, provenance TEXT NOT NULL
) WITHOUT ROWID
"""


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

    Raises LedgerError where the file is no ledger, is damaged, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=60000"):
                self._db.execute(f"PRAGMA {pragma}").fetchone()
            self._migrate()

    def _migrate(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > _SCHEMA_VERSION:
            raise LedgerError(f"{self.path}: written by a newer germane (format {version}); update germane")
        if version < _SCHEMA_VERSION:
            self._db.execute(_CREATE)
            self._db.execute(f"PRAGMA user_version={_SCHEMA_VERSION}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(f"the ledger {self.path} cannot be used: {error}") from error

    def get(self, keys: Sequence[str]) -> dict[str, Judgement]:
        """The judgements known under these keys, looked up in batches."""
        found: dict[str, Judgement] = {}
        with self._explained():
            for start in range(0, len(keys), _CHUNK):
                chunk = [bytes.fromhex(key) for key in keys[start : start + _CHUNK]]
                marks = ",".join("?" * len(chunk))
                rows = self._db.execute(f"SELECT {_COLUMNS} FROM judgements WHERE key IN ({marks})", chunk)  # noqa: S608 - only question marks
                found.update((judgement.key, judgement) for judgement in map(_read, rows))
        return found

    def put(self, judgements: Sequence[Judgement]) -> dict[str, Judgement]:
        """Store them in one synced transaction; what now stands under each key."""
        marks = ",".join("?" * 12)
        with self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                before = self._db.total_changes
                rows = [_write(judgement) for judgement in judgements]
                self._db.executemany(f"INSERT OR IGNORE INTO judgements ({_COLUMNS}) VALUES ({marks})", rows)  # noqa: S608
                stored = self._db.total_changes - before
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
        if stored == len(judgements):
            return {judgement.key: judgement for judgement in judgements}
        return self.get([judgement.key for judgement in judgements])

    def __len__(self) -> int:
        with self._explained():
            (count,) = self._db.execute("SELECT count(*) FROM judgements").fetchone()
        return int(count)

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _write(judgement: Judgement) -> tuple[Any, ...]:
    used = judgement.usage
    return (
        bytes.fromhex(judgement.key),
        judgement.kind,
        judgement.judge,
        judgement.prompt,
        json.dumps(judgement.answer, ensure_ascii=False),
        used.requests,
        used.input_tokens,
        used.output_tokens,
        used.cost_usd,
        judgement.ms,
        judgement.at,
        json.dumps(judgement.provenance, ensure_ascii=False),
    )


def _read(row: Iterable[Any]) -> Judgement:
    key, kind, judge, prompt, answer, requests, input_tokens, output_tokens, cost, ms, at, provenance = row
    return Judgement(
        key=key.hex(),
        kind=kind,
        judge=judge,
        prompt=prompt,
        answer=json.loads(answer),
        usage=Usage(requests=requests, input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=cost),
        ms=ms,
        at=at,
        provenance=FrozenDict(json.loads(provenance)),
    )


def find_ledger(start: Path) -> Path:
    """`.germane/ledger.sqlite` beside the nearest germane.toml or pyproject.toml, else in `start`."""
    for folder in (start, *start.parents):
        if (folder / "germane.toml").is_file() or (folder / "pyproject.toml").is_file():
            return folder / ".germane" / "ledger.sqlite"
    return start / ".germane" / "ledger.sqlite"
