"""`germane report`: a stored report again, in any format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from germane.cli.options import By


def report(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[REPORT]", help="A report folder; else the latest in germane-reports."),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o", "--output", help="Write a file: .html .json .jsonl .csv .md .txt .xml; repeatable."
        ),
    ] = None,
    by: By = None,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", metavar="REPORT", help="Another report to show beside it (.html)."),
    ] = None,
    no_text: Annotated[
        bool,
        typer.Option("--no-text", help="Leave queries, passages, references and reasons out of the .html."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the JSON document on stdout.")] = False,
) -> None:
    """Print a stored report, or write it as one HTML page, JSON, JSON lines, CSV, Markdown, text or JUnit XML.

    Of an interrupted run it shows the part that is done.
    """
    from germane.cli.printing import finish, say, write
    from germane.reports.report import Report
    from germane.tables.folder import read_manifest

    if folder is None:
        folder = _latest(Path("germane-reports"))
        say(f"the latest report: {folder}")
    finished = read_manifest(folder).get("status") == "complete"
    shown = Report.open(folder) if finished else Report.unfinished(folder)
    if by is not None:
        shown.slices(by)  # an unknown name is an error here
        shown.by = by
    before = Report.open(baseline) if baseline is not None else None
    pages = [path for path in output or () if path.suffix.lower() == ".html"]
    write(shown, pages, baseline=before, text=not no_text)
    others = [path for path in output or () if path not in pages]
    finish(shown, others, as_json=json, code=False)


def _latest(parent: Path) -> Path:
    """The folder in `parent` whose manifest was written last; InputError where there is none."""
    from germane.errors import InputError

    manifests = sorted(parent.glob("*/manifest.json"), key=lambda file: file.stat().st_mtime_ns)
    if not manifests:
        raise InputError(f"there is no report in {parent}", fix="name one: germane report REPORT")
    return manifests[-1].parent
