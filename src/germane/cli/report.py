"""`germane report`: a stored report again, in any format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from germane.cli.options import By


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="REPORT", help="A report folder that `germane run` wrote.")
    ],
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", help="Write a file: .json .jsonl .csv .md .txt; repeatable."),
    ] = None,
    by: By = None,
    json: Annotated[bool, typer.Option("--json", help="Print the JSON document on stdout.")] = False,
) -> None:
    """Print a stored report, or write it as JSON, JSON lines, CSV, Markdown or text."""
    from germane.cli.printing import finish
    from germane.reports.report import Report

    found = Report.open(folder)
    if by is not None:
        found.slices(by)  # an unknown name is an error here
        found.by = by
    finish(found, output or [], as_json=json, code=False)
