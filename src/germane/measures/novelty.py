"""The formulas of novelty, over a matrix of claims x places: which claim a context at which rank supports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import fsum, log2
from typing import TypeAlias

Column: TypeAlias = frozenset[int]
"""The claims that one place supports, by their number."""


def covered(columns: Iterable[Column]) -> Column:
    """The claims that the places support between them."""
    return frozenset[int]().union(*columns)


def alpha_dcg(columns: Iterable[Column], alpha: float) -> float:
    """Sum over the ranks r and the claims supported there of (1 - alpha)**(how often before) / log2(r + 1)."""
    seen: Counter[int] = Counter()
    terms = []
    for rank, column in enumerate(columns, 1):
        terms.append(_gain(column, seen, alpha) / log2(rank + 1))
        seen.update(column)
    return fsum(terms)


def greedy(columns: Iterable[Column], alpha: float, k: int | None = None) -> list[Column]:
    """The columns in the order that takes the greatest gain next (ties: the one that stands first), k of them.

    The best order is NP-hard to find; this is the one that the measure has always been normalised by.
    """
    left, chosen = list(columns), list[Column]()
    seen: Counter[int] = Counter()
    while left and (k is None or len(chosen) < k):
        best = max(range(len(left)), key=lambda at: _gain(left[at], seen, alpha))
        chosen.append(left.pop(best))
        seen.update(chosen[-1])
    return chosen


def alpha_ndcg(
    columns: Sequence[Column], alpha: float, k: int | None = None, *, pool: Sequence[Column] | None = None
) -> float:
    """alpha-DCG of the first k places / that of the greedy order of the pool (default: of all the places); 0 of 0."""
    ideal = alpha_dcg(greedy(columns if pool is None else pool, alpha, k), alpha)
    return alpha_dcg(columns[:k], alpha) / ideal if ideal else 0.0


def _gain(column: Column, seen: Counter[int], alpha: float) -> float:
    return fsum((1.0 - alpha) ** seen[claim] for claim in sorted(column))
