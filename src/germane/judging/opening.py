"""Opening a ledger by where it is: the one place that knows what kind of store stands behind a name.

Today each is one SQLite file. A store of another kind has a name with a scheme, and is opened here.
"""

from __future__ import annotations

import re
from pathlib import Path

from germane.errors import InputError
from germane.judging.ledger import Ledger, SQLiteLedger

__all__ = ["file_of", "is_there", "open_ledger", "place_from"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""One slash, as a path leaves one of two; a Windows drive is a single letter."""


def open_ledger(where: str | Path, *, reading: bool = False) -> Ledger:
    """The ledger at a place: a file's path, made where there is none.

    With `reading`, nothing is changed or made, and a ledger that is not there is a LedgerError.

    Raises InputError where no ledger can be kept at such a place, LedgerError where this one cannot be used.
    """
    return SQLiteLedger(file_of(where), reading=reading)


def is_there(where: str | Path) -> bool:
    """Whether there is a ledger at a place already. InputError where none can be."""
    return file_of(where).exists()


def file_of(where: str | Path) -> Path:
    """The file of a ledger that is one. InputError where the place is none of a file."""
    if found := _SCHEME.match(str(where)):
        raise InputError(
            f"there is no way to keep a ledger at {found[1]}://...: it is one file",  # no more: it may hold a password
            fix="write the file's path, such as .germane/ledger.sqlite",
        )
    return Path(where).expanduser()


def place_from(folder: Path, where: str) -> str:
    """A place as a file in this folder names it: a path is relative to the folder."""
    return where if _SCHEME.match(where) else str(folder / file_of(where))
