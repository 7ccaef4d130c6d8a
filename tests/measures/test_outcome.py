"""The one proportion: values, exact bounds, what was counted."""

from __future__ import annotations

from itertools import product
from math import fsum, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane.measures.outcome import Item, complement, incomplete, ok, proportion, skipped
from germane.questions.asking import Unanswered

verdicts = st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=7)
weights = st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=7, max_size=7)


def fill(held, answers):
    given_answers = iter(answers)
    return [next(given_answers) if one is None else one for one in held]


@given(verdicts, weights)
def test_bounds_are_exact(held, heavy):
    """The bounds of an incomplete proportion are the least and the most over every way the missing could come out."""
    items = [Item("x", one, weight=w) for one, w in zip(held, heavy, strict=False)]
    outcome = proportion(items)
    missing = held.count(None)
    every = [
        proportion(
            [Item("x", one, weight=w) for one, w in zip(fill(held, answers), heavy, strict=False)]
        ).value
        or 0.0
        for answers in product([True, False], repeat=missing)
    ]
    if not missing:
        assert outcome.value == every[0]
    elif missing == len(held):
        assert outcome.status == "error"
    else:
        assert outcome.bounds is not None
        assert isclose(outcome.bounds[0], min(every))
        assert isclose(outcome.bounds[1], max(every))


@given(verdicts, st.randoms())
def test_order_changes_nothing(held, random):
    """A proportion does not know the order of what it counts."""
    mixed = list(held)
    random.shuffle(mixed)
    marks = [[Unanswered("x") if one is None else one for one in row] for row in (held, mixed)]
    assert proportion(marks[0]) == proportion(marks[1])


@given(st.lists(st.booleans(), min_size=1, max_size=6), st.integers(0, 30), st.integers(0, 30))
def test_a_missing_list_can_be_anything(known, yes, no):
    """However many statements a hidden list holds, the share lies within its bounds, and these are not too wide."""
    outcome = proportion([Item("x", one) for one in known], hidden=[Unanswered("y")])
    assert outcome.bounds == (0.0, 1.0)
    whole = proportion([*known, *[True] * yes, *[False] * no])
    assert whole.value is not None
    assert 0.0 <= whole.value <= 1.0


def test_a_list_that_is_missing_alone():
    """With nothing counted there is nothing to bound."""
    assert proportion([], hidden=[Unanswered("y")]).status == "error"
    assert proportion([], nothing="nothing there") == skipped("nothing there")


@given(verdicts)
def test_complement(held):
    """1 - the value, the bounds turned round, the status as it was."""
    marks = [Unanswered("x") if one is None else one for one in held]
    one, other = proportion(marks), complement(proportion(marks))
    assert one.status == other.status
    if one.value is not None:
        assert fsum([one.value, other.value or 0.0]) == 1.0
    if one.bounds:
        assert other.bounds == (1 - one.bounds[1], 1 - one.bounds[0])


def test_no_number_is_an_error():
    """NaN and infinity are never scores."""
    for value in (float("nan"), float("inf")):
        assert ok(value).status == "error"


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_to_count(count):
    """Nothing, or nothing that weighs anything, is skipped with its reason."""
    assert proportion([Item("x", held=True, weight=0.0)] * count, nothing="none") == skipped("none")


@pytest.mark.parametrize(("bounds", "status"), [((0.3, 0.1 + 0.2), "ok"), ((0.3, 0.3 + 1e-6), "incomplete")])
def test_bounds_that_only_rounding_tells_apart_are_one_value(bounds, status):
    """Sums of the same terms in another order differ in their last digit; the score is certain."""
    assert incomplete("why", bounds).status == status
