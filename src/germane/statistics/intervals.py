"""Confidence intervals of a mean over cases, and p-values that agree with them.

The unit is the case, with its trials averaged. Cases that rephrase one another form a cluster, and then the
cluster is the unit.

Gaffke's confidence limit of a mean within a range is solved without random draws. A unit (a case, or a cluster
of cases) has a sum s_i and a size w_i. To the n units one end of the range is added as a pseudo-unit of mean
size w. With G_i exponential(1) and G_0 gamma(1/2), all independent, the lower limit is the m for which

    P(sum_i G_i (s_i - w_i m) + G_0 w (end - m) <= 0) = tail

and the upper one its mirror image, with the other end of the range. With a_i = s_i - w_i m, k_i the gamma shapes and t
the root of sum k a / (1 - t a) = 0 the probability is Phi(r + log(u / r) / r), where

    r = sign(t) sqrt(2 sum k log(1 - t a)),    u = t sqrt(sum k (a / (1 - t a))^2)

(Lugannani and Rice 1980; Barndorff-Nielsen's r*). Gaffke 2005, Mathematical Methods of Statistics 14, gives the pseudo-unit
the shape 1, which for values of 0 and 1 is the limit of Clopper and Pearson; see also Learned-Miller and Thomas,
arXiv 1905.06208. The shape of 1/2 is narrower and was chosen by simulation (benchmarks/coverage.py).

Sums are computed by einsum, because the last bits of a BLAS library's sums depend on its number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, log, sqrt
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from germane.encoding import Line, internal
from germane.errors import InputError
from germane.statistics.distributions import beta_quantile, normal_cdf, normal_quantile, t_cdf, t_quantile

__all__ = ["clopper_pearson", "mean_interval"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

LEVEL = 0.95
UPPER = (1 + LEVEL) / 2
"""LEVEL is the nominal coverage of every interval, UPPER the probability below its upper end."""
SAME = 1e-9
"""Two values tie if their difference is at most this."""
FEW_CLUSTERS = 20
"""The effective number of clusters (lower if sizes differ) below which intervals are too narrow."""

IntervalEnds = Annotated[Sequence[float], Meta(min_length=2, max_length=2, description="the lower one first")]
"""The ends of an interval in the records of `--json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A confidence interval of a mean.

    `mean` is the point estimate, or None if scores are incomplete. `ends` are the ends of the interval, or
    None if it cannot be computed for the reason `why`. `method` names the method, `level` is the nominal
    coverage. `units` names the independent units ("cases" or "clusters"), `n` is their number. `p`, which
    only complete differences have, is the two-sided p-value of a mean of 0; it is below 1 - level exactly if
    the interval excludes 0. `note` warns if clusters of unequal size make the interval too narrow.
    """

    mean: float | None
    ends: tuple[float, float] | None
    method: str
    units: str
    n: int
    why: str = ""
    level: float = LEVEL
    p: float | None = None
    note: str = ""

    @property
    def half_width(self) -> float | None:
        """Half the length of the interval; None if `ends` is None."""
        return None if self.ends is None else (self.ends[1] - self.ends[0]) / 2

    def negated(self) -> Interval:
        """Return the interval of the negated mean."""
        mean = None if self.mean is None else -self.mean
        return replace(self, mean=mean, ends=self.ends and (-self.ends[1], -self.ends[0]))


class CorrectedMean(
    Line,
    kw_only=True,
    rename=internal(
        "judged", "total", "human", "human_ends", "weight", ends="interval", set_ends="set_interval"
    ),
):
    """A judged mean corrected with people's labels, with its 95% interval.

    `interval` is for the population `estimand`: "queries" = queries like these, "set" = these queries alone.
    `set_interval` is for these queries alone; its width is 0 if everything is labelled. The correction uses
    `labels` labels in `queries` queries, which are worth as much as `ess` labels without a judge. For another
    `unsure` items people were unsure, so the interval covers both answers.
    """

    mean: float
    ends: IntervalEnds
    estimand: Literal["queries", "set"] = "queries"
    set_ends: IntervalEnds | None = None
    method: str
    labels: int
    queries: int | None = None
    ess: float | None = None
    unsure: int = 0
    judged: float
    """The judge's own mean over all `total` verdicts."""
    total: int
    human: float | None = None
    """The mean of the labels alone; `human_ends` is its interval."""
    human_ends: tuple[float, float] | None = None
    weight: float = 0.0
    """The weight that the correction gives to the judge."""


@dataclass(frozen=True, slots=True)
class Units:
    """The sum and the size (number of cases) of each independent unit: a cluster of cases, or a case."""

    sums: Floats
    sizes: Floats
    name: str

    @property
    def mean(self) -> float:
        """The mean over cases: the total of the units' sums / the total of their sizes."""
        return float(self.sums.sum() / self.sizes.sum())

    @property
    def deviation(self) -> float:
        """The standard deviation over the units of (sum - size * mean) / mean size; inf for a single unit."""
        n, parts = len(self.sums), (self.sums - self.sizes * self.mean) / self.sizes.mean()
        return sqrt(float(np.square(parts).sum()) / (n - 1)) if n > 1 else inf

    @property
    def note(self) -> str:
        """A warning if clusters of unequal size are worth fewer than FEW_CLUSTERS equal clusters; else ""."""
        worth = float(self.sizes.sum() ** 2 / np.square(self.sizes).sum())
        if self.name != "clusters" or worth >= FEW_CLUSTERS or np.ptp(self.sizes) <= SAME:
            return ""
        return (
            f"{len(self.sizes)} clusters of unequal size are worth {worth:.1f} of equal size; with fewer than {FEW_CLUSTERS} the "
            "interval is too narrow"
        )

    @property
    def error(self) -> float:
        """The standard error of the mean: deviation / sqrt(units)."""
        return self.deviation / sqrt(len(self.sums))


def group_cases(values: ArrayLike, clusters: ArrayLike | None) -> Units:
    """Return the units of the values: their `clusters`, one per case, or the cases if each is its own."""
    scores = np.asarray(values, float)
    codes = None if clusters is None else cluster_codes(clusters)
    if codes is None or not len(codes) or codes.max() + 1 == len(codes):
        return Units(scores, np.broadcast_to(1.0, len(scores)), "cases")
    return Units(np.bincount(codes, scores).astype(float), np.bincount(codes).astype(float), "clusters")


def cluster_codes(clusters: ArrayLike) -> Ints:
    """Return each case's cluster as a number, shape (n,). The clusters are numbered from 0."""
    return np.unique(np.asarray(clusters), return_inverse=True)[1]


def mean_interval(
    values: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    value_range: tuple[float, float] | None = None,
    differences: bool = False,
    times: float = 1.0,
) -> Interval:
    """Return the confidence interval of the mean over cases, by the method that suits the values.

    - Clopper and Pearson (1934) if every case is 0 or 1, without clusters: at least the nominal coverage.
    - Gaffke's limits (`lower_limit`) for other values within a range; for clusters, the limits of sum / size.
      For `differences` the range is -+ `reach`: half the largest possible difference, or the largest
      |difference| of a unit if that is more.
    - Student's t if there is no range and there are at least 2 units: mean -+ t * s / sqrt(n). For clusters,
      s is the standard deviation of the linearised contributions, with clusters - 1 degrees of freedom.

    If scores are incomplete, the true mean lies between the mean of the lower bounds and the mean of the
    upper bounds. The interval runs from the lower limit of the first to the upper limit of the second, with
    tails by Imbens and Manski (2004). An interval within a range never has zero width.

    Args:
        values: One score per case, shape (n,); nan = incomplete.
        clusters: The cluster of each case, shape (n,); None = each case is its own.
        bounds: Lower and upper bounds, two arrays of shape (n,), used where `values` is nan.
        value_range: The smallest and largest possible value; None = unknown. For differences of scores in
            0 to 1: (-1, 1).
        differences: True if the values are differences between two scores of each case.
        times: The number of times that each unit is counted, to get the interval of a larger sample.

    Raises:
        InputError: A value is outside the range, or a score is nan without bounds.
    """
    low, high, complete = _filled(np.asarray(values, float), bounds, value_range)
    if not len(low):
        return Interval(mean=None, ends=None, method="", units="cases", n=0, why="no scores")
    below = group_cases(low, clusters)
    above = below if complete else group_cases(high, clusters)
    n = len(below.sums)
    tail = 1 - UPPER
    if not complete:
        error, df = max(below.error, above.error) / sqrt(times), max(times * n - 1, 1)
        tail = t_cdf(-imbens_manski((above.mean - below.mean) / error if error else inf, df), df)
    ends: tuple[float, float] | None
    p = None
    standard = value_range == (0.0, 1.0) and below.name == "cases"
    if standard and all(((side == 0) | (side == 1)).all() for side in (low, high)):
        method = "Clopper-Pearson"
        least, most = (times * int(side.sum()) for side in (low, high))
        ends = clopper_pearson(least, times * n, tail)[0], clopper_pearson(most, times * n, tail)[1]
    elif value_range is not None and all(map(isfinite, value_range)):
        method, limits = "Gaffke", value_range
        if differences:
            moved = np.maximum(np.abs(below.sums), np.abs(above.sums)) / below.sizes
            limits = reach(float(moved.max()), value_range[1])
        ends, p = _gaffke(below, above, limits, tail, times, test=differences)
    else:
        method, (ends, p) = "Student t", _student(below, above, value_range or (-inf, inf), tail, times)
    return Interval(
        mean=below.mean if complete else None,
        ends=ends,
        method=method if complete else f"{method}, Imbens-Manski",
        units=below.name,
        n=n,
        why="" if ends else "one case" if n == 1 else "all values are equal",
        p=p if differences and complete else None,
        note=below.note if ends else "",
    )


def _filled(
    values: Floats, bounds: tuple[ArrayLike, ArrayLike] | None, value_range: tuple[float, float] | None
) -> tuple[Floats, Floats, bool]:
    """Return (lower bounds, upper bounds, whether no score is nan); a nan gets its `bounds`."""
    open_ = np.isnan(values)
    low = high = values
    if open_.any():
        if bounds is None:
            fix = "leave those cases out, or pass bounds="
            raise InputError("some values are nan (not a number)", fix=fix)
        low, high = (np.where(open_, np.asarray(side, float), values) for side in bounds)
        if not (low <= high).all():
            raise InputError("every score needs two bounds with low <= high", fix="pass bounds=(low, high)")
    if value_range is not None and len(low):
        start, end = value_range
        slack = 1e-9 * (abs(start) + abs(end))  # a sum of rounded numbers may end just outside
        if low.min() < start - slack or high.max() > end + slack:
            fix = "pass the range of the measure"
            raise InputError(f"a value is outside value_range {start:g} to {end:g}", fix=fix)
        if low.min() < start or high.max() > end:
            low, high = np.clip(low, start, end), np.clip(high, start, end)
    return low, high, not open_.any()


def clopper_pearson(successes: float, n: float, tail: float = 1 - UPPER) -> tuple[float, float]:
    """Return the exact interval of the proportion successes / n (Clopper and Pearson 1934, Biometrika 26).

    `tail` is the error probability at each end.
    """
    low = beta_quantile(tail, successes, n - successes + 1) if successes else 0.0
    high = beta_quantile(1 - tail, successes + 1, n - successes) if successes < n else 1.0
    return low, high


def reach(largest: float, end: float) -> tuple[float, float]:
    """Return the range assumed for differences: -+ `largest`, or half the possible `end` if wider."""
    far = max(largest, end / 2)
    return -far, far


def _gaffke(
    below: Units, above: Units, limits: tuple[float, float], tail: float, times: float, *, test: bool
) -> tuple[tuple[float, float], float | None]:
    """Return Gaffke's interval from `below` to `above`, and if `test` the p-value of a mean of 0."""
    start, end = limits
    if not start < end:
        fix = "pass value_range=(low, high)"
        raise InputError(f"value_range must have low < high, not {start:g} to {end:g}", fix=fix)
    low = lower_limit(below.sums, below.sizes, start, tail, times)
    high = -lower_limit(-above.sums, below.sizes, -end, tail, times)
    if not test:
        return (low, high), None
    sides = (below.sums, start), (-above.sums, -end)
    return (low, high), min(1.0, 2 * min(probability_below(sums, below.sizes, at, 0.0) for sums, at in sides))


def _student(
    below: Units, above: Units, limits: tuple[float, float], tail: float, more: float
) -> tuple[tuple[float, float] | None, float | None]:
    """Return the interval by Student's t, within `limits`, and the p-value of a mean of 0; None if flat."""
    df = more * len(below.sums) - 1
    errors = below.error / sqrt(more), above.error / sqrt(more)
    flat = max(errors) <= 1e-14 * max(abs(below.mean), abs(above.mean)) and above.mean <= below.mean
    if df <= 0 or flat:
        return None, None
    times = t_quantile(1 - tail, df)
    low, high = below.mean - times * errors[0], above.mean + times * errors[1]
    p = 2 * t_cdf(-abs(below.mean) / errors[0], df) if errors[0] else None
    return (max(low, limits[0]), min(high, limits[1])), p


def imbens_manski(gap: float, df: float) -> float:
    """Return how many standard errors to add at both ends of a range to cover a mean in it with LEVEL.

    This is the C with T(C + gap) - T(-C) = LEVEL, where T is the distribution function of Student's t and
    `gap` the length of the range in standard errors (Imbens and Manski 2004, Econometrica 72).
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


SHAPE = 0.5
"""The gamma shape of the pseudo-unit that is added at the end of the range."""
_MIDDLE = 1e-3
"""Within this many standard units of the middle, r* is replaced by its expansion (skewness / 6)."""


def lower_limit(sums: Floats, sizes: Floats, end: float, tail: float, times: float = 1.0) -> float:
    """Return the lower confidence limit of the units' mean, with error probability `tail` < 1/2.

    `sums` and `sizes`, shape (n,), hold the sum and the size (above 0) of each unit. `end` is the lowest
    possible sum / size. Each unit is counted `times` times, which gives the limit of a larger sample. The
    upper limit is minus the lower limit of the negated sums, with minus the highest possible sum / size.
    """
    s, sizes, k = _with_end(sums, sizes, end, times)
    goal, total = normal_quantile(tail), _dot(k, sizes)
    w = sizes if (sizes != 1.0).any() else 1.0
    del sizes  # a million units are some eight arrays of 8 MB
    mean = _dot(k, s) / total
    off = s - w * mean
    spread = sqrt(_dot(k * off, off)) / total
    del off
    if spread < 1e-15:
        return mean
    low, high = end, mean
    x, m = mean, max(mean + goal * spread, end + 1e-3 * (mean - end))
    at_x, t = _signed_root(s - w * x, k)
    at_x -= goal
    for _ in range(60):
        value, t = _signed_root(s - w * m, k, t)
        value -= goal
        low, high = (m, high) if value < 0 else (low, m)
        if abs(value) < 1e-9 or high - low < 1e-13 * (mean - end):
            break
        new = m - value * (m - x) / (value - at_x) if isfinite(value) and value != at_x else inf
        x, at_x = m, value
        m = new if low < new < high else (low + high) / 2
    return m


def probability_below(sums: Floats, sizes: Floats, end: float, mean: float) -> float:
    """Return the one-sided p-value of the hypothesis that the mean is at most `mean`.

    It is the `tail` for which `lower_limit` is `mean`. `end` is the lowest possible sum / size.
    """
    s, w, k = _with_end(sums, sizes, end, 1.0)
    return normal_cdf(_signed_root(s - w * mean, k)[0])


def _with_end(sums: Floats, sizes: Floats, end: float, times: float) -> tuple[Floats, Floats, Floats]:
    """Return the sums, sizes and gamma shapes of the units; the last is the pseudo-unit."""
    size = float(np.einsum("i->", sizes)) / len(sizes)
    shapes = np.full(len(sums) + 1, times)
    shapes[-1] = SHAPE
    return np.append(sums, end * size), np.append(sizes, size), shapes


def _dot(first: Floats, other: Floats) -> float:
    return float(np.einsum("i,i->", first, other))


def _signed_root(a: Floats, k: Floats, t: float | None = None) -> tuple[float, float | None]:
    """Return r* and the root t, as in the module's docstring; t is None if all `a` are on one side of 0.

    Phi(r*) is the probability that the sum of `a`, weighted with gamma(k) variables, is at most 0.
    """
    least, most = float(a.min()), float(a.max())
    if least >= 0 or most <= 0:  # all on one side
        return (0.0 if least == most else -inf if least >= 0 else inf), None
    low, high, squares = 1 / least, 1 / most, _dot(k * a, a)
    if t is None or not low < t < high:
        t = -_dot(k, a) / squares
    close = 1e-3 / sqrt(squares)
    q, weighted = np.empty((2, len(a)))
    for _ in range(100):
        if not low < t < high:
            t = (low + high) / 2 if abs(low) < 1e300 else 0.0
        np.divide(a, np.subtract(1, np.multiply(t, a, out=q), out=q), out=q)
        slope, curve = _dot(k, q), _dot(np.multiply(k, q, out=weighted), q)
        low, high = (low, t) if slope > 0 else (t, high)
        t, old = t - slope / curve, t
        if abs(t - old) <= 1e-9 * (abs(t) + close):
            break
    u = t * sqrt(curve)
    if abs(u) < _MIDDLE:
        return _dot(k, np.power(a, 3, out=q)) / (3 * squares**1.5) + u, t
    r = sqrt(max(2 * _dot(k, np.log1p(np.multiply(-t, a, out=q), out=q)), 1e-300)) * (1 if t > 0 else -1)
    return r + log(u / r) / r, t
