"""Compare two systems on the same cases: difference, interval, p-value, decision and power."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, isfinite, sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from germane.encoding import Line
from germane.statistics.distributions import normal_quantile, t_quantile
from germane.statistics.gaffke import lower_limit
from germane.statistics.intervals import SAME, UPPER, Interval, Units, group_cases, mean_interval, reach

Floats = NDArray[np.float64]

POWER = 0.8
"""The probability with which a "detectable" difference is detected by a two-sided test at 1 - LEVEL."""
_FEW = 1000
"""Up to this many units, the largest difference assumed is that expected in as many new ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """The difference of two systems by one measure on the same cases.

    `difference` is B - A, None if scores are incomplete. `p` is the two-sided p-value of no difference, by
    the interval's method. `detectable` is the smallest true difference that this number of units would show
    with a power of 0.8; None if all differences are equal.
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


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision whether a change is within a margin.

    `needed` is the number of units with which a change of 0 would pass with probability 0.8; None = unknown.
    """

    verdict: Literal["pass", "fail", "undecided"]
    margin: float
    needed: int | None = None


class DifferenceParts(Line):
    """A difference split into two parts, whose sum it is, over the queries with known scores in both systems.

    `retrieval` is due to different retrieved lists, `labels` to different verdicts or gold on the same
    passages.
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
        bounds_b: The same for B.
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
    """Return the mean; None if a value is missing."""
    mean = float(values.mean()) if len(values) else np.nan
    return mean if isfinite(mean) else None


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted so that the chance of any false finding stays at alpha (Holm 1979).

    The order is kept. The i-th smallest of m becomes the largest of (m - j + 1) p_j over j <= i, at most 1.
    """
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")
    raised = np.minimum(np.maximum.accumulate((len(p) - np.arange(len(p))) * p[order]), 1.0)
    result = np.empty(len(p))
    result[order] = raised
    return [float(value) for value in result]


def decide_change(interval: Interval, margin: float) -> Decision:
    """Decide whether B is worse than A by `margin` or more: a non-inferiority test on the interval of B - A.

    Higher is better; a negative margin is a gain that B must have. The result is "pass" if the lower end is
    above -margin, "fail" if the upper end is below -margin, else "undecided". The number of units needed
    depends on the spread and the margin, never on the observed mean: n (h (1 + z(0.8) / z(0.975)) /
    margin)^2, where h is the distance from the mean to the lower end and z are normal quantiles.
    """
    low, high = interval.ends or (-inf, inf)
    if low > -margin:
        return Decision("pass", margin)
    if high < -margin:
        return Decision("fail", margin)
    if interval.ends is None or interval.mean is None or margin <= 0:
        return Decision("undecided", margin)
    far = (interval.mean - low) * (1 + normal_quantile(POWER) / normal_quantile(UPPER))
    return Decision("undecided", margin, max(interval.n + 1, ceil(interval.n * (far / margin) ** 2)))


def detectable(units: Units, end: float | None = 1.0) -> float | None:
    """Return the smallest true difference that such units show with probability POWER; None if all are equal.

    It solves (after Bloom 1995, Evaluation Review 19)

        d = h(d) + t(POWER) s / sqrt(n)

    where h(d) is the distance from the mean to the lower limit of n units with this spread around a true
    difference d, s their standard deviation, and t the quantile of Student's t with n - 1 degrees of freedom.
    `end` is the largest possible difference; None = unknown, then h(d) is that of Student's t.
    """
    n = len(units.sums)
    if n < 2 or units.deviation <= 1e-12:
        return None
    deviation, result = units.deviation, 0.0
    half = t_quantile(UPPER, n - 1) * deviation / sqrt(n)
    for _ in range(3 if n <= _FEW else 1):  # h(d) depends little on d
        if end is not None:
            half = _half_width(units, end, result)
        result = half + t_quantile(POWER, n - 1) * deviation / sqrt(n)
    return result


def _half_width(units: Units, end: float, difference: float) -> float:
    """Return the distance from mean to lower limit if the units' true difference was `difference`."""
    n = len(units.sums)
    sums = units.sums + (difference - units.mean) * units.sizes
    moved = np.abs(sums) / units.sizes
    largest = float(moved.max())
    if n <= _FEW:  # of units that are drawn from these, the largest on average
        largest = float(np.einsum("i,i->", np.sort(moved), np.diff(np.linspace(0, 1, n + 1) ** n)))
    return difference - lower_limit(sums, units.sizes, reach(largest, end)[0], 1 - UPPER)
