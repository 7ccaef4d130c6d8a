"""Correct the means of judged measures with people's labels, and find out what to label for this.

A draw is a set of labels with the same queue, design and seed. Its items come from one pool: all judged items
of a kind in a report. Probabilities are computed from the labels that were given, not from the budget, so a
session that stops early is a smaller draw.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from math import fsum, nan, prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from germane.clean import counted, some_of
from germane.encoding import digest
from germane.errors import MeasureError
from germane.folder.tables import Tables
from germane.measures.bounds import sample_means
from germane.measures.measure import Measure
from germane.places.lists import Settings
from germane.places.places import Places
from germane.places.table import Floats
from germane.reports.summary import PASSAGE_MEANS, VERDICT_MEANS, MeasureSummary
from germane.reports.terms import ScoreTerms, score_terms
from germane.statistics.correction import (
    FEWEST,
    POPULATIONS,
    Design,
    chances_of_rounds,
    corrected_mean,
    corrected_query_mean,
    merge_bounds,
)
from germane.statistics.intervals import CorrectedMean, mean_interval
from germane.tables.labels import Label, LabelBook
from germane.types import Json

if TYPE_CHECKING:
    from germane.reports.data import ReportData

_KINDS = ("relevance", "support", "sufficiency")  # the kinds of verdicts that people can label too
_GRADED = {"dcg", "top"}
"""Parameters of measures that use the grade's value: people and the judge must use the same scale."""
_LEAST_QUERIES = 3  # queries with labels that a correction needs at least


Pool: TypeAlias = Mapping[str, frozenset[str]]  # the items that can be drawn, by case id


def is_drawn(label: Label) -> bool:
    """Return True if the labelled item was drawn at random from all items that one report judged."""
    return label.queue == "random" and bool(label.design)


def pool_of(tables: Tables, kind: str) -> Pool:
    """Return the items that people can label, by case id: passages, claims (support) or context sets."""
    result: dict[str, set[str]] = defaultdict(set)
    for row in tables.places:
        if row.kind == kind and (row.of is not None) == (kind == "support"):
            result[row.sample].add(row.item)
    return {case: frozenset(items) for case, items in result.items()}


def fingerprint(pool: Pool) -> str:
    """Return a short hash of the items in a pool."""
    items = sorted(item for items in pool.values() for item in items)
    return digest([digest(items)])[:16]


@dataclass(frozen=True)
class Draw:
    """People's labels of items (such as passages) that were drawn at random from `pool`.

    `pool` contains all items that could be drawn, by case id. If `whole`, complete queries were drawn;
    otherwise single items were drawn.
    """

    labels: Sequence[Label]
    pool: Pool
    whole: bool = False

    @cached_property
    def items(self) -> frozenset[str]:
        """The items that were drawn and labelled; if `whole`, only items of completely labelled queries."""
        drawn = {label.item for label in self.labels}
        items = (items for items in self.pool.values() if items <= drawn or not self.whole)
        return frozenset(item for some in items for item in some if item in drawn)

    @cached_property
    def complete(self) -> bool:
        """True if each query is labelled completely or not at all: queries, or all items, were drawn."""
        return self.whole or len(self.items) == len(frozenset[str]().union(*self.pool.values()))

    @cached_property
    def _chances(self) -> Mapping[str, float]:
        """By case id, the probability that an item of the query was drawn."""
        if self.whole:
            share = sum(items <= self.items for items in self.pool.values()) / len(self.pool)
            return dict.fromkeys(self.pool, share)
        drawn = sum(len(items & self.items) for items in self.pool.values())
        chances = chances_of_rounds(list(map(len, self.pool.values())), drawn)
        return dict(zip(self.pool, chances.tolist(), strict=True))

    def chance(self, case: str, item: str) -> float:
        """Return the probability that `item` of the query `case` was drawn; 0 if the pool lacks it."""
        return self._chances[case] if item in self.pool.get(case, ()) else 0.0


def chance_of(draws: Iterable[Draw], case: str, item: str) -> float:
    """Return the probability that any of the independent `draws` contains `item` of the query `case`."""
    return 1.0 - prod(1.0 - draw.chance(case, item) for draw in draws)


def draws_of(labels: Iterable[Label], pool: Pool) -> Iterator[Draw]:
    """Yield the labels of each queue, design and seed as the `Draw` of its items from `pool`, if any."""
    groups: dict[tuple[object, ...], list[Label]] = defaultdict(list)
    for label in labels:
        design = label.design or {}
        groups[label.queue, design.get("design"), design.get("seed")].append(label)
    for (_, unit, _), mine in groups.items():
        draw = Draw(mine, pool, whole=unit == "queries")
        if draw.items:
            yield draw


class Corrections:
    """Corrects the means of an evaluation's judged measures with people's labels.

    Labels that were drawn at random (queue `random`) correct a mean. If they come from several designs, the
    design with the most labels is used. If every judged item has a label, labels of any queue are used.
    `labels` are people's labels, oldest first, and `book` looks them up by item.
    """

    def __init__(self, tables: Tables, manifest: Mapping[str, Json]) -> None:
        self._tables, self._settings = tables, Settings.stored(manifest)
        self._terms: dict[tuple[str, str], ScoreTerms] = {}
        self._pools: dict[str, Pool] = {}
        self.set_labels(tables.labels)

    def set_labels(self, labels: Iterable[Label]) -> None:
        """Use these labels instead of the labels in the tables."""
        self.labels = list(labels)
        self.book = LabelBook(self.labels)
        self._drawn = list(filter(is_drawn, self.labels))
        self._drawn_of: dict[str, list[Label]] = {}

    def with_labels(self, labels: Iterable[Label]) -> Corrections:
        """Return a copy of these corrections that uses other labels; stored verdicts are not read again."""
        other = copy(self)
        other.set_labels(labels)
        return other

    def corrected_mean(self, summary: MeasureSummary) -> tuple[CorrectedMean | None, str]:
        """Return (corrected mean, "") of a measure, or (None, reason) if the mean cannot be corrected."""
        if summary.mean is None:
            return None, "nothing was measured"
        if not self.book:
            return None, "no human labels"
        if not self._drawn and not any(map(self.all_labelled, _KINDS)):
            return None, "no labels were drawn at random"
        rows = self.terms(summary)
        if not rows.items:
            return None, "no passage or claim whose verdict this measure uses has a label of a person"
        mean = self._of_all(rows, summary) or self._of_draw(rows, summary)
        return (None, mean) if isinstance(mean, str) else (mean, "")

    def terms(self, summary: MeasureSummary) -> ScoreTerms:
        """Return the verdicts from which the scores of a summary's measure and system were computed."""
        if not self._terms:
            self._terms.update(score_terms(self._tables, self._settings))
        return self._terms[summary.measure, summary.system]

    def pool(self, kind: str) -> Pool:
        """Return the judged items of a kind (relevance, support or sufficiency), by case id."""
        if kind not in self._pools:
            self._pools[kind] = pool_of(self._tables, kind)
        return self._pools[kind]

    def drawn(self, kind: str) -> list[Label]:
        """Return the labels of a kind that were drawn at random from this report, not from another."""
        if kind not in self._drawn_of:
            own = fingerprint(self.pool(kind))
            mine = (label for label in self._drawn if label.kind == kind)
            self._drawn_of[kind] = [label for label in mine if (label.design or {}).get("pool", own) == own]
        return self._drawn_of[kind]

    def all_labelled(self, kind: str) -> bool:
        """Return True if every judged item of a kind has a person's label."""
        pool = self.pool(kind)
        return bool(pool) and all(item in self.book for items in pool.values() for item in items)

    def _of_all(self, rows: ScoreTerms, summary: MeasureSummary) -> CorrectedMean | str:
        """Return the mean of people's labels alone; "" if one is missing, or without an interval."""
        clusters, count = self._tables.clusters(), len(rows.items)
        names = [clusters.get(case, f"case {case}") for case in rows.cases] if clusters else None
        unsure, sides = sum(self.book.unsure(item) > 0 for item in rows.items), []
        for side in (0.0, 1.0) if unsure else (0.0,):
            values = self.human(rows, self.book, side)
            if isinstance(values, str) or np.isnan(values).any():
                return ""
            mean = fsum(values.tolist()) / len(values)
            ends = mean_interval(values, clusters=names, value_range=rows.measure.definition.range).ends
            if ends is None:
                return ""
            of_side = CorrectedMean(
                mean=mean, ends=ends, set_ends=(mean, mean), method="labels of all", judged=summary.mean or 0.0,
                labels=count, total=count, queries=len(rows.cases), ess=float(count),
            )  # fmt: skip
            sides.append(of_side)
        return sides[0] if len(sides) == 1 else merge_bounds(*sides, unsure=unsure)

    def _of_draw(self, rows: ScoreTerms, summary: MeasureSummary) -> CorrectedMean | str:
        """Return the mean corrected with randomly drawn labels, or the reason why it cannot be corrected."""
        items = set(rows.items)
        mine = [label for label in self.drawn(rows.kind) if label.item in items]
        if not mine:
            return self._why_none(rows.kind)
        if np.isnan(rows.verdict).any():
            return "some verdicts of the judge are missing: run `germane run --resume REPORT`"
        by_design: dict[str, list[Label]] = {}
        for label in mine:
            by_design.setdefault(str((label.design or {}).get("design")), []).append(label)
        design = max(by_design, key=lambda name: len(by_design[name]))
        book = LabelBook(by_design[design])
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
        return sides[0] if len(sides) == 1 else merge_bounds(*sides, unsure=unsure)

    def _why_none(self, kind: str) -> str:
        """Return why no randomly drawn label can correct a measure that uses verdicts of this kind."""
        kinds = sorted({label.kind for label in self._drawn})
        if not kinds:
            return "no labels were drawn at random"
        if kind not in kinds:
            return f"people labelled {' and '.join(kinds)}, but this measure uses verdicts on {kind}"
        if not self.drawn(kind):
            return "the labels were drawn for another report: label this one (germane label)"
        return f"none of the {kind} labels is of a passage or claim that this measure uses"

    def _of_queries(self, rows: ScoreTerms, book: LabelBook, unsure: float) -> CorrectedMean | str:
        """Return the mean corrected with the completely labelled queries, or why it cannot be corrected."""
        values = self.human(rows, book, unsure)
        if isinstance(values, str):
            return values
        judged = [fsum(scores) / len(scores) for scores in rows.cases.values()]
        labelled, limits = ~np.isnan(values), rows.measure.definition.range
        if (count := int(labelled.sum())) < FEWEST:
            return f"{counted(count, 'query')} labelled whole: at least {FEWEST} are needed"
        mean = partial(corrected_mean, np.array(judged), values, value_range=limits)
        result = _both([mean(population=of) for of in POPULATIONS], limits)
        if isinstance(result, str):
            return result.replace(" labels", " queries labelled whole", 1)
        return result.replace(
            labels=int(labelled[rows.case].sum()),
            total=len(rows.items),
            queries=count,
            method=f"{result.method}, whole queries",
        )

    def human(self, rows: ScoreTerms, book: LabelBook, unsure: float) -> Floats | str:
        """Return each case's score from the labels in `book` (nan = a label is missing), or why it has none.

        A label "unsure" counts as the answer with the lowest score if `unsure` is 0, the highest if it is 1.
        """
        labels = rows.people(rows.items, book, unsure)
        if not np.isnan(rows.weight).any():
            return np.bincount(rows.case, rows.weight * labels, len(rows.cases)).astype(float)
        measure = rows.measure
        others = {label.scale for label in book} - {rows.scale}
        if others and _GRADED & measure.definition.params.keys():
            scales = f"people's labels are on the scale {min(others)}, the judge's verdicts on {rows.scale}"
            return f"{measure.name} reads grades, but {scales}"
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
    """Return the mean corrected with `labels` (nan = none) of some passages or claims, or why not."""
    total, per_case = len(rows.cases), np.bincount(rows.case, minlength=len(rows.cases))
    judged = fsum((rows.weight * rows.values).tolist()) / total
    if summary.mean is None or abs(judged - summary.mean) > 1e-9:
        return "the stored verdicts do not add up to the stored mean: score again with germane score"
    # scaled by its weight, so that the mean of a query's verdicts is its score
    scale = rows.weight * per_case[rows.case] * np.count_nonzero(per_case) / total
    mean = partial(
        corrected_query_mean,
        rows.values * scale,
        labels * scale,
        rows.case,
        proxy=rows.verdict * scale,  # the judge's grade predicts a person's yes or no better than 1 or 0
        value_range=(0.0, max(1.0, float(scale.max()))),
    )
    result = _both([mean(population=of) for of in POPULATIONS], rows.measure.definition.range)
    queries = len(np.unique(rows.case[~np.isnan(labels)]))
    return result if isinstance(result, str) else result.replace(queries=queries)


def _both(means: Iterable[CorrectedMean | str], limits: tuple[float, float]) -> CorrectedMean | str:
    """Join the intervals of one mean: for these queries alone, and for queries like these.

    The second is widened to contain the first, because estimated variances do not ensure this.
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
    """Return the `Corrections` of a report's judged means by the people's labels stored in the report."""
    return report.corrections or Corrections(report.tables, report.manifest)


# what to label


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelTarget:
    """The judged means that people's labels of one `kind` (relevance, support or sufficiency) can correct.

    `design` is the unit of the random draw: single passages or claims, or whole queries. `measures` are the
    measures whose means are corrected. `cases` are the queries for which every measure has a value; labels of
    other queries correct nothing.
    """

    kind: str
    design: Design
    measures: tuple[str, ...] = ()
    cases: frozenset[str] = frozenset()

    def answers_needed(self, cases: Sequence[str]) -> int:
        """Return the number of answers needed to correct the means, given the query of each item in order."""
        labels, answers, seen = 0, 0, set[str]()
        if self.design == "queries":
            for case, size in Counter(cases).items():
                answers, labels = answers + size, labels + (case in self.cases)
                if labels == FEWEST:
                    break
            return answers
        for answers, case in enumerate(cases, 1):
            if case in self.cases:
                labels += 1
                seen.add(case)
            if labels >= FEWEST and len(seen) >= _LEAST_QUERIES:
                return answers
        return len(cases)

    def announcement(self, cases: Sequence[str], size: int) -> str:
        """Return which means the first `size` answers correct, given the query of each item in order."""
        names, needed = some_of(self.measures, 4), self.answers_needed(cases)
        what = {"relevance": "passages", "support": "claims"}.get(self.kind, "sets of passages")
        how = "whole queries" if self.design == "queries" else what
        if needed > size:
            return f"not corrected by {counted(size, 'answer')}: {names}; correcting takes {needed:,} ({how})"
        return f"corrected after {counted(needed, 'answer')} of {size:,} ({how}): {names}"


def choose_targets(
    report: ReportData, kind: str | None, design: Design | None
) -> tuple[list[LabelTarget], list[str]]:
    """Return the label targets of a report, of this `kind` and `design`, and the judged measures left out.

    Measures of order need labels of whole queries, others of some passages, of claims or one per query.
    """
    wanted: dict[str, dict[str, bool]] = {"relevance": {}, "support": {}, "sufficiency": {}}
    never: dict[str, bool] = {}
    for summary in report.summaries:  # store by kind if each measure depends on the order of passages
        if summary.basis.source == "judge":
            measure = Measure.remembered(summary.type)
            of = _kind_of(measure)
            by_order = of == "relevance" and measure.name not in PASSAGE_MEANS
            wanted.get(of, never)[summary.measure] = by_order
    if kind is None and design is not None and wanted["relevance"]:
        kind = "relevance"
    cases: dict[str, set[str]] = defaultdict(set)
    for score in report.scores() if any(wanted.values()) else ():
        if score.value is not None:
            cases[score.measure].add(score.sample)
    targets, others, left_out = list[LabelTarget](), list[str](), list[str]()
    for of, names in wanted.items():
        if kind not in {None, of}:
            others += names
        elif names:
            ordered = tuple(name for name, by_order in names.items() if by_order)
            of_all = frozenset(set.intersection(*(cases[name] for name in names)))
            unit: Design = design or ("queries" if ordered else "passages")
            measures = tuple(name for name in names if not (design == "passages" and name in ordered))
            left_out += [name for name in names if name not in measures]
            targets.append(LabelTarget(kind=of, design=unit, measures=measures, cases=of_all))
    targets = targets or [LabelTarget(kind=kind or "relevance", design=design or "passages")]
    return targets, [*others, *left_out, *never]


def shared_budget(
    targets: Sequence[LabelTarget], orders: Sequence[Sequence[str]], budget: int | None
) -> list[int]:
    """Return how many answers of `budget` (None = all) each target gets, with enough left for later ones."""
    needed = [target.answers_needed(cases) for target, cases in zip(targets, orders, strict=True)]
    left, shares = sum(map(len, orders)) if budget is None else budget, list[int]()
    for at, cases in enumerate(orders):
        shares.append(min(len(cases), max(left - sum(needed[at + 1 :]), 0)))
        left -= shares[-1]
    return shares


def _kind_of(measure: Measure) -> str:
    """Return the kind of labels from which a judged measure can be computed too; "" for none."""
    if measure.name in VERDICT_MEANS:
        return "sufficiency" if measure.name == "context_sufficiency" else "support"
    if measure.definition.family != "ranked":
        return ""
    try:
        Measure(measure.name, {**measure.params, "labels": "human"}, measure.k)  # type: ignore[arg-type]
    except MeasureError:
        return ""
    return "relevance"
