"""Bounds of incomplete ranked scores: equal to trying every answer in plain Python."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from germane.measures import Measure
from germane.measures.bounds import MOST, bounds, values
from germane.places.table import RankedLabels

Known = list[list[int | None]]


def context_precision(grades: list[int]) -> float:
    hits, total = 0, 0.0
    for rank, grade in enumerate(grades, 1):
        if grade >= 2:
            hits += 1
            total += hits / rank
    return total / hits if hits else 0.0


def context_position(grades: list[int]) -> float:
    weights = [1 / rank for rank in range(1, len(grades) + 1)]
    relevant = sum(w for w, grade in zip(weights, grades, strict=True) if grade >= 2)
    return relevant / sum(weights) if weights else 0.0


def ndcg(grades: list[int]) -> float:
    def dcg(gains: list[int]) -> float:
        return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))

    ideal = dcg(sorted(grades, reverse=True))
    return dcg(grades) / ideal if ideal else 0.0


def reciprocal_rank(grades: list[int]) -> float:
    return next((1 / rank for rank, grade in enumerate(grades, 1) if grade >= 2), 0.0)


PLAIN: dict[str, Callable[[list[int]], float]] = {
    "context_precision": context_precision,
    "context_precision@3": lambda grades: context_precision(grades[:3]),
    "context_position": context_position,
    "nDCG(labels=judge)": ndcg,
    "RR(labels=judge)@4": lambda grades: reciprocal_rank(grades[:4]),
}

places = st.tuples(st.none() | st.integers(0, 3), st.integers(0, 2))
"""A known grade, or None and which of three verdicts is missing."""
calls = st.lists(st.lists(places, min_size=1, max_size=6), min_size=1, max_size=2)


def table(known: Known) -> RankedLabels:
    return RankedLabels.of_lists(known, rel=2)


def brute_force(
    formula: Callable[[list[int]], float], rows: list[list[tuple[int | None, int]]]
) -> list[float]:
    """The mean over the rows for every answer to the three verdicts."""
    means = []
    for answers in itertools.product(range(4), repeat=3):
        filled = [[answers[verdict] if grade is None else grade for grade, verdict in row] for row in rows]
        means.append(sum(map(formula, filled)) / len(filled))
    return means


@settings(max_examples=150)
@given(calls, st.sampled_from(sorted(PLAIN)))
def test_bounds_are_those_of_trying_every_answer(rows: list[list[tuple[int | None, int]]], name: str) -> None:
    """The same passage twice (or in two calls) gets one verdict; every combination of the others is tried."""
    missing = np.array([verdict if grade is None else -1 for row in rows for grade, verdict in row])
    means = brute_force(PLAIN[name], rows)
    got = bounds(Measure.parse(name), table([[grade for grade, _ in row] for row in rows]), missing)
    assert got == pytest.approx((min(means), max(means)), abs=1e-12)


def test_nothing_missing_leaves_the_value() -> None:
    """Without a missing verdict both bounds are the value itself."""
    known = table([[3, 0, 2]])
    low, high = bounds(Measure.parse("context_precision"), known, np.array([-1, -1, -1]))
    assert low == high == values(Measure.parse("context_precision"), known)[0]


def test_neither_all_relevant_nor_none_is_the_extreme() -> None:
    """Average precision is not monotone in the labels: the lowest value has one of two relevant."""
    low, high = bounds(Measure.parse("context_precision"), table([[2, None, None]]), np.array([-1, 0, 1]))
    assert (low, high) == pytest.approx(((1 + 2 / 3) / 2, 1.0))


def test_binary_verdicts_have_two_answers() -> None:
    """On the yes / no scale a missing verdict is 1 or 0, and 1 is relevant at any threshold."""
    low, high = bounds(
        Measure.parse("nDCG(labels=judge)"), table([[1, None]]), np.array([-1, 0]), binary=True
    )
    assert (low, high) == (1.0, 1.0)
    assert bounds(Measure.parse("RR(labels=judge)"), table([[None]]), np.array([0]), binary=True) == (
        0.0,
        1.0,
    )
    low, high = bounds(Measure.parse("nDCG(labels=judge)"), table([[1, None]]), np.array([-1, 0]))
    assert (low, high) == pytest.approx(((1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)), 1.0))


def test_too_many_combinations_are_the_whole_range() -> None:
    """Beyond 2**14 combinations nothing is tried: 14 yes / no verdicts are exact, 15 are not."""
    assert MOST == 2**14
    relevant_first = Measure.parse("context_precision")
    for count, expected in ((14, (1 / 15, 1.0)), (15, (0.0, 1.0))):
        known: Known = [[None] * count + [2]]
        missing = np.array([*range(count), -1])
        low, high = bounds(relevant_first, table(known), missing)
        assert (low, high) == pytest.approx(expected)


def test_what_stands_below_the_cutoff_does_not_count_as_missing() -> None:
    """Fifty missing verdicts below rank 2 leave a measure at 2 exact."""
    known: Known = [[2, 0] + [None] * 50]
    missing = np.array([-1, -1, *range(50)])
    assert bounds(Measure.parse("P(labels=judge)@2"), table(known), missing) == (0.5, 0.5)


def test_long_lists_are_tried_in_parts_with_the_same_result() -> None:
    """Ten missing verdicts in a list of 2,000 places are as exact as in a short one."""
    known: Known = [[None] * 10 + [2] + [0] * 1989]
    missing = np.array([*range(10), *[-1] * 1990])
    assert bounds(Measure.parse("RR(labels=judge)"), table(known), missing) == (1 / 11, 1.0)


FORMULAS: dict[str, Callable[[list[int], list[int], int], float]] = {
    "nDCG": lambda top, known, k: _ratio(dcg(top[:k]), dcg(sorted(known, reverse=True)[:k])),
    "R": lambda top, known, k: _ratio(hits(top[:k]), hits(known)),
    "AP": lambda top, known, k: _ratio(
        sum(hits(top[:r]) / r for r, grade in enumerate(top[:k], 1) if grade), hits(known)
    ),
    "F1": lambda top, known, k: 2 * hits(top[:k]) / (k + hits(known)),
    "P": lambda top, known, k: hits(top[:k]) / k,
}


def dcg(gains: list[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def hits(grades: list[int]) -> int:
    return sum(grade >= 1 for grade in grades)


def _ratio(share: float, whole: float) -> float:
    return share / whole if whole else 0.0


gold = st.fixed_dictionaries({}, optional={document: st.integers(0, 3) for document in "abcdxyz"}).filter(any)
searches = st.lists(st.permutations("abcde").map(lambda ids: ids[:4]), min_size=1, max_size=2)
