"""The agreement of a judge with people, and with its own earlier verdicts when it is asked again.

New answers to the same questions show whether a judge has changed by more than its own noise. If it has not
changed, the stored answer and the new answers are exchangeable: any order of them is equally likely. Two
tests use this. They are valid for any amount of noise, and each uses half of the error rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, sqrt

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import ArrayLike

from germane.encoding import Line
from germane.statistics.intervals import LEVEL, Floats, Interval, IntervalEnds, cluster_codes, mean_interval
from germane.statistics.systems import holm


class Confusion(Line):
    """A table that counts each pair of grades: people's grades are the rows, the judge's grades the columns.

    Rows and columns are in the order of `grades`.
    """

    grades: list[float]
    people_by_judge: list[list[float]]

    @property
    def table(self) -> Floats:
        """The counts as an array, shape (grades, grades)."""
        return np.asarray(self.people_by_judge, float)


class Bias(Line, rename={"ends": "interval"}):
    """The mean of the judge's grade minus the person's grade, over all labelled items.

    `interval` is null if all differences are equal and their range is unknown.
    """

    mean: float | None
    ends: IntervalEnds | None


class JudgeAgreement(Line, kw_only=True):
    """The agreement of a judge with people on `n` items of `queries` queries.

    In an audit, `kind` and `scale` name the verdicts that were compared. `raw` is the proportion of items
    with equal grades. The kappas and `alpha_ordinal` measure agreement beyond chance; they are null if only
    one grade occurs. `base_rate` is the proportion of equal grades that a judge would reach by always giving
    people's commonest grade. `illegal` counts the judge's grades outside the scale, by grade.
    """

    kind: str | UnsetType = UNSET
    scale: str | UnsetType = UNSET
    n: int
    queries: int | None
    raw: float | None
    base_rate: float | None
    kappa: float | None
    kappa_quadratic: float | None
    alpha_ordinal: float | None
    confusion: Confusion
    bias: Bias
    illegal: dict[str, int]


def agreement(
    judge: ArrayLike,
    people: ArrayLike,
    *,
    scale: Sequence[float] = (0, 1, 2, 3),
    queries: ArrayLike | None = None,
) -> JudgeAgreement:
    """Return how well a judge's grades agree with people's grades of the same items, shape (n,).

    The judge's grades outside `scale` are counted in `illegal` and otherwise treated as further grades; they
    are not clipped. The interval of the bias is Student's t with the items of a query as a cluster. `queries`
    holds the query of each item; None means that the items are independent. If all errors are equal, the
    interval is Gaffke's.
    """
    values, truth = np.asarray(judge, float), np.asarray(people, float)
    pairs = confusion(judge, people, scale=scale)
    table = pairs.table
    total = float(table.sum())
    names, counts = np.unique(values[~np.isin(values, list(scale))], return_counts=True)
    error = values - truth
    bias = mean_interval(error, clusters=queries)
    if bias.ends is None and len(error):  # no spread to go by: the range alone bounds the mean
        reach = max(scale) - min(scale)
        limits = (-reach, reach) if np.abs(error).max() <= reach else None
        bias = mean_interval(error, clusters=queries, value_range=limits)
    return JudgeAgreement(
        n=len(error),
        queries=None if queries is None else len(np.unique(np.asarray(queries))),
        raw=float(np.trace(table)) / total if total else None,
        base_rate=float(table.sum(axis=1).max()) / total if total else None,
        kappa=cohen_kappa(pairs),
        kappa_quadratic=cohen_kappa(pairs, quadratic=True),
        alpha_ordinal=_alpha(table + table.T),
        confusion=pairs,
        bias=Bias(bias.mean, bias.ends),
        illegal={f"{name:g}": int(count) for name, count in zip(names, counts, strict=True)},
    )


def confusion(judge: ArrayLike, people: ArrayLike, *, scale: Sequence[float] = ()) -> Confusion:
    """Return the counts of each pair of a person's grade (rows) and a judge's grade (columns) of n items.

    A grade of `scale` gets a row and a column even if it does not occur.
    """
    values, truth = np.asarray(judge, float), np.asarray(people, float)
    names = np.unique(np.concatenate([values, truth, np.asarray(scale, float)]))
    size = len(names)
    positions = np.searchsorted(names, truth) * size + np.searchsorted(names, values)
    table = np.bincount(positions, minlength=size * size).reshape(size, size).astype(float)
    return Confusion(names.tolist(), table.tolist())


def cohen_kappa(pairs: Confusion, *, quadratic: bool = False) -> float | None:
    """Return Cohen's kappa: the agreement beyond chance, given how often people and judge give each grade.

    kappa = 1 - sum w_ij o_ij / sum w_ij e_ij, where o are the observed counts, e the counts expected from the
    margins, and w_ij is 1 for i != j, or with `quadratic` the squared distance of the grades (Cohen 1960;
    1968). The maximum is 1; agreement by chance gives 0. Returns None if only one grade occurs.
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


def _alpha(table: Floats) -> float | None:
    """Return Krippendorff's alpha for ordinal grades, from a symmetric table of coincidences.

    alpha = 1 - observed / expected disagreement. The distance of grades c and k is (n_c + ... + n_k - (n_c +
    n_k) / 2)^2, where n_g is the count of grade g (Krippendorff 2011, "Computing Krippendorff's
    alpha-reliability"). The maximum is 1; agreement by chance gives 0. Returns None if only one grade occurs.
    """
    margin = table.sum(axis=1)
    n = float(margin.sum())
    upto = np.cumsum(margin)
    low = np.minimum.outer(np.arange(len(margin)), np.arange(len(margin)))
    between = np.abs(np.subtract.outer(upto, upto)) + margin[low] - np.add.outer(margin, margin) / 2
    cost = np.square(np.where(np.eye(len(margin), dtype=bool), 0.0, between))
    expected = float((cost * np.outer(margin, margin)).sum())
    return 1 - (n - 1) * float((cost * table).sum()) / expected if expected else None


def doubt_of_labels(labels: ArrayLike, judged: ArrayLike, queries: ArrayLike) -> Floats:
    """Return the probability that each yes/no label is wrong, from judges' grades and the query's labels.

    Let p(q) be the proportion of yes among the labels of query q, p(j, g) the proportion of yes among the
    items to which judge j gave grade g, and p the proportion among all labels. One yes and one no are added
    to the counts of each. The log-odds of a yes, given J judges, are

        logit p(q) + sum_j (logit p(j, g) - logit p) / sqrt(J)

    A judge therefore counts more the better its grades predict the labels. The square root allows for judges
    that make the same errors. If f is the probability of a yes, the label yes is wrong with probability
    1 - f, and the label no with probability f.

    Args:
        labels: 1 (yes), 0 (no) or nan (no label), shape (n,). A missing label is treated as a no, but is not
            counted in the proportions.
        judged: The grade that each judge gave each item, shape (judges, n); nan = the judge gave no grade.
        queries: The query of each item, shape (n,).
    """
    y, grades = np.asarray(labels, float), np.atleast_2d(np.asarray(judged, float))
    known = ~np.isnan(y)

    def log_odds(groups: ArrayLike) -> Floats:
        codes = cluster_codes(groups)
        yes, no = (np.bincount(codes, known & (y == value)) + 1.0 for value in (1, 0))
        return np.asarray(np.log(yes / no)[codes], float)

    overall = log_odds(np.zeros(len(y)))
    evidence = [np.where(np.isnan(row), 0.0, log_odds(row) - overall) for row in grades]
    f = 1 / (1 + np.exp(-(log_odds(queries) + sum(evidence) / sqrt(len(grades)))))
    return np.asarray(np.where(y == 1, 1 - f, f), float)


FEWEST = 10
"""The fewest new verdicts that can decide whether the judge has changed."""
NARROW = 0.1
"""A judge is called unchanged only if the interval of each mean's shift lies within -+ this."""


@dataclass(frozen=True, slots=True)
class ChangedVerdicts:
    """The comparison of a judge's stored verdicts with its new verdicts on the same questions.

    `shifts` holds the interval of the shift that the new verdicts cause in each mean. `p_of_means` is the
    smallest p-value of these shifts, adjusted by Holm's method. `p_of_flips` is the p-value of the test that
    third answers confirm changed verdicts more often than by chance. `changed` is True if a test shows a
    change, False if a large change can be excluded, and None otherwise.
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
    """Test whether a judge has changed, with error rate 1 - LEVEL; `answered` is the number of new verdicts.

    - Shifts of means: if the judge has not changed, a new verdict raises a mean as often as it lowers it.
      `effects` holds, for each mean, the change that each new verdict causes in the mean, times the number
      of verdicts. `largest` holds, for each mean, the largest effect to expect of one verdict (default 1).
    - Flips: if two answers to a question differ and the judge has not changed, a third answer equals either
      with the same probability, since the three are exchangeable. `flips` is the number of verdicts that
      changed. A third answer equals the new verdict in `confirmed` of them and the stored verdict in
      `taken_back`. A one-sided sign test compares these two numbers.

    Each of the two tests gets half of the error rate (Bonferroni). If there are several means, Holm's method
    divides their half among them.
    """
    shifts = {}
    for name, values in effects.items() if answered else ():
        effect, expected = np.asarray(values, float), (largest or {}).get(name, 1.0)
        end = max(expected, float(np.abs(effect).max(initial=0.0)))
        shifts[name] = mean_interval(effect, value_range=(-end, end), differences=True)
    p_of_means = min(holm([1.0 if shift.p is None else shift.p for shift in shifts.values()]), default=1.0)
    m = confirmed + taken_back
    p_of_flips = sum(comb(m, k) for k in range(confirmed, m + 1)) / 2**m
    changed: bool | None = None
    if answered >= FEWEST:
        ends = [shift.ends for shift in shifts.values()]
        if min(p_of_means, p_of_flips) <= (1 - LEVEL) / 2:
            changed = True
        elif not flips or all(pair and max(map(abs, pair)) <= NARROW for pair in ends):
            changed = False
    return ChangedVerdicts(shifts, p_of_means, p_of_flips, changed)


def kappa_of(stored: Sequence[str], new: Sequence[str]) -> float | None:
    """Return Cohen's kappa of a judge's stored and new answers (categories); None if all are equal."""
    number = {name: at for at, name in enumerate(dict.fromkeys([*stored, *new]))}
    return cohen_kappa(confusion([number[name] for name in stored], [number[name] for name in new]))
