"""Files, rows and eval files to samples; one reader per format, one table of fields, document-id rules."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from germane.samples.files import Notice, Notices, Warn

if TYPE_CHECKING:
    from germane.samples.cells import TableRow, structure
    from germane.samples.fields import id_in, passages_in
    from germane.samples.reading import READERS, read_samples, samples_from
    from germane.samples.rows import parse_columns

_HOMES = {
    "rows": ("parse_columns",),
    "reading": ("READERS", "read_samples", "samples_from"),
    "cells": ("TableRow", "structure"),
    "fields": ("id_in", "passages_in"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "READERS",
    "Notice",
    "Notices",
    "TableRow",
    "Warn",
    "id_in",
    "parse_columns",
    "passages_in",
    "read_samples",
    "samples_from",
    "structure",
]


def __getattr__(name: str) -> Any:
    """Imported when first used: `germane rank` reads its files without pydantic, which takes 80 ms to import."""
    if name not in _HOME:
        raise AttributeError(f"module 'germane.samples' has no attribute {name!r}")
    return getattr(importlib.import_module(f"germane.samples.{_HOME[name]}"), name)
