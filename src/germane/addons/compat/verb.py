"""`germane liverag`: the LiveRAG challenge's ContextRecall, over its own files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from germane.cli import say
from germane.errors import InputError


def liverag(
    *,
    results: Path,
    reference: Path,
    evaluator: str,
    output_dir: Path,
    output_prefix: str | None,
    output_format: Literal["tsv", "jsonl"],
    parity: Literal["liverag"] | None,
) -> None:
    """Recall, precision, F1 and nDCG@10 of LiveRAG results against gold documents; writes .aggregated and .rows."""
    from germane.addons.compat.liverag import ContextRecall
    from germane.addons.compat.liverag_files import read_rows, report, write_files

    name = evaluator.rpartition(".")[2]
    if name != ContextRecall.__name__:
        raise InputError(f"unknown evaluator {evaluator!r} here", fix="write --evaluator ContextRecall")
    retrieved = read_rows(results, "doc_ids", parity=parity)
    gold = read_rows(reference, "document_ids", parity=parity)
    result = ContextRecall(parity=parity).evaluate(retrieved, gold)
    if not result.sample_count:
        fix = "write document_ids in the references, and the same qids in both files"
        raise InputError("no question could be measured", fix=fix)
    print(report(result))
    for note in result.notes:
        say(f"note: {note}")
    command = " ".join(sys.argv)
    for path in write_files(result, results, output_dir, output_prefix or name, output_format, command):
        say(f"wrote {path}")
