"""Evaluate inside other tools: each case is measured through one shared judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from germane.lazy import lazily

if TYPE_CHECKING:
    from germane.integrations.measuring import Measured, SharedJudge, required, row_of

__all__ = ["Measured", "SharedJudge", "required", "row_of"]

__getattr__ = lazily(__name__, dict.fromkeys(__all__, "measuring"))
"""The names are imported when first used, because each tool imports only one module of this package."""
