"""Read judgements.jsonl: the judgements of a report, and those that earlier sessions left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from germane.folder.lines import TableFile
from germane.tables.judgements import load_judgement
from germane.types import Judgement

__all__ = ["KEY"]

KEY = slice(8, 40)
"""The position of the key in a line of judgements.jsonl, which begins with `{"key":"..."`."""


def earlier_judgements(files: Iterable[Path]) -> Iterator[Judgement]:
    """Yield the judgements that earlier sessions left in files; a line cut off by a kill is skipped."""
    for file in files:
        for row in TableFile(file).whole_rows():
            with suppress(ValueError, TypeError, AttributeError):
                yield load_judgement(row)


def judgement_in(file: TableFile, number: int, line: bytes) -> Judgement:
    """Return the judgement in a line of judgements.jsonl. Raises InputError if the line is damaged."""
    try:
        return load_judgement(file.row(number, line))
    except ValueError:
        raise file.damaged(number) from None
