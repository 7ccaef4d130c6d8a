"""Faults of values in words, for every reader of input."""

from __future__ import annotations

import math
from typing import Any

from germane.errors import InputError, Wrong

__all__ = ["Wrong", "report", "say"]


def report(fault: InputError, faults: list[InputError] | None) -> None:
    """Add a fault to the others, where all of them are wanted; else raise it."""
    if faults is None:
        raise fault
    faults.append(fault)


def say(value: Any) -> str:
    """A value in a message: its type, and the value itself where that is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of more than 38 digits"
    if isinstance(value, int | float):
        return f"the number {value}" if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return f"the text {str(value)!r}" if len(value) <= 40 else f"the text {value[:37]!r}..."
    kind = "an object" if isinstance(value, dict) else ""
    if isinstance(value, list | tuple):
        kind = "a list" if value else "an empty list"
    node = getattr(value, "kind", None)  # of a YAML file
    return kind or (node if isinstance(node, str) else type(value).__name__)
