import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from germane.statistics.intervals import Interval, mean_interval
from germane.statistics.systems import (
    decide_change,
    holm,
    paired_difference,
)

RNG = np.random.default_rng(0)


def interval(low: float, high: float, n: int = 100) -> Interval:
    return Interval(mean=(low + high) / 2, ends=(low, high), method="", level=0.95, units="cases", n=n)


@pytest.mark.equals("statsmodels", what="Holm's adjusted p", within="1e-6")
@pytest.mark.parametrize(
    "p", [[0.2], [0.04, 0.01, 0.03, 0.01], [0.5, 0.9, 1.0], [0.0, 0.02, 0.02, 0.6, 0.001]]
)
def test_holm_equals_statsmodels(p: list[float]) -> None:
    """Adjusted p-values, in the order given."""
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])


def test_difference_is_b_minus_a() -> None:
    """Means, difference, wins of B, ties and losses, interval as of the differences, test and power."""
    a = RNG.beta(3, 3, 80)
    b = np.clip(a + RNG.normal(0.05, 0.1, 80), 0, 1)
    b[:10] = a[:10]
    found = paired_difference(a, b, value_range=(0, 1))
    assert found.difference == pytest.approx((b - a).mean())
    assert found.difference == pytest.approx((found.mean_b or 0) - (found.mean_a or 0))
    assert (found.wins, found.ties, found.losses) == (
        int((b > a).sum()),
        int((b == a).sum()),
        int((b < a).sum()),
    )
    assert found.interval == mean_interval(b - a, value_range=(-1, 1), differences=True)
    assert found.p == found.interval.p


def test_what_is_detectable_lies_between_small_and_large_differences() -> None:
    """A chance difference is below the smallest detectable one, a large one above; where nothing varies there is none."""
    a = RNG.beta(3, 3, 30)
    small, large = (
        paired_difference(a, a + RNG.normal(mean, sd, 30)) for mean, sd in ((0.0, 0.2), (0.3, 0.1))
    )
    assert abs(small.difference or 0) < (small.detectable or 0)
    assert 0 < (large.detectable or 0) < (large.difference or 0)
    assert paired_difference(a, a).detectable is None


def test_incomplete_scores_have_bounds_and_no_difference() -> None:
    """A case with a score between .2 and .6 in B and .5 in A differs by -.3 to .1; nothing is tested."""
    a, b = np.full(60, 0.5), RNG.beta(3, 3, 60)
    b[0] = np.nan
    found = paired_difference(a, b, bounds_b=(np.full(60, 0.2), np.full(60, 0.6)), value_range=(0, 1))
    rest = b[1:] - 0.5
    low, high = (np.r_[rest, end].mean() for end in (-0.3, 0.1))
    assert (found.difference, found.p, found.mean_b, found.detectable) == (None, None, None, None)
    assert found.interval.ends is not None
    assert found.interval.ends[0] < low < high < found.interval.ends[1]
    assert found.wins + found.ties + found.losses == 59


def test_identical_systems_have_an_interval_around_0() -> None:
    """All ties: no power can be said, but how far the systems may differ can."""
    a = RNG.beta(3, 3, 30)
    found = paired_difference(a, a, value_range=(0, 1))
    assert (found.difference, found.p, found.ties, found.detectable) == (0, 1, 30, None)
    assert found.interval.ends is not None
    assert found.interval.ends[0] < 0 < found.interval.ends[1]


def test_no_cases_compare_to_nothing() -> None:
    """Without a case there is no mean, interval or test, and the interval says why."""
    found = paired_difference([], [], value_range=(0, 1))
    assert (found.n, found.mean_a, found.difference, found.p) == (0, None, None, None)
    assert (found.interval.ends, found.interval.why) == (None, "no scores")
    one = paired_difference([0.5], [0.7])
    assert (one.p, one.detectable, one.interval.why) == (None, None, "one case")


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(-0.01, 0.05, "pass"), (-0.05, -0.03, "fail"), (-0.03, 0.05, "undecided"), (-0.02, 0.05, "undecided")],
)
def test_decision_against_a_margin(low: float, high: float, verdict: str) -> None:
    """Pass above -margin, fail below, else undecided; an end on the margin decides nothing."""
    assert decide_change(interval(low, high), 0.02)[0] == verdict


def test_undecided_says_how_many_units_would_likely_pass() -> None:
    """From the spread and the margin: h (1 + .84 / 1.96) sqrt(100 / n) = .02 with h = .04; a pass needs no more."""
    assert decide_change(interval(-0.03, 0.05), 0.02)[1] == 818
    assert decide_change(interval(-0.01, 0.05), 0.02)[1] is None


@pytest.mark.parametrize("mean", [-0.019, 0.0, 0.011, 0.019])
def test_the_observed_difference_plays_no_part_in_what_is_needed(mean: float) -> None:
    """The same spread and margin need the same number of units, wherever the mean happened to fall."""
    assert decide_change(interval(mean - 0.04, mean + 0.04), 0.02)[1] == 818


def test_decision_without_an_interval_or_direction() -> None:
    """No interval, or no margin: undecided, and no number of units is promised."""
    none = Interval(mean=0.1, ends=None, method="", level=0.95, units="cases", n=1, why="one case")
    assert decide_change(none, 0.02)[1] is None
    assert decide_change(interval(-0.04, 0.0), 0.0)[1] is None
    assert decide_change(interval(0.05, 0.1), -0.04)[0] == "pass"  # a gain of .04 is wanted


def test_a_gate_rarely_passes_a_loss_as_large_as_the_margin() -> None:
    """Where the true loss is the margin, about 2.5% of samples pass."""
    rng = np.random.default_rng(4)
    verdicts = [
        decide_change(paired_difference(np.zeros(60), rng.normal(-0.02, 0.1, 60)).interval, 0.02)[0]
        for _ in range(400)
    ]
    assert 0.005 <= np.mean(np.array(verdicts) == "pass") <= 0.055
