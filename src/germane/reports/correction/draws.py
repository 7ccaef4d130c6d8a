"""Draws of labels: which labels were drawn at random, from which items, and with which probabilities.

A draw is a set of labels of one queue, design and seed from one pool: everything of a kind that a report judged, or what
two reports do not share (`germane label A B`). Probabilities are those of the labels given, not of the budget, so a
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
"""The items that could be drawn, by query."""


def design_of(label: Label) -> Mapping[str, Any]:
    """Return the design by which a label's item was drawn; {} if unknown."""
    return label.design or {}


def is_drawn(label: Label) -> bool:
    """Return True if a label was drawn at random from everything that a report judged."""
    design = design_of(label)
    return label.queue == "random" and bool(design) and "between" not in design


def pool_of(tables: Tables, kind: str) -> Pool:
    """Return everything of a kind that a report judged and people can label, by query; for support the single claims."""
    result: dict[str, set[str]] = defaultdict(set)
    for row in tables.places:
        if row.kind == kind and (row.of is not None) == (kind == "support"):
            result[row.sample].add(row.item)
    return {case: frozenset(items) for case, items in result.items()}


def fingerprint(*pools: Pool) -> str:
    """Return the name of a pool, or of the pools of two reports in either order."""
    names = sorted(digest(sorted(item for items in pool.values() for item in items)) for pool in pools)
    return digest(names)[:16]


@dataclass(frozen=True)
class Draw:
    """The labels of one draw from a pool, any number per item; `whole`: queries were drawn, not single items."""

    labels: Sequence[Label]
    pool: Pool
    whole: bool = False

    @cached_property
    def items(self) -> frozenset[str]:
        """The drawn items of the pool; for whole queries only those labelled completely."""
        drawn = {label.item for label in self.labels}
        items = (items for items in self.pool.values() if items <= drawn or not self.whole)
        return frozenset(item for some in items for item in some if item in drawn)

    @cached_property
    def complete(self) -> bool:
        """True if no query was drawn in part: whole queries were drawn, or everything was."""
        return self.whole or len(self.items) == len(frozenset[str]().union(*self.pool.values()))

    @cached_property
    def _chances(self) -> Mapping[str, float]:
        """The probability with which an item of each query was drawn."""
        if not self.pool:
            return {}
        if self.whole:
            share = sum(items <= self.items for items in self.pool.values()) / len(self.pool)
            return dict.fromkeys(self.pool, share)
        drawn = sum(len(items & self.items) for items in self.pool.values())
        chances = chances_of_rounds(list(map(len, self.pool.values())), drawn)
        return dict(zip(self.pool, chances.tolist(), strict=True))

    def chance(self, case: str, item: str) -> float:
        """Return the probability with which an item of a query was drawn; 0 outside the pool."""
        return self._chances[case] if item in self.pool.get(case, ()) else 0.0


def chance_of(draws: Iterable[Draw], case: str, item: str) -> float:
    """Return the probability that at least one of several independent draws takes an item."""
    return 1.0 - prod(1.0 - draw.chance(case, item) for draw in draws)


def draws_of(labels: Iterable[Label], pool: Pool) -> Iterator[Draw]:
    """Yield the draws from this pool behind these labels: one per queue, design and seed."""
    groups: dict[tuple[object, ...], list[Label]] = defaultdict(list)
    for label in labels:
        design = design_of(label)
        groups[label.queue, design.get("design"), design.get("seed")].append(label)
    for (_, unit, _), mine in groups.items():
        draw = Draw(mine, pool, whole=unit == "queries")
        if draw.items:
            yield draw


_UNLIKE = 0.01
"""The p-value below which labelled passages are not a random sample of a report's."""
_BANDS = (3, 10)
"""The last rank of each band of the strata."""


def drift_of(labels: Iterable[Label], pool: Pool, facts_of: Mapping[str, tuple[int, float, int]]) -> str:
    """Return why labels drawn for another report cannot be used for this one; "" if they can, or were drawn for this one.

    They can be used if at least half of that draw is about passages of this report, and these are spread over its grades
    and ranks as a random sample of each query's passages is.

    Args:
        labels: The labels that were drawn, of one kind.
        pool: The pool of this report.
        facts_of: The query, the judge's grade and the rank of each item here.
    """
    own = fingerprint(pool)
    others = [label for label in labels if label.item in facts_of and design_of(label).get("pool") != own]
    foreign = [
        label
        for label in others
        if "pool" in design_of(label) or label.rank not in {None, facts_of[label.item][2]}
    ]
    if not foreign:
        return ""
    items = {label.item for label in others}
    drawn = max(int(design_of(label).get("budget") or 0) for label in foreign)
    if 2 * len(items) < drawn:
        few = (
            f"only {len(items)} of the {drawn} labels drawn for another report are about passages of this one"
        )
        return f"{few}: label it (germane label)"
    p = drawn_alike(
        [case for case, _, _ in facts_of.values()],
        [f"{grade:g} {sum(rank > end for end in _BANDS)}" for _, grade, rank in facts_of.values()],
        [item in items for item in facts_of],
    )
    unlike = "the labels were drawn for another report, whose passages are unlike these in grade and rank"
    return "" if p >= _UNLIKE else f"{unlike} (p {p:.2g}): label this one (germane label)"
