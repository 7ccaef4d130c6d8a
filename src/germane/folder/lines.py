"""Read the rows of a table from a file of JSON lines; an error names the line that cannot be read."""

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
from germane.tables.judgements import load_judgement
from germane.tables.labels import Label, decode_label, load_label
from germane.types import Judgement

__all__ = ["KEY", "TableFile"]

_log = logging.getLogger("germane")

T = TypeVar("T")
Keep = Callable[[bytes], bool]
"""A test of a line: True if the line is to be read."""

KEY = slice(8, 40)
"""The position of the key in a line of judgements.jsonl, which begins with `{"key":"..."`."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of JSON lines that is read as a stream; a missing file counts as empty.

    A last line that was cut off is skipped in a file that is still being written and in labels.jsonl, which
    is appended to; in all other files it is an error.
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
        except InputError as invalid:
            error = invalid
        except (ValueError, RecursionError):
            fix = "restore the file, or run the evaluation again"
            if self.path.suffix == UNFINISHED:
                fix = "run again with --resume"
            elif self.path.name == LABELS:
                fix = "remove the line: the answer in it is lost"
            error = InputError("this line is damaged or cut off", fix=fix)
        raise error.at(SourceLocation(str(self.path), number))

    def at(self, offsets: Iterable[int]) -> Iterator[bytes]:
        """Yield the lines that begin at these byte offsets."""
        with self.path.open("rb") as content:
            for offset in offsets:
                content.seek(offset)
                yield content.readline()

    def digest(self) -> str:
        """Return the SHA-256 of the file, in hex."""
        with self.path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class StoredRows(Generic[T]):
    """Rows of a table in a file, which is read anew each time that the rows are iterated over.

    `decode` returns the row in a line; lines for which `keep` returns False are left out.
    """

    file: TableFile
    decode: Callable[[bytes], T]
    keep: Keep | None = None

    def __iter__(self) -> Iterator[T]:
        for number, _, line in self.file.lines():
            if self.keep is None or self.keep(line):
                yield self.file.decoded(number, line, self.decode)


def object_in(line: bytes) -> dict[str, Any]:
    """Return the JSON object in a line. Raises ValueError or RecursionError if there is none."""
    row = decode(line)
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - as other lines that are no row
    return row


def judgement_in(line: bytes) -> Judgement:
    """Return the judgement in a line of judgements.jsonl. Raises an error if the line is damaged."""
    return load_judgement(object_in(line))


def earlier_judgements(files: Iterable[Path]) -> Iterator[Judgement]:
    """Yield the judgements that earlier sessions left in files; a line cut off by a kill is skipped."""
    for file in files:
        for _, _, line in TableFile(file).lines():
            with suppress(ValueError, RecursionError, TypeError, AttributeError):
                yield judgement_in(line)


def label_in(line: bytes) -> Label:
    """Return the label in a line of labels.jsonl. Raises InputError if the label is invalid."""
    try:
        return decode_label(line)
    except (ValueError, RecursionError):
        return load_label(object_in(line))


def with_texts(field: str, texts: Collection[str]) -> Keep:
    """Return a fast test of lines: True if the text in `field` may be one of these, False if it is not."""
    name = encode(field) + b":"
    values = {encode(text) for text in texts}

    def keep(line: bytes) -> bool:
        start = line.find(name) + len(name)
        text = line[start : line.find(b'"', start + 1) + 1]
        return text in values or not text.startswith(b'"') or b"\\" in text

    return keep


def torn_bytes(line: bytes) -> int:
    """Return the number of bytes of a last line that was cut off; 0 if the last line is complete."""
    last = line[line.rfind(b"\n") + 1 :]
    try:
        if last:
            object_in(last)
    except (ValueError, RecursionError):
        return len(last)
    return 0


@cache
def note_torn(file: Path, number: int) -> None:
    """Log a warning, once per file, that the last line of labels.jsonl was cut off."""
    _log.warning("%s:%d: the last line was cut off: its answer is lost, all other labels count", file, number)
