"""Files at URLs, through fsspec: copied to this machine to be read, and uploaded when complete."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from germane.clean import mask_urls
from germane.errors import InputError, MissingPart, install_extra
from germane.samples.files import check_unmasked

_LAST = "manifest.json"
"""The file of a report folder that is uploaded last: if it exists, the upload is complete."""


@contextmanager
def _store(url: str) -> Iterator[tuple[Any, str]]:
    """Return a context with a URL's file system and path; errors in it become an InputError with the URL."""
    shown = mask_urls(url)
    check_unmasked(url)
    try:
        import fsspec
    except ImportError:
        raise MissingPart(f"{shown} needs the package fsspec", fix=install_extra("urls")) from None
    try:
        yield fsspec.core.url_to_fs(url)
    except FileNotFoundError:
        raise InputError(f"there is no file at {shown}", fix="check the URL") from None
    except Exception as error:  # noqa: BLE001 - any error of the store, or a missing package
        what = f"{type(error).__name__}: {mask_urls(str(error))}"
        fix = "check the URL, the rights that this machine has, and that the store's package (s3fs, gcsfs) is installed"
        raise InputError(f"{shown} cannot be used: {what}", fix=fix) from None


def check_store(url: str) -> None:
    """Raise InputError if no installed package supports the URL; it is called before any paid call."""
    with _store(url):
        pass


def scratch() -> Path:
    """Return a new folder for copies, which is removed when this process ends."""
    made = Path(tempfile.mkdtemp(prefix="germane-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@cache
def fetched(url: str) -> Path:
    """Return a local copy of the file or folder at a URL, with the same name; it is downloaded once."""
    with _store(url) as (files, path):
        local = scratch() / (Path(path).name or "data")
        files.get(path, str(local), recursive=True)
    return local


def put(local: Path, url: str) -> None:
    """Upload a file, or the files of a folder, to a URL; the manifest of a report is uploaded last."""
    with _store(url) as (files, path):
        if local.is_file():
            files.makedirs(path.rpartition("/")[0], exist_ok=True)
            files.put_file(str(local), path)
            return
        uploaded = (file for file in local.rglob("*") if file.is_file() and not file.name.startswith("."))
        for file in sorted(uploaded, key=lambda file: (file.name == _LAST, file)):
            destination = f"{path}/{file.relative_to(local).as_posix()}"
            files.makedirs(destination.rpartition("/")[0], exist_ok=True)
            files.put_file(str(file), destination)


def is_there(url: str) -> bool:
    """Return True if a file or folder exists at a URL."""
    with _store(url) as (files, path):
        return bool(files.exists(path))
