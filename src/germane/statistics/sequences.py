"""Confidence sequences: what may be said of a mean at any time, while more and more units are looked at.

An interval of a fixed number of units covers the mean in 95% of samples. Whoever looks at it again and again, and stops as
soon as it excludes a limit, is wrong far more often. Here a gambler bets on one unit after the other, in a random order,
that the mean is above m. With x_i the units' values within 0 and 1 the capital is

    K_t(m) = prod_{i <= t} (1 + b_i (x_i - m)),   0 <= b_i <= 1 / (2 m),   b_i chosen from the units before i

which does not grow on average where the mean is m or less, so that P(K_t(m) >= 1 / alpha for any t) <= alpha (Ville 1939).
That the mean is above m is decided once the capital has reached 2 / alpha, and its mirror image decides that it is below:
both together err with probability alpha at most, whenever one stops. The bets are those that would have let the capital grow
fastest up to now (Waudby-Smith and Ramdas 2024, Journal of the Royal Statistical Society B 86, aGRAPA):

    b_i = g / (v + g^2), cut to its range,   g = mean of the units before i, less m;   v their variance

where one unit at 1/2 with a variance of 1/4 stands before the first.
"""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import NDArray

from germane.statistics.intervals import LEVEL, Units

Floats = NDArray[np.float64]

_MOST = 0.5
"""Share of the capital that may be lost on one unit."""
_STEPS = 40


def log_capital(units: Units, limit: float, span: tuple[float, float], largest: float) -> float:
    """The logarithm of the largest capital that betting on a mean above `limit` has had.

    Args:
        units: Sums and sizes of the units, in a random order.
        limit: What the mean over cases may be above.
        span: Smallest and largest value of a case.
        largest: The largest size that any unit could have had; the bets are on (sum - size * limit) / largest.
    """
    low, high = span
    m = (limit - low) / (high - low)
    if m < 0:
        return np.inf
    gain = (units.sums - units.sizes * limit) / ((high - low) * largest)
    count, total = np.arange(len(gain)) + 1.0, 0.5 - m + np.cumsum(gain)
    mean = np.concatenate([[0.5 - m], total[:-1]]) / count  # of what stands before each unit, less m
    off = np.concatenate([[0.25], np.square(gain - total / (count + 1))[:-1]])
    bets = np.clip(mean / (np.cumsum(off) / count + np.square(mean)), 0.0, _MOST / m if m else np.inf)
    return float(np.cumsum(np.log1p(bets * gain)).max(initial=0.0))


def decided(below: Units, above: Units, limit: float, span: tuple[float, float], largest: float) -> int:
    """1 where the mean is above the limit for certain, -1 where it is below, 0 while neither is.

    `below` and `above` hold the smallest and the largest sum that each unit could have; else as `log_capital`.
    """
    enough = log(2 / (1 - LEVEL))
    if log_capital(below, limit, span, largest) >= enough:
        return 1
    return -1 if log_capital(above.negated, -limit, (-span[1], -span[0]), largest) >= enough else 0


def sequence_ends(
    below: Units, above: Units, span: tuple[float, float], largest: float
) -> tuple[float, float]:
    """The limits that the mean is neither above nor below for certain, from the smallest to the largest."""
    return _outermost(below, span, largest), -_outermost(above.negated, (-span[1], -span[0]), largest)


def _outermost(units: Units, span: tuple[float, float], largest: float) -> float:
    """The largest limit that the mean is above for certain, by bisection."""
    inside, outside = span
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        above = log_capital(units, middle, span, largest) >= log(2 / (1 - LEVEL))
        inside, outside = (middle, outside) if above else (inside, middle)
    return inside
