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


@pytest.mark.parametrize("truth", [np.tile([1.0, 0.0], 400), np.ones(800)], ids=["two grades", "one grade"])
def test_labels_without_an_error_leave_the_others_in_doubt(truth: np.ndarray) -> None:
    """The judge agrees with 40 labels of 800; it may err on 5% of the others. All labelled, nothing is in doubt."""
    weights = np.repeat([-1 / 8, 1 / 8], 400)
    queries = np.tile(np.repeat(np.arange(50), 8), 2)
    labels = np.full(800, np.nan)
    labels[::20] = truth[::20]
    found = corrected_difference(weights, labels, truth, np.full(800, 0.05), queries, 50)
    assert not isinstance(found, str)
    assert found.set_ends is not None
    assert found.set_ends[1] - found.set_ends[0] > 0.05
    assert found.interval.ends is not None
    assert found.interval.ends[0] <= found.set_ends[0] < found.set_ends[1] <= found.interval.ends[1]
    whole = corrected_difference(weights, truth, truth, np.ones(800), queries, 50)
    assert not isinstance(whole, str)
    assert whole.set_ends == pytest.approx((0.0, 0.0))


def test_intervals_cover_a_judge_that_rarely_errs() -> None:
    """It calls one of ten irrelevant passages of B relevant; 20 labels of each system often show no error."""
    rng, inside, draws = np.random.default_rng(0), 0, 100
    weights, queries = np.repeat([-1 / 8, 1 / 8], 800), np.tile(np.repeat(np.arange(100), 8), 2)
    for _ in range(draws):
        truth = (rng.random(1600) < 0.6).astype(float)
        wrong = (truth == 0) & (rng.random(1600) < 0.1) & (weights > 0)
        labels = np.full(1600, np.nan)
        for start in (0, 800):
            drawn = rng.choice(800, 20, replace=False) + start
            labels[drawn] = truth[drawn]
        found = corrected_difference(
            weights, labels, np.where(wrong, 1, truth), np.full(1600, 1 / 40), queries, 100
        )
        assert not isinstance(found, str)
        assert found.interval.ends is not None
        inside += found.interval.ends[0] <= 0 <= found.interval.ends[1]
    assert inside >= 0.93 * draws


def test_equal_lists_need_no_labels() -> None:
    """No passage changes the difference, so there is nothing to draw."""
    none = np.zeros(0)
    found = corrected_difference(none, none, none, none, none, 20)
    assert not isinstance(found, str)
    assert (found.difference, found.set_ends) == (0.0, (0.0, 0.0))
