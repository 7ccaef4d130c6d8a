"""Of several columns that could hold the document's id, of runs, gold and samples, the one that meets the other side is read."""

import csv
import json
from typing import Any

import pytest

from germane import evaluate
from germane.evaluation.rank import rank
from tests.command import invoke

ROWS = [
    {"query_id": "7", "doc_id": "d1", "chunk_id": "c10", "score": 2.0},
    {"query_id": "7", "doc_id": "d2", "chunk_id": "c20", "score": 1.0},
    {"query_id": "8", "doc_id": "d3", "chunk_id": "c80", "score": 5.0},
    {"query_id": "8", "doc_id": "d4", "chunk_id": "c90", "score": 4.0},
]
CASES = {
    "the second meets": ({"7": {"c20": 1}, "8": {"c80": 1}}, 0.75, "'chunk_id' meets the gold"),
    "the first meets": ({"7": {"d2": 1}, "8": {"d3": 1}}, 0.75, None),
    "none meets": ({"7": {"x": 1}, "8": {"y": 1}}, 0.0, "'doc_id' comes first; none meets the gold"),
    "both meet": ({"7": {"d2": 1}, "8": {"c90": 1}}, 0.25, "'doc_id' comes first; several meet the gold"),
}


def shape(name, rows, folder):
    """The rows as a file or a Python object of this kind."""
    path = folder / f"run.{name}"
    if name in {"csv", "tsv"}:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="," if name == "csv" else "\t")
            writer.writeheader()
            writer.writerows(rows)
    elif name == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif name == "json":
        path.write_text(json.dumps(rows))
    elif name == "parquet":
        pytest.importorskip("polars").DataFrame(rows).write_parquet(path)
    elif name == "frame":
        return pytest.importorskip("pandas").DataFrame(rows)
    else:
        return iter(rows)
    return path


@pytest.mark.parametrize("name", ["csv", "tsv", "jsonl", "json", "parquet", "frame", "rows"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("large", [False, True])
def test_the_column_that_meets_the_gold(name, case, large, tmp_path, monkeypatch):
    """Decided once per file, whatever the order of its columns and its size; a note says where it was in doubt."""
    if large:
        pytest.importorskip("polars")
        monkeypatch.setattr("germane.samples.runs.source.BLOCK", 8)
    gold, mean, words = CASES[case]
    for rows in (ROWS, [dict(reversed(row.items())) for row in ROWS]):
        report = rank(shape(name, rows, tmp_path), gold, "RR")
        assert report["RR"].mean == mean
        notes = [note for note in report.manifest["notes"] if "could be the document's id" in note]
        assert [words in note for note in notes] == [True] * (words is not None)


def test_a_named_column_is_read(tmp_path):
    """--columns decides; large gold that is read in ranges leads to the same choice."""
    path, gold = shape("jsonl", ROWS, tmp_path), tmp_path / "gold"
    gold.write_text("7 0 c20 1\n8 0 c80 1\n")
    done = invoke("rank", path, "--qrels", gold, "-m", "RR", "--columns", "doc=doc_id", "--json")
    assert (json.loads(done.out)["measures"]["RR"]["mean"], "could be" in done.err) == (0.0, False)


def test_the_choice_where_gold_is_held_in_ranges(tmp_path, monkeypatch):
    """Large runs with large gold are read with the same column."""
    pytest.importorskip("polars")
    monkeypatch.setattr("germane.samples.runs.source.BLOCK", 8)
    gold = tmp_path / "gold"
    gold.write_text("7 0 c20 1\n8 0 c80 1\n")
    report = rank(shape("csv", ROWS, tmp_path), str(gold), "RR")
    assert (report["RR"].mean, len(report.manifest["notes"])) == (0.75, 1)


GOLD = [
    {"query_id": "7", "doc_id": "d2", "chunk_id": "c20", "relevance": 1},
    {"query_id": "8", "doc_id": "d3", "chunk_id": "c80", "relevance": 1},
    {"query_id": "8", "doc_id": "d9", "chunk_id": "c90", "relevance": 0},
]
RUNS: dict[str, Any] = {
    "the second meets": ({"7": ["c10", "c20"], "8": ["c80"]}, 0.75, "'chunk_id' meets the run"),
    "the first meets": ({"7": ["d1", "d2"], "8": ["d3"]}, 0.75, None),
    "none meets": ({"7": ["x"], "8": ["y"]}, 0.0, "'doc_id' comes first; none meets the run"),
    "both meet": ({"7": ["d1", "d2"], "8": ["c80"]}, 0.25, "'doc_id' comes first; several meet the run"),
    "the same columns": (ROWS, 0.75, None),
}


@pytest.mark.parametrize("name", ["csv", "tsv", "jsonl", "json", "parquet", "frame", "rows"])
@pytest.mark.parametrize("case", RUNS)
@pytest.mark.parametrize("large", [False, True])
def test_the_golds_column_that_meets_the_run(name, case, large, tmp_path, monkeypatch):
    """Gold with several columns is read by the one whose documents the run has."""
    if large:
        pytest.importorskip("polars")
        monkeypatch.setattr("germane.samples.runs.source.BLOCK", 8)
    run, mean, words = RUNS[case]
    if large or case == "the same columns":
        rows = (
            run
            if case == "the same columns"
            else [
                {"query_id": query, "doc_id": doc, "score": -at}
                for query, docs in run.items()
                for at, doc in enumerate(docs)
            ]
        )
        (tmp_path / "of").mkdir()
        run = shape("csv", rows, tmp_path / "of")
    for gold in (GOLD, GOLD[::-1]):
        report = rank(run, shape(name, gold, tmp_path), "RR")
        assert report["RR"].mean == mean
        notes = [note for note in report.manifest["notes"] if "could be the document's id" in note]
        assert [words in note for note in notes] == [True] * (words is not None)


SAMPLES: dict[str, Any] = {
    "the second meets": ({"7": "c20", "8": "c80"}, 0.75, "'chunk_id' meets the gold"),
    "the first meets": ({"7": "d2", "8": "d3"}, 0.75, None),
    "none meets": ({"7": "x", "8": "y"}, 0.0, "'doc_id' comes first; none meets the gold"),
    "both meet": ({"7": "d2", "8": "c90"}, 0.25, "'doc_id' comes first; several meet the gold"),
    "no gold": ({}, None, None),
}


@pytest.mark.parametrize("name", ["csv", "tsv", "jsonl", "json", "parquet", "frame", "rows"])
@pytest.mark.parametrize("case", SAMPLES)
@pytest.mark.parametrize("order", [1, -1])
def test_the_column_of_contexts_that_meets_the_gold(name, case, order, tmp_path, caplog):
    """The contexts of all samples of a file are read by one column; the other id is their metadata."""
    gold, mean, words = SAMPLES[case]
    rows = [
        {
            "id": query,
            "query": f"query {query}",
            "contexts": [
                {key: row[key] for key in ("chunk_id", "doc_id")[::order]} | {"text": "t"}
                for row in ROWS
                if row["query_id"] == query
            ],
        }
        | ({"qrels": [gold[query]]} if gold else {})
        for query in ("7", "8")[::order]
    ]
    if name in {"csv", "tsv"}:
        rows = [
            {key: value if key in {"id", "query"} else json.dumps(value) for key, value in row.items()}
            for row in rows
        ]
    source = shape(name, rows, tmp_path)
    report = evaluate(source, "RR" if gold else "context_precision", judge=None if gold else "lexical")
    if gold:
        assert report["RR"].mean == mean
    notes = [record.getMessage() for record in caplog.records if "could be" in record.getMessage()]
    if name in {"frame", "rows"}:
        assert [words in note for note in notes] == [True] * (words is not None)
    else:
        done = invoke(
            "run",
            source,
            "-m",
            "RR" if gold else "context_precision",
            "--judge",
            "lexical",
            "-o",
            tmp_path / "r",
            "-q",
        )
        assert [words in line for line in done.err.splitlines() if "could be" in line] == [True] * (
            words is not None
        )
    ids = {
        context.id: dict(context.metadata) for sample in report.samples() for context in sample.retrieved()
    }
    if case == "the second meets":
        assert ids["c10"] == {"doc_id": "d1"}
    else:
        assert ids["d1"] == {"chunk_id": "c10"}


@pytest.mark.parametrize("name", ["jsonl", "json", "parquet", "frame", "rows", "mapping"])
@pytest.mark.parametrize("case", CASES)
def test_the_key_of_a_list_that_meets_the_gold(name, case, tmp_path):
    """The documents of a query may stand in one list, each with several ids."""
    gold, mean, words = CASES[case]
    lists = {
        query: [{key: row[key] for key in ("doc_id", "chunk_id")} for row in ROWS if row["query_id"] == query]
        for query in ("7", "8")
    }
    rows = [{"id": query, "contexts": docs} for query, docs in lists.items()]
    for run in (
        (lists,) if name == "mapping" else (shape(name, rows, tmp_path), shape(name, rows[::-1], tmp_path))
    ):
        report = rank(run, gold, "RR")
        assert report["RR"].mean == mean
        notes = [note for note in report.manifest["notes"] if "could be the document's id" in note]
        assert [words in note for note in notes] == [True] * (words is not None)


def test_a_thousand_samples_decide_and_a_share_reads_alike(tmp_path):
    """A relevant document far down counts, and so it does where a filter takes one sample."""
    path = tmp_path / "s.jsonl"
    rows = [
        {
            "id": f"q{n}",
            "query": f"q{n}",
            "qrels": [f"c{n}" if n == 400 else "x"],
            "contexts": [{"chunk_id": f"c{n}", "doc_id": "d"}],
        }
        for n in range(500)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = invoke("run", path, "-m", "RR", "--json", "-o", tmp_path / "r")
    assert json.loads(done.out)["measures"]["RR"]["mean"] == 1 / 500
    assert "'chunk_id' meets the gold" in done.err


@pytest.mark.parametrize("name", ["csv", "jsonl", "json"])
def test_gold_on_standard_input_is_read_by_the_column_that_meets(name, tmp_path):
    """As a file is."""
    run = shape("jsonl", ROWS[:3], tmp_path)
    gold = [{"query_id": "7", "document_id": "n1", "chunk_id": "d2", "grade": 1}]
    (tmp_path / "of").mkdir()
    text = shape(name, gold, tmp_path / "of").read_text()
    done = invoke("rank", run, "--qrels", "-", "-m", "RR", "--json", stdin=text)
    assert json.loads(done.out)["measures"]["RR"]["mean"] == 0.5
    assert "'chunk_id' meets the run" in done.err


@pytest.mark.parametrize("name", ["csv", "jsonl"])
@pytest.mark.parametrize(("ids", "words"), [(("7", "d1"), "'chunk_id' meets"), (("d1", "7"), None)])
def test_the_column_of_labels_that_meets_what_was_retrieved(name, ids, words, tmp_path):
    """Labels of a file are read so, and imported ones."""
    row = {"id": "q", "query": "q", "contexts": [{"id": "d1", "text": "t"}], "qrels": {"d1": 1}}
    (tmp_path / "s.jsonl").write_text(json.dumps(row))
    labels = shape(name, [{"sample": "q", "doc_id": ids[0], "chunk_id": ids[1], "grade": 3}], tmp_path)
    options = ("-m", "context_precision", "--judge", "labels", "--no-cache")
    ran = invoke("run", tmp_path / "s.jsonl", *options, "--labels", labels, "--json", "-o", tmp_path / "r")
    assert json.loads(ran.out)["measures"]["context_precision"]["mean"] == 1.0
    invoke("run", tmp_path / "s.jsonl", "-m", "RR", "--no-cache", "-o", tmp_path / "i")
    imported = invoke("label", tmp_path / "i", "--import", labels)
    assert "1 label added" in imported.err
    for said in (ran.err, imported.err):
        assert words in said if words else "could be" not in said


@pytest.mark.parametrize("name", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(("ids", "words"), [(("7", "d1"), "'chunk_id' meets"), (("d1", "7"), None)])
def test_the_column_of_a_corpus_that_meets_the_gold(name, ids, words, tmp_path):
    """Gold is looked up in it."""
    row = {"id": "q", "query": "q", "contexts": [{"id": "d1", "text": "t"}], "qrels": {"d1": 1}}
    (tmp_path / "s.jsonl").write_text(json.dumps(row))
    corpus = shape(name, [{"doc_id": ids[0], "chunk_id": ids[1], "text": "t"}], tmp_path)
    done = invoke("labels", "check", tmp_path / "s.jsonl", "--corpus", corpus, "--json")
    assert json.loads(done.out)["missing"] == []
    assert words in done.err if words else not done.err
