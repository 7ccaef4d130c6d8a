"""JSON, strictly: no key twice, no NaN, no bottomless nesting; and every fault knows where in the text it stands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NoReturn

from germane.samples.validation import MAX_DEPTH, Step
from germane.types import Json

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]|[^\s\[\]{},:"]+')
_LONE = re.compile("[\ud800-\udfff]")
_HINTS = {
    "Expecting property name enclosed in double quotes": 'write "name": value; no comma after the last one',
    "Expecting ',' delimiter": "write a comma between values, or close what is open",
    "Expecting ':' delimiter": 'write "name": value',
    "Unterminated string starting at": 'close the string with a "',
    "Extra data": "write one JSON value only",
    "Invalid control character at": r"write \n or \t inside a string",
    "Expecting value": "write a string, number, object, list, true, false or null",
}


class JsonFault(ValueError):
    """A text is not JSON that can be used: what is wrong at which offset, and what to write."""

    def __init__(self, problem: str, fix: str, offset: int) -> None:
        super().__init__(problem)
        self.problem, self.fix, self.offset = problem, fix, offset


class _Refused(ValueError):
    """Raised inside the decoder, which does not say where it is."""


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Refused
    return found


def _constant(_: str) -> NoReturn:
    raise _Refused


_decode = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant).decode


def decode(text: str) -> Json:
    """The value of a JSON text; JsonFault where it is none. Lone surrogates become U+FFFD."""
    try:
        value = _decode(text)
    except _Refused:
        raise _refused(text) from None
    except json.JSONDecodeError as error:
        raise _syntax(error) from None
    except RecursionError:
        raise _too_deep(text) from None
    except ValueError:
        raise JsonFault(
            "a number has too many digits", "write it as a string", _longest_number(text)
        ) from None
    return whole(value) if "\\" in text and "\\u" in text else value


def whole(value: Json) -> Json:
    r"""The value with every lone surrogate (a `\ud83d` without its other half) replaced by U+FFFD."""
    if isinstance(value, str):
        return value if value.isascii() else _LONE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {whole(key): whole(inner) for key, inner in value.items()}
    return [whole(inner) for inner in value] if isinstance(value, list | tuple) else value


def _syntax(error: json.JSONDecodeError) -> JsonFault:
    if not error.doc[error.pos :].strip():
        return JsonFault(
            "the JSON ends too early", "close every string, list and object", len(error.doc.rstrip())
        )
    hint = next((fix for start, fix in _HINTS.items() if error.msg.startswith(start)), "")
    return JsonFault(f"this is not JSON: {error.msg[0].lower()}{error.msg[1:]}", hint, error.pos)


def _refused(text: str) -> JsonFault:
    """Where a refused text says something twice, or says NaN."""
    seen: dict[tuple[Step, ...], set[str]] = {}
    for path, offset, is_key in _steps(text):
        if is_key and path[-1] in seen.setdefault(path[:-1], set()):
            return JsonFault(f"the key {path[-1]!r} is there twice", "keep one of the two", offset)
        if is_key:
            seen[path[:-1]].add(str(path[-1]))
            for inside in [p for p in seen if len(p) >= len(path) and p[: len(path)] == path]:
                del seen[inside]
        elif text.startswith(("NaN", "Infinity", "-Infinity"), offset):
            return JsonFault("NaN and Infinity are not JSON", "write null or leave the field out", offset)
    raise AssertionError("the decoder refuses for these two reasons only")  # pragma: no cover


def _too_deep(text: str) -> JsonFault:
    depth = 0
    for match in _TOKEN.finditer(text):
        depth += (match[0] in "[{") - (match[0] in "]}")
        if depth > MAX_DEPTH:
            break
    return JsonFault(
        f"the JSON is nested more than {MAX_DEPTH} levels deep", "write it flatter", match.start()
    )


def _longest_number(text: str) -> int:
    return max(
        _TOKEN.finditer(text), key=lambda match: len(match[0]) if match[0].lstrip("-").isdigit() else 0
    ).start()


def _steps(text: str) -> Iterator[tuple[tuple[Step, ...], int, bool]]:
    """Every key and value of a JSON text: its path, its offset, whether it is a key."""
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
    """The offset of the value at a path of a JSON text; None where there is none."""
    wanted = tuple(path)
    return next((offset for steps, offset, is_key in _steps(text) if steps == wanted and not is_key), None)
