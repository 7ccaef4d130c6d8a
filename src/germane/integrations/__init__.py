"""Evaluation inside other tools, and what the shapes of such tools need: cases measured by one shared judge."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from germane.integrations.measuring import Measured, SharedJudge, required, row_of

__all__ = ["Measured", "SharedJudge", "required", "row_of"]


def __getattr__(name: str) -> Any:
    """Imported when first used, since a tool imports one module of this package."""
    if name not in __all__:
        raise AttributeError(f"module 'germane.integrations' has no attribute {name!r}")
    return getattr(importlib.import_module("germane.integrations.measuring"), name)
