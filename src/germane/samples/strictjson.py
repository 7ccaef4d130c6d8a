"""Parses strict JSON, which has no duplicate keys, no NaN and a limited depth.

Errors name the file, line and column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from germane.encoding import replace_surrogates
from germane.errors import InputError, SourceLocation
from germane.samples.files import location_in, read_lines, shown_name
from germane.types import TOO_DEEP, Json, Step

__all__ = ["JsonFault", "json_in", "locate", "parse_strict_json", "read_json_lines"]


_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


class JsonFault(ValueError):
    """The error for invalid JSON: the problem, the offset in the text, and what to write instead."""

    def __init__(self, problem: str, fix: str, offset: int) -> None:
        super().__init__(problem)
        self.problem, self.fix, self.offset = problem, fix, offset

    def error(self, path: str | Path, text: str, first_line: int = 1, fix: str = "") -> InputError:
        """Return this error as an InputError in the file `path`.

        `text` is the JSON text, which starts on the line `first_line`. `fix`, if given, replaces its fix.
        """
        location = location_in(path, text, self.offset, first_line)
        return InputError(self.problem, fix=fix or self.fix, place=location)


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    return result if len(result) == len(pairs) else _refuse()


def _refuse(_: str = "") -> NoReturn:
    raise JsonFault("", "", 0)  # without an offset, because the decoder does not give one


_decode = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse).decode
_decode_infinite = json.JSONDecoder(object_pairs_hook=_object).decode


def parse_strict_json(text: str, *, infinite: bool = False, surrogates: bool = False) -> Json:
    """Parse a JSON text and return its value. Raises JsonFault if the text is invalid or has a duplicate key.

    `infinite` allows NaN and Infinity. Lone surrogates are replaced by U+FFFD, unless `surrogates` is True
    (for file names).
    """
    try:
        value = _decode_infinite(text) if infinite else _decode(text)
    except JsonFault:  # the first key that occurs twice, NaN or Infinity
        seen: set[tuple[Step, ...]] = set()
        for path, offset, is_key in _steps(text):
            if is_key and path in seen:
                problem = f"the key {path[-1]!r} occurs twice"
                raise JsonFault(problem, "keep one of the two", offset) from None
            if is_key:
                seen.add(path)
            elif not infinite and text.startswith(("NaN", "Infinity", "-Infinity"), offset):
                fix = "write null or leave the field out"
                raise JsonFault("NaN and Infinity are not JSON", fix, offset) from None
        raise JsonFault("a key occurs twice", "keep one of the two", 0) from None
    except json.JSONDecodeError as error:
        if not text[error.pos :].strip():
            fix = "close every string, list and object"
            raise JsonFault("the JSON ends too early", fix, len(text.rstrip())) from None
        fix, message = "check the quotes, commas and brackets there", error.msg[0].lower() + error.msg[1:]
        raise JsonFault(f"this is not valid JSON: {message}", fix, error.pos) from None
    except RecursionError:
        problem, fix = TOO_DEEP
        raise JsonFault(f"the JSON {problem}", fix, 0) from None
    except ValueError:
        fix = 'write the number as a string: "123..."'
        raise JsonFault("a number of this JSON has too many digits", fix, 0) from None
    return replace_surrogates(value) if not surrogates and "\\" in text and "\\u" in text else value


def json_in(
    text: str, path: str | Path, line: int = 1, *, fix: str = "", otherwise: str = "", **allowed: bool
) -> Json:
    """Parse `text`, the JSON on line `line` of the file `path`. Raises InputError with the location.

    `allowed` are options of `parse_strict_json`. The fix in the error is `fix`, or that of the JsonFault, or
    `otherwise`.
    """
    try:
        return parse_strict_json(text, **allowed)
    except JsonFault as fault:
        raise fault.error(path, text, line, fix or fault.fix or otherwise) from None


def read_json_lines(path: str | Path) -> Iterator[tuple[SourceLocation, Json]]:
    """Yield (location, value) for each line of a JSON Lines file that is not blank."""
    for number, line in read_lines(path):
        if not line.isspace():
            yield SourceLocation(shown_name(path), number), json_in(line, path, number)


def _steps(text: str) -> Iterator[tuple[tuple[Step, ...], int, bool]]:
    """Yield (path, offset, True for a key or False for a value) for each key and value of a JSON text."""
    path: list[Step | None] = []
    for match in _TOKEN.finditer(text):
        word = match[0]
        if word in "]}":
            del path[-1:]
        elif word == ",":
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else None
        elif path and path[-1] is None and word[0] == '"':
            path[-1] = json.loads(word, strict=False)
            yield tuple(path), match.start(), True  # type: ignore[arg-type]
        elif word != ":":
            yield tuple(path), match.start(), False  # type: ignore[arg-type]
            if word in "[{":
                path.append(0 if word == "[" else None)


def locate(text: str, path: Sequence[Step]) -> int | None:
    """Return the offset of the value at a path in a JSON text, or None if the text has no such value."""
    target = tuple(path)
    return next((offset for steps, offset, is_key in _steps(text) if steps == target and not is_key), None)
