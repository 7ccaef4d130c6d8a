"""Agreement of a judge with people, of people with people, and of a judge with itself.

Verdicts that were asked again tell whether a judge has changed, beyond its own noise. If it has not, the stored answer and the
new ones are exchangeable: either order of the two is as likely. Two tests follow, for any amount of noise, and share the error
rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, sqrt

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import ArrayLike, NDArray

from germane.encoding import Line
from germane.statistics.comparison import holm, paired_difference
from germane.statistics.intervals import LEVEL, Interval, IntervalEnds, cluster_codes, mean_interval

Floats = NDArray[np.float64]


_NEWTON = 50
"""Steps of a fit at most."""


class Confusion(Line):
    """Counts of the pairs of a person's grade (rows) and the judge's (columns), in the order of `grades`."""

    grades: list[float]
    people_by_judge: list[list[float]]

    @property
    def table(self) -> Floats:
        """The counts as an array, shape (grades, grades)."""
        return np.asarray(self.people_by_judge, float)


class Bias(Line, rename={"ends": "interval"}):
    """The mean of judge minus people; `interval` is null if the values do not vary."""

    mean: float | None
    ends: IntervalEnds | None


class Spread(Line):
    """The spread of the means of groups beyond what the spread within them explains.

    `low` and `high` are the extremes. `bias` is the mean of each group, where groups are systems.
    """

    deviation: float
    low: float
    high: float
    bias: dict[str, float] | UnsetType = UNSET


class Agreement(Line, kw_only=True):
    """Agreement on `n` items: the share of equal grades, and the share beyond chance; null if only one grade occurs.

    In an audit it is of one `kind` of verdict and `scale`; `people` are the two whose labels are compared.
    """

    kind: str | UnsetType = UNSET
    scale: str | UnsetType = UNSET
    people: list[str] | UnsetType = UNSET
    n: int
    raw: float | None
    kappa: float | None
    kappa_quadratic: float | None
    alpha_ordinal: float | None


class JudgeAgreement(Agreement, kw_only=True):
    """The agreement of a judge with people on `n` items of `queries` queries.

    `base_rate` is the share that always giving people's commonest grade would reach; `illegal` counts the judge's grades
    outside the scale. In an audit `between_systems` says how far the judge's bias differs between systems.
    """

    queries: int | None
    base_rate: float | None
    confusion: Confusion
    bias: Bias
    between_queries: Spread | None
    between_systems: Spread | UnsetType | None = UNSET
    illegal: dict[str, int]


def agreement(
    judge: ArrayLike,
    people: ArrayLike,
    *,
    scale: Sequence[float] = (0, 1, 2, 3),
    queries: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> JudgeAgreement:
    """Return the agreement of a judge's grades with people's on the same items.

    Grades outside the scale are counted in `illegal` and are grades of their own in everything else: nothing is
    clipped. The bias's interval is Student's t over queries as clusters; where all errors are equal, Gaffke's.

    Args:
        judge: The judge's grade of each item, shape (n,).
        people: People's grade of each item, shape (n,).
        scale: The legal grades, ascending.
        queries: Query of each item, shape (n,).
        weights: 1 / inclusion probability of each item, shape (n,), for labels of a stratified queue; None = 1 each.
    """
    values, truth = np.asarray(judge, float), np.asarray(people, float)
    pairs = confusion(judge, people, scale=scale, weights=weights)
    table = pairs.table
    total = float(table.sum())
    names, counts = np.unique(values[~np.isin(values, list(scale))], return_counts=True)
    error = values - truth
    reach = max(scale) - min(scale)
    limits = (-reach, reach) if len(error) == 0 or np.abs(error).max() <= reach else None
    bias = mean_interval(error, clusters=queries, weights=weights)
    if bias.ends is None and len(error):  # no spread to go by: the range alone bounds the mean
        bias = mean_interval(error, clusters=queries, value_range=limits, weights=weights)
    return JudgeAgreement(
        n=len(error),
        queries=None if queries is None else len(np.unique(np.asarray(queries))),
        raw=float(np.trace(table)) / total if total else None,
        base_rate=float(table.sum(axis=1).max()) / total if total else None,
        kappa=cohen_kappa(pairs),
        kappa_quadratic=cohen_kappa(pairs, quadratic=True),
        alpha_ordinal=_alpha(table + table.T, len(error) / total if total else 1.0),
        confusion=pairs,
        bias=Bias(bias.mean, bias.ends),
        between_queries=None if queries is None or not len(error) else spread_between(error, queries),
        illegal={f"{name:g}": int(count) for name, count in zip(names, counts, strict=True)},
    )


def confusion(
    judge: ArrayLike, people: ArrayLike, *, scale: Sequence[float] = (), weights: ArrayLike | None = None
) -> Confusion:
    """Return the table of people's grades (rows) by the judge's (columns), over the scale and other grades that occur.

    Args:
        judge: The judge's grades, shape (n,).
        people: People's grades, shape (n,).
        scale: Grades that have a row and a column whether they occur or not.
        weights: Weight of each pair, shape (n,).
    """
    values, truth = np.asarray(judge, float), np.asarray(people, float)
    names = np.unique(np.concatenate([values, truth, np.asarray(scale, float)]))
    size = len(names)
    positions = np.searchsorted(names, truth) * size + np.searchsorted(names, values)
    heavy = None if weights is None else np.asarray(weights, float)
    table = np.bincount(positions, heavy, size * size).reshape(size, size).astype(float)
    return Confusion(names.tolist(), table.tolist())


def cohen_kappa(pairs: Confusion, *, quadratic: bool = False) -> float | None:
    """Return Cohen's kappa: the agreement beyond chance, given the two distributions of grades.

    1 - sum w_ij o_ij / sum w_ij e_ij with e the product of the margins and w_ij = 1 for i != j, or the squared distance
    of the grades (Cohen 1960; 1968). At most 1, 0 = chance; None where both give one and the same grade only.
    """
    total = pairs.table.sum()
    if not total:
        return None
    grades = np.asarray(pairs.grades)
    distance = np.subtract.outer(grades, grades)
    cost = np.square(distance) if quadratic else (distance != 0).astype(float)
    expected = np.outer(pairs.table.sum(axis=1), pairs.table.sum(axis=0)) / total
    chance = float((cost * expected).sum())
    return 1 - float((cost * pairs.table).sum()) / chance if chance else None


class KappaDifference(Line):
    """One judge's kappa and its difference from another's on the same items.

    `difference` is this judge's kappa less the other's, with its interval and its p-value; all None for that one itself, and
    where a kappa is not known.
    """

    kappa: float | None
    difference: float | None = None
    interval: IntervalEnds | None = None
    p: float | None = None


def compare_kappas(
    judges: ArrayLike,
    people: ArrayLike,
    queries: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    baseline: int | None = None,
) -> list[KappaDifference]:
    """Return Cohen's kappa of several judges' yes or no on the same items, each against the highest.

    The differences are paired: queries are left out one after the other (the jackknife), and the mean of the pseudo-values
    q d - (q - 1) d(without one) has the interval of any mean over queries.

    Args:
        judges: 1 or 0 by each judge for each item, shape (judges, n).
        people: 1 or 0 by people, shape (n,).
        queries: Query of each item, shape (n,).
        weights: Weight of each item, shape (n,); None = 1 each.
        baseline: The judge that the others are compared with; None = that of the highest kappa.
    """
    values, truth = np.asarray(judges, float), np.asarray(people, float)
    codes = cluster_codes(queries)
    heavy = np.ones(len(truth)) if weights is None else np.asarray(weights, float)
    n = int(codes.max(initial=-1)) + 1
    # Per judge and query the weights of (yes, yes), of the judge's yes, of people's yes, and of all.
    columns = (values * truth, values, np.broadcast_to(truth, values.shape), np.ones_like(values))
    tables = np.array([[np.bincount(codes, row * heavy, n) for row in table] for table in columns])
    whole = tables.sum(axis=2)
    kappas = _binary_kappa(whole)
    if np.isnan(kappas).all() or n < 2:
        return [KappaDifference(None if np.isnan(kappa) else float(kappa)) for kappa in kappas]
    best = int(np.nanargmax(kappas)) if baseline is None else baseline
    without = _binary_kappa(whole[:, :, None] - tables)
    pseudo = n * kappas[:, None] - (n - 1) * without
    rows: list[KappaDifference] = []
    for number, kappa in enumerate(kappas.tolist()):
        change = pseudo[number] - pseudo[best]
        if number == best or not np.isfinite(change).all():
            rows.append(KappaDifference(None if np.isnan(kappa) else kappa))
            continue
        value = paired_difference(np.zeros(n), change, value_range=(0.0, float(np.abs(change).max()) or 1.0))
        rows.append(KappaDifference(kappa, kappa - float(kappas[best]), value.interval.ends, value.p))
    return rows


def _binary_kappa(table: Floats) -> Floats:
    """Return kappa from the weights of (yes, yes), of the judge's yes, of people's yes and of all; nan if either never varies."""
    both, judge, people, total = table / np.where(table[3] > 0, table[3], np.nan)
    equal, chance = 1 - judge - people + 2 * both, judge * people + (total - judge) * (total - people)
    return np.asarray(
        np.divide(equal - chance, 1 - chance, out=np.full_like(chance, np.nan), where=chance < 1), float
    )


def krippendorff_alpha(ratings: ArrayLike) -> float | None:
    """Return Krippendorff's alpha for ordinal grades of any number of raters, some of them missing.

    1 - observed / expected disagreement over the coincidences of grades within items, with the ordinal distance
    (sum of the counts of the grades from c to k, less half of those of c and k)^2 (Krippendorff 2011, "Computing
    Krippendorff's alpha-reliability"). At most 1, 0 = chance; None where only one grade occurs or no item has two.

    Args:
        ratings: Grade of each rater for each item, shape (raters, items); nan = none.
    """
    table = np.asarray(ratings, float)
    names = np.unique(table[~np.isnan(table)])
    counts = np.stack([(table == name).sum(axis=0) for name in names]) if len(names) else np.zeros((0, 1))
    raters = counts.sum(axis=0)
    counts, raters = counts[:, raters > 1], raters[raters > 1]
    heavy = counts / np.maximum(raters - 1, 1)
    coincidences = heavy @ counts.T - np.diag(heavy.sum(axis=1))
    return _alpha(np.asarray(coincidences, float), 1.0)


def _alpha(coincidences: Floats, unit: float) -> float | None:
    """Return alpha of a symmetric table of coincidences; `unit` is the weight of one item."""
    table = coincidences * unit
    margin = table.sum(axis=1)
    n = float(margin.sum())
    upto = np.cumsum(margin)
    low = np.minimum.outer(np.arange(len(margin)), np.arange(len(margin)))
    between = np.abs(np.subtract.outer(upto, upto)) + margin[low] - np.add.outer(margin, margin) / 2
    cost = np.square(np.where(np.eye(len(margin), dtype=bool), 0.0, between))
    expected = float((cost * np.outer(margin, margin)).sum())
    return 1 - (n - 1) * float((cost * table).sum()) / expected if expected else None


def spread_between(values: ArrayLike, groups: ArrayLike) -> Spread:
    """Return the spread of a mean between groups (queries, systems), beyond what the variation within them explains.

    One-way analysis of variance: deviation^2 = (mean square between - within) / n0, not below 0, with n0 the groups'
    size corrected for inequality (Searle, Casella and McCulloch 1992, section 3.6). Where no group has two values all
    of the spread counts as between.

    Args:
        values: One value per item, shape (n,), at least one.
        groups: Group of each item, shape (n,).
    """
    x = np.asarray(values, float)
    codes = cluster_codes(groups)
    sizes = np.bincount(codes)
    means = np.bincount(codes, x) / sizes
    count, n = len(sizes), len(x)
    deviation = 0.0
    if count > 1:
        between = float((sizes * np.square(means - x.mean())).sum()) / (count - 1)
        within = float(np.square(x - means[codes]).sum()) / (n - count) if n > count else 0.0
        typical = (n - float(np.square(sizes).sum()) / n) / (count - 1)
        deviation = sqrt(max(0.0, (between - within) / typical))
    return Spread(deviation, float(means.min()), float(means.max()))


def doubt_of_labels(labels: ArrayLike, judged: ArrayLike, queries: ArrayLike) -> Floats:
    """Return the probability that each yes or no is wrong, from judges' grades and the other labels of the query.

    Logistic regression of the label on the grades and the query, with a ridge penalty of 1 on every weight (Hoerl and
    Kennard 1970): each grade of each judge has a weight, so that a judge is as sure as its grades have been right, and each query
    has one, since a label that is rare in its query is more in doubt. With f the fitted probability of a yes, a yes is
    in doubt by 1 - f, a no by f.

    Args:
        labels: 1 or 0, shape (n,); nan where there is none: it counts as a no, and nothing is fitted to it.
        judged: Grades, shape (judges, n); nan where a judge has none.
        queries: Query of each, shape (n,).
    """
    y, grades = np.asarray(labels, float), np.atleast_2d(np.asarray(judged, float))
    columns = [value == grade for value in grades for grade in np.unique(value[~np.isnan(value)])]
    x = np.column_stack([np.ones(len(y)), *columns]).astype(float)
    _, query = np.unique(np.asarray(queries), return_inverse=True)
    labelled = ~np.isnan(y)
    weights, own = np.zeros(x.shape[1]), np.zeros(int(query.max(initial=-1)) + 1)
    for _ in range(_NEWTON):
        f = 1 / (1 + np.exp(-(x @ weights + own[query])))
        spread, off = np.where(labelled, f * (1 - f), 0.0), np.where(labelled, y - f, 0.0)
        slope, slopes = x.T @ off - weights, np.bincount(query, off, len(own)) - own
        scale = 1 + np.bincount(query, spread, len(own))
        # Newton's step; each query has one weight of its own, so its part of the matrix is eliminated first.
        cross = np.stack([np.bincount(query, spread * column, len(own)) for column in x.T])
        matrix = x.T @ (spread[:, None] * x) + np.eye(x.shape[1]) - (cross / scale) @ cross.T
        step = np.linalg.solve(matrix, slope - (cross / scale) @ slopes)
        weights, own = weights + step, own + (slopes - cross.T @ step) / scale
        if float(np.abs(step).max()) < 1e-9:
            break
    f = 1 / (1 + np.exp(-(x @ weights + own[query])))
    return np.asarray(np.where(y == 1, 1 - f, f), float)


FEWEST = 10
"""Verdicts below which nothing can be said of a judge."""
NARROW = 0.1
"""The largest shift of a mean that may remain possible where a judge is called unchanged."""


@dataclass(frozen=True, slots=True)
class ChangedVerdicts:
    """Comparison of stored verdicts with new ones.

    Attributes:
        shifts: The shift of each mean, with its interval.
        p_of_means: The smallest p-value of these shifts (Holm).
        p_of_flips: The p-value of the flips that a third answer confirms, against those that it takes back.
        changed: True where either shows a change, False where a large one is excluded, None where neither can be said.
    """

    shifts: Mapping[str, Interval]
    p_of_means: float
    p_of_flips: float
    changed: bool | None


def compare_answers(
    effects: Mapping[str, ArrayLike],
    answered: int,
    flips: int,
    confirmed: int,
    taken_back: int,
    largest: Mapping[str, float] | None = None,
) -> ChangedVerdicts:
    """Test whether a judge has changed, at level 1 - LEVEL.

    - Shifts of means: without a change, the effect of a new verdict on a mean is as often up as down, whatever the noise.
    - Flips: without a change, a third answer to a question whose first two differ equals either of these with the same
      probability, since the three are exchangeable. One-sided sign test.

    Each family of tests has half of the error rate (Bonferroni); among the means it is Holm's.

    Args:
        effects: By mean, the change of it that each new verdict makes, times the verdicts that there are, shape (answered,).
        answered: Verdicts that were answered again.
        flips: Those whose answer is another one.
        confirmed: Flips that a third answer confirms: it is the new one.
        taken_back: Flips that it takes back: it is the stored one.
        largest: By mean, the largest effect that a verdict may be expected to have; None = 1 for all.
    """
    ends = largest or {}
    shifts = (
        {name: _shift(np.asarray(values, float), ends.get(name, 1.0)) for name, values in effects.items()}
        if answered
        else {}
    )
    p_of_means = min(
        holm([shift.p if shift.p is not None else 1.0 for shift in shifts.values()]), default=1.0
    )
    m = confirmed + taken_back
    p_of_flips = sum(comb(m, k) for k in range(confirmed, m + 1)) / 2**m
    least = (1 - LEVEL) / 2
    changed: bool | None = None
    if answered >= FEWEST:
        if min(p_of_means, p_of_flips) <= least:
            changed = True
        elif not flips or all(_is_narrow(shift) for shift in shifts.values()):
            changed = False
    return ChangedVerdicts(shifts, p_of_means, p_of_flips, changed)


def _shift(effects: np.ndarray, largest: float) -> Interval:
    """Return the mean effect, limited to the largest expected or observed one."""
    end = max(largest, float(np.abs(effects).max(initial=0.0)))
    return mean_interval(effects, value_range=(-end, end), differences=True)


def _is_narrow(shift: Interval) -> bool:
    return shift.ends is not None and max(map(abs, shift.ends)) <= NARROW


def kappa_of(stored: Sequence[str], new: Sequence[str]) -> float | None:
    """Return Cohen's kappa of answers by name; None if all answers are the same."""
    number = {name: at for at, name in enumerate(dict.fromkeys([*stored, *new]))}
    return cohen_kappa(confusion([number[name] for name in stored], [number[name] for name in new]))
