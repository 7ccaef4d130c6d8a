"""Labels that are distributions: a place is relevant with a probability, and is worth its expected gain."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane.measures import ranked
from germane.measures.measure import Measure
from germane.places.places import chances_table
from germane.places.table import RankedLabels, pointers_of

GRADES = st.lists(st.integers(0, 3), min_size=1, max_size=7)
CHANCES = st.lists(st.floats(0, 1), min_size=1, max_size=6)
MEASURES = [
    Measure.parse(name)
    for name in (
        "context_precision",
        "context_precision@3",
        "context_position",
        "context_relevance",
        "P(labels=judge)@3",
        "RR(labels=judge)",
        "Success(labels=judge)@2",
        "RBP(labels=judge)",
        "ERR(labels=judge)",
        "nDCG(labels=judge,ideal=retrieved)@3",
        "nDCG(labels=judge,ideal=retrieved,dcg=exp-log2)",
    )
]


def certain(lists: Sequence[Sequence[int]]) -> RankedLabels:
    return RankedLabels.of_lists(lists, rel=2)


def probable(lists: Sequence[Sequence[Sequence[float]]]) -> RankedLabels:
    """A table of distributions over the grades 0 to 3."""
    places = dict(enumerate(one for row in lists for one in row))
    modes = np.array([float(np.argmax(one)) for one in places.values()])
    means = np.array([float(np.dot(one, range(4))) for one in places.values()])
    chances = chances_table(len(places), places)
    return RankedLabels.of_columns(pointers_of(map(len, lists)), modes, means, rel=2, chances=chances)


def two(chance: float) -> tuple[float, ...]:
    return (1 - chance, 0.0, chance, 0.0)


@given(st.lists(GRADES, min_size=1, max_size=4))
def test_a_sure_judge_scores_as_its_grades(lists: list[list[int]]) -> None:
    """A distribution with all its weight on one grade is that grade, for every measure."""
    sure = probable([[np.eye(4)[grade].tolist() for grade in row] for row in lists])
    for measure in MEASURES:
        expected = ranked.values(measure, certain(lists))
        assert ranked.values(measure, sure) == pytest.approx(expected, abs=1e-12), str(measure)


@given(CHANCES)
def test_sums_are_expectations(chances: list[float]) -> None:
    """Over all verdicts that are possible, each by its probability; of a ratio each side is."""
    worlds = list(product((0, 2), repeat=len(chances)))
    weights = [
        prod(one if grade else 1 - one for one, grade in zip(chances, world, strict=True)) for world in worlds
    ]
    possible, table = certain(worlds), probable([[two(one) for one in chances]])
    for name in ("P(labels=judge)@3", "RR(labels=judge)", "Success(labels=judge)@2", "RBP(labels=judge)",
                 "context_position", "context_relevance"):  # fmt: skip
        measure = Measure.parse(name)
        expected = np.average(ranked.values(measure, possible), weights=weights)
        assert ranked.values(measure, table)[0] == pytest.approx(expected, abs=1e-9), name
    found = ranked.fraction(Measure.parse("context_precision"), table)
    each = ranked.fraction(Measure.parse("context_precision"), possible)
    assert found is not None
    assert each is not None
    for side, sides in zip(found, each, strict=True):
        assert side[0] == pytest.approx(np.average(sides, weights=weights), abs=1e-9)


@given(st.lists(CHANCES, min_size=2, max_size=4))
def test_a_value_has_the_same_bits_in_any_batch(lists: list[list[float]]) -> None:
    """It depends on its own row alone."""
    table = probable([[two(one) for one in row] for row in lists])
    for measure in MEASURES:
        alone = [ranked.values(measure, table.rows_from(n, n + 1))[0] for n in range(len(lists))]
        assert ranked.values(measure, table).tolist() == alone


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ERR(labels=judge)@1", 3.5 / 8),
        (
            "nDCG(labels=judge,ideal=retrieved,dcg=exp-log2)@1",
            3 / 3.5,
        ),  # the second is worth less on average, and more here
        ("nDCG(labels=judge,ideal=retrieved,dcg=exp-log2)", (3 + 3.5 / np.log2(3)) / (3.5 + 3 / np.log2(3))),
        ("nERR(labels=judge,ideal=retrieved)@1", 3 / 3.5),
    ],
)
def test_exponential_gains_are_expectations(name: str, value: float) -> None:
    """A passage that is a 0 or a 3 by half is worth 3.5, a certain 2 is worth 3."""
    rows: list[list[Sequence[float]]] = [[(0.0, 0.0, 1.0, 0.0), (0.5, 0.0, 0.0, 0.5)]]
    rows = [rows[0][::-1]] if name.startswith("ERR") else rows
    assert ranked.values(Measure.parse(name), probable(rows))[0] == pytest.approx(value)


DISTRIBUTION = (
    st.lists(st.integers(0, 5), min_size=4, max_size=4)
    .filter(any)
    .map(lambda counts: tuple(count / sum(counts) for count in counts))
)


@given(st.lists(DISTRIBUTION, min_size=1, max_size=4), st.integers(1, 4))
def test_exponential_gains_are_those_of_all_grades(row: list[tuple[float, ...]], k: int) -> None:
    """DCG and ERR are the expectation over every draw of grades; the ideal is the best order of that."""
    draws = [(grades, prod(one[grade] for one, grade in zip(row, grades, strict=True)))
             for grades in product(range(4), repeat=len(row))]  # fmt: skip

    def expected(order: Sequence[int], of: str) -> float:
        total = 0.0
        for grades, chance in draws:
            left, value = 1.0, 0.0
            for rank, at in enumerate(order[:k], 1):
                stop = (2 ** grades[at] - 1) / 8
                value += 8 * stop / np.log2(rank + 1) if of == "nDCG" else left * stop / rank
                left *= 1 - stop
            total += chance * value
        return total

    for of, settings in (("nDCG", ",dcg=exp-log2"), ("nERR", "")):
        measure = Measure.parse(f"{of}(labels=judge,ideal=retrieved{settings})@{k}")
        best = max(expected(order, of) for order in permutations(range(len(row))))
        value = expected(range(len(row)), of) / best if best else 0.0
        assert ranked.values(measure, probable([row]))[0] == pytest.approx(value)
