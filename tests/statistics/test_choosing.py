"""The best of several systems: what is left of its gain where it was not chosen, and its interval."""

import numpy as np
import pytest

from germane.statistics.intervals import mean_interval
from germane.statistics.systems import best_system

LIMITS = (-1.0, 1.0)


def draw(rng: np.random.Generator, apart: list[float], n: int = 40) -> np.ndarray:
    scores = np.clip(
        0.5 + np.array([0.0, *apart]) + rng.normal(0, 0.15, (n, 1)) + rng.normal(0, 0.2, (n, 1 + len(apart))),
        0,
        1,
    )
    return np.asarray(scores - scores[:, :1])


@pytest.mark.parametrize("apart", [[0.0] * 7, [0.05, 0.02, -0.02, -0.05]])
def test_held_out_gain_and_coverage(apart: list[float]) -> None:
    """The gain of the best is too high, the held-out one is not; the interval covers the gain of the chosen system."""
    rng = np.random.default_rng(2)
    truth = np.mean([draw(rng, apart, 20_000).mean(axis=0) for _ in range(5)], axis=0)
    rows = []
    for seed in range(200):
        best = best_system(draw(rng, apart), value_range=LIMITS, seed=seed)
        assert best.ends is not None
        assert best.held_out is not None
        rows.append((best.gain, best.held_out, truth[best.number], *best.ends))
    gain, held, true, low, high = np.array(rows).T
    assert (gain - true).mean() > 0.015
    assert abs((held - true).mean()) < 0.012
    assert ((low <= true) & (true <= high)).mean() >= 0.94


def test_one_clear_winner_keeps_its_gain() -> None:
    """Whatever half chooses takes it: nothing is lost, and the interval is about its own."""
    gains = draw(np.random.default_rng(1), [0.4, -0.3], 60)
    best = best_system(gains, value_range=LIMITS)
    own = mean_interval(gains[:, 1], value_range=LIMITS, differences=True).ends
    assert best.number == 1
    assert best.held_out == pytest.approx(best.gain, abs=0.005)
    assert best.ends == pytest.approx(own, abs=0.01)


def test_clusters_are_chosen_whole() -> None:
    """Ten copies of each query choose no better than one of each."""
    gains = draw(np.random.default_rng(5), [0.0] * 9, 12)
    alone = best_system(gains, value_range=LIMITS)
    copies = best_system(
        np.repeat(gains, 10, axis=0), clusters=np.repeat(np.arange(12), 10), value_range=LIMITS
    )
    loose = best_system(np.repeat(gains, 10, axis=0), value_range=LIMITS)
    assert copies.held_out == pytest.approx(alone.held_out)
    assert loose.held_out is not None
    assert alone.held_out is not None
    assert loose.held_out > alone.held_out + 0.02


def test_no_choice_without_halves() -> None:
    """One query cannot be split; systems that never differ gain nothing; the same seed gives the same figures."""
    assert best_system([[0.0, 0.2, 0.1]]) == best_system([[0.0, 0.2, 0.1]], clusters=["a"])
    single = best_system([[0.0, 0.2, 0.1]])
    assert (single.number, single.gain, single.held_out, single.ends) == (1, 0.2, None, None)
    same = best_system(np.zeros((5, 3)), value_range=LIMITS)
    assert (same.number, same.gain, same.held_out, same.ends) == (0, 0.0, 0.0, (0.0, 0.0))
    gains = draw(np.random.default_rng(3), [0.0, 0.0])
    assert best_system(gains, seed=4) == best_system(gains, seed=4)
    assert best_system(gains, seed=4) != best_system(gains, seed=5)
