"""Judged means corrected with people's labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import islice
from math import fsum, nan
from typing import TYPE_CHECKING

import numpy as np

from germane.errors import MeasureError
from germane.folder.rows import Tables
from germane.measures.measure import Measure
from germane.measures.ranked import sample_means
from germane.places.places import Places
from germane.places.settings import Settings
from germane.places.table import Floats
from germane.reports.correction.draws import Pool, design_of, fingerprint, is_drawn, pool_of
from germane.reports.correction.terms import ScoreTerms, score_terms
from germane.reports.summary import MeasureSummary
from germane.statistics.correction import (
    POPULATIONS,
    between,
    corrected_mean,
    corrected_query_mean,
)
from germane.statistics.intervals import CorrectedMean, mean_interval
from germane.tables.labels import Label, LabelBook
from germane.types import Json

if TYPE_CHECKING:
    from germane.reports.data import ReportData

_GRADED = {"dcg", "top"}
"""Parameters of measures that read the grade itself: people's labels and the judge's must be on one scale."""


class Corrections:
    """The corrected mean of each judged measure of an evaluation.

    Labels drawn at random (queue `random`) correct a mean; of several draws the one with the most labels. If everything
    that was judged is labelled, any labels do: nothing was selected.

    Attributes:
        labels: The labels of people, oldest first.
        book: The same, looked up by item.
    """

    def __init__(self, tables: Tables, manifest: Mapping[str, Json]) -> None:
        self._tables, self._settings = tables, Settings.stored(manifest)
        self._terms: dict[tuple[str, str], ScoreTerms] = {}
        self._pools: dict[str, Pool] = {}
        self.set_labels(tables.labels)

    def set_labels(self, labels: Iterable[Label]) -> None:
        """Use these labels in place of those in the tables."""
        self.labels = list(labels)
        self.book = LabelBook(self.labels)
        self._drawn = list(filter(is_drawn, self.labels))
        self._drawn_of: dict[str, list[Label]] = {}

    def with_labels(self, labels: Iterable[Label]) -> Corrections:
        """Return the corrections by these labels; stored verdicts are not read again."""
        other = copy(self)
        other.set_labels(labels)
        return other

    def of(self, summary: MeasureSummary) -> tuple[CorrectedMean | None, str]:
        """Return the corrected mean, or None and the reason."""
        if summary.mean is None:
            return None, "nothing was measured"
        if not self.book:
            return None, "no human labels"
        if not (self._drawn or self._all_labelled()):
            return None, "no labels were drawn at random"
        rows = self.terms(summary)
        if not rows.items:
            return None, "people's labels are about other things than this measure's verdicts"
        mean = self._of_all(rows, summary) or self._of_draw(rows, summary)
        return (None, mean) if isinstance(mean, str) else (mean, "")

    def terms(self, summary: MeasureSummary) -> ScoreTerms:
        """Return the verdicts on which the scores of a system's measure rest."""
        if not self._terms:
            self._terms.update(score_terms(self._tables, self._settings))
        return self._terms[summary.measure, summary.system]

    def pool(self, kind: str) -> Pool:
        """Return everything of a kind that the report judged, by query; the places are read once per kind."""
        if kind not in self._pools:
            self._pools[kind] = pool_of(self._tables, kind)
        return self._pools[kind]

    def drawn(self, kind: str) -> list[Label]:
        """Return the labels of a kind that were drawn at random from this report; those drawn from another one are left out."""
        if kind not in self._drawn_of:
            own = fingerprint(self.pool(kind))
            mine = (label for label in self._drawn if label.kind == kind)
            self._drawn_of[kind] = [label for label in mine if design_of(label).get("pool", own) == own]
        return self._drawn_of[kind]

    def _all_labelled(self) -> bool:
        """Return True if everything judged of some kind has a label."""
        judged = {(row.kind, row.of is not None, row.item) for row in self._tables.places}
        groups = Counter((kind, is_part) for kind, is_part, _ in judged)
        labelled = Counter((kind, is_part) for kind, is_part, item in judged if item in self.book)
        return any(count == groups[group] for group, count in labelled.items())

    def _of_all(self, rows: ScoreTerms, summary: MeasureSummary) -> CorrectedMean | str:
        """Return people's own mean if they labelled everything, or why there is no interval; "" if they did not."""
        values = self.human(rows, self.book, 0.0)
        if isinstance(values, str) or np.isnan(values).any() or any(map(self.book.unsure, rows.items)):
            return ""
        mean, count = fsum(values.tolist()) / len(values), len(rows.items)
        clusters = self._tables.clusters()
        names = [clusters.get(case, f"case {case}") for case in rows.cases] if clusters else None
        ends = mean_interval(values, clusters=names, value_range=rows.measure.definition.range).ends
        if ends is None:
            return ""
        return CorrectedMean(
            mean=mean, ends=ends, set_ends=(mean, mean), method="labels of all", judged=summary.mean or 0.0,
            labels=count, total=count, queries=len(rows.cases), ess=float(count),
        )  # fmt: skip

    def _of_draw(self, rows: ScoreTerms, summary: MeasureSummary) -> CorrectedMean | str:
        """Return the mean corrected with a random sample of labels, or the reason for none."""
        items = set(rows.items)
        mine = [label for label in self.drawn(rows.kind) if label.item in items]
        if not mine:
            return self._why_none(rows.kind)
        if np.isnan(rows.verdict).any():
            return "some verdicts are missing"
        (design, _), *_ = Counter(str(design_of(label).get("design")) for label in mine).most_common(1)
        book = LabelBook(label for label in mine if str(design_of(label).get("design")) == design)
        if (why := rows.unreadable(book)) is not None:
            return why
        if design != "queries" and np.isnan(rows.weight).any():
            name = rows.measure.name
            return f"{name} is not a mean over single verdicts: label whole queries (--design queries)"
        unsure, sides = sum(book.unsure(item) > 0 for item in items), []
        for side in (0.0, 1.0) if unsure else (0.0,):
            if design == "queries":
                mean = self._of_queries(rows, book, side)
            else:
                mean = _of_terms(rows, rows.people(rows.items, book, side), summary)
            if isinstance(mean, str):
                return mean
            sides.append(mean)
        return sides[0] if len(sides) == 1 else between(*sides, unsure=unsure)

    def _why_none(self, kind: str) -> str:
        """Return why no drawn label is about a measure's verdicts, which are of this kind."""
        kinds = sorted({label.kind for label in self._drawn})
        if not kinds:
            return "no labels were drawn at random"
        if kind not in kinds:
            return f"people labelled {' and '.join(kinds)}, this measure rests on {kind}"
        if not self.drawn(kind):
            return "the labels were drawn for another report: label this one (germane label)"
        return f"none of the labels is about the {kind} verdicts of this measure"

    def _of_queries(self, rows: ScoreTerms, book: LabelBook, unsure: float) -> CorrectedMean | str:
        """Return the corrected mean if some queries are labelled completely: estimand B."""
        values = self.human(rows, book, unsure)
        if isinstance(values, str):
            return values
        judged = [fsum(scores) / len(scores) for scores in rows.cases.values()]
        labelled, limits = ~np.isnan(values), rows.measure.definition.range
        mean = partial(corrected_mean, np.array(judged), values, value_range=limits)
        result = _both([mean(population=of) for of in POPULATIONS], limits)
        if isinstance(result, str):
            return result.replace(" labels", " queries labelled whole", 1)
        return result.replace(
            labels=int(labelled[rows.case].sum()),
            total=len(rows.items),
            queries=int(labelled.sum()),
            method=f"{result.method}, whole queries",
        )

    def human(self, rows: ScoreTerms, book: LabelBook, unsure: float) -> Floats | str:
        """Return people's value of each case (nan if a label is missing), or the reason for none.

        If somebody could not tell, `unsure` 0 gives the smallest possible value, 1 the largest.
        """
        labels = rows.people(rows.items, book, unsure)
        if not np.isnan(rows.weight).any():
            return np.bincount(rows.case, rows.weight * labels, len(rows.cases)).astype(float)
        measure = rows.measure
        others = {label.scale for label in book} - {rows.scale}
        if others and _GRADED & measure.definition.params.keys():
            return f"{measure.name} reads grades: people's are {min(others)}, the judge's {rows.scale}"
        try:
            human = Measure(measure.name, {**measure.params, "labels": "human"}, measure.k)  # type: ignore[arg-type]
        except MeasureError as error:
            return str(error)
        missing, doubts = np.zeros((2, len(rows.cases)), np.bool_)
        missing[rows.case[np.isnan(labels)]] = True
        doubts[rows.case[[book.unsure(item) > 0 for item in rows.items]]] = True
        values = np.where(doubts & ~missing, measure.definition.range[int(unsure)], nan)
        whole = np.flatnonzero(~(missing | doubts)).tolist()
        people = Places(human.choice, replace(self._settings, labels=book))
        for lists in (lists for case in whole for lists in rows.rankings[case]):
            people.add_items(lists)
        means = iter(sample_means(human, people.table, people.rows).tolist() if whole else [])
        for case in whole:
            trials = list(islice(means, len(rows.rankings[case])))
            values[case] = fsum(trials) / len(trials)
        return values


def _of_terms(rows: ScoreTerms, labels: Floats, summary: MeasureSummary) -> CorrectedMean | str:
    """Return the corrected mean if some passages or claims of each query are labelled, or why there is none: estimand C.

    Every verdict is scaled so that the mean of those of a query is its score: what counts twice has twice the weight.
    """
    total, per_case = len(rows.cases), np.bincount(rows.case, minlength=len(rows.cases))
    judged = fsum((rows.weight * rows.values).tolist()) / total
    if summary.mean is None or abs(judged - summary.mean) > 1e-9:
        return "the stored verdicts do not add up to the mean"
    scale = rows.weight * per_case[rows.case] * np.count_nonzero(per_case) / total
    both = [
        corrected_query_mean(
            rows.values * scale,
            labels * scale,
            rows.case,
            proxy=rows.proxy * scale,
            population=population,
            value_range=(0.0, max(1.0, float(scale.max()))),
        )
        for population in POPULATIONS
    ]
    result = _both(both, rows.measure.definition.range)
    queries = len(np.unique(rows.case[~np.isnan(labels)]))
    return result if isinstance(result, str) else result.replace(queries=queries)


def _both(means: Iterable[CorrectedMean | str], limits: tuple[float, float]) -> CorrectedMean | str:
    """Return the mean over queries like these, with the interval over these queries too, both within the measure's range.

    `means` are of the `POPULATIONS`; a reason why there is none is returned. Estimated variances may order the two intervals
    the wrong way round; the wider population never has the narrower one.
    """
    of_set, of_queries = means
    if isinstance(of_queries, str):
        return of_queries
    low, high = of_queries.ends
    set_low, set_high = (low, high) if isinstance(of_set, str) else of_set.ends
    values = [of_queries.mean, min(low, set_low), max(high, set_high), set_low, set_high]
    mean, least, most, *set_ends = np.clip(values, *limits).tolist()
    return of_queries.replace(mean=mean, ends=(least, most), set_ends=tuple(set_ends))


def corrections_of(report: ReportData) -> Corrections:
    """Return the corrections of a report's judged means by its labels."""
    return report.corrections or Corrections(report.tables, report.manifest)
