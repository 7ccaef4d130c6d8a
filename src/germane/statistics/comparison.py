"""Paired comparison of two systems over the same cases: difference, interval, test, decision, and parts by cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, fsum, isfinite, sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from germane.encoding import Line
from germane.statistics.distributions import normal_cdf, normal_quantile
from germane.statistics.intervals import SAME, UPPER, Interval, IntervalEnds, group_cases, mean_interval
from germane.statistics.power import POWER, detectable

Floats = NDArray[np.float64]

EXACT, FLIPS, NORMAL_ABOVE = 13, 10_000, 20_000
"""Units up to which all flips are tried, random flips beyond, and units above which the normal approximation is used."""
TestName = Literal["interval", "sign-flip"]
"""The test that belongs to the interval, or the permutation test of symmetric differences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """One measure of two systems over the same cases; `difference` is B minus A, None if scores are incomplete.

    `p` is the two-sided p-value of no difference and `test` how it was computed. `detectable` is the smallest true difference that this many units show with a power of 0.8; None where differences do
    not vary.
    """

    n: int
    mean_a: float | None
    mean_b: float | None
    difference: float | None
    interval: Interval
    p: float | None
    test: str | None
    wins: int
    ties: int
    losses: int
    detectable: float | None


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on a change against a margin.

    `needed` = units with which a change of 0 would pass with probability 0.8; None = decided, or not to be said.
    """

    verdict: Literal["pass", "fail", "undecided"]
    margin: float
    needed: int | None = None


class DifferenceParts(Line, rename={"ends": "intervals"}):
    """The parts of a difference, which sum to it, over the `n` queries with known scores in both.

    `retrieval` is what other lists change, `labels` what other verdicts or gold on the same passages do. `intervals` are of the
    parts that are not 0 in every query: a part whose interval holds 0 is not a finding. `share` is the share of the labels in what
    moved, 0 to 1.
    """

    retrieval: float
    labels: float
    ends: dict[str, IntervalEnds]
    n: int
    share: float | None = None

    def __post_init__(self) -> None:
        total = abs(self.retrieval) + abs(self.labels)
        self.share = abs(self.labels) / total if total else None


def paired_difference(
    a: ArrayLike,
    b: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    bounds_a: tuple[ArrayLike, ArrayLike] | None = None,
    bounds_b: tuple[ArrayLike, ArrayLike] | None = None,
    value_range: tuple[float, float] | None = None,
    test: TestName = "interval",
    seed: int = 0,
) -> PairedDifference:
    """Return the mean of b - a over the same cases, with interval, test and power.

    The interval is `mean_interval` of the differences, whose range is twice as long as that of the scores. Its p-value is
    the smallest alpha at which the interval excludes 0, so that the two cannot disagree.

    Args:
        a: Scores of system A, one per case (its trials averaged), shape (n,); nan where incomplete.
        b: Scores of system B on the same cases in the same order, shape (n,).
        clusters: Identity of each case's cluster, shape (n,).
        bounds_a: Lower and upper bounds of A's scores, read where they or B's are nan.
        bounds_b: The same for B.
        value_range: Smallest and largest score possible; None = unknown.
        test: "interval" = the p-value that belongs to the interval; "sign-flip" = that of `sign_flip_test`.
        seed: Seed of the random flips of the latter.
    """
    first, second = np.asarray(a, float), np.asarray(b, float)
    change = second - first
    low_a, high_a = (np.asarray(side, float) for side in bounds_a or (first, first))
    low_b, high_b = (np.asarray(side, float) for side in bounds_b or (second, second))
    limits = None
    if value_range is not None:
        limits = (value_range[0] - value_range[1], value_range[1] - value_range[0])
    bounds = (low_b - high_a, high_b - low_a)
    interval = mean_interval(change, clusters=clusters, bounds=bounds, value_range=limits, differences=True)
    units = group_cases(change, clusters)
    complete = len(change) > 0 and not np.isnan(change).any()
    end = limits[1] if limits and isfinite(limits[1]) else None
    p: float | None = interval.p
    how: str | None = None if p is None else interval.method
    if test == "sign-flip":
        p, how = sign_flip_test(change, clusters=clusters, seed=seed) if complete else (None, None)
    return PairedDifference(
        n=len(change),
        mean_a=_mean(first),
        mean_b=_mean(second),
        difference=interval.mean,
        interval=interval,
        p=p,
        test=how,
        wins=int((change > SAME).sum()),
        ties=int((np.abs(change) <= SAME).sum()),
        losses=int((change < -SAME).sum()),
        detectable=detectable(units, end) if complete else None,
    )


def _mean(values: Floats) -> float | None:
    mean = float(values.mean()) if len(values) else np.nan
    return mean if isfinite(mean) else None


def sign_flip_test(
    differences: ArrayLike, *, clusters: ArrayLike | None = None, flips: int = FLIPS, seed: int = 0
) -> tuple[float, str]:
    """Return the p-value of paired differences by a permutation test of their signs (Fisher 1935, section 21), and its name.

    Exact up to 13 units: all 2^n sign patterns, p = share with |sum| at least the observed one. Beyond, R random
    patterns and p = (b + 1) / (R + 1), which is never 0 (Phipson and Smyth 2010). Above 20,000 units the normal
    approximation, p = 2 Phi(-|sum| / sqrt(sum of squares)). The cases of a cluster are flipped together. Sums are
    looked up, eight units at a time, in a table of the 256 sums that eight signs can give.

    Args:
        differences: One difference per case, shape (n,), at least one and none missing.
        clusters: Identity of each case's cluster, shape (n,).
        flips: Random patterns R.
        seed: Seed of the patterns; the same n, R and seed give the same ones for every measure.
    """
    d = group_cases(differences, clusters).sums
    n = len(d)
    # As signs flip, sum = total - 2 * (sum of what is flipped).
    total, most = float(d.sum()), float(np.abs(d).sum())
    observed = abs(total) - 1e-12 * most
    if n > NORMAL_ABOVE:
        spread = sqrt(float(np.einsum("i,i->", d, d)))
        p = 2 * normal_cdf(-abs(total) / spread) if spread else 1.0
        return p, "sign-flip, normal approximation"
    tables = _tables(d)
    if n <= EXACT:
        patterns = np.arange(2**n, dtype="<u2").view(np.uint8).reshape(-1, 2)[:, : len(tables)]
        sums = total - 2 * _looked_up(tables, patterns.T)
        return float((np.abs(sums) >= observed).mean()), "sign-flip, exact"
    rng = np.random.default_rng(seed)
    beyond = done = 0
    while done < flips:
        count = min(flips - done, max(1, 8_000_000 // len(tables)))
        drawn = np.frombuffer(rng.bytes(count * len(tables)), np.uint8).reshape(len(tables), count)
        sums = total - 2 * _looked_up(tables, drawn)
        beyond += int((np.abs(sums) >= observed).sum())
        done += count
    return (beyond + 1) / (flips + 1), f"sign-flip, {flips:,} random flips"


def _tables(d: Floats) -> Floats:
    """Return the sums of every subset of each eight differences, shape (ceil(n / 8), 256); bit j of an index selects the j-th."""
    padded = np.concatenate([d, np.zeros(-len(d) % 8)]).reshape(-1, 8)
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return np.asarray(np.einsum("ij,kj->ik", padded, bits.astype(float)), float)


def _looked_up(tables: Floats, patterns: NDArray[np.uint8]) -> Floats:
    """Return the sum of the entries that each pattern selects, shape (patterns,); `patterns` has a row per table."""
    sums = np.zeros(patterns.shape[1])
    for table, row in zip(tables, patterns, strict=True):
        sums += table[row]
    return sums


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted so that the chance of any false finding among them stays at alpha (Holm 1979).

    The i-th smallest of m becomes the largest of (m - j + 1) p_j over j <= i, at most 1; in the order given.
    """
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")
    raised = np.minimum(np.maximum.accumulate((len(p) - np.arange(len(p))) * p[order]), 1.0)
    result = np.empty(len(p))
    result[order] = raised
    return [float(value) for value in result]


def decide_change(interval: Interval, margin: float) -> Decision:
    """Decide if B is worse than A by `margin` or more: a test of non-inferiority on the interval of B - A.

    "pass" where the lower end is above -margin, "fail" where the upper end is below -margin, else "undecided". The
    number of units needed comes from the spread and the margin, never from the observed mean: with h the distance from
    the mean to the lower end and z normal quantiles it is n * (h (1 + z(0.8) / z(0.975)) / margin)^2.

    Args:
        interval: Interval of the difference B - A, higher is better.
        margin: Loss that is still acceptable; below 0: the gain that is wanted at least.
    """
    if interval.ends is None:
        return Decision("undecided", margin)
    low, high = interval.ends
    if low > -margin:
        return Decision("pass", margin)
    if high < -margin:
        return Decision("fail", margin)
    if interval.mean is None or margin <= 0:
        return Decision("undecided", margin)
    far = (interval.mean - low) * (1 + normal_quantile(POWER) / normal_quantile(UPPER))
    return Decision("undecided", margin, max(interval.n + 1, ceil(interval.n * (far / margin) ** 2)))


def split_difference(
    retrieval: ArrayLike,
    labels: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    value_range: tuple[float, float] | None = None,
) -> DifferenceParts:
    """Return the means of a difference's two parts, each with its paired interval.

    Args:
        retrieval: What other lists add to the difference of every case, shape (n,).
        labels: What other labels add, shape (n,); the sum of both is B - A.
        clusters: Identity of each case's cluster, shape (n,).
        value_range: Smallest and largest score possible; None = unknown.
    """
    parts = {"retrieval": np.asarray(retrieval, float), "labels": np.asarray(labels, float)}
    n, ends = len(parts["retrieval"]), dict[str, IntervalEnds]()
    for cause, amounts in parts.items():
        if amounts.any():
            by = paired_difference(np.zeros(n), amounts, clusters=clusters, value_range=value_range)
            ends |= {cause: by.interval.ends} if by.interval.ends else {}
    lists, others = (fsum(amounts.tolist()) / n for amounts in parts.values())
    return DifferenceParts(lists, others, ends, n)
