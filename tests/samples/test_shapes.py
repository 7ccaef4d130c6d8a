"""Data as other tools hand it out: splits, columns, documents of spans, a folder of Parquet."""

import json
import random
from types import SimpleNamespace
from typing import Any

import pandas as pd
import polars as pl
import pytest

import germane
from germane.errors import InputError
from germane.samples import read_samples
from tests.command import invoke

COLUMNS = {"question": ["a", "b"], "contexts": [["t"], ["u"]]}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (COLUMNS, "columns of several rows.*pandas.DataFrame"),
        ({name: pd.Series(values) for name, values in COLUMNS.items()}, "columns of several rows"),
        ({"train": pd.DataFrame(COLUMNS), "test": pd.DataFrame(COLUMNS)}, r"name a split: data\['train'\]"),
        ({"train": SimpleNamespace(column_names=["question"])}, r"name a split: data\['train'\]"),
        ({"question": "a", "contexts": ["t"]}, "this is one sample"),
    ],
)
def test_mappings_that_are_no_samples(source, said):
    """The error says what they are, and how rows are made of them."""
    with pytest.raises(InputError, match=said):
        germane.evaluate(source, "RR")


DOCUMENTS: list[dict[str, Any]] = [
    {"context.span_id": span, "document_position": at, "context.trace_id": f"t{span}", "input": query, "reference": text, "document_score": 1.5 - at}
    for span, query, texts in (
        ("s1", "When is high tide?", ["Bread needs yeast.", "The tide is high at noon."]),
        ("s2", "How is bread made?", ["Bread is made of flour and yeast.", "Cats sleep."]),
    )
    for at, text in enumerate(texts)
]  # fmt: skip


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl", "frame"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_documents_of_phoenix_are_samples(kind, shuffled, tmp_path):
    """One sample for each span, its documents by their position, whatever the order of the rows."""
    rows = random.Random(1).sample(DOCUMENTS, len(DOCUMENTS)) if shuffled else DOCUMENTS
    frame = pd.DataFrame(rows).set_index(["context.span_id", "document_position"])
    path = tmp_path / f"documents.{kind}"
    if kind == "frame":
        report = germane.evaluate(frame, "context_precision", judge="lexical")
        assert (report["context_precision"].mean, report["context_precision"].n) == (0.75, 2)
        return
    if kind == "csv":
        frame.to_csv(path)
    elif kind == "parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        path.write_text("\n".join(map(json.dumps, rows)))
    read = {sample.id: [one.text for one in sample.contexts or ()] for sample in read_samples(path)}
    assert read == {
        span: [row["reference"] for row in DOCUMENTS if row["context.span_id"] == span]
        for span in ("s1", "s2")
    }
    ran = invoke(
        "run",
        path,
        "-m",
        "context_precision",
        "--judge",
        "lexical",
        "--no-cache",
        "--json",
        "-o",
        tmp_path / "report",
    )
    assert ran.json["measures"]["context_precision"]["mean"] == 0.75


@pytest.mark.parametrize("sharded", [False, True])
def test_a_folder_of_parquet_is_read_as_beir(sharded, tmp_path):
    """MTEB keeps queries, corpus and gold in Parquet, each in a file or in a folder of its own."""
    tables = {
        "queries": [{"_id": "q1", "text": "When is high tide?"}, {"_id": "q2", "text": "no gold"}],
        "corpus": [{"_id": "d1", "title": "", "text": "At noon."}],
    }
    for name, rows in tables.items():
        path = tmp_path / (f"{name}/{name}-00000-of-00001.parquet" if sharded else f"{name}.parquet")
        path.parent.mkdir(exist_ok=True)
        pl.DataFrame(rows).write_parquet(path)
    (tmp_path / "qrels").mkdir()
    gold = pl.DataFrame([{"query-id": "q1", "corpus-id": "d1", "score": 1.0}])
    gold.write_parquet(tmp_path / "qrels" / ("test-00000-of-00001.parquet" if sharded else "test.parquet"))
    (tmp_path / "a.run").write_text("q1 Q0 d2 1 2 r\nq1 Q0 d1 2 1 r\n")
    ranked = invoke("rank", tmp_path / "a.run", "--qrels", tmp_path, "-m", "RR", "--json")
    assert ranked.json["measures"]["RR"]["mean"] == 0.5
    (sample,) = read_samples(tmp_path)
    assert (sample.id, sample.query, dict(sample.qrels or {})) == ("q1", "When is high tide?", {"d1": 1})
    ranked = invoke(
        "rank", tmp_path / "a.run", "--qrels", tmp_path, "-m", "RR", "--corpus", tmp_path, "--json"
    )
    assert ranked.code == 0
