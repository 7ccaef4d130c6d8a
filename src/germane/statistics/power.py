"""What a number of cases can show: smallest detectable difference, cases needed, and how often a verdict would flip."""

from __future__ import annotations

from math import ceil, inf, isfinite, sqrt

from germane.errors import InputError
from germane.statistics.distributions import normal_quantile, t_cdf, t_quantile


def detectable_difference(deviation: float, n: int, alpha: float = 0.05, power: float = 0.8) -> float:
    """Smallest true difference that a two-sided test at `alpha` on n units detects with probability `power`.

    (t(1 - alpha/2) + t(power)) * deviation / sqrt(n), both quantiles with n - 1 degrees of freedom (Bloom 1995,
    Evaluation Review 19); infinite for one unit.

    Args:
        deviation: Standard deviation of the paired differences of the units.
        n: Number of units.
        alpha: Level of the test.
        power: Probability of detecting it.

    Raises:
        InputError: A number is outside its range.
    """
    _check(deviation, alpha, power)
    if n < 2:
        return inf
    return (t_quantile(1 - alpha / 2, n - 1) + t_quantile(power, n - 1)) * deviation / sqrt(n)


def power_of(deviation: float, n: int, difference: float, alpha: float = 0.05) -> float:
    """Probability that a two-sided test at `alpha` on n units detects a true difference: the inverse of the above."""
    _check(deviation, alpha, 0.5)
    if n < 2 or not deviation:
        return 0.0 if n < 2 or not difference else 1.0
    return t_cdf(abs(difference) * sqrt(n) / deviation - t_quantile(1 - alpha / 2, n - 1), n - 1)


def units_needed(deviation: float, difference: float, alpha: float = 0.05, power: float = 0.8) -> int | None:
    """Smallest number of units whose detectable difference is at most `difference`; None = no number is enough.

    Args:
        deviation: Standard deviation of the paired differences of the units.
        difference: True difference to detect; its sign does not matter.
        alpha: Level of the test.
        power: Probability of detecting it.

    Raises:
        InputError: A number is outside its range.
    """
    _check(deviation, alpha, power)
    if not difference or not isfinite(difference):
        return None
    guess = ((normal_quantile(1 - alpha / 2) + normal_quantile(power)) * deviation / difference) ** 2
    if guess > 1e12:
        return None
    n = max(2, ceil(guess))  # Student's quantiles are above the normal ones: never too many
    while detectable_difference(deviation, n, alpha, power) > abs(difference):
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


def _check(deviation: float, alpha: float, power: float) -> None:
    if not deviation >= 0:
        raise InputError(f"a standard deviation of {deviation}", fix="give 0 or more")
    if not (0 < alpha < 1 and 0 < power < 1):
        raise InputError(
            f"alpha {alpha}, power {power}", fix="give numbers above 0 and below 1, such as 0.05 and 0.8"
        )
