"""`germane compare`: did the change help?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from germane.cli.options import AsJson, By, Files, Text, Words


def compare(
    reports: Annotated[
        list[Path],
        typer.Argument(
            metavar="A B...",
            help="Report folders, --json documents, or folders of reports (the latest); one alone: its systems.",
        ),
    ],
    systems: Annotated[
        Words,
        typer.Option("--systems", help="Systems of one report, or the one to take of each; repeatable."),
    ] = None,
    measure: Annotated[
        Words,
        typer.Option(
            "-m", "--measure", "--metric", help="Measures, separated by spaces; default: all in common."
        ),
    ] = None,
    primary: Annotated[
        Words,
        typer.Option("--primary", help="Measures that the finding rests on (Holm); default: all compared."),
    ] = None,
    margin: Annotated[
        Words,
        typer.Option("--margin", help="The loss that is acceptable, e.g. 'nDCG@10: 0.02'; repeatable."),
    ] = None,
    across_judges: Annotated[
        bool,
        typer.Option(
            "--across-judges", help="Compare what different judges judged; says what is the judge's."
        ),
    ] = False,
    cluster: Annotated[
        Text, typer.Option("--cluster", help="The metadata field that names the queries' cluster.")
    ] = None,
    by: By = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the random flips of the test.")] = 0,
    output: Annotated[
        Files,
        typer.Option("-o", "--output", help="Write a file: .json .csv .md .tex .txt; repeatable."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Compare systems over the same queries, each against the first: paired differences, tests, what moved.

    Exit codes with --margin: 0 no worse than the margin, 1 worse, 3 undecided, with the number of queries that would
    decide it.
    """
    from germane.cli.printing import print_console, print_document, say
    from germane.comparison.compare import compare as compare_reports
    from germane.comparison.formats import COMPARISON_FORMATS, render_comparison

    found = compare_reports(
        *reports,
        systems=systems or (),
        measures=measure,
        primary=primary,
        margin=margin,
        cluster=cluster,
        by=by,
        across_judges=across_judges,
        seed=seed,
    )
    for path in output or []:
        found.save(path)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as page:
            page.write(COMPARISON_FORMATS[".md"](found))
    if json:
        print_document(found.to_json())
    else:
        print_console(render_comparison(found))
    for path in output or []:
        say(f"wrote {path}")
    raise typer.Exit(found.exit_code)
