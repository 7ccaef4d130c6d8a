"""LiveRAG's ContextRecall: corrected by default, and as the original computes it on request."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from germane.addons.compat.liverag import (
    AGGREGATES,
    COLUMNS,
    ContextRecall,
    QAPair,
    RAGResult,
    document_of,
    ids_in,
)
from germane.errors import InputError, Invalid

VECTORS = json.loads((Path(__file__).parent / "fixtures" / "liverag.json").read_text("utf-8"))["rows"]
BY_NAME = {row["name"]: row for row in VECTORS}


def urn(number: int) -> str:
    return f"<urn:uuid:{number:08d}-0000-0000-0000-000000000000>"


def chunk(number: int, part: int = 0) -> str:
    return f"doc-{urn(number)}::chunk-{part}"


def measured(results, references, **settings):
    return ContextRecall(**settings).evaluate(results, references)


def result(qid, *chunks):
    return RAGResult(qid=qid, doc_ids=chunks)


def gold(qid, *documents):
    return QAPair(qid=qid, document_ids=documents)


@pytest.mark.equals("LiveRAG's evaluate.py", what="recall and nDCG with `parity`", within="exact")
@pytest.mark.parametrize("row", VECTORS, ids=lambda row: row["name"])
def test_parity_equals_the_original(row):
    """Every value that the original gave comes out, means and rows, with the same keys."""
    found = measured(row["results"], row["references"], parity="liverag")
    assert found.metrics == pytest.approx(row["metrics"], abs=1e-12)
    assert found.metrics.keys() == row["metrics"].keys()
    assert found.sample_count == row["sample_count"]
    rows = [{"qid": one.qid, **one.metrics} for one in found.rows]
    assert [one.keys() for one in rows] == [one.keys() for one in row["rows"]]
    for one, expected in zip(rows, row["rows"], strict=True):
        assert one.pop("qid") == expected["qid"]
        assert one == pytest.approx({k: v for k, v in expected.items() if k != "qid"}, abs=1e-12)


CORRECTED: dict[str, dict[str, float | None]] = {
    "two gold, one found at rank2": {"avg_context_recall": 0.5, "ndcg_10": 0.3868528072345416},
    "two queries: 1.0 and empty retrieved": {"avg_context_recall": 0.5, "ndcg_10": 0.5},
    "reference query missing from results is ignored": {"avg_context_recall": 0.5, "ndcg_10": 0.5},
    "exact duplicate chunk id twice at rank 1,2": {"avg_context_recall": 1.0, "ndcg_10": 1.0},
    "exact duplicate at rank 2,3": {"ndcg_10": 0.6309297535714575},
    "qid 0 int": {"avg_context_recall": 1.0, "ndcg_10": 1.0},
    "qid type mismatch int vs str": {"avg_context_recall": 1.0, "ndcg_10": 1.0},
    "empty gold": dict.fromkeys(AGGREGATES),
}


@pytest.mark.parametrize("name", CORRECTED)
def test_the_normal_mode_corrects(name):
    """What the original gets wrong has its right value by default, and the result says what was counted how."""
    row = BY_NAME[name]
    found = measured(row["results"], row["references"])
    assert {key: found.metrics[key] for key in CORRECTED[name]} == pytest.approx(CORRECTED[name], abs=1e-12)
    assert found.notes


def test_the_ideal_holds_all_gold():
    """Two gold documents, one of them at rank 1: .6131, where the original says 1.0."""
    inputs = [result("1", chunk(1))], [gold("1", urn(1), urn(2))]
    assert measured(*inputs).metrics["ndcg_10"] == pytest.approx(0.6131471927654584)
    assert measured(*inputs, parity="liverag").metrics["ndcg_10"] == 1.0


def test_an_empty_reference_is_skipped_and_counted():
    """Its row has no values, the means leave it out."""
    found = measured([result("1", chunk(1)), result("2", chunk(2))], [gold("1", urn(1)), gold("2")])
    assert found.sample_count == 1
    assert found.rows[1].metrics == dict.fromkeys(COLUMNS)
    assert found.metrics["avg_context_recall"] == 1.0
    assert "references without a document, skipped: 1" in found.notes


def test_references_without_result_count_zero_aloud():
    """Their rows come last, their value is 0, and the number of them is said."""
    found = measured([result("2", chunk(2))], [gold("1", urn(1)), gold("2", urn(2))])
    assert [(row.qid, row.metrics["context_recall"]) for row in found.rows] == [("2", 1.0), ("1", 0.0)]
    assert "questions with gold but without a result, counted as 0: 1" in found.notes


def test_gold_ids_are_normalised_as_retrieved_ones():
    """A gold id written as a chunk is its document; the original does not find it."""
    inputs = [result("1", chunk(1, 3))], [gold("1", chunk(1))]
    assert measured(*inputs).metrics["avg_context_recall"] == 1.0
    assert measured(*inputs, parity="liverag").metrics["avg_context_recall"] == 0.0


def test_one_blank_in_an_id_makes_the_originals_ndcg_zero_for_all():
    """The batch fails as one there; by default an id is an id."""
    inputs = [result("1", "a b"), result("2", "c")], [gold("1", "a b"), gold("2", "c")]
    assert measured(*inputs, parity="liverag").metrics["ndcg_10"] == 0.0
    assert measured(*inputs).metrics["ndcg_10"] == 1.0


def test_results_of_one_question_are_merged_by_the_original():
    """Two results for a question: their chunks are ranked together, ties by id, and the mean is over questions."""
    found = measured(
        [result("1", "d2"), result("1", "d1"), result("2")],
        [gold("1", "d2"), gold("2", "x")],
        parity="liverag",
    )
    assert found.metrics["ndcg_10"] == pytest.approx(0.6309297535714575)
    assert [row.metrics.get("ndcg_10") for row in found.rows] == [1.0, 0.0, None]


@pytest.mark.parametrize(
    ("results", "references", "said"),
    [
        (
            [result("1", "d"), result("1", "d")],
            [gold("1", "d")],
            "results:2: qids must be unique; '1' also occurs",
        ),
        (
            [result("1", "d")],
            [gold("1", "d"), gold(1, "d")],
            "references:2: qids must be unique; '1' also occurs",
        ),
        ([result("1", "d")], [gold("2", "d")], "results and references have no qid in common"),
        ([{"qid": "1"}], [gold("1", "d")], "results:1: no doc_ids"),
        ([{"qid": "1", "doc_ids": None}], [gold("1", "d")], "results:1: no doc_ids"),
        ([result(1.5, "d")], [gold("1", "d")], "qid is the number 1.5"),
        ([result("1", ["d"])], [gold("1", "d")], "doc_ids contains a list"),
        ([result("1", "d")], [gold("1", urn(1) + urn(2))], "several document ids in one string"),
    ],
)
def test_what_cannot_be_meant_is_an_error(results, references, said):
    """A question twice, nothing in common, no ids at all: said with the place, not scored."""
    with pytest.raises(InputError) as caught:
        measured(results, references)
    assert said in str(caught.value)


def test_an_unknown_parity_is_an_error():
    """It names the one there is."""
    with pytest.raises(InputError, match="liverag"):
        ContextRecall(parity="trec")  # type: ignore[arg-type]


def test_any_object_with_the_attributes_will_do():
    """The original's own classes, dicts and ours are read alike; a missing qid is the place in the list."""
    results = [
        SimpleNamespace(qid="1", doc_ids=[chunk(1)], system_name="bm25"),
        {"doc_ids": [chunk(2)], "place": "Rome"},
    ]
    references = [{"qid": 1, "document_ids": [urn(1)]}, SimpleNamespace(qid=None, document_ids=[urn(2)])]
    found = measured(results, references)
    assert found.metrics["avg_context_recall"] == 1.0
    assert found.system_name == "bm25"
    assert [row.qid for row in found.rows] == ["1", "2"]


@pytest.mark.parametrize(
    ("cell", "ids"),
    [
        ('["a", "b"]', ("a", "b")),
        ("['<urn:uuid:1>']", ("<urn:uuid:1>",)),
        ("('a', 'b')", ("a", "b")),
        ("a.pdf", ("a.pdf",)),
        ("17", ("17",)),
        ('"a"', ("a",)),
        ("[]", ()),
        ("", ()),
        ("null", ()),
        (["a", 1], ("a", 1)),
        (None, ()),
    ],
)
def test_a_list_of_ids_has_three_spellings(cell, ids):
    """JSON, a Python literal, or one id."""
    assert ids_in(cell) == ids


@pytest.mark.parametrize(
    "cell", ['["a", "b"', "['<urn:uuid:1>' '<urn:uuid:2>']", '{"a": 1}', "[[1]]", "[true]", '[""]', 3]
)
def test_what_is_no_list_of_ids_is_refused(cell):
    """A broken list is not one strange id, and numpy's print of two ids is not one id."""
    with pytest.raises(Invalid):
        ids_in(cell)


def test_the_original_takes_a_broken_list_for_an_id():
    """Under parity, so do we."""
    assert ids_in('["a", "b"', strict=False) == ('["a", "b"',)


def test_a_chunk_names_its_document():
    """Everything but the urn is dropped; an id without one stays."""
    assert document_of(chunk(7, 12)) == urn(7)
    assert document_of("plain") == "plain"
