"""Samples to JSON lines: the shape that the readers read back to an equal sample."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from operator import attrgetter
from typing import Any

from germane.types import Context, FrozenDict, Json, Sample

__all__ = ["sample_to_json"]

_AS_IT_IS = frozenset({str, int, float, bool, type(None)})


def sample_to_json(sample: Sample) -> dict[str, Json]:
    """The sample as a JSON object, leaving out what says nothing. `contexts: []` says that nothing came back."""
    shown = _plain(sample)
    assert isinstance(shown, dict)
    return shown


def _plain(value: Any) -> Json:
    kind = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is Context:
        return _context(value)
    if isinstance(value, FrozenDict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if not hasattr(kind, "__dataclass_fields__"):
        return value
    names, defaults, read = _fields(kind)  # type: ignore[arg-type]  # a class is hashable
    return {
        name: item if type(item) in _AS_IT_IS else _plain(item)
        for name, default, item in zip(names, defaults, read(value), strict=True)
        if item != default or (name == "contexts" and item == ())
    }


def _context(context: Context) -> dict[str, Json]:
    """As the general way has it, at a quarter of its price: there are many contexts."""
    shown: dict[str, Json] = {}
    if context.text:
        shown["text"] = context.text
    if context.id is not None:
        shown["id"] = context.id
    if context.score is not None:
        shown["score"] = context.score
    if context.grade is not None:
        shown["grade"] = context.grade
    if context.relevant is not None:
        shown["relevant"] = context.relevant
    if context.metadata:
        shown["metadata"] = _plain(context.metadata)
    return shown


@functools.lru_cache(maxsize=32)
def _fields(kind: Any) -> tuple[list[str], list[object], Callable[[Any], tuple[Any, ...]]]:
    """A record's field names, what they say where nothing is said, and how to read them all."""
    names = [field.name for field in fields(kind)]
    return names, [_default(field) for field in fields(kind)], attrgetter(*names)


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()
