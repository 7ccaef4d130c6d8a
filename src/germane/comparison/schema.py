"""The document of `germane compare --json`, as records: what scripts rely on. Its JSON Schema is generated from here."""

from __future__ import annotations

from typing import Literal

from msgspec import UnsetType

from germane.encoding import Line
from germane.reports.gates import GateResult
from germane.reports.pairing import MarginResult, MeasureComparison
from germane.statistics.intervals import IntervalEnds
from germane.statistics.ranking import Overlap


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


class BestLine(Line):
    """The best of three or more systems by one measure, over the queries that all were measured on; its gain over the first system, above 0 where it is better.

    `gain` is that of these queries, which chose it; `gain_held_out` that of systems chosen on one half of the queries, measured on the other,
    the mean of 200 random halves (clusters whole) and their counterparts. `interval` is that of the gain that holds, of queries like these.
    """

    system: str
    measure: str
    gain: float
    gain_held_out: float | None
    interval: IntervalEnds | None


class ComparisonDocument(Line):
    """The document of `germane compare --json`.

    `only_in` lists the queries that others do not have, by system; `rank_biased_overlap` is there for the systems whose lists are known. `best` holds the best system by each measure, the primary ones first, where three or more are compared with the same one. `verdict` is null where there are no `gates`: none of --margin, no --fail-on-regression.
    """

    schema_version: Literal[1]
    passed: bool
    exit_code: int
    verdict: MarginResult | None
    gates: list[GateResult]
    systems: list[str]
    primary: list[str]
    comparisons: list[MeasureComparison]
    slices: list[MeasureComparison]
    only_in: dict[str, list[str]]
    rank_biased_overlap: dict[str, Overlap]
    moved: dict[str, MovedLines]
    best: list[BestLine]
    notes: list[str]
