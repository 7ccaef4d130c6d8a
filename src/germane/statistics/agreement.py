"""Agreement of a judge with people, and with itself when it is asked again.

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
from germane.statistics.comparison import holm
from germane.statistics.intervals import LEVEL, Interval, IntervalEnds, cluster_codes, mean_interval

Floats = NDArray[np.float64]


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


class JudgeAgreement(Line, kw_only=True):
    """The agreement of a judge with people on `n` items of `queries` queries; in an audit of one `kind` of verdict and `scale`.

    `raw` is the share of equal grades, the kappas and `alpha_ordinal` the share beyond chance, null if only one grade occurs.
    `base_rate` is the share that always giving people's commonest grade would reach; `illegal` counts the judge's grades
    outside the scale.
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
    """Return the agreement of a judge's grades with people's on the same items.

    Grades outside the scale are counted in `illegal` and are grades of their own in everything else: nothing is
    clipped. The bias's interval is Student's t over queries as clusters; where all errors are equal, Gaffke's.

    Args:
        judge: The judge's grade of each item, shape (n,).
        people: People's grade of each item, shape (n,).
        scale: The legal grades, ascending.
        queries: Query of each item, shape (n,).
    """
    values, truth = np.asarray(judge, float), np.asarray(people, float)
    pairs = confusion(judge, people, scale=scale)
    table = pairs.table
    total = float(table.sum())
    names, counts = np.unique(values[~np.isin(values, list(scale))], return_counts=True)
    error = values - truth
    reach = max(scale) - min(scale)
    limits = (-reach, reach) if len(error) == 0 or np.abs(error).max() <= reach else None
    bias = mean_interval(error, clusters=queries)
    if bias.ends is None and len(error):  # no spread to go by: the range alone bounds the mean
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
    """Return the table of people's grades (rows) by the judge's (columns), over the scale and other grades that occur.

    Args:
        judge: The judge's grades, shape (n,).
        people: People's grades, shape (n,).
        scale: Grades that have a row and a column whether they occur or not.
    """
    values, truth = np.asarray(judge, float), np.asarray(people, float)
    names = np.unique(np.concatenate([values, truth, np.asarray(scale, float)]))
    size = len(names)
    positions = np.searchsorted(names, truth) * size + np.searchsorted(names, values)
    table = np.bincount(positions, minlength=size * size).reshape(size, size).astype(float)
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


def _alpha(table: Floats) -> float | None:
    """Return Krippendorff's alpha for ordinal grades, from a symmetric table of coincidences.

    1 - observed / expected disagreement, with the ordinal distance (sum of the counts of the grades from c to k, less half of
    those of c and k)^2 (Krippendorff 2011, "Computing Krippendorff's alpha-reliability"). At most 1, 0 = chance; None where
    only one grade occurs.
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
    """Return the probability that each yes or no is wrong, from judges' grades and the other labels of the query.

    With p(q) the share of yes in the query, p(j, g) that among the labels to which judge j gave the grade g, and p that of
    all, each with one yes and one no added, the log-odds of a yes over J judges are

        logit p(q) + sum_j (logit p(j, g) - logit p) / sqrt(J)

    so that a judge is as sure as its grades have been right; the root allows for judges that err alike. With f the probability
    of a yes, a yes is in doubt by 1 - f, a no by f.

    Args:
        labels: 1 or 0, shape (n,); nan where there is none: it counts as a no, and the shares are without it.
        judged: Grades, shape (judges, n); nan where a judge has none.
        queries: Query of each, shape (n,).
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
