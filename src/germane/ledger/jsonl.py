"""Judgements as JSON lines, exported from and imported into a ledger, with the rows of judgements.jsonl.

A row is flat: the fields of a judgement, and what its provenance says, side by side; what is null is left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from msgspec import ValidationError, structs

from germane.encoding import decode, encode
from germane.errors import InputError, Invalid, MissingPart, SourceLocation, describe, install_extra
from germane.ledger.address import files_of
from germane.ledger.store import Ledger
from germane.samples.fields import explained
from germane.samples.files import whole_file
from germane.tables.columns import batched
from germane.tables.judgements import load_judgement
from germane.types import Json, Judgement

_BATCH = 1000
_EXPORT = "name a file that `germane ledger export` wrote, or a report's judgements.jsonl"
_KEY = re.compile("[0-9a-fA-F]{32}")


def _utc(text: str) -> str:
    """Return a time as stored: in UTC, to milliseconds."""
    with suppress(ValueError, OverflowError):
        if (time := datetime.fromisoformat(text)).tzinfo is not None:
            return time.astimezone(UTC).isoformat(timespec="milliseconds")
    fix = "write a time with its zone, such as 2026-11-21T15:00:00+00:00"
    raise Invalid(f"is {describe(text)}", fix, "at")


def readable(paths: Sequence[Path]) -> None:
    """Raise InputError if one of the files cannot be read."""
    for path in paths:
        if not (path.is_file() or _is_parquet(path)) or not os.access(path, os.R_OK):
            raise InputError(f"{path} is not a file that can be read", fix=_EXPORT)


def import_rows(ledger: Ledger, path: Path) -> tuple[int, int, int]:
    """Import a JSONL file's judgements; return how many were added, were known already, and are errors.

    The first answer to a key stays. Raises InputError at the first line that is not a judgement; what stood before it may be in the ledger.
    """
    added, known, errors = 0, 0, 0
    for some in batched(judgements_of(path), _BATCH):
        answers = [judgement for judgement in some if judgement.error is None]
        stored = ledger.put(answers)
        new = sum(stored[judgement.key] is judgement for judgement in answers)
        added, known, errors = added + new, known + len(answers) - new, errors + len(some) - len(answers)
    return added, known, errors


def judgements_of(path: Path) -> Iterator[Judgement]:
    """Yield the judgements of a JSONL file or judgements.parquet, errors included; InputError at the first invalid line."""
    try:
        with nullcontext(_lines_of_parquet(path)) if _is_parquet(path) else path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if text.strip():
                    yield _judgement(text.strip(), SourceLocation(str(path), number))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}", fix=_EXPORT) from None


def _is_parquet(path: Path) -> bool:
    """Return True for the folder judgements.parquet of an earlier germane."""
    return path.suffix == ".parquet" and path.is_dir()


def _lines_of_parquet(folder: Path) -> Iterator[bytes]:
    """Yield the judgements of such a folder as lines; its columns hold texts, numbers and JSON."""
    try:
        import polars as pl
    except ImportError:
        raise MissingPart(f"{folder} needs polars", fix=install_extra("tables")) from None
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
    """Return the judgement in a line of an export. Raises InputError."""
    row: Json = None
    try:
        if not isinstance(row := decode(line), dict):
            raise Invalid(f"is {describe(row)}", "write an object")  # noqa: TRY301
        judgement = load_judgement(row)
        _check(judgement)
        at = judgement.at and _utc(judgement.at)
        return structs.replace(judgement, key=judgement.key.lower(), at=at)
    except ValidationError as error:
        raise explained(error, row).error(location) from None
    except Invalid as error:
        raise error.error(location) from None
    except (ValueError, RecursionError) as error:
        problem = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"this is not a judgement: {problem}", fix=_EXPORT, place=location) from None


def _check(judgement: Judgement) -> None:
    """Raise Invalid for a key that is none, a name that cannot be printed, or a row with neither an answer nor an error."""
    if not _KEY.fullmatch(judgement.key):
        raise Invalid("is not a ledger key of 32 hexadecimal digits", "export the judgements again", "key")
    for name in ("kind", "judge", "item", "prompt", "parent", "request"):
        if not (getattr(judgement, name) or "").isprintable():
            raise Invalid("cannot be printed", "leave control characters out", name)
    if judgement.error is None and judgement.answer is None:
        raise Invalid("there is neither an answer nor an error", "write the judge's answer")


@contextmanager
def written(path: Path, ledger: Path | None) -> Iterator[IO[bytes]]:
    """Open a file that replaces the old one only when it is completely written.

    InputError where that is a file of the ledger itself.
    """
    for own in files_of(ledger) if ledger is not None else ():
        if own.exists() and path.exists() and path.samefile(own):
            raise InputError(f"{path} is the ledger's own file", fix="name another file")
    with whole_file(path) as file:
        yield file
