"""The kinds of value that a field may hold: one reader and one JSON Schema each, side by side so that they agree.

A reader takes what JSON, YAML or Python said and returns the value, or raises `Wrong` with what to write instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Generic, TypeVar

from germane.samples.wrong import Wrong, say
from germane.types import FrozenDict, Json, freeze

__all__ = [
    "FLAG",
    "GRADE",
    "ID",
    "IDS",
    "NUMBER",
    "OBJECT",
    "OFFSET",
    "TEXT",
    "Field",
    "Kind",
    "each",
    "spellings",
]

T = TypeVar("T")
MAX_DEPTH = 100
"""Levels of nesting that are read: what is deeper is a mistake or an attack."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """How a value is read, and the JSON Schema of what can be read."""

    read: Callable[[Json], T]
    schema: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a sample, a context or a call: its name, what it holds, its other names, what it means."""

    name: str
    kind: Kind[Any]
    about: str
    aliases: tuple[str, ...] = ()


def spellings(fields: Iterable[Field]) -> dict[str, Field]:
    """Every accepted spelling of each field: its name, its aliases, and camelCase of both."""
    found: dict[str, Field] = {}
    for field in fields:
        for name in (field.name, *field.aliases):
            found[name] = found[camel(name)] = field
    return found


def camel(name: str) -> str:
    """`retrieved_contexts` as `retrievedContexts`."""
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


def each(read: Callable[[Json], T], values: Iterable[Json]) -> tuple[T, ...]:
    """Every value of a list, read; a fault knows its position."""
    done: list[T] = []
    try:
        for value in values:
            done.append(read(value))  # noqa: PERF401 - the length of the list is the position of the fault
    except Wrong as wrong:
        raise wrong.under(len(done)) from None
    return tuple(done)


def listed(value: Json, example: str) -> list[Json] | tuple[Json, ...]:
    """The value if it is a list."""
    if not isinstance(value, list | tuple):
        raise Wrong(f"is {say(value)}", f"write a list: {example}")
    return value


def frozen(value: Json) -> Json:
    """The value, unchangeable; NaN, infinity and bottomless nesting are refused."""
    if _deeper(value, MAX_DEPTH):
        raise Wrong(f"is nested more than {MAX_DEPTH} levels deep", "write it flatter")
    try:
        return freeze(value)
    except ValueError as error:
        raise Wrong(f"holds {error}", "write null or leave the field out") from None


def _deeper(value: Json, levels: int) -> bool:
    """Whether a value has more levels of lists and mappings than that."""
    if not isinstance(value, dict | list | tuple):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(one, levels - 1) for one in inner)


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise Wrong(f"is {say(value)}", "write a string")
    return value if type(value) is str else str(value)


def _id(value: Json) -> str:
    if isinstance(value, str) and value:
        return value if type(value) is str else str(value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise Wrong(f"is {say(value)}", "write a string that is not empty, or a whole number")
    return str(value)


def _number(value: Json) -> float:
    if type(value) is not float and (isinstance(value, bool) or not isinstance(value, Real)):
        raise Wrong(f"is {say(value)}", "write a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Wrong(f"is {number}", "write a finite number or leave the field out")
    return number


def _whole(value: Json) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise Wrong(f"is {say(value)}", "write a whole number")
    return int(value)


def _offset(value: Json) -> int:
    if (number := _whole(value)) < 0:
        raise Wrong(f"is {say(value)}", "write a whole number from 0")
    return number


def _grade(value: Json) -> int:
    if type(value) is bool or value not in (0, 1, 2, 3):
        fix = 'write 0, 1, 2 or 3; a yes or no is "relevant": true or false'
        raise Wrong(f"is {say(value)}", fix)
    return int(value)


def _flag(value: Json) -> bool:
    if type(value) is not bool:
        raise Wrong(f"is {say(value)}", "write true or false")
    return value


def _object(value: Json) -> FrozenDict:
    if not isinstance(value, dict):
        raise Wrong(f"is {say(value)}", "write an object: {...}")
    result: FrozenDict = frozen(value)
    return result


def _ids(value: Json) -> tuple[str, ...]:
    return each(_id, listed(value, '["d1", "d2"]'))


def _texts(value: Json) -> tuple[str, ...]:
    return each(_text, listed(value, '["tax", "2024"]'))


_ID_SCHEMA: dict[str, Json] = {"anyOf": [{"type": "string", "minLength": 1}, {"type": "integer"}]}
TEXT = Kind(_text, {"type": "string"})
ID = Kind(_id, _ID_SCHEMA)
NUMBER = Kind(_number, {"type": "number"})
WHOLE = Kind(_whole, {"type": "integer"})
OFFSET = Kind(_offset, {"type": "integer", "minimum": 0})
GRADE = Kind(_grade, {"enum": [0, 1, 2, 3]})
FLAG = Kind(_flag, {"type": "boolean"})
OBJECT = Kind(_object, {"type": "object"})
IDS = Kind(_ids, {"type": "array", "items": _ID_SCHEMA})
TEXTS = Kind(_texts, {"type": "array", "items": {"type": "string"}})
