"""Judged means corrected with people's labels.

A judge's mean is biased. Labels on a random sample correct it, and the judge's values on everything make the labels
worth more than they are alone (prediction-powered inference: Angelopoulos, Duchi and Zrnic 2023, "PPI++"; in survey
sampling the difference estimator: Saerndal, Swensson and Wretman 1992, chapter 6):

    corrected = mean of labels + weight * (judge's mean over all - judge's mean over the labelled)

with the weight that makes the variance smallest. The weight is 0 for a judge whose values say nothing about
the labels; the interval is then that of the labels alone. Two means can be estimated (the estimands):

- B, a mean over queries, some of which are fully labelled (`corrected_mean`);
- C, a mean over queries in which only some passages are labelled (`corrected_query_mean`).

Each is a mean over these queries (the report is the population; the width is 0 if everything is labelled) or
over queries like these.

Only labels that were drawn with a known probability may be given here; `drawing_order` draws them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf, sqrt
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from germane.clean import counted
from germane.statistics.distributions import t_quantile
from germane.statistics.intervals import UPPER, CorrectedMean, Floats, Ints, cluster_codes, mean_interval

Ends = tuple[float, float]
Design: TypeAlias = Literal["passages", "queries"]
Population = Literal["report", "queries"]
POPULATIONS: tuple[Population, ...] = ("report", "queries")
"""The populations whose mean can be estimated: the queries of this report, or queries like these."""

FEWEST = 10
"""The fewest labels with which a mean is corrected."""
_FREE = 10
"""The fewest labels, not counting the first of each query, for estimating a variance within queries."""
_RARE = 5  # a variance is estimated only if at least this many labels differ from the commonest label
_ALL = "nothing is left to correct: all are labelled"


def corrected_mean(
    judged: ArrayLike,
    labels: ArrayLike,
    *,
    population: Population = "report",
    value_range: Ends = (-inf, inf),
) -> CorrectedMean | str:
    """Estimate the mean of people's values over N queries, from a judge's values and n labelled queries.

    Returns the reason as a string if the mean cannot be corrected. This is estimand B. Let y be people's
    value of a query, f the judge's value, and e = y - l f. Then

        theta = mean of y + l (mean of f over all queries - mean of f over the labelled queries)
        variance = (1 - n/N) s_e^2 / n + (the same difference of f)^2 * jackknife variance of l

    l is the least-squares weight, at least 0; fitting it costs one degree of freedom. For queries like these,
    the first term is the variance of a sum over all N queries: each adds l (f - mean f) / N, and a labelled
    query also (e - mean e) / n. Because queries are few and their values often skewed, the interval has the
    shape of the interval of the residuals (`mean_interval` of differences), scaled to the variance.

    Args:
        judged: The judge's value of every query, on the scale of the labels, shape (N,).
        labels: People's value, shape (N,); nan = the query is not fully labelled.
        population: "report" = the mean over these queries; "queries" = the mean over queries like these.
        value_range: The smallest and largest possible value; the interval is cut to this range.
    """
    f, y = np.asarray(judged, float), np.asarray(labels, float)
    labelled = ~np.isnan(y)
    size, n = len(f), int(labelled.sum())
    base = {"method": "PPI++", "judged": float(f.mean()), "labels": n, "total": size, "queries": n}
    if n < FEWEST:
        return f"{counted(n, 'label')}: at least {FEWEST} are needed"
    if n == size:
        return _ALL
    y, known = y[labelled], f[labelled]
    human, gap = float(y.mean()), float(f.mean() - known.mean())
    u, v = (y - human) / n, (known - known.mean()) / n
    scale = np.full(n, (1 - n / size) * n / (n - 1))
    fit = _fit(u, v, scale, n - 1)
    residuals = u - fit.weight * v
    alone, variance = float(scale @ np.square(u)), fit.variance
    if population == "queries":
        totals = fit.weight * (f - f.mean()) / size
        totals[labelled] += residuals
        alone = float(np.square(u).sum()) * n / (n - 1)
        variance = float(np.square(totals).sum()) * n / (n - 2)
    variance += gap**2 * fit.weight_variance
    if _unvaried(y) or alone <= 0 or variance <= 0:
        return _labels_alone(base, y, value_range)
    mean, rows = human + fit.weight * gap, residuals if residuals.any() else u
    ends, ends_alone = _ends(mean, rows, variance, value_range), _ends(human, u, alone, value_range)
    return _estimated(base, mean, ends, human, ends_alone, fit.weight, value_range)


def _ends(mean: float, residuals: Floats, variance: float, limits: Ends) -> Ends:
    """Return the interval of a mean with this variance, shaped like the interval of the residuals' mean.

    `residuals` holds each query's contribution minus its expectation. `limits` is the range of a query's
    value.
    """
    rows = residuals * len(residuals) * sqrt(variance / float(np.square(residuals).sum()))
    most = max(limits[1] - limits[0], float(np.abs(rows).max()))
    low, high = mean_interval(rows, value_range=(-most, most), differences=True).ends or (0.0, 0.0)
    return mean + low, mean + high


def corrected_query_mean(
    judged: ArrayLike,
    labels: ArrayLike,
    queries: ArrayLike,
    *,
    proxy: ArrayLike | None = None,
    population: Population = "report",
    value_range: Ends = (-inf, inf),
) -> CorrectedMean | str:
    """Estimate the mean over queries of the mean over their passages, of which only some are labelled.

    Returns the reason as a string if the mean cannot be corrected. This is estimand C, with two-stage
    sampling (Cochran 1977, Sampling Techniques, chapter 10): q of Q queries, and m_i of the M_i passages of
    query i, are simple random samples. y is a label, f the judge's value, a bar a mean over the passages of a
    query, and l and b are weights that are fitted within and between the queries:

        d_i = ybar_i(labelled) + l (fbar_i(all) - fbar_i(labelled))
        theta = mean d_i + b (mean of fbar over all queries - mean of fbar over the labelled queries)
        variance = (1 - q/Q) s_between^2 / q + sum (1 - m_i/M_i) s_i^2 / m_i / (q Q) + jackknife terms of l and b

    If every query has labels, the first term is 0, and only passages without a label add to the variance.
    With `population="queries"` the queries are themselves a sample. The first term then lacks the factor
    1 - q/Q, and the interval is much wider.

    Args:
        judged: The judge's value of every passage of every query, shape (N,).
        labels: People's value, shape (N,); nan = not labelled.
        queries: The query of each passage, shape (N,).
        proxy: Values that replace `judged` in the correction, such as grades, which say more than yes or no.
        population: As in `corrected_mean`.
        value_range: As in `corrected_mean`.
    """
    f_own, y_all = np.asarray(judged, float), np.asarray(labels, float)
    f_all = f_own if proxy is None else np.asarray(proxy, float)
    codes = cluster_codes(queries)
    labelled = ~np.isnan(y_all)
    n, total = int(labelled.sum()), len(f_all)
    sizes = np.bincount(codes)
    counts_all = np.bincount(codes[labelled], minlength=len(sizes))
    seen = np.flatnonzero(counts_all)
    judge = float((np.bincount(codes, f_own) / sizes).mean())
    if n < FEWEST:
        return f"{counted(n, 'label')}: at least {FEWEST} are needed"
    if len(seen) < 3:
        return f"labels in {counted(len(seen), 'query')}: a correction needs labels in at least 3"
    if n == total:
        return _ALL
    base = {"method": "PPI++ by query", "judged": judge, "labels": n, "total": total, "queries": len(seen)}
    group, counts = (np.cumsum(counts_all > 0) - 1)[codes[labelled]], counts_all[seen]
    y, f = y_all[labelled], f_all[labelled]
    y_mean, f_mean = (np.bincount(group, side) / counts for side in (y, f))
    f_query = np.bincount(codes, f_all) / sizes
    human = float(y_mean.mean())
    if _unvaried(y):
        return _labels_alone(base, y_mean, value_range)
    y_in, f_in = y - y_mean[group], f - f_mean[group]
    half_width = partial(_half_width, group, counts, sizes[seen], len(sizes), population)
    half_alone, free = half_width(y_in, y_mean, (False, False), 0.0), n - len(counts)
    # Each label has the weight that it has in the variance within queries. The jackknife leaves out queries.
    weights = (1 - counts / sizes[seen]) / (counts * np.maximum(counts - 1, 1))
    inner = _fit(y_in, f_in, weights[group], free, group) if free >= _FREE else _Fit()
    gap = f_query[seen] - f_mean
    d = y_mean + inner.weight * gap
    outer, shift = _Fit(), 0.0
    if len(seen) < len(sizes):
        shift = float(f_query.mean() - f_query[seen].mean())
        outer = _fit(d - d.mean(), f_query[seen] - f_query[seen].mean(), np.ones(len(seen)), len(seen) - 1)
    mean = float(d.mean()) + outer.weight * shift
    doubt = float(gap.mean()) ** 2 * inner.weight_variance + shift**2 * outer.weight_variance
    if population == "queries" and len(seen) < len(sizes):
        doubt += outer.weight**2 * float(f_query.var(ddof=1)) / len(sizes)
    fitted = inner.weight > 0, outer.weight > 0
    half = half_width(y_in - inner.weight * f_in, d - outer.weight * f_query[seen], fitted, doubt)
    if half <= 0 or half_alone <= 0:
        return _labels_alone(base, y_mean, value_range)
    ends, ends_alone = (mean - half, mean + half), (human - half_alone, human + half_alone)
    return _estimated(base, mean, ends, human, ends_alone, inner.weight, value_range)


def merge_bounds(low: CorrectedMean, high: CorrectedMean, *, unsure: int) -> CorrectedMean:
    """Return one corrected mean from the means with all "unsure" labels taken as 0 (`low`) and as 1 (`high`).

    The mean is the middle of the two means, and each interval covers those of both. `unsure` is the number of
    "unsure" labels.
    """
    return low.replace(
        mean=(low.mean + high.mean) / 2,
        ends=_cover(low.ends, high.ends),
        set_ends=_cover(low.set_ends or low.ends, high.set_ends or high.ends),
        labels=low.labels - unsure,
        unsure=unsure,
        method=f"{low.method}, unsure bounded",
        human_ends=None,
        human=None,
    )


def _cover(ends: Sequence[float], other: Sequence[float]) -> Ends:
    return min(ends[0], other[0]), max(ends[1], other[1])


def _estimated(
    base: Mapping[str, Any], mean: float, ends: Ends, human: float, alone: Ends, weight: float, limits: Ends
) -> CorrectedMean:
    """Return the CorrectedMean with the fields `base`, the corrected estimate and that of the labels."""
    return CorrectedMean(
        **base,
        mean=min(max(mean, limits[0]), limits[1]),
        ends=_cut(ends, limits),
        human=human,
        human_ends=_cut(alone, limits),
        weight=weight,
        ess=base["labels"] * ((alone[1] - alone[0]) / (ends[1] - ends[0])) ** 2,
    )


class _Fit(NamedTuple):
    """The judge's fitted weight, the jackknife variance of that weight, and the residual sum of squares."""

    weight: float = 0.0
    weight_variance: float = 0.0
    variance: float = 0.0


def _fit(u: Floats, v: Floats, scale: Floats, df: int, groups: Ints | None = None) -> _Fit:
    """Fit the least-squares slope of u on v, at least 0, weighted by `scale`; 0 if v does not vary.

    u and v are deviations from means, with `df` degrees of freedom. For the variance of the slope, the
    jackknife leaves out one of the `groups` at a time, or one row at a time if `groups` is None.
    """
    cross, square = scale * u * v, scale * v * v
    if groups is not None:
        cross, square = (np.asarray(np.bincount(groups, side), float) for side in (cross, square))
    total, count = float(square.sum()), len(square)
    alone = _Fit(variance=float(scale @ np.square(u)))
    rest = total - square
    if df < 2 or total <= 0 or float(rest.min()) <= 1e-12 * total:
        return alone
    weight = max(0.0, float(cross.sum()) / total)
    left_out = np.maximum(0.0, (cross.sum() - cross) / rest)
    doubt = (count - 1) / count * float(np.square(left_out - left_out.mean()).sum())
    # The jackknife variance counts for a weight cut to 0 as well: another sample might not have been cut.
    if not weight:
        return alone._replace(weight_variance=doubt)
    return _Fit(weight, doubt, float(scale @ np.square(u - weight * v)) * df / (df - 1))


def _half_width(
    group: Ints,
    counts: Ints,
    sizes: Ints,
    queries: int,
    population: str,
    within: Floats,
    between: Floats,
    fitted: tuple[bool, bool],
    doubt: float,
) -> float:
    """Return half the width of the interval, from the deviations within and between queries.

    The labels are a two-stage sample. `group` is the query of each label, `counts` and `sizes` are the
    numbers of labels and of passages of each labelled query, `queries` is the number of all queries. `fitted`
    says whether the weights (within, between) were fitted; `doubt` is the variance that the weights add. A
    query with a single label gets the mean variance of the other queries. If nearly all queries have a single
    label, the variance between queries is used for both stages: the interval is too wide, not too narrow.
    """
    q, labels_free = len(counts), len(group) - len(counts)
    first_df = max(q - 1 - fitted[1], 1)
    first = float(between.var(ddof=1)) * (q - 1) / first_df / q
    second, second_df = 0.0, 1.0
    if population == "report" and labels_free >= _FREE:
        free = labels_free - fitted[0]
        squares = np.bincount(group, np.square(within)) * labels_free / free
        own = np.maximum(counts - 1, 1)
        each = np.where(counts > 1, squares / own, squares.sum() / labels_free)
        terms = (1 - counts / sizes) * each / counts / (q * queries)
        second, second_df = float(terms.sum()), min(_degrees(terms, own), free)
        first *= 1 - q / queries
    elif population == "report" and (counts == sizes).all():  # all passages are labelled
        first *= 1 - q / queries
    variance = first + second
    if variance <= 0:
        return 0.0
    df = variance**2 / (first**2 / first_df + second**2 / second_df)
    return t_quantile(UPPER, df) * sqrt(variance + doubt)


def _degrees(variances: Floats, df: Ints) -> float:
    """Return the degrees of freedom of a sum of estimated variances (Satterthwaite 1946), at least 1.

    `df` holds the degrees of freedom of each variance. The + 2 and - 2 in the code correct a bias: the square
    of an estimate with f degrees of freedom is (f + 2) / f times too large on average.
    """
    total = float(variances.sum())
    return max(1.0, total**2 / float((np.square(variances) / (df + 2)).sum()) - 2) if total > 0 else 1.0


def _unvaried(labels: Floats) -> bool:
    """Return True if nearly all labels are equal, which makes their variance a poor estimate."""
    return int(np.unique(labels, return_counts=True)[1].max()) > len(labels) - _RARE


def _labels_alone(base: Mapping[str, Any], labels: Floats, value_range: Ends) -> CorrectedMean | str:
    """Return the mean of the labels alone, or the reason if no interval can be computed."""
    alone = mean_interval(labels, value_range=value_range)
    if alone.mean is None or alone.ends is None:
        return "nearly all labels are equal, and the measure has no range that could bound their mean"
    fields = {**base, "method": f"labels alone, {alone.method}", "ess": float(base["labels"])}
    return CorrectedMean(**fields, mean=alone.mean, ends=alone.ends, human=alone.mean, human_ends=alone.ends)


def _cut(ends: Ends, limits: Ends) -> Ends:
    return max(ends[0], limits[0]), min(ends[1], limits[1])


def drawing_order(groups: ArrayLike, design: Design, seed: int, n: int) -> tuple[Ints, Floats]:
    """Return the positions of the first n units of a random order, and the probability that each is drawn.

    `groups`, shape (N,), holds the group of each unit, such as its query. With `design` "passages", each
    round draws one unit of every group. With "queries", whole groups are drawn: as many as fit into n units,
    but at least one. The order depends on the seed alone, so a larger n continues it.
    """
    codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    shuffled = np.random.default_rng([seed, 0]).permutation(len(codes))
    sizes = np.bincount(codes)
    # Groups get a random order of their own, because the order of their first units would favour long groups.
    turns = np.random.default_rng([seed, 1]).permutation(len(sizes))
    turn = turns[codes[shuffled]]
    if design == "queries":
        covered = np.cumsum(sizes[np.argsort(turns)])
        whole = max(1, int(np.searchsorted(covered, n, "right")))
        order = np.argsort(turn, kind="stable")[: covered[whole - 1]]
        chances = np.full(len(sizes), whole / len(sizes))
    else:
        same = np.argsort(codes[shuffled], kind="stable")  # the units of each group, in their drawn order
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        rounds = np.empty(len(codes), np.intp)
        rounds[same] = np.arange(len(codes)) - starts
        order = np.lexsort((turn, rounds))[:n]
        chances = chances_of_rounds(sizes, n)
    positions = shuffled[order]
    return positions, chances[codes[positions]]


def chances_of_rounds(sizes: ArrayLike, n: int) -> Floats:
    """Return, for each group, the probability that a given unit of it is among n units drawn in rounds.

    Each round draws one unit of every group that has units left. `sizes` are the numbers of units of the
    groups. The probability is m_g / size_g, where m_g = min(size_g, r) and r is the number of full rounds
    within n. The rest of n adds an equal fraction of a unit to m_g of every group that has units left.
    """
    in_group = np.asarray(sizes, np.intp)
    rounds = max(r for r in range(int(in_group.max()) + 1) if np.minimum(in_group, r).sum() <= n)
    counts, left = np.minimum(in_group, rounds).astype(float), in_group > rounds
    if left.any():
        counts[left] += (n - counts.sum()) / left.sum()
    return np.asarray(counts / in_group, float)
