"""The gain of the best of several systems, without selection bias."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from germane.encoding import Line, internal
from germane.statistics.intervals import IntervalEnds, cluster_codes, mean_interval

Floats = NDArray[np.float64]

SPLITS = 200
"""Random halves of the units; each half chooses once, for the other."""
BLOCKS = 10_000
"""Random blocks of units that are halved where there are more units than that."""


class BestSystem(
    Line, kw_only=True, rename=internal("number", "shares", held_out="gain_held_out", ends="interval")
):
    """The best of several systems by one measure, over the queries that all were measured on; its gain over the first system, above 0 where it is better.

    `gain` is that of these queries, which chose it; `gain_held_out` that of systems chosen on one half of the queries, measured on the other,
    the mean of 200 random halves (clusters whole) and their counterparts. `interval` is that of the gain that holds, of queries like these.
    """

    system: str = ""
    measure: str = ""
    gain: float
    held_out: float | None
    ends: IntervalEnds | None
    number: int
    """The number of the system, 0 = the first."""
    shares: Sequence[float] = ()
    """How often the halves chose each system."""


def best_system(
    gains: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    value_range: tuple[float, float] | None = None,
    seed: int = 0,
) -> BestSystem:
    """Return the best system with its observed gain over the first, and the gain on cases that were not used to choose it.

    The lower end of the interval is the held-out gain less sqrt(sum p_s l_s^2): p_s is how often system s was chosen, l_s the distance
    from its mean gain to the lower end of its own interval (Gaffke or Student t, no correction). The upper end is the largest upper end of any
    system's interval: the gain of the chosen one is at most that of the truly best one, and its mean at least the latter's. It covers the
    gain of the chosen system, and the expected one over such choices, at the level of one interval or above.

    Args:
        gains: Gain over the first system by each case and system, shape (n, systems), complete; the first column is 0.
        clusters: Identity of each case's cluster, shape (n,); None = every case is one.
        value_range: Smallest and largest gain possible; None = unknown.
        seed: Seed of the halves.
    """
    table = np.asarray(gains, float)
    codes = np.arange(len(table)) if clusters is None else cluster_codes(clusters)
    units = int(codes.max(initial=-1)) + 1
    means = table.mean(axis=0)
    number = int(means.argmax())
    best = BestSystem(number=number, gain=float(means[number]), held_out=None, ends=None)
    if units < 2:
        return best
    rng, held, times = np.random.default_rng(seed), list[float](), np.zeros(len(means))
    if units > BLOCKS:
        codes, units = (rng.permutation(units) % BLOCKS)[codes], BLOCKS
    sizes = np.bincount(codes).astype(float)
    sums = np.stack([np.bincount(codes, column) for column in table.T], axis=1)
    total, cases = np.einsum("uk->k", sums), len(table)
    for _ in range(SPLITS):
        half = np.zeros(units)
        half[rng.permutation(units)[: units // 2]] = 1.0
        mine, size = np.einsum("u,uk->k", half, sums), float(half @ sizes)
        for chose, number_of, measured, others in (
            (mine, size, total - mine, cases - size),
            (total - mine, cases - size, mine, size),
        ):
            pick = int((chose / number_of).argmax())
            times[pick] += 1
            held.append(float(measured[pick]) / others)
    held_out = fsum(held) / len(held)
    best = best.replace(held_out=held_out, shares=(times / len(held)).tolist())
    likely = (times + 1) / (len(held) + len(times))  # Laplace's rule: none is sure to be never chosen
    below, highest = 0.0, 0.0
    for at, share in enumerate(likely.tolist()):
        if not table[:, at].any():
            continue  # the first system, or one that never differs from it
        ends = mean_interval(table[:, at], clusters=clusters, value_range=value_range, differences=True).ends
        if ends is None:
            if np.ptp(table[:, at]) > 0:
                return best
            ends = (float(means[at]),) * 2
        below += share * float(means[at] - ends[0]) ** 2
        highest = max(highest, ends[1])
    return best.replace(ends=(held_out - sqrt(below), max(highest, held_out)))
