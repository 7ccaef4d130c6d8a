"""The ids of documents: one table of names, ids as text on both sides, and notes where run and gold cannot meet."""

import json

import pytest

from germane import evaluate
from germane.errors import InputError
from germane.evaluation.rank import rank
from tests.command import invoke

NAMES = [
    "id",
    "_id",
    "doc_id",
    "docId",
    "document_id",
    "docno",
    "pid",
    "passage_id",
    "corpus-id",
    "context_id",
]
NAMES += ["chunk_id", "node_id"]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_a_document_is_read_everywhere(name, tmp_path):
    """A passage, a document of a corpus and a label may call the document alike."""
    row = {"id": "q", "query": "tides", "qrels": {"d2": 1}, "contexts": [{name: "d1"}, {name: "d2"}]}
    assert evaluate([row], "RR")["RR"].mean == 0.5
    if name not in {"id", "_id"}:
        flat = tmp_path / "flat.jsonl"
        flat.write_text(
            "".join(json.dumps({"query_id": "q", name: f"d{n}", "score": 3 - n}) + "\n" for n in (1, 2))
        )
        assert rank(flat, {"q": {"d2": 1}}, "RR")["RR"].mean == 0.5


@pytest.mark.parametrize("other", ["chunk_id", "pid", "node_id"])
def test_a_chunks_id_beside_the_documents_is_metadata(other):
    """Two names of which one says that it is the document's are no contradiction, in whatever order they stand."""
    for passage in ({"doc_id": "d2", other: "c7"}, {other: "c7", "doc_id": "d2"}, {other: "c7", "id": "d2"}):
        row = {"id": "q", "query": "tides", "qrels": {"d2": 1}, "contexts": [passage]}
        report = evaluate([row], "RR")
        assert report["RR"].mean == 1
        assert [at.context.metadata for sample in report.samples() for at in sample.ranked_passages()] == [
            {other: "c7"}
        ]


@pytest.mark.parametrize("grade", ["1.0", "1", "1."])
def test_whole_numbers_with_a_point_are_grades(grade, tmp_path, monkeypatch):
    """TREC's gold and a file of labels read 1.0 as 1."""
    (tmp_path / "s.jsonl").write_text('{"id": "7", "query": "t", "contexts": [{"id": "d1", "text": "x"}]}\n')
    (tmp_path / "l.csv").write_text(f"sample,id,grade\n7,d1,{grade}\n")
    monkeypatch.chdir(tmp_path)
    done = invoke("run", "s.jsonl", "-m", "context_precision", "--judge", "labels", "--labels", "l.csv")
    assert done.code == 0, done.err


RANKED = [("7", "d10", 1), ("7", "d20", 2), ("7", "d30", 3), ("8", "d80", 1), ("8", "d90", 2)]
GOLD = {"7": {"d20": 1}, "8": {"d80": 1}}


@pytest.mark.parametrize("mark", [",", "\t"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_bare_column_is_the_rank_only_where_it_rises(mark, first, tmp_path):
    """Ranks in another order than the rows are an error: they could be scores."""
    path = tmp_path / ("run.csv" if mark == "," else "run.tsv")
    rows = [mark.join((query, doc, str(rank - 1 + first))) for query, doc, rank in RANKED]
    path.write_text("\n".join(rows))
    assert rank(path, GOLD, "RR")["RR"].mean == 0.75
    path.write_text("\n".join([rows[2], *rows[:2], *rows[3:]]))
    with pytest.raises(InputError, match="may be the rank or a score"):
        rank(path, GOLD, "RR")


def test_ids_of_mappings_are_text_on_both_sides():
    """Numbers as ids meet the same numbers as text; gold may be a list."""
    for run in ({"q": {10: 2.0, 20: 1.0}}, {"q": {"10": 2.0, "20": 1.0}}):
        for gold in ({"q": {20: 1}}, {"q": {"20": 1}}, {"q": [20]}):
            assert rank(run, gold, "RR")["RR"].mean == 0.5
