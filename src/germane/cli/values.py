"""Values of flags that are more than a word, and what every verb prints with."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from germane.clean import clean_json, clean_lines
from germane.errors import InputError

if TYPE_CHECKING:
    from germane.types import Json


@contextmanager
def whoever_listens() -> Iterator[None]:
    """Write to stderr: to nowhere once nobody reads it (a closed terminal, a `tee` that was interrupted too).

    What is shown of a run must not change what it does.
    """
    try:
        yield
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def say(message: str) -> None:
    """A message on stderr, harmless to a terminal."""
    with whoever_listens():
        print(clean_lines(message), file=sys.stderr)


def print_document(document: object) -> None:
    """One JSON document on one line; no text in it is a command of a build server."""
    print(clean_json(json.dumps(document, ensure_ascii=False, allow_nan=False)))


def _named(text: str) -> tuple[str, str]:
    """The two sides of NAME=VALUE; ("", "") where it is none."""
    name, _, value = (piece.strip() for piece in text.partition("="))
    return (name, value) if name and value else ("", "")


def pairs(given: Iterable[str] | None, flag: str, example: str) -> tuple[tuple[str, str], ...]:
    """`a=b,c=d` and repeated flags as pairs; InputError on anything else."""
    found: dict[str, str] = {}
    for part in (part for text in given or () for part in text.split(",")):
        name, value = _named(part)
        if not name:
            raise InputError(f"{flag} {part!r} is not NAME=VALUE", fix=f"write {flag} {example}")
        if name in found:
            raise InputError(f"{flag} gives {name} twice", fix="give it once")
        found[name] = value
    return tuple(found.items())


def headers(given: Iterable[str] | None) -> tuple[tuple[str, str], ...]:
    """Repeated `--header NAME=VALUE`; what is wrong is said without the value, which may be a key."""
    found = dict(map(_named, given or ()))
    for name, value in found.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
            raise InputError("--header is not NAME=VALUE", fix="write --header x-team=search")
        if not value.isprintable():
            raise InputError(f"the value of --header {name} holds characters that no header has")
    return tuple(found.items())


def parameters(given: Iterable[str] | None, flag: str, example: str) -> tuple[tuple[str, Json], ...]:
    """Repeated NAME=VALUE: a value that is JSON is what it says, any other is text."""
    found: dict[str, Json] = {}
    for text in given or ():
        name, value = _named(text)
        if not name:
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
