"""Confidence intervals of a mean over cases, and p-values that agree with them.

The unit is the case, with its trials averaged. Cases that rephrase one another form a cluster, and then the
cluster is the unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, sqrt
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from germane.encoding import Line, internal
from germane.errors import InputError
from germane.statistics.distributions import beta_quantile, t_cdf, t_quantile
from germane.statistics.gaffke import lower_limit, probability_below, upper_limit

__all__ = ["clopper_pearson", "mean_interval"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

LEVEL = 0.95
UPPER = (1 + LEVEL) / 2
"""LEVEL is the nominal coverage of every interval, UPPER the probability below its upper end."""
SAME = 1e-9
"""The largest difference between two values that counts as a tie."""
FEW_CLUSTERS = 20
"""The effective number of clusters (lower if sizes differ) below which intervals are too narrow."""

IntervalEnds = Annotated[Sequence[float], Meta(min_length=2, max_length=2, description="the lower one first")]
"""The ends of an interval in the records of `--json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A confidence interval of a mean.

    `mean` is the point estimate (None if scores are incomplete), `ends` the interval, or None with the reason
    in `why`. `method` is how it was computed, `level` its nominal coverage, `units` what was taken as
    independent ("cases" or "clusters") and `n` their number. `p`, given for complete differences, is the
    two-sided p-value of a mean of 0: below 1 - level exactly if the interval excludes 0. `note` warns if
    clusters of unequal size make the interval too narrow.
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
        """Half the length of the interval; None without one."""
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

    `interval` is for `estimand`: "queries" = queries like these. `set_interval` is for these queries alone
    and has no width if all is labelled. The correction uses `labels` labels in `queries` queries, worth as
    much as `ess` labels without the judge. On `unsure` more, people could not decide: the interval covers
    both answers.
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
        """The mean over cases: sum of the units' sums / sum of their sizes."""
        return float(self.sums.sum() / self.sizes.sum())

    @property
    def deviation(self) -> float:
        """The standard deviation over units of (sum - size * mean) / mean size; inf for a single unit."""
        n, parts = len(self.sums), (self.sums - self.sizes * self.mean) / self.sizes.mean()
        return sqrt(float(np.square(parts).sum()) / (n - 1)) if n > 1 else inf

    @property
    def note(self) -> str:
        """A warning if clusters differ in size and are worth fewer than FEW_CLUSTERS equal ones; else ""."""
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
    """Return the sums and sizes of the clusters of cases; without clusters, each case is a unit."""
    scores = np.asarray(values, float)
    codes = None if clusters is None else cluster_codes(clusters)
    if codes is None or not len(codes) or codes.max() + 1 == len(codes):
        return Units(scores, np.broadcast_to(1.0, len(scores)), "cases")
    return Units(np.bincount(codes, scores).astype(float), np.bincount(codes).astype(float), "clusters")


def cluster_codes(clusters: ArrayLike) -> Ints:
    """Return the number of each case's cluster, counting from 0, shape (n,)."""
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
    - Gaffke's limits (`germane.statistics.gaffke`) for other values within a range; for clusters, those of
      sum / size. For `differences` the range is -+ reach: half the largest possible difference, or the
      largest |difference| of a unit if that is more.
    - Student's t if there is no range, for 2 units or more: mean -+ t * s / sqrt(n); for clusters, s is that
      of the linearised contributions, with clusters - 1 degrees of freedom.

    If scores are incomplete, the interval covers the mean wherever it is between the mean of the lower and
    that of the upper bounds: it runs from the lower limit of the one to the upper limit of the other, with
    tails by Imbens and Manski (2004). An interval within a range never has zero width.

    Args:
        values: One score per case, shape (n,); nan = incomplete.
        clusters: The cluster of each case, shape (n,); None = each case is its own.
        bounds: The lower and upper bounds of incomplete scores, two arrays of shape (n,), used where
            `values` is nan.
        value_range: The smallest and largest possible value; None = unknown. For differences of scores in
            0 to 1: (-1, 1).
        differences: True if the values are differences between two scores of each case.
        times: The number of copies of each unit, to see the interval of a larger sample like this.

    Raises:
        InputError: A value is outside the range, or a score is nan without bounds.
    """
    low, high, complete = _filled(np.asarray(values, float), bounds, value_range)
    if not len(low):
        return Interval(mean=None, ends=None, method="", units="cases", n=0, why="no scores")
    below = group_cases(low, clusters)
    above = below if complete else group_cases(high, clusters)
    n = len(below.sums)
    tail = 1 - UPPER if complete else _tail(below, above, times)
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
    """Return the lower and upper bounds of the cases (complete: their scores), and if all are complete."""
    open_ = np.isnan(values)
    low = high = values
    if open_.any():
        if bounds is None:
            raise InputError(
                "some values are nan (not a number)", fix="leave those cases out, or pass bounds="
            )
        low, high = (np.where(open_, np.asarray(side, float), values) for side in bounds)
        if not (low <= high).all():
            raise InputError("a bound is missing, or low is above high", fix="pass bounds=(low, high)")
    if value_range is not None and len(low):
        start, end = value_range
        slack = 1e-9 * (abs(start) + abs(end))  # a sum of rounded numbers may end just outside
        if low.min() < start - slack or high.max() > end + slack:
            raise InputError(
                f"a value is outside value_range {start:g} to {end:g}", fix="pass the range of the measure"
            )
        if low.min() < start or high.max() > end:
            low, high = np.clip(low, start, end), np.clip(high, start, end)
    return low, high, not open_.any()


def clopper_pearson(successes: float, n: float, tail: float = 1 - UPPER) -> tuple[float, float]:
    """Return the exact interval of the share successes / n (Clopper and Pearson 1934, Biometrika 26)."""
    low = beta_quantile(tail, successes, n - successes + 1) if successes else 0.0
    high = beta_quantile(1 - tail, successes + 1, n - successes) if successes < n else 1.0
    return low, high


def reach(largest: float, end: float) -> tuple[float, float]:
    """Return the range assumed for differences: +- the `largest` observed one, or +- `end` / 2 if wider."""
    far = max(largest, end / 2)
    return -far, far


def _gaffke(
    below: Units, above: Units, limits: tuple[float, float], tail: float, times: float, *, test: bool
) -> tuple[tuple[float, float], float | None]:
    """Return Gaffke's lower limit for `below`, his upper limit for `above` and, with `test`, a p-value."""
    start, end = limits
    if not start < end:
        raise InputError(f"value_range {start:g} to {end:g} is empty", fix="pass value_range=(low, high)")
    low = lower_limit(below.sums, below.sizes, start, tail, times)
    high = upper_limit(above.sums, below.sizes, end, tail, times)
    if not test:
        return (low, high), None
    sides = (below.sums, start), (-above.sums, -end)
    return (low, high), min(1.0, 2 * min(probability_below(sums, below.sizes, at, 0.0) for sums, at in sides))


def _student(
    below: Units, above: Units, limits: tuple[float, float], tail: float, more: float
) -> tuple[tuple[float, float] | None, float | None]:
    """Return Student's t limits (lower for `below`, upper for `above`) and p-value; None for equal values."""
    df = more * len(below.sums) - 1
    errors = below.error / sqrt(more), above.error / sqrt(more)
    flat = max(errors) <= 1e-14 * max(abs(below.mean), abs(above.mean)) and above.mean <= below.mean
    if df <= 0 or flat:
        return None, None
    times = t_quantile(1 - tail, df)
    low, high = below.mean - times * errors[0], above.mean + times * errors[1]
    p = 2 * t_cdf(-abs(below.mean) / errors[0], df) if errors[0] else None
    return (max(low, limits[0]), min(high, limits[1])), p


def _tail(below: Units, above: Units, more: float) -> float:
    """Return the tail probability at each end for a mean between two means (Imbens and Manski 2004)."""
    error, df = max(below.error, above.error) / sqrt(more), max(more * len(below.sums) - 1, 1)
    return t_cdf(-imbens_manski((above.mean - below.mean) / error if error else inf, df), df)


def imbens_manski(gap: float, df: float) -> float:
    """Return how many standard errors to add at both ends of a range so that each point has coverage LEVEL.

    This is the C with T(C + gap) - T(-C) = LEVEL, where `gap` is the length of the range in standard errors:
    from the two-sided quantile of Student's t for a single point down to the one-sided one (Imbens and Manski
    2004, Econometrica 72).
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
