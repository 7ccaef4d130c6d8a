"""The smallest difference that a number of cases can detect, and how often a verdict would flip."""

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from germane.statistics.intervals import group_cases, mean_interval
from germane.statistics.systems import detectable


@pytest.mark.parametrize(("n", "tolerance"), [(10, 0.03), (50, 0.005), (1000, 0.001)])
def test_detectable_difference_is_close_to_that_of_the_noncentral_t(n: int, tolerance: float) -> None:
    """Of a measure without a range: within 3% of statsmodels from 10 units on."""
    expected = TTestPower().solve_power(effect_size=None, nobs=n, alpha=0.05, power=0.8)
    values = np.random.default_rng(5).normal(0, 3, n)
    found = detectable(group_cases(values, None), None)
    assert found == pytest.approx(values.std(ddof=1) * expected, rel=tolerance)


@pytest.mark.parametrize("shape", ["normal", "ties", "skewed"])
def test_a_detectable_difference_is_shown_in_four_of_five_samples(shape: str) -> None:
    """By the interval of so many differences that are moved by it."""
    rng = np.random.default_rng(6)

    def draw(n: int) -> np.ndarray:
        spread = {"normal": rng.normal(0, 0.15, n), "skewed": 0.1 - rng.exponential(0.1, n)}
        return np.clip(spread.get(shape, np.where(rng.random(n) < 0.7, 0, rng.normal(0, 0.3, n))), -1, 1)

    found = np.mean([detectable(group_cases(draw(150), None)) or 0 for _ in range(10)])
    moved = (np.clip(draw(150) + found, -1, 1) for _ in range(300))
    shown = [mean_interval(one, value_range=(-1, 1), differences=True).p for one in moved]
    assert np.mean([p is not None and p < 0.05 for p in shown]) == pytest.approx(0.8, abs=0.1)


def test_nothing_is_told_from_equal_differences() -> None:
    """No spread, or one unit."""
    for values in (np.zeros(30), np.full(30, 0.1), np.array([0.1])):
        assert detectable(group_cases(values, None)) is None
