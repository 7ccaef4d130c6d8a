"""Reads files (plain, gzip or Zstandard) as lines, text or JSON Lines, and replaces files as a whole."""

from __future__ import annotations

import errno
import functools
import gzip
import io
import os
import re
import secrets
import stat
import sys
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeAlias

import msgspec

from germane import addons
from germane.clean import MASK, fold, mask_urls
from germane.errors import InputError, SourceLocation, install_extra
from germane.types import Json

__all__ = [
    "check_readable",
    "check_unmasked",
    "local",
    "location_in",
    "numbered_lines",
    "opened",
    "read_lines",
    "read_text",
    "repository_root",
    "shown_name",
    "url_of",
    "whole_file",
    "with_urls",
    "write_whole",
]

_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_GZIP = b"\x1f\x8b"
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_PACKED = {
    **{b"BZh%d1AY&SY" % level: "packed with bzip2" for level in range(1, 10)},
    b"\xfd7zXZ\x00": "packed with xz",
    b"PK\x03\x04": "a ZIP archive or an Excel workbook",
}
"""The first bytes of unsupported compressed files and archives, and the name of each kind."""
_TAR = slice(257, 262)
_BUFFER = 1 << 18
_PIECE = 1 << 13
"""The compressed bytes that are unpacked in one step: they may expand 30,000-fold."""
_COPIES: dict[str, str] = {}
"""Maps the path of each temporary copy to the name of the file that was copied."""
HOLDERS = (
    *("samples", "data", "rows", "examples", "items", "goldens", "test_cases", "testCases", "results"),
    "observations",
)
"""The keys under which a JSON object may hold its array of samples or results."""


def shown_name(path: str | Path) -> str:
    """Return the name of a file for messages: `<stdin>` for `-`, the original's for a temporary copy."""
    return "<stdin>" if str(path) == "-" else _COPIES.get(str(path), str(path))


def copied(path: Path, name: str) -> Path:
    """Register a path as a temporary copy of a file that messages call `name`, and return the path."""
    _COPIES[str(path)] = name
    return path


def check_unmasked(url: str) -> None:
    """Raise InputError if the key in a URL was replaced by ***, as in the URLs that reports store."""
    if f"={MASK}" in url or f":{MASK}@" in url:
        problem = f"the URL {url} lacks its key, which reports do not store"
        raise InputError(problem, fix="give the URL again, with the key")


_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)
"""Matches a URL, also with one slash only, because Path reduces two slashes to one.

The scheme needs at least two letters, because a single letter is a Windows drive.
"""


def url_of(path: str | Path) -> str:
    """Return the URL that is given as `path`, or "" for a local path; Path reduced its two slashes to one."""
    match = _URL.fullmatch(str(path))
    if match is None:
        return ""
    slash = "/" if match[1].lower() in {"file", "local", "memory"} else ""
    return f"{match[1].lower()}://{slash}{match[2].rstrip('/')}"


def with_urls(work: str) -> Any:
    """Return the function `work` of the add-on for URLs. Raises InputError if it is not installed."""
    return addons.required("urls", work, "a path that is a URL", "name a file or folder of this machine")


def local(named: str | Path) -> Path:
    """Return a local path unchanged, and for a URL the path of a fetched copy; messages show the URL."""
    path = str(named).removeprefix("file://")
    return copied(with_urls("fetched")(url), mask_urls(url)) if (url := url_of(path)) else Path(path)


_readable_paths: ContextVar[tuple[Path, ...] | None] = ContextVar("readable_paths", default=None)


@contextmanager
def untrusted(paths: Iterable[str | Path]) -> Iterator[None]:
    """Context manager in which eval files may read only `paths`, and use no command, request or variable.

    Symbolic links are resolved before a path is checked.
    """
    readable = _readable_paths.set(tuple(Path(path).resolve() for path in paths))
    try:
        yield
    finally:
        _readable_paths.reset(readable)


def check_trusted(does: str, named_at: SourceLocation | None = None) -> None:
    """Raise InputError inside `untrusted`, before a file's command, request or variable is used.

    `does` says what would be done, and `named_at` is the location in the file that asks for it.
    """
    if _readable_paths.get() is not None:
        problem = f"{does}, but the file that asks for this is not trusted"
        raise InputError(problem, fix="read the file, then leave out --untrusted", place=named_at)


def repository_root(folder: Path) -> Path:
    """Return the nearest folder with a .git among the folder and its parents, else the folder itself."""
    return next((up for up in (folder, *folder.parents) if (up / ".git").exists()), folder)


def dataset_files(folder: Path, name: str) -> list[Path]:
    """Return the JSON Lines or Parquet files of a BEIR or MTEB data set, or [].

    `name` is "queries" or "corpus".
    """
    for end in (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet"):
        if (file := folder / f"{name}{end}").exists():
            return [file]
    return sorted((folder / name).glob("*.parquet"))


def check_readable(path: str | Path, named_at: SourceLocation | None = None) -> None:
    """Raise InputError inside `untrusted` for a path outside those that may be read, named at `named_at`."""
    paths, real = _readable_paths.get(), Path(path).resolve()
    if paths is not None and not any(real.is_relative_to(path) for path in paths):
        outside = f"the path {real} is outside the repository"
        problem = f"{outside}, and the file that names the path is not trusted"
        fix = "copy that file into the repository, or leave out --untrusted"
        raise InputError(problem, fix=fix, place=named_at)


def is_stream(path: str | Path) -> bool:
    """Return True if a path is that of a pipe or another device, which can be read only once."""
    path = Path(path)
    return path.exists() and not path.is_file() and not path.is_dir()


class OnDisk:
    """A file that can be opened repeatedly: standard input (`-`) and pipes are copied to a temporary file.

    The copy is deleted by `delete_copy`, or when this object is garbage-collected.
    """

    def __init__(self, path: str | Path = "-") -> None:
        self.given = path
        self.delete_copy: Callable[[], object] = lambda: None
        """Delete the temporary copy, if there is one; it cannot be opened afterwards."""

    @functools.cached_property
    def path(self) -> Path:
        """The path of the file, or of the temporary copy of standard input or a pipe."""
        if str(self.given) != "-" and not is_stream(self.given):
            check_readable(self.given)
            return Path(self.given)
        import shutil  # not at the top, so that `germane rank` starts fast
        import tempfile

        with tempfile.NamedTemporaryFile(prefix="germane-", delete=False) as copy:

            def delete() -> None:
                Path(copy.name).unlink(missing_ok=True)
                _COPIES.pop(copy.name, None)

            self.delete_copy = weakref.finalize(self, delete)
            with opened(self.given) as stream:
                shutil.copyfileobj(stream, copy, _BUFFER)
        return copied(Path(copy.name), shown_name(self.given))


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """Context manager that opens a file (`-` is standard input), decompressed and without a byte-order mark.

    Raises InputError if the file is missing, damaged, an archive, UTF-16, or packed in another way.
    """
    name, piped = shown_name(path), str(path) == "-"
    place = SourceLocation(name)
    damage: list[type[Exception]] = [gzip.BadGzipFile, EOFError, zlib.error]
    try:
        if not piped:
            check_readable(path)
        with open(sys.stdin.fileno() if piped else path, "rb", 0, closefd=not piped) as raw:
            stream: io.BufferedReader = io.BufferedReader(raw, _BUFFER)
            packed = stream.peek(4)[:4]
            if packed[:2] == _GZIP:
                stream = io.BufferedReader(gzip.GzipFile(fileobj=stream), _BUFFER)
            elif packed == _ZSTANDARD:
                try:
                    import zstandard
                except ImportError:
                    fix = f"{install_extra('tables')}, or decompress the file"
                    problem = "reading .zst files needs the package zstandard"
                    raise InputError(problem, fix=fix, place=place) from None
                damage.append(zstandard.ZstdError)
                stream = io.BufferedReader(_Zstandard(stream, zstandard.ZstdDecompressor()), _BUFFER)
            start = stream.peek(1 << 16)
            kind = next((kind for magic, kind in _PACKED.items() if start.startswith(magic)), "")
            kind = "a tar archive" if start[_TAR] == b"ustar" else kind
            fix = "unpack the file, or save it as CSV UTF-8; only .gz and .zst are decompressed"
            if start.startswith(_UTF16):
                kind, fix = "encoded as UTF-16", "save the file as UTF-8"
            if kind:
                raise InputError(f"this file is {kind}", fix=fix, place=place)
            if start.startswith(_BOM):
                stream.read(3)
            yield stream
    except tuple(damage) as fault:
        problem = f"this compressed file is damaged: {fault}"
        raise InputError(problem, fix="compress the file again", place=place) from None
    except OSError as fault:
        fixes = {FileNotFoundError: "check the path", IsADirectoryError: "name a file in this folder"}
        problem = f"the file cannot be read: {fault.strerror or fault}"
        raise InputError(problem, fix=fixes.get(type(fault), ""), place=place) from None


@contextmanager
def whole_file(path: str | Path) -> Iterator[IO[bytes]]:
    """Context manager that opens a file for writing; an existing file is replaced when it is complete.

    A symbolic link is followed, and the mode of an existing file stays the same. A device or a pipe is
    written directly. An OSError names the file.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        target = path.resolve()
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        unfinished = target.with_name(f".germane-{secrets.token_hex(8)}.part")
        try:
            with unfinished.open("xb") as file:
                if target.exists():
                    unfinished.chmod(stat.S_IMODE(target.stat().st_mode))
                yield file
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as fault:
        if fault.filename is not None and not str(fault.filename).endswith(".part"):
            raise  # the error is about another file
        raise OSError(fault.errno, fault.strerror, str(path)) from None


def write_whole(path: str | Path, content: bytes | Iterable[str]) -> None:
    """Write bytes, or strings as UTF-8, to a file, which is replaced only when the new file is complete.

    Lone surrogates, as in file names that are not UTF-8, are escaped as in JSON.
    """
    with whole_file(path) as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            file.writelines(piece.encode("utf-8", "backslashreplace") for piece in content)


class _Zstandard(io.RawIOBase):
    """The decompressed bytes of Zstandard frames.

    Reading raises EOFError if the last frame is cut off, which the package's own `stream_reader` ignores.
    """

    def __init__(self, packed: BinaryIO, decompressor: Any) -> None:
        self._packed, self._decompressor = packed, decompressor
        self._frame: Any = None
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            ended = self._frame is None or self._frame.eof
            piece = (self._frame.unused_data if self._frame and ended else b"") or self._packed.read(_PIECE)
            if not piece and not ended:
                raise EOFError("it ended before the end of its last frame")
            if not piece:
                return 0
            if ended:
                self._frame = self._decompressor.decompressobj()
            self._left = memoryview(self._frame.decompress(piece))
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


def numbered_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, line) for each line of a stream that is not blank; line ends are removed."""
    for number, line in enumerate(stream, 1):
        if (stripped := line.rstrip(b"\r\n")) and not stripped.isspace():
            yield number, stripped


def decoded(line: bytes, name: str, number: int) -> str:
    """Decode line number `number` of the file `name` as UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError as fault:
        location = SourceLocation(name, number, len(line[: fault.start].decode()) + 1)
        problem = f"the byte 0x{line[fault.start]:02x} is not UTF-8"
        raise InputError(problem, fix="save the file as UTF-8", place=location) from None


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line with its line end) for each line of a UTF-8 file."""
    name = shown_name(path)
    with opened(path) as file:
        for number, line in enumerate(file, 1):
            yield number, decoded(line, name, number)


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file."""
    return "".join(line for _, line in read_lines(path))


def location_in(path: str | Path, text: str, offset: int | None, first_line: int = 1) -> SourceLocation:
    """Return the location of the character at `offset` in `text`, which starts on the line `first_line`.

    If `offset` is None, the location is that line.
    """
    if offset is None:
        return SourceLocation(shown_name(path), first_line)
    before = text[:offset]
    return SourceLocation(shown_name(path), first_line + before.count("\n"), offset - before.rfind("\n"))


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning about input: the problem, what to write instead (`fix`), and the first location (`place`)."""

    problem: str
    fix: str = ""
    place: SourceLocation | None = None

    def __str__(self) -> str:
        """Return `place: problem; fix` on one line, like InputError."""
        return str(InputError(self.problem, fix=self.fix, place=self.place))


Warn: TypeAlias = Callable[[Notice], None]


class Notices:
    """A collection of notices without duplicates.

    Calling it with a Notice adds the Notice; if it is new, it is also passed to the function `pass_on`.
    """

    def __init__(self, pass_on: Warn | None = None) -> None:
        self._seen: dict[tuple[str, str], Notice] = {}
        self._pass_on = pass_on

    def __call__(self, notice: Notice) -> None:
        """Add a notice and pass it on, unless a notice with the same problem and fix was added before."""
        key = (notice.problem, notice.fix)
        if key not in self._seen:
            self._seen[key] = notice
            if self._pass_on is not None:
                self._pass_on(notice)

    def __iter__(self) -> Iterator[Notice]:
        return iter(self._seen.values())


def nearest(name: str, names: Iterable[str], cutoff: float = 0.8) -> str | None:
    """Return the name that `name` probably misspells, or None.

    A name matches if its similarity by difflib is at least `cutoff`, or with its letters in another order.
    """
    import difflib

    folded = {fold(choice): choice for choice in reversed(list(names))}
    near = difflib.get_close_matches(fold(name), folded, n=1, cutoff=cutoff)
    near = near or [choice for choice in folded if sorted(choice) == sorted(fold(name))]
    return folded[near[-1]] if near else None


_decode_lines = msgspec.json.Decoder().decode_lines
_encode = msgspec.json.Encoder().encode
_COLON = re.compile(rb"\\u003[aA]")


def parse_json_lines(lines: bytes) -> list[Json]:
    """Parse JSON Lines, without their blank lines, much faster than `parse_strict_json`.

    Raises ValueError if a line may be invalid or have a duplicate key; `parse_strict_json` finds the error.
    """
    with suppress(RecursionError):
        values: list[Json] = _decode_lines(lines)
        # Decoding drops a duplicate key with its colon. Colons in strings stay. So the counts differ only then.
        if _encode(values).count(b":") == lines.count(b":") and not (b"\\" in lines and _COLON.search(lines)):
            return values
    raise ValueError
