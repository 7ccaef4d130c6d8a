"""Files, rows and eval files to samples; one reader per format, one table of fields, document-id rules."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from germane.samples.files import (
    JsonFault,
    Notice,
    Notices,
    Warn,
    locate,
    location_in,
    parse_strict_json,
    read_lines,
    read_text,
    shown_name,
    write_whole,
)

if TYPE_CHECKING:
    from germane.samples.cells import TableRow, looks_listed, refuse_printed_array, structure, table_rows
    from germane.samples.fields import id_in, passages_in
    from germane.samples.frames import records
    from germane.samples.reading import READERS, read_samples, samples_from
    from germane.samples.rows import parse_columns

_HOMES = {
    "rows": ("parse_columns",),
    "reading": ("READERS", "read_samples", "samples_from"),
    "cells": ("TableRow", "looks_listed", "refuse_printed_array", "structure", "table_rows"),
    "frames": ("records",),
    "fields": ("id_in", "passages_in"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "READERS",
    "JsonFault",
    "Notice",
    "Notices",
    "TableRow",
    "Warn",
    "id_in",
    "locate",
    "location_in",
    "looks_listed",
    "parse_columns",
    "parse_strict_json",
    "passages_in",
    "read_lines",
    "read_samples",
    "read_text",
    "records",
    "refuse_printed_array",
    "samples_from",
    "shown_name",
    "structure",
    "table_rows",
    "write_whole",
]


def __getattr__(name: str) -> Any:
    """Imported when first used: `germane rank` reads its files without pydantic, which takes 80 ms to import."""
    if name not in _HOME:
        raise AttributeError(f"module 'germane.samples' has no attribute {name!r}")
    return getattr(importlib.import_module(f"germane.samples.{_HOME[name]}"), name)
