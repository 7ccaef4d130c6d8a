"""Values of flags that are more than a word."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from germane.clean import clean
from germane.errors import InputError
from germane.types import Json

if TYPE_CHECKING:
    from germane.reports.report import Report

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def pairs(given: Sequence[str] | None, flag: str, example: str) -> tuple[tuple[str, str], ...]:
    """`a=b,c=d` and repeated flags as pairs; InputError on anything else."""
    found: dict[str, str] = {}
    for part in (part for text in given or () for part in text.split(",")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise InputError(f"{flag} {part!r} is not NAME=VALUE", fix=f"write {flag} {example}")
        if name in found:
            raise InputError(f"{flag} gives {name} twice", fix="give it once")
        found[name] = value
    return tuple(found.items())


def headers(given: Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """Repeated `--header NAME=VALUE`; what is wrong is said without the value, which may be a key."""
    found: dict[str, str] = {}
    for text in given or ():
        name, equals, value = (piece.strip() for piece in text.partition("="))
        if not (equals and value and _HEADER.fullmatch(name)):
            raise InputError("--header is not NAME=VALUE", fix="write --header x-team=search")
        if not value.isprintable():
            raise InputError(f"the value of --header {name} holds characters that no header has")
        found[name] = value
    return tuple(found.items())


def parameters(
    given: Sequence[str] | None, flag: str = "--model-parameter", example: str = "seed=7"
) -> tuple[tuple[str, Json], ...]:
    """Repeated NAME=VALUE: a value that is JSON is what it says, any other is text."""
    found: dict[str, Json] = {}
    for text in given or ():
        name, equals, value = (piece.strip() for piece in text.partition("="))
        if not (name and equals and value):
            raise InputError(f"{flag} {text!r} is not NAME=VALUE", fix=f"write {flag} {example}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return tuple(found.items())


def prices(given: str | None) -> tuple[float, float] | None:
    """`0.15/0.60` as the prices of a million tokens in and out; InputError on anything else."""
    if given is None:
        return None
    try:
        first, second = map(float, given.split("/"))
    except ValueError:
        first = second = -1.0
    if not (0 <= first < float("inf") and 0 <= second < float("inf")):
        raise InputError(f"--price {given!r} is not IN/OUT", fix="write --price 0.15/0.60")
    return first, second


def opened(folder: Path) -> Report:
    """The report in a folder; of an interrupted run the part that is done."""
    from germane.reports.report import Report
    from germane.tables.folder import read_manifest

    finished = read_manifest(folder).get("status") == "complete"
    return Report.open(folder) if finished else Report.unfinished(folder)


def latest() -> Path:
    """The folder in germane-reports whose manifest was written last, of those that hold a score.

    InputError where there is none.
    """
    parent = Path("germane-reports")
    manifests = sorted(parent.glob("*/manifest.json"), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    found = next((file.parent for file in manifests if opened(file.parent).measures), None)
    if found is None:
        raise InputError(f"there is no report in {parent}", fix="name one: germane report REPORT")
    print(f"the latest report: {clean(str(found))}", file=sys.stderr)
    return found
