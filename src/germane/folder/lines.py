"""Read the rows of a table from a file of JSON lines, and make the error for a line that cannot be read."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from germane.encoding import decode, encode
from germane.errors import InputError, SourceLocation
from germane.folder.layout import LABELS, UNFINISHED

__all__ = ["TableFile"]

_log = logging.getLogger("germane")

T = TypeVar("T")
Keep = Callable[[bytes], bool]
"""A test of a line: True if the line is to be read."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of JSON lines that is read as a stream; a missing file counts as empty.

    A last line that was cut off is left out in files that can lawfully end so: a file that is being written,
    and labels.jsonl, to which people append.
    """

    path: Path

    def lines(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the line number, the byte offset and the bytes of each line."""
        if not self.path.is_file():
            return
        offset = 0
        with self.path.open("rb") as content:
            for number, line in enumerate(content, 1):
                if not line.endswith(b"\n") and self._is_torn(number, line):
                    return
                yield number, offset, line
                offset += len(line)

    def read(self, row_of: Callable[[TableFile, int, bytes], T], keep: Keep = lambda _: True) -> Iterator[T]:
        """Yield `row_of(file, line number, line)` for each line for which `keep` returns True."""
        return (row_of(self, number, line) for number, _, line in self.lines() if keep(line))

    def _is_torn(self, number: int, line: bytes) -> bool:
        if self.path.name != LABELS:
            return self.path.suffix == UNFINISHED
        if is_torn := torn_bytes(line) > 0:
            note_torn(self.path, number)
        return is_torn

    def decoded(self, number: int, line: bytes, decode: Callable[[bytes], T]) -> T:
        """Return `decode(line)`. Raises InputError with the line number if the line is damaged."""
        try:
            return decode(line)
        except (ValueError, RecursionError):
            raise self.damaged(number) from None

    def row(self, number: int, line: bytes) -> Any:
        """Return the JSON object in a line. Raises InputError with the line number if the line is damaged."""
        row = self.decoded(number, line, decode)
        if not isinstance(row, dict):
            raise self.damaged(number)
        return row

    def whole_rows(self) -> Iterator[Any]:
        """Yield the JSON objects in the lines; a line that is none, such as one cut off, is skipped."""
        for _, _, line in self.lines():
            with suppress(ValueError, RecursionError):
                if isinstance(row := decode(line), dict):
                    yield row

    def at(self, offsets: Iterable[int]) -> Iterator[bytes]:
        """Yield the lines that begin at these byte offsets."""
        with self.path.open("rb") as content:
            for offset in offsets:
                content.seek(offset)
                yield content.readline()

    def place(self, number: int) -> SourceLocation:
        """Return the file and line number, for an error message about the line."""
        return SourceLocation(str(self.path), number)

    def damaged(self, number: int) -> InputError:
        """Return the InputError that says that the line with this number cannot be read."""
        fix = "restore the file, or run the evaluation again"
        if self.path.suffix == UNFINISHED:
            fix = "run again with --resume"
        elif self.path.name == LABELS:
            fix = "remove the line: the answer in it is lost"
        return InputError("this line is damaged or cut off", fix=fix, place=self.place(number))

    def digest(self) -> str:
        """Return the SHA-256 of the file, in hex."""
        with self.path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class StoredRows(Generic[T]):
    """The rows of a table in a file; the file is read anew each time that the rows are iterated over."""

    file: TableFile
    row_of: Callable[[TableFile, int, bytes], T]

    def __iter__(self) -> Iterator[T]:
        return self.file.read(self.row_of)


def with_texts(field: str, texts: Collection[str]) -> Keep:
    """Return a test of lines: False only if the text in `field` is certainly none of these texts."""
    name = encode(field) + b":"
    values = {encode(text) for text in texts}

    def keep(line: bytes) -> bool:
        start = line.find(name) + len(name)
        text = line[start : line.find(b'"', start + 1) + 1]
        return text in values or not text.startswith(b'"') or b"\\" in text

    return keep


def torn_bytes(line: bytes) -> int:
    """Return the length of the cut-off last line in bytes of labels.jsonl; 0 if the last line is whole."""
    last = line[line.rfind(b"\n") + 1 :]
    try:
        whole = not last or isinstance(decode(last), dict)
    except (ValueError, RecursionError):
        whole = False
    return 0 if whole else len(last)


@cache
def note_torn(file: Path, number: int) -> None:
    """Log a warning, once per file, that the last line of labels.jsonl was cut off."""
    _log.warning("%s:%d: the last line was cut off: its answer is lost, all other labels count", file, number)
