"""The queries shown on a page: the worst and a random sample, with all rows about them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

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

DEFAULT = 200, 1000
"""The numbers of queries shown of a larger report: the worst, and a random sample of all."""


class Excerpt:
    """The queries of a report that its page shows; all of them unless there are too many.

    The random queries are a simple random sample of all queries, so that charts over them and labels drawn from them stand
    for all. The worst are others: failed cases, then the lowest by the first measure that has a value.

    Args:
        whole: The report.
        size: The numbers of queries shown of a larger report: the worst, and a random sample of all. None = every one.

    Attributes:
        whole: The report.
        total: How many queries it has.
        shown: How many of them are in the excerpt.
        capped: Whether these are fewer.
        report: The report with the rows of the shown queries alone, in memory; its summaries are of these.
    """

    def __init__(self, whole: ReportData, size: tuple[int, int] | None = DEFAULT) -> None:
        self.whole = whole
        self._case = whole.case_scores.case
        self.total = self.kept = int(self._case.max(initial=-1)) + 1
        self._drawn: NDArray[np.int64] | None = None
        chosen: NDArray[np.int64] | None = None
        if size is not None and self.total > sum(size):
            most, count = size
            drawn = np.random.default_rng(SEED).choice(self.total, count, replace=False)
            self._drawn = np.sort(drawn)
            worst = _worst_first(whole, self._case, self.total)
            chosen = np.union1d(drawn, worst[~np.isin(worst, drawn)][:most])
            self.kept = len(chosen)
        self.capped = chosen is not None
        self.report = self._cut(whole, chosen)

    @cached_property
    def random(self) -> ReportData:
        """The report restricted to the random queries; the whole one if every query is shown."""
        return self.report if self._drawn is None else self._cut(self.report, self._drawn)

    def of_other(self, other: ReportData) -> ReportData:
        """Return another report restricted to the shown queries."""
        if isinstance(other.tables, BlockRows) and not self.capped:
            return other
        ids = set(self.report.tables.scores.keys.ids())
        keys = {key for key in other.tables.scores.keys if key[0] in ids}
        return _cut(other, keys, other.summaries)

    @property
    def share(self) -> float:
        """The share of all queries that are in the random sample, 0 to 1."""
        return 1.0 if self._drawn is None else len(self._drawn) / self.total

    def absent(self, other: ReportData) -> int:
        """Return the number of another report's cases that this one lacks."""
        ours = self.whole.case_scores.numbers
        return sum(case not in ours for case in other.case_scores.numbers)

    def in_words(self) -> str:
        """Return a text with the numbers of queries shown and of all; "" if all are shown."""
        return f"{self.kept:,} of {self.total:,}" if self.capped else ""

    def _cut(self, report: ReportData, cases: NDArray[np.int64] | None) -> ReportData:
        """Return a report restricted to these of the whole report's cases."""
        if cases is None and isinstance(report.tables, BlockRows):
            return report
        keys = self.whole.tables.scores.keys
        if cases is None:
            return _cut(report, set(keys), report.summaries)
        keep = np.flatnonzero(np.isin(self._case, cases))
        return _cut(report, {keys[number] for number in keep.tolist()}, self.whole.summaries_of(keep))


def _worst_first(report: ReportData, case: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Return the numbers of all cases: failed ones first, then by their lowest value of the first measure; ties in input order."""
    table, least = report.tables.scores, np.full(total, np.inf)
    first = next((summary for summary in report.summaries if summary.n), None)
    if first is not None:
        rows, goodness = report.goodness(first.measure)
        np.minimum.at(least, case[table.sample[rows]], goodness)
    failed = [
        case[number] for result in report.failed() if (number := table.keys.find(result.key)) is not None
    ]
    least[failed] = -np.inf
    return np.argsort(least, kind="stable")


def _cut(report: ReportData, keys: Collection[SampleKey], summaries: Sequence[MeasureSummary]) -> ReportData:
    """Return a report with all rows that belong to these samples, and these summaries; each table is read once."""
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
        graded=[numbers.get(sample.key, 0) for sample in samples],
    )
    return ReportData(rows, report.manifest, report.verdict, summaries)


def _passages_of(sample: Sample) -> Iterator[str]:
    """Yield the items of a sample's passages, which people may label whether or not a judge was asked."""
    pairs = [
        (query, context.passage)
        for own, contexts in sample.lists()
        for context in contexts
        for query in {sample.query, own}
    ]
    yield from relevance_items(pairs, turns(sample)) if pairs else ()
