"""Files as lines of text that know their number, and the places in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from germane.errors import InputError, Place
from germane.samples.opening import opened, shown_name
from germane.samples.wrong import Step
from germane.types import Json

__all__ = ["FieldOf", "Row", "Where", "place_in", "read_lines", "read_text"]

Where: TypeAlias = Callable[[Sequence[Step]], Place]
FieldOf: TypeAlias = Callable[[str], str | None]
"""What a key of a row means: the name of a field, None = metadata. For formats that cannot say what a value is."""
Row: TypeAlias = tuple[int, Json, Where]
"""What a reader yields: the row's number (its id where it has none), the row, and a way to its place."""


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file with their numbers, line ends kept."""
    with opened(path) as file:
        for number, raw in enumerate(file, 1):
            yield number, _decode(raw, path, number)


def read_text(path: Path) -> str:
    """The whole text of a UTF-8 file; InputError where it cannot be read."""
    return "".join(line for _, line in read_lines(path))


def place_in(path: Path, text: str, offset: int | None, first_line: int = 1) -> Place:
    """The place of an offset in a text that starts at `first_line` of a file."""
    if offset is None:
        return Place(shown_name(path), first_line)
    before = text[:offset]
    return Place(shown_name(path), first_line + before.count("\n"), offset - (before.rfind("\n") + 1) + 1)


def _decode(raw: bytes, path: Path, number: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode("utf-8")) + 1
        problem = f"the byte 0x{raw[error.start]:02x} is not UTF-8"
        raise InputError(
            problem, fix="save the file as UTF-8", place=Place(shown_name(path), number, column)
        ) from None
