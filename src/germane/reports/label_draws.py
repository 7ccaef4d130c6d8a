"""What people can label to correct a report's judged means: items, random draws, numbers of answers.

A draw is a set of labels with the same queue, design and seed. Its items come from one pool: all judged items
of a kind in a report. Probabilities are computed from the labels that were given, not from the budget, so a
session that stops early is a smaller draw.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from germane.clean import counted, some_of
from germane.encoding import digest
from germane.errors import MeasureError
from germane.folder.tables import Tables
from germane.measures.measure import Measure
from germane.reports.summary import PASSAGE_MEANS, VERDICT_MEANS
from germane.statistics.correction import FEWEST, Design, chances_of_rounds
from germane.tables.labels import Label

if TYPE_CHECKING:
    from germane.reports.data import ReportData

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
    return digest([digest(sorted(item for items in pool.values() for item in items))])[:16]


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
        return frozenset(item for drawn_items in items for item in drawn_items if item in drawn)

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
    for (_, unit, _), labels_of_draw in groups.items():
        draw = Draw(labels_of_draw, pool, whole=unit == "queries")
        if draw.items:
            yield draw


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
            measure, asked = Measure.remembered(summary.type), ""
            if measure.name in VERDICT_MEANS:
                asked = "sufficiency" if measure.name == "context_sufficiency" else "support"
            elif measure.definition.family == "ranked":
                params: Any = {**measure.params, "labels": "human"}
                with suppress(MeasureError):  # its settings have no meaning for people's labels
                    Measure(measure.name, params, measure.k)
                    asked = "relevance"
            wanted.get(asked, never)[summary.measure] = (
                asked == "relevance" and measure.name not in PASSAGE_MEANS
            )
    if kind is None and design is not None and wanted["relevance"]:
        kind = "relevance"
    cases: dict[str, set[str]] = defaultdict(set)
    for score in report.scores() if any(wanted.values()) else ():
        if score.value is not None:
            cases[score.measure].add(score.sample)
    targets, others, left_out = list[LabelTarget](), list[str](), list[str]()
    for asked, names in wanted.items():
        if kind not in {None, asked}:
            others += names
        elif names:
            ordered = tuple(name for name, by_order in names.items() if by_order)
            of_all = frozenset(set.intersection(*(cases[name] for name in names)))
            unit: Design = design or ("queries" if ordered else "passages")
            measures = tuple(name for name in names if not (design == "passages" and name in ordered))
            left_out += [name for name in names if name not in measures]
            targets.append(LabelTarget(kind=asked, design=unit, measures=measures, cases=of_all))
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
