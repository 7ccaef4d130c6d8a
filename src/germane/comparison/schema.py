"""The document of `germane compare --json`, as records: what scripts rely on. Its JSON Schema is generated from here."""

from __future__ import annotations

from typing import Literal

from msgspec import UnsetType, field

from germane.encoding import Line
from germane.reports.gates import GateResult
from germane.reports.pairing import MarginResult, MeasureComparison
from germane.statistics.ranking import Overlap


class ComparedSlice(MeasureComparison, kw_only=True):
    """The same over one slice of the queries; `p_holm` is adjusted over all slices, primary measures and systems, and `outcome` is null."""

    of: str = field(name="slice")


class MovedLine(Line):
    """A query whose score changed, with the changes of its list: ids, and of what moved (id, old rank, new rank).

    `gold` holds the same of each gold document, null for a rank where it did not come back.
    """

    sample: str
    query: str
    a: float
    b: float
    change: float
    added: list[str] | None
    dropped: list[str] | None
    moved: list[tuple[str, int, int]] | None
    gold: list[tuple[str, int | None, int | None]] | UnsetType | None = None


class MovedLines(Line):
    """The queries that became worst and best, the most moved first."""

    worst: list[MovedLine]
    best: list[MovedLine]


class ComparisonDocument(Line):
    """The document of `germane compare --json`.

    `only_in` lists the queries that others do not have, by system; `rank_biased_overlap` is there for the systems whose lists are known. `verdict` is null where there are no `gates`: none of --margin, no --fail-on-regression.
    """

    schema_version: Literal[1]
    passed: bool
    exit_code: int
    verdict: MarginResult | None
    gates: list[GateResult]
    systems: list[str]
    primary: list[str]
    comparisons: list[MeasureComparison]
    slices: list[ComparedSlice]
    only_in: dict[str, list[str]]
    rank_biased_overlap: dict[str, Overlap]
    moved: dict[str, MovedLines]
    notes: list[str]
