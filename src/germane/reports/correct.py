"""Judged means corrected with people's labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from math import fsum, nan
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from germane.errors import MeasureError
from germane.folder.rows import Tables
from germane.judging.recorded import StoredAnswers
from germane.measures.measure import Measure
from germane.measures.ranked import sample_means
from germane.places.places import Places
from germane.places.settings import Settings
from germane.reports.correction.draws import Pool, design_of, drift_of, is_drawn, pool_of
from germane.reports.correction.terms import Floats, JudgedSamples, ScoreTerms, TermCollector, blocks_of
from germane.reports.summary import CorrectedSummary, MeasureSummary
from germane.statistics.correction import (
    POPULATIONS,
    CorrectedMean,
    between,
    corrected_mean,
    corrected_query_mean,
)
from germane.statistics.intervals import mean_interval
from germane.tables.labels import Label, LabelBook
from germane.types import Json

if TYPE_CHECKING:
    from germane.reports.data import ReportData

Ints: TypeAlias = NDArray[np.intp]

_BETWEEN = (
    "labels were drawn from what two reports do not share: they correct the difference (germane compare A B)"
)
_GRADED = {"dcg", "top"}
"""Parameters of measures that read the grade itself: people's and the judge's must be on one scale."""


class Corrections:
    """The corrected mean of each judged measure of an evaluation, from its labels.

    Labels count that were drawn at random with a known probability, or all of them where everything that was judged is
    labelled: there nothing was chosen. Of several draws that with the most labels counts.
    """

    def __init__(self, tables: Tables, manifest: Mapping[str, Json]) -> None:
        self._tables, self._manifest = tables, manifest
        self._terms: dict[tuple[str, str], ScoreTerms] = {}
        self._drifted: dict[tuple[object, ...], str] = {}
        self._pools: dict[str, Pool] = {}

    def with_labels(self, labels: Iterable[Label]) -> Corrections:
        """The corrections that these labels make, in place of those of the tables."""
        other = copy(self)
        for name in ("book", "_drawn", "_all_labelled"):
            other.__dict__.pop(name, None)
        other._drifted = {}  # noqa: SLF001 - it is one of us
        other.labels = list(labels)
        return other

    @cached_property
    def labels(self) -> Sequence[Label]:
        """The labels of people, oldest first."""
        return list(self._tables.labels)

    def of(self, summary: MeasureSummary) -> tuple[CorrectedSummary | None, str]:
        """The corrected mean, or None and why there is none."""
        if summary.mean is None:
            return None, "nothing was measured"
        if not self.book:
            return None, "no human labels"
        if not (self._drawn or self._all_labelled):
            between = any("between" in design_of(label) for label in self.labels)
            return None, _BETWEEN if between else "no labels were drawn at random"
        rows = self.terms(summary)
        if not rows.items:
            return None, "people's labels are about other things than this measure's verdicts"
        mean = self._of_all(rows, summary) or self._of_draw(rows, summary)
        if isinstance(mean, str):
            return None, mean
        return (CorrectedSummary.of(mean), "") if mean.ends is not None else (None, mean.why)

    def terms(self, summary: MeasureSummary) -> ScoreTerms:
        """The terms that the scores of a measure of a system rest on."""
        if not self._terms:
            self._terms.update(self._take_apart())
        return self._terms[summary.measure, summary.system]

    @cached_property
    def book(self) -> LabelBook:
        """The book of all labels, which says which of several votes on an item count."""
        return LabelBook(self.labels)

    @cached_property
    def _drawn(self) -> list[Label]:
        return list(filter(is_drawn, self.labels))

    @cached_property
    def _all_labelled(self) -> bool:
        """True if everything of some kind that was judged may be labelled."""
        judged = {(row.kind, row.of is not None, row.item) for row in self._tables.places}
        groups = Counter((kind, is_part) for kind, is_part, _ in judged)
        labelled = Counter((kind, is_part) for kind, is_part, item in judged if item in self.book)
        return any(count == groups[group] for group, count in labelled.items())

    @cached_property
    def _settings(self) -> Settings:
        return Settings.stored(self._manifest)

    def _take_apart(self) -> Iterator[tuple[tuple[str, str], ScoreTerms]]:
        """The terms of each measure of each system, by both names: all samples are read once."""
        table = self._tables.scores
        systems, system = table.keys.systems()
        names = list(table.keys.ids())
        collectors: dict[tuple[str, str], TermCollector] = {}
        for name, canonical in table.measures:
            rows = table.rows_of((name, canonical))
            sample, value = table.sample[rows], table.taken(rows).value
            for code, of in enumerate(systems):
                mine = system[sample] == code
                values = dict(zip(sample[mine].tolist(), value[mine].tolist(), strict=True))
                collectors[name, of] = TermCollector(Measure.remembered(canonical), values, names)
        answers = StoredAnswers(self._tables.judgements)
        for samples in blocks_of(self._tables.samples):
            judged = JudgedSamples(samples, self._settings, answers)
            for at, read in enumerate(samples):
                number = table.keys.find(read.key)
                for collector in collectors.values():
                    collector.add(judged, at, number)
        return ((of, collector.collected()) for of, collector in collectors.items())

    def _of_all(self, rows: ScoreTerms, summary: MeasureSummary) -> CorrectedMean | None:
        """People's own mean, where they labelled everything."""
        values = self.human(rows, self.book, 0.0)
        if isinstance(values, str) or np.isnan(values).any() or any(map(self.book.unsure, rows.items)):
            return None
        mean, count, limits = (
            fsum(values.tolist()) / len(values),
            len(rows.items),
            rows.measure.definition.range,
        )
        clusters = self._tables.clusters()
        names = [clusters.get(case, f"case {case}") for case in rows.names] if clusters else None
        ends = mean_interval(values, clusters=names, value_range=limits).ends
        return CorrectedMean(
            mean=mean, ends=ends, set_ends=(mean, mean), set_human_ends=(mean, mean), method="labels of all", judged=summary.mean or 0.0,
            human=mean, human_ends=ends, labels=count, total=count, queries=len(rows.cases), ess=float(count),
        )  # fmt: skip

    def _of_draw(self, rows: ScoreTerms, summary: MeasureSummary) -> CorrectedMean | str:
        """The mean corrected with a random sample of labels, or why it is not."""
        items = set(rows.items)
        mine = [label for label in self._drawn if label.item in items]
        if not mine:
            return self._why_none(rows.kind)
        if np.isnan(rows.verdict).any() or self.drifted(rows):
            return self.drifted(rows) or "some verdicts are missing"
        drawn, design = largest_draw(mine)
        book = LabelBook(drawn)
        if (why := rows.unreadable(book)) is not None:
            return why
        if design != "queries" and np.isnan(rows.weight).any():
            name = rows.measure.name
            return f"{name} is not a mean over single verdicts: label whole queries (--design queries)"
        unsure = sum(book.unsure(item) > 0 for item in set(rows.items))
        sides = []
        for side in (0.0, 1.0) if unsure else (0.0,):
            if design == "queries":
                mean = self._of_queries(rows, book, side)
            else:
                mean = _of_terms(rows, rows.people(rows.items, book, side), summary)
            if isinstance(mean, str):
                return mean
            sides.append(mean)
        return sides[0] if len(sides) == 1 else between(*sides, unsure=unsure)

    def pool(self, kind: str) -> Pool:
        """Everything of a kind that the report judged, by query; the places are read once for each kind."""
        if kind not in self._pools:
            self._pools[kind] = pool_of(self._tables, kind)
        return self._pools[kind]

    def drifted(self, rows: ScoreTerms) -> str:
        """The reason why labels that were drawn for another report do not serve this one; "" where they do."""
        key = rows.measure, rows.kind, len(rows.items)
        if key not in self._drifted:
            self._drifted[key] = ""
            if drawn := [label for label in self._drawn if label.kind == rows.kind]:
                facts = zip(rows.case.tolist(), rows.verdict.tolist(), rows.rank.tolist(), strict=True)
                facts_of = dict(zip(rows.items, facts, strict=True))
                self._drifted[key] = drift_of(drawn, self.pool(rows.kind), facts_of)
        return self._drifted[key]

    def _why_none(self, kind: str) -> str:
        """The reason why no label that was drawn is about the verdicts of a measure, which are of this kind."""
        kinds = sorted({label.kind for label in self._drawn})
        if not kinds:
            return "no labels were drawn at random"
        if kind not in kinds:
            return f"people labelled {' and '.join(kinds)}, this measure rests on {kind}"
        return f"none of the labels is about the {kind} verdicts of this measure"

    def _of_queries(self, rows: ScoreTerms, book: LabelBook, unsure: float) -> CorrectedMean | str:
        """The corrected mean where some queries are labelled whole: estimand B."""
        values = self.human(rows, book, unsure)
        if isinstance(values, str):
            return values
        judged = [fsum(scores) / len(scores) for scores in rows.cases]
        whole = int((~np.isnan(values)).sum())
        limits = rows.measure.definition.range
        mean = partial(corrected_mean, np.array(judged), values, value_range=limits)
        of_set, result = (mean(population=of) for of in POPULATIONS)
        if result.mean is None or result.ends is None:
            result = replace(result, why=result.why.replace(" labels", " queries labelled whole", 1))
        else:
            result = _both(of_set, result, limits)
        labelled = np.isin(rows.case, np.flatnonzero(~np.isnan(values)))
        return replace(
            result, labels=int(labelled.sum()), total=len(rows.items), queries=whole,
            method=f"{result.method}, whole queries",
        )  # fmt: skip

    def human(self, rows: ScoreTerms, book: LabelBook, unsure: float) -> Floats | str:
        """People's value of each case, nan where a label is missing; or why there is none at all.

        Where somebody could not tell, `unsure` 0 gives the least that it can be, 1 the most.
        """
        labels = rows.people(rows.items, book, unsure)
        if not np.isnan(rows.weight).any():
            return np.bincount(rows.case, rows.weight * labels, len(rows.cases)).astype(float)
        measure = rows.measure
        if _GRADED & measure.definition.params.keys() and (
            others := {label.scale for label in book} - {rows.scale}
        ):
            return f"{measure.name} reads grades: people's are {min(others)}, the judge's {rows.scale}"
        try:
            human = Measure(measure.name, {**measure.params, "labels": "human"}, measure.cutoff)  # type: ignore[arg-type]
        except MeasureError as error:
            return str(error)
        missing = set(rows.case[np.isnan(labels)].tolist())
        doubts = {
            case for case, item in zip(rows.case.tolist(), rows.items, strict=True) if book.unsure(item)
        }
        whole = np.ones(len(rows.cases), np.bool_)
        whole[[*missing, *doubts]] = False
        people = Places(human.choice, replace(self._settings, labels=book))
        for case in np.flatnonzero(whole).tolist():
            for lists in rows.rankings[case]:
                people.add_items(lists)
        trials: list[list[float]] = [[] for _ in rows.cases]
        means = iter(sample_means(human, people.table, people.rows).tolist() if whole.any() else [])
        for case in np.flatnonzero(whole).tolist():
            trials[case] += islice(means, len(rows.rankings[case]))
        values = np.array([fsum(mine) / len(mine) if mine else nan for mine in trials])
        values[[*doubts - missing]] = measure.definition.range[int(unsure)]
        return values


def _of_terms(rows: ScoreTerms, labels: Floats, summary: MeasureSummary) -> CorrectedMean | str:
    """Return the corrected mean where some passages (or claims) of each query are labelled (estimand C), or why there is none.

    Every verdict is scaled so that the mean of those of a query is its score: what counts twice has twice the weight.
    """
    per_case, total = np.bincount(rows.case, minlength=len(rows.cases)), len(rows.cases)
    judged = fsum((rows.weight * rows.values).tolist()) / total
    if summary.mean is None or abs(judged - summary.mean) > 1e-9:
        return "the stored verdicts do not add up to the mean"
    scale = rows.weight * per_case[rows.case] * np.count_nonzero(per_case) / total
    limits = (0.0, max(1.0, float(scale.max())))
    values, labels, proxy = (side * scale for side in (rows.values, labels, rows.proxy))
    mean = partial(corrected_query_mean, values, labels, rows.case, proxy=proxy)
    of_set, result = (mean(population=of, value_range=limits) for of in POPULATIONS)
    queries = len(set(rows.case[~np.isnan(labels)].tolist()))
    if result.mean is None or result.ends is None:
        return result
    return replace(_both(of_set, result, rows.measure.definition.range), queries=queries)


def corrections_of(report: ReportData) -> Corrections:
    """The corrections of a report's judged means by its labels."""
    return report.corrections or Corrections(report.tables, report.manifest)


def _both(of_set: CorrectedMean, of_queries: CorrectedMean, limits: tuple[float, float]) -> CorrectedMean:
    """A corrected mean of queries like these, with the interval of these queries, both within the measure's range.

    Estimated variances may order the two the wrong way round; the wider population never has the narrower interval.
    """
    low, high = of_queries.ends or limits
    set_low, set_high = of_set.ends or (low, high)
    ends = np.clip(
        [of_queries.mean or 0.0, min(low, set_low), max(high, set_high), set_low, set_high], *limits
    ).tolist()
    return replace(
        of_queries,
        mean=ends[0],
        ends=(ends[1], ends[2]),
        set_ends=(ends[3], ends[4]),
        set_human_ends=of_set.human_ends,
    )


def largest_draw(labels: Sequence[Label]) -> tuple[list[Label], str]:
    """Return the labels of the design that most of them were drawn by, and this design."""
    design_names = [str(design_of(label).get("design")) for label in labels]
    (design, _), *_ = Counter(design_names).most_common(1)
    return [label for label, of in zip(labels, design_names, strict=True) if of == design], design
