"""Samples to JSON lines: the shape that the readers read back to an equal sample."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any

from germane.types import FrozenDict, Json, Sample

__all__ = ["sample_to_json"]


def sample_to_json(sample: Sample) -> dict[str, Json]:
    """The sample as a JSON object, leaving out what says nothing. `contexts: []` says that nothing came back."""
    shown = _plain(sample)
    assert isinstance(shown, dict)
    return shown


def _plain(value: Any) -> Json:
    if isinstance(value, FrozenDict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if not hasattr(value, "__dataclass_fields__"):
        return value
    return {
        field.name: _plain(item)
        for field in fields(value)
        if (item := getattr(value, field.name)) != _default(field)
        or (field.name == "contexts" and item == ())
    }


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()
