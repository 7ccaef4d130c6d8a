"""Summaries: the mean, what it rests on, what it could still become."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane.reports.gates import decide
from germane.reports.summary import Basis, summarise
from germane.statistics.intervals import mean_interval
from germane.types import Score


def score(sample: str, value: float | None, trial: int = 0, **more: Any) -> Score:
    status: Any = "ok" if value is not None else more.pop("status", "error")
    why = None if value is not None else "for a reason"
    return Score(
        sample=sample, measure="m", type="m", value=value, trial=trial, status=status, why=why, **more
    )


def test_failures_cannot_flatter() -> None:
    """The mean is over what is ok; its bounds put an error anywhere from 0 to 1 and an incomplete at its own bounds."""
    (line,) = summarise(
        [
            score("a", 1.0),
            score("b", 0.5),
            score("c", None),
            score("d", None, status="incomplete", bounds=(0.25, 0.5)),
            score("e", None, status="skipped"),
        ]
    )
    assert line.mean == pytest.approx(0.75)
    assert line.mean_bounds == pytest.approx((1.75 / 4, 3.0 / 4))
    assert (line.n, line.total, line.skipped, line.incomplete, line.errors) == (2, 5, 1, 1, 1)


def test_the_case_is_the_unit() -> None:
    """Three trials of one case weigh as much as one trial of another."""
    scores = [score("a", 1.0), score("a", 1.0, 1), score("a", 1.0, 2), score("b", 0.0)]
    (line,) = summarise(scores)
    assert line.mean == pytest.approx(0.5)
    assert line.n == 2


def test_a_failed_trial_widens_only_its_own_case() -> None:
    """Case a has one of two trials missing: it lies between 0.5 and 1."""
    (line,) = summarise([score("a", 1.0), score("a", None, 1), score("b", 0.0)])
    assert line.mean_bounds == pytest.approx((0.25, 0.5))


@pytest.mark.parametrize(
    ("trials", "counts", "told", "words"),
    [
        ({"a": [1, 1, 1], "b": [0, 0, 1]}, (2, 2, 0, 0, 0), {"trials": 3, "trials_failed": 0}, "2/2 (3 trials each)"),
        ({"a": [1, "error", 1], "b": [0, 0, "skipped"]}, (2, 2, 0, 0, 0), {"trials": 3, "trials_failed": 1}, "2/2 (3 trials each)"),
        (
            {"a": ["error", "skipped"], "b": ["incomplete"] * 2, "c": ["skipped"] * 2, "d": [1, "skipped", 0]},
            (1, 4, 1, 1, 1),
            {"trials": [2, 3], "trials_failed": 3},
            "1/4 (2 to 3 trials each)",
        ),
        ({"a": [1, 0], "b": [1]}, (2, 2, 0, 0, 0), {"trials": [1, 2], "trials_failed": 0}, "2/2 (1 to 2 trials each)"),
        ({"a": [1], "b": ["error"]}, (1, 2, 0, 0, 1), {}, "1/2"),
    ],
)  # fmt: skip
def test_counts_are_of_cases(
    trials: dict[str, list[Any]], counts: tuple[int, ...], told: dict[str, Any], words: str
) -> None:
    """A case counts once, as measured where one of its trials is; failed trials are counted beside them."""
    (line,) = summarise(
        score(name, None, at, status=value) if isinstance(value, str) else score(name, float(value), at)
        for name, values in trials.items()
        for at, value in enumerate(values)
    )
    row = line.as_json()
    assert tuple(row[name] for name in ("n", "total", "skipped", "incomplete", "errors")) == counts
    assert {name: row[name] for name in ("trials", "trials_failed") if name in row} == told
    assert line.count_in_words() == words


def test_what_is_unmeasured_counts_scores() -> None:
    """One failed trial of twelve is 8% unmeasured, although every case has a value; the mean says what it lacks."""
    lines = summarise(score(str(at // 4), None if at == 5 else 1.0, at % 4) for at in range(12))
    assert decide([], lines, max_unmeasured=0.08).exit_code == 3
    assert decide([], lines, max_unmeasured=0.09).exit_code == 0
    assert lines[0].in_words() == "1.0000 over 3 of 3 (0.91 to 1.00 over all)"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.randoms())
def test_the_order_of_scores_changes_nothing(values: list[float], shuffler: random.Random) -> None:
    """Sums are exact, so the mean has the same bits in any order."""
    scores = [score(str(n), value) for n, value in enumerate(values)]
    (before,) = summarise(scores)
    shuffler.shuffle(scores)
    (after,) = summarise(scores)
    assert before.mean == after.mean


def test_systems_are_told_apart() -> None:
    """Two systems give two lines, in order of appearance."""
    scores = [
        Score(sample="a", measure="m", type="m", system=system, value=value)
        for system, value in (("y", 1.0), ("x", 0.0))
    ]
    assert [(line.system, line.mean) for line in summarise(scores)] == [("y", 1.0), ("x", 0.0)]


def test_every_mean_has_an_interval_over_its_cases() -> None:
    """Shares get the exact interval, everything else the method that its values call for; trials are one case."""
    (share,) = summarise([score(str(n), float(n < 15)) for n in range(20)])
    assert (share.interval_method, share.level, share.units) == ("Clopper-Pearson", 0.95, 20)
    assert share.interval == pytest.approx((0.5090, 0.9134), abs=1e-4)  # R: binom.test(15, 20)
    values = [n / 100 for n in range(1, 100)]
    (mean,) = summarise([score(str(n), value) for n, value in enumerate(values)])
    assert mean.interval_method == "Gaffke"
    assert mean.interval == mean_interval(values, value_range=(0, 1)).ends
    (tried,) = summarise([score(str(n), v, t) for t in range(3) for n, v in enumerate(values)])
    assert tried.units == 99
    assert tried.interval == pytest.approx(mean.interval)


def test_the_interval_covers_what_failures_could_be() -> None:
    """With an error it reaches beyond the mean's bounds."""
    rows = [score(str(n), n / 100) for n in range(100)]
    (line,) = summarise([*rows, *(score(f"lost {n}", None) for n in range(10))])
    assert line.interval is not None
    assert line.mean_bounds is not None
    assert line.interval[0] < line.mean_bounds[0] < line.mean_bounds[1] < line.interval[1]
    assert line.interval_method == "Gaffke, Imbens-Manski"


def test_clusters_are_the_unit() -> None:
    """Sixty cases in six clusters of equal values say as little as six cases."""
    rows = [score(str(n), (n % 6) / 10) for n in range(60)]
    (alone,) = summarise(rows)
    (grouped,) = summarise(rows, clusters={str(n): f"topic {n % 6}" for n in range(60)})
    assert alone.interval
    assert grouped.interval
    assert grouped.units == 6
    assert grouped.interval_method == "Gaffke, clusters"
    assert grouped.interval[1] - grouped.interval[0] > 2 * (alone.interval[1] - alone.interval[0])


def test_an_interval_that_cannot_be_says_why() -> None:
    """A count without spread has none; one that could have any value neither."""
    count = [Score(sample=str(n), measure="num_ret", type="num_ret", value=10.0) for n in range(9)]
    (line,) = summarise(count)
    assert (line.interval, line.units, line.interval_why) == (None, None, "all values are equal")
    failed = Score(sample="x", measure="num_ret", type="num_ret", status="error", why="failed")
    (line,) = summarise([*count, failed])
    assert (line.interval, line.interval_why) == (None, "missing scores could have any value")


def test_a_value_outside_its_range_still_has_an_interval() -> None:
    """A user's measure that was not loaded is thought to go from 0 to 1."""
    rows = [Score(sample=str(n), measure="mine", type="mine", value=n / 10) for n in range(60)]
    (line,) = summarise(rows)
    assert line.interval == pytest.approx((2.49886, 3.40114), abs=1e-4)


@pytest.mark.parametrize(
    ("basis", "said"),
    [
        (Basis(source="judge", calibrated=False), "uncalibrated: no human labels"),
        (Basis(source="judge", calibrated=False, labels=1), "uncalibrated: 1 person's label is stored; `germane audit` checks the judge against it"),
        (Basis(source="judge", calibrated=False, labels=40), "uncalibrated: 40 people's labels are stored; `germane audit` checks the judge against them"),
        (Basis(beside={"Judged@10": 0.6}), "60% of the top-10 results have a gold label"),
        (Basis(beside={"Judged": 0.9999}), "over 99% of the results have a gold label"),
        (Basis(beside={"Judged@5": 0.0}), "no top-5 result has a gold label"),
    ],
)  # fmt: skip
def test_remarks(basis: Basis, said: str) -> None:
    """What a mean rests on is said in a sentence."""
    assert list(basis.remarks) == [said]


@pytest.mark.parametrize(
    ("sizes", "worth"),
    [
        ([1, 1, 1, 2, 3, 5, 20] * 5 + [1, 1, 1, 2, 3], "13.5"),
        ([1] * 9 + [30], "1.7"),
        ([2, 2, 3], "2.9"),
        ([3] * 10, None),
        ([1] * 10, None),
        ([1] * 19 + [2] * 19, None),
    ],
)
def test_few_clusters_of_unequal_size_are_noted(sizes: list[int], worth: str | None) -> None:
    """Beside the mean, in print, in JSON and in a gate on its interval."""
    ids = {f"{number}-{at}": str(number) for number, size in enumerate(sizes) for at in range(size)}
    (line,) = summarise([score(name, n % 3 / 2) for n, name in enumerate(ids)], clusters=ids)
    note = f"{len(sizes)} clusters of unequal size are worth {worth} of equal size; with fewer than 20 the interval is too narrow"
    assert [*line.remarks()] == line.as_json()["basis"]["remarks"] == ([note] if worth else [])
