"""`germane report`: a stored report again, in any format."""

from __future__ import annotations

from typing import Annotated

import typer

from germane.cli.options import AsJson, By, File, Files, Latest


def report(
    folder: Latest = None,
    output: Annotated[
        Files,
        typer.Option(
            "-o", "--output", help="Write a file: .html .json .jsonl .csv .md .txt .xml .svg; repeatable."
        ),
    ] = None,
    by: By = None,
    baseline: Annotated[
        File,
        typer.Option("--baseline", metavar="REPORT", help="Another report to show beside it (.html .md)."),
    ] = None,
    no_text: Annotated[
        bool,
        typer.Option("--no-text", help="Leave queries, passages, references and reasons out of the .html."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Print a stored report, or write it as one HTML page, JSON, JSON lines, CSV, Markdown, text, JUnit XML or SVG.

    Of an interrupted run it shows the part that is done.
    """
    from germane.cli.printing import finish, opened, write
    from germane.comparison.compare import comparison_of
    from germane.reports.report import Report

    shown = opened(folder)
    if by is not None:
        shown.slices(by)  # an unknown name is an error here
        shown.by = by
    before = Report.open(baseline) if baseline is not None else None
    shows_more = {".html", ".md"}
    pages = [path for path in output or () if path.suffix.lower() in shows_more]
    comparison = comparison_of(before, shown) if before is not None and pages else None
    write(shown, pages, baseline=before, comparison=comparison, text=not no_text)
    others = [path for path in output or () if path not in pages]
    finish(shown, others, as_json=json, code=False)
