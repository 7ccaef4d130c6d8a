"""The rows of a table in a file of JSON lines, and the error for a line that cannot be read."""

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
"""True for a line that is read."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of JSON lines, read as a stream. A missing file has no lines.

    A last line without its end is left out where it was cut off while it was written: in a file that is being written, and
    in labels.jsonl, which is appended to.
    """

    path: Path

    def lines(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the number, offset and text of each line."""
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
        """Iterate over what `row_of` makes of this file, the number and the text of each line that is kept."""
        return (row_of(self, number, line) for number, _, line in self.lines() if keep(line))

    def _is_torn(self, number: int, line: bytes) -> bool:
        if self.path.name != LABELS:
            return self.path.suffix == UNFINISHED
        if is_torn := torn_bytes(line) > 0:
            note_torn(self.path, number)
        return is_torn

    def decoded(self, number: int, line: bytes, decode: Callable[[bytes], T]) -> T:
        """Return what a decoder makes of a line; InputError if it is damaged."""
        try:
            return decode(line)
        except (ValueError, RecursionError):
            raise self.damaged(number) from None

    def row(self, number: int, line: bytes) -> Any:
        """Return the JSON object of a line; InputError if it is damaged."""
        row = self.decoded(number, line, decode)
        if not isinstance(row, dict):
            raise self.damaged(number)
        return row

    def whole_rows(self) -> Iterator[Any]:
        """Yield the JSON objects in the lines; a line cut off by a kill is skipped."""
        for _, _, line in self.lines():
            with suppress(ValueError, RecursionError):
                if isinstance(row := decode(line), dict):
                    yield row

    def at(self, offsets: Iterable[int]) -> Iterator[bytes]:
        """Iterate over the lines that begin at these offsets."""
        with self.path.open("rb") as content:
            for offset in offsets:
                content.seek(offset)
                yield content.readline()

    def place(self, number: int) -> SourceLocation:
        """Return the location of a line, for an error about it."""
        return SourceLocation(str(self.path), number)

    def damaged(self, number: int) -> InputError:
        """Return the error for a line that cannot be read."""
        fix = "restore the file, or run the evaluation again"
        if self.path.suffix == UNFINISHED:
            fix = "run again with --resume"
        elif self.path.name == LABELS:
            fix = "remove it: its answer is lost"
        return InputError("this line is damaged", fix=fix, place=self.place(number))

    def digest(self) -> str:
        """Return the SHA-256 of the file, in hex."""
        with self.path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class StoredRows(Generic[T]):
    """The rows of a table in a file, which is read each time that they are iterated over."""

    file: TableFile
    row_of: Callable[[TableFile, int, bytes], T]

    def __iter__(self) -> Iterator[T]:
        return self.file.read(self.row_of)


def with_texts(field: str, texts: Collection[str]) -> Keep:
    """Return a test of lines that is False only if a line cannot have one of these texts in a field."""
    name = encode(field) + b":"
    values = {encode(text) for text in texts}

    def keep(line: bytes) -> bool:
        start = line.find(name) + len(name)
        text = line[start : line.find(b'"', start + 1) + 1]
        return text in values or not text.startswith(b'"') or b"\\" in text

    return keep


def torn_bytes(line: bytes) -> int:
    """Return the length of an incomplete last line in these bytes of labels.jsonl; 0 if the last line is whole."""
    last = line[line.rfind(b"\n") + 1 :]
    try:
        whole = not last or isinstance(decode(last), dict)
    except (ValueError, RecursionError):
        whole = False
    return 0 if whole else len(last)


@cache
def note_torn(file: Path, number: int) -> None:
    """Warn once that the last line of labels.jsonl was cut off."""
    _log.warning("%s:%d: the last line was cut off; its answer is lost, the others count", file, number)
