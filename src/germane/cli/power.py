"""`germane power`: how large a difference can so many queries show?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from germane.cli.options import AsJson, File, Words
from germane.cli.values import print_document


def power(
    report: Annotated[Path, typer.Argument(metavar="REPORT", help="A report folder, or a --json document.")],
    other: Annotated[
        File, typer.Argument(metavar="[OTHER]", help="A second system: its differences are measured.")
    ] = None,
    measure: Annotated[
        Words,
        typer.Option("-m", "--measure", "--metric", help="Measures, separated by spaces; default: all."),
    ] = None,
    detect: Annotated[float, typer.Option("--detect", help="The difference to detect.")] = 0.02,
    correlation: Annotated[
        float,
        typer.Option("--correlation", help="Of one system alone: how its scores go with those of the next."),
    ] = 0.5,
    json: AsJson = False,
) -> None:
    """How many queries would show a difference, and the smallest one that these can show, at 0.05 with power 0.8."""
    from germane.comparison.planning import plan_power
    from germane.measures.declaration import parse_measures
    from germane.reports.report import find_report

    here = find_report(report)
    there = None if other is None else find_report(other)
    names = list(map(str, parse_measures(measure))) if measure else here.measures
    plans = [plan_power(here, name, detect, there, correlation) for name in names]
    if json:
        print_document({"schema_version": 1, "measures": list(map(asdict, plans))})
    else:
        print("\n".join(map(str, plans)))
