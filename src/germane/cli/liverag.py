"""`germane liverag`: the LiveRAG challenge's ContextRecall, over its own files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from germane.cli.options import Text
from germane.cli.values import say
from germane.errors import InputError


def liverag(
    results: Annotated[
        Path, typer.Option("--results", help="What was retrieved: TSV, JSON or JSONL with qid and doc_ids.")
    ],
    reference: Annotated[
        Path, typer.Option("--reference", help="Gold: TSV, JSON or JSONL with qid and document_ids.")
    ],
    evaluator: Annotated[
        str, typer.Option("--evaluator", help="ContextRecall, alone or at the end of a module path.")
    ] = "ContextRecall",
    output_dir: Annotated[Path, typer.Option("--output-dir", help="Where the two files are written.")] = Path(
        "data/evaluation_results"
    ),
    output_prefix: Annotated[
        Text, typer.Option("--output-prefix", help="A name in the files'; default: the evaluator's.")
    ] = None,
    output_format: Annotated[
        Literal["tsv", "jsonl"], typer.Option("--output-format", help="Of the two files.")
    ] = "tsv",
    parity: Annotated[
        Literal["liverag"] | None,
        typer.Option("--parity", help="Compute as the original does, to its last quirk."),
    ] = None,
) -> None:
    """Recall, precision, F1 and nDCG@10 of LiveRAG results against gold documents; writes .aggregated and .rows."""
    from germane.integrations.liverag import ContextRecall
    from germane.integrations.liverag_files import read_references, read_results, report, write_files

    name = evaluator.rpartition(".")[2]
    if name != ContextRecall.__name__:
        raise InputError(f"there is no evaluator {evaluator!r} here", fix="write --evaluator ContextRecall")
    found, gold = read_results(results, parity=parity), read_references(reference, parity=parity)
    result = ContextRecall(parity=parity).evaluate(found, gold)
    if not result.sample_count:
        fix = "write document_ids in the references, and the same qids in both files"
        raise InputError("no question could be measured", fix=fix)
    print(report(result))
    for note in result.notes:
        say(f"note: {note}")
    for path in write_files(result, results, output_dir, output_prefix or name, output_format):
        say(f"wrote {path}")
