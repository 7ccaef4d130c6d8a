"""One writer at a time: a lock on a file that ends with the process that holds it, however that ends."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from germane.errors import InputError


class WriterLock:
    """An exclusive lock on a file, which exists only while it is locked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @property
    def held(self) -> bool:
        """True if this object holds the lock."""
        return self._file is not None

    def acquire(self) -> None:
        """Take the lock; InputError where another process, or another object of this one, holds it."""
        while self._file is None:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
            try:
                _lock(file)
            except OSError:
                os.close(file)
                raise InputError(
                    f"another process is writing to {self._path.parent}",
                    fix="wait for it, or name another folder",
                ) from None
            if self._is_current(file):
                self._file = file
            else:  # its holder has removed it in this moment
                os.close(file)

    def _is_current(self, file: int) -> bool:
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(file), self._path.stat())
        return False

    def release(self) -> None:
        """Give the lock back, if it is held."""
        if self._file is None:
            return
        if sys.platform == "win32":  # an open file cannot be removed there
            os.close(self._file)
            with suppress(OSError):
                self._path.unlink()
        else:
            self._path.unlink(missing_ok=True)
            os.close(self._file)
        self._file = None


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
