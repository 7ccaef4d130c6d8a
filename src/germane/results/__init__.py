"""Reads result files of other programs as scores; determines the names, ranges and directions of measures."""

from __future__ import annotations

from germane.results.naming import canonical_measure
from germane.results.reading import NAMES, MeasuredRow, case_id, measured

__all__ = ["NAMES", "MeasuredRow", "canonical_measure", "case_id", "measured"]
