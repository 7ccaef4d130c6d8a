"""Confidence sequences: the bets by hand, clusters, bounds, and few false alarms however often one looks."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

from germane.statistics.intervals import Units, group_cases, mean_interval
from germane.statistics.sequences import decided, log_capital, sequence_ends

SPAN = (0.0, 1.0)


def test_the_capital_by_hand() -> None:
    """Each bet is (mean - m) / (variance + (mean - m)^2) of what stands before, one unit at 1/2 included, cut to 1 / (2 m)."""
    units, m = group_cases([0.9, 0.6], None), 0.4
    first = 0.1 / (0.25 + 0.1**2)
    mean = (0.5 + 0.9) / 2
    second = (mean - m) / ((0.25 + (0.9 - mean) ** 2) / 2 + (mean - m) ** 2)
    second = min(second, 0.5 / m)
    capital = (1 + first * 0.5) * (1 + second * 0.2)
    assert exp(log_capital(units, m, SPAN, 1.0)) == pytest.approx(capital)


def test_what_is_decided_is_outside_of_the_sequence() -> None:
    """Above every limit below the lower end, below every one above the upper end, and wider than an interval of fixed size."""
    units = group_cases(np.random.default_rng(1).beta(2, 1.2, 400), None)
    low, high = sequence_ends(units, units, SPAN, 1.0)
    assert [
        decided(units, units, at, SPAN, 1.0) for at in (low - 0.01, low + 0.01, high - 0.01, high + 0.01)
    ] == [1, 0, 0, -1]
    ends = mean_interval(units.sums, value_range=SPAN).ends
    assert ends is not None
    assert low < ends[0] < ends[1] < high
    assert decided(units, units, -0.1, SPAN, 1.0) == 1
    assert decided(units, units, 1.0, SPAN, 1.0) == -1


def test_other_ranges_clusters_and_bounds() -> None:
    """A range is a scale; a cluster counts by its size; scores that may be anything decide only what all of them would."""
    values = np.random.default_rng(2).random(300)
    units, wide = group_cases(values, None), group_cases(4 * values - 1, None)
    low, high = sequence_ends(units, units, SPAN, 1.0)
    assert sequence_ends(wide, wide, (-1.0, 3.0), 1.0) == pytest.approx((4 * low - 1, 4 * high - 1), abs=1e-6)
    pairs = Units(units.sums.reshape(-1, 2).sum(axis=1), np.full(150, 2.0), "clusters")
    assert decided(pairs, pairs, 0.4, SPAN, 2.0) == 1
    below = Units(units.sums * (np.arange(300) % 2), units.sizes, "cases")
    assert decided(units, units, 0.4, SPAN, 1.0) == 1
    assert decided(below, units, 0.4, SPAN, 1.0) == 0


def test_looking_all_the_time_gives_few_false_alarms() -> None:
    """Of 200 series whose mean is the limit at most 5% are ever decided, where 95% intervals exclude it in many more."""
    rng = np.random.default_rng(3)
    alarms = excluded = 0
    for _ in range(200):
        values = (rng.random(1000) < 0.7).astype(float)
        units = group_cases(values, None)
        alarms += abs(decided(units, units, 0.7, SPAN, 1.0))
        means = np.cumsum(values)[99:] / np.arange(100, 1001)
        excluded += bool(
            (np.abs(means - 0.7) > 1.96 * np.sqrt(means * (1 - means) / np.arange(100, 1001))).any()
        )
    assert alarms <= 0.05 * 200
    assert excluded > 0.15 * 200
    assert log_capital(units, 0.7, SPAN, 1.0) < log(40)
