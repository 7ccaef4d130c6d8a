"""Gaffke's confidence limit of a mean within a range, solved without random draws.

A unit (a case, or a cluster of cases) has a sum s_i and a size w_i. To the n units one end of the range is added as a
pseudo-unit of mean size w. With G_i exponential(1) and G_0 gamma(1/2), all independent, the lower limit is the m for which

    P(sum_i G_i (s_i - w_i m) + G_0 w (end - m) <= 0) = tail

and the upper one its mirror image, with the other end of the range. With a_i = s_i - w_i m, k_i the gamma shapes and t
the root of sum k a / (1 - t a) = 0 the probability is Phi(r + log(u / r) / r), where

    r = sign(t) sqrt(2 sum k log(1 - t a)),    u = t sqrt(sum k (a / (1 - t a))^2)

(Lugannani and Rice 1980; Barndorff-Nielsen's r*). Gaffke 2005, Mathematical Methods of Statistics 14, gives the pseudo-unit
the shape 1, which for values of 0 and 1 is the limit of Clopper and Pearson; see also Learned-Miller and Thomas,
arXiv 1905.06208. The shape of 1/2 is narrower and was chosen by simulation (benchmarks/coverage.py).

Sums are taken by einsum: those of a BLAS depend in their last bits on its number of threads.
"""

from __future__ import annotations

from math import inf, isfinite, log, sqrt

import numpy as np
from numpy.typing import NDArray

from germane.statistics.distributions import normal_cdf, normal_quantile

Floats = NDArray[np.float64]

SHAPE = 0.5
"""The gamma shape of the pseudo-unit that is added at the end of the range."""
_MIDDLE = 1e-3
"""Within this many standard units of the middle, r* is replaced by its expansion (skewness / 6)."""


def lower_limit(sums: Floats, sizes: Floats, end: float, tail: float, times: float = 1.0) -> float:
    """Return the lower confidence limit of the units' mean, with error probability `tail`, below 1/2.

    `sums` and `sizes` (above 0), shape (n,), are those of the units, and `end` is the lowest possible sum /
    size. With `times`, each unit counts that often: the limit of a larger sample like this.
    """
    return _limit(*_with_end(sums, sizes, end, times), end, tail)


def upper_limit(sums: Floats, sizes: Floats, end: float, tail: float, times: float = 1.0) -> float:
    """Return the upper confidence limit of the units' mean; `end` is the highest possible sum / size."""
    return -_limit(*_with_end(sums, sizes, -end, times, sign=-1.0), -end, tail)


def _limit(s: Floats, sizes: Floats, k: Floats, end: float, tail: float) -> float:
    goal, total = normal_quantile(tail), _dot(k, sizes)
    w = sizes if (sizes != 1.0).any() else 1.0
    del sizes  # a million units are some eight arrays of 8 MB
    mean = _dot(k, s) / total
    off = s - w * mean
    spread = sqrt(_dot(k * off, off)) / total
    del off
    if spread < 1e-15:
        return mean
    low, high = end, mean
    x, m = mean, max(mean + goal * spread, end + 1e-3 * (mean - end))
    at_x, t = _signed_root(s - w * x, k)
    at_x -= goal
    for _ in range(60):
        value, t = _signed_root(s - w * m, k, t)
        value -= goal
        low, high = (m, high) if value < 0 else (low, m)
        if abs(value) < 1e-9 or high - low < 1e-13 * (mean - end):
            break
        new = m - value * (m - x) / (value - at_x) if isfinite(value) and value != at_x else inf
        x, at_x = m, value
        m = new if low < new < high else (low + high) / 2
    return m


def probability_below(sums: Floats, sizes: Floats, end: float, mean: float) -> float:
    """Return the one-sided p-value of a mean of at most `mean`: the `tail` whose lower limit is `mean`."""
    s, w, k = _with_end(sums, sizes, end)
    return normal_cdf(_signed_root(s - w * mean, k)[0])


def _with_end(
    sums: Floats, sizes: Floats, end: float, times: float = 1.0, *, sign: float = 1.0
) -> tuple[Floats, Floats, Floats]:
    """Return sums (times `sign`), sizes and gamma shapes of the units, then of a pseudo-unit at `end`."""
    size = float(np.einsum("i->", sizes)) / len(sizes)
    shapes, signed = np.full(len(sums) + 1, times), np.empty(len(sums) + 1)
    shapes[-1], signed[-1] = SHAPE, end * size
    np.multiply(sums, sign, out=signed[:-1])
    return signed, np.append(sizes, size), shapes


def _dot(first: Floats, other: Floats) -> float:
    return float(np.einsum("i,i->", first, other))


def _signed_root(a: Floats, k: Floats, t: float | None = None) -> tuple[float, float | None]:
    """Return (r*, root t): Phi(r*) is the probability that the sum of `a` with gamma(k) weights is <= 0."""
    least, most = float(a.min()), float(a.max())
    if least >= 0 or most <= 0:  # all on one side
        return (0.0 if least == most else -inf if least >= 0 else inf), None
    low, high, squares = 1 / least, 1 / most, _dot(k * a, a)
    if t is None or not low < t < high:
        t = -_dot(k, a) / squares
    close = 1e-3 / sqrt(squares)
    q, weighted = np.empty((2, len(a)))
    for _ in range(100):
        if not low < t < high:
            t = (low + high) / 2 if abs(low) < 1e300 else 0.0
        np.divide(a, np.subtract(1, np.multiply(t, a, out=q), out=q), out=q)
        slope, curve = _dot(k, q), _dot(np.multiply(k, q, out=weighted), q)
        low, high = (low, t) if slope > 0 else (t, high)
        t, old = t - slope / curve, t
        if abs(t - old) <= 1e-9 * (abs(t) + close):
            break
    u = t * sqrt(curve)
    if abs(u) < _MIDDLE:
        return _dot(k, np.power(a, 3, out=q)) / (3 * squares**1.5) + u, t
    r = sqrt(max(2 * _dot(k, np.log1p(np.multiply(-t, a, out=q), out=q)), 1e-300)) * (1 if t > 0 else -1)
    return r + log(u / r) / r, t
