"""The names of a report folder's files, and functions that open them for writing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Literal, TypeAlias

__all__ = ["Table"]

Table: TypeAlias = Literal["samples", "places", "judgements", "labels", "scores"]
"""The name of a table of a report folder."""

TABLES: tuple[Table, ...] = ("samples", "places", "judgements", "scores")
"""The tables whose files do not change once a report is complete."""

LABELS = "labels.jsonl"
"""The file to which people's labels are appended."""

MANIFEST, LOCK = "manifest.json", ".lock"

UNFINISHED = ".part"
"""The suffix of a file that is being written, or whose writer was killed."""

EARLIER = ".earlier"
"""The suffix of files with judgements of killed sessions, or of samples that are not finished yet."""

SESSION = f"session.json{UNFINISHED}"
"""The file in which a session records its spending, so that the figures survive a kill."""

OWN = (*(f"{name}.jsonl" for name in TABLES), LABELS, MANIFEST)
"""The files of a report folder that only germane writes; output files may not have these names."""


def is_own(path: Path, folder: Path) -> bool:
    """Return True if a path, links resolved, is one of germane's own files in a report folder."""
    return path.resolve() in {(folder / name).resolve() for name in OWN}


def files_in(path: Path, end: str = "") -> dict[Table, Path]:
    """Return the path of each table's file in a folder, with `end` appended to the file names."""
    tables: tuple[Table, ...] = (*TABLES, "labels")
    return {name: path / f"{name}.jsonl{end}" for name in tables}


APPEND, REPLACE = os.O_APPEND, os.O_TRUNC
"""The two ways to open a file: to write at its end, or to empty it first."""


def opened(path: Path, how: int) -> IO[bytes]:
    """Open a file for writing; `how` is APPEND or REPLACE. Raises OSError if the path is a symbolic link."""
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | how
    return os.fdopen(os.open(path, flags, 0o666), "wb")


def sync(file: IO[bytes]) -> None:
    """Flush a file and wait until its content is on disk."""
    file.flush()
    os.fsync(file.fileno())
