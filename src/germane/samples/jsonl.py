"""JSON Lines: one sample a line, read one at a time."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

from germane.errors import InputError, Place
from germane.samples.jsontext import JsonFault, decode, locate
from germane.samples.source import FieldOf, Row, place_in, read_lines
from germane.samples.wrong import Step

__all__ = ["read_jsonl"]


def read_jsonl(path: Path, _: FieldOf) -> Iterator[Row]:
    """The objects of a JSON Lines file; blank lines are passed over."""
    for number, line in read_lines(path):
        if line.isspace():
            continue
        try:
            row = decode(line.rstrip("\r\n"))
        except JsonFault as fault:
            raise _error(path, number, line, fault) from None
        yield number, row, functools.partial(_place, path, number, line)


def _place(path: Path, number: int, line: str, steps: Sequence[Step]) -> Place:
    return place_in(path, line, locate(line, steps) if steps else None, number)


def _error(path: Path, number: int, line: str, fault: JsonFault) -> InputError:
    fix = fault.fix
    if number == 1 and line.strip() in {"[", "{"}:
        fix = "this looks like one JSON document: name the file .json, or write one object a line"
    return InputError(fault.problem, fix=fix, place=place_in(path, line, fault.offset, number))
