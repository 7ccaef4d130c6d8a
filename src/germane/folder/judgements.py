"""Reading judgements.jsonl: the answers of a report, and those of earlier sessions of an evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from germane.folder.lines import TableFile
from germane.tables.judgements import load_judgement
from germane.types import Judgement

__all__ = ["KEY"]

KEY = slice(8, 40)
"""The place of the key in a line as it is written: `{"key":"..."`."""


def earlier_judgements(files: Iterable[Path]) -> Iterator[Judgement]:
    """Iterate over the judgements in files that earlier sessions left; half a line, which a killed session leaves, is passed over."""
    for file in files:
        for row in TableFile(file).whole_rows():
            with suppress(ValueError, TypeError, AttributeError):
                yield load_judgement(row)


def judgement_in(file: TableFile, number: int, line: bytes) -> Judgement:
    """Return the judgement of a line; InputError if it is damaged."""
    try:
        return load_judgement(file.row(number, line))
    except ValueError:
        raise file.damaged(number) from None
