"""The difference between two judged systems, corrected with people's labels of randomly drawn passages.

If a judge makes the same errors on both systems, their difference is still right. If it favours one system,
the difference is wrong. Labels drawn with known probabilities show which is the case, and the judge's
verdicts on all passages make the labels worth more (the model-assisted difference estimator: Saerndal,
Swensson and Wretman 1992, chapter 6).
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from germane.clean import counted
from germane.encoding import Line, internal
from germane.statistics.correction import FEWEST
from germane.statistics.distributions import t_cdf, t_quantile
from germane.statistics.intervals import UPPER, Floats, Interval, IntervalEnds, Ints, mean_interval
from germane.statistics.systems import paired_difference

_QUERIES = 3  # the fewest labelled queries with which a difference is corrected


class CorrectedDifference(
    Line, kw_only=True, rename=internal("interval", ends="interval", set_ends="set_interval")
):
    """The difference of two systems' means, corrected with people's labels.

    `interval` and `p` are for queries like these. `set_interval` is for these queries alone; its width is 0
    if every passage is labelled. The correction uses `labels` labels in `queries` queries. For another
    `unsure` passages people were unsure, so the interval covers both answers.
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
    """Estimate the mean difference B - A that people would find, from a judge's grades and some labels.

    Returns the reason as a string if there are too few labels. Let c be the weight of a passage, y its label,
    x the judge's grade and p the probability that the passage was drawn. Let y' = a + l x, where a and l >= 0
    are fitted to the labels of the other queries by least squares with the weights c^2 (1 - p) / p^2. Then

        d_q = sum over all passages of q of c y' + sum over its labelled passages of c (y - y') / p
        difference = mean of d_q over the queries

    This estimate is unbiased whatever the judge says; if the grades say nothing about the labels, l is 0. The
    interval and p-value for queries like these are the `paired_difference` of the d_q, which includes the
    uncertainty of queries and of labels. For these queries alone, the variance is the sum over the drawn
    passages of (1 - p) (c (y - y') / p)^2 / n_queries^2, and the interval is Student's t.

    Args (each array but the last has an entry per passage of either list):
        weights: The amount by which the passage changes the difference B - A if it is relevant.
        labels: People's label, or its lowest possible value if a person was unsure; nan = no label.
        grades: The judge's grade.
        chances: The probability that the passage was drawn, above 0 unless its weight is 0.
        queries: The index of the passage's query.
        n_queries: The number of queries, including queries without such a passage.
        most: The highest possible value of people's label; None = the same as `labels`.
        units: The unit to which it belonged in the draw, such as its query; None = drawn by itself.
        clusters: The cluster of each query.
    """
    c, y, x, p = (np.asarray(column, float) for column in (weights, labels, grades, chances))
    q = np.asarray(queries, np.intp)
    top = y if most is None else np.asarray(most, float)
    labelled, unsure = ~np.isnan(y), int((top > y).sum())
    n, covered = int(labelled.sum()), len(np.unique(q[labelled]))
    if n < min(FEWEST, len(c)) or covered < min(_QUERIES, len(np.unique(q))):
        have = f"{counted(n, 'label')} in {counted(covered, 'query')}"
        return f"{have}: a correction needs at least {FEWEST} labels in {_QUERIES} queries"
    drawn = np.arange(len(c)) if units is None else np.asarray(units)
    sides, spreads, p_values_of_set = [], [], []
    for worst in (True, False):
        value = np.where((c > 0) == worst, y, top)
        values, error = _by_query(c, value, x, p, q, n_queries)
        sides.append(values)
        deviation, degrees = _spread(error, c, p, labelled, drawn)
        deviation /= n_queries
        spreads.append(t_quantile(UPPER, degrees) * deviation if deviation else 0.0)
        mean = float(values.mean())
        p_values_of_set.append(2 * t_cdf(-abs(mean) / deviation, degrees) if deviation else float(mean == 0))
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
            p_value = None if p_value is None else max(p_value, *p_values_of_set)
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
    """Return each query's corrected difference, and each passage's weighted error (nan = no label)."""
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
    error: Floats, c: Floats, p: Floats, labelled: NDArray[np.bool_], units: NDArray[np.generic]
) -> tuple[float, float]:
    """Return the standard deviation that the draw adds to the sum of errors, and its degrees of freedom.

    Each argument has an entry per passage: its weighted error, its weight `c`, its probability `p` of being
    drawn, whether it is `labelled`, and its unit in the draw (its query, or itself). If no drawn unit has an
    error, it is that of the `mean_interval` of as many errors of 0, because units that were not drawn can
    have errors. It is 0 if everything is labelled.
    """
    codes, rest = np.unique(units[labelled], return_inverse=True)[1], np.sqrt(1 - p[labelled])
    terms = np.square(np.bincount(codes, rest * error[labelled]))
    total, n = float(terms.sum()), len(terms)
    most = float(np.bincount(codes, rest * np.abs(c[labelled]) / p[labelled]).max(initial=0.0))
    if most and (total <= 1e-18 * most**2 or n < _QUERIES):
        zeros = mean_interval(np.zeros(n), value_range=(-most, most))
        return n * (zeros.half_width or 0.0) / t_quantile(UPPER, max(n - 1, 1)), max(n - 1.0, 1.0)
    # Satterthwaite's, as in `corrected_query_mean`
    degrees = max(1.0, 3 * total**2 / float(np.square(terms).sum()) - 2) if total else 1.0
    return sqrt(total * n / max(n - 2, 1)), degrees
