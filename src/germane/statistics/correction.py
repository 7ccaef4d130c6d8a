"""Judged means corrected with people's labels.

A judge's mean is biased. Labels on a random sample correct it, and the judge's values on everything make the labels
worth more than they are alone (prediction-powered inference: Angelopoulos, Duchi and Zrnic 2023, "PPI++"; in survey
sampling the difference estimator: Saerndal, Swensson and Wretman 1992, chapter 6):

    corrected = mean of labels + weight * (judge's mean over all - judge's mean over what is labelled)

with the weight that makes the variance smallest: 0 for a judge that knows nothing, so that the interval is then that
of the labels alone. What is estimated (the estimand) is one of

- B, the mean over queries, of which some are labelled whole (`corrected_mean`);
- C, the mean over queries of which only some passages are labelled (`corrected_query_mean`).

Each is of these queries (the report is the population: width 0 when all is labelled) or of queries like these.

Only labels that were drawn with a known probability may be given here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from germane.statistics.distributions import t_quantile
from germane.statistics.intervals import UPPER, CorrectedMean, cluster_codes, mean_interval

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Ends = tuple[float, float]
Population = Literal["report", "queries"]
POPULATIONS: tuple[Population, ...] = ("report", "queries")
"""The populations of a mean: these queries, or queries like these."""

FEWEST = 10
"""Labels below which nothing is corrected."""
_FREE = 10
"""Labels beyond the first of each query from which on the variance within queries is estimated."""
_RARE = 5
"""Labels that must differ from the commonest one for a variance to be estimated from them."""


_ALL = "all are labelled"


def corrected_mean(
    judged: ArrayLike,
    labels: ArrayLike,
    *,
    population: Population = "report",
    value_range: tuple[float, float] = (-inf, inf),
) -> CorrectedMean | str:
    """Return the mean over N queries, of which a random sample of n is labelled whole (estimand B), or why there is none.

    Formula, with y people's value of a query, f the judge's, and e = y - l f:

        theta = mean of y + l (mean of f over all - mean of f over the labelled)
        variance = (1 - n/N) s_e^2 / n + (the same difference of f)^2 * jackknife variance of l

    l is the least-squares weight, not below 0; one degree of freedom is taken off for it. Of queries like these the first
    term is the variance over all N of l (f - mean f) / N, plus (e - mean e) / n for the labelled. The interval is that of the
    residuals by the rule for differences (`mean_interval`), stretched to the variance: queries are few and often skewed.

    Args:
        judged: The judge's value of every query, on the scale of the labels, shape (N,).
        labels: People's value, shape (N,); nan where it is not labelled whole.
        population: "report" = the mean over these queries; "queries" = over queries like these.
        value_range: Smallest and largest possible value; the interval is cut to it.
    """
    f, y = np.asarray(judged, float), np.asarray(labels, float)
    labelled = ~np.isnan(y)
    size, n = len(f), int(labelled.sum())
    base = {"method": "PPI++", "judged": float(f.mean()), "labels": n, "total": size, "queries": n}
    if n < FEWEST:
        return f"{n} labels: at least {FEWEST} are needed"
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
    """Return the interval of a mean of this variance, by the rule for differences.

    `residuals` are each query's share of the mean less its expectation, `limits` the range of a query's value.
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
    value_range: tuple[float, float] | None = None,
) -> CorrectedMean | str:
    """Return the mean over queries of the mean over each query's passages, of which only some are labelled (estimand C), or why not.

    Two-stage sampling (Cochran 1977, Sampling Techniques, chapter 10): q of Q queries, in each m_i of its M_i
    passages, both simple random samples. With y a label, f the judge's value, bars over passages of one query:

        d_i = ybar_i(labelled) + l (fbar_i(all) - fbar_i(labelled)),   l fitted within queries
        theta = mean d_i + b (mean of fbar over all queries - over the labelled ones),   b fitted between queries
        variance = (1 - q/Q) s_between^2 / q + sum (1 - m_i/M_i) s_i^2 / m_i / (q Q) + jackknife terms of l and b

    Where every query has labels, only the passages without a label leave doubt and the first term is 0. With
    `population="queries"` the queries themselves are a sample of those to come: the first term loses its finite
    population correction and the interval is much wider.

    Args:
        judged: The judge's value of every passage of every query, shape (N,).
        labels: People's value, shape (N,); nan where nobody was asked.
        queries: Identity of each passage's query, shape (N,).
        proxy: What stands in for `judged` in the correction, shape (N,): the judge's grade says more than its yes or no.
        population: "report" = the mean that this report would show if all its passages were labelled; "queries" =
            the mean over queries like these.
        value_range: Smallest and largest possible value; the interval is cut to it.
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
        return f"{n} labels: at least {FEWEST} are needed"
    if len(seen) < 3:
        return f"labels in {len(seen)} queries: at least 3 are needed"
    if n == total:
        return _ALL
    base: dict[str, Any] = {"method": "PPI++ by query", "judged": judge, "labels": n, "total": total}
    base["queries"] = len(seen)
    group, counts = (np.cumsum(counts_all > 0) - 1)[codes[labelled]], counts_all[seen]
    y, f = y_all[labelled], f_all[labelled]
    y_mean, f_mean = (np.bincount(group, side) / counts for side in (y, f))
    f_query = np.bincount(codes, f_all) / sizes
    human = float(y_mean.mean())
    limits = value_range or (-np.inf, np.inf)
    if _unvaried(y):
        return _labels_alone(base, y_mean, value_range)
    y_in, f_in = y - y_mean[group], f - f_mean[group]
    stages = _Stages(group, counts, sizes[seen], len(sizes), population)
    half_alone = stages.half_width(y_in, y_mean, (False, False), 0.0)
    # Within queries each label has the weight that it has in the variance; queries are what the jackknife leaves out.
    inner = _fit(y_in, f_in, stages.scale, stages.free, group) if stages.free >= _FREE else _Fit()
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
    half = stages.half_width(
        y_in - inner.weight * f_in,
        d - outer.weight * f_query[seen],
        (inner.weight > 0, outer.weight > 0),
        doubt,
    )
    if half <= 0 or half_alone <= 0:
        return _labels_alone(base, y_mean, value_range)
    ends, ends_alone = (mean - half, mean + half), (human - half_alone, human + half_alone)
    return _estimated(base, mean, ends, human, ends_alone, inner.weight, limits)


def between(low: CorrectedMean, high: CorrectedMean, *, unsure: int) -> CorrectedMean:
    """Return the corrected mean with unsure items, from the ones with all of them at 0 and at 1.

    The interval covers both; the mean is the middle of the two.
    """
    ends = min(low.ends[0], high.ends[0]), max(low.ends[1], high.ends[1])
    mean, labels = (low.mean + high.mean) / 2, low.labels - unsure
    method = f"{low.method}, unsure bounded"
    return low.replace(
        mean=mean, ends=ends, labels=labels, unsure=unsure, method=method, human_ends=None, human=None
    )


def _estimated(
    base: Mapping[str, Any],
    mean: float,
    ends: Ends,
    human: float,
    alone: Ends,
    weight: float,
    limits: Ends,
) -> CorrectedMean:
    """Return the corrected mean and the labels' own mean, each with its interval."""
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
    """The judge's weight, its jackknife variance, and the residual sum of squares."""

    weight: float = 0.0
    weight_variance: float = 0.0
    variance: float = 0.0


def _fit(u: Floats, v: Floats, scale: Floats, df: int, groups: Ints | None = None) -> _Fit:
    """Return the least-squares fit of u on v with weights `scale`, not below 0; jackknifed over `groups`, None = each row.

    u and v are deviations from means; `df` is what these leave free. Where the judge does not vary the weight is 0.
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


@dataclass(frozen=True, slots=True)
class _Stages:
    """A two-stage sample: the query of each label, labels and passages of each labelled query, number of queries."""

    group: Ints
    counts: Ints
    sizes: Ints
    queries: int
    population: str

    @property
    def free(self) -> int:
        """The degrees of freedom within queries: labels - queries."""
        return len(self.group) - len(self.counts)

    @property
    def scale(self) -> Floats:
        """Weight of each label's squared deviation in the variance within queries."""
        share = (1 - self.counts / self.sizes) / (self.counts * np.maximum(self.counts - 1, 1))
        return np.asarray(share[self.group], float)

    def half_width(self, within: Floats, between: Floats, fitted: tuple[bool, bool], doubt: float) -> float:
        """Return half the interval's width, from deviations within queries, values per query, and the weights' part.

        Queries with one label get the mean variance of the others; where nearly all have one, the variance between queries
        stands for both stages and no finite population correction is made, which is too wide, never too narrow.
        """
        q, free = len(self.counts), self.free - fitted[0]
        first_df = max(q - 1 - fitted[1], 1)
        first = float(between.var(ddof=1)) * (q - 1) / first_df / q
        second, second_df = 0.0, 1.0
        if self.population == "report" and self.free >= _FREE:
            squares = np.bincount(self.group, np.square(within)) * self.free / free
            own = np.maximum(self.counts - 1, 1)
            each = np.where(self.counts > 1, squares / own, squares.sum() / self.free)
            terms = (1 - self.counts / self.sizes) * each / self.counts / (q * self.queries)
            second, second_df = float(terms.sum()), min(_degrees(terms, own), free)
            first *= 1 - q / self.queries
        elif self.population == "report" and (self.counts == self.sizes).all():  # one passage is all there is
            first *= 1 - q / self.queries
        variance = first + second
        if variance <= 0:
            return 0.0
        df = variance**2 / (first**2 / first_df + second**2 / second_df)
        return t_quantile(UPPER, df) * sqrt(variance + doubt)


def _degrees(variances: Floats, df: Ints) -> float:
    """Return the degrees of freedom of a sum of estimated variances (Satterthwaite 1946), at least 1.

    A square of an estimate with f degrees of freedom is (f + 2) / f times too large on average, hence f + 2 and - 2.
    """
    total = float(variances.sum())
    return max(1.0, total**2 / float((np.square(variances) / (df + 2)).sum()) - 2) if total > 0 else 1.0


def _unvaried(labels: Floats) -> bool:
    """Return True if all but a few labels are equal, so that their variance says little."""
    return int(np.unique(labels, return_counts=True)[1].max()) > len(labels) - _RARE


def _labels_alone(
    base: Mapping[str, Any], labels: Floats, value_range: tuple[float, float] | None
) -> CorrectedMean | str:
    """Return the mean of people's values alone, by the rules for a mean: too few differ to weigh a judge; or why not."""
    alone = mean_interval(labels, value_range=value_range)
    if alone.mean is None or alone.ends is None:
        return "nearly all labels are equal and their range is not known"
    fields = {**base, "method": f"labels alone, {alone.method}", "ess": float(base["labels"])}
    return CorrectedMean(**fields, mean=alone.mean, ends=alone.ends, human=alone.mean, human_ends=alone.ends)


def _cut(ends: Ends, limits: Ends) -> Ends:
    return max(ends[0], limits[0]), min(ends[1], limits[1])
