"""The ranked formulas: worked values, and laws that hold for every one of them."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane.errors import MeasureError
from germane.measures import Measure
from germane.measures.bounds import values
from germane.places.table import RankedLabels
from tests.measures.tables import Row, every_ranked_measure, rows, table

MEASURES = every_ranked_measure()
# grades by rank (None = unjudged), and the grades of gold that did not come back
MIXED: Row = ([0, 2, None, 1, -1, 3], [1, 0])
LOG = [math.log2(rank + 1) for rank in range(1, 9)]


def one(measure: str, row: Row, rel: int = 1) -> float:
    return float(values(Measure.parse(measure), table(row, rel=rel))[0])


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("P@5", 2 / 5),
        ("P@6", 3 / 6),
        ("P@10", 3 / 10),
        ("P(rel=2)@6", 2 / 6),
        ("P(holes=condensed)@3", 2 / 3),
        ("R@4", 2 / 4),
        ("R@10", 3 / 4),
        ("R(rel=2)@4", 1 / 2),
        ("F1@4", 2 * (2 / 4) * (2 / 4) / (2 / 4 + 2 / 4)),
        ("F1@10", 2 * (3 / 10) * (3 / 4) / (3 / 10 + 3 / 4)),
        ("Success@1", 0.0),
        ("Success@2", 1.0),
        ("Success(rel=3)@5", 0.0),
        ("RR", 1 / 2),
        ("RR@1", 0.0),
        ("RR(rel=3)", 1 / 6),
        ("RR(holes=condensed,rel=3)", 1 / 5),
        ("AP", (1 / 2 + 2 / 4 + 3 / 6) / 4),
        ("AP@4", (1 / 2 + 2 / 4) / 4),
        ("AP(rel=2)", (1 / 2 + 2 / 6) / 2),
        ("AP(holes=condensed)", (1 / 2 + 2 / 3 + 3 / 5) / 4),
        ("Rprec", 2 / 4),
        ("Rprec(rel=2)", 1 / 2),
        ("bpref", (3 * (1 - 1 / 2)) / 4),
        ("Judged", 5 / 6),
        ("Judged@3", 2 / 3),
        ("Judged@10", 5 / 6),
        ("RBP", 0.2 * (0.8 + 0.8**3 + 0.8**5)),
        ("RBP(p=0.5)@4", 0.5 * (0.5 + 0.5**3)),
        ("RBP(part=residual)", 1 - 0.2 * (1 + 0.8 + 0.8**3 + 0.8**4 + 0.8**5)),
        ("RBP(part=residual,p=0.5)@4", 1 - 0.5 * (1 + 0.5 + 0.5**3)),
        ("ERR", (3 / 16) / 2 + (13 / 16) * (1 / 16) / 4 + (13 / 16) * (15 / 16) * (7 / 16) / 6),
        ("ERR@3", (3 / 16) / 2),
        ("ERR(top=3)@4", (3 / 8) / 2 + (5 / 8) * (1 / 8) / 4),
        ("nERR@2", ((3 / 16) / 2) / (7 / 16 + (9 / 16) * (3 / 16) / 2)),
        ("IPrec@0", 3 / 6),
        ("IPrec@0.25", 3 / 6),
        ("IPrec@0.75", 3 / 6),
        ("IPrec@0.8", 0.0),
        ("IPrec(rel=2)@0.5", 1 / 2),
        ("num_ret", 6),
        ("num_rel", 4),
        ("num_rel_ret", 3),
        ("num_rel(rel=2)", 2),
        ("num_rel_ret(rel=3)", 1),
        ("SetP", 3 / 6),
        ("SetR", 3 / 4),
        ("SetF", 2 * (3 / 6) * (3 / 4) / (3 / 6 + 3 / 4)),
        (
            "nDCG",
            (2 / LOG[1] + 1 / LOG[3] + 3 / LOG[5]) / (3 / LOG[0] + 2 / LOG[1] + 1 / LOG[2] + 1 / LOG[3]),
        ),
        ("nDCG@4", (2 / LOG[1] + 1 / LOG[3]) / (3 / LOG[0] + 2 / LOG[1] + 1 / LOG[2] + 1 / LOG[3])),
        ("nDCG@2", (2 / LOG[1]) / (3 / LOG[0] + 2 / LOG[1])),
        ("nDCG(dcg=exp-log2)@2", (3 / LOG[1]) / (7 / LOG[0] + 3 / LOG[1])),
        ("nDCG(holes=condensed)@3", (2 / LOG[1] + 1 / LOG[2]) / (3 / LOG[0] + 2 / LOG[1] + 1 / LOG[2])),
        ("context_precision(labels=gold)", (1 / 2 + 2 / 4 + 3 / 6) / 3),
        ("context_precision(labels=gold)@4", (1 / 2 + 2 / 4) / 2),
        (
            "context_position(labels=gold)",
            (1 / 2 + 1 / 4 + 1 / 6) / (1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5 + 1 / 6),
        ),
        ("context_position(labels=gold)@3", (1 / 2) / (1 + 1 / 2 + 1 / 3)),
        ("context_relevance(labels=gold)", 3 / 6),
        ("context_relevance(labels=gold)@4", 2 / 4),
        ("context_relevance(labels=gold)@10", 3 / 6),
    ],
)
def test_worked_values(measure: str, expected: float) -> None:
    """Each formula gives the value worked out by hand, graded, with an unjudged place and a negative grade."""
    assert one(measure, MIXED) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("measure", "labels", "expected"),
    [
        ("context_precision", [1, 0, 0], 1.0),
        ("context_precision", [0, 0, 1], 1 / 3),
        ("context_precision", [1, 0, 1], 5 / 6),
        ("context_precision@3", [1, 0, 0, 1], 1.0),
        ("context_position", [0, 1, 1, 0], 0.40),
        ("context_position", [1, 0, 0, 0], 0.48),
        ("context_position", [1, 1, 1], 1.0),
        ("context_relevance", [1, 0, 1], 2 / 3),
    ],
)
def test_context_measures_give_the_values_of_their_origin(
    measure: str, labels: list[int], expected: float
) -> None:
    """The worked examples that other tools document for these measures come out."""
    got = values(Measure.parse(measure), RankedLabels.of_lists([labels]))
    assert got == pytest.approx([expected], abs=1e-12)


@pytest.mark.parametrize("measure", MEASURES, ids=str)
def test_nothing_retrieved_is_zero(measure: Measure) -> None:
    """An empty list scores 0 in every measure, whatever is known about the query; never NaN."""
    got = values(measure, table(([], []), ([], [0, -1]), ([], [2, 1])))
    assert got.tolist() == [0.0, 0.0, 2.0 if measure.name == "num_rel" else 0.0]


@pytest.mark.parametrize("measure", MEASURES, ids=str)
def test_no_rankings_give_no_values(measure: Measure) -> None:
    """A table without rows is a table."""
    assert values(measure, table()).tolist() == []


@given(st.lists(rows, min_size=1, max_size=6))
def test_values_are_numbers_within_the_range(given_rows: list[Row]) -> None:
    """Every value is a float64 within its range (0 and 1, counts aside), whatever is unjudged, negative or missing."""
    given = table(*given_rows)
    for measure in MEASURES:
        got = values(measure, given)
        assert got.dtype == np.float64
        assert got.shape == (len(given_rows),)
        assert ((got >= 0) & (got <= measure.definition.range[1] + 1e-12)).all(), str(measure)


@given(st.lists(rows, min_size=1, max_size=6), st.randoms())
def test_a_value_depends_on_its_own_row_alone(given_rows: list[Row], random: object) -> None:
    """The same ranking has the same bits alone, among others and in any order of the rows."""
    order = list(range(len(given_rows)))
    random.shuffle(order)  # type: ignore[attr-defined]
    whole, mixed = table(*given_rows), table(*(given_rows[i] for i in order))
    alone = [table(row) for row in given_rows]
    for measure in MEASURES:
        together = values(measure, whole).tolist()
        assert values(measure, mixed).tolist() == [together[i] for i in order], str(measure)
        assert [values(measure, row)[0] for row in alone] == together, str(measure)


@given(rows, st.data())
def test_swapping_a_more_relevant_place_up_never_worsens_a_measure(row: Row, data: st.DataObject) -> None:
    """Swapping a place with a less relevant one directly above it, both within the cut-off, cannot hurt."""
    ranked, rest = row
    pairs = [i for i, (up, low) in enumerate(pairwise(ranked)) if (low or 0) > (up or 0)]
    if not pairs:
        return
    at = data.draw(st.sampled_from(pairs))
    swapped = [*ranked[:at], ranked[at + 1], ranked[at], *ranked[at + 2 :]]
    both = table((ranked, rest), (swapped, rest))
    for measure in MEASURES:
        if measure.name == "Judged" or (type(measure.k) is int and at + 2 > measure.k):
            continue
        if measure.settings.get("holes") == "condensed" and ranked[at] is None:
            continue  # nothing is swapped once the hole is gone
        before, after = values(measure, both) * (1 if measure.definition.better == "higher" else -1)
        assert after >= before - 1e-12, f"{measure}: {ranked} -> {swapped}"


@given(st.lists(rows, min_size=1, max_size=4))
def test_the_ideal_order_is_worth_one(given_rows: list[Row]) -> None:
    """Everything that is known, best first, has nDCG, AP, Rprec, SetR and bpref 1 where anything is relevant."""
    ideal: list[Row] = []
    for ranked, rest in given_rows:
        known = sorted([g for g in ranked if g is not None] + rest, reverse=True)
        ideal.append((list(known), []))
    wanted = [float(any(g is not None and g >= 1 for g in ranked)) for ranked, _ in ideal]
    for name in ("nDCG", "nDCG@3", "nDCG(dcg=exp-log2)", "AP", "Rprec", "SetR", "bpref", "RR"):
        assert values(Measure.parse(name), table(*ideal)) == pytest.approx(wanted, abs=1e-12), name


def test_yes_no_labels_are_relevant_at_any_threshold() -> None:
    """A label on the yes / no scale has level infinity: the threshold of a graded scale does not touch it."""
    level, gain = np.array([0.0, np.inf]), np.array([0.0, 1.0])
    yes_no = RankedLabels.of_columns(np.array([0, 2]), level, gain, rel=2)
    for name, expected in {
        "RR": 0.5,
        "RR(rel=3)": 0.5,
        "nDCG": 1 / math.log2(3),
        "context_precision": 0.5,
    }.items():
        assert values(Measure.parse(name), yes_no) == pytest.approx([expected]), name


def test_the_threshold_belongs_to_the_scale() -> None:
    """Gold counts from 1, grades 0-3 of a judge from 2; `rel` overrides both."""
    assert one("RR", ([1, 2], []), rel=1) == 1.0
    assert one("RR", ([1, 2], []), rel=2) == 0.5
    assert one("RR(rel=1)", ([1, 2], []), rel=2) == 1.0


def test_a_grade_too_high_for_exponential_gain_is_refused() -> None:
    """2**grade of a grade beyond 1023 does not become infinity over infinity: an error names the gain without it."""
    with pytest.raises(MeasureError, match="dcg=log2"):
        one("nDCG(dcg=exp-log2)", ([0, 5000], []))
    assert one("nDCG(dcg=exp-log2)", ([0, 1000], [])) == pytest.approx(1 / math.log2(3))


def test_a_grade_above_the_scale_is_refused() -> None:
    """ERR's probabilities need the scale: a grade beyond its top is an error that says what to write."""
    with pytest.raises(MeasureError, match="write top=5") as caught:
        one("ERR", ([0, 5], []))
    assert "the grade 5 is higher than the highest grade, top=4" in str(caught.value)
    assert one("ERR(top=5)", ([5], [])) == 31 / 32


def test_a_yes_is_worth_the_top_of_the_scale() -> None:
    """On the yes / no scale a reader stops at a yes as at the highest grade; over judge labels that is 3."""
    yes = RankedLabels.of_lists([[0, 1]], rel=2)
    yes = replace(yes, level=np.array([0.0, np.inf]))
    assert values(Measure.parse("ERR(labels=judge)"), yes) == pytest.approx([(7 / 8) / 2])


def test_r_precision_looks_no_deeper_than_r() -> None:
    """With two relevant documents the third place is too deep, and the second is not."""
    assert one("Rprec", ([0, 0, 1, 1], [])) == 0.0
    assert one("Rprec", ([0, 1, 1], [])) == 0.5


def test_bpref_does_not_count_negative_grades() -> None:
    """TREC's -1 is "in the pool, not judged": above a relevant document it costs bpref nothing."""
    assert one("bpref", ([-1, 1], [])) == 1.0
    assert one("bpref", ([0, 1], [])) == 0.0
    assert one("bpref", ([None, 1], [0])) == 1.0
    assert one("bpref", ([0, 0, 0, 1, 1], [0])) == 0.0
    assert one("bpref", ([0, 1, 1], [0, 0])) == pytest.approx(0.5)


def sparse(dense: RankedLabels) -> RankedLabels:
    """The same table with its unjudged places left out."""
    judged = dense.judged
    known, ideal = np.diff(dense.ideal.pointers), dense.ideal
    levels = ideal.level[np.lexsort((ideal.level, ideal.row))]  # in another order
    return RankedLabels.of_hits(
        dense.row[judged], dense.rank[judged], dense.level[judged], dense.length, known, levels
    )


@given(st.lists(rows, min_size=1, max_size=5))
def test_left_out_unjudged_places_change_no_bit_of_any_measure(drawn: list[Row]) -> None:
    """Explicit ranks and row lengths say where the judged places stand, also for condensed lists and parts of a table."""
    full = table(*drawn)
    hits = sparse(full)
    first = hits.rows_from(0, 1)
    for measure in MEASURES:
        whole = values(measure, full)
        assert values(measure, hits).tobytes() == whole.tobytes(), measure
        assert values(measure, first).tobytes() == whole[:1].tobytes(), measure
