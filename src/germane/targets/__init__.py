"""The systems under test: one small module per provider, and the targets file that names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from germane.lazy import lazily

if TYPE_CHECKING:
    from germane.targets.target import Target
    from germane.targets.targetsfile import PROVIDERS, find_targets_file, open_target

__all__ = ["PROVIDERS", "Target", "find_targets_file", "open_target"]

__getattr__ = lazily(
    __name__,
    {
        "Target": "target",
        "PROVIDERS": "targetsfile",
        "find_targets_file": "targetsfile",
        "open_target": "targetsfile",
    },
)
"""Imported when first used: most evaluations ask no target."""
