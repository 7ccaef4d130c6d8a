"""Compare systems on the same cases: difference, interval, p-value, decision, power, and the best of several.

The gain of the best of several systems is corrected for choosing it on the data that measure it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, fsum, inf, isfinite, sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from germane.clean import counted
from germane.encoding import Line, internal
from germane.statistics.distributions import normal_quantile, t_quantile
from germane.statistics.intervals import (
    SAME,
    UPPER,
    Floats,
    Interval,
    IntervalEnds,
    Units,
    cluster_codes,
    group_cases,
    lower_limit,
    mean_interval,
    reach,
)

POWER = 0.8
"""The probability with which a "detectable" difference is detected by a two-sided test at 1 - LEVEL."""
_FEW = 1000
"""For at most this many units, the largest difference assumed is the one expected in as many new units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """The difference of two systems by one measure on the same cases.

    `difference` is B - A, or None if scores are incomplete. `p` is the two-sided p-value of no difference, by
    the interval's method. `wins` counts the cases in which B's score is higher. `detectable` is the smallest
    true difference that this number of units would show with a power of 0.8; None if all differences are
    equal or scores are incomplete.
    """

    n: int
    mean_a: float | None
    mean_b: float | None
    difference: float | None
    interval: Interval
    p: float | None
    wins: int
    ties: int
    losses: int
    detectable: float | None


class DifferenceParts(Line):
    """The two parts whose sum is the difference of two systems, over the queries with scores in both systems.

    `retrieval` is the part due to different retrieved lists. `labels` is the part due to different verdicts
    or gold on the same passages.
    """

    retrieval: float
    labels: float


def paired_difference(
    a: ArrayLike,
    b: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    bounds_a: tuple[ArrayLike, ArrayLike] | None = None,
    bounds_b: tuple[ArrayLike, ArrayLike] | None = None,
    value_range: tuple[float, float] | None = None,
) -> PairedDifference:
    """Return the mean of b - a over the same cases, with interval, p-value and detectable difference.

    The interval is `mean_interval` of the differences, whose range is twice that of the scores. The p-value
    is the smallest alpha at which the interval excludes 0, so the two always agree.

    Args:
        a: The scores of system A, one per case (trials averaged), shape (n,); nan = incomplete.
        b: The scores of system B on the same cases in the same order, shape (n,).
        clusters: The cluster of each case, shape (n,); None = each case is its own.
        bounds_a: The lower and upper bounds of A's scores, used where A's or B's score is nan.
        bounds_b: The lower and upper bounds of B's scores.
        value_range: The smallest and largest possible score; None = unknown.
    """
    first, second = np.asarray(a, float), np.asarray(b, float)
    change = second - first
    low_a, high_a = (np.asarray(side, float) for side in bounds_a or (first, first))
    low_b, high_b = (np.asarray(side, float) for side in bounds_b or (second, second))
    bounds = (low_b - high_a, high_b - low_a)
    limits = value_range and (value_range[0] - value_range[1], value_range[1] - value_range[0])
    interval = mean_interval(change, clusters=clusters, bounds=bounds, value_range=limits, differences=True)
    units = group_cases(change, clusters)
    complete = len(change) > 0 and not np.isnan(change).any()
    end = limits[1] if limits and isfinite(limits[1]) else None
    return PairedDifference(
        n=len(change),
        mean_a=_mean(first),
        mean_b=_mean(second),
        difference=interval.mean,
        interval=interval,
        p=interval.p,
        wins=int((change > SAME).sum()),
        ties=int((np.abs(change) <= SAME).sum()),
        losses=int((change < -SAME).sum()),
        detectable=detectable(units, end) if complete else None,
    )


def _mean(values: Floats) -> float | None:
    mean = float(values.mean()) if len(values) else np.nan
    return mean if isfinite(mean) else None


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values of several tests, adjusted by Holm's method (1979), in the same order.

    If adjusted p-values of at most alpha count as findings, the probability of any false finding is at most
    alpha. The i-th smallest of m p-values becomes the largest of (m - j + 1) p_j over j <= i, at most 1.
    """
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")
    raised = np.minimum(np.maximum.accumulate((len(p) - np.arange(len(p))) * p[order]), 1.0)
    result = np.empty(len(p))
    result[order] = raised
    return [float(value) for value in result]


def decide_change(
    interval: Interval, margin: float
) -> tuple[Literal["pass", "fail", "undecided"], int | None]:
    """Decide whether B is worse than A by `margin` or more: a non-inferiority test on the interval of B - A.

    Higher is better. A negative margin is the least gain that is required of B. The verdict is "pass" if the
    lower end is above -margin, "fail" if the upper end is below -margin, else "undecided". If undecided, the
    second value is the number of units with which a change of 0 would pass with probability 0.8, or None if
    it is unknown. It depends on the spread and the margin, never on the observed mean: n (h (1 + z(0.8) /
    z(0.975)) / margin)^2, where h is the distance from the mean to the lower end and z are normal quantiles.
    """
    low, high = interval.ends or (-inf, inf)
    if low > -margin:
        return "pass", None
    if high < -margin:
        return "fail", None
    if interval.ends is None or interval.mean is None or margin <= 0:
        return "undecided", None
    far = (interval.mean - low) * (1 + normal_quantile(POWER) / normal_quantile(UPPER))
    return "undecided", max(interval.n + 1, ceil(interval.n * (far / margin) ** 2))


def chance_to_fail(
    ends: Sequence[Floats], slices: Sequence[Sequence[int]], passes: Callable[[Floats], bool]
) -> float:
    """Return how often a condition on the means of slices fails by chance, if all have the same true mean.

    The cases of up to 2,000 sets are drawn with replacement (seed 0). `ends` are the smallest and the largest
    possible value of each case, `slices` the cases of each slice. Returns 0 if a value is missing, the mean
    of all fails too, or there are more than 80,000 cases.
    """
    values, draws = ends[0], min(8_000_000 // len(ends[0]), 2_000)
    if draws < 100 or len(slices) < 2 or (ends[0] != ends[1]).any() or not passes(values.mean(keepdims=True)):
        return 0.0
    members, starts, rng = np.concatenate(slices), np.cumsum([0, *map(len, slices)]), np.random.default_rng(0)
    sets = (values[rng.integers(len(values), size=len(values))][members] for _ in range(draws))
    means = (np.add.reduceat(drawn, starts[:-1]) / np.diff(starts) for drawn in sets)
    return sum(not passes(of_set) for of_set in means) / draws


def detectable(units: Units, end: float | None = 1.0) -> float | None:
    """Return the smallest true difference that a sample like these units shows with probability POWER.

    Returns None if there are fewer than two units or all are equal. The difference d solves (after Bloom
    1995, Evaluation Review 19)

        d = h(d) + t(POWER) s / sqrt(n)

    where h(d) is the distance from the mean to the lower limit of n units with this spread around a true
    difference d, s their standard deviation, and t the quantile of Student's t with n - 1 degrees of freedom.
    `end` is the largest possible difference. If it is unknown (None), h(d) is computed by Student's t.
    """
    n = len(units.sums)
    if n < 2 or units.deviation <= 1e-12:
        return None
    deviation, result = units.deviation, 0.0
    half = t_quantile(UPPER, n - 1) * deviation / sqrt(n)
    for _ in range(3 if n <= _FEW else 1):  # h(d) depends little on d
        if end is not None:  # half = h(result)
            sums = units.sums + (result - units.mean) * units.sizes
            moved = np.abs(sums) / units.sizes
            largest = float(moved.max())
            if n <= _FEW:  # the expected largest of n units drawn from these with replacement
                largest = float(np.einsum("i,i->", np.sort(moved), np.diff(np.linspace(0, 1, n + 1) ** n)))
            half = result - lower_limit(sums, units.sizes, reach(largest, end)[0], 1 - UPPER)
        result = half + t_quantile(POWER, n - 1) * deviation / sqrt(n)
    return result


SPLITS = 200
"""The number of random splits in half; each half chooses a system, which is measured on the other half."""
BLOCKS = 10_000
"""The most units that are split in half; more units are first pooled at random into this many blocks."""


class BestSystem(
    Line, kw_only=True, rename=internal("number", "shares", held_out="gain_held_out", ends="interval")
):
    """The best of several systems by one measure, and its gain over the first system (above 0 = better).

    All figures are over the queries on which every system was measured. `gain` is the observed gain; it is
    too high on average because the same queries chose the system. `gain_held_out` is the gain of a system
    that is chosen on one half of the queries and measured on the other half, averaged over 200 random splits
    and both directions. `interval` is the interval of the held-out gain for queries like these.
    """

    system: str = ""
    measure: str = ""
    gain: float
    held_out: float | None
    ends: IntervalEnds | None
    number: int
    """The index of the system, 0 = the first."""
    shares: Sequence[float] = ()
    """For each system, the proportion of the halves that chose it."""


def best_system(
    gains: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    value_range: tuple[float, float] | None = None,
    seed: int = 0,
) -> BestSystem:
    """Return the best system, its observed gain over the first, and its gain on cases not used to choose it.

    The lower end of the interval is the held-out gain minus sqrt(sum p_s l_s^2), where p_s is the proportion
    of the halves that chose system s, and l_s the distance from the mean gain of s to the lower end of its
    own interval (uncorrected). The upper end is the highest upper end of any system's interval, because the
    gain of the chosen system is at most the gain of the truly best one. The interval covers the gain of the
    chosen system, and the expected gain over such choices, at least at the nominal level. It is missing if
    there are fewer than two units.

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
        drawn, size = np.einsum("u,uk->k", half, sums), float(half @ sizes)
        sides = (drawn, size), (total - drawn, cases - size)
        for (chose, number_of), (measured, others) in (sides, sides[::-1]):
            pick = int((chose / number_of).argmax())
            times[pick] += 1
            held.append(float(measured[pick]) / others)
    held_out = fsum(held) / len(held)
    best = best.replace(held_out=held_out, shares=(times / len(held)).tolist())
    likely = (times + 1) / (len(held) + len(times))  # Laplace's rule: no system has probability 0
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


def rank_biased_overlap(a: Sequence[Hashable], b: Sequence[Hashable], p: float = 0.9) -> float:
    """Return the extrapolated rank-biased overlap (RBO_EXT) of two ranked lists, from 0 to 1.

    It is the expected agreement for a reader who continues to the next rank with probability p, assuming that
    the agreement at the end of the lists continues beyond them (Webber, Moffat and Zobel 2010, ACM TOIS 28,
    formula 32). The lists may differ in length. If an item is repeated in a list, only its first rank counts.
    The overlap of two empty lists is 1.
    """
    short, long_ = sorted((list(dict.fromkeys(a)), list(dict.fromkeys(b))), key=len)
    s, l = len(short), len(long_)  # noqa: E741 - the paper's letters
    if not s or short == long_:
        return float(short == long_)
    seen_short, seen_long = set[Hashable](), set[Hashable]()
    overlap, overlap_at_s, total = 0, 0, 0.0
    for depth, item in enumerate(long_, 1):
        overlap += item in seen_short
        seen_long.add(item)
        if depth <= s:
            other = short[depth - 1]
            overlap += other in seen_long
            seen_short.add(other)
            overlap_at_s = overlap
        total += overlap / depth * p**depth
        if depth > s:
            total += overlap_at_s * (depth - s) / (s * depth) * p**depth
    return (1 - p) / p * total + ((overlap - overlap_at_s) / l + overlap_at_s / s) * p**l


class Overlap(Line):
    """The mean rank-biased overlap (p = 0.9) of two systems' ranked lists, over `n` queries."""

    mean: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.4f} over {counted(self.n, 'query')} (p = 0.9; 1 = the same lists)"


def mean_overlap(overlaps: Iterable[float]) -> Overlap | None:
    """Return the mean of the overlaps, one per query; None if there are no overlaps."""
    values = list(overlaps)
    return Overlap(fsum(values) / len(values), len(values)) if values else None
