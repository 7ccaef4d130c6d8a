"""Choose the queries that a report's HTML page shows, and cut the report down to them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from germane.encoding import relevance_items
from germane.folder.rows import BlockRows, Tables
from germane.places.lists import turns
from germane.reports.data import ReportData
from germane.reports.summary import MeasureSummary
from germane.tables.judgements import JudgementTable, result_item
from germane.tables.scores import SampleKey, ScoreTable
from germane.types import Sample

SEED = 0
"""The seed of the random queries, and of the random order in which the page offers contexts for labels."""

MOST = 1200  # queries on the page of a larger report


class Excerpt:
    """The queries of a report that its page shows: all, or a random sample of a large report's queries.

    As the sample is random, charts over it and labels drawn from it represent all queries. `total` is the
    number of queries of the `whole` report, `kept` that of the queries on the page; `report` is an in-memory
    report with these queries only.
    """

    def __init__(self, whole: ReportData, most: int = MOST) -> None:
        self.whole, keys = whole, whole.tables.scores.samples
        case = whole.case_scores.case
        self.total = int(case.max(initial=-1)) + 1
        self.kept = min(self.total, most)
        keep, summaries = np.arange(len(case)), whole.summaries
        if self.kept < self.total:
            drawn = np.random.default_rng(SEED).choice(self.total, most, replace=False)
            keep = np.flatnonzero(np.isin(case, drawn))
            summaries = tuple(whole.summaries_of(keep))
        self.report = _cut(whole, {keys[number] for number in keep.tolist()}, summaries)

    def of_other(self, other: ReportData) -> ReportData:
        """Return another report, cut to the queries that are on this page."""
        ids = self.report.case_scores.numbers
        return _cut(other, {key for key in other.tables.scores.samples if key[0] in ids}, other.summaries)

    @property
    def share(self) -> float:
        """The share of the report's queries that are on the page, from 0 to 1."""
        return self.kept / self.total if self.total else 1.0

    def in_words(self) -> str:
        """Return "1,200 of 5,000": the queries on the page and in the report; "" if all are on the page."""
        return f"{self.kept:,} of {self.total:,}" if self.kept < self.total else ""


def _cut(report: ReportData, keys: Collection[SampleKey], summaries: Sequence[MeasureSummary]) -> ReportData:
    """Return an in-memory report of these samples only, with these summaries."""
    tables: Tables = report.tables
    samples = list(tables.samples_of(keys))
    places = list(tables.places_of(keys))
    items = {*(row.item for row in places), *(item for sample in samples for item in _passages_of(sample))}
    scores = ScoreTable(tables.scores.of_samples(keys))
    items.update(result_item(sample.key, name) for sample in samples for name in report.measures)
    numbers = tables.grader_numbers() if len(tables.graders) > 1 else {}
    rows = BlockRows(
        samples=samples,
        places=places,
        judgements=JudgementTable(tables.judgements_of(items)),
        labels=list(tables.labels_of(items)),
        scores=scores,
        graders=list(tables.graders),
        graded=numbers,
    )
    return ReportData(rows, report.manifest, report.verdict, summaries)


def _passages_of(sample: Sample) -> Iterator[str]:
    """Yield the item (the key of people's labels) of each passage that a sample retrieved."""
    pairs = [
        (query, context.passage)
        for own, contexts in sample.lists()
        for context in contexts
        for query in {sample.query, own}
    ]
    yield from relevance_items(pairs, turns(sample)) if pairs else ()
