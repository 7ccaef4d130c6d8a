"""The documents of `germane stages --json` and `germane diagnose --json`, as records."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType, field

from germane.encoding import Line
from germane.statistics.intervals import Interval, IntervalEnds


def interval_fields(interval: Interval) -> dict[str, Any]:
    """The fields of a record that say what an interval is, and how it was computed."""
    ends = interval.ends and list(interval.ends)
    return {"interval": ends, "interval_method": interval.method, "level": interval.level}


class DepthRow(Line):
    """The share of what the stage before had that a list of `depth` holds: the mean over queries, with its interval."""

    depth: int
    keeps: float | None
    interval: IntervalEnds | None


class StageRow(Line):
    """One stage. `recall` is the mean over the queries, `difference` its paired difference from the stage before.

    `in` relevant documents are in its lists, `lost` were in the list of the stage before and not in this one (of the first
    stage: never retrieved), `saved` the other way round. `depth` is the most documents that it handed on; `kept` says how much
    of what the stage before had it kept, `depths` how much that stage's first places hold: as many as this one hands on, and
    more.
    """

    name: str
    recall: float | None
    interval: IntervalEnds | None
    interval_method: str
    level: float
    units: int
    relevant: int = field(name="in")
    lost: int
    saved: int
    difference: float | None
    difference_interval: IntervalEnds | None
    p: float | None
    depth: int
    kept: DepthRow | None
    depths: list[DepthRow]

    @property
    def deeper(self) -> DepthRow | None:
        """The least depth that would at least halve what is lost; None where none of those that are known does."""
        if self.kept is None or self.kept.keeps is None or not self.lost:
            return None
        least = (1 + self.kept.keeps) / 2
        deeper = (row for row in self.depths if row.depth > self.depth and (row.keeps or 0) >= least)
        return next(deeper, None)


class DocumentRow(Line):
    """One relevant document: what became of it, the stage where it entered and the one that lost it, its rank in each."""

    sample: str
    document: str
    grade: int
    where: Literal["returned", "below k", "lost", "never retrieved", "in no list at all"]
    entered: str | None
    lost: str | None
    ranks: dict[str, int | None]


class SystemStages(Line, kw_only=True):
    """The stages of one system; `known` relevant documents in `queries`, and what became of them in `ends`."""

    system: str | UnsetType = UNSET
    queries: int
    known: int
    ends: dict[str, int]
    stages: list[StageRow]
    documents: list[DocumentRow]
    notes: list[str]


class StagesDocument(SystemStages, kw_only=True):
    """The document of `germane stages --json` of one system."""

    schema_version: Literal[1]


class StagesDocuments(Line):
    """The document of `germane stages --json` of several systems."""

    schema_version: Literal[1]
    systems: list[SystemStages]


class ChangeRow(Line):
    """One change: the measure with it, and its paired difference from the measure as it is, over the same queries.

    `limit` says that a perfect step could bring so much at most. `k` and `floor` are the new cut-off and the floor on the
    retriever's scores, `dropped` the share of places that the change drops. `p_holm` is adjusted over the changes.
    """

    change: str
    kind: Literal["rerank", "ideal", "k", "duplicates", "filter", "floor"]
    limit: bool
    k: int | None
    floor: float | None
    dropped: float | None
    mean: float | None
    difference: float | None
    interval: IntervalEnds | None
    interval_method: str
    level: float
    p: float | None
    p_holm: float | None
    wins: int
    ties: int
    losses: int


class GainRow(Line):
    """A query that would gain: its value now, the change that adds most, and what each adds."""

    sample: str
    trial: int
    query: str
    value: float
    change: str
    gain: float
    gains: dict[str, float]


class SystemDiagnosis(Line, kw_only=True):
    """The changes that would help one system by one measure, over the `n` samples of `total` with a known value."""

    system: str | UnsetType = UNSET
    measure: str
    n: int
    total: int
    mean: float
    changes: list[ChangeRow]
    queries: list[GainRow]
    notes: list[str]


class DiagnosisDocument(SystemDiagnosis, kw_only=True):
    """The document of `germane diagnose --json` of one system."""

    schema_version: Literal[1]


class DiagnosisDocuments(Line):
    """The document of `germane diagnose --json` of several systems."""

    schema_version: Literal[1]
    systems: list[SystemDiagnosis]
