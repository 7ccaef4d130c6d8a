"""Draw passages for people to label: a random order, and the probability that each passage is drawn."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Design: TypeAlias = Literal["passages", "queries"]


def drawing_order(groups: ArrayLike, design: Design, seed: int, n: int) -> tuple[Ints, Floats]:
    """Return the first n units of a random order, and the probability that each of them was to be drawn.

    `groups`, shape (N,), is the group of each unit, such as its query. With `design` "passages", each round
    draws one unit of every group. With "queries", whole groups are drawn, as many as n covers, at least one.
    The order depends on the seed alone: a larger n continues it.
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
    """Return, for each entry, how many entries before it have the same code, shape (n,)."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    result = np.empty(len(codes), np.intp)
    result[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(np.append(starts, len(codes))))
    return result


def chances_of_rounds(sizes: ArrayLike, n: int) -> Floats:
    """Return, for each group, the probability that any given one of its units is among n drawn in rounds.

    Each round draws one unit of every group with units left. The probability is m_g / size_g, with size_g the
    number of the group's units, r the number of full rounds within n and m_g = min(size_g, r); the rest of n
    adds an equal fraction of a unit to every group that has units left.
    """
    in_group = np.asarray(sizes, np.intp)
    rounds = max(r for r in range(int(in_group.max()) + 1) if np.minimum(in_group, r).sum() <= n)
    counts, left = np.minimum(in_group, rounds).astype(float), in_group > rounds
    if left.any():
        counts[left] += (n - counts.sum()) / left.sum()
    return np.asarray(counts / in_group, float)
