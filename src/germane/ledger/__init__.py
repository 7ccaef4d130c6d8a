"""The durable store of judgements: a table in an SQLite file, one row per answer, under the judgement's key."""

from __future__ import annotations

from pathlib import Path


def files_of(path: Path) -> list[Path]:
    """A ledger's file, its write-ahead log, and the log's index; the latter two need not exist."""
    return [path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")]


def secret_of(path: Path) -> Path:
    """The file next to a ledger that holds its secret; it need not exist."""
    return path.with_name(f"{path.name}.secret")
