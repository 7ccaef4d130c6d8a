"""Opening input files: plain, gzipped or in Zstandard, with or without a byte-order mark; lines with numbers; warnings with places."""

from __future__ import annotations

import difflib
import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from germane.errors import InputError, Place

__all__ = [
    "Notice",
    "Notices",
    "Warn",
    "decoded",
    "fold",
    "nearest",
    "numbered_lines",
    "opened",
    "place_in",
    "read_lines",
    "read_text",
    "shown_name",
]

_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_GZIP = b"\x1f\x8b"
_ZSTANDARD = b"\x28\xb5\x2f\xfd"


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
            stream = _unpacked(raw, name)
            start = stream.peek(3)[:3]
            if start[:2] in _UTF16:
                raise InputError("this file is UTF-16", fix="save it as UTF-8", place=Place(name))
            if start == _BOM:
                stream.read(3)
            yield stream
    except (gzip.BadGzipFile, EOFError, zlib.error) as fault:
        problem = f"the gzip file is damaged: {fault}"
        raise InputError(problem, fix="make it again", place=Place(name)) from None
    except OSError as fault:
        fix = "check the path" if isinstance(fault, FileNotFoundError) else ""
        raise InputError(f"cannot be read: {fault.strerror or fault}", fix=fix, place=Place(name)) from None


def _unpacked(raw: io.BufferedReader, name: str) -> io.BufferedReader:
    """The stream without its compression, by the file's first bytes."""
    start = raw.peek(4)[:4]
    if start[:2] == _GZIP:
        return io.BufferedReader(gzip.GzipFile(fileobj=raw))
    if start != _ZSTANDARD:
        return raw
    try:
        import zstandard
    except ImportError:
        fix = "pip install 'germane[tables]', or unpack it"
        raise InputError("reading .zst needs zstandard", fix=fix, place=Place(name)) from None
    return io.BufferedReader(_Zstandard(zstandard.ZstdDecompressor().stream_reader(raw), zstandard.ZstdError))


class _Zstandard(io.RawIOBase):
    """A Zstandard stream whose damage is an OSError as that of other files is."""

    def __init__(self, reader: BinaryIO, damage: type[Exception]) -> None:
        self._reader, self._damage = reader, damage

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; OSError where the file is damaged."""
        try:
            data = self._reader.read(len(buffer))
        except self._damage as fault:
            raise OSError(f"the zst file is damaged: {fault}") from None
        buffer[: len(data)] = data
        return len(data)


def _raw(path: str | Path) -> io.BufferedReader:
    if str(path) == "-":
        return io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
    return Path(path).open("rb")


def numbered_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1, without their ends."""
    for number, line in enumerate(stream, 1):
        if (stripped := line.rstrip(b"\r\n")) and not stripped.isspace():
            yield number, stripped


def decoded(line: bytes, name: str, number: int) -> str:
    """The text of a line; InputError names the line and column that are not UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError as fault:
        column = len(line[: fault.start].decode()) + 1
        raise InputError(
            f"the byte 0x{line[fault.start]:02x} is not UTF-8",
            fix="save the file as UTF-8",
            place=Place(name, number, column),
        ) from None


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file with their numbers, line ends kept."""
    name = shown_name(path)
    with opened(path) as file:
        for number, line in enumerate(file, 1):
            yield number, decoded(line, name, number)


def read_text(path: str | Path) -> str:
    """The whole text of a UTF-8 file; InputError where it cannot be read."""
    return "".join(line for _, line in read_lines(path))


def place_in(path: str | Path, text: str, offset: int | None, first_line: int = 1) -> Place:
    """The place of an offset in a text that starts at `first_line` of a file."""
    if offset is None:
        return Place(shown_name(path), first_line)
    before = text[:offset]
    return Place(shown_name(path), first_line + before.count("\n"), offset - before.rfind("\n"))


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning about input that is probably not meant: what, what to write instead, and where it occurs first."""

    problem: str
    fix: str = ""
    place: Place | None = None

    def __str__(self) -> str:
        """`place: problem; fix` on one line, as an error prints."""
        return str(InputError(self.problem, fix=self.fix, place=self.place))


Warn: TypeAlias = Callable[[Notice], None]


class Notices:
    """A `warn` that keeps each distinct problem once, with the place of its first occurrence."""

    def __init__(self, pass_on: Warn | None = None) -> None:
        self._seen: dict[tuple[str, str], Notice] = {}
        self._pass_on = pass_on

    def __call__(self, notice: Notice) -> None:
        """Take one notice; a problem that was reported before is dropped."""
        key = (notice.problem, notice.fix)
        if key not in self._seen:
            self._seen[key] = notice
            if self._pass_on is not None:
                self._pass_on(notice)

    def __iter__(self) -> Iterator[Notice]:
        return iter(self._seen.values())

    def __len__(self) -> int:
        return len(self._seen)


def fold(name: str) -> str:
    """A name without case, underscores, dashes and blanks: `expectedRelevantCount` is `expected_relevant_count`."""
    return name.replace("_", "").replace("-", "").replace(" ", "").casefold()


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` is probably a misspelling of; None where none is near."""
    folded: dict[str, str] = {}
    for one in known:
        folded.setdefault(fold(one), one)
    near = difflib.get_close_matches(fold(name), folded, n=1, cutoff=0.8)
    return folded[near[0]] if near else None
