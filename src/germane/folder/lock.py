"""One writer at a time: a lock on a file that ends with the process that holds it, however that ends."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from germane.errors import InputError


def acquire(path: Path) -> int:
    """Create and lock a file, which exists only while it is locked; return its descriptor.

    InputError where another process, or another call in this one, holds the lock.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            _lock(file)
        except OSError:
            os.close(file)
            fix = "wait for it, or name another folder"
            raise InputError(f"another process is writing to {path.parent}", fix=fix) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), path.stat()):
                return file
        os.close(file)  # its holder has removed it in this moment


def release(path: Path, file: int) -> None:
    """Unlock and remove a file that `acquire` locked."""
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
