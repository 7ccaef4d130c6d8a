import json
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from germane.errors import InputError
from germane.statistics.intervals import (
    Interval,
    clopper_pearson,
    group_cases,
    imbens_manski,
    lower_limit,
    mean_interval,
    probability_below,
)

RANGE = (0.0, 1.0)


def ends(interval: Interval) -> tuple[float, float]:
    assert interval.ends is not None
    return interval.ends


VECTORS = json.loads((Path(__file__).parent.parent / "data" / "intervals.json").read_text("utf-8"))


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["name"])
def test_limits_equal_the_reference(case: dict[str, Any]) -> None:
    """Means, clusters and differences of all sorts, within 1e-6 of values computed elsewhere."""
    values, sizes = np.array(case["values"]), case.get("sizes")
    clusters = None
    if sizes:  # each cluster's cases share its mean
        values, clusters = np.repeat(values / sizes, sizes), np.repeat(np.arange(len(sizes)), sizes)
    differences = case["kind"] == "difference"
    limits = (-1.0, 1.0) if differences else RANGE
    found = mean_interval(values, clusters=clusters, value_range=limits, differences=differences)
    assert found.method == "Gaffke"
    assert ends(found) == pytest.approx(case["interval"], abs=1e-6)
    assert found.p == (pytest.approx(case["p"], abs=1e-6) if differences else None)


def test_the_limit_is_that_of_random_weights() -> None:
    """Lugannani and Rice's formula agrees with two million draws of the gamma weights."""
    rng = np.random.default_rng(0)
    x = np.r_[rng.beta(2, 1.2, 8), 0.0]
    shares = np.c_[rng.exponential(size=(2_000_000, 9)), rng.gamma(0.5, size=2_000_000)]
    for tail in (0.025, 0.2):
        low = lower_limit(x, np.ones(9), 0.0, tail)
        assert np.mean(shares @ np.r_[x - low, -low] <= 0) == pytest.approx(tail, rel=0.03)
        assert probability_below(x, np.ones(9), 0.0, low) == pytest.approx(tail, rel=1e-6)


def test_a_mean_beyond_all_values_is_certain() -> None:
    """Below all values and the end of the range nothing lies; above them everything; where all are it, half."""
    values = np.array([0.4, 0.6])
    assert probability_below(values, np.ones(2), 0.0, -0.1) == 0.0
    assert probability_below(values, np.ones(2), 0.0, 0.7) == 1.0
    assert probability_below(np.full(3, 0.2), np.ones(3), 0.2, 0.2) == 0.5


def test_many_values_take_milliseconds() -> None:
    """10,000 values take a few milliseconds of CPU, where drawing the weights would take seconds."""
    x = np.random.default_rng(1).beta(2, 1.2, 10_000)
    start = process_time()
    mean_interval(x, value_range=RANGE)
    assert process_time() - start < 0.5


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(-1, 1).map(lambda x: round(x, 2)), min_size=1, max_size=60), st.integers(1, 3))
def test_p_and_interval_of_differences_cannot_disagree(values: list[float], clusters: int) -> None:
    """P is below .05 exactly where 0 is outside of the interval."""
    groups = np.arange(len(values)) // clusters
    found = mean_interval(values, clusters=groups, value_range=(-1, 1), differences=True)
    low, high = ends(found)
    assert found.p is not None
    assert 0 <= found.p <= 1
    if min(abs(low), abs(high)) > 1e-7:
        assert (found.p < 0.05) == (not low < 0 < high)


def test_student_t_is_kept_for_measures_without_a_range() -> None:
    """A count has Student's t, with the p-value that belongs to it."""
    x = np.random.default_rng(0).normal(1, 3, 80)
    found = mean_interval(x, differences=True)
    assert ends(found) == pytest.approx(stats.t.interval(0.95, 79, x.mean(), stats.sem(x)))
    assert (found.method, found.level, found.units, found.n) == ("Student t", 0.95, "cases", 80)
    assert found.mean == pytest.approx(x.mean())
    assert found.p == pytest.approx(stats.ttest_1samp(x, 0).pvalue)
    half = (
        mean_interval(x, value_range=(0, np.inf))
        if x.min() >= 0
        else mean_interval(np.abs(x), value_range=(0, np.inf))
    )
    assert half.method == "Student t"


@pytest.mark.equals("statsmodels", what="the cluster-robust standard error of a mean", within="1e-6")
def test_clusters_equal_statsmodels() -> None:
    """The standard error over clusters is the cluster-robust one of a regression on a constant."""
    rng = np.random.default_rng(1)
    clusters = np.repeat(np.arange(70), rng.integers(1, 5, 70))
    x = rng.beta(3, 3, 70)[clusters] * 0.8 + rng.random(len(clusters)) * 0.2
    fit = sm.OLS(x, np.ones(len(x))).fit(
        cov_type="cluster", cov_kwds={"groups": clusters, "df_correction": False}
    )
    half = stats.t.ppf(0.975, 69) * fit.bse[0]
    found = mean_interval(x, clusters=clusters)
    assert ends(found) == pytest.approx((x.mean() - half, x.mean() + half))
    assert (found.method, found.units, found.n) == ("Student t", "clusters", 70)
    low, high = ends(mean_interval(x, clusters=clusters, value_range=RANGE))
    assert high - low == pytest.approx(2 * half, rel=0.1)


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


@pytest.mark.equals("scipy", what="Clopper-Pearson's interval (`binomtest`)", within="1e-6")
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
    assert (found.method, found.p) == ("Gaffke", 1.0)
    assert ends(found)[0] < 0 < ends(found)[1]
    assert mean_interval(np.r_[np.ones(6), np.zeros(6)], value_range=(0, 3)).method == "Gaffke"


@pytest.mark.parametrize(("n", "loss", "rare", "most"), [(10, 0.6, 0.05, 0.02), (50, 1.0, 0.02, 0.06)])
def test_gates_at_their_boundary_rarely_pass_wrongly(n: int, loss: float, rare: float, most: float) -> None:
    """A few queries lose much and the others hardly move: the limit of the loss is seldom above its true mean."""
    rng = np.random.default_rng(5)
    passes = 0
    for _ in range(200):
        d = np.where(rng.random(n) < rare, -loss, rng.normal(0, 0.02, n))
        passes += ends(mean_interval(d, value_range=(-1, 1), differences=True))[0] > -rare * loss
    assert passes / 200 <= most


@pytest.mark.parametrize("differing", [3, 9, 10, 50])
def test_the_reach_of_differences_does_not_depend_on_their_number(differing: int) -> None:
    """All small: the ends of the range are at 1/2. One above 1/2: they are at that one."""
    small = np.r_[np.full(differing, 0.01), np.zeros(50 - differing)]
    for d, far in ((small, 0.5), (np.r_[small[1:], -0.8], 0.8)):
        found = ends(mean_interval(d, value_range=(-1, 1), differences=True))
        expected = lower_limit(d, np.ones(50), -far, 0.025), -lower_limit(-d, np.ones(50), -far, 0.025)
        assert found == pytest.approx(expected, abs=1e-9)


def test_the_mean_of_rare_successes_is_held() -> None:
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


def test_unequal_clusters_hold_the_mean_of_cases() -> None:
    """Ten clusters whose size goes with their value: the interval is of the mean over cases."""
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(400):
        sizes = rng.integers(1, 6, 10)
        clusters = np.repeat(np.arange(10), sizes)
        x = (sizes / 10)[clusters]
        low, high = ends(mean_interval(x, clusters=clusters, value_range=RANGE))
        held += low <= (1 + 4 + 9 + 16 + 25) / 150 <= high
    assert held >= 0.93 * 400


def test_the_order_of_cases_says_nothing() -> None:
    """Sorted or shuffled, the interval is the same."""
    x = np.random.default_rng(5).beta(2, 2, 40)
    assert ends(mean_interval(x, value_range=RANGE)) == pytest.approx(
        ends(mean_interval(np.sort(x), value_range=RANGE)), abs=1e-12
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
)
def test_no_interval_has_zero_width(values: list[float], clusters: int) -> None:
    """With a range there is an interval for any scores, it has a width, and it holds their mean."""
    groups = np.arange(len(values)) // clusters
    found = mean_interval(values, clusters=groups, value_range=RANGE)
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
    assert found.mean is None
    assert found.p is None
    assert found.method == "Gaffke, Imbens-Manski"
    # The bounds are ten standard errors apart, so that one-sided limits are enough.
    expected = (
        lower_limit(low, np.ones(100), 0.0, 0.05),
        -lower_limit(-high, np.ones(100), -1.0, 0.05),
    )
    assert ends(found) == pytest.approx(expected, abs=1e-4)
    once = stats.t.ppf(0.95, 99)
    assert ends(mean_interval(open_, bounds=(np.zeros(100), np.ones(100)))) == pytest.approx(
        (low.mean() - once * stats.sem(low), high.mean() + once * stats.sem(high)), abs=1e-4
    )
    shares = np.r_[np.full(4, np.nan), np.zeros(8), np.ones(8)]
    yes = mean_interval(shares, bounds=(np.zeros(20), np.ones(20)), value_range=RANGE)
    assert yes.method == "Clopper-Pearson, Imbens-Manski"
    assert ends(yes)[0] < 0.4
    assert ends(yes)[1] > 0.6


def test_imbens_manski_solves_its_equation() -> None:
    """The constant falls from the two-sided to the one-sided quantile as the set grows."""
    assert imbens_manski(0, 30) == pytest.approx(stats.t.ppf(0.975, 30))
    assert imbens_manski(50, 30) == pytest.approx(stats.t.ppf(0.95, 30), abs=1e-6)
    c = imbens_manski(0.7, 30)
    assert stats.t.cdf(c + 0.7, 30) - stats.t.cdf(-c, 30) == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("values", "given", "message"),
    [
        ([0.5, np.nan], {}, "bounds"),
        ([0.5, 1.5], {"value_range": RANGE}, "outside value_range"),
        ([0.5, np.nan], {"bounds": ([0, 1], [1, 0])}, "low <= high"),
        ([0.5, 0.5], {"value_range": (1, 1)}, "outside|empty"),
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
