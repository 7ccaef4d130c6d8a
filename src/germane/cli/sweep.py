"""`germane sweep`: which floor on the retriever's scores keeps unanswerable questions out."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer


def sweep(
    path: Annotated[
        Path, typer.Argument(metavar="SAMPLES", help="Samples with retriever scores, or a report folder.")
    ],
    json: Annotated[bool, typer.Option("--json", help="Print every floor as JSON.")] = False,
) -> None:
    """Sweep a floor over the retriever's scores: false hits on unanswerable questions against recall kept."""
    from germane.evaluation.sweep import sweep as swept
    from germane.samples import read_samples

    result = swept(read_samples(path / "samples.jsonl" if path.is_dir() else path))
    if json:
        print(jsonlib.dumps(result.as_json()))
        return
    print(
        f"{result.unanswerable} unanswerable and {result.answerable} answerable questions, {result.left_out} left out"
    )
    print(f"\n{'floor':>12}  {'false hits':>10}  {'recall kept':>11}")
    step = max(1, len(result.floors) // 15)
    shown = [*result.floors[::step], result.floors[-1], result.best]
    for floor in sorted(dict.fromkeys(shown), key=lambda one: one.floor):
        mark = "  <- most recall kept less false hits" if floor == result.best else ""
        print(f"{floor.floor:12.4f}  {floor.false_hits:10.4f}  {floor.recall_kept:11.4f}{mark}")
