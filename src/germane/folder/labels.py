"""Read labels.jsonl and append to it; people's labels may be appended even while a report is written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from germane.errors import InputError
from germane.folder.layout import APPEND, LABELS, opened
from germane.folder.lines import TableFile, torn_bytes
from germane.tables.columns import json_lines
from germane.tables.labels import Label, decode_label, load_label


def label_in(file: TableFile, number: int, line: bytes) -> Label:
    """Return the label in a line of labels.jsonl. Raises InputError if the line is damaged."""
    try:
        return decode_label(line)
    except (ValueError, RecursionError, InputError):
        return load_label(file.row(number, line), file.place(number))


def labels_size(path: Path) -> int:
    """Return the size of a folder's labels.jsonl in bytes; 0 if there is no such file."""
    file = path / LABELS
    return file.stat().st_size if file.exists() else 0


def append_labels(path: Path, labels: Iterable[Label]) -> None:
    """Append labels to a folder's labels.jsonl, after removing a last line that was cut off."""
    target = path / LABELS
    with opened(target, APPEND) as file:
        if end := _last_bytes(target):
            file.truncate(target.stat().st_size - torn_bytes(end))
            file.write(b"" if end.endswith(b"\n") or torn_bytes(end) else b"\n")
        file.writelines(json_lines(labels))


def _last_bytes(path: Path) -> bytes:
    """Return the last megabyte of a file."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 20)))
        return file.read()
