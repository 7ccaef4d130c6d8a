import krippendorff
import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score, confusion_matrix

from germane.statistics.agreement import agreement, cohen_kappa, confusion

RNG = np.random.default_rng(0)
PEOPLE = RNG.integers(0, 4, 300).astype(float)
JUDGE = np.clip(PEOPLE + RNG.integers(-1, 3, 300), 0, 3)
QUERIES = np.repeat(np.arange(30), 10)


@pytest.mark.equals(
    "scikit-learn", what="Cohen's kappa, plain and quadratic; the confusion table", within="1e-6"
)
def test_agreement_equals_the_libraries() -> None:
    """Kappa, quadratic kappa, confusion and ordinal alpha, as scikit-learn and krippendorff compute them."""
    found = agreement(JUDGE, PEOPLE, queries=QUERIES)
    assert found.kappa == pytest.approx(cohen_kappa_score(PEOPLE, JUDGE))
    assert found.kappa_quadratic == pytest.approx(cohen_kappa_score(PEOPLE, JUDGE, weights="quadratic"))
    alpha = krippendorff.alpha(np.stack([PEOPLE, JUDGE]), level_of_measurement="ordinal")
    assert found.alpha_ordinal == pytest.approx(alpha)
    assert found.confusion.table.tolist() == confusion_matrix(PEOPLE, JUDGE).tolist()
    assert found.raw == pytest.approx((PEOPLE == JUDGE).mean())
    assert found.base_rate == np.bincount(PEOPLE.astype(int)).max() / 300
    assert (found.n, found.queries, found.illegal) == (300, 30, {})


def test_illegal_grades_are_counted_and_not_clipped() -> None:
    """A grade of 10 is a grade of its own, as for scikit-learn and krippendorff, and is named."""
    judge = JUDGE.copy()
    judge[:2], judge[5] = 10, 5
    found = agreement(judge, PEOPLE)
    assert found.illegal == {"5": 1, "10": 2}
    assert list(found.confusion.grades) == [0, 1, 2, 3, 5, 10]
    assert found.kappa == pytest.approx(cohen_kappa_score(PEOPLE, judge))
    assert found.alpha_ordinal == pytest.approx(
        krippendorff.alpha(np.stack([PEOPLE, judge]), level_of_measurement="ordinal")
    )
    assert found.bias.mean == pytest.approx((judge - PEOPLE).mean())


def test_bias_is_over_queries_as_clusters() -> None:
    """The judge's mean less people's, with Student's t over 30 queries."""
    found = agreement(JUDGE, PEOPLE, queries=QUERIES).bias
    means = (JUDGE - PEOPLE).reshape(30, 10).mean(axis=1)
    assert found.ends == pytest.approx(stats.t.interval(0.95, 29, means.mean(), stats.sem(means)))


def test_a_perfect_judge_has_no_bias_but_an_interval() -> None:
    """No error among 300 does not mean that there is none: the interval has a width."""
    found = agreement(PEOPLE, PEOPLE, queries=QUERIES)
    assert (found.raw, found.kappa, found.kappa_quadratic, found.alpha_ordinal) == (1, 1, 1, 1)
    assert found.bias.ends is not None
    assert found.bias.ends[0] < 0 < found.bias.ends[1]


def test_one_grade_alone_has_no_kappa() -> None:
    """Where both always say 0 agreement beyond chance is not defined: None, never nan."""
    found = agreement(np.zeros(10), np.zeros(10))
    assert (found.raw, found.kappa, found.kappa_quadratic, found.alpha_ordinal) == (1, None, None, None)


def test_nothing_labelled_is_no_agreement() -> None:
    """Empty input gives None throughout."""
    found = agreement([], [])
    assert (found.n, found.raw, found.kappa, found.alpha_ordinal, found.bias.ends) == (
        0,
        None,
        None,
        None,
        None,
    )


def test_kappa_of_the_published_example() -> None:
    """Two raters, 50 proposals: 20 both yes, 15 both no, 5 and 10 apart; kappa .4."""
    pairs = confusion([1] * 20 + [0] * 5 + [1] * 10 + [0] * 15, [1] * 25 + [0] * 25)
    assert cohen_kappa(pairs) == pytest.approx(0.4)
