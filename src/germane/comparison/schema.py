"""The document of `germane compare --json`, as records: what scripts rely on. Its JSON Schema is generated from here."""

from __future__ import annotations

from typing import Literal

from msgspec import UnsetType

from germane.encoding import Line
from germane.reports.gates import DecidedBy, GateResult
from germane.reports.summary import IntervalEnds

MarginResult = Literal["pass", "fail", "undecided"]


class PartsLine(Line):
    """The parts of a difference, which sum to it, over the `n` queries whose scores are known in both.

    `retrieval` is what other lists change, `labels` what other verdicts or gold on the same passages do. `intervals` are of the
    parts that are not 0 in every query: a part whose interval holds 0 is not a finding. `share` is the share of the labels in what
    moved, 0 to 1.
    """

    retrieval: float
    labels: float
    intervals: dict[str, IntervalEnds]
    n: int
    share: float | None


class CorrectedChangeLine(Line):
    """A difference that people's labels correct; `interval` and `p` are of queries like these, `set_interval` of these alone.

    `labels` were given, in `queries` queries; of `unsure` nobody could tell: the interval covers whatever they are.
    """

    difference: float
    interval: IntervalEnds | None
    set_interval: IntervalEnds | None
    p: float | None
    labels: int
    queries: int
    unsure: int


class ComparedLine(Line):
    """One measure of system `b` against system `a`; `difference` is b minus a over the `n` queries that both have.

    `decided_by` names the figures that `decision` and `p_holm` stand on: `corrected` wherever that is not null, else the verdicts
    of the judge, gold, or people's labels; `estimand`: they speak of queries like these, or of this set alone.

    `outcome` is seen from `b`, in the measure's own direction, and `sentence` says it; null for a measure that is not primary.
    "same": the whole interval of the figures that decide is within `margin`; "better" and "worse": it is on one side of 0, and
    `p_holm` is at most 0.05; "not shown": neither, or a stand-in for a model judged.

    `mde` is the smallest difference that this number of queries could have shown with power 0.8. `decision` is against `margin`;
    undecided, `needed_to_decide` queries would likely (0.8) pass a system that is no worse.
    """

    a: str
    b: str
    measure: str
    type: str
    n: int
    due: int
    mean_a: float | None
    mean_b: float | None
    difference: float | None
    interval: IntervalEnds | None
    interval_method: str | None
    interval_why: str | None
    estimand: Literal["queries", "set"]
    level: float
    units: int
    p: float | None
    p_holm: float | None
    test: str | None
    wins: int
    ties: int
    losses: int
    mde: float | None
    decision: MarginResult | None
    margin: float | None
    needed_to_decide: int | None
    decided_by: DecidedBy
    outcome: Literal["better", "worse", "same", "not shown"] | None
    sentence: str | None
    corrected: CorrectedChangeLine | None
    corrected_why: str | None
    parts: PartsLine | None
    parts_why: str | None


class ComparedSlice(ComparedLine):
    """The same over one slice of the queries; `p_holm` is adjusted over all slices, primary measures and systems, and `outcome` is null."""

    slice: str


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


class OverlapLine(Line):
    """The mean rank-biased overlap (p = 0.9) of a system's lists with those of the system that it is compared with, over `n` queries."""

    mean: float
    n: int


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
    comparisons: list[ComparedLine]
    slices: list[ComparedSlice]
    only_in: dict[str, list[str]]
    rank_biased_overlap: dict[str, OverlapLine]
    moved: dict[str, MovedLines]
    notes: list[str]
