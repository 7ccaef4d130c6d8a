"""Documents of spans, as Phoenix hands them out."""

import json
import random
from typing import Any

import pandas as pd
import polars as pl
import pytest

import germane
from germane.samples import read_samples
from tests.command import invoke

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
