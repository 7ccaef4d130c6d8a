"""Runs and gold as they are read: their records, and what tells a run from gold."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Format: TypeAlias = Literal["trec", "tsv", "csv", "jsonl", "json", "parquet"]
Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Gold: query id -> document id -> grade."""
FileRow: TypeAlias = tuple[int, str, str | None, float | None]
"""Line, query, document and score or grade. Document None = the query is there, and nothing came back or is known; a result
without a score has None."""


@dataclass(slots=True)
class Results:
    """The results of one query, in the order of the file; `scores` is empty for a list without scores."""

    ids: list[str] = field(default_factory=list)
    scores: array[float] = field(default_factory=lambda: array("d"))
    lines: array[int] = field(default_factory=lambda: array("q"))

    def best_first(self) -> list[str]:
        """The ids in the order of their scores: ties by id, descending; those without scores as they are."""
        if not self.scores:
            return list(self.ids)
        return [name for _, name in sorted(zip(self.scores, self.ids, strict=True), reverse=True)]


@dataclass(slots=True)
class Run:
    """The ranked results of one system: query id -> results. `name` is the file, `notes` are remarks about it."""

    name: str
    queries: dict[str, Results] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class NotTabular(Exception):
    """A large file must be read in another way, for this reason."""


MOST_COMPARED = 50_000
"""Retrieved ids that are compared with missed gold ids in the search for other spellings."""
EXAMPLES = 3
"""The number of queries that a remark names."""

Numbers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Hits:
    """The ranks of the gold documents in a run.

    `queries` are those of the gold, `sizes` the number of documents of each, `docs` and `grades` all of them. `lengths` is the
    number of results of each query, -1 where it is not in the run; `ignored` is the number of the run's other queries, and
    `first_ignored` are the first of them in the order of the file. A hit is a document with a grade: `row` is the number of its query in the gold, `rank` counts from 1, `doc` is its
    number among the documents. Hits are sorted by row and rank. `notes` are remarks; `repeated` and `folded` count results that
    were dropped: a document named again, a further chunk. `tied` counts the queries of which a relevant document stands
    elsewhere than in the file, since scores tie. `ids` are the queries of a large run one after another, and where each
    ends.
    """

    queries: Any
    sizes: Numbers
    docs: Any
    grades: Floats
    lengths: Numbers
    ignored: int
    first_ignored: Sequence[str]
    row: Numbers
    rank: Numbers
    doc: Numbers
    ids: tuple[bytes, Numbers] | None = None
    notes: Sequence[str] = ()
    repeated: int = 0
    folded: int = 0
    tied: int = 0

    @property
    def grade(self) -> Floats:
        """The gold grade of each hit, shape (hits,)."""
        return self.grades[self.doc]


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
