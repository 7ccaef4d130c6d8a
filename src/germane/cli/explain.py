"""`germane explain`: why one query has the scores that it has."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer


def explain(
    folder: Annotated[
        Path, typer.Argument(metavar="REPORT", help="A report folder that `germane run` wrote.")
    ],
    query: Annotated[str, typer.Argument(help="A sample's id, its query, or a part of it.")],
    measure: Annotated[str | None, typer.Argument(help="One measure; else all.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the results as one JSON document.")] = False,
) -> None:
    """Print the formula with this query's numbers, each verdict with its source, and what would change the score."""
    from germane.clean import clean
    from germane.reports.explain import explain_as_json, explain_query
    from germane.reports.report import Report

    report = Report.open(folder)
    if json:
        print(jsonlib.dumps(explain_as_json(report, query, measure), ensure_ascii=False))
        return
    for line in explain_query(report, query, measure):
        print(clean(line))
