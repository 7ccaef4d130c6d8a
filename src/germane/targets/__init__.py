"""The systems under test (targets), in one module per provider, and the targets file that lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from germane.lazy import lazily

if TYPE_CHECKING:
    from germane.targets.target import Target
    from germane.targets.targetsfile import PROVIDERS, find_targets_file, open_target

__all__ = ["PROVIDERS", "Target", "find_targets_file", "open_target"]

_OF_FILE = dict.fromkeys(("PROVIDERS", "find_targets_file", "open_target"), "targetsfile")
__getattr__ = lazily(__name__, {"Target": "target", **_OF_FILE})
"""Imports a public name when it is first used, because most evaluations query no target."""
