"""The formats of ranked results and gold: which one a file has, and which columns and keys hold query, document and score."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from germane.clean import fold
from germane.errors import InputError, SourceLocation
from germane.samples.fields import RESULT
from germane.samples.files import opened, shown_name

Format: TypeAlias = Literal["trec", "tsv", "csv", "jsonl", "json", "parquet"]
Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Gold: query id -> document id -> grade."""
FileRow: TypeAlias = tuple[int, str, str | None, float | None, float | None]
"""(line, query, document, score or grade, rank beside a score). Document None = the query is there without results, score None
= a result without a score.
"""
Numbers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


class NotPlain(Exception):
    """Raised with a reason where rows must be read one by one."""


MOST_COMPARED = 50_000
"""The number of retrieved ids that are compared with missed gold ids to find other spellings."""
EXAMPLES = 3
"""The number of queries that a remark names."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """The differences between runs and gold: the roles of their columns, of tables without a header, and examples."""

    name: str
    roles: tuple[str, ...]
    list_role: str
    value: str
    bare: Mapping[int, tuple[str, ...]]
    trec: str
    json: str
    python: str


RUN = Kind(
    name="a run",
    roles=("query", "doc", "docs", "score", "rank"),
    list_role="docs",
    value="score",
    bare={
        2: ("query", "doc"),
        3: ("query", "doc", "score"),
        4: ("query", "doc", "rank", "score"),
        5: ("query", "", "doc", "rank", "score"),
        6: ("query", "", "doc", "rank", "score", ""),
    },
    trec="write: query Q0 document rank score tag",
    json='write {"id": "q1", "contexts": [{"id": "d7"}]} or {"query_id": "q1", "doc_id": "d7", "score": 1.5}',
    python='write {"q1": {"d7": 1.5}}, or {"q1": ["d7", "d2"]}, best first',
)
GOLD = Kind(
    name="gold",
    roles=("query", "doc", "gold", "grade"),
    list_role="gold",
    value="grade",
    bare={2: ("query", "doc"), 3: ("query", "doc", "grade"), 4: ("query", "", "doc", "grade")},
    trec="write: query 0 document grade",
    json='write {"id": "q1", "qrels": {"d7": 2}} or {"query_id": "q1", "doc_id": "d7", "relevance": 2}',
    python='write {"q1": {"d7": 2}}, or {"q1": ["d7"]}',
)
NAME_THEM = "give the table a header, e.g. query_id, doc_id, {0}, or say --columns query=...,doc=...,{0}=..."


LARGEST_GRADE = 10**9
"""The largest gold grade; 3 is usual."""


WHOLE = re.compile(rb"([+-]?\d{1,18})(?:\.0*)?")


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


BETWEEN = {"tsv": "\t", "csv": ","}


def roles_of(names: Sequence[str], kind: Kind, columns: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the column of each role; `columns` (a role or one of its names -> column) takes precedence."""
    folded = {fold(name): name for name in reversed(names)}
    chosen = {role(key, kind.roles): name for key, name in (columns or {}).items()}
    result = {}
    for ours in kind.roles:
        by_flag = [chosen[ours]] if ours in chosen else []
        candidates = [*by_flag, *(folded[fold(name)] for name in RESULT[ours].names if fold(name) in folded)]
        if hit := next((name for name in candidates if name in names), None):
            result[ours] = hit
    return result


@lru_cache(maxsize=64)
def roles_of_keys(keys: tuple[str, ...], kind: Kind, columns: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return `roles_of` for the keys of a record, cached."""
    return roles_of(keys, kind, dict(columns))


def role(key: str, allowed: Sequence[str] = ()) -> str:
    """Return the role that a key of `--columns` names. Raises InputError."""
    for ours in (*allowed, *RESULT):
        if fold(key) == fold(ours) or fold(key) in {fold(name) for name in RESULT[ours].names}:
            return ours
    fix = "write query=, doc=, docs=, score=, rank= or grade="
    raise InputError(f"--columns does not know {key!r}", fix=fix)


def chosen_key(columns: Mapping[str, str] | None) -> dict[str, str]:
    """Return the chosen column of the document's id by its role; it may be a key in a list of documents."""
    return {"doc": name for key, name in (columns or {}).items() if role(key) == "doc"}  # noqa: B035


def table_columns(
    head: Sequence[str], location: SourceLocation, kind: Kind, columns: Mapping[str, str] | None
) -> tuple[dict[str, int], bool]:
    """Return the index of each role's column by a table's first row, and True if that row is a header. Raises InputError."""
    header = roles_of(head, kind, columns)
    named = "query" in header and len(header) > 1
    if columns and not named:
        problem = f"the header has no such columns: {', '.join(head)[:200]}"
        raise InputError(problem, fix="--columns query=...,doc=...", place=location)
    if not named and len(head) not in kind.bare:
        few, many = min(kind.bare), max(kind.bare)
        problem = f"a table without a header has {few} to {many} columns, this line {len(head)}"
        raise InputError(problem, fix=NAME_THEM.format("score"), place=location)
    positions = {role: head.index(column) for role, column in header.items()}
    if not named:
        if kind is RUN:
            refuse_shifted(head, location)
        positions = {role: at for at, role in enumerate(kind.bare[len(head)]) if role}
    if "doc" not in positions and kind.list_role not in positions:
        fix = NAME_THEM.format(kind.roles[-1])
        raise InputError("no column holds the document", fix=fix, place=location)
    return positions, named


def frame_roles(
    names: Sequence[str], name: str, columns: Mapping[str, str] | None, kind: Kind = RUN
) -> dict[str, str]:
    """Return the column of each role. Raises InputError where none holds the query or none the documents."""
    result = roles_of(names, kind, columns)
    if "query" not in result or not {"doc", kind.list_role} & set(result):
        fix = "name them query_id and doc_id, or say columns={'query': ..., 'doc': ...}"
        raise InputError(
            f"no columns hold query and document: {', '.join(names)[:200]}",
            fix=fix,
            place=SourceLocation(name),
        )
    return result
