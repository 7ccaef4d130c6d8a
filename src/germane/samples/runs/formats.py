"""Detects the format of a run or of gold, the roles of its columns, and whether its numbers are ranks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from germane.clean import counted, fold
from germane.errors import InputError, SourceLocation
from germane.samples.cells import CellCounts
from germane.samples.fields import DOCUMENT_IDS, GRADES
from germane.samples.files import opened, shown_name
from germane.samples.runs.columns import Floats, Numbers

Format: TypeAlias = Literal["trec", "tsv", "csv", "jsonl", "json", "parquet"]
Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Gold: query id -> document id -> grade."""

RESULT: Mapping[str, tuple[str, ...]] = {
    "query": ("qid", "query_id", "topic_id", "id", "topic", "query", "question", "user_input"),
    "doc": (*DOCUMENT_IDS, "did", "doc", "document"),
    "docs": ("doc_ids", "document_ids", "retrieved_context_ids", "retrieved_ids", "contexts", "results"),
    "score": ("score", "sim", "similarity", "scores"),
    "rank": ("rank", "position"),
    "system": ("system",),
    "grade": (*GRADES, "grades", "relevances"),
    "gold": ("qrels", "gold_ids", "reference_context_ids", "document_ids", "doc_ids"),
}
"""Maps each role of a column of runs and qrels to its accepted names, in order of preference.

Case, underscores and dashes are ignored. One cell of `docs` holds all documents of a query, best first, and
one cell of `gold` holds all of its gold documents.
"""
MOST_COMPARED = 50_000
"""The number of retrieved ids that are compared with missing gold ids to find other spellings."""
EXAMPLES = 3
"""The number of queries that a note names as examples."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """The settings by which reading a run differs from reading gold.

    `roles` are the possible roles of columns (query, doc, ...). `list_role` is the role of a column that
    holds a list of documents, and `value` the role of the score or grade. `bare` maps the number of columns
    of a table without a header to their roles. `trec`, `json` and `python` are examples for messages.
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
    roles=("query", "doc", "docs", "score", "system", "rank"),
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
    """Return `fmt` if given, else detect the format from the file's first bytes, first line and extension.

    Raises InputError for a TREC run that lacks the column Q0.
    """
    lines = first_lines(path)
    fmt = fmt or _detected([line for _, line in lines], path, kind)
    if fmt == "trec" and kind is RUN and lines:
        number, first = lines[0]
        cells = [cell.decode(errors="replace") for cell in first.split()]
        _refuse_shifted(cells, SourceLocation(shown_name(path), number))
    return fmt


def _refuse_shifted(cells: Sequence[str], location: SourceLocation) -> None:
    """Raise InputError if a run has five columns but no Q0, since ranks would be read as document ids."""
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
    if first[:1] == b"[" or (first[:1] == b"{" and len(lines) == 1 and suffix == ".json"):
        return "json"
    if first[:1] == b"{":
        with suppress(ValueError, RecursionError):
            if len(lines) > 1:
                json.loads(lines[0])  # else an object that spans several lines
            return "jsonl"
        return "json"
    if suffix == ".csv":
        return "csv"
    cells = first.split()
    graded = len(cells) == 4 and bool(WHOLE.fullmatch(cells[3]))
    tabbed = first.split(b"\t")  # ids may have blanks
    blanks = len(tabbed) in kind.bare and tabbed != cells and cells[1] not in {b"0", b"Q0"}
    if not blanks and (graded if kind is GOLD else len(cells) >= 5 and is_number(cells[4])):
        return "trec"
    if b"\t" in first or suffix == ".tsv":
        return "tsv"
    return "csv" if b"," in first and len(cells) < 4 else "trec"


def first_lines(path: str | Path) -> list[tuple[int, bytes]]:
    """Return (line number, line) for the lines in the first 64 KiB of a file, except blanks and comments.

    The last line may be incomplete.
    """
    with opened(path) as stream:
        head: bytes = stream.peek(1 << 16)[: 1 << 16]  # type: ignore[attr-defined]
    numbered = enumerate(head.splitlines(), 1)
    return [(number, line) for number, line in numbered if line.strip() and line[:1] != b"#"]


def is_number(text: bytes) -> bool:
    """Return True if Python's float() accepts these bytes."""
    with suppress(ValueError):
        float(text)
        return True
    return False


@lru_cache(maxsize=64)
def roles_of(names: tuple[str, ...], kind: Kind, columns: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return a mapping from roles (query, doc, score, ...) to the names of the columns that hold them.

    `names` are the names of all columns. `columns` are the user's pairs of a role, or another name of a role,
    and a column; they take precedence over the usual names.
    """
    folded = {fold(name): name for name in reversed(names)}
    chosen = {role(key, kind.roles): name for key, name in columns}
    result = {}
    for ours in kind.roles:
        candidates = [chosen.get(ours), *(folded.get(fold(name)) for name in RESULT[ours])]
        if hit := next((name for name in candidates if name in names), None):
            result[ours] = hit
    return result


def role(key: str, allowed: Sequence[str] = ()) -> str:
    """Return the role (query, doc, score, ...) that is named by a key of `--columns`.

    The roles in `allowed` take precedence. Raises InputError for an unknown key.
    """
    for ours in (*allowed, *RESULT):
        if fold(key) == fold(ours) or fold(key) in map(fold, RESULT[ours]):
            return ours
    fix = "write query=..., doc=..., docs=..., score=..., rank=... or grade=..."
    raise InputError(f"the key {key!r} of --columns is unknown", fix=fix)


@dataclass
class Reading:
    """The state of one pass over a run or gold: its settings, and what its notes need.

    `name` is the name of the source in messages. `columns` are pairs of a role (query, doc, score, ...) and
    its name in the source. If `skip` is True, invalid rows are left out and their errors stored in
    `rejected`. `nameless` is True if a table has no header, and `bare` if, besides, its third column is a
    number. `rises` is True if scores rise with ranks in every query so far. `mapped` is True if every query
    so far maps its documents to 1, 2, 3, ... (None before the first query). `longest` is the longest list
    checked for the last two. `system` is the system of the rows read so far (None before the first row).
    `unread` are the keys of a row in which none holds documents.
    """

    name: str
    kind: Kind
    columns: tuple[tuple[str, str], ...]
    skip: bool
    notes: list[str] = field(default_factory=list)
    rejected: list[InputError] = field(default_factory=list)
    bare: bool = False
    nameless: bool = False
    cells: CellCounts = field(default_factory=CellCounts)
    rises: bool = True
    mapped: bool | None = None
    longest: int = 0
    system: str | None = None
    unread: tuple[str, ...] = ()

    def at(self, line: int) -> SourceLocation:
        """Return the SourceLocation of a line of the source."""
        return SourceLocation(self.name, line)

    def require_one_system(self, system: str, column: str, line: int) -> None:
        """Raise InputError if the row on this line has another `system` in this column than those above."""
        if self.system not in {None, system}:
            problem = f"this run has several systems in the column {column}: {self.system!r}, {system!r}"
            fix = "write a file for each system, and give all of them: germane rank A.csv B.csv"
            raise InputError(problem, fix=fix, place=self.at(line))
        self.system = system

    def are_ranks(self, numbers: Floats, starts: Numbers) -> bool:
        """Return True if a number column without a name holds ranks, False if it holds scores.

        If every list holds the numbers 1 to n or 0 to n - 1, and a number 2 occurs, they are ranks if they
        rise from row to row, and scores if they fall; in any other order, InputError is raised. All other
        numbers are scores. A note says what was found unless it is obvious.
        """
        firsts, most = count_from(numbers, starts)
        rises, longest = rise(numbers, starts), int(np.diff(starts).max(initial=0))
        if firsts and most >= _RANKS:
            counting = " or ".join(f"{first}, {first + 1}, {first + 2}, ..." for first in sorted(firsts))
            if rises:
                self.note(f"the third column counts {counting} and was read as the rank")
                return True
            if not rise(-numbers, starts):
                problem = f"the third column counts {counting} in another order than the rows"
                problem += ", so that it may hold ranks or scores"
                fix = "add a header: query_id, doc_id, rank (1 is best), or query_id, doc_id, score (highest is best)"
                raise InputError(problem, fix=fix, place=SourceLocation(self.name))
            if longest > _RANKS:
                down = " or ".join(map(str, sorted(firsts)))
                self.note(f"the third column counts down to {down} and was read as the score")
        elif rises and longest >= _RANKS and not firsts and np.isfinite(numbers).all():
            read = "rises within every query and was read as the score"
            if (numbers % 1 == 0).all():
                self.note(f"the third column {read}; if it is the rank, add a header: query_id, doc_id, rank")
        return False

    def note_without_numbers(self, names: Iterable[str], roles: Mapping[str, str]) -> None:
        """Add a note, once, if columns (`names`) are not read, and none holds the scores, ranks or grades."""
        if {self.kind.value, self.kind.list_role, "rank"} & roles.keys():
            return
        text, unread = f"no column holds the {self.kind.value}", [n for n in names if n not in roles.values()]
        if unread and not any(text in note for note in self.notes):
            so = (
                "the order of the rows is the ranking" if self.kind is RUN else "every row counts as relevant"
            )
            self.note(f"{text}, so {so}; not read: {', '.join(unread)[:200]}")

    def reject(self, fault: InputError) -> None:
        """Raise the error of an invalid row, or store it in `rejected` if invalid rows are skipped."""
        if not self.skip:
            raise fault
        self.rejected.append(fault)

    def note(self, text: str) -> None:
        """Add a note to `notes`, and put the name of the source before it."""
        self.notes.append(f"{self.name}: {text}")

    def finish(self) -> tuple[str, ...]:
        """Return all notes, with those that need all rows: on ambiguous scores and skipped rows."""
        self.notes += map(str, self.cells.notices())
        if self.rises and self.longest > _RANKS:
            found = "the scores rise with the ranks, so that rank 1 has the lowest score"
            self.note(f"{found}; results are sorted by score, highest first")
        if self.mapped and self.longest > _RANKS:
            found = "the numbers 1, 2, 3, ... of the documents"
            self.note(f"{found} were read as scores, of which the highest is best")
        if self.rejected:
            rows, were = counted(len(self.rejected), "row"), "was" if len(self.rejected) == 1 else "were"
            self.note(f"{rows} could not be read and {were} left out; the first: {self.rejected[0]}")
        return tuple(self.notes)


def table_columns(head: Sequence[str], line: int, reading: Reading) -> tuple[dict[str, int], bool]:
    """Return a mapping from each role to the index of its column, and whether the first row is a header.

    `head` is the first row of the table, on line `line`. `reading.bare` is set. Raises InputError if no
    columns hold the query and the documents.
    """
    kind, location = reading.kind, reading.at(line)
    header = roles_of(tuple(head), kind, reading.columns)
    named = "query" in header and len(header) > 1
    if reading.columns and not named:
        problem = f"the header lacks the columns named by --columns; it has {', '.join(head)[:200]}"
        fix = "write names of the header: --columns query=...,doc=..."
        raise InputError(problem, fix=fix, place=location)
    if not named and len(head) not in kind.bare:
        few, many = min(kind.bare), max(kind.bare)
        problem = f"this table has no header and {len(head)} columns, instead of {few} to {many}"
        raise InputError(problem, fix=NAME_THEM.format("score"), place=location)
    positions = {role: head.index(column) for role, column in header.items()}
    if named and (twice := next((name for name in header.values() if head.count(name) > 1), None)):
        fix = "rename one of the two columns"
        raise InputError(f"two columns are named {twice!r}", fix=fix, place=location)
    if named:
        reading.note_without_numbers(head, header)
    else:
        if kind is RUN:
            _refuse_shifted(head, location)
            reading.bare = len(head) == 3 and is_number(head[2].encode())
        positions = {role: at for at, role in enumerate(kind.bare[len(head)]) if role}
    if "doc" not in positions and kind.list_role not in positions:
        fix = NAME_THEM.format(kind.roles[-1])
        raise InputError("no column holds the document id", fix=fix, place=location)
    return positions, named


def frame_roles(names: Sequence[str], reading: Reading) -> dict[str, str]:
    """Return a mapping from each role to its column in a DataFrame or Parquet file with the columns `names`.

    Raises InputError if no column holds the query, or no column the documents.
    """
    result = roles_of(tuple(names), reading.kind, reading.columns)
    if "query" not in result or not {"doc", reading.kind.list_role} & set(result):
        problem = f"no columns hold the query and the document; the columns are {', '.join(names)[:200]}"
        fix = "name the columns query_id and doc_id, or give columns={'query': ..., 'doc': ...}"
        raise InputError(problem, fix=fix, place=SourceLocation(reading.name))
    reading.note_without_numbers(names, result)
    return result


def count_from(numbers: Floats, starts: Numbers) -> tuple[set[int], int]:
    """Return the lowest numbers of the lists, and the highest, if each list counts from 0 or 1 in any order.

    Return an empty set and 0 if a list holds other numbers, or there are no lists.
    """
    lengths = np.diff(starts)
    starts, lengths = starts[:-1][lengths > 0], lengths[lengths > 0]
    if not len(lengths):
        return set(), 0
    first = (np.minimum.reduceat(numbers, starts) != 0).astype(np.int64)
    places = np.arange(len(numbers)) - np.repeat(starts - first, lengths)
    order = np.lexsort((numbers, np.repeat(np.arange(len(lengths)), lengths)))
    if not (numbers[order] == places).all():
        return set(), 0
    return {int(first.min()), int(first.max())}, int((first + lengths).max()) - 1


_RANKS = 2
"""The number that a column must reach to hold ranks (0 and 1 alone are scores). Shorter lists get no note."""


def rise(numbers: Floats, starts: Numbers) -> bool:
    """Return True if the numbers rise strictly within every query; query i begins at row `starts[i]`."""
    rises = numbers[1:] > numbers[:-1]
    inside = starts[(starts > 0) & (starts < len(numbers))]
    rises[inside - 1] = True
    return bool(rises.all())
