"""How often intervals hold the true mean, how wide they are, and the tests that belong to them: `python -m benchmarks coverage`.

Samples are drawn from distributions whose mean is known; the estimand is the mean of queries like these. Beside the
interval that germane chooses stands Student's t, mean -+ t s / sqrt(n), of cases as if these were independent. Nominal
coverage is 95%. A false pass is a gate on the lower end that passes although the true mean is its limit (nominal 2.5%). Cells that miss an aim are marked: means cover .94, differences of which 15% or more differ .95, and where
Student's t covers .94 the width is at most so many times its own (`AIMS`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from germane.statistics.distributions import t_cdf, t_quantile
from germane.statistics.intervals import Interval, mean_interval
from germane.statistics.systems import holm, paired_difference

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]
TRUTH = 2_000_000
"""Draws from which a mean without a formula is taken."""
MEAN_SIZES, PAIR_SIZES, CLUSTERS = (10, 30, 100, 300, 1000), (10, 25, 50, 200), (10, 20, 60, 150)
AIMS = {10: inf, 25: 1.5, 50: 1.35, 200: 1.2}
"""Largest width of differences as a multiple of Student's t, by n; of means it is 1.1."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A distribution of scores or differences, how cases depend, and whether its cells are held to the aims."""

    name: str
    draw: Draw
    sizes: tuple[int, ...] = MEAN_SIZES
    differences: bool = False
    per_cluster: int = 1
    incomplete: float = 0.0
    aimed: bool = True


def mixture(zeros: float, rest: Draw) -> Draw:
    """Zero with the probability given, else drawn from the rest."""
    return lambda rng, n: np.where(rng.random(n) < zeros, 0.0, rest(rng, n))


def clipped(center: float, spread: float) -> Draw:
    """Normal, cut to -1 .. 1."""
    return lambda rng, n: np.clip(rng.normal(center, spread, n), -1, 1)


def rare_loss(share: float, loss: float, spread: float) -> Draw:
    """A share loses so much, the rest moves a little."""
    return lambda rng, n: np.where(rng.random(n) < share, -loss, rng.normal(0, spread, n))


def pairs(name: str, draw: Draw, *, aimed: bool = True) -> Setting:
    """Differences of two systems."""
    return Setting(name, draw, PAIR_SIZES, differences=True, aimed=aimed)


SETTINGS = (
    Setting("nDCG-like, Beta(2, 1.2)", lambda rng, n: rng.beta(2, 1.2, n)),
    Setting("nDCG-like, 20% zero", mixture(0.2, lambda rng, n: rng.beta(3, 2, n))),
    Setting("uniform", lambda rng, n: rng.random(n)),
    Setting("skewed, Beta(.3, 3)", lambda rng, n: rng.beta(0.3, 3, n)),
    Setting("90% zero, else uniform", mixture(0.9, lambda rng, n: rng.random(n))),
    Setting("thirds, P@3", lambda rng, n: rng.binomial(3, 0.6, n) / 3),
    Setting("reciprocal rank", lambda rng, n: 1 / rng.geometric(0.4, n)),
    Setting("0 or 1, p = .1", lambda rng, n: (rng.random(n) < 0.1).astype(float)),
    Setting("clusters of 1-5, Beta(2, 2)", lambda rng, n: rng.beta(2, 2, n), CLUSTERS, per_cluster=5),
    Setting("10% incomplete, Beta(2, 1.2)", lambda rng, n: rng.beta(2, 1.2, n), (10, 60, 200), incomplete=0.1),
    pairs("difference, normal, sd .05", clipped(0.02, 0.05), aimed=False),
    pairs("difference, normal, sd .1", clipped(0.02, 0.1)),
    pairs("difference, normal, sd .2", clipped(0.02, 0.2)),
    pairs("difference, heavy tails", lambda rng, n: np.clip(0.05 * rng.standard_t(3, n), -1, 1)),
    pairs("difference, 85% ties", mixture(0.85, clipped(0.1, 0.3))),
    pairs("difference, 80% ties, +-.5", lambda rng, n: rng.choice([-0.5, 0, 0.5], n, p=[0.1, 0.8, 0.1])),
    pairs("difference, 60% ties", mixture(0.6, clipped(0.1, 0.3))),
    pairs("difference, 15% up by .3", lambda rng, n: 0.3 * (rng.random(n) < 0.15)),
    pairs("difference, skewed", lambda rng, n: np.clip(rng.exponential(0.1, n) - 0.1, -1, 1)),
    pairs("difference, 2% at -.9", rare_loss(0.02, 0.9, 0.05), aimed=False),
    pairs("difference, 5% at -.6", rare_loss(0.05, 0.6, 0.02), aimed=False),
    pairs("difference, 2% at -1", rare_loss(0.02, 1.0, 0.02), aimed=False),
)  # fmt: skip


def main(*, quick: bool = False, peers: tuple[str, ...] = ()) -> None:
    """Print one row per distribution and size, the worst cells, the error of families of tests, and the power."""
    del peers
    rounds = 200 if quick else 2000
    print(
        f"== coverage of 95% intervals, {rounds:,} samples each; width in brackets; of queries like these =="
    )
    print(f"{'':30}{'n':>5}  {'germane':>14}{'Student t':>15}  width / t  false passes")
    cells = [show(setting, n, rounds) for setting in SETTINGS for n in setting.sizes]
    for differences, what in ((False, "means"), (True, "differences")):
        mine = [one for one in cells if one.setting.differences == differences]
        low = min(mine, key=lambda one: one.coverage[0])
        wide = max((one for one in mine if one.held_to_width), key=lambda one: one.ratio)
        print(
            f"{what}: lowest coverage {low.coverage[0]:.3f} ({low.name}); widest where t covers {wide.ratio:.2f} t ({wide.name})"
        )
    print(f"cells that miss an aim: {', '.join(one.name for one in cells if one.misses) or 'none'}")
    print(f"samples where p and interval disagree: {sum(one.disagreeing for one in cells)}")
    show_families(rounds)
    show_power(rounds)


@dataclass(frozen=True, slots=True)
class Cell:
    """Coverage, mean width and false passes of germane and of Student's t, and samples whose p and interval disagree."""

    setting: Setting
    n: int
    coverage: tuple[float, float]
    width: tuple[float, float]
    passes: tuple[float, float]
    disagreeing: int

    @property
    def name(self) -> str:
        return f"{self.setting.name}, n = {self.n}"

    @property
    def ratio(self) -> float:
        return self.width[0] / self.width[1]

    @property
    def misses(self) -> bool:
        """Whether an aim is missed."""
        least, most = (0.95, AIMS.get(self.n, 1.2)) if self.setting.differences else (0.94, 1.1)
        wide = self.held_to_width and self.ratio > most
        return self.setting.aimed and (self.coverage[0] < least or wide)

    @property
    def held_to_width(self) -> bool:
        """Whether Student's t is right here; of clusters and incomplete scores it is not."""
        single = self.setting.per_cluster == 1 and not self.setting.incomplete
        return single and self.coverage[1] >= 0.94


def show(setting: Setting, n: int, rounds: int) -> Cell:
    """Measure and print one row."""
    rng = np.random.default_rng(7)
    truth = float(setting.draw(rng, TRUTH).mean())
    held, width, passes, disagreeing = np.zeros(2), np.zeros(2), np.zeros(2), 0
    for _ in range(rounds):
        x, clusters = sample(setting, rng, n)
        values, bounds = x, None
        if setting.incomplete:
            values = np.where(rng.random(len(x)) < setting.incomplete, np.nan, x)
            bounds = (np.zeros(len(x)), np.ones(len(x)))
        limits = (-1.0, 1.0) if setting.differences else (0.0, 1.0)
        found = mean_interval(
            values, clusters=clusters, bounds=bounds, value_range=limits, differences=setting.differences
        )
        disagreeing += disagrees(found)
        for place, (low, high) in enumerate(
            (found.ends or (np.nan, np.nan), student(values[~np.isnan(values)]))
        ):
            held[place] += low <= truth <= high
            width[place] += high - low
            passes[place] += low > truth
    rates = (tuple(sums / rounds) for sums in (held, width, passes))
    cell = Cell(setting, n, *rates, disagreeing)  # type: ignore[arg-type]
    shown = "".join(f"{a:8.3f} ({b:.3f})"[-15:] for a, b in zip(cell.coverage, cell.width, strict=True))
    passed = "".join(f"{share:7.3f}" for share in cell.passes)
    print(
        f"{setting.name:30}{n:5} {shown}  {cell.ratio:8.2f}{passed}{'  misses' if cell.misses else ''}",
        flush=True,
    )
    return cell


def disagrees(found: Interval) -> bool:
    """Whether p is below .05 and the interval holds 0, or the other way round."""
    if found.p is None or found.ends is None:
        return False
    return (found.p < 0.05) == (found.ends[0] <= 0 <= found.ends[1])


def sample(setting: Setting, rng: np.random.Generator, n: int) -> tuple[Floats, NDArray[np.intp] | None]:
    """So many cases, or n clusters whose cases share most of their value (each cluster's mean is the draw)."""
    if setting.per_cluster == 1:
        return setting.draw(rng, n), None
    clusters = np.repeat(np.arange(n), rng.integers(1, setting.per_cluster + 1, n))
    shared = setting.draw(rng, n)[clusters]
    return (rng.random(len(clusters)) < shared) * 0.3 + shared * 0.7, clusters


def student(x: Floats) -> tuple[float, float]:
    """Student's t."""
    half = t_quantile(0.975, len(x) - 1) * float(x.std(ddof=1)) / len(x) ** 0.5 if len(x) > 1 else np.inf
    return float(x.mean()) - half, float(x.mean()) + half


def show_families(rounds: int) -> None:
    """Five measures of two systems without a difference: how often Holm finds one."""
    print("== families of five measures without a difference: share of samples with any p (Holm) <= .05 ==")
    shapes: dict[str, Draw] = {
        "normal, sd .15": clipped(0.0, 0.15),
        "skewed": lambda rng, n: np.clip(rng.exponential(0.1, n) - 0.1, -1, 1),
        "85% ties": mixture(0.85, clipped(0.0, 0.3)),
    }
    for name, draw in shapes.items():
        for n in (20, 50, 200):
            rng, found = np.random.default_rng(8), 0
            for _ in range(rounds):
                common = draw(rng, n)  # measures of one list go together
                rows = [np.where(rng.random(n) < 0.5, common, draw(rng, n)) for _ in range(5)]
                p = [paired_difference(np.zeros(n), row, value_range=(0, 1)).p or 0.0 for row in rows]
                found += min(holm(p)) <= 0.05
            print(f"{name:20}{n:5} {found / rounds:.3f}", flush=True)


def show_power(rounds: int) -> None:
    """What the interval costs where differences are small and normal: 2.8 standard errors, where Student's t has .80."""
    print("== power for a difference of 2.8 standard errors: germane, Student t ==")
    for sd, n in ((0.05, 50), (0.1, 50), (0.2, 50), (0.05, 200), (0.2, 200)):
        rng, found = np.random.default_rng(9), np.zeros(2)
        for _ in range(rounds):
            d = np.clip(rng.normal(2.802 * sd / sqrt(n), sd, n), -1, 1)
            p = mean_interval(d, value_range=(-1, 1), differences=True).p or 0.0
            found += (p < 0.05, 2 * t_cdf(-abs(d.mean()) / (d.std(ddof=1) / sqrt(n)), n - 1) < 0.05)
        print(f"sd {sd:<5} n {n:4}   {found[0] / rounds:.3f}   {found[1] / rounds:.3f}", flush=True)


if __name__ == "__main__":
    main()
