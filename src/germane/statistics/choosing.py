"""The gain of the best of several systems, corrected for choosing it on the data that measure it."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from germane.encoding import Line, internal
from germane.statistics.intervals import IntervalEnds, cluster_codes, mean_interval

Floats = NDArray[np.float64]

SPLITS = 200
"""The number of random splits in half; each half chooses a system that is then measured on the other half."""
BLOCKS = 10_000
"""The most units that are split in half; if there are more, they are first pooled at random into so many."""


class BestSystem(
    Line, kw_only=True, rename=internal("number", "shares", held_out="gain_held_out", ends="interval")
):
    """The best of several systems by one measure, and its gain over the first system (above 0 = better).

    All figures are over the queries that every system was measured on. `gain` is the observed gain, too high
    on average because the same queries chose the system. `gain_held_out` is the gain of a system chosen on
    one half of the queries and measured on the other, averaged over 200 random splits, both ways. `interval`
    is the interval of that gain for queries like these.
    """

    system: str = ""
    measure: str = ""
    gain: float
    held_out: float | None
    ends: IntervalEnds | None
    number: int
    """The index of the system, 0 = the first."""
    shares: Sequence[float] = ()
    """For each system, the share of the halves that chose it."""


def best_system(
    gains: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    value_range: tuple[float, float] | None = None,
    seed: int = 0,
) -> BestSystem:
    """Return the best system, its observed gain over the first, and its gain on cases not used to choose it.

    The lower end of the interval is the held-out gain minus sqrt(sum p_s l_s^2), where p_s is how often
    system s was chosen and l_s the distance from its mean gain to the lower end of its own interval
    (uncorrected). The upper end is the highest upper end of any system's interval, since the chosen system's
    gain is at most that of the truly best one. The interval covers the gain of the chosen system, and the
    expected gain over such choices, at least at the nominal level.

    Args:
        gains: The gain over the first system, shape (n cases, systems), no nan; the first column is 0.
        clusters: The cluster of each case, shape (n,); None = each case is its own.
        value_range: The smallest and largest possible gain; None = unknown.
        seed: The seed of the random splits.
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
        sides = (mine, size), (total - mine, cases - size)
        for (chose, number_of), (measured, others) in (sides, sides[::-1]):
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
