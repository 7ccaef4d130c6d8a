"""Which passages to have labelled: the probabilities of a draw in rounds, and how to split a budget over strata."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


def chances_of_rounds(sizes: ArrayLike, n: int) -> Floats:
    """Probability that a unit of each group is among n that were drawn in rounds: one of every group, then another one, ...

    Formula, with r the rounds that n pays for and m_g = min(size_g, r): m_g / size_g, to which the rest of n adds an equal
    share of a unit in every group that has units left.

    Args:
        sizes: Units in each group, shape (groups,).
        n: Units drawn, at most all.
    """
    held = np.asarray(sizes, np.intp)
    rounds = max(r for r in range(int(held.max()) + 1) if np.minimum(held, r).sum() <= n)
    counts, left = np.minimum(held, rounds).astype(float), held > rounds
    if left.any():
        counts[left] += (n - counts.sum()) / left.sum()
    return np.asarray(counts / held, float)


def neyman_allocation(sizes: ArrayLike, deviations: ArrayLike, budget: int) -> Ints:
    """How many of each stratum to label, so that the variance of the mean is smallest (Neyman 1934, JRSS 97).

    n_h = budget * N_h s_h / sum N_h s_h, but at least 2 (a variance needs them) and at most N_h; what a full
    stratum leaves over goes to the others. Fractions are rounded to the largest remainders.

    Args:
        sizes: Units in each stratum, N_h, shape (strata,).
        deviations: Standard deviation of the labels in each stratum, s_h, from earlier labels or a guess, shape
            (strata,). All 0 = in proportion to the sizes.
        budget: Labels to spend, 2 or more per stratum.

    Returns:
        Labels per stratum, shape (strata,), summing to the budget, or to all units if there are fewer.
    """
    units, spread = np.asarray(sizes, np.intp), np.asarray(deviations, float)
    floor = np.minimum(units, 2)
    budget = min(int(budget), int(units.sum()))
    share = units * spread
    # Raise to the floor, or cut to the size, whatever the proportional share misses, until nothing does.
    fixed = np.full(len(units), -1, np.intp)
    exact = np.zeros(len(units))
    for _ in range(2 * len(units) + 1):
        free = fixed < 0
        left = budget - int(fixed[~free].sum())
        weights = np.where(free, share, 0.0)
        if weights.sum() < 1e-200:  # no spread known in what is free: in proportion to the sizes
            weights = np.where(free, units, 0).astype(float)
        exact = np.where(free, left * weights / max(float(weights.sum()), 1.0e-200), fixed)
        over, under = free & (exact > units), free & (exact < floor)
        if over.any() and (exact - units)[over].sum() >= (floor - exact)[under].sum():
            fixed[over] = units[over]
        elif under.any():
            fixed[under] = floor[under]
        else:
            break
    counts = np.floor(exact + 1e-9).astype(np.intp)
    rest = np.where(counts < units, exact - counts, -1.0)
    counts[np.argsort(-rest, kind="stable")[: budget - int(counts.sum())]] += 1
    return counts
