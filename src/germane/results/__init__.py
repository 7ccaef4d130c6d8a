"""Reads result files of other programs as scores, with the names, ranges and directions of their measures."""

from __future__ import annotations

from germane.results.naming import canonical_measure
from germane.results.rows import MeasuredRow, measured

__all__ = ["MeasuredRow", "canonical_measure", "measured"]
