"""Detects the format of files with ranked results or gold, and the columns or keys that hold query, document and score."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
"""(line, query, document, score or grade, rank). The document is None if the query has no results, the score is None if the
result has no score, and the rank is set only together with a score.
"""
Numbers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


class NotPlain(Exception):
    """Raised, with a reason, for a block of rows that NumPy cannot parse, so that its rows are read one by one."""


MOST_COMPARED = 50_000
"""The number of retrieved ids that are compared with missing gold ids, to find ids that are spelt differently."""
EXAMPLES = 3
"""The number of queries that a note names as examples."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """The settings by which reading a run differs from reading gold.

    `roles` are the possible roles of columns (query, doc, ...), `list_role` is that of a list of documents,
    `value` that of the number. `bare` maps the number of columns of a table without a header to their roles.
    `trec`, `json` and `python` are examples for messages.
    """

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
    trec="write lines of the form: query Q0 document rank score tag",
    json='write {"id": "q1", "contexts": [{"id": "d7"}]} or {"query_id": "q1", "doc_id": "d7", "score": 1.5}',
    python='write {"q1": {"d7": 1.5}}, or {"q1": ["d7", "d2"]}, best first',
)
GOLD = Kind(
    name="gold",
    roles=("query", "doc", "gold", "grade"),
    list_role="gold",
    value="grade",
    bare={2: ("query", "doc"), 3: ("query", "doc", "grade"), 4: ("query", "", "doc", "grade")},
    trec="write lines of the form: query 0 document grade",
    json='write {"id": "q1", "qrels": {"d7": 2}} or {"query_id": "q1", "doc_id": "d7", "relevance": 2}',
    python='write {"q1": {"d7": 2}}, or {"q1": ["d7"]}',
)
NAME_THEM = "give the table a header, e.g. query_id, doc_id, {0}, or name its columns: --columns query=...,doc=...,{0}=..."
LARGEST_GRADE = 10**9
"""The largest grade that gold may have; 3 is usual."""
WHOLE = re.compile(rb"([+-]?\d{1,18})(?:\.0*)?")


def format_of(path: str | Path, fmt: Format | None, kind: Kind) -> Format:
    """Return `fmt` if given, else the format detected from the file's first bytes, first line and extension.

    Raises InputError for a TREC run that lacks the column Q0.
    """
    lines = first_lines(path)
    fmt = fmt or _detected([line for _, line in lines], path, kind)
    if fmt == "trec" and kind is RUN and lines:
        number, first = lines[0]
        cells = [cell.decode(errors="replace") for cell in first.split()]
        refuse_shifted(cells, SourceLocation(shown_name(path), number))
    return fmt


def refuse_shifted(cells: Sequence[str], location: SourceLocation) -> None:
    """Raise InputError if a line of a run has five columns without Q0, so that ranks would be read as documents."""
    numeric = all(is_number(cell.encode()) for cell in cells[2:4])
    if len(cells) == 5 and cells[1].upper() != "Q0" and numeric:
        problem = f"this run has five columns, and the second is {cells[1][:40]!r} instead of Q0"
        fix = f"{RUN.trec}, or a header separated by tabs: query_id, doc_id, rank, score, tag"
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
    cells = first.split()
    graded = len(cells) == 4 and bool(WHOLE.fullmatch(cells[3]))
    if graded if kind is GOLD else len(cells) >= 5 and is_number(cells[4]):
        return "trec"
    if b"\t" in first or suffix == ".tsv":
        return "tsv"
    return "csv" if b"," in first and len(cells) < 4 else "trec"


def first_lines(path: str | Path) -> list[tuple[int, bytes]]:
    """Return the numbered lines in the first 64 KiB of a file, without blank lines and comments.

    The last line may be cut off.
    """
    with opened(path) as stream:
        head: bytes = stream.peek(1 << 16)[: 1 << 16]  # type: ignore[attr-defined]
    numbered = enumerate(head.splitlines(), 1)
    return [(number, line) for number, line in numbered if line.strip() and line[:1] != b"#"]


def _one_document(lines: list[bytes], suffix: str) -> bool:
    """Return True if a file with these first lines is one JSON document, False if it is one object per line."""
    if lines[0].lstrip()[:1] == b"[":
        return True
    if len(lines) == 1:
        return suffix == ".json"
    with suppress(ValueError):
        json.loads(lines[0])
        return False
    return True


def is_number(text: bytes) -> bool:
    """Return True if these bytes are a number as Python's float() reads it."""
    with suppress(ValueError):
        float(text)
        return True
    return False


BETWEEN = {"tsv": "\t", "csv": ","}


def roles_of(names: Sequence[str], kind: Kind, columns: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a mapping from each role (query, doc, score, ...) to the column that holds it, among the column `names`.

    `columns` maps roles, or names of roles, to columns and takes precedence.
    """
    folded = {fold(name): name for name in reversed(names)}
    chosen = {role(key, kind.roles): name for key, name in (columns or {}).items()}
    result = {}
    for ours in kind.roles:
        candidates = [chosen.get(ours), *(folded.get(fold(name)) for name in RESULT[ours])]
        if hit := next((name for name in candidates if name in names), None):
            result[ours] = hit
    return result


@lru_cache(maxsize=64)
def roles_of_keys(keys: tuple[str, ...], kind: Kind, columns: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return the cached result of `roles_of` for the keys of a JSON object."""
    return roles_of(keys, kind, dict(columns))


def role(key: str, allowed: Sequence[str] = ()) -> str:
    """Return the role (query, doc, score, ...) that a key of `--columns` names. Raises InputError for an unknown key."""
    for ours in (*allowed, *RESULT):
        if fold(key) == fold(ours) or fold(key) in {fold(name) for name in RESULT[ours]}:
            return ours
    fix = "write query=..., doc=..., docs=..., score=..., rank=... or grade=..."
    raise InputError(f"the key {key!r} of --columns is unknown", fix=fix)


def chosen_key(columns: Mapping[str, str] | None) -> dict[str, str]:
    """Return {"doc": NAME} if `columns` names the document id, else {}; NAME may also be a key of objects in a list."""
    return {"doc": name for key, name in (columns or {}).items() if role(key) == "doc"}  # noqa: B035


def table_columns(
    head: Sequence[str], location: SourceLocation, kind: Kind, columns: Mapping[str, str] | None
) -> tuple[dict[str, int], bool]:
    """Return a mapping from each role to its column index in a table, and True if the first row `head` is a header.

    Raises InputError if no columns hold the query and the documents.
    """
    header = roles_of(head, kind, columns)
    named = "query" in header and len(header) > 1
    if columns and not named:
        problem = f"the header lacks the columns named by --columns; it has {', '.join(head)[:200]}"
        fix = "write names of the header: --columns query=...,doc=..."
        raise InputError(problem, fix=fix, place=location)
    if not named and len(head) not in kind.bare:
        few, many = min(kind.bare), max(kind.bare)
        problem = f"this table has no header and {len(head)} columns, instead of {few} to {many}"
        raise InputError(problem, fix=NAME_THEM.format("score"), place=location)
    positions = {role: head.index(column) for role, column in header.items()}
    if not named:
        if kind is RUN:
            refuse_shifted(head, location)
        positions = {role: at for at, role in enumerate(kind.bare[len(head)]) if role}
    if "doc" not in positions and kind.list_role not in positions:
        fix = NAME_THEM.format(kind.roles[-1])
        raise InputError("no column holds the document id", fix=fix, place=location)
    return positions, named


def frame_roles(
    names: Sequence[str], name: str, columns: Mapping[str, str] | None, kind: Kind = RUN
) -> dict[str, str]:
    """Return a mapping from each role to its column in a DataFrame or Parquet file called `name`.

    Raises InputError if no column holds the query, or none the documents.
    """
    result = roles_of(names, kind, columns)
    if "query" not in result or not {"doc", kind.list_role} & set(result):
        problem = f"no columns hold the query and the document; the columns are {', '.join(names)[:200]}"
        fix = "name the columns query_id and doc_id, or give columns={'query': ..., 'doc': ...}"
        raise InputError(problem, fix=fix, place=SourceLocation(name))
    return result
