"""Draws of passages to label: their order, and the probabilities of a draw in rounds."""

from __future__ import annotations

from math import sqrt
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from germane.statistics.distributions import normal_cdf

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Design: TypeAlias = Literal["passages", "queries"]


def drawing_order(groups: ArrayLike, design: Design, seed: int, n: int) -> tuple[Ints, Floats]:
    """Return the first n units of a random order, and each one's probability of being among them.

    passages: one of every group, then another one of every group, ...; queries: as many whole groups as n covers, at least
    one. The order is nested: a larger n goes on where a smaller one ended.

    Args:
        groups: Group of each unit, as its query, shape (N,).
        design: What is drawn.
        seed: The order depends on it alone.
        n: Units wanted.
    """
    codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    shuffled = np.random.default_rng([seed, 0]).permutation(len(codes))
    sizes = np.bincount(codes)
    # Groups come in a random order of their own: that of their units would favour long ones.
    turns = np.random.default_rng([seed, 1]).permutation(len(sizes))
    turn = turns[codes[shuffled]]
    if design == "queries":
        covered = np.cumsum(sizes[np.argsort(turns)])
        whole = max(1, int(np.searchsorted(covered, n, "right")))
        order = np.argsort(turn, kind="stable")[: covered[whole - 1]]
        chances = np.full(len(sizes), whole / len(sizes))
    else:
        order = np.lexsort((turn, _earlier(codes[shuffled])))[:n]
        chances = chances_of_rounds(sizes, n)
    positions = shuffled[order]
    return positions, chances[codes[positions]]


def _earlier(codes: Ints) -> Ints:
    """Return the number of earlier entries with the same code, shape (n,)."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    result = np.empty(len(codes), np.intp)
    result[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(np.append(starts, len(codes))))
    return result


def chances_of_rounds(sizes: ArrayLike, n: int) -> Floats:
    """Return the probability that a unit of each group is among n drawn in rounds, one of every group at a time.

    Formula, with r the rounds that n pays for and m_g = min(size_g, r): m_g / size_g, to which the rest of n adds an equal
    share of a unit in every group that has units left.

    Args:
        sizes: Units in each group, shape (groups,).
        n: Units drawn, at most all.
    """
    in_group = np.asarray(sizes, np.intp)
    rounds = max(r for r in range(int(in_group.max()) + 1) if np.minimum(in_group, r).sum() <= n)
    counts, left = np.minimum(in_group, rounds).astype(float), in_group > rounds
    if left.any():
        counts[left] += (n - counts.sum()) / left.sum()
    return np.asarray(counts / in_group, float)


def drawn_alike(groups: ArrayLike, strata: ArrayLike, drawn: ArrayLike) -> float:
    """Return the p-value of the hypothesis that the drawn items of each group are a random sample with regard to their stratum.

    The generalised test of Cochran, Mantel and Haenszel (Landis, Heyman and Koch 1978): with m of the N units of a group
    drawn, of which N_s are in stratum s, expected are m N_s / N of it, with the covariances
    m (N - m) / (N^2 (N - 1)) (N N_s [s = t] - N_s N_t). Observed less expected, summed over groups, is compared with chi-square
    by Wilson and Hilferty's cube root. 1 where nothing can differ.

    Args:
        groups: Group of each unit, as its query, shape (N,).
        strata: Stratum of each unit, as its grade and rank, shape (N,).
        drawn: Whether it was drawn, shape (N,).
    """
    group, stratum = (np.unique(np.asarray(of), return_inverse=True)[1] for of in (groups, strata))
    is_drawn = np.asarray(drawn, float)
    n, width = int(group.max(initial=-1)) + 1, int(stratum.max(initial=-1)) + 1
    cells = group * width + stratum
    sizes = np.bincount(cells, minlength=n * width).reshape(n, width).astype(float)
    counts = np.bincount(cells, is_drawn, n * width).reshape(n, width)
    total, taken = sizes.sum(axis=1), counts.sum(axis=1)
    off = (counts - taken[:, None] * sizes / total[:, None]).sum(axis=0)
    scale = taken * (total - taken) / (np.square(total) * np.maximum(total - 1, 1))
    covariance = np.diag((scale * total) @ sizes) - np.einsum("g,gs,gt->st", scale, sizes, sizes)
    values, vectors = np.linalg.eigh(covariance)
    free = values > 1e-9 * max(float((scale * total) @ sizes.sum(axis=1)), 1e-12)
    if not free.any():
        return 1.0
    chi, degrees = float(np.square(vectors.T[free] @ off) @ (1 / values[free])), int(free.sum())
    spread = 2 / (9 * degrees)
    return 1 - normal_cdf(((chi / degrees) ** (1 / 3) - (1 - spread)) / sqrt(spread))
