"""What a number of cases can show: smallest detectable difference, cases needed, and how often a verdict would flip."""

from __future__ import annotations

from math import ceil, inf, isfinite, sqrt

from germane.statistics.distributions import normal_quantile, t_cdf, t_quantile
from germane.statistics.intervals import UPPER

POWER = 0.8
"""Probability with which what is called detectable would be detected, by a two-sided test at 1 - LEVEL."""


def detectable_difference(deviation: float, n: int) -> float:
    """Smallest true difference that n units detect with probability POWER.

    (t(UPPER) + t(POWER)) * deviation / sqrt(n), both quantiles with n - 1 degrees of freedom (Bloom 1995, Evaluation
    Review 19); infinite for one unit.

    Args:
        deviation: Standard deviation of the paired differences of the units.
        n: Number of units.
    """
    if n < 2:
        return inf
    return (t_quantile(UPPER, n - 1) + t_quantile(POWER, n - 1)) * deviation / sqrt(n)


def power_of(deviation: float, n: int, difference: float) -> float:
    """Probability that n units detect a true difference: the inverse of the above."""
    if n < 2 or not deviation:
        return 0.0 if n < 2 or not difference else 1.0
    return t_cdf(abs(difference) * sqrt(n) / deviation - t_quantile(UPPER, n - 1), n - 1)


def units_needed(deviation: float, difference: float) -> int | None:
    """Smallest number of units whose detectable difference is at most `difference`; None = no number is enough.

    Args:
        deviation: Standard deviation of the paired differences of the units.
        difference: True difference to detect; its sign does not matter.
    """
    if not difference or not isfinite(difference):
        return None
    guess = ((normal_quantile(UPPER) + normal_quantile(POWER)) * deviation / difference) ** 2
    if guess > 1e12:
        return None
    n = max(2, ceil(guess))  # Student's quantiles are above the normal ones: never too many
    while detectable_difference(deviation, n) > abs(difference):
        n += max(1, n // 1000)
    return n


def flip_of_mean(mean: float, error: float, n: int, threshold: float) -> float:
    """Probability that the mean over as many new cases falls on the other side of the threshold.

    The new mean minus the observed one has the variance of both, 2 s^2 / n: T(-|mean - threshold| / (s sqrt(2 / n)))
    with n - 1 degrees of freedom, at most 1/2 (the prediction interval of a mean, Hahn and Meeker 1991, chapter 4).
    0 where all units are equal.

    Args:
        mean: The mean over n units, 2 or more.
        error: Its standard error.
        n: Units.
        threshold: What the mean is held against.
    """
    return t_cdf(-abs(mean - threshold) / (error * sqrt(2)), n - 1) if error else 0.0
