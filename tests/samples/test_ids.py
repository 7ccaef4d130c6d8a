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
        assert [context.metadata for sample in report.samples() for context in sample.retrieved()] == [
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
    with pytest.raises(InputError, match="may hold ranks or scores"):
        rank(path, GOLD, "RR")


COUNTS = {  # the numbers of d10 d20 d30 in query 7 and of d80 d90 in query 8: RR, and a word of what is said
    ((0, 1, 2), (1, 2)): (0.75, "0, 1, 2, ... or 1, 2, 3, ... and was read as the rank"),
    ((1, 2, 3), (0, 1)): (0.75, "0, 1, 2, ... or 1, 2, 3, ... and was read as the rank"),
    ((1, 2), (0, 1)): (0.75, "read as the rank"),
    ((1, 2), (1,)): (0.75, "counts 1, 2, 3, ... and was read as the rank"),
    ((2, 1, 0), (2, 1)): (0.75, "counts down to 0 or 1 and was read as the score"),
    ((1, 2, 3), (1, 0)): (None, "may hold ranks or scores"),
    ((2, 1), (1, 2)): (None, "may hold ranks or scores"),
    ((2, 1), (2, 1)): (0.75, ""),
    ((1, 0), (1,)): (0.75, ""),
}


@pytest.mark.parametrize("numbers", COUNTS)
@pytest.mark.parametrize("large", [False, True])
def test_lists_that_count_from_0_beside_lists_that_count_from_1(numbers, large, tmp_path, monkeypatch):
    """Whole numbers that count in every list, wherever they begin, are never read in silence where they may be ranks."""
    if large:
        pytest.importorskip("polars")
        monkeypatch.setattr("germane.samples.runs.source.BLOCK", 8)
    mean, said = COUNTS[numbers]
    docs = {"7": ("d10", "d20", "d30"), "8": ("d80", "d90")}
    listed = zip(docs, numbers, strict=True)
    rows = [(query, doc, n) for query, some in listed for doc, n in zip(docs[query], some, strict=False)]
    path = tmp_path / "run.tsv"
    path.write_text("".join(f"{query}\t{doc}\t{n}\n" for query, doc, n in rows))
    for run in (path, rows):
        if mean is None:
            with pytest.raises(InputError, match=said):
                rank(run, GOLD, "RR")
        else:
            report = rank(run, GOLD, "RR")
            assert report["RR"].mean == mean
            assert said in "".join(report.manifest["notes"])
            assert bool(said) == bool(report.manifest["notes"])


def test_ids_of_mappings_are_text_on_both_sides():
    """Numbers as ids meet the same numbers as text; gold may be a list."""
    for run in ({"q": {10: 2.0, 20: 1.0}}, {"q": {"10": 2.0, "20": 1.0}}):
        for gold in ({"q": {20: 1}}, {"q": {"20": 1}}, {"q": [20]}):
            assert rank(run, gold, "RR")["RR"].mean == 0.5


def test_a_whole_number_is_the_same_id_in_every_form(tmp_path):
    """7.0 in JSON, a frame or a mapping is 7, bytes are their UTF-8 text; half a number is an error."""
    import polars as pl

    rows = [(7.0, 10.0, 3.0), (7.0, 20.0, 2.0), (8.0, 80.0, 1.0)]
    keys = ("query_id", "doc_id", "score")
    lines = tmp_path / "run.jsonl"
    lines.write_text("".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows))
    frame = pl.DataFrame(rows, schema=keys, orient="row")
    binary = frame.with_columns(query_id=pl.Series([b"7", b"7", b"8"]))
    binary.write_parquet(tmp_path / "binary.parquet")
    mapping = {7.0: {10.0: 3.0, 20: 2.0}, b"8": {"80": 1.0}}
    gold = pl.DataFrame({"query_id": [7.0, 8.0], "doc_id": [20.0, 80.0], "grade": [1, 1]})
    for run in (lines, frame, binary, tmp_path / "binary.parquet", mapping):
        for graded in (gold, {"7": {"20": 1}, "8": [80.0]}):
            assert rank(run, graded, "RR")["RR"].mean == 0.75
    for wrong in (7.5, float("nan"), b"\xff"):
        with pytest.raises(InputError, match="run: query 7 has a document whose id is"):
            rank({"7": {wrong: 1.0}}, gold, "RR")
        with pytest.raises(InputError, match="qrels: "):
            rank(mapping, {wrong: {"20": 1}}, "RR")
    lines.write_text('{"query_id": 7.5, "doc_id": 10, "score": 1}\n')
    with pytest.raises(InputError, match=r"run.jsonl:1: the query id cannot be the number 7.5"):
        rank(lines, gold, "RR")


def test_a_line_is_a_comment_only_where_it_is_no_row(tmp_path, monkeypatch):
    """Ids may begin with #; grades may have a point."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.run").write_text(
        "# by hand, 2 queries\n#1 Q0 d1 1 3.0 t\n#1 Q0 d2 2 2.0 t\n2 Q0 d1 1 1 t\n"
    )
    (tmp_path / "a.qrels").write_text("#1 0 d2 1.0\n2 0 d1 1.\n# the end\n\n#\n")
    done = invoke("rank", "a.run", "--qrels", "a.qrels", "-m", "RR", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["measures"]["RR"]["mean"] == 0.75
    (tmp_path / "a.qrels").write_text("#1 0 d2 1.5\n2 0 d1 1.5\n")
    done = invoke("rank", "a.run", "--qrels", "a.qrels", "-m", "RR")
    assert done.code == 2
    assert "a.qrels:2: the grade '1.5' is not a whole number" in done.err
