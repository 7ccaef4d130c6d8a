"""`germane explain`: why one query has the scores that it has."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer

from germane.cli.options import Stored, Text


def explain(
    folder: Stored,
    query: Annotated[str, typer.Argument(help="A sample's id, its query, or a part of it.")],
    measure: Annotated[Text, typer.Argument(help="One measure; else all.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON document.")] = False,
) -> None:
    """Print each place with its labels, each formula with this query's numbers, and what would change the score."""
    from germane.clean import clean, clean_json
    from germane.encoding import encode
    from germane.reports.explain import explain_query, lines_of
    from germane.reports.report import Report

    facts = explain_query(Report.open(folder), query, measure)
    if json:
        print(clean_json(encode(facts).decode()))
        return
    width = shutil.get_terminal_size((100, 24)).columns
    for line in lines_of(facts, max(width, 60)):
        print(clean(line))
