"""How often intervals of a mean hold the true mean, and how wide they are: `python -m benchmarks coverage`.

Samples are drawn from distributions whose mean is known. Beside the interval that germane chooses stand Student's t,
mean -+ t s / sqrt(n), and the percentile bootstrap (1,000 resamples), both of cases as if these were independent.
Nominal coverage is 95%. The last column is the method germane chose most often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from germane.statistics.distributions import t_quantile
from germane.statistics.intervals import mean_interval

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]
TRUTH = 2_000_000
"""Draws from which a mean without a formula is taken."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A distribution of scores (or differences), the sizes of samples from it, and how cases depend."""

    name: str
    draw: Draw
    sizes: tuple[int, ...]
    limits: tuple[float, float] = (0.0, 1.0)
    differences: bool = False
    per_cluster: int = 1
    incomplete: float = 0.0


def mixture(zeros: float, rest: Draw) -> Draw:
    """Zero with the probability given, else drawn from the rest."""
    return lambda rng, n: np.where(rng.random(n) < zeros, 0.0, rest(rng, n))


def clipped(center: float, spread: float) -> Draw:
    """Normal, cut to -1 .. 1."""
    return lambda rng, n: np.clip(rng.normal(center, spread, n), -1, 1)


PAIRS = {"limits": (-1.0, 1.0), "differences": True}
SETTINGS = (
    Setting("nDCG-like, Beta(2, 1.2)", lambda rng, n: rng.beta(2, 1.2, n), (5, 10, 30, 60, 200)),
    Setting("skewed, Beta(.3, 3)", lambda rng, n: rng.beta(0.3, 3, n), (10, 30, 60, 200)),
    Setting("90% zero, else uniform", mixture(0.9, lambda rng, n: rng.random(n)), (10, 30, 60, 200)),
    Setting("thirds, P@3", lambda rng, n: rng.binomial(3, 0.6, n) / 3, (5, 10, 30, 60)),
    Setting("0 or 1, p = .1", lambda rng, n: (rng.random(n) < 0.1).astype(float), (5, 10, 50, 200)),
    Setting("clusters of 1-5, Beta(2, 2)", lambda rng, n: rng.beta(2, 2, n), (8, 20, 60, 150), per_cluster=5),
    Setting("10% incomplete, Beta(2, 1.2)", lambda rng, n: rng.beta(2, 1.2, n), (10, 60, 200), incomplete=0.1),
    Setting("difference, normal", clipped(0.02, 0.1), (5, 9, 10, 15, 30, 60), **PAIRS),  # type: ignore[arg-type]
    Setting("difference, clusters of 1-5", clipped(0.02, 0.1), (10, 20, 60), per_cluster=5, **PAIRS),  # type: ignore[arg-type]
    Setting("difference, heavy tails", lambda rng, n: np.clip(0.05 * rng.standard_t(3, n), -1, 1), (10, 15, 30, 60), **PAIRS),  # type: ignore[arg-type]
    Setting("difference, 85% ties", mixture(0.85, clipped(0.1, 0.3)), (10, 30, 60, 200), **PAIRS),  # type: ignore[arg-type]
    Setting("difference, 90% ties, +-.5", lambda rng, n: rng.choice([-.5, 0, .5], n, p=[.05, .9, .05]), (10, 30, 60, 200), **PAIRS),  # type: ignore[arg-type]
    Setting("difference, 60% ties", mixture(0.6, clipped(0.1, 0.3)), (10, 15, 30, 60), **PAIRS),  # type: ignore[arg-type]
    Setting("difference, skewed", lambda rng, n: np.clip(rng.exponential(0.1, n) - 0.1, -1, 1), (10, 15, 30, 60, 200), **PAIRS),  # type: ignore[arg-type]
)  # fmt: skip


def main(*, quick: bool = False, peers: tuple[str, ...] = ()) -> None:
    """Print one row per distribution and size."""
    del peers
    rounds = 200 if quick else 2000
    print(f"== coverage of 95% intervals, {rounds:,} samples each; width in brackets ==")
    print(f"{'':30}{'n':>5}  {'germane':>14}{'Student t':>15}{'bootstrap':>15}   method")
    worst: tuple[float, str] = (1.0, "")
    for setting in SETTINGS:
        for n in setting.sizes:
            coverage = show(setting, n, rounds)
            worst = min(worst, (coverage, f"{setting.name}, n = {n}"))
    print(f"lowest coverage of germane: {worst[0]:.3f} ({worst[1]})", flush=True)


def show(setting: Setting, n: int, rounds: int) -> float:
    """Measure and print one row; the coverage of germane's interval."""
    rng = np.random.default_rng(7)
    truth = float(setting.draw(rng, TRUTH).mean())
    held, width = np.zeros(3), np.zeros(3)
    chosen = Counter[str]()
    for _ in range(rounds):
        x, clusters = sample(setting, rng, n)
        values, bounds = x, None
        if setting.incomplete:
            values = np.where(rng.random(len(x)) < setting.incomplete, np.nan, x)
            bounds = (np.zeros(len(x)), np.ones(len(x)))
        found = mean_interval(
            values,
            clusters=clusters,
            bounds=bounds,
            value_range=setting.limits,
            differences=setting.differences,
        )
        chosen[found.method] += 1
        complete = values[~np.isnan(values)]
        intervals = (found.ends or (np.nan, np.nan), student(complete), bootstrap(complete, rng))
        for place, (low, high) in enumerate(intervals):
            held[place] += low <= truth <= high
            width[place] += high - low
    cells = "".join(f"{a / rounds:8.3f} ({b / rounds:.3f})"[-15:] for a, b in zip(held, width, strict=True))
    print(f"{setting.name:30}{n:5} {cells}   {chosen.most_common(1)[0][0]}", flush=True)
    return float(held[0] / rounds)


def sample(setting: Setting, rng: np.random.Generator, n: int) -> tuple[Floats, NDArray[np.intp] | None]:
    """So many cases, or n clusters whose cases share most of their value (each cluster's mean is the draw)."""
    if setting.per_cluster == 1:
        return setting.draw(rng, n), None
    clusters = np.repeat(np.arange(n), rng.integers(1, setting.per_cluster + 1, n))
    shared = setting.draw(rng, n)[clusters]
    if setting.differences:
        return np.clip(shared + rng.normal(0, 0.05, len(shared)), -1, 1), clusters
    return (rng.random(len(clusters)) < shared) * 0.3 + shared * 0.7, clusters


def student(x: Floats) -> tuple[float, float]:
    """Student's t."""
    half = t_quantile(0.975, len(x) - 1) * float(x.std(ddof=1)) / len(x) ** 0.5 if len(x) > 1 else np.inf
    return float(x.mean()) - half, float(x.mean()) + half


def bootstrap(x: Floats, rng: np.random.Generator) -> tuple[float, float]:
    """The percentile bootstrap: the middle 95% of 1,000 resampled means."""
    low, high = np.quantile(x[rng.integers(0, len(x), (1000, len(x)))].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


if __name__ == "__main__":
    main()
