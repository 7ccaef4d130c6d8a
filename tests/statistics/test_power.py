import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from germane.statistics.power import detectable_difference, flip_of_mean, power_of, units_needed


@pytest.mark.parametrize(("n", "tolerance"), [(10, 0.03), (50, 0.005), (1000, 0.001)])
def test_detectable_difference_is_close_to_that_of_the_noncentral_t(n: int, tolerance: float) -> None:
    """Within 3% of statsmodels from 10 units on."""
    expected = TTestPower().solve_power(effect_size=None, nobs=n, alpha=0.05, power=0.8)
    assert detectable_difference(0.3, n) == pytest.approx(0.3 * expected, rel=tolerance)


def test_power_inverts_the_detectable_difference() -> None:
    """What is detectable with power .8 is detected with power .8."""
    assert power_of(0.2, 40, detectable_difference(0.2, 40)) == pytest.approx(0.8)
    assert power_of(0.2, 1, 0.5) == 0
    assert power_of(0.0, 5, 0.5) == 1


@pytest.mark.parametrize("difference", [0.3, 0.05, -0.01, 0.001])
def test_units_needed_is_the_smallest_number(difference: float) -> None:
    """That many units detect the difference, one in a thousand fewer do not."""
    n = units_needed(0.2, difference)
    assert n is not None
    assert detectable_difference(0.2, n) <= abs(difference)
    assert detectable_difference(0.2, max(2, n - 1 - n // 1000)) > abs(difference) or n == 2


def test_no_number_shows_no_difference() -> None:
    """A difference of 0 cannot be shown, one unit shows nothing, and equal differences need two."""
    assert units_needed(0.2, 0) is None
    assert units_needed(1.0, 1e-9) is None
    assert detectable_difference(0.2, 1) == np.inf
    assert units_needed(0.0, 0.1) == 2


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
