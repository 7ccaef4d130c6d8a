"""Summaries: the mean, what it rests on, what it could still become."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane.reports.summary import summarise
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
