"""Judgements as JSON lines: out of a ledger, and into one. The rows are those of a report's judgements.jsonl.

A row is flat: the fields of a judgement, and what its provenance says, side by side; what is null is left out.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from germane.encoding import decode
from germane.errors import InputError, SourceLocation
from germane.ledger import files_of
from germane.ledger.store import Ledger
from germane.tables.judgements import load_judgement
from germane.tables.stored import is_parts, lines_in_parts
from germane.types import Json, Judgement

_BATCH = 1000
_DEEPEST = 100
_EXPORT = "name a file that `germane ledger export` wrote, or a report's judgements.jsonl"


def _utc(text: str) -> str:
    """A time with its zone as it is stored: in UTC, to milliseconds."""
    time_ = datetime.datetime.fromisoformat(text)
    if time_.tzinfo is None:
        raise ValueError(f"{text} has no zone")
    try:
        return time_.astimezone(datetime.UTC).isoformat(timespec="milliseconds")
    except OverflowError as error:
        raise ValueError(str(error)) from None


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it cannot be printed")
    return text


_Text: TypeAlias = Annotated[str, AfterValidator(_printable)]
_Name: TypeAlias = Annotated[_Text, Field(min_length=1)]
_Count: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 63)]
_Amount: TypeAlias = Annotated[float, Field(ge=0, lt=1 << 63, allow_inf_nan=False)]


class _UsageRow(BaseModel):
    """The checks of a row's `usage`; a description says what to write."""

    model_config = ConfigDict(strict=True)

    requests: _Count = Field(default=0, description="a whole number")
    input: _Count = Field(default=0, description="a whole number of tokens")
    output: _Count = Field(default=0, description="a whole number of tokens")
    cost_usd: _Amount | None = Field(
        default=None, description="an amount of US dollars, or null where it is not known"
    )


class _JudgementRow(BaseModel):
    """The checks of a row; a description says what to write."""

    model_config = ConfigDict(strict=True)

    key: str = Field(pattern=r"\A[0-9a-fA-F]{32}\z", description="32 hexadecimal digits")
    item: _Text = Field(default="", description="the digest of what was judged")
    kind: _Name = Field(description='the kind of question, such as "relevance"')
    judge: _Name = Field(description="the judge's name")
    prompt: _Text = Field(default="", description="the hash of the prompt, or nothing")
    error: str | None = Field(default=None, description="a text")
    parent: _Text | None = Field(
        default=None, description="the key of the judgement that this one was merged into"
    )
    request: _Text | None = Field(default=None, description="the name of a request")
    usage: _UsageRow = Field(default=_UsageRow(), description='an object, such as {"requests": 1}')
    ms: _Amount | None = Field(default=None, description="a number of milliseconds")
    at: Annotated[str, AfterValidator(_utc)] | None = Field(
        default=None, description="a time with its zone, such as 2026-11-21T15:00:00+00:00"
    )


@dataclass(slots=True)
class Imported:
    """The numbers of imported lines that were new, had an answer under their key already (it stays), and were errors."""

    added: int = 0
    known: int = 0
    errors: int = 0


def readable(paths: Sequence[Path]) -> None:
    """InputError where one of the files cannot be read."""
    for path in paths:
        if not (path.is_file() or is_parts(path)) or not os.access(path, os.R_OK):
            raise InputError(f"{path} is not a file that can be read", fix=_EXPORT)


def import_rows(ledger: Ledger, path: Path) -> Imported:
    """Put the judgements of a JSONL file into a ledger, all or none of a batch; the first answer to a key stays.

    Raises InputError at the first line that is not a judgement; what stood before it may be in the ledger.
    """
    done, batch = Imported(), dict[str, Judgement]()
    for judgement in judgements_of(path):
        if judgement.error is not None:
            done.errors += 1
        elif judgement.key in batch:
            done.known += 1
        else:
            batch[judgement.key] = judgement
        if len(batch) >= _BATCH:
            _put(ledger, batch, done)
    _put(ledger, batch, done)
    return done


def _put(ledger: Ledger, batch: dict[str, Judgement], done: Imported) -> None:
    stands = ledger.put(list(batch.values()))
    added = sum(stands[key] is judgement for key, judgement in batch.items())
    done.added += added
    done.known += len(batch) - added
    batch.clear()


def judgements_of(path: Path) -> Iterator[Judgement]:
    """The judgements of a JSONL file or of a report's judgements.parquet, errors among them; InputError at the first line that is none."""
    try:
        with nullcontext(lines_in_parts(path)) if is_parts(path) else path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if text.strip():
                    yield _judgement(text.strip(), SourceLocation(str(path), number))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}", fix=_EXPORT) from None


def _judgement(line: bytes, place: SourceLocation) -> Judgement:
    try:
        row = decode(line)
        if not isinstance(row, dict):
            raise InputError("this is not a JSON object", fix=_EXPORT, place=place)
        if _depth(row) > _DEEPEST:
            raise InputError(
                f"it is nested deeper than {_DEEPEST} levels", fix="leave this line out", place=place
            )
        checked = _JudgementRow.model_validate(row)
        if row.get("error") is None and row.get("answer") is None:
            raise InputError(
                "there is neither an answer nor an error", fix="write the judge's answer", place=place
            )
        return load_judgement({**row, "key": checked.key.lower(), "at": checked.at})
    except ValidationError as error:
        raise _explained(error, place) from None
    except (ValueError, RecursionError) as error:
        problem = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"this is not a judgement: {problem}", fix=_EXPORT, place=place) from None


def _explained(error: ValidationError, place: SourceLocation) -> InputError:
    """The first thing that is wrong with a row, and what to write instead."""
    result = error.errors()[0]
    where = [str(part) for part in result["loc"]]
    fields = _UsageRow.model_fields if len(where) > 1 else _JudgementRow.model_fields
    text = f"cannot be {json.dumps(result['input'])[:60]}" if result["type"] != "missing" else "is missing"
    return InputError(f"{'.'.join(where)} {text}", fix=f"write {fields[where[-1]].description}", place=place)


def _depth(value: Json) -> int:
    """The depth of a JSON value, as far as it matters."""
    level: list[Any] = [value]
    result = 0
    while level and result <= _DEEPEST:
        inner = (
            value.values() if isinstance(value, dict) else value
            for value in level
            if isinstance(value, dict | list)
        )
        level, result = [value for many in inner for value in many], result + 1
    return result


@contextmanager
def written(path: Path, ledger: Path | None) -> Iterator[IO[bytes]]:
    """A file that appears whole or not at all: what stands under its name stays until all is written.

    InputError where that is a file of the ledger itself.
    """
    for own in files_of(ledger) if ledger is not None else ():
        if own.exists() and path.exists() and path.samefile(own):
            raise InputError(f"{path} is the ledger's own file", fix="name another file")
    if path.exists() and not path.is_file():  # a pipe, /dev/stdout
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()  # a link stays one: /dev/stdout is one, and may lead to a file
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        with part.open("xb") as file:
            yield file
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
