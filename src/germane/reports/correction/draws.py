"""The items drawn at random for people to label, and the probability that each was drawn.

A draw is a set of labels with the same queue, design and seed. Its items come from one pool: all judged items
of a kind in a report or, for `germane label A B`, those in one of the two reports only. Probabilities are
computed from the labels that were given, not from the budget: a session that stops early is a smaller draw.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TypeAlias

from germane.encoding import digest
from germane.folder.rows import Tables
from germane.statistics.correction import chances_of_rounds
from germane.tables.labels import Label

Pool: TypeAlias = Mapping[str, frozenset[str]]  # that could be drawn: items by query


def is_drawn(label: Label) -> bool:
    """Return True if a label's item was drawn at random from everything that one report judged."""
    design = label.design or {}
    return label.queue == "random" and bool(design) and "between" not in design


def pool_of(tables: Tables, kind: str) -> Pool:
    """Return the judged items that people can label, by query; for kind support, single claims."""
    result: dict[str, set[str]] = defaultdict(set)
    for row in tables.places:
        if row.kind == kind and (row.of is not None) == (kind == "support"):
            result[row.sample].add(row.item)
    return {case: frozenset(items) for case, items in result.items()}


def fingerprint(*pools: Pool) -> str:
    """Return a short hash that identifies a pool of items, or the pools of two reports in either order."""
    names = sorted(digest(sorted(item for items in pool.values() for item in items)) for pool in pools)
    return digest(names)[:16]


@dataclass(frozen=True)
class Draw:
    """People's labels of items drawn at random from a pool, one by one or (`whole`) query by query."""

    labels: Sequence[Label]
    pool: Pool
    whole: bool = False

    @cached_property
    def items(self) -> frozenset[str]:
        """The items that were drawn and labelled; if `whole`, those of completely labelled queries only."""
        drawn = {label.item for label in self.labels}
        items = (items for items in self.pool.values() if items <= drawn or not self.whole)
        return frozenset(item for some in items for item in some if item in drawn)

    @cached_property
    def complete(self) -> bool:
        """True if every query is labelled completely or not at all: whole queries or all items were drawn."""
        return self.whole or len(self.items) == len(frozenset[str]().union(*self.pool.values()))

    @cached_property
    def _chances(self) -> Mapping[str, float]:
        """The probability that an item was drawn, by query: it is the same for all items of a query."""
        if not self.pool:
            return {}
        if self.whole:
            share = sum(items <= self.items for items in self.pool.values()) / len(self.pool)
            return dict.fromkeys(self.pool, share)
        drawn = sum(len(items & self.items) for items in self.pool.values())
        chances = chances_of_rounds(list(map(len, self.pool.values())), drawn)
        return dict(zip(self.pool, chances.tolist(), strict=True))

    def chance(self, case: str, item: str) -> float:
        """Return the probability that an item of a query was drawn; 0 if the item is not in the pool."""
        return self._chances[case] if item in self.pool.get(case, ()) else 0.0


def chance_of(draws: Iterable[Draw], case: str, item: str) -> float:
    """Return the probability that an item of a query is in at least one of several independent draws."""
    return 1.0 - prod(1.0 - draw.chance(case, item) for draw in draws)


def draws_of(labels: Iterable[Label], pool: Pool) -> Iterator[Draw]:
    """Yield the draws that these labels belong to, one for each queue, design and seed, except empty ones."""
    groups: dict[tuple[object, ...], list[Label]] = defaultdict(list)
    for label in labels:
        design = label.design or {}
        groups[label.queue, design.get("design"), design.get("seed")].append(label)
    for (_, unit, _), mine in groups.items():
        draw = Draw(mine, pool, whole=unit == "queries")
        if draw.items:
            yield draw
