"""`germane overlap`: how alike are two systems' lists, before anything is judged?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from germane.cli.options import AsJson
from germane.cli.values import print_document


def overlap(
    a: Annotated[
        Path, typer.Argument(metavar="A", help="A run (TREC, TSV, CSV, JSONL), or a report folder.")
    ],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another one over the same queries.")],
    k: Annotated[int, typer.Option("-k", help="How many first places are compared.", min=1)] = 10,
    p: Annotated[float, typer.Option("-p", help="The persistence of rank-biased overlap.")] = 0.9,
    json: AsJson = False,
) -> None:
    """Compare the lists of two systems: rank-biased overlap, overlap@k, and which queries differ at all."""
    from germane.comparison.planning import overlap as overlap_of

    found = overlap_of(_lists(a), _lists(b), k=k, p=p)
    if json:
        print_document(found.as_json())
    else:
        print(found)


def _lists(path: Path) -> Mapping[str, Sequence[str]]:
    """The ids of each query's results, best first; ties in score by id, descending, as in trec_eval."""
    if path.is_dir():
        from germane.measures.labels import distinct_contexts
        from germane.reports.report import Report

        return {
            sample.id: [context.id or context.text for context in distinct_contexts(sample)]
            for sample in Report.open(path).samples()
        }
    from germane.samples.trec import read_run

    return {
        query: [doc for _, doc in sorted(zip(found.scores, found.ids, strict=True), reverse=True)]
        if found.scores
        else list(found.ids)
        for query, found in read_run(path).queries.items()
    }
