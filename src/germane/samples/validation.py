"""Checked values: the types that pydantic's models of input are made of, and its errors in our words with a path."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, ValidationError
from pydantic import WithJsonSchema as Schema
from pydantic_core import ErrorDetails

from germane.errors import InputError, Place
from germane.types import MAX_DEPTH, FrozenDict, Json, Step, freeze


class Wrong(ValueError):
    """A value that cannot be used: what is wrong, what to write instead, and its path from the whole row."""

    def __init__(self, problem: str, fix: str = "", *path: Step) -> None:
        super().__init__(problem, fix)
        self.problem, self.fix, self.path = problem, fix, path

    def under(self, *steps: Step) -> Wrong:
        """The same fault, seen from the container of the value."""
        self.path = (*steps, *self.path)
        return self

    def error(self, place: Place | None) -> InputError:
        """The error that the user reads."""
        where = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in self.path).lstrip(".")
        return InputError(f"{where} {self.problem}".strip(), fix=self.fix, place=place)


def report(fault: InputError, faults: list[InputError] | None) -> None:
    """Add a fault to the others, where all of them are wanted; else raise it."""
    if faults is None:
        raise fault
    faults.append(fault)


def say(value: Json) -> str:
    """A value in a message: its type, and the value itself where that is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        finite = isinstance(value, int) or math.isfinite(value)
        return f"the number {value}"[:40] if finite else str(value)
    if isinstance(value, str):
        return f"the text {str(value)!r}" if len(value) <= 40 else f"the text {value[:37]!r}..."
    kind = "an object" if isinstance(value, dict) else ""
    if isinstance(value, list | tuple):
        kind = "a list" if value else "an empty list"
    node = getattr(value, "kind", None)  # of a YAML file
    return kind or (node if isinstance(node, str) else type(value).__name__)


_FIXES = {
    "string_type": "write a text",
    "string_too_short": "write a text that is not empty",
    "bool": "write true or false",
    "tuple": "write a list",
    "list": "write a list",
    "dict": 'write an object: {{"name": value}}',
    "model": 'write an object: {{"name": value}}',
    "int": "write a whole number",
    "float": "write a number",
    "finite_number": "write a finite number or leave the field out",
    "greater_than_equal": "write a number from {ge:g}",
    "whole_from": "write a whole number from {ge}",
    "greater_than": "write a number above {gt:g}",
    "less_than_equal": "write a number up to {le:g}",
    "literal_error": "write {expected}",
    "too_short": "write at least {min_length}",
    "too_long": "write at most {max_length}",
}


def wrong_in(error: ValidationError, value: Json) -> Wrong:
    """The first fault that pydantic found in a value, with the part of its path that is really there."""
    loc, wrong = all_faults(error)[0]
    path: list[Step] = []
    at: Any = value
    for step in loc:
        is_index = isinstance(at, list | tuple) and isinstance(step, int) and step < len(at)
        if is_index or (isinstance(at, dict) and step in at):
            path.append(step)
            at = at[step]
    return wrong.under(*path)


def all_faults(error: ValidationError) -> list[tuple[tuple[Step, ...], Wrong]]:
    """Every fault that pydantic found: where, by its own names, and the fault in our words; the inmost where one holds another."""
    found = list(map(_in_words, error.errors(include_url=False)))
    above = {loc[:depth] for loc, _ in found for depth in range(len(loc))}
    return [(loc, wrong) for loc, wrong in found if loc not in above]


def _in_words(fault: ErrorDetails) -> tuple[tuple[Step, ...], Wrong]:
    loc, kind, context = fault["loc"], fault["type"], fault.get("ctx", {})
    if isinstance(cause := context.get("error"), Wrong):
        return loc, cause
    if kind == "missing":
        return loc, Wrong(f"has no {loc[-1]}", f'write "{loc[-1]}"')
    if kind == "extra_forbidden":
        return loc, Wrong("is not a known field here", "remove it or correct its name")
    if "expected" in context:
        context = {**context, "expected": str(context["expected"]).replace("'", "")}
    if kind == "greater_than_equal" and isinstance(context.get("ge"), int):
        kind = "whole_from"
    template = _FIXES.get(kind) or _FIXES.get(kind.partition("_")[0])
    fix = fault["msg"] if template is None else template.format_map(context)
    return loc, Wrong(f"is {say(fault['input'])}", fix)


def _storable(value: int) -> int:
    """The number; Wrong where no column of a table holds it."""
    if value.bit_length() > 63:
        raise Wrong(f"is {value}, more than 64 bits hold", "write a smaller number")
    return value


def frozen(value: Json) -> Json:
    """The value, unchangeable; Wrong where it holds NaN or infinity or is nested too deeply."""
    if _deeper(value, MAX_DEPTH):
        raise Wrong(f"is nested more than {MAX_DEPTH} levels deep", "write it flatter")
    try:
        return freeze(value)
    except ValueError as error:
        raise Wrong(f"holds {error}", "write null or leave the field out") from None


def _deeper(value: Json, levels: int) -> bool:
    if not isinstance(value, dict | list | tuple):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(one, levels - 1) for one in inner)


def _id(value: Json) -> str:
    if isinstance(value, str) and value:
        return str(value)
    whole = isinstance(value, Integral) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole:
        raise Wrong(f"is {say(value)}", "write a string that is not empty, or a whole number")
    return str(int(value))


def no_word(value: Json) -> Json:
    """Numbers in quotes and booleans are refused, which pydantic would read; numbers of numpy pass."""
    if isinstance(value, str | bytes | bool):
        raise Wrong(f"is {say(value)}", "write a number")
    return value


def _object(value: Json) -> FrozenDict:
    if not isinstance(value, dict):
        raise Wrong(f"is {say(value)}", _FIXES["dict"].format())
    result: FrozenDict = frozen(value)
    return result


Id = Annotated[
    str, PlainValidator(_id), Schema({"anyOf": [{"type": "string", "minLength": 1}, {"type": "integer"}]})
]
Number = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(no_word)]
Whole = Annotated[int, BeforeValidator(no_word), AfterValidator(_storable)]
Offset = Annotated[int, Field(ge=0), BeforeValidator(no_word)]
JsonValue = Annotated[Any, AfterValidator(frozen)]
JsonObject = Annotated[dict[str, Any], PlainValidator(_object), Schema({"type": "object"})]
