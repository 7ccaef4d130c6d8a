"""The address of a ledger: the path of a file, or a URL that an add-on opens."""

from __future__ import annotations

import re
from pathlib import Path

from germane.addons import absent, find, load
from germane.errors import InputError

__all__ = ["is_there", "password_apart"]

_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+):/")
"""The scheme of a URL: one slash is enough, as Path merges two; a single letter is a Windows drive."""


def files_of(path: Path) -> list[Path]:
    """Return the paths of a ledger's file, its write-ahead log and the log's index; some may not exist."""
    return [path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")]


def find_ledger(start: Path) -> Path:
    """Return `.germane/ledger.sqlite` next to the nearest germane.toml or pyproject.toml, else in `start`."""
    files = ("germane.toml", "pyproject.toml")
    above = (start, *start.parents)
    folder = next((one for one in above if any((one / file).is_file() for file in files)), start)
    return folder / ".germane" / "ledger.sqlite"


def address_from(folder: Path, where: str) -> str:
    """Return the ledger's address in a setting, with a relative path resolved against `folder`."""
    return where if _SCHEME.match(where) else str(folder / file_of(where))


def file_of(where: str | Path) -> Path:
    """Return the path of a ledger that is a file. Raises InputError for a URL."""
    if match := _SCHEME.match(str(where)):
        raise InputError(
            f"a ledger cannot be stored at {match[1]}://...",  # no more: it may hold a password
            fix="write a file's path, such as .germane/ledger.sqlite, or postgresql://HOST/DATABASE",
        )
    return Path(where).expanduser()


def is_there(where: str | Path) -> bool:
    """Return True for a database's URL or an existing file. Raises InputError for other URLs."""
    return store_of(where) is not None or file_of(where).exists()


def store_of(where: str | Path) -> str | None:
    """Return the `module:object` that opens a URL; None for a file. Raises InputError without the add-on."""
    match = _SCHEME.match(str(where))
    scheme = match[1].lower() if match else ""
    declared: str | None = find("stores", scheme) if scheme else None
    if declared is None and (owner := absent("stores", scheme)):
        problem = f"a ledger at {scheme}:// needs the add-on {owner}, which is not installed"
        raise InputError(problem, fix="install it, or name a file: --ledger ledger.sqlite")
    return declared


def password_apart(where: str) -> str:
    """Return a ledger's address without its password, which the add-on stores elsewhere for later use."""
    store = store_of(where)
    apart = getattr(load(store), "password_apart", None) if store is not None else None
    return where if apart is None else str(apart(where))
