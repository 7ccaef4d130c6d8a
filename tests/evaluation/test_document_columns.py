"""Of several columns of a run that could hold the document's id, the one that meets the gold is read."""

import csv
import json

import pytest

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
        monkeypatch.setattr("germane.evaluation.rank._LARGE", 8)
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
    monkeypatch.setattr("germane.evaluation.rank._LARGE", 8)
    monkeypatch.setattr("germane.evaluation.rank._LARGE_GOLD", 8)
    gold = tmp_path / "gold"
    gold.write_text("7 0 c20 1\n8 0 c80 1\n")
    report = rank(shape("csv", ROWS, tmp_path), str(gold), "RR")
    assert (report["RR"].mean, len(report.manifest["notes"])) == (0.75, 1)
