"""Samples to JSON lines: the shape that the readers read back to an equal sample."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from germane.types import FrozenDict, Json, Sample

__all__ = ["sample_to_json"]

_ALWAYS = {"id", "query"}


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
    shown = {}
    for field in fields(value):
        item = getattr(value, field.name)
        said = item is not None and item not in ("", (), {}) and not (field.name == "trial" and item == 0)
        empty_list_says_something = item == () and field.default is None
        if said or empty_list_says_something or field.name in _ALWAYS:
            shown[field.name] = _plain(item)
    return shown
