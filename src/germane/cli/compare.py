"""`germane compare`: did the change help?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def compare(
    reports: Annotated[
        list[Path],
        typer.Argument(
            metavar="A B...",
            help="Report folders, --json documents, or folders of reports (the latest); one alone: its systems.",
        ),
    ],
    systems: Annotated[
        list[str] | None,
        typer.Option("--systems", help="Systems of one report, or the one to take of each; repeatable."),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "-m", "--measure", "--metric", help="Measures, separated by spaces; default: all in common."
        ),
    ] = None,
    primary: Annotated[
        list[str] | None,
        typer.Option("--primary", help="Measures that the finding rests on (Holm); default: all compared."),
    ] = None,
    margin: Annotated[
        list[str] | None,
        typer.Option("--margin", help="The loss that is acceptable, e.g. 'nDCG@10: 0.02'; repeatable."),
    ] = None,
    across_judges: Annotated[
        bool,
        typer.Option(
            "--across-judges", help="Compare what different judges judged; says what is the judge's."
        ),
    ] = False,
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="The metadata field that names the queries' cluster.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="TAG", help="Slices: a tag, `tags`, or a field of the metadata."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the random flips of the test.")] = 0,
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", help="Write a file: .json .csv .md .tex .txt; repeatable."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the JSON document on stdout.")] = False,
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
