"""Data as other tools hand it out: splits, columns, documents of spans, a folder of Parquet."""

from types import SimpleNamespace

import pandas as pd
import polars as pl
import pytest

import germane
from germane.errors import InputError
from germane.samples import read_samples
from tests.command import invoke

COLUMNS = {"question": ["a", "b"], "contexts": [["t"], ["u"]]}
SPLITS = {"train": SimpleNamespace(column_names=["question"])}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (COLUMNS, "'question', 'contexts', not as a list.*pandas.DataFrame"),
        (
            {"train": pd.DataFrame(COLUMNS), "test": pd.DataFrame(COLUMNS)},
            "'train', 'test', .*give one split",
        ),
        (SPLITS, "'train', not as a list of samples.*give one split"),
        ({"question": "a", "contexts": ["t"]}, r"one mapping.*evaluate\(\["),
    ],
)
def test_mappings_that_are_no_samples(source, said):
    """The error says what they are, and how rows are made of them."""
    with pytest.raises(InputError, match=said):
        germane.evaluate(source, "RR")


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
