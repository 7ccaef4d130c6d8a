import numpy as np
import pytest

from germane.statistics.components import split_variance


def planted(
    rng: np.random.Generator, sds: tuple[float, float, float], shape: tuple[int, int, int]
) -> tuple[np.ndarray, ...]:
    """Scores of (queries, trials, replicas), each level with its own spread."""
    query, trial, _ = np.indices(shape).reshape(3, -1)
    levels = (rng.normal(0, sd, shape[: at + 1]) for at, sd in enumerate(sds))
    total = sum(level.reshape(level.shape + (1,) * (3 - level.ndim)) for level in levels)
    return np.broadcast_to(total, shape).reshape(-1), query, trial


@pytest.mark.parametrize("sds", [(0.2, 0.1, 0.15), (0.1, 0.2, 0.1), (0.3, 0.05, 0.05)])
def test_planted_components_are_recovered(sds: tuple[float, float, float]) -> None:
    """Within 15% of what was planted, over 40 reports of 100 queries, 4 trials and 3 replicas."""
    rng = np.random.default_rng(0)
    reports = (planted(rng, sds, (100, 4, 3)) for _ in range(40))
    found = [split_variance(values, query, trial) for values, query, trial in reports]
    means = [np.mean([getattr(one, name) for one in found]) for name in ("queries", "trials", "replicas")]
    assert means == pytest.approx(np.square(sds), rel=0.15)
    assert found[0].counts == {"queries": 100, "trials": 4, "replicas": 3}


def test_parts_sum_to_the_variance_of_the_mean() -> None:
    """The sum is that of the means per query; one more of anything takes some of it off."""
    values, query, trial = planted(np.random.default_rng(1), (0.2, 0.1, 0.15), (60, 3, 2))
    found = split_variance(values, query, trial)
    of_query = values.reshape(60, -1).mean(axis=1)
    assert sum(found.of_mean.values()) == pytest.approx(of_query.var(ddof=1) / 60)
    assert found.one_more["queries"] == pytest.approx(1 / 61)
    assert 0 < found.one_more["replicas"] < found.one_more["trials"] < 1


def test_what_is_there_once_cannot_be_told_apart() -> None:
    """Trials judged once split in two; a query of one trial and one replica is all queries."""
    values, query, trial = planted(np.random.default_rng(2), (0.2, 0.1, 0.0), (60, 3, 1))
    assert split_variance(values, query, trial).replicas is None
    alone = split_variance(values[::3], query[::3], trial[::3])
    assert (alone.trials, alone.replicas) == (None, None)
    assert alone.queries == pytest.approx(values[::3].var(ddof=1))


def test_unequal_numbers_of_trials() -> None:
    """Queries with one to five trials: nothing is biased."""
    rng = np.random.default_rng(3)
    rows = []
    for query in range(400):
        level = rng.normal(0, 0.2)
        rows += [(level + rng.normal(0, 0.1), query, trial) for trial in range(rng.integers(1, 6))]
    values, queries, trials = (np.array(side) for side in zip(*rows, strict=True))
    found = split_variance(values, queries, trials)
    assert found.queries == pytest.approx(0.04, rel=0.15)
    assert found.trials == pytest.approx(0.01, rel=0.15)
