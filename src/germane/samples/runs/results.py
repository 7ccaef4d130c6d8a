"""The kinds of ranked results and gold: their columns and examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
