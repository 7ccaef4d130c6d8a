import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane.errors import InputError
from germane.statistics.sampling import draw_clusters, draw_stratified, neyman_allocation


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
    st.integers(0, 3),
)
def test_allocation_spends_the_budget_within_the_sizes(
    strata: list[tuple[int, float]], extra: int, fewest: int
) -> None:
    """Every stratum gets its least and no more than it has, and the whole budget is spent."""
    sizes, spread = np.array([size for size, _ in strata]), np.array([s for _, s in strata])
    least = np.minimum(sizes, fewest)
    counts = neyman_allocation(sizes, spread, int(least.sum()) + extra, fewest=fewest)
    assert counts.sum() == min(sizes.sum(), least.sum() + extra)
    assert (counts >= least).all()
    assert (counts <= sizes).all()


def test_a_budget_below_the_least_is_refused() -> None:
    """Two labels for each of three strata cost six."""
    with pytest.raises(InputError, match="ask for 6"):
        neyman_allocation([9, 9, 9], [1, 1, 1], 5)
    with pytest.raises(InputError, match="below 0"):
        neyman_allocation([9], [-1], 5)
    with pytest.raises(InputError, match="one of each"):
        neyman_allocation([9, 9], [1], 5)


def test_stratified_draws_have_the_stated_probabilities() -> None:
    """Over many draws each unit is drawn as often as its probability says, and strata get their counts."""
    strata, counts = np.array(list("aaaabbbbbbcc")), [1, 3, 2]
    drawn = np.zeros(12)
    rng = np.random.default_rng(0)
    for _ in range(3000):
        places, chance = draw_stratified(strata, counts, rng)
        drawn[places] += 1
        assert [int((strata[places] == name).sum()) for name in "abc"] == counts
        assert len(set(places.tolist())) == 6
    assert chance.tolist() == [0.25] * 4 + [0.5] * 6 + [1] * 2
    assert drawn / 3000 == pytest.approx(chance, abs=0.04)
    with pytest.raises(InputError, match="cannot draw"):
        draw_stratified(strata, [5, 0, 0], rng)


def test_whole_queries_are_drawn() -> None:
    """Every passage of the drawn queries, query by query; all are drawn where the number is too large."""
    clusters = np.array(["x", "y", "z", "x", "y"])
    places, chance = draw_clusters(clusters, 2, np.random.default_rng(3))
    names = clusters[places]
    assert len(set(names)) == 2
    assert sorted(places.tolist()) == sorted(np.flatnonzero(np.isin(clusters, names)).tolist())
    assert (np.diff(np.unique(names, return_inverse=True)[1]) != 0).sum() <= 1
    assert chance.tolist() == [2 / 3] * 5
    assert len(draw_clusters(clusters, 9, np.random.default_rng(3))[0]) == 5
