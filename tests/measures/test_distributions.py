"""Labels that are distributions: a place is relevant with a probability, and is worth its expected gain."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane.measures import bounds
from germane.measures.measure import Measure
from germane.places.table import RankedLabels, chances_table, pointers_of

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
        expected = bounds.values(measure, certain(lists))
        assert bounds.values(measure, sure) == pytest.approx(expected, abs=1e-12), str(measure)


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
        expected = np.average(bounds.values(measure, possible), weights=weights)
        assert bounds.values(measure, table)[0] == pytest.approx(expected, abs=1e-9), name
    found = bounds.fraction(Measure.parse("context_precision"), table)
    each = bounds.fraction(Measure.parse("context_precision"), possible)
    assert found is not None
    assert each is not None
    for side, sides in zip(found, each, strict=True):
        assert side[0] == pytest.approx(np.average(sides, weights=weights), abs=1e-9)


@given(st.lists(CHANCES, min_size=2, max_size=4))
def test_a_value_has_the_same_bits_in_any_batch(lists: list[list[float]]) -> None:
    """It depends on its own row alone."""
    table = probable([[two(one) for one in row] for row in lists])
    for measure in MEASURES:
        if measure.name == "ERR" or measure.settings.get("dcg") == "exp-log2":
            continue  # refused over uncertain labels
        alone = [bounds.values(measure, table.rows_from(n, n + 1))[0] for n in range(len(lists))]
        assert bounds.values(measure, table).tolist() == alone


DISTRIBUTION = (
    st.lists(st.integers(0, 5), min_size=4, max_size=4)
    .filter(any)
    .map(lambda counts: tuple(count / sum(counts) for count in counts))
)
