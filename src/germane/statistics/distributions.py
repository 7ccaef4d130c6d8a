"""Beta, Student's t and normal distribution functions and quantiles, in double precision, without scipy.

The incomplete beta function is evaluated by its continued fraction (Numerical Recipes, third edition, section
6.4); quantiles are found by Newton's method within a shrinking bracket. Tests compare all of them with scipy.
"""

from __future__ import annotations

from functools import lru_cache
from math import erfc, exp, inf, lgamma, log, log1p, pi, sqrt
from statistics import NormalDist

_TINY = 1e-300
_LARGE_DF = 1e5
"""The degrees of freedom above which the expansion around the normal quantile is exact to 1e-10."""

normal_quantile = NormalDist().inv_cdf
"""The quantile function of the standard normal distribution, for probabilities strictly between 0 and 1."""


def normal_cdf(z: float) -> float:
    """Return the probability that a standard normal variable is at most z."""
    return erfc(-z / sqrt(2)) / 2


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the probability that a Beta(a, b) variable is at most x (incomplete beta function I_x(a, b))."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = exp(a * log(x) + b * log1p(-x) + lgamma(a + b) - lgamma(a) - lgamma(b))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction in I_x(a, b), by Lentz's method in about sqrt(max(a, b)) steps."""
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > _TINY else _TINY)
    result = d
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 + term * d
            d = 1 / (d if abs(d) > _TINY else _TINY)
            c = 1 + term / c
            c = c if abs(c) > _TINY else _TINY
            result *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return result


@lru_cache(maxsize=4096)
def beta_quantile(p: float, a: float, b: float) -> float:
    """Return the p-quantile of a Beta(a, b) variable, for 0 <= p <= 1 and a, b > 0."""
    if p in {0, 1}:
        return float(p)
    low, high, x = 0.0, 1.0, a / (a + b)
    scale = lgamma(a + b) - lgamma(a) - lgamma(b)
    for _ in range(200):
        error = beta_cdf(x, a, b) - p
        low, high = (low, x) if error > 0 else (x, high)
        slope = exp((a - 1) * log(x) + (b - 1) * log1p(-x) + scale) if 0 < x < 1 else 0.0
        step = error / slope if slope > 0 else inf
        new = x - step if low < x - step < high else (low + high) / 2
        if abs(new - x) <= 1e-15 * x or high - low <= 1e-16 * high:
            return new
        x = new
    return x


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """Return the p-quantile of Student's t with `df` > 0 degrees of freedom, for 0 < p < 1.

    Newton's method starts from the normal quantile, expanded to the second order in 1 / df (Abramowitz and
    Stegun 26.7.5). Because the tail is convex, the iteration approaches the root from one side.
    """
    tail = min(p, 1 - p)
    z = -normal_quantile(tail)
    t = z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
    scale = lgamma((df + 1) / 2) - lgamma(df / 2) - log(df * pi) / 2
    for _ in range(100 if df <= _LARGE_DF and t > 0 else 0):
        if tail < 0.25:  # the smaller of the outer and the inner probability keeps more digits
            missed = beta_cdf(df / (df + t * t), df / 2, 0.5) / 2 - tail
        else:
            missed = 0.5 - tail - beta_cdf(t * t / (df + t * t), 0.5, df / 2) / 2
        step = missed / exp(scale - (df + 1) / 2 * log1p(t * t / df))
        t = max(t + step, t / 2)
        if abs(step) <= 1e-9 * t:  # the remaining relative error is about the square of this
            break
    return t if p > 0.5 else -t


def t_cdf(t: float, df: float) -> float:
    """Return the probability that a Student t variable with `df` degrees of freedom is at most t."""
    tail = beta_cdf(df / (df + t * t), df / 2, 0.5) / 2
    return 1 - tail if t > 0 else tail
