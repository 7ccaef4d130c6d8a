"""Draws of labels: which labels were drawn at random, from which passages, and with which chance each could be drawn.

A draw is a set of labels of one queue, design and seed from one pool: everything of a kind that a report judged, or what
two reports do not share (`germane label A B`). Chances are those of the labels that were given, not of the budget, so a
session that stops early is a smaller draw.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

from germane.encoding import digest
from germane.folder.rows import Tables
from germane.statistics.sampling import chances_of_rounds, drawn_alike
from germane.tables.labels import Label

Pool: TypeAlias = Mapping[str, frozenset[str]]
"""The items that could be drawn, by the query that they belong to."""


def design_of(label: Label) -> Mapping[str, Any]:
    """The design by which a label's item was drawn; {} where that is not known."""
    return label.design or {}


def is_drawn(label: Label) -> bool:
    """True if a label was drawn at random from all of a report: not chosen, and not from what two reports do not share."""
    return label.queue == "random" and bool(label.design) and "between" not in design_of(label)


def pool_of(tables: Tables, kind: str) -> Pool:
    """Everything of a kind that a report judged and people can label, by query; of support that is the single claims."""
    result: dict[str, set[str]] = defaultdict(set)
    for row in tables.places:
        if row.kind == kind and (row.of is not None) == (kind == "support"):
            result[row.sample].add(row.item)
    return {case: frozenset(items) for case, items in result.items()}


def fingerprint(*pools: Pool) -> str:
    """The name of the pool of a draw, or of the two reports between which it was made, in whichever order."""
    return digest(
        sorted(digest(sorted(item for items in pool.values() for item in items)) for pool in pools)
    )[:16]


@dataclass(frozen=True)
class Draw:
    """The labels of one draw from a pool, of each item any number; `whole` queries were drawn, or single items."""

    labels: Sequence[Label]
    pool: Pool
    whole: bool = False

    @cached_property
    def items(self) -> frozenset[str]:
        """The items of the pool that were drawn; of whole queries those that are labelled to the end."""
        drawn = {label.item for label in self.labels}
        if self.whole:
            return frozenset(item for items in self.pool.values() if items <= drawn for item in items)
        return frozenset(item for items in self.pool.values() for item in items if item in drawn)

    @cached_property
    def complete(self) -> bool:
        """True if no query was drawn in part: whole queries were drawn, or everything was."""
        return self.whole or len(self.items) == len(frozenset[str]().union(*self.pool.values()))

    @cached_property
    def _chances(self) -> Mapping[str, float]:
        if not self.pool:
            return {}
        if self.whole:
            share = sum(items <= self.items for items in self.pool.values()) / len(self.pool)
            return dict.fromkeys(self.pool, share)
        drawn = sum(len(items & self.items) for items in self.pool.values())
        chances = chances_of_rounds(list(map(len, self.pool.values())), drawn)
        return dict(zip(self.pool, chances.tolist(), strict=True))

    def chance(self, case: str, item: str) -> float:
        """Return the chance with which an item could be drawn; 0 outside the pool."""
        return self._chances[case] if item in self.pool.get(case, ()) else 0.0


def chance_of(draws: Iterable[Draw], case: str, item: str) -> float:
    """Return the chance that at least one of several independent draws takes an item."""
    return 1.0 - prod(1.0 - draw.chance(case, item) for draw in draws)


def draws_of(labels: Iterable[Label], pool: Pool) -> Iterator[Draw]:
    """The draws that labels were made by, from this pool: one for each queue, design and seed."""
    groups: dict[tuple[object, ...], list[Label]] = defaultdict(list)
    for label in labels:
        design = design_of(label)
        groups[label.queue, design.get("design"), design.get("seed")].append(label)
    for (_, unit, _), mine in groups.items():
        draw = Draw(mine, pool, whole=unit == "queries")
        if draw.items:
            yield draw


_UNLIKE = 0.01
"""The p-value below which labelled passages are no sample of a report's."""
_BANDS = (3, 10)
"""The ranks at which a band of the strata ends."""


def drift_of(labels: Iterable[Label], pool: Pool, facts_of: Mapping[str, tuple[int, float, int]]) -> str:
    """The reason why labels that were drawn for another report do not serve this one; "" where they do, or were drawn for this.

    They serve where at least half of that draw is about passages of this report, and these are spread over its grades and
    ranks as a random sample of each query's passages is.

    Args:
        labels: The labels that were drawn, of one kind.
        pool: What this report's own draws are from.
        facts_of: The query, the judge's grade and the rank of each item here.
    """
    own = fingerprint(pool)
    foreign = [label for label in labels if design_of(label).get("pool") != own and label.item in facts_of]
    unknown = [label for label in foreign if "pool" not in design_of(label)]
    foreign = [
        label
        for label in foreign
        if label not in unknown or label.rank not in {None, facts_of[label.item][2]}
    ]
    if not foreign:
        return ""
    values = {label.item for label in (*foreign, *unknown)}
    drawn = max(int(design_of(label).get("budget") or 0) for label in foreign)
    if 2 * len(values) < drawn:
        return (
            f"only {len(values)} of the {drawn} labels drawn for another report are about passages of this one: label it "
            "(germane label)"
        )
    p = drawn_alike(
        [case for case, _, _ in facts_of.values()],
        [f"{grade:g} {sum(rank > end for end in _BANDS)}" for _, grade, rank in facts_of.values()],
        [item in values for item in facts_of],
    )
    if p >= _UNLIKE:
        return ""
    return (
        f"the labels were drawn for another report, whose passages are unlike these in grade and rank (p {p:.2g}): label "
        "this one (germane label)"
    )
