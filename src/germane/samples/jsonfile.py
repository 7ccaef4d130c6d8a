"""One JSON document: an array of samples, or an object that holds one."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

from germane.errors import InputError, Place
from germane.samples.jsontext import JsonFault, decode, locate
from germane.samples.source import FieldOf, Row, place_in, read_text
from germane.samples.wrong import Step
from germane.types import Json

__all__ = ["HOLDERS", "read_json"]

HOLDERS = ("samples", "data", "rows", "examples", "items", "test_cases", "results")
"""The keys under which an object may hold its array of samples."""


def read_json(path: Path, _: FieldOf) -> Iterator[Row]:
    """The samples of a JSON document, numbered from 1."""
    text = read_text(path)
    if not text.strip():
        return
    try:
        document = decode(text)
    except JsonFault as fault:
        fix = fault.fix
        if fault.problem.endswith("extra data"):
            fix = "one object a line is JSON Lines: name the file .jsonl"
        raise InputError(fault.problem, fix=fix, place=place_in(path, text, fault.offset)) from None
    prefix, rows = _rows(document, path)
    for index, row in enumerate(rows):
        yield index + 1, row, functools.partial(_place, path, text, (*prefix, index))


def _rows(document: Json, path: Path) -> tuple[tuple[Step, ...], list[Json]]:
    if isinstance(document, list):
        return (), document
    if isinstance(document, dict):
        for holder in HOLDERS:
            if isinstance(document.get(holder), list):
                return (holder,), document[holder]
    fix = f"write an array of samples, or an object with one under {' or '.join(HOLDERS[:2])}"
    raise InputError("this document holds no array of samples", fix=fix, place=Place(str(path), 1))


def _place(path: Path, text: str, prefix: tuple[Step, ...], steps: Sequence[Step]) -> Place:
    return place_in(path, text, locate(text, (*prefix, *steps)) or locate(text, prefix))
