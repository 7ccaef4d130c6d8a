"""Samples to JSON lines: the shape that the readers read back to an equal sample."""

from __future__ import annotations

import functools
from dataclasses import MISSING, Field, fields
from typing import Any

from germane.types import FrozenDict, Json, Sample

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
    if isinstance(value, FrozenDict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if not hasattr(kind, "__dataclass_fields__"):
        return value
    return {
        name: _plain(item)
        for name, default in _defaults(kind)  # type: ignore[arg-type]  # a class is hashable
        if (item := getattr(value, name)) != default or (name == "contexts" and item == ())
    }


@functools.lru_cache(maxsize=32)
def _defaults(kind: Any) -> tuple[tuple[str, object], ...]:
    return tuple((field.name, _default(field)) for field in fields(kind))


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()
