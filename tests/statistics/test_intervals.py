from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from germane.errors import InputError
from germane.statistics.intervals import (
    Interval,
    clopper_pearson,
    group_cases,
    imbens_manski,
    mean_interval,
)

RANGE = (0.0, 1.0)


def ends(interval: Interval) -> tuple[float, float]:
    assert interval.ends is not None
    return interval.ends


def test_student_t_equals_scipy() -> None:
    """Many regular scores: Student's t, named, over cases."""
    x = np.random.default_rng(0).beta(3, 3, 80)
    found = mean_interval(x, value_range=RANGE)
    expected = stats.t.interval(0.95, 79, x.mean(), stats.sem(x))
    assert ends(found) == pytest.approx(expected)
    assert (found.method, found.level, found.units, found.n) == ("Student t", 0.95, "cases", 80)
    assert found.mean == pytest.approx(x.mean())


def test_clusters_equal_statsmodels() -> None:
    """The standard error over clusters is the cluster-robust one of a regression on a constant."""
    rng = np.random.default_rng(1)
    clusters = np.repeat(np.arange(70), rng.integers(1, 5, 70))
    x = rng.beta(3, 3, 70)[clusters] * 0.8 + rng.random(len(clusters)) * 0.2
    fit = sm.OLS(x, np.ones(len(x))).fit(
        cov_type="cluster", cov_kwds={"groups": clusters, "df_correction": False}
    )
    half = stats.t.ppf(0.975, 69) * fit.bse[0]
    found = mean_interval(x, clusters=clusters, value_range=RANGE)
    assert ends(found) == pytest.approx((x.mean() - half, x.mean() + half))
    assert (found.method, found.units, found.n) == ("Student t", "clusters", 70)


def test_clusters_of_one_are_cases() -> None:
    """A cluster per case changes nothing, whatever the clusters are called."""
    x = np.random.default_rng(2).beta(3, 3, 60)
    names = [f"q{place}" for place in range(60)]
    assert mean_interval(x, clusters=names, value_range=RANGE) == mean_interval(x, value_range=RANGE)


def test_interval_is_cut_to_the_range() -> None:
    """No end lies where no mean can be."""
    x = np.r_[np.full(50, 0.999), np.linspace(0.9, 1, 50)]
    low, high = ends(mean_interval(x, value_range=(0, 0.9999 + 0.0001)))
    assert 0 <= low < high <= 1


@pytest.mark.parametrize(("k", "n"), [(0, 5), (5, 5), (3, 40), (999, 1000)])
def test_clopper_pearson_equals_scipy(k: int, n: int) -> None:
    """Where every case is 0 or 1 the interval is exact."""
    expected = stats.binomtest(k, n).proportion_ci(0.95, "exact")
    assert clopper_pearson(k, n) == pytest.approx((expected.low, expected.high))
    found = mean_interval(np.r_[np.ones(k), np.zeros(n - k)], value_range=RANGE)
    assert ends(found) == pytest.approx((expected.low, expected.high))
    assert found.method == "Clopper-Pearson"


def test_zeros_and_ones_of_another_range_are_no_shares() -> None:
    """Differences or grades that happen to be 0 and 1 are not binary: all ties still leave room below 0."""
    found = mean_interval(np.zeros(12), value_range=(-1, 1), differences=True)
    assert found.method == "betting"
    assert ends(found)[0] < 0 < ends(found)[1]
    assert mean_interval(np.r_[np.ones(6), np.zeros(6)], value_range=(0, 3)).method == "betting"


@pytest.mark.parametrize(
    "x",
    [
        np.random.default_rng(0).beta(3, 3, 49),
        np.random.default_rng(0).beta(0.3, 3, 200),
        np.r_[np.full(160, 0.5), np.linspace(0.1, 0.9, 40)],
    ],
    ids=["few", "skewed", "equal"],
)
def test_irregular_scores_are_bet_on(x: np.ndarray) -> None:
    """Few cases, a skewness beyond 1 or 80% equal values give a betting interval, wider than Student's t."""
    found = mean_interval(x, value_range=RANGE)
    assert found.method == "betting"
    assert mean_interval(x).method == "Student t"
    assert ends(found)[1] - ends(found)[0] > np.diff(ends(mean_interval(x)))[0]
    assert ends(found)[0] < x.mean() < ends(found)[1]


def test_betting_refutes_means_that_the_capital_refutes() -> None:
    """Of equal values the order says nothing: the end is where the product of all bets reaches 2 / alpha."""
    n, x, goal = 12, 0.8, np.log(40)
    means = (0.5 + x * np.arange(1, n + 1)) / np.arange(2, n + 2)
    spread = (0.3 / 4 + np.cumsum(np.square(x - means))) / (0.3 + np.arange(1, n + 1))
    bets = np.sqrt(2 * goal / (n * np.r_[0.25, spread[:-1]]))

    def capital(mean: float) -> float:
        return float(np.log1p(np.minimum(bets, 0.9 / mean) * (x - mean)).sum() - goal)

    low, _ = ends(mean_interval(np.full(n, x), value_range=RANGE))
    assert low == pytest.approx(brentq(capital, 1e-6, x), abs=1e-6)


def test_betting_holds_the_mean_of_rare_successes() -> None:
    """Of samples of 20 from a distribution that is mostly 0, at least 95% hold the mean; Student's t misses many."""
    rng = np.random.default_rng(3)
    held = student = 0
    for _ in range(200):
        x = np.where(rng.random(20) < 0.1, rng.random(20), 0.0)
        low, high = ends(mean_interval(x, value_range=RANGE))
        held += low <= 0.05 <= high
        half = stats.t.ppf(0.975, 19) * x.std(ddof=1) / np.sqrt(20)
        student += abs(x.mean() - 0.05) <= half
    assert held >= 190
    assert student < 180


def test_betting_over_unequal_clusters_holds_the_mean_of_cases() -> None:
    """Ten clusters whose size goes with their value: the interval is of the mean over cases."""
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(200):
        sizes = rng.integers(1, 6, 10)
        clusters = np.repeat(np.arange(10), sizes)
        x = (sizes / 10)[clusters]
        low, high = ends(mean_interval(x, clusters=clusters, value_range=RANGE))
        held += low <= (1 + 4 + 9 + 16 + 25) / 150 <= high
    assert held >= 190


def test_the_order_of_cases_matters_little() -> None:
    """Sorted or shuffled, a betting interval is nearly the same."""
    x = np.random.default_rng(5).beta(2, 2, 40)
    assert ends(mean_interval(x, value_range=RANGE)) == pytest.approx(
        ends(mean_interval(np.sort(x), value_range=RANGE)), abs=0.02
    )


def test_a_range_may_be_any() -> None:
    """Stretching scores and range stretches the interval."""
    x = np.random.default_rng(6).beta(2, 2, 20)
    low, high = ends(mean_interval(x, value_range=RANGE))
    assert ends(mean_interval(10 * x - 5, value_range=(-5, 5))) == pytest.approx(
        (10 * low - 5, 10 * high - 5)
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 1).map(lambda x: round(x, 3)), min_size=1, max_size=70),
    st.integers(1, 5),
    st.booleans(),
)
def test_no_interval_has_zero_width(values: list[float], clusters: int, differences: bool) -> None:
    """With a range there is an interval for any scores, it has a width, and it holds their mean."""
    groups = np.arange(len(values)) // clusters
    found = mean_interval(values, clusters=groups, value_range=RANGE, differences=differences)
    low, high = ends(found)
    assert 0 <= low < high <= 1
    assert low - 1e-9 <= np.mean(values) <= high + 1e-9


def test_no_range_and_no_spread_gives_no_interval() -> None:
    """Without a range nothing can be said of equal values or of one case, and `why` says so."""
    equal, one, none = (mean_interval(values) for values in ([3.5, 3.5, 3.5], [2.0], []))
    assert (equal.ends, equal.why, equal.mean) == (None, "all values are equal", 3.5)
    assert (one.ends, one.why) == (None, "one case")
    assert (none.ends, none.why, none.mean) == (None, "no scores", None)


def test_incomplete_scores_widen_the_interval_over_both_bounds() -> None:
    """The interval goes beyond the means of the lower and of the upper bounds, and there is no single mean."""
    x = np.random.default_rng(7).beta(3, 3, 100)
    open_ = x.copy()
    open_[:10] = np.nan
    found = mean_interval(open_, bounds=(np.zeros(100), np.ones(100)), value_range=RANGE)
    low, high = np.nan_to_num(open_, nan=0.0), np.nan_to_num(open_, nan=1.0)
    once = stats.t.ppf(0.95, 99)
    assert found.mean is None
    assert found.method == "Student t, Imbens-Manski"
    # The bounds are ten standard errors apart, so that one-sided quantiles are enough.
    assert ends(found) == pytest.approx(
        (low.mean() - once * stats.sem(low), high.mean() + once * stats.sem(high)), abs=1e-4
    )
    few = mean_interval(open_[:20], bounds=(np.zeros(20), np.ones(20)), value_range=RANGE)
    assert few.method == "betting, both bounds"
    assert ends(few)[0] < low[:20].mean() < high[:20].mean() < ends(few)[1]


def test_imbens_manski_solves_its_equation() -> None:
    """The constant falls from the two-sided to the one-sided quantile as the set grows."""
    assert imbens_manski(0, 30) == pytest.approx(stats.t.ppf(0.975, 30))
    assert imbens_manski(50, 30) == pytest.approx(stats.t.ppf(0.95, 30), abs=1e-6)
    c = imbens_manski(0.7, 30)
    assert stats.t.cdf(c + 0.7, 30) - stats.t.cdf(-c, 30) == pytest.approx(0.95)


def test_weights_give_the_ratio_mean() -> None:
    """Weights of 1 / probability: the mean is the weighted one, its error that of a ratio (by the delta method)."""
    rng = np.random.default_rng(8)
    x, w = rng.beta(3, 3, 200), rng.uniform(1, 4, 200)
    found = mean_interval(x, weights=w)
    mean = np.average(x, weights=w)
    error = np.sqrt(np.square(w * (x - mean)).sum() * 200 / 199) / w.sum()
    half = stats.t.ppf(0.975, 199) * error
    assert found.mean == pytest.approx(mean)
    assert ends(found) == pytest.approx((mean - half, mean + half))


@pytest.mark.parametrize(
    ("values", "given", "message"),
    [
        ([0.5, np.nan], {}, "bounds"),
        ([0.5, 1.5], {"value_range": RANGE}, "outside its range"),
        ([0.5, 0.6], {"clusters": [1]}, "one cluster per value"),
        ([0.5, np.nan], {"bounds": ([0, 1], [1, 0])}, "lower bound"),
        ([[0.5]], {}, "one score per case"),
        ([0.5, 0.5], {"value_range": (1, 1)}, "outside|empty"),
        ([0.5, 0.5], {"weights": [1, 0]}, "weights"),
    ],
)
def test_unusable_input_is_refused(values: Any, given: dict[str, Any], message: str) -> None:
    """An error says what is wrong and what to write instead."""
    with pytest.raises(InputError, match=message):
        mean_interval(values, **given)


def test_a_sum_of_rounded_numbers_may_end_just_outside() -> None:
    """1 + 2e-16 is 1."""
    assert ends(mean_interval(np.r_[np.full(5, 1 + 3e-16), 0.5], value_range=RANGE))[1] <= 1


def test_units_of_one_group_have_no_error() -> None:
    """One unit tells nothing of its spread."""
    assert group_cases([1.0, 2.0], ["a", "a"]).error == np.inf
