"""The names of a report folder's files, and functions that open them for writing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Literal, TypeAlias

__all__ = ["Table"]

Table: TypeAlias = Literal["samples", "places", "judgements", "labels", "scores"]
"""The name of a table."""

TABLES: tuple[Table, ...] = ("samples", "places", "judgements", "scores")
"""The tables whose files do not change once a report is complete."""

LABELS = "labels.jsonl"
"""The file that people's answers are appended to."""

MANIFEST, LOCK = "manifest.json", ".lock"

UNFINISHED = ".part"
"""The end of the name of a file that is being written, or was when its process was killed."""

EARLIER = ".earlier"
"""The end of the name of the judgements that killed sessions left, and of answers that no block holds yet."""

SESSION = f"session.json{UNFINISHED}"
"""The file with what the session that writes to a folder has spent, or had when its process was killed."""

OWN = (*(f"{name}.jsonl" for name in TABLES), LABELS, MANIFEST)
"""The files that are a report folder's own: nothing else is written under these names."""


def is_own(path: Path, folder: Path) -> bool:
    """Return True if a path leads to one of a report folder's own files, also through links."""
    return path.resolve() in {(folder / name).resolve() for name in OWN}


def files_in(path: Path, end: str = "") -> dict[Table, Path]:
    """Return the file of each table in a folder; `end` is appended to their names."""
    tables: tuple[Table, ...] = (*TABLES, "labels")
    return {name: path / f"{name}.jsonl{end}" for name in tables}


APPEND, REPLACE = os.O_APPEND, os.O_TRUNC
"""How a file is opened: to write at its end, or from its beginning."""


def opened(path: Path, how: int) -> IO[bytes]:
    """Open a file to write it; OSError where it is a symbolic link."""
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | how
    return os.fdopen(os.open(path, flags, 0o666), "wb")


def sync(file: IO[bytes]) -> None:
    """Wait until everything written to a file is on disk."""
    file.flush()
    os.fsync(file.fileno())
