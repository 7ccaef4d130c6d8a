"""`germane audit`: how far a report's judge can be trusted."""

from __future__ import annotations

from typing import Annotated

import typer

from germane.cli.options import AsJson, File, Stored


def audit(
    folder: Stored,
    json: AsJson = False,
    output: Annotated[File, typer.Option("-o", "--output", help="Write it as Markdown.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Count labels that were not drawn at random, too.")
    ] = False,
) -> None:
    """Hold the judge against people, against itself, and against how it was asked; corrected means; warnings."""
    from germane.cli.printing import print_document, say
    from germane.errors import InputError
    from germane.labelling.audit import audit_judge, audit_lines
    from germane.reports.report import Report
    from germane.tables.folder import OWN

    if output is not None and output.resolve() in {(folder / name).resolve() for name in OWN}:
        raise InputError(f"{output} is the report's own", fix="write to another file")
    found = audit_judge(Report.open(folder), every=every)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text("".join(f"{line}\n" for line in audit_lines(found)), "utf-8")
        say(f"wrote {output}")
    if json:
        print_document(found)
    elif output is None:
        for line in audit_lines(found):
            print(line)
