"""Files, rows and eval files to samples: one reader a format, one table of fields, document-id rules."""

from germane.samples.notices import Notice, Notices
from germane.samples.reading import READERS, read_samples, samples_from
from germane.samples.rows import parse_columns

__all__ = ["READERS", "Notice", "Notices", "parse_columns", "read_samples", "samples_from"]
