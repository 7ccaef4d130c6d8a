"""Power: the smallest difference that a number of cases can detect, the cases needed, and how often a verdict would flip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf, sqrt

import numpy as np

from germane.statistics.distributions import normal_quantile, t_cdf, t_quantile
from germane.statistics.gaffke import lower_limit, probability_below
from germane.statistics.intervals import UPPER, Units, reach

POWER = 0.8
"""Probability with which what is called detectable would be detected, by a two-sided test at 1 - LEVEL."""
_MOST = 10**9
"""Units beyond which no number is named."""
_DRAWS, _MORE_DRAWS, _DRAWN_TO = 1000, 2500, 1000
"""Samples that power is counted over, those where it is near POWER, and units up to which it is counted."""
_NEAR = 0.05
"""Distance from POWER that counts as near: there the count decides how many units are named."""


@dataclass(frozen=True, slots=True)
class Pilot:
    """Paired differences from which is told what n independent units like these would show.

    With h(n) the distance from the mean to the lower limit of n units that are spread as these are around the true
    difference, s their standard deviation and T the distribution of Student's t with n - 1 degrees of freedom
    (after Bloom 1995, Evaluation Review 19):

        power to show a difference = T((difference - h(n)) / (s / sqrt(n)))
        power to pass a margin     = T((margin - h(n)) / (s / sqrt(n))),   where the true difference is 0

    Up to 1,000 units the power is counted over 1,000 samples of the pilot's own units instead, moved to the true difference;
    over 2,500 where it is near 80%.

    Attributes:
        units: The differences, a gain above 0.
        end: The largest difference possible; None = not known, and h(n) is that of Student's t.
    """

    units: Units
    end: float | None = 1.0

    @property
    def deviation(self) -> float:
        """Standard deviation of the units' contributions."""
        return self.units.deviation

    @property
    def varies(self) -> bool:
        """True if there is a spread: two units or more that are not equal."""
        return len(self.units.sums) > 1 and self.deviation > 1e-12

    def half_width(self, n: int, difference: float = 0.0) -> float:
        """h(n), the distance from the mean to the lower limit of n units whose true difference this is."""
        if self.end is None:
            return t_quantile(UPPER, n - 1) * self.deviation / sqrt(n)
        units, times = self.units, n / len(self.units.sums)
        sums = units.sums + (difference - units.mean) * units.sizes
        moved = np.abs(sums) / units.sizes
        largest = float(moved.max())
        if n <= _DRAWN_TO:  # of few units that are drawn from these, the largest on average
            largest = float(
                np.einsum("i,i->", np.sort(moved), np.diff(np.linspace(0, 1, len(moved) + 1) ** n))
            )
        low, _ = reach(largest, self.end)
        return difference - lower_limit(sums, units.sizes, low, 1 - UPPER, times)

    def about(self, difference: float) -> int:
        """Units that would have that power for a difference if their mean were normal and their spread known."""
        return ceil(
            min(
                _MOST / 2,
                ((normal_quantile(UPPER) + normal_quantile(POWER)) * self.deviation / difference) ** 2,
            )
        )

    def power(self, n: int, difference: float) -> float:
        """Probability that n units show a true difference above 0."""
        return self._above(n, difference, 0.0)

    def power_to_pass(self, n: int, margin: float) -> float:
        """Probability that the lower limit of n units is above minus the margin where there is no difference."""
        return self._above(n, 0.0, -margin)

    def _above(self, n: int, difference: float, limit: float) -> float:
        """Probability that the lower limit of n units of this true difference is above `limit`."""
        if n < 2:
            return 0.0
        if self.end is None or n > _DRAWN_TO:
            half = self.half_width(n, difference)
            return t_cdf((difference - limit - half) * sqrt(n) / self.deviation, n - 1)
        units, end = self.units, self.end
        rng = np.random.default_rng(0)
        moved, shift = units.sums / units.sizes, difference - units.mean
        above = 0
        for drawn in range(1, _MORE_DRAWS + 1):
            rows = rng.integers(0, len(moved), n)
            values, sizes = moved[rows], units.sizes[rows]
            values = values + shift
            low, _ = reach(float(np.abs(values).max()), end)
            above += probability_below(values * sizes, sizes, low, limit) < 1 - UPPER
            if drawn == _DRAWS and abs(above / drawn - POWER) > _NEAR:
                break
        return above / drawn

    def detectable(self, n: int) -> float:
        """Smallest true difference that n units show with probability POWER; infinite for one unit."""
        if n < 2:
            return inf
        result = 0.0
        for _ in range(3 if n <= _DRAWN_TO else 1):  # h(n) depends little on the difference
            result = self.half_width(n, result) + t_quantile(POWER, n - 1) * self.deviation / sqrt(n)
        return result


def smallest(power: Callable[[int], float], about: int = 2) -> int | None:
    """Smallest number of units from which a rising power is at least POWER; None = no number that could be had."""
    low, high = 1, max(2, about)
    while not power(high) >= POWER:
        low, high = high, high * 2
        if high > _MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high


def flip_of_mean(mean: float, error: float, n: int, threshold: float) -> float:
    """Probability that the mean over as many new cases falls on the other side of the threshold.

    The new mean minus the observed one has the variance of both, 2 s^2 / n: T(-|mean - threshold| / (s sqrt(2 / n)))
    with n - 1 degrees of freedom, at most 1/2 (the prediction interval of a mean, Hahn and Meeker 1991, chapter 4).
    0 where all units are equal.

    Args:
        mean: The mean over n units, 2 or more.
        error: Its standard error.
        n: Units.
        threshold: The limit that the mean is compared with.
    """
    return t_cdf(-abs(mean - threshold) / (error * sqrt(2)), n - 1) if error else 0.0
