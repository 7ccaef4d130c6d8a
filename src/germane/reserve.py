"""Room on a disk that is held back, for what must be written when there is no other room left."""

from __future__ import annotations

import os
from pathlib import Path

from germane.errors import LedgerError

__all__ = ["Reserve"]

_BYTES = 256 * 1024
"""Some hundred answers: more than come in between the moment when a disk is full and that when nothing is asked any more."""


class Reserve:
    """A file that only takes room, in a folder.

    Args:
        folder: The folder; it must be there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / "reserve.part"

    def hold(self) -> None:
        """Take the room. LedgerError where it is not there."""
        try:
            self._file.write_bytes(os.urandom(_BYTES))  # some file systems need no room for zeros
        except OSError as error:
            self.release()
            raise LedgerError(
                f"answers could not be kept in {self._folder}: {error.strerror}; free some space"
            ) from error

    def release(self) -> None:
        """Give it back."""
        self._file.unlink(missing_ok=True)
