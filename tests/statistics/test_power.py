import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from germane.statistics.intervals import group_cases, mean_interval
from germane.statistics.power import Pilot, flip_of_mean, smallest

RNG = np.random.default_rng(5)


def pilot(values: np.ndarray, end: float | None = 1.0) -> Pilot:
    return Pilot(group_cases(values, None), end)


@pytest.mark.parametrize(("n", "tolerance"), [(10, 0.03), (50, 0.005), (1000, 0.001)])
def test_detectable_difference_is_close_to_that_of_the_noncentral_t(n: int, tolerance: float) -> None:
    """Of a measure without a range: within 3% of statsmodels from 10 units on, and what n units show with power .8."""
    expected = TTestPower().solve_power(effect_size=None, nobs=n, alpha=0.05, power=0.8)
    counts = pilot(RNG.normal(0, 3, 40), None)
    found = counts.detectable(n)
    assert found == pytest.approx(counts.deviation * expected, rel=tolerance)
    assert counts.power(n, found) == pytest.approx(0.8)
    assert smallest(lambda many: counts.power(many, found * 1.0001)) == n


def test_the_distance_to_the_lower_limit_is_that_of_the_interval() -> None:
    """For as many units as the pilot has and its own mean, up to the expected size of the largest difference."""
    d = np.where(RNG.random(300) < 0.3, RNG.choice([-0.2, 0.2], 300), 0.0)
    found = mean_interval(d, value_range=(-1, 1), differences=True)
    assert found.mean is not None
    assert found.ends is not None
    assert pilot(d).half_width(300, found.mean) == pytest.approx(found.mean - found.ends[0], rel=1e-6)
    assert pilot(d).half_width(1200) == pytest.approx(pilot(d).half_width(300) / 2, rel=0.05)


@pytest.mark.parametrize("shape", ["normal", "ties", "skewed"])
def test_promised_power_is_that_of_simulated_samples(shape: str) -> None:
    """So many queries pass a margin where there is no difference, and show a difference, with the promised probability."""
    rng = np.random.default_rng(6)

    def draw(n: int) -> np.ndarray:
        spread = {"normal": rng.normal(0, 0.15, n), "skewed": 0.1 - rng.exponential(0.1, n)}
        return np.clip(spread.get(shape, np.where(rng.random(n) < 0.7, 0, rng.normal(0, 0.3, n))), -1, 1)

    known = pilot(draw(20_000))
    n = smallest(lambda many: known.power_to_pass(many, 0.05), known.about(0.05))
    assert n is not None
    samples = [mean_interval(draw(n), value_range=(-1, 1), differences=True).ends for _ in range(600)]
    assert np.mean([ends is not None and ends[0] > -0.05 for ends in samples]) == pytest.approx(
        known.power_to_pass(n, 0.05), abs=0.045
    )
    shown = [
        mean_interval(np.clip(draw(n) + 0.05, -1, 1), value_range=(-1, 1), differences=True).p
        for _ in range(600)
    ]
    assert np.mean([p is not None and p < 0.05 for p in shown]) == pytest.approx(
        known.power(n, 0.05), abs=0.045
    )


def test_nothing_is_told_from_equal_differences() -> None:
    """No spread, or one unit: nothing varies."""
    assert not pilot(np.zeros(30)).varies
    assert not pilot(np.full(30, 0.1)).varies
    assert not pilot(np.array([0.1])).varies
    assert pilot(np.array([0.1, 0.2])).detectable(1) == np.inf
    assert pilot(np.array([0.1, 0.2])).power(1, 0.5) == 0


def test_no_number_shows_next_to_nothing() -> None:
    """A difference far below the spread cannot be had."""
    assert smallest(lambda n: pilot(np.array([-0.5, 0.5, 0.0])).power(n, 1e-7), 1000) is None


def test_flips_of_a_verdict_are_as_frequent_as_predicted() -> None:
    """Over systems of all sorts, new means fall on the other side of the threshold as often as predicted."""
    rng = np.random.default_rng(0)
    flipped, predicted = [], []
    for _ in range(3000):
        old, new = rng.normal(rng.uniform(-0.3, 0.3), 0.2, (2, 12))
        flipped.append((old.mean() > 0) != (new.mean() > 0))
        predicted.append(flip_of_mean(old.mean(), stats.sem(old), 12, 0.0))
    assert np.mean(np.array(predicted, float)) == pytest.approx(np.mean(flipped), abs=0.015)


def test_a_flip_is_as_likely_as_the_prediction_interval_says() -> None:
    """Half on the threshold, T(-distance / (s sqrt(2 / n))) away from it; never where nothing varies."""
    x = np.random.default_rng(1).beta(3, 3, 25)
    mean, error = x.mean(), stats.sem(x)
    assert flip_of_mean(mean, error, 25, mean) == pytest.approx(0.5)
    expected = stats.t.cdf(-0.05 / (x.std(ddof=1) * np.sqrt(2 / 25)), 24)
    assert flip_of_mean(mean, error, 25, mean + 0.05) == pytest.approx(expected)
    assert flip_of_mean(0.5, 0.0, 2, 0.4) == 0
