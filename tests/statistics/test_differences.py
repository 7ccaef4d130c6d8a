"""Differences corrected with labels: what holds of the estimate, its two intervals and its p-value."""

from __future__ import annotations

import numpy as np
import pytest

from germane.statistics.differences import corrected_difference


def test_the_wider_population_never_has_the_narrower_interval() -> None:
    """Labels that happen to give every query the same difference say nothing of more queries than of these."""
    queries = np.repeat(np.arange(20), 10)
    labels = np.full(200, np.nan)
    labels[::10], labels[3::10], labels[5::10], labels[8::10] = 1, 0, 1, 0
    signs = np.tile([1] * 5 + [-1] * 5, 20) / 5
    for label in (labels, 1 - labels):
        found = corrected_difference(signs, label, np.zeros(200), np.full(200, 0.4), queries, 20)
        assert not isinstance(found, str)
        assert found.interval.ends is not None
        assert found.set_ends is not None
        assert found.p is not None
        low, high = found.interval.ends
        assert low <= found.set_ends[0] < found.set_ends[1] <= high
        assert (found.p < 0.05) == (not low <= 0 <= high)


@pytest.mark.parametrize("seed", range(20))
def test_the_p_value_and_the_interval_agree(seed: int) -> None:
    """Whichever population's spread is the larger one."""
    rng = np.random.default_rng(seed)
    queries = np.repeat(np.arange(15), 8)
    signs = np.tile([1] * 4 + [-1] * 4, 15) / 4
    truth = (rng.random(120) < np.where(signs > 0, 0.75, 0.45)).astype(float)
    label = np.where(rng.random(120) < 0.5, truth, np.nan)
    found = corrected_difference(signs, label, rng.random(120), np.full(120, 0.5), queries, 15)
    assert not isinstance(found, str)
    assert found.interval.ends is not None
    assert found.set_ends is not None
    assert found.p is not None
    low, high = found.interval.ends
    assert low <= found.set_ends[0] <= found.set_ends[1] <= high
    assert (found.p < 0.05) == (not low <= 0 <= high)
