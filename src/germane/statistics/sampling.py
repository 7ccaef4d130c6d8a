"""Draws of passages to label: the probabilities of a draw in rounds."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from germane.statistics.distributions import normal_cdf

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
    in_group = np.asarray(sizes, np.intp)
    rounds = max(r for r in range(int(in_group.max()) + 1) if np.minimum(in_group, r).sum() <= n)
    counts, left = np.minimum(in_group, rounds).astype(float), in_group > rounds
    if left.any():
        counts[left] += (n - counts.sum()) / left.sum()
    return np.asarray(counts / in_group, float)


def drawn_alike(groups: ArrayLike, strata: ArrayLike, drawn: ArrayLike) -> float:
    """The p-value of the hypothesis that, within each group, what was drawn is a random sample of all, whatever its stratum.

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
