"""Follow relevant documents through the stages of retrieval: which found each, which lost it, and its ranks.

A stage loses a document that is in the list of the stage before and not in its own; the first stage loses the
documents that it does not retrieve. `germane stages --json` prints the records defined here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
from msgspec import UNSET, UnsetType, field
from numpy.typing import NDArray

from germane.diagnosis.journeys import Journeys, journeys_of
from germane.encoding import Line, internal
from germane.places.table import Bools, Floats, Ints, share_of
from germane.statistics.comparison import paired_difference
from germane.statistics.intervals import IntervalEnds, mean_interval
from germane.types import Sample

RETURNED, BELOW, LOST, NEVER = "returned", "below k", "lost", "never retrieved"
"""The ends of a relevant document."""


class StageRow(Line):
    """One stage of retrieval, with its recall and its numbers of relevant documents.

    `recall` is the mean over the queries, `difference` the paired difference from the previous stage. `in`
    counts the relevant documents in the stage's lists. `lost` counts those that the previous stage has and
    this stage lacks (for the first stage: that it did not retrieve), `saved` those that this stage has and
    the previous lacks. `depth` is the length of the stage's longest list.
    """

    name: str
    recall: float | None
    interval: IntervalEnds | None
    relevant: int = field(name="in")
    lost: int
    saved: int
    difference: float | None
    difference_interval: IntervalEnds | None
    depth: int


class DocumentRow(Line):
    """One relevant document of a query: its outcome, the stage that lost it, and its rank in each stage."""

    sample: str
    document: str
    grade: int
    where: Literal["returned", "below k", "lost", "never retrieved"]
    lost: str | None
    ranks: dict[str, int | None]


class SystemStages(Line, kw_only=True, rename=internal("journeys", relevant="known", rows="documents")):
    """The stages of one system's retrieval, and what became of the relevant documents.

    `known` counts the relevant documents, `queries` the queries, `ends` the documents by outcome. For one
    system `germane stages --json` prints this record with a `schema_version`; for several it prints them as
    `systems`.
    """

    schema_version: Literal[1] | UnsetType = UNSET
    system: str | UnsetType = UNSET
    queries: int
    relevant: int
    ends: dict[str, int]
    stages: list[StageRow]
    rows: list[DocumentRow] = field(default_factory=list)
    notes: list[str]
    journeys: Any

    def documents(self, *, lost: bool = False) -> Iterator[DocumentRow]:
        """Yield a row per relevant document, in the order of the queries.

        With `lost`, yield those missing after the last stage: highest grade first, then best rank.
        """
        journeys: Journeys = self.journeys
        last, ends = _last(journeys.ranks), _ends(journeys)
        order = np.arange(len(last))
        if lost:
            missing = np.flatnonzero(ends != RETURNED)
            before = np.where(last >= 0, journeys.ranks[last, order], np.iinfo(np.int64).max)[missing]
            order = missing[np.lexsort((before, -journeys.grades[missing]))]
        for at in order.tolist():
            ranks = [rank or None for rank in journeys.ranks[:, at].tolist()]
            yield DocumentRow(
                sample=journeys.queries[int(journeys.query[at])],
                document=journeys.documents[at],
                grade=int(journeys.grades[at]),
                where=ends[at].item(),
                lost=None if ends[at] == RETURNED else journeys.names[last[at] + 1],
                ranks=dict(zip(journeys.names, ranks, strict=True)),
            )


def _last(ranks: Ints) -> Ints:
    """Return the index of the last stage whose list has each document, -1 if no stage has it."""
    stages = np.arange(len(ranks))[:, None]
    return np.asarray(np.where(ranks > 0, stages, -1).max(axis=0, initial=-1), np.int64)


def _ends(journeys: Journeys) -> NDArray[np.str_]:
    """Return the outcome of each relevant document: returned, below k, lost, or never retrieved."""
    last, stages = _last(journeys.ranks), len(journeys.names)
    ends = [last == stages - 1, last < 0, (last == stages - 2) & journeys.cut]
    return np.select(ends, [RETURNED, NEVER, BELOW], LOST)


def follow(journeys: Journeys, system: str = "") -> SystemStages:
    """Return how many relevant documents each stage found, lost and saved, and its recall with an interval.

    The recall of a query is the share of its relevant documents that are in the stage's whole list. Queries
    of one cluster, and the trials of a case, count as one unit in the intervals.
    """
    rows, row = len(journeys.queries), journeys.query
    mask, clusters = np.ones(len(row), np.bool_), journeys.clusters
    lines, narrow, before = list[StageRow](), dict[str, None](), mask
    recall_before: Floats | None = None
    for number, name in enumerate(journeys.names):
        found_by: Bools = journeys.ranks[number] > 0
        recall = share_of(found_by, mask, row, rows)
        interval = mean_interval(recall, clusters=clusters, value_range=(0.0, 1.0))
        narrow |= dict.fromkeys(filter(None, [interval.note]))
        gain = None
        if recall_before is not None:
            gain = paired_difference(recall_before, recall, clusters=clusters, value_range=(0.0, 1.0))
        line = StageRow(
            name=name,
            recall=interval.mean,
            interval=interval.ends,
            relevant=int(found_by.sum()),
            lost=int((before & ~found_by).sum()),
            saved=int((found_by & ~before).sum()) if number else 0,
            difference=gain.difference if gain else None,
            difference_interval=gain.interval.ends if gain else None,
            depth=int(journeys.lengths[number].max(initial=0)),
        )
        lines.append(line)
        before, recall_before = found_by, recall
    ends = Counter(_ends(journeys).tolist())
    return SystemStages(
        system=system,
        queries=len(set(clusters or journeys.queries)),
        relevant=len(row),
        ends={end: ends[end] for end in (RETURNED, BELOW, LOST, NEVER) if end in ends},
        stages=lines,
        notes=[*journeys.notes, *narrow],
        journeys=journeys,
    )


def follow_samples(samples: Iterable[Sample], *, rel: int = 1, k: int | None = None) -> list[SystemStages]:
    """Return the stages of each system of the samples; `rel` and `k` are those of `journeys_of`."""
    return [follow(journeys, system) for system, journeys in journeys_of(samples, rel=rel, k=k).items()]
