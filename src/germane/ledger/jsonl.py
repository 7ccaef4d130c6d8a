"""Judgements as JSON lines: the format of ledger exports and of a report's judgements.jsonl.

A line is a flat object: it contains the fields of the judgement and of its provenance, without nulls.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

from msgspec import ValidationError

from germane.encoding import batched, decode, encode
from germane.errors import InputError, MissingPart, SourceLocation, explained, install_extra
from germane.ledger.store import Ledger
from germane.tables.judgements import load_judgement
from germane.types import Json, Judgement

_EXPORT = "name a file that `germane ledger export` wrote, or a report's judgements.jsonl"
_KEY = re.compile("[0-9a-f]{32}")


def readable(paths: Sequence[Path]) -> None:
    """Raise InputError if one of the files cannot be read."""
    for path in paths:
        if not (path.is_file() or _is_parquet(path)) or not os.access(path, os.R_OK):
            raise InputError(f"{path} is not a readable file", fix=_EXPORT)


def import_rows(ledger: Ledger, path: Path) -> tuple[int, int, int]:
    """Import judgements from a file; return how many were added, were already stored, and are errors.

    Errors are not imported. Raises InputError at the first line that is not a judgement, after earlier lines.
    """
    added, known, errors = 0, 0, 0
    for batch in batched(judgements_of(path)):
        answers = [judgement for judgement in batch if judgement.error is None]
        stored = ledger.put(answers)
        new = sum(stored[judgement.key] is judgement for judgement in answers)
        added, known, errors = added + new, known + len(answers) - new, errors + len(batch) - len(answers)
    return added, known, errors


def judgements_of(path: Path) -> Iterator[Judgement]:
    """Yield the judgements in a file. Raises InputError if it cannot be read or a line is not a judgement."""
    try:
        with nullcontext(_lines_of_parquet(path)) if _is_parquet(path) else path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if text.strip():
                    yield _judgement(text.strip(), SourceLocation(str(path), number))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}", fix=_EXPORT) from None


def _is_parquet(path: Path) -> bool:
    """Return True if the path is a folder as older versions of germane wrote."""
    return path.suffix == ".parquet" and path.is_dir()


def _lines_of_parquet(folder: Path) -> Iterator[bytes]:
    try:
        import polars as pl
    except ImportError:
        raise MissingPart(f"reading {folder} needs the package polars", fix=install_extra("tables")) from None
    for part in sorted(folder.glob("[0-9]*.parquet")):
        for row in pl.read_parquet(part).iter_rows(named=True):
            if (whole := row.pop("line")) is not None:
                yield whole.encode()
                continue
            nested = {name: decode(row.pop(name) or "null") for name in ("answer", "usage")}
            rest = decode(row.pop("provenance") or "{}")
            fields = {name: value for name, value in (row | nested).items() if value is not None}
            yield encode(fields | rest)


def _judgement(line: bytes, location: SourceLocation) -> Judgement:
    row: Json = None
    try:
        row = decode(line)
        judgement = load_judgement(row if isinstance(row, dict) else {})
    except ValidationError as error:
        raise explained(error, row).error(location) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"the line is not a judgement: {error}", fix=_EXPORT, place=location) from None
    problem = "" if _KEY.fullmatch(judgement.key) else "the field 'key' is not 32 hexadecimal digits"
    if judgement.error is None and judgement.answer is None:
        problem = "neither the field 'answer' nor 'error' is given"
    if problem:
        raise InputError(f"the line is not a judgement: {problem}", fix=_EXPORT, place=location)
    return judgement
