from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from germane.statistics import correction
from germane.statistics.correction import (
    POPULATIONS,
    Population,
    _degrees,
)
from germane.statistics.intervals import CorrectedMean

SIZE = 600


def population(noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """People's grades, a judge's grades that are too high, and queries that differ."""
    rng = np.random.default_rng(seed)
    queries = np.repeat(np.arange(60), 10)
    people = np.clip(np.round(rng.normal(1.2, 0.5, 60)[queries] + rng.normal(0, 0.9, SIZE)), 0, 3)
    judge = np.clip(np.round(people + 0.6 + rng.normal(0, noise, SIZE)), 0, 3)
    return people, judge, queries


def labelled(people: np.ndarray, places: np.ndarray) -> np.ndarray:
    labels = np.full(len(people), np.nan)
    labels[places] = people[places]
    return labels


def drawn(strata: np.ndarray, counts: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Places of a simple random sample of so many from each stratum."""
    names = np.unique(strata)
    own = [
        rng.choice(np.flatnonzero(strata == name), count, replace=False)
        for name, count in zip(names, counts, strict=True)
    ]
    return np.concatenate(own)


def corrected_mean(*args: Any, **how: Any) -> CorrectedMean:
    found = correction.corrected_mean(*args, **how)
    assert not isinstance(found, str), found
    return found


def corrected_query_mean(*args: Any, **how: Any) -> CorrectedMean:
    found = correction.corrected_query_mean(*args, **how)
    assert not isinstance(found, str), found
    return found


def width(pair: Sequence[float] | None) -> float:
    assert pair is not None
    return pair[1] - pair[0]


def test_labels_alone_are_a_simple_random_sample() -> None:
    """Human-only: the mean, and nearly Student's t with the finite population correction, as in any text-book."""
    people, judge, _ = population(0.5)
    labels = labelled(people, np.random.default_rng(1).choice(SIZE, 80, replace=False))
    found = corrected_mean(judge, labels, value_range=(0, 3))
    y = labels[~np.isnan(labels)]
    half = stats.t.ppf(0.975, 79) * y.std(ddof=1) * np.sqrt((1 - 80 / SIZE) / 80)
    assert found.human == pytest.approx(y.mean())
    assert width(found.human_ends) / 2 == pytest.approx(half, rel=0.05)
    assert (found.labels, found.total) == (80, SIZE)
    assert found.judged == pytest.approx(judge.mean())


def test_the_correction_is_the_regression_estimator() -> None:
    """The weight is the slope of labels on the judge, the variance that of the residuals plus the slope's share."""
    people, judge, _ = population(0.5)
    known = np.random.default_rng(1).choice(SIZE, 80, replace=False)
    found = corrected_mean(judge, labelled(people, known))
    line = stats.linregress(judge[known], people[known])
    residuals = people[known] - line.intercept - line.slope * judge[known]
    gap = judge.mean() - judge[known].mean()
    assert found.weight == pytest.approx(line.slope)
    assert found.mean == pytest.approx(people[known].mean() + line.slope * gap)
    slopes = [
        stats.linregress(np.delete(judge[known], place), np.delete(people[known], place)).slope
        for place in range(80)
    ]
    jackknife = 79 / 80 * np.square(np.array(slopes) - np.mean(slopes)).sum()
    error = np.sqrt((1 - 80 / SIZE) * np.square(residuals).sum() / 78 / 80 + gap**2 * jackknife)
    assert width(found.ends) / 2 == pytest.approx(stats.t.ppf(0.975, 78) * error, rel=0.05)
    assert found.ess == pytest.approx(80 * (width(found.human_ends) / width(found.ends)) ** 2)
    assert (found.ess or 0) > 80


def test_a_better_judge_saves_labels_and_a_useless_one_costs_few() -> None:
    """The noisier the judge, the smaller the weight; a judge of pure noise is hardly wider than no judge."""
    people, judge, _ = population(0.3)
    known = np.random.default_rng(2).choice(SIZE, 100, replace=False)
    noise = np.random.default_rng(3).permutation(judge)
    good, poor = (corrected_mean(grades, labelled(people, known)) for grades in (judge, noise))
    assert good.weight > 0.5 > poor.weight
    assert width(good.ends) < 0.7 * width(good.human_ends)
    assert width(poor.ends) < 1.02 * width(poor.human_ends)


def test_a_perverse_or_constant_judge_has_no_weight() -> None:
    """A judge that goes against people is left out rather than turned round, and so is one that never varies."""
    people, judge, _ = population(0.3)
    labels = labelled(people, np.arange(0, SIZE, 6))
    for grades in (3 - judge, np.ones(SIZE)):
        found = corrected_mean(grades, labels)
        assert found.weight == 0
        assert found.mean == found.human


def test_whole_queries_correct_any_measure() -> None:
    """Estimand B: one value per query, whatever it measures; some queries labelled whole."""
    rng = np.random.default_rng(5)
    truth = rng.beta(3, 2, 80)
    judged = np.clip(truth + 0.1 + rng.normal(0, 0.08, 80), 0, 1)
    held = 0
    for _ in range(300):
        found = corrected_mean(judged, labelled(truth, rng.choice(80, 25, replace=False)), value_range=(0, 1))
        low, high = found.ends
        held += low <= truth.mean() <= high
        assert width(found.ends) < width(found.human_ends)
    assert held >= 276


@pytest.mark.parametrize("sampled", [60, 25])
def test_partly_labelled_queries_cover_the_mean_over_queries(sampled: int) -> None:
    """Estimand C: four of ten passages in every query, or in some of the queries."""
    people, judge, queries = population(0.6)
    truth = people.reshape(60, 10).mean()
    rng = np.random.default_rng(6)
    held, errors, saved = 0, [], []
    for _ in range(300):
        chosen = rng.choice(60, sampled, replace=False)
        places = np.concatenate([10 * query + rng.choice(10, 4, replace=False) for query in chosen])
        found = corrected_query_mean(judge, labelled(people, places), queries, value_range=(0, 3))
        low, high = found.ends
        held += low <= truth <= high
        errors.append((found.mean or 0) - truth)
        saved.append(width(found.ends) / width(found.human_ends))
        assert found.queries == sampled
    assert held >= 276
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(300)
    assert np.mean(saved) < 0.9


def test_two_stages_by_hand() -> None:
    """With a judge that knows nothing, Cochran's variance of two-stage sampling."""
    people, _, queries = population(0.6)
    places = np.concatenate([10 * query + np.arange(4) for query in range(0, 60, 2)])
    found = corrected_query_mean(np.ones(SIZE), labelled(people, places), queries)
    y = people.reshape(60, 10)[::2, :4]
    variance = (1 - 30 / 60) * y.mean(axis=1).var(ddof=1) / 30
    within = (1 - 4 / 10) * y.var(axis=1, ddof=1).sum() / 4 / (30 * 60)
    assert found.human == pytest.approx(y.mean())
    # Between the quantiles for 29 and for any number of degrees of freedom, by Satterthwaite.
    half = width(found.ends) / 2 / np.sqrt(variance + within)
    assert stats.norm.ppf(0.975) < half < stats.t.ppf(0.975, 29)


def test_queries_to_come_are_less_certain_than_those_of_the_report() -> None:
    """As a sample of queries, the same labels give the interval of the query means."""
    people, _, queries = population(0.6)
    places = np.concatenate([10 * query + np.arange(4) for query in range(60)])
    labels = labelled(people, places)
    report = corrected_query_mean(np.ones(SIZE), labels, queries)
    future = corrected_query_mean(np.ones(SIZE), labels, queries, population="queries")
    means = people.reshape(60, 10)[:, :4].mean(axis=1)
    assert future.ends == pytest.approx(stats.t.interval(0.95, 59, means.mean(), stats.sem(means)))
    assert width(future.ends) > width(report.ends)


def test_a_grade_stands_in_for_a_yes_or_no() -> None:
    """The judged mean stays that of the yes and no, the interval is narrower."""
    people, judge, queries = population(0.6)
    rng = np.random.default_rng(7)
    plain, by_grade = [], []
    for _ in range(50):
        labels = labelled((people >= 2).astype(float), drawn(queries, [4] * 60, rng))
        judged = (judge >= 2).astype(float)
        one = corrected_query_mean(judged, labels, queries, value_range=(0, 1))
        other = corrected_query_mean(judged, labels, queries, proxy=judge, value_range=(0, 1))
        assert one.judged == other.judged == pytest.approx(judged.mean())
        plain.append(width(one.ends))
        by_grade.append(width(other.ends))
    assert np.mean(by_grade) < np.mean(plain)


def test_nearly_equal_labels_fall_back_to_labels_alone() -> None:
    """Two positives among 60 labels: the exact interval of the labels, named, never one of zero width."""
    people = np.zeros(SIZE)
    people[:20] = 1
    labels = labelled(people, np.r_[0, 1, np.arange(100, 158)])
    for found in (
        corrected_mean(people, labels, value_range=(0, 1)),
        corrected_mean(people, labelled(np.zeros(SIZE), np.arange(60)), value_range=(0, 1)),
    ):
        assert found.method == "labels alone, Clopper-Pearson"
        assert width(found.ends) > 0
        assert found.ends == found.human_ends


def test_the_fallback_keeps_the_estimand() -> None:
    """Labels alone weigh queries alike in a mean over queries."""
    people = np.zeros(SIZE)
    people[:20] = 1
    places = np.r_[0, 1, np.arange(100, 158)]
    by_query = corrected_query_mean(
        people, labelled(people, places), np.arange(SIZE) // 10, value_range=(0, 1)
    )
    assert by_query.mean == pytest.approx(1 / 7)
    assert by_query.method.startswith("labels alone")


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        (np.full(SIZE, np.nan), "0 labels"),
        (labelled(np.ones(SIZE), np.arange(1)), "1 label: at least 10"),
        (labelled(np.ones(SIZE), np.arange(5)), "5 labels: at least 10"),
    ],
)
def test_too_few_labels_correct_nothing(labels: np.ndarray, why: str) -> None:
    """There is no corrected mean, and the reason says what is missing."""
    assert why in str(correction.corrected_mean(np.ones(SIZE), labels))
    assert why in str(correction.corrected_query_mean(np.ones(SIZE), labels, np.arange(SIZE) // 10))


def test_labels_in_two_queries_are_too_few() -> None:
    """Labels in fewer than three queries correct no mean over queries."""
    people, judge, queries = population(0.5)
    labels = labelled(people, np.arange(20))
    assert "2 queries" in str(correction.corrected_query_mean(judge, labels, queries))


def test_all_labelled_is_exact() -> None:
    """Nothing is left to estimate, and the reason says so."""
    people, judge, queries = population(0.5)
    assert correction.corrected_mean(judge, people) == "nothing is left to correct: all are labelled"
    assert (
        correction.corrected_query_mean(judge, people, queries)
        == "nothing is left to correct: all are labelled"
    )


def test_one_label_per_query_is_enough_and_not_too_narrow() -> None:
    """Without two labels in any query the spread between queries stands for all."""
    people, judge, queries = population(0.5)
    places = np.arange(0, SIZE, 10)
    found = corrected_query_mean(judge, labelled(people, places), queries)
    assert width(found.ends) == pytest.approx(
        2 * stats.t.ppf(0.975, 59) * stats.sem(people[places]), rel=0.01
    )


@pytest.mark.parametrize("budget", [12, 25, 28, 40])
def test_few_labels_beyond_one_in_each_query_still_cover(budget: int) -> None:
    """Labels in rounds over 25 queries of 10: with hardly any second label in a query the interval is wide enough."""
    rng = np.random.default_rng(3)
    queries = np.repeat(np.arange(25), 10)
    truth = (rng.random(250) < np.repeat(rng.beta(2, 2, 25), 10)).astype(float)
    judged = np.where(rng.random(250) < 0.75, truth, 1 - truth)
    inside, widths = [], []
    for _ in range(300):
        turn = np.argsort(rng.random((25, 10)), axis=1).argsort(axis=1).ravel()
        order = np.lexsort((rng.permutation(25)[queries], turn))[:budget]
        labels = np.full(250, np.nan)
        labels[order] = truth[order]
        found = corrected_query_mean(judged, labels, queries, value_range=(0, 1))
        inside.append(found.ends[0] <= truth.mean() <= found.ends[1])
        widths.append(found.ends[1] - found.ends[0])
    assert np.mean(inside) >= 0.92
    assert np.median(widths) <= 2.6 * np.sqrt(1 / budget)


@pytest.mark.parametrize("population", POPULATIONS)
def test_few_whole_queries_hold_the_mean(population: Population) -> None:
    """Ten of 40 skewed queries labelled whole: the interval of the residuals holds the mean of these queries, and of queries like these."""
    rng = np.random.default_rng(12)
    truth = rng.random(100_000) ** 4
    held = 0
    for _ in range(300):
        people = rng.choice(truth, 40) if population == "queries" else rng.random(40) ** 4
        judge = np.clip(people + rng.normal(0, 0.1, 40), 0, 1)
        found = corrected_mean(
            judge,
            labelled(people, np.arange(10)),
            population=population,
            value_range=(0, 1),
        )
        held += found.ends[0] <= (truth.mean() if population == "queries" else people.mean()) <= found.ends[1]
    assert held >= 0.93 * 300


def test_degrees_of_freedom_of_a_sum_of_variances() -> None:
    """Of one variance its own; of n alike n times as many, and two more for each but the first."""
    for df in (1, 4, 30):
        assert _degrees(np.array([0.3]), np.array([df])) == pytest.approx(df)
        assert _degrees(np.full(5, 0.3), np.full(5, df)) == pytest.approx(5 * (df + 2) - 2)
    assert _degrees(np.zeros(2), np.array([3, 3])) == 1
