"""Files and rows to samples: the table of readers, and the checks that concern several samples at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from germane.errors import InputError, Place
from germane.samples.jsonfile import read_json
from germane.samples.jsonl import read_jsonl
from germane.samples.jsontext import whole
from germane.samples.notices import Notices, Warn
from germane.samples.rows import Columns, RowReader
from germane.samples.seen import Seen
from germane.samples.source import FieldOf, Row
from germane.samples.tables import read_table
from germane.samples.wrong import Step
from germane.types import Json, Sample

__all__ = ["READERS", "read_samples", "samples_from"]

Reader: TypeAlias = Callable[[Path, FieldOf], Iterator[Row]]
READERS: dict[str, tuple[Reader, str]] = {
    ".jsonl": (read_jsonl, "line"),
    ".ndjson": (read_jsonl, "line"),
    ".json": (read_json, "row"),
    ".csv": (functools.partial(read_table, ","), "line"),
    ".tsv": (functools.partial(read_table, "\t"), "line"),
}
"""The reader of each extension, which .gz may follow, and what it counts."""


def read_samples(
    path: str | Path, *, columns: Columns | None = None, warn: Warn | None = None
) -> Iterator[Sample]:
    """The samples of a file, one at a time; the extension says which format it is.

    `columns` maps our field names to the file's (`{"query": "Question"}`). `warn` gets a Notice for each field
    that is probably misspelt, once each. Raises InputError, with file, line and column, at the first thing that
    is wrong; for a missing file, at once.
    """
    path = Path(path)
    reader, unit = _format(path)
    if not path.exists():
        raise InputError("there is no such file", fix="check the path", place=Place(str(path)))
    rows = _rows(columns, warn)
    return _samples(reader(path, rows.field_of), rows, Place(str(path)), unit)


def samples_from(
    rows: Iterable[Mapping[str, Json] | Sample], *, columns: Columns | None = None, warn: Warn | None = None
) -> Iterator[Sample]:
    """The samples that dicts describe, by the same rules as a line of JSONL; a Sample passes as it is."""
    return _samples(_numbered(rows), _rows(columns, warn), Place("samples"), "row")


def _rows(columns: Columns | None, warn: Warn | None) -> RowReader:
    return RowReader(columns, Notices(warn) if warn is not None else None)


def _format(path: Path) -> tuple[Reader, str]:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
    if not suffixes or suffixes[-1] not in READERS:
        fix = f"name it {' or '.join(READERS)}"
        raise InputError("this is no format of samples that can be read", fix=fix, place=Place(str(path)))
    return READERS[suffixes[-1]]


def _numbered(rows: Iterable[Mapping[str, Json] | Sample]) -> Iterator[Row]:
    for number, row in enumerate(rows, 1):
        shown = whole(dict(row)) if isinstance(row, Mapping) else row
        yield number, shown, functools.partial(_numbered_place, number)


def _numbered_place(number: int, _: Sequence[Step]) -> Place:
    return Place("samples", number)


def _samples(rows: Iterator[Row], reader: RowReader, file: Place, unit: str) -> Iterator[Sample]:
    """The rows, read and checked against each other."""
    seen = Seen()
    for number, row, where in rows:
        sample = row if isinstance(row, Sample) else reader.read(row, number, where)
        first = seen.first((sample.id, sample.system, sample.trial), number)
        if first != number:
            raise _twice(sample, f"{unit} {first}", where(()))
        yield sample
    if not len(seen):
        raise InputError(
            "there are no samples in it", fix='write one object a line: {"query": "..."}', place=file
        )


def _twice(sample: Sample, first: str, place: Place) -> InputError:
    more = f", system {sample.system!r}" if sample.system else ""
    more += f", trial {sample.trial}" if sample.trial else ""
    problem = f"the id {sample.id!r}{more} is there already, on {first}"
    return InputError(problem, fix="give each sample its own id, system or trial", place=place)
