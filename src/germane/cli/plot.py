"""`germane plot`: pictures of a report."""

from __future__ import annotations

from typing import Annotated

import typer

from germane.cli.options import File, Files, Latest, Text, Words
from germane.cli.values import say
from germane.errors import InputError


def plot(
    folder: Latest = None,
    output: Annotated[
        Files, typer.Option("-o", "--output", help="The picture: .svg or .png; repeatable.")
    ] = None,
    kind: Annotated[
        Words,
        typer.Option(
            "--kind",
            help="cutoffs | ranks | differences | tokens | latency; repeatable. Without it all that there is.",
        ),
    ] = None,
    measure: Annotated[
        Text,
        typer.Option("-m", "--measure", help="What is compared and set against costs; else the first."),
    ] = None,
    baseline: Annotated[
        File, typer.Option("--baseline", metavar="REPORT", help="What differences are to.")
    ] = None,
) -> None:
    """Draw measures by cut-off, relevance by rank, differences per query, and a measure against what it costs.

    Costs are the tokens of the contexts and the milliseconds of the search. Without --kind one file holds all of them
    that the report has something for.
    A .svg is light or dark as the system that shows it; a .png takes the extra `png`.
    """
    from germane.cli.printing import opened
    from germane.reports.plots.figures import KINDS, charts_of, write_charts
    from germane.reports.report import Report

    paths = output or []
    if not paths:
        raise InputError("germane plot writes a file", fix="name it: -o report.svg")
    for path in paths:
        if path.suffix.lower() not in {".svg", ".png"}:
            raise InputError(
                f"-o {path}: no picture ends in {path.suffix or 'nothing'}", fix="use .svg or .png"
            )
    kinds = [word for text in kind or [] for word in text.replace(",", " ").split()]
    for word in kinds:
        if word not in KINDS:
            raise InputError(f"--kind {word}: there is no such picture", fix=f"use {', '.join(KINDS)}")
    shown = opened(folder)
    before = Report.open(baseline) if baseline is not None else None
    charts = charts_of(shown, kinds=kinds, measure=measure, baseline=before)
    for path in paths:
        write_charts(charts, path)
        say(f"wrote {path}: {'; '.join(chart.title for chart in charts)}")
