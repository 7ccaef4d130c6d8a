"""Judgements from JSON lines into a ledger: every field is looked at, and a line that is wrong is named."""

from __future__ import annotations

import datetime
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from germane.encoding import decode
from germane.errors import InputError, Place
from germane.judging.ledger import SQLiteLedger
from germane.tables.judgements import load_judgement
from germane.types import Json, Judgement

__all__ = ["Imported", "import_rows", "readable"]

_BATCH = 1000
_DEEPEST = 100
_EXPORT = "name a file that `germane ledger export` wrote, or a report's judgements.jsonl"
_KEY = re.compile(r"[0-9a-fA-F]{32}")
_MANY = 1 << 63


@dataclass(slots=True)
class Imported:
    """What became of an import's lines: new ones, those whose key had an answer (it stays), errors left out."""

    added: int = 0
    known: int = 0
    errors: int = 0


def readable(paths: Sequence[Path]) -> None:
    """InputError where one of the files cannot be read."""
    for path in paths:
        if not path.exists() or path.is_dir() or not os.access(path, os.R_OK):
            raise InputError(f"{path} is no file that can be read", fix=_EXPORT)


def import_rows(ledger: SQLiteLedger, path: Path) -> Imported:
    """Put the judgements of a JSONL file into a ledger, all or none of a batch; the first answer to a key stays.

    Raises InputError at the first line that is no judgement; what stood before it may be in the ledger.
    """
    done, batch = Imported(), dict[str, Judgement]()
    for judgement in _judgements(path):
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


def _put(ledger: SQLiteLedger, batch: dict[str, Judgement], done: Imported) -> None:
    added = ledger.add(list(batch.values()))
    done.added += added
    done.known += len(batch) - added
    batch.clear()


def _judgements(path: Path) -> Iterator[Judgement]:
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if text.strip():
                    yield _judgement(text.strip(), Place(str(path), number))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}", fix=_EXPORT) from None


def _judgement(line: bytes, place: Place) -> Judgement:
    try:
        row = decode(line)
        if not isinstance(row, dict):
            _refuse("this is no JSON object", _EXPORT)
        if _depth(row) > _DEEPEST:
            _refuse(f"it is nested deeper than {_DEEPEST} levels", "leave this line out")
        return load_judgement(_checked(row))
    except InputError as error:
        raise error.at(place) from None
    except (ValueError, RecursionError) as error:
        problem = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"this is no judgement: {problem}", fix=_EXPORT, place=place) from None


def _checked(row: dict[str, Json]) -> dict[str, Json]:
    """A row with its key and time as the ledger writes them; InputError where a field is not what it must be."""
    for name, (right, wanted) in _FIELDS.items():
        if not right(row.get(name, _ABSENT)):
            _refuse(f"{name} {_shown(row, name)}", f"write {wanted}")
    if row.get("error") is None and row.get("answer") is None:
        _refuse("there is neither an answer nor an error", "write the judge's answer")
    used = row.get("usage", {})
    for name, (right, wanted) in _USAGE.items():
        if not right(used.get(name, _ABSENT)):
            _refuse(f"usage.{name} {_shown(used, name)}", f"write {wanted}")
    at = row.get("at")
    return {**row, "key": row["key"].lower()} | ({"at": _utc(at)} if at is not None else {})


def _utc(text: str) -> str:
    """A time as the ledger writes it; ValueError where the text is no time with a zone."""
    found = datetime.datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text} has no zone")
    return found.astimezone(datetime.UTC).isoformat(timespec="milliseconds")


_ABSENT = object()
Test = Callable[[Any], bool]


def _key(value: Any) -> bool:
    return isinstance(value, str) and _KEY.fullmatch(value) is not None


def _name(value: Any) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MANY


def _amount(value: Any) -> bool:
    return type(value) in {int, float} and 0 <= value < _MANY and math.isfinite(value)


def _time(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(_utc(value))
    except (ValueError, OverflowError):
        return False


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _maybe(right: Test, *, null: bool = True) -> Test:
    """Also right where the field is absent, or null."""
    return lambda value: value is _ABSENT or (null and value is None) or right(value)


_FIELDS: dict[str, tuple[Test, str]] = {
    "key": (_key, "32 hexadecimal digits"),
    "kind": (_name, 'the kind of question, such as "relevance"'),
    "judge": (_name, "the judge's name"),
    "prompt": (_maybe(lambda value: value == "" or _name(value), null=False), "the hash of the prompt, or nothing"),
    "error": (_maybe(_text), "a text"),
    "usage": (_maybe(_object, null=False), 'an object, such as {"requests": 1}'),
    "ms": (_maybe(_amount), "a number of milliseconds"),
    "at": (_maybe(_time), "a time with its zone, such as 2026-11-21T15:00:00+00:00"),
    "provenance": (_maybe(_object, null=False), "an object"),
}  # fmt: skip
_USAGE: dict[str, tuple[Test, str]] = {
    "requests": (_maybe(_count, null=False), "a whole number"),
    "input": (_maybe(_count, null=False), "a whole number of tokens"),
    "output": (_maybe(_count, null=False), "a whole number of tokens"),
    "cost_usd": (_maybe(_amount), "an amount of US dollars, or null where it is not known"),
}


def _shown(row: dict[str, Json], name: str) -> str:
    return f"cannot be {json.dumps(row[name])[:60]}" if name in row else "is missing"


def _depth(value: Json) -> int:
    """How deep a JSON value is nested, as far as it matters."""
    level, found = [value], 0
    while level and found <= _DEEPEST:
        inner = (
            one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)
        )
        level, found = [one for many in inner for one in many], found + 1
    return found


def _refuse(problem: str, fix: str) -> NoReturn:
    raise InputError(problem, fix=fix)
