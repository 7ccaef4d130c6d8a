"""Reads result files of other programs as scores, with the names, ranges and directions of their measures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from germane.lazy import lazily

if TYPE_CHECKING:
    from germane.results.naming import canonical_measure
    from germane.results.rows import MeasuredRow, measured

__all__ = ["MeasuredRow", "canonical_measure", "measured"]

__getattr__ = lazily(__name__, {"MeasuredRow": "rows", "canonical_measure": "naming", "measured": "rows"})
