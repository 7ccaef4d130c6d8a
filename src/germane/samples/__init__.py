"""Reads samples from files, tables and Python objects: file formats, the fields of a sample, rules for document ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from germane.lazy import lazily
from germane.samples.files import Notice, Notices, Warn

if TYPE_CHECKING:
    from germane.samples.cells import TableRow, looks_listed, named_rows, refuse_printed_array, structure
    from germane.samples.contexts import PATTERN_SECONDS, find_contexts, only_contexts
    from germane.samples.fields import SPELLINGS, id_in, passages_in, read_messages
    from germane.samples.frames import records
    from germane.samples.reading import READERS, read_samples, samples_from
    from germane.samples.rows import RowReader, parse_columns

_HOMES = {
    "rows": ("RowReader", "parse_columns"),
    "contexts": ("PATTERN_SECONDS", "find_contexts", "only_contexts"),
    "reading": ("READERS", "read_samples", "samples_from"),
    "cells": ("TableRow", "looks_listed", "refuse_printed_array", "structure", "named_rows"),
    "frames": ("records",),
    "fields": ("SPELLINGS", "id_in", "passages_in", "read_messages"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "PATTERN_SECONDS",
    "READERS",
    "SPELLINGS",
    "Notice",
    "Notices",
    "RowReader",
    "TableRow",
    "Warn",
    "find_contexts",
    "id_in",
    "looks_listed",
    "named_rows",
    "only_contexts",
    "parse_columns",
    "passages_in",
    "read_messages",
    "read_samples",
    "records",
    "refuse_printed_array",
    "samples_from",
    "structure",
]

__getattr__ = lazily(__name__, _HOME)
"""Imports a public name when it is first used, so that `germane rank` starts without pydantic (80 ms)."""
