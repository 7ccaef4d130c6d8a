"""Lock a report folder for one writer, and publish a report: all of its files are replaced, or none.

All new files are complete and on disk before the first one is moved into place. The draft of the new manifest
is written last: if a process is killed while it moves files, the draft stays, and the next process that opens
the folder completes the move.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from germane.encoding import decode
from germane.errors import InputError
from germane.folder.layout import APPEND, EARLIER, LOCK, MANIFEST, UNFINISHED, files_in, opened, sync
from germane.folder.lines import StoredRows, TableFile, label_in
from germane.tables.columns import json_lines
from germane.tables.labels import by_people


def publish(path: Path) -> None:
    """Move all `.part` files of a folder to their final names, the manifest last. The caller has the lock."""
    keep_people(path)
    for name, file in files_in(path).items():
        with suppress(FileNotFoundError):
            files_in(path, UNFINISHED)[name].replace(file)
    files_in(path, EARLIER)["judgements"].unlink(missing_ok=True)
    (path / f"{MANIFEST}{UNFINISHED}").replace(path / MANIFEST)


def keep_people(path: Path) -> None:
    """Copy people's labels from the folder's labels.jsonl to the unfinished one that will replace it."""
    stored, new = files_in(path)["labels"], files_in(path, UNFINISHED)["labels"]
    if not new.exists():
        return
    if labels := list(filter(by_people, StoredRows(TableFile(stored), label_in))):
        written = set(StoredRows(TableFile(new), label_in))
        with opened(new, APPEND) as file:
            file.writelines(json_lines(label for label in labels if label not in written))
            sync(file)


def complete_killed(path: Path, *, is_writer: bool = False) -> None:
    """Finish publishing a report if the process that published it was killed.

    Does nothing if another process writes to the folder, or if the folder is not writable. `is_writer` is
    True if the caller has the lock.
    """
    draft = path / f"{MANIFEST}{UNFINISHED}"
    if not draft.exists():
        return
    with suppress(InputError, OSError):
        held = None if is_writer else acquire(path / LOCK)
        try:
            manifest = decode(draft.read_bytes())
            if isinstance(manifest, dict) and manifest.get("status") == "complete":
                publish(path)
        except (ValueError, RecursionError):  # it was killed before the draft was complete
            pass
        finally:
            if held is not None:
                release(path / LOCK, held)


def acquire(path: Path) -> int:
    """Create a lock file, which exists only while it is locked, and return its descriptor.

    Raises InputError if another process, or another call in this process, holds the lock.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            _lock(file)
        except OSError:
            os.close(file)
            fix = "wait until that process ends, or name another folder"
            raise InputError(f"another process is writing to {path.parent}", fix=fix) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), path.stat()):
                return file
        os.close(file)  # its holder has removed it in this moment


def release(path: Path, file: int) -> None:
    """Unlock and delete a lock file that `acquire` created."""
    if sys.platform == "win32":  # an open file cannot be removed there
        os.close(file)
        with suppress(OSError):
            path.unlink()
    else:
        path.unlink(missing_ok=True)
        os.close(file)


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
