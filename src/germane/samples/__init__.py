"""Reads samples, runs and gold from files, tables and Python objects."""

from __future__ import annotations

from germane.samples.cells import TableRow, looks_listed, named_rows, refuse_printed_array, structure
from germane.samples.contexts import PATTERN_SECONDS, find_contexts, only_contexts, passages_in
from germane.samples.fields import SPELLINGS, id_in, read_messages
from germane.samples.files import Notice, Notices, Warn
from germane.samples.frames import records
from germane.samples.reading import READERS, read_samples, samples_from
from germane.samples.rows import RowReader, parse_columns

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
