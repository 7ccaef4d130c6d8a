"""Power: the smallest difference that a number of cases can detect, and how often a verdict would flip."""

from __future__ import annotations

from math import sqrt

import numpy as np

from germane.statistics.distributions import t_quantile
from germane.statistics.gaffke import lower_limit
from germane.statistics.intervals import UPPER, Units, reach

POWER = 0.8
"""Probability with which what is called detectable would be detected, by a two-sided test at 1 - LEVEL."""
_FEW = 1000
"""Units up to which the largest difference among as many new ones is the one expected, and not that of these."""


def detectable(units: Units, end: float | None = 1.0) -> float | None:
    """Return the smallest true difference that units like these show with probability POWER; None if nothing varies.

    With h(d) the distance from the mean to the lower limit of n units that are spread as these are around the true
    difference d, s their standard deviation and t the quantile of Student's t with n - 1 degrees of freedom
    (after Bloom 1995, Evaluation Review 19):

        d = h(d) + t(POWER) s / sqrt(n)

    Args:
        units: The differences, a gain above 0.
        end: The largest difference possible; None = not known, and h(d) is that of Student's t.
    """
    n = len(units.sums)
    if n < 2 or units.deviation <= 1e-12:
        return None
    deviation, result = units.deviation, 0.0
    for _ in range(3 if n <= _FEW else 1):  # h(d) depends little on d
        half = (
            t_quantile(UPPER, n - 1) * deviation / sqrt(n) if end is None else _half_width(units, end, result)
        )
        result = half + t_quantile(POWER, n - 1) * deviation / sqrt(n)
    return result


def _half_width(units: Units, end: float, difference: float) -> float:
    """Return h(d), the distance from the mean to the lower limit for units with this true difference."""
    n = len(units.sums)
    sums = units.sums + (difference - units.mean) * units.sizes
    moved = np.abs(sums) / units.sizes
    largest = float(moved.max())
    if n <= _FEW:  # of units that are drawn from these, the largest on average
        largest = float(np.einsum("i,i->", np.sort(moved), np.diff(np.linspace(0, 1, n + 1) ** n)))
    return difference - lower_limit(sums, units.sizes, reach(largest, end)[0], 1 - UPPER)
