"""How every verb ends: files written, the report printed, the exit code of the verdict."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console

from germane.reports import formats, text
from germane.reports.report import Report

__all__ = ["finish", "say"]


def say(message: str) -> None:
    """One line on stderr."""
    print(message, file=sys.stderr)


def finish(report: Report, outputs: Sequence[Path], *, as_json: bool, code: bool = True, quiet: bool = False) -> None:
    """Write the files asked for, print the report, leave with the verdict's exit code."""
    for path in outputs:
        formats.write(report, path)
    if as_json:
        document = formats.json_document(report)
        print(json.dumps(document, ensure_ascii=False))
    elif not quiet:
        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = 120
        console.print(text.render(report))
    for path in outputs:
        say(f"wrote {path}")
    if code:
        raise typer.Exit(report.verdict.exit_code)
