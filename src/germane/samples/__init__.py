"""Files, rows and eval files to samples; one reader per format, one table of fields, document-id rules."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from germane.samples.files import Notice, Notices

if TYPE_CHECKING:
    from germane.samples.reading import READERS, read_samples, samples_from
    from germane.samples.rows import parse_columns

__all__ = ["READERS", "Notice", "Notices", "parse_columns", "read_samples", "samples_from"]


def __getattr__(name: str) -> Any:
    """Imported when first used: `germane rank` reads its files without pydantic, which takes 80 ms to import."""
    if name not in __all__:
        raise AttributeError(f"module 'germane.samples' has no attribute {name!r}")
    home = "rows" if name == "parse_columns" else "reading"
    return getattr(importlib.import_module(f"germane.samples.{home}"), name)
