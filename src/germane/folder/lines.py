"""The rows of a table in a file of JSON lines, and the error for a line that cannot be read."""

from __future__ import annotations

import hashlib
import logging
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from germane.encoding import decode, encode
from germane.errors import InputError, SourceLocation
from germane.folder.layout import LABELS, UNFINISHED

__all__ = ["TableFile"]

_log = logging.getLogger("germane")

_BLOCK = 1 << 20
"""Bytes of a file that are looked at together."""

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
Keep = Callable[[bytes], bool]
"""True for a line that is read, or for a block of lines in which one may be."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of JSON lines, read as a stream. A missing file has no lines.

    A last line without its end is left out where it was cut off while it was written: in a file that is being written, and
    in labels.jsonl, which is appended to.
    """

    path: Path

    def lines(self, keep: Keep = lambda _: True) -> Iterator[tuple[int, int, bytes]]:
        """Yield the number, offset and text of each line, in the blocks that are kept."""
        for number, offset, lines in self.blocks(keep):
            start = offset
            for n, line in enumerate(lines, number):
                yield n, start, line
                start += len(line)

    def read(self, row_of: Callable[[TableFile, int, bytes], T], keep: Keep = lambda _: True) -> Iterator[T]:
        """Iterate over what `row_of` makes of this file, the number and the text of each line that is kept."""
        return (row_of(self, number, line) for number, _, line in self.lines() if keep(line))

    def blocks(self, keep: Keep = lambda _: True) -> Iterator[tuple[int, int, list[bytes]]]:
        """Yield some thousands of lines at a time, with the number and offset of the first.

        InputError where the file is a device or a pipe.
        """
        if not self.path.exists():
            return
        if not self.path.is_file():
            fix = "put the report's own file there"
            raise InputError("this is not a regular file", fix=fix, place=SourceLocation(str(self.path)))
        number, offset = 1, 0
        with self.path.open("rb") as content:
            while block := content.read(_BLOCK) + content.readline():
                if keep(block):
                    lines = BytesIO(block).readlines()
                    last = number + len(lines) - 1
                    torn = not block.endswith(b"\n") and self._is_torn(last, lines[-1])
                    yield number, offset, lines[:-1] if torn else lines
                number, offset = number + block.count(b"\n"), offset + len(block)

    def _is_torn(self, number: int, line: bytes) -> bool:
        if self.path.name != LABELS:
            return self.path.suffix == UNFINISHED
        if is_torn := torn_bytes(line) > 0:
            note_torn(self.path, number)
        return is_torn

    def records(
        self,
        decode_lines: Callable[[bytes], list[S]],
        decode_row: Callable[[Any, SourceLocation], S],
        keep: Keep | None = None,
    ) -> Iterator[S]:
        """Yield the records of the lines that are kept.

        Many lines are decoded together. Where one of them is refused, each is decoded by itself: `decode_row` makes the
        record of a JSON object, or raises InputError with the line's place.
        """
        for number, _, lines in self.blocks():
            kept = lines if keep is None else list(filter(keep, lines))
            try:
                records = decode_lines(b"".join(kept))
            except (ValueError, RecursionError, InputError):
                records = []
            if len(records) == len(kept):
                yield from records
                continue
            for n, line in enumerate(lines, number):
                if keep is None or keep(line):
                    yield decode_row(self.row(n, line), self.place(n))

    def structs(self, kind: type[S], keep: Keep | None = None) -> Iterator[S]:
        """Yield the records of a type in the lines that are kept; InputError names a damaged line."""

        def decode_row(row: Any, place: SourceLocation) -> S:
            try:
                return msgspec.convert(row, kind)
            except msgspec.ValidationError:
                raise self.damaged(place.line) from None

        return self.records(msgspec.json.Decoder(kind).decode_lines, decode_row, keep)

    def row(self, number: int, line: bytes) -> Any:
        """Return the JSON object of a line; InputError if it is damaged."""
        try:
            row = decode(line)
        except (ValueError, RecursionError):
            row = None
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
    read: Callable[[TableFile], Iterator[T]]

    def __iter__(self) -> Iterator[T]:
        return self.read(self.file)


_NAME = np.dtype("S16")
"""The bytes of a short name: all of them are compared, as every name is as long."""


class LineIndex:
    """The offsets of lines in a file by the short name of each: 24 bytes per line."""

    def __init__(self) -> None:
        self._names, self._offsets = bytearray(), array("q")

    def add(self, name: bytes, offset: int) -> None:
        """Add a line; only before the first search."""
        self._names += name
        self._offsets.append(offset)

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.bytes_], NDArray[np.int64]]:
        """The names in ascending order, lines of one name as they were added, and the offset of each."""
        names = np.frombuffer(bytes(self._names), _NAME)
        order = np.argsort(names, kind="stable")
        self._names = bytearray()
        return names[order], np.array(self._offsets, dtype=np.int64)[order]

    def find(self, names: Iterable[bytes]) -> list[int]:
        """Return the offset of the first line of each of these names; -1 where there is none."""
        (known, offsets), wanted = self._sorted, np.frombuffer(b"".join(names), _NAME)
        if not len(known):
            return [-1] * len(wanted)
        at = np.searchsorted(known, wanted).clip(0, len(known) - 1)
        result: list[int] = np.where(known[at] == wanted, offsets[at], -1).tolist()
        return result


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
