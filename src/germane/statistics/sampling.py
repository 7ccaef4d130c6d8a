"""Which passages to have labelled: the probabilities of a draw in rounds."""

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
