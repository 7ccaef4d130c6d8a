"""Opening what people have: plain or gzipped, with or without a byte-order mark, Unix or Windows line ends."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from germane.errors import InputError, Place

__all__ = ["decoded", "numbered_lines", "opened", "shown_name"]

_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_GZIP = b"\x1f\x8b"


def shown_name(path: str | Path) -> str:
    """The file's name in messages; `-` is standard input."""
    return "<stdin>" if str(path) == "-" else str(path)


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """The bytes of a file (`-` = standard input), unpacked where gzipped, without a byte-order mark.

    Everything that can go wrong with the file itself becomes an InputError that names it.
    """
    name = shown_name(path)
    try:
        with _raw(path) as raw:
            packed = raw.peek(2)[:2] == _GZIP
            stream = io.BufferedReader(gzip.GzipFile(fileobj=raw)) if packed else raw
            start = stream.peek(3)[:3]
            if start[:2] in _UTF16:
                raise InputError("this file is UTF-16", fix="save it as UTF-8", place=Place(name))
            if start == _BOM:
                stream.read(3)
            yield stream
    except (gzip.BadGzipFile, EOFError, zlib.error) as fault:
        raise InputError(
            f"the gzip file is damaged: {fault}", fix="make it again", place=Place(name)
        ) from None
    except OSError as fault:
        fix = "check the path" if isinstance(fault, FileNotFoundError) else ""
        raise InputError(f"cannot be read: {fault.strerror or fault}", fix=fix, place=Place(name)) from None


def _raw(path: str | Path) -> io.BufferedReader:
    if str(path) == "-":
        return io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
    return Path(path).open("rb")


def numbered_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1, without their ends."""
    for number, line in enumerate(stream, 1):
        if stripped := line.rstrip(b"\r\n"):
            if stripped.isspace():
                continue
            yield number, stripped


def decoded(text: bytes, name: str, line: int) -> str:
    """The text of some bytes; InputError names the line that is not UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise InputError(
            f"{text[:40]!r} is not UTF-8", fix="save the file as UTF-8", place=Place(name, line)
        ) from None
