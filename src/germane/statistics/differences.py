"""Differences between two judged systems, corrected with people's labels that were drawn at random.

A judge that errs alike on both systems leaves their difference right; one that favours a system does not. What people say
of passages drawn with known probabilities tells the two apart, and the judge's verdicts on everything make the labels
worth more than they are alone (the model-assisted difference estimator: Saerndal, Swensson and Wretman 1992, chapter 6).
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from germane.encoding import Line, internal
from germane.statistics.comparison import paired_difference
from germane.statistics.correction import FEWEST
from germane.statistics.distributions import t_cdf, t_quantile
from germane.statistics.intervals import UPPER, Interval, IntervalEnds

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_QUERIES = 3
"""Queries with labels below which nothing is corrected."""


class CorrectedDifference(
    Line, kw_only=True, rename=internal("interval", ends="interval", set_ends="set_interval")
):
    """The difference of two systems' means, corrected by people's labels.

    `interval` and `p` are of queries like these, `set_interval` of these alone: of zero width where everything is labelled.
    `labels` were given, in `queries` queries; of `unsure` nobody could tell: the interval covers whatever they are.
    """

    difference: float
    ends: IntervalEnds | None = None
    set_ends: IntervalEnds | None
    p: float | None
    labels: int
    queries: int
    unsure: int
    interval: Interval

    def __post_init__(self) -> None:
        self.ends = self.interval.ends


def corrected_difference(
    weights: ArrayLike,
    labels: ArrayLike,
    grades: ArrayLike,
    chances: ArrayLike,
    queries: ArrayLike,
    n_queries: int,
    *,
    most: ArrayLike | None = None,
    units: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> CorrectedDifference | str:
    """Return the mean difference over queries that people would see, from the judge's grades and a sample of labels, or the reason for none.

    With c the weight of a passage, y its label, x the judge's grade, p the chance with which it was drawn, and y' = a + l x
    with a and l (not below 0) fitted to the labels of the other queries by least squares with the weights c^2 (1 - p) / p^2:

        d_q = sum over all of c y' + sum over the labelled of c (y - y') / p
        difference = mean of d_q over the queries

    which is unbiased whatever the judge says; a judge that knows nothing gets l = 0. The interval and p of queries like
    these are `paired_difference` of the d_q, which hold the doubt of both the queries and the labels. For these queries
    alone: variance = sum over what was drawn of (1 - p) (c (y - y') / p)^2 / n_queries^2, with Student's t.

    Args:
        weights: What a hit adds to the difference B - A, of each passage in either list, shape (N,).
        labels: People's value, shape (N,), the least that it can be where somebody could not tell; nan where nobody was
            asked.
        grades: The judge's grade, shape (N,).
        chances: Probability with which each was drawn, above 0 where the weight is not 0, shape (N,).
        queries: Number of each passage's query, from 0, shape (N,).
        n_queries: Number of queries, those without a passage that counts included.
        most: The most that people's value can be, shape (N,); None = as `labels`.
        units: What was drawn as a whole, shape (N,): the query where whole queries were; None = each passage.
        clusters: Cluster of each query, shape (n_queries,).
    """
    c, y, x, p = (np.asarray(column, float) for column in (weights, labels, grades, chances))
    q = np.asarray(queries, np.intp)
    top = y if most is None else np.asarray(most, float)
    labelled, unsure = ~np.isnan(y), int((top > y).sum())
    n, covered = int(labelled.sum()), len(np.unique(q[labelled]))
    if n < min(FEWEST, len(c)) or covered < min(_QUERIES, len(np.unique(q))):
        return f"{n} labels in {covered} queries: at least {FEWEST} in {_QUERIES} are needed"
    drawn = np.arange(len(c)) if units is None else np.asarray(units)
    sides, spreads, chances_of_set = [], [], []
    for worst in (True, False):
        value = np.where((c > 0) == worst, y, top)
        values, error = _by_query(c, value, x, p, q, n_queries)
        sides.append(values)
        deviation, degrees = _spread(error, p, labelled, drawn)
        deviation /= n_queries
        spreads.append(t_quantile(UPPER, degrees) * deviation if deviation else 0.0)
        chances_of_set.append(_p_of(float(values.mean()), deviation, degrees))
    low, high = np.minimum(*sides), np.maximum(*sides)
    missing = np.abs(high - low) > 1e-12
    reach = max(1.0, float(np.abs([low, high]).max()))
    whole = paired_difference(
        np.zeros(n_queries),
        np.where(missing, np.nan, low),
        clusters=clusters,
        bounds_b=(low, high),
        value_range=(0.0, reach),
    )
    alone = float(low.mean()) - spreads[0], float(high.mean()) + spreads[1]
    interval, p_value = whole.interval, whole.p
    if interval.ends is not None:
        ends = min(interval.ends[0], alone[0]), max(interval.ends[1], alone[1])
        if ends != interval.ends:
            interval = replace(interval, ends=ends)
            p_value = None if p_value is None else max(p_value, *chances_of_set)
    return CorrectedDifference(
        difference=float(low.mean() + high.mean()) / 2,
        interval=interval,
        p=p_value,
        set_ends=alone,
        labels=n,
        queries=covered,
        unsure=unsure,
    )


def _by_query(c: Floats, y: Floats, x: Floats, p: Floats, q: Ints, n: int) -> tuple[Floats, Floats]:
    """Return each query's corrected difference, shape (n,), and each passage's weighted error, nan without a label."""
    labelled = ~np.isnan(y)
    value, odds = np.where(labelled, y, 0.0), np.divide(1.0, p, out=np.zeros(len(p)), where=p > 0)
    drawn = np.where(labelled, c * odds, 0.0)
    heavy = np.square(drawn) * (1 - p)

    def sums(column: Floats) -> Floats:
        return np.asarray(np.bincount(q, column, n), float)

    # The normal equations of the other queries' labels: all sums less the query's own.
    s0, s1, s2, t0, t1 = (
        total.sum() - total
        for total in map(sums, (heavy, heavy * x, heavy * x * x, heavy * value, heavy * x * value))
    )
    spread = s0 * s2 - s1 * s1
    determined = spread > 1e-9 * s0 * s2
    slope = np.maximum(np.divide(s0 * t1 - s1 * t0, spread, out=np.zeros(n), where=determined), 0.0)
    start = np.divide(t0 - slope * s1, s0, out=np.zeros(n), where=s0 > 0)
    difference = sums(drawn * value) + start * sums(c - drawn) + slope * sums((c - drawn) * x)
    return difference, np.where(labelled, drawn * (value - start[q] - slope[q] * x), np.nan)


def _spread(
    error: Floats, p: Floats, labelled: NDArray[np.bool_], units: NDArray[np.generic]
) -> tuple[float, float]:
    """Return the standard deviation of the sum over these queries due to the draw of the units, and its degrees of freedom."""
    codes = np.unique(units[labelled], return_inverse=True)[1]
    terms = np.square(np.bincount(codes, np.sqrt(1 - p[labelled]) * error[labelled]))
    total, n = float(terms.sum()), len(terms)
    if total <= 0 or n < _QUERIES:
        return 0.0, 1.0
    # Satterthwaite's, as in `corrected_query_mean`
    degrees = max(1.0, 3 * total**2 / float(np.square(terms).sum()) - 2)
    return sqrt(total * n / (n - 2)), degrees


def _p_of(mean: float, deviation: float, degrees: float) -> float:
    """Return the two-sided p-value of the hypothesis that the mean is 0, by Student's t."""
    if not deviation:
        return float(mean == 0)
    return 2 * t_cdf(-abs(mean) / deviation, degrees)
