import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane.statistics.sampling import neyman_allocation


def test_neyman_allocation_follows_size_and_deviation() -> None:
    """n_h in proportion to N_h s_h."""
    assert neyman_allocation([100, 100, 200], [1, 3, 1], 60).tolist() == [10, 30, 20]


def test_neyman_allocation_is_the_best_there_is() -> None:
    """No other split of the budget has a smaller variance (all splits of 14 labels tried)."""
    sizes, spread = np.array([30, 9, 50]), np.array([0.5, 0.9, 0.2])

    def variance(counts: np.ndarray) -> float:
        return float((sizes * (sizes - counts) * spread**2 / counts).sum())

    best = min(
        variance(np.array([a, b, 14 - a - b]))
        for a in range(2, 10)
        for b in range(2, min(9, 12 - a) + 1)
        if 14 - a - b >= 2
    )
    assert variance(neyman_allocation(sizes, spread, 14)) == pytest.approx(best, rel=0.02)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.floats(0, 2)), min_size=1, max_size=8),
    st.integers(0, 300),
)
def test_allocation_spends_the_budget_within_the_sizes(strata: list[tuple[int, float]], extra: int) -> None:
    """Every stratum gets its least and no more than it has, and the whole budget is spent."""
    sizes, spread = np.array([size for size, _ in strata]), np.array([s for _, s in strata])
    least = np.minimum(sizes, 2)
    counts = neyman_allocation(sizes, spread, int(least.sum()) + extra)
    assert counts.sum() == min(sizes.sum(), least.sum() + extra)
    assert (counts >= least).all()
    assert (counts <= sizes).all()
