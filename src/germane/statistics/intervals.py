"""Confidence intervals of a mean over cases.

The unit is the case. Trials of one case are averaged before; cases that are rephrasings of one
another form a cluster, and then the cluster is the unit. Which method is used depends on the values alone:

=====================================================  ==================================
values                                                 method
=====================================================  ==================================
range 0 to 1, every case is 0 or 1, no clusters        Clopper-Pearson
a range, and few units, skewed or mostly equal values  betting
a range otherwise                                      Student t, cut to the range
no range                                               Student t
=====================================================  ==================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, isfinite, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from germane.errors import InputError
from germane.statistics.distributions import beta_quantile, t_cdf, t_quantile

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

LEVEL = 0.95
UPPER = (1 + LEVEL) / 2
"""Nominal coverage of every interval, and the probability below its upper end."""
FEW, FEW_PAIRS = 50, 10
"""Number of units below which Student's t is not trusted: for scores with a range, for differences of two scores."""
_DIFFER, _COCHRAN = 15, 15
"""Differences that must not be ties, and units per squared skewness, for Student's t (Cochran's rule of thumb is 25;
from 15 its coverage was 93% or more in benchmarks/coverage.py)."""
_SKEWED, _EQUAL = 1.0, 0.8
_ORDERS, _CELLS = 32, 20_000
"""Orders that a betting interval is averaged over, and orders x units that are worth the time."""
_BET = 0.9
"""Largest share of the capital that one unit can lose, the constant c of the paper."""
_PRIOR = 0.3
"""Units that the guess of the variance before the first unit counts for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A confidence interval of a mean.

    `mean` is the point estimate (None where scores are incomplete: it lies between bounds), `ends` the interval or
    None with the reason in `why`, `method` how it was computed, `level` its nominal coverage, `units` what was taken
    as independent ("cases" or "clusters") and `n` how many of these there were.
    """

    mean: float | None
    ends: tuple[float, float] | None
    method: str
    units: str
    n: int
    why: str = ""
    level: float = LEVEL

    @property
    def half_width(self) -> float | None:
        """Half the length of the interval, or None."""
        return None if self.ends is None else (self.ends[1] - self.ends[0]) / 2

    def shifted(self, by: float) -> Interval:
        """The interval of the mean plus a number."""
        mean = None if self.mean is None else self.mean + by
        return replace(self, mean=mean, ends=self.ends and (self.ends[0] + by, self.ends[1] + by))

    def turned(self) -> Interval:
        """The interval of minus the mean."""
        mean = None if self.mean is None else -self.mean
        return replace(self, mean=mean, ends=self.ends and (-self.ends[1], -self.ends[0]))


@dataclass(frozen=True, slots=True)
class Units:
    """Sums and sizes of the independent units: clusters of cases, or the cases themselves; shapes (units,)."""

    sums: Floats
    sizes: Floats
    name: str

    @property
    def mean(self) -> float:
        """Mean over cases."""
        return float(self.sums.sum() / self.sizes.sum())

    @property
    def residuals(self) -> Floats:
        """Linearised deviations of the mean, (sum - size * mean) / mean size; their mean is 0."""
        return np.asarray((self.sums - self.sizes * self.mean) / self.sizes.mean(), float)

    @property
    def deviation(self) -> float:
        """Standard deviation of one unit's contribution; with n units the mean's standard error is this by sqrt(n)."""
        n = len(self.sums)
        return sqrt(float(np.square(self.residuals).sum()) / (n - 1)) if n > 1 else inf

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return self.deviation / sqrt(len(self.sums))


def group_cases(values: ArrayLike, clusters: ArrayLike | None, weights: ArrayLike | None = None) -> Units:
    """Sums and sizes of the clusters of values, or every value as a unit of its own where there are none.

    Args:
        values: One value per case, shape (n,).
        clusters: Identity of each case's cluster, shape (n,), or None.
        weights: Weight of each case, above 0, shape (n,); None = 1 each.

    Raises:
        InputError: The shapes differ, or a weight is not above 0.
    """
    found = np.asarray(values, float)
    heavy = np.ones(len(found)) if weights is None else np.asarray(weights, float)
    if heavy.shape != found.shape or not (heavy > 0).all():
        raise InputError("weights must be above 0, one per value")
    codes = None if clusters is None else cluster_codes(clusters, len(found))
    if codes is None or not len(codes) or codes.max() + 1 == len(codes):
        return Units(found * heavy, heavy, "cases")
    return Units(
        np.bincount(codes, found * heavy).astype(float), np.bincount(codes, heavy).astype(float), "clusters"
    )


def cluster_codes(clusters: ArrayLike, n: int) -> Ints:
    """Clusters numbered from 0, shape (n,)."""
    names = np.asarray(clusters)
    if names.shape != (n,):
        raise InputError(f"{n} values, but clusters of shape {names.shape}", fix="give one cluster per value")
    return np.unique(names, return_inverse=True)[1]


def mean_interval(
    values: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    value_range: tuple[float, float] | None = None,
    weights: ArrayLike | None = None,
    differences: bool = False,
) -> Interval:
    """Confidence interval of the mean over cases, by the method that the values call for.

    - Clopper and Pearson (1934) where every case is 0 or 1: exact, at least the nominal coverage.
    - The hedged capital of Waudby-Smith and Ramdas (2024), "Estimating means of bounded random variables by betting",
      where there are fewer than 50 units, their skewness is beyond 1 or 80% are equal: valid for every distribution
      within the range, hence wider. For `differences`, which pairing makes more symmetric: fewer than 10 units, fewer
      than 15 times their squared skewness (after Cochran 1977), or mostly ties and fewer than 15
      others. For clusters the bets are on sum - size * mean.
    - Student's t otherwise, mean -+ t * s / sqrt(n), cut to the range. For clusters s is that of the linearised
      contributions, with clusters - 1 degrees of freedom.

    Where scores are incomplete the interval covers the mean wherever it lies between the mean of the lower and of the
    upper bounds: with Student's t by the constant of Imbens and Manski (2004), else from the lower end of the one to
    the upper end of the other. No interval has zero width.

    Args:
        values: One score per case, shape (n,); nan where it is incomplete.
        clusters: Identity of each case's cluster, shape (n,); None = every case is one.
        bounds: Lower and upper bounds of the incomplete scores, two arrays of shape (n,); read where `values` is nan.
        value_range: Smallest and largest value possible; None = unknown.
        weights: Weight of each case, shape (n,), where cases were drawn with unequal probabilities: 1 / probability.
        differences: The values are differences between two scores of each case.

    Raises:
        InputError: Shapes differ, a value is outside the range, or a score is nan without bounds.
    """
    low, high, complete = _filled(np.asarray(values, float), bounds, value_range)
    if not len(low):
        return Interval(mean=None, ends=None, method="", units="cases", n=0, why="no scores")
    below = group_cases(low, clusters, weights)
    above = below if complete else group_cases(high, clusters, weights)
    n = len(below.sums)
    ends: tuple[float, float] | None
    shares = value_range is not None and value_range[0] == 0 and value_range[1] == 1
    if shares and below.name == "cases" and weights is None and _binary(low) and _binary(high):
        method = "Clopper-Pearson"
        ends = clopper_pearson(int(low.sum()), len(low))[0], clopper_pearson(int(high.sum()), len(high))[1]
    elif (
        value_range is not None
        and all(map(isfinite, value_range))
        and any(_irregular(units, differences=differences) for units in (below, above))
    ):
        method, ends = "betting", _betting(below, above, value_range)
    else:
        method, ends = "Student t", _student(below, above, value_range or (-inf, inf))
    if not complete:
        method += ", Imbens-Manski" if method == "Student t" else ", both bounds"
    return Interval(
        mean=below.mean if complete else None,
        ends=ends,
        method=method,
        units=below.name,
        n=n,
        why="" if ends else "one case" if n == 1 else "all values are equal",
    )


def _filled(
    values: Floats, bounds: tuple[ArrayLike, ArrayLike] | None, value_range: tuple[float, float] | None
) -> tuple[Floats, Floats, bool]:
    """Lower and upper bound of every case, and whether all are complete."""
    if values.ndim != 1:
        raise InputError(f"scores of shape {values.shape}", fix="give one score per case")
    open_ = np.isnan(values)
    low = high = values
    if open_.any():
        if bounds is None:
            raise InputError(
                "some scores are not a number", fix="leave those cases out, or give their bounds"
            )
        low, high = (np.where(open_, np.asarray(side, float), values) for side in bounds)
        if not (low <= high).all():
            raise InputError("a lower bound is above its upper bound or missing", fix="give low <= high")
    if value_range is not None and len(low):
        start, end = value_range
        slack = 1e-9 * (abs(start) + abs(end))  # a sum of rounded numbers may end just outside
        if low.min() < start - slack or high.max() > end + slack:
            raise InputError(
                f"a score is outside its range {start:g} to {end:g}", fix="give the measure's own range"
            )
        one = low is high
        low = np.clip(low, start, end)
        high = low if one else np.clip(high, start, end)
    return low, high, not open_.any()


def _binary(values: Floats) -> bool:
    return bool(((values == 0) | (values == 1)).all())


def _irregular(units: Units, *, differences: bool) -> bool:
    """Whether Student's t would fail: there are few units, they are skewed, or most of them are equal.

    For scores that is so below 50 units, beyond a skewness of 1, and where 80% are equal. Pairing makes differences more
    symmetric than scores: below 10 units, or 15 times their squared skewness (after Cochran 1977, section 2.15), or
    where most are ties and fewer than 15 are none.
    """
    means, residuals = units.sums / units.sizes, units.residuals
    n, variance = len(means), float(np.square(residuals).mean())
    skewness = float((residuals**3).mean()) / variance**1.5 if variance**1.5 > 0 else 0.0
    middle = np.partition(means, n // 2)[n // 2]  # the commonest value, where more than half are equal
    equal = int(np.count_nonzero(np.abs(means - middle) <= 1e-12))
    if differences:
        return n < FEW_PAIRS or n < _COCHRAN * skewness**2 or (equal > n / 2 and n - equal < _DIFFER)
    return n < FEW or abs(skewness) > _SKEWED or equal >= _EQUAL * n


def clopper_pearson(successes: int, n: int) -> tuple[float, float]:
    """Exact interval of a share: `successes` of `n` cases (Clopper and Pearson 1934, Biometrika 26)."""
    low = beta_quantile(1 - UPPER, successes, n - successes + 1) if successes else 0.0
    high = beta_quantile(UPPER, successes + 1, n - successes) if successes < n else 1.0
    return low, high


def _student(below: Units, above: Units, limits: tuple[float, float]) -> tuple[float, float] | None:
    """Student t interval from the mean of the lower bounds to that of the upper ones; None where it has no width."""
    df = len(below.sums) - 1
    errors = (below.error, above.error) if df else (inf, inf)
    gap = above.mean - below.mean
    if not isfinite(max(errors)) or (
        max(errors) <= 1e-14 * max(abs(below.mean), abs(above.mean)) and gap <= 0
    ):
        return None
    times = imbens_manski(gap / max(errors) if max(errors) else inf, df)
    low, high = below.mean - times * errors[0], above.mean + times * errors[1]
    return max(low, limits[0]), min(high, limits[1])


def imbens_manski(gap: float, df: float) -> float:
    """Standard errors to add on either side of a set, so that each point of it is covered with probability LEVEL.

    The C of T(C + gap) - T(-C) = LEVEL, `gap` = length of the set in standard errors: the two-sided quantile of
    Student's t for a point, falling to the one-sided one (Imbens and Manski 2004, Econometrica 72).
    """
    high = t_quantile(UPPER, df)
    if gap == 0:
        return high
    low = t_quantile(LEVEL, df)
    for _ in range(40):
        middle = (low + high) / 2
        enough = t_cdf(middle + gap, df) - t_cdf(-middle, df) >= LEVEL
        low, high = (low, middle) if enough else (middle, high)
    return high


def _betting(below: Units, above: Units, limits: tuple[float, float]) -> tuple[float, float]:
    """Betting interval from the lower end of the one to the upper end of the other; both may be the same."""
    start, length = limits[0], limits[1] - limits[0]
    if not length > 0:
        raise InputError(f"the range {limits[0]:g} to {limits[1]:g} is empty", fix="give low < high")
    weights, n = below.sizes / below.sizes.max(), len(below.sizes)
    orders = _orders(min(_ORDERS, max(1, _CELLS // n)), n)
    low = _capital_end((below.sums / below.sizes - start) / length, weights, orders)
    high = 1 - _capital_end((limits[1] - above.sums / above.sizes) / length, weights, orders)
    return start + length * low, start + length * high


def _orders(many: int, n: int) -> Ints:
    """Orders of n units, shape (many, n): by a hash of their numbers (SplitMix64), the same with every version of numpy."""
    bits = np.arange(1, many * n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return np.argsort((bits ^ (bits >> np.uint64(31))).reshape(many, n), axis=1)


def _capital_end(x: Floats, weights: Floats, orders: Ints) -> float:
    """Smallest mean in [0, 1] that betting on larger values does not refute.

    The capital is the product of 1 + bet * weight * (x - mean) with bets that look at earlier units only (predictable
    plug-in) and never lose more than the share `_BET`. It falls in the mean, starts at 1 and exceeds 2 / alpha with
    probability alpha / 2 at most where the mean is true; so does its average over random orders of the units, which
    makes the end depend little on the order in which they were given.
    """
    n = len(x)
    values, sizes = x[orders], weights[orders]
    goal = log(2 / (1 - LEVEL))
    bets = _spread_before(values, sizes)
    np.sqrt(np.divide(2 * goal, np.multiply(bets, n, out=bets), out=bets), out=bets)
    growth, off = np.empty_like(bets), np.empty_like(bets)

    def beyond(mean: float) -> float:
        """Logarithm of the average capital, less what refutes the mean."""
        np.minimum(bets, _BET / max(mean, 1e-300), out=growth)
        np.multiply(growth, sizes, out=growth)
        np.multiply(growth, np.subtract(values, mean, out=off), out=growth)
        grown = np.log1p(growth, out=growth).sum(axis=1)
        top = float(grown.max())
        return top + log(float(np.exp(grown - top).mean())) - goal

    if beyond(0.0) <= 0:
        return 0.0
    # Close to the end to be found: 2.8 standard errors below the mean, the capital's own quantile for many units.
    mean = float(weights @ x / weights.sum())
    deep = mean - 2 * sqrt(2 * goal) * sqrt(float(np.square(weights * (x - mean)).sum())) / float(
        weights.sum()
    )
    low = deep if deep > 0 and beyond(deep) > 0 else 0.0
    return _falling_root(beyond, low, mean if beyond(mean) < 0 else 1.0)


def _spread_before(values: Floats, sizes: Floats) -> Floats:
    """For each unit the variance that those before it suggest; in place, as there may be millions."""
    found = np.cumsum(sizes * values, axis=1)
    found += 0.5
    count = np.cumsum(sizes, axis=1)
    found /= np.add(count, 1, out=count)  # the means
    np.multiply(sizes, np.subtract(values, found, out=found), out=found)
    np.cumsum(np.square(found, out=found), axis=1, out=found)
    found += _PRIOR / 4
    found /= np.arange(1, values.shape[1] + 1) + _PRIOR
    found[:, 1:] = found[:, :-1]
    found[:, 0] = 0.25
    return found


def _falling_root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function with function(low) > 0 > function(high) crosses 0: the Illinois method, from below."""
    at_low, at_high = function(low), function(high)
    above = below = False  # whether the last middle was
    for _ in range(100):
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        if not low < middle < high:
            middle = (low + high) / 2
        here = function(middle)
        if abs(here) < 1e-12:
            return middle
        if here > 0:
            low, at_low, at_high = middle, here, at_high / 2 if above else at_high
        else:
            high, at_high, at_low = middle, here, at_low / 2 if below else at_low
        above, below = here > 0, here <= 0
        if high - low < 1e-9:
            break
    return low
