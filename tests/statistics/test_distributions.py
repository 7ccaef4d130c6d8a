import pytest
from scipy import stats

from germane.statistics.distributions import (
    beta_cdf,
    beta_quantile,
    normal_cdf,
    normal_quantile,
    t_cdf,
    t_quantile,
)

PROBABILITIES = (1e-6, 0.001, 0.025, 0.3, 0.4999, 0.5, 0.8, 0.975, 0.9999)


@pytest.mark.parametrize("df", [1, 2, 3, 5.5, 9.5, 30, 1000, 9e4, 2e5, 1e7])
@pytest.mark.parametrize("p", PROBABILITIES)
def test_student_t_equals_scipy(p: float, df: float) -> None:
    """Quantile and distribution function of Student's t, from one to ten million degrees of freedom."""
    expected = stats.t.ppf(p, df)
    assert t_quantile(p, df) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert t_cdf(expected, df) == pytest.approx(p, rel=1e-6)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (0.5, 20), (3, 98), (50, 50), (1000, 3), (1, 1e6), (5e5, 5e5)])
@pytest.mark.parametrize("p", PROBABILITIES)
def test_beta_equals_scipy(p: float, a: float, b: float) -> None:
    """Quantile and distribution function of the beta distribution, of small and large parameters."""
    expected = stats.beta.ppf(p, a, b)
    assert beta_quantile(p, a, b) == pytest.approx(expected, rel=1e-8)
    assert beta_cdf(expected, a, b) == pytest.approx(p, rel=1e-7)


def test_normal_equals_scipy() -> None:
    """Quantile and distribution function of the normal distribution, far into the tail."""
    for z in (-8.0, -1.0, 0.0, 2.5):
        assert normal_cdf(z) == pytest.approx(stats.norm.cdf(z), rel=1e-12)
    assert normal_quantile(0.975) == pytest.approx(stats.norm.ppf(0.975))


def test_ends_of_the_beta_distribution() -> None:
    """Outside 0 to 1 the distribution function is 0 or 1, and probabilities 0 and 1 have the ends as quantiles."""
    assert [beta_cdf(x, 2, 3) for x in (-1, 0, 1, 2)] == [0, 0, 1, 1]
    assert [beta_quantile(p, 2, 3) for p in (0, 1)] == [0, 1]
