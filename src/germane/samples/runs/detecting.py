"""Detects the format of a run or of gold by its first bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from germane.errors import InputError, SourceLocation
from germane.samples.files import opened, shown_name
from germane.samples.runs.results import GOLD, RUN, Format, Kind

WHOLE = re.compile(rb"([+-]?\d{1,18})(?:\.0*)?")


# which format


def format_of(path: str | Path, fmt: Format | None = None, kind: Kind = RUN) -> Format:
    """Return the given format, else Parquet by magic bytes, JSON by the first character, TREC by the columns, or a table."""
    fmt = fmt or _detected(first_lines(path), path, kind)
    if fmt == "trec" and kind is RUN:
        with opened(path) as stream:
            lines = stream.peek(1 << 12)[: 1 << 12].splitlines()  # type: ignore[attr-defined]
        number = next((at for at, line in enumerate(lines, 1) if line.strip() and line[:1] != b"#"), 0)
        if number:
            cells = [cell.decode(errors="replace") for cell in lines[number - 1].split()]
            refuse_shifted(cells, SourceLocation(shown_name(path), number))
    return fmt


def refuse_shifted(cells: Sequence[str], location: SourceLocation) -> None:
    """Raise InputError for a run of five columns without Q0, whose ranks would be read as documents."""
    shifted = (
        len(cells) == 5 and cells[1].upper() != "Q0" and all(is_number(cell.encode()) for cell in cells[2:4])
    )
    if shifted:
        problem = f"this run has five columns, the second is {cells[1][:40]!r} and not Q0"
        fix = f"{RUN.trec}; without Q0 write a header: query_id, doc_id, rank, score, tag, with tabs between"
        raise InputError(problem, fix=fix, place=location)


def _detected(lines: list[bytes], path: str | Path, kind: Kind) -> Format:
    first = lines[0].strip() if lines else b""
    suffix = Path(str(path).removesuffix(".gz").removesuffix(".zst")).suffix.lower()
    if suffix == ".parquet" or first[:4] == b"PAR1":
        return "parquet"
    if first[:1] in {b"{", b"["}:
        return "json" if _one_document(lines, suffix) else "jsonl"
    if suffix == ".csv":
        return "csv"
    if _looks_trec(first.split(), kind):
        return "trec"
    if b"\t" in first or suffix == ".tsv":
        return "tsv"
    return "csv" if first.count(b",") and len(first.split()) < 4 else "trec"


def first_lines(path: str | Path) -> list[bytes]:
    """Return the first lines that are not blank or comments; the last one may be cut off."""
    with opened(path) as stream:
        head: bytes = stream.peek(1 << 16)[: 1 << 16]  # type: ignore[attr-defined]
    return [line for line in head.splitlines() if line.strip() and line[:1] != b"#"]


def _one_document(lines: list[bytes], suffix: str) -> bool:
    """Return True if the file is one JSON document, and not one object per line."""
    if lines[0].lstrip()[:1] == b"[":
        return True
    if len(lines) == 1:
        return suffix == ".json"
    try:
        json.loads(lines[0])
    except ValueError:
        return True
    return False


def _looks_trec(cells: list[bytes], kind: Kind) -> bool:
    if kind is GOLD:
        return len(cells) == 4 and bool(WHOLE.fullmatch(cells[3]))
    return len(cells) >= 5 and is_number(cells[4])


def is_number(text: bytes) -> bool:
    """Return True if Python reads these bytes as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
