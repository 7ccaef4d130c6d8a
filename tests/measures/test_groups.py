"""Measures on document ids: sets against gold, groups of gold, forbidden ids, questions without an answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane import Sample, evaluate
from germane.measures import Measure


def sample(*ids, **more):
    return {"query": "q", "contexts": [{"id": i, "text": f"text {n}"} for n, i in enumerate(ids)], **more}


def value(measure, *samples):
    return values(measure, *samples)[measure]


def values(measures, *samples):
    scores = evaluate(list(samples), measures).scores()
    return {score.measure: score.value if score.status == "ok" else score.why for score in scores}


CALLS = {
    "query": "q",
    "qrels": {"d1": 1, "d2": 2, "d3": 0},
    "calls": [
        {"query": "1", "contexts": [{"id": "d1"}, {"id": "d9"}]},
        {"query": "2", "contexts": [{"id": "d1"}, {"id": "d2"}]},
    ],
}


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("id_recall", 1.0),
        ("id_precision", 2 / 3),
        ("id_f1", 0.8),
        ("id_recall(over=final)", 1.0),
        ("id_recall(rel=2)", 1.0),
        ("id_precision(rel=2)", 1 / 3),
    ],
)
def test_sets_of_documents(measure, expected):
    """Recall, precision and F1 of the union of the calls, of each call, of the last one."""
    assert value(measure, CALLS) == pytest.approx(expected)


def test_no_judge_is_needed():
    """Measures on gold ask nobody, and none of them asks for a judge to be named."""
    assert not Measure.parse("id_recall").definition.asks
    assert value("id_recall", sample("d1", qrels={"d1": 1, "d2": 1})) == 0.5


def test_chunks_of_one_document_count_once():
    """Precision is of documents, not of chunks."""
    assert value("id_precision", sample("d1", "d1", "d2", qrels={"d1": 1})) == 0.5


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (sample("d1"), "the sample has no qrels"),
        (sample("d1", qrels={"d1": 0}), "the sample's qrels have no relevant document"),
        ({"query": "q", "contexts": ["no id"], "qrels": {"d1": 1}}, "the contexts have no document ids"),
        ({"query": "q", "contexts": [], "qrels": {"d1": 1}}, 0.0),
        (
            sample("d1", qrels={"d1": 1}, answerable=False),
            "the question is unanswerable: nothing can be relevant",
        ),
    ],
)
def test_nothing_to_count(given, why):
    """Skipped with its reason; nothing retrieved is 0."""
    assert value("id_recall", given) == why


@pytest.mark.parametrize("grade", [np.int64(0), 0.0])
def test_grades_of_another_type_of_number(grade):
    """A sample made in Python may hold numpy's numbers: 0 is not relevant all the same."""
    assert value("AP", Sample(id="a", query="q", contexts=(), qrels={"d1": grade})).endswith(
        "no relevant document"
    )


def test_groups():
    """Each group is hit by any document of it; all of them must be for full recall."""
    gold = [["d1", "d7"], ["d3"]]
    assert value("group_recall@2", sample("d7", "d1", "d3", gold=gold)) == 0.5
    assert value("full_recall@2", sample("d7", "d1", "d3", gold=gold)) == 0.0
    assert value("full_recall@3", sample("d7", "d1", "d3", gold=gold)) == 1.0
    assert value("group_recall", sample("d7")) == "the sample has no gold groups"


def test_leaks():
    """Distinct forbidden documents in the top k; lower is better and there is no upper end."""
    leaky = sample("d1", "s1", "s1", "s2", forbidden=["s1", "s2", "s3"])
    assert [value(m, leaky) for m in ("leaks@1", "leaks@2", "leaks")] == [0, 1, 2]
    assert Measure.parse("leaks").definition.better == "lower"
    report = evaluate([leaky], "leaks@2", gates=["max(leaks@2)=0"])
    assert report.verdict.exit_code == 1


@pytest.mark.parametrize(
    ("scores", "floor", "expected"),
    [((), "", 1.0), ((0.1,), "", 0.0), ((0.1, 0.2), "(floor=0.2)", 1.0), ((0.1, 0.3), "(floor=0.2)", 0.0), ((None,), "(floor=9.0)", 0.0)],
)  # fmt: skip
def test_abstained(scores, floor, expected):
    """1 where nothing came back above the floor; a context without a score came back."""
    contexts = [{"text": "t", "score": score} for score in scores]
    assert value(f"abstained{floor}", {"query": "q", "contexts": contexts, "answerable": False}) == expected


def test_abstained_is_about_unanswerable_questions():
    """Other questions are skipped."""
    assert value("abstained", sample("d1")) == "the sample is not marked as unanswerable (answerable: false)"


ids = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8)
gold = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 3), min_size=1, max_size=4)
SETS = "id_precision id_recall id_f1"


@given(ids, gold, st.randoms())
def test_order_and_repetition_change_no_set(found, qrels, random):
    """Set measures know neither ranks nor duplicates; all lie in their range."""
    mixed = found * 2
    random.shuffle(mixed)
    one, other = (values(SETS, sample(*ids, qrels=qrels)) for ids in (found, mixed))
    assert one == other
    assert all(0.0 <= one[measure] <= 1.0 for measure in SETS.split())


@given(ids, gold)
def test_f1_is_the_harmonic_mean(found, qrels):
    """F1 = 2PR / (P + R)."""
    p, r, f = values(SETS, sample(*found, qrels=qrels)).values()
    assert f == pytest.approx(2 * p * r / (p + r) if p + r else 0.0)


@pytest.mark.parametrize(
    ("measure", "expected"), [("group_recall@1", 0.0), ("full_recall@1", 0.0), ("leaks@1", 0.0)]
)
def test_ids_below_the_cut_off_are_ids(measure, expected):
    """A context without an id above others with ids is a document that is not in the gold."""
    contexts = [{"text": "a"}, {"id": "d1"}]
    sample = {"query": "q", "gold": [["d1"]], "forbidden": ["d1"], "contexts": contexts}
    assert evaluate([sample], measure)[measure].mean == expected


@pytest.mark.parametrize(("final", "expected"), [([], 1.0), ([{"id": "d1"}], 0.0)])
def test_what_only_the_final_list_has_was_retrieved(final, expected):
    """A system whose searches found nothing but whose list holds a passage did not abstain."""
    sample = {"query": "q", "answerable": False, "calls": [{"contexts": []}], "contexts": final}
    assert evaluate([sample], "abstained")["abstained"].mean == expected
