"""Ranked results and gold from files: TREC here, tables (TSV, CSV) and JSON in their own modules, found by content.

A TREC run has lines `query Q0 document rank score tag ...`, TREC gold (qrels) lines `query 0 document grade`, as
trec_eval reads them: split at ASCII white space, the rank ignored, lines that begin with # skipped, whatever
follows the tag of a run ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias, get_args

from germane.errors import InputError, Place
from germane.samples import results_json, results_table
from germane.samples.opening import decoded, numbered_lines, opened, shown_name
from germane.samples.results import Found, Graded, Run, collect_qrels, collect_run

__all__ = ["FORMATS", "Format", "read_qrels", "read_run"]

Format: TypeAlias = Literal["trec", "tsv", "csv", "jsonl", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)
_Kind: TypeAlias = Literal["run", "qrels"]

_WHOLE = re.compile(rb"[+-]?\d+")
_RUN = "write: query Q0 document rank score tag"
_QRELS = "write: query 0 document grade"


def read_run(path: str | Path, *, fmt: Format | None = None, columns: Mapping[str, str] | None = None) -> Run:
    """The ranked results in a file. `columns` maps query, doc, score, ... to the header's own names (TSV, CSV)."""
    name = shown_name(path)
    with opened(path) as stream:
        kind = fmt or _detect(stream, path, "run")
        bare = kind in {"tsv", "csv"} and not columns and results_table.is_bare_triple(_head(stream))
        run = collect_run(name, _found(kind, stream, name, columns or {}))
    return _ranks_not_scores(run) if bare else run


def read_qrels(
    path: str | Path,
    *,
    fmt: Format | None = None,
    columns: Mapping[str, str] | None = None,
    keep_first: bool = False,
) -> dict[str, dict[str, int]]:
    """The gold grades in a file: query id -> document id -> grade. `keep_first` settles grades that disagree."""
    name = shown_name(path)
    with opened(path) as stream:
        kind = fmt or _detect(stream, path, "qrels")
        qrels = collect_qrels(name, _graded(kind, stream, name, columns or {}), keep_first=keep_first)
    if not qrels:
        raise InputError("there is no gold in this file", fix=_QRELS, place=Place(name))
    return qrels


def _ranks_not_scores(run: Run) -> Run:
    """A bare third column that counts 1, 2, 3, ... in every query is the rank (MS MARCO's format), not a score."""
    lists = [results for results in run.queries.values() if results.ids]
    if not any(len(results.ids) > 1 for results in lists):
        return run
    if any(results.scores.tolist() != list(range(1, len(results.ids) + 1)) for results in lists):
        return run
    for results in lists:
        del results.scores[:]
    return replace(run, notes=(f"{run.name}: the third column counts 1, 2, 3, ... and was read as the rank",))


def _found(kind: Format, stream: BinaryIO, name: str, columns: Mapping[str, str]) -> Iterator[Found]:
    if kind == "trec":
        return _trec_run(stream, name)
    if kind in {"tsv", "csv"}:
        return results_table.found(stream, name, columns, comma=kind == "csv")
    return results_json.found(stream, name, whole=kind == "json")


def _graded(kind: Format, stream: BinaryIO, name: str, columns: Mapping[str, str]) -> Iterator[Graded]:
    if kind == "trec":
        return _trec_qrels(stream, name)
    if kind in {"tsv", "csv"}:
        return results_table.graded(stream, name, columns, comma=kind == "csv")
    return results_json.graded(stream, name, whole=kind == "json")


def _trec_run(stream: BinaryIO, name: str) -> Iterator[Found]:
    raw, query = b"", ""
    for number, line in numbered_lines(stream):
        fields = line.split(None, 5)
        if fields[0][:1] == b"#":
            continue
        if len(fields) < 5:
            raise InputError(
                f"a run has 6 columns, this line {len(fields)}", fix=_RUN, place=Place(name, number)
            )
        if fields[0] != raw:
            raw, query = fields[0], decoded(fields[0], name, number)
        try:
            score = float(fields[4])
        except ValueError:
            shown = fields[4].decode(errors="replace")
            raise InputError(
                f"the score {shown!r} is not a number", fix=_RUN, place=Place(name, number)
            ) from None
        yield Found(number, query, decoded(fields[2], name, number), score)


def _trec_qrels(stream: BinaryIO, name: str) -> Iterator[Graded]:
    for number, line in numbered_lines(stream):
        fields = line.split()
        if fields[0][:1] == b"#":
            continue
        if len(fields) != 4:
            raise InputError(
                f"gold has 4 columns, this line {len(fields)}", fix=_QRELS, place=Place(name, number)
            )
        if not _WHOLE.fullmatch(fields[3]):
            shown = fields[3].decode(errors="replace")
            raise InputError(
                f"the grade {shown!r} is not a whole number", fix=_QRELS, place=Place(name, number)
            )
        yield Graded(
            number, decoded(fields[0], name, number), decoded(fields[2], name, number), int(fields[3])
        )


def _detect(stream: BinaryIO, path: str | Path, what: _Kind) -> Format:
    """The format of a file: JSON by its first character, TREC by its columns, else a table."""
    lines = _head(stream)
    first = lines[0].strip() if lines else b""
    suffix = Path(str(path).removesuffix(".gz")).suffix.lower()
    if first[:1] in {b"{", b"["}:
        return "json" if _one_document(lines, suffix) else "jsonl"
    if suffix == ".csv":
        return "csv"
    if _looks_trec(first.split(), what):
        return "trec"
    if b"\t" in first or suffix == ".tsv":
        return "tsv"
    return "csv" if first.count(b",") and len(first.split()) < 4 else "trec"


def _head(stream: BinaryIO) -> list[bytes]:
    """The first lines that say something, still to be read; the last one may be cut off."""
    head: bytes = stream.peek(1 << 16)  # type: ignore[attr-defined]
    return [line for line in head.splitlines() if line.strip() and line[:1] != b"#"]


def _one_document(lines: list[bytes], suffix: str) -> bool:
    """Whether JSON goes on after its first line: then it is one document, not one a line."""
    if lines[0].lstrip()[:1] == b"[":
        return True
    if len(lines) == 1:
        return suffix == ".json"
    try:
        json.loads(lines[0])
    except ValueError:
        return True
    return False


def _looks_trec(fields: list[bytes], what: _Kind) -> bool:
    if what == "qrels":
        return len(fields) == 4 and bool(_WHOLE.fullmatch(fields[3]))
    return len(fields) >= 5 and results_table.is_number(fields[4])
