"""Result files of other programs: their rows as scores, and their measures' names, ranges and directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from germane.lazy import lazily

if TYPE_CHECKING:
    from germane.results.naming import canonical_measure
    from germane.results.rows import MeasuredRow, measured

__all__ = ["MeasuredRow", "canonical_measure", "measured"]

__getattr__ = lazily(__name__, {"MeasuredRow": "rows", "canonical_measure": "naming", "measured": "rows"})
