"""What the flags of several verbs are: their types, and those that mean the same everywhere."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option


def finite(value: float | None) -> float | None:
    """The number; an error of the command line where it is none that can be counted with."""
    if value is not None and not isfinite(value):
        raise typer.BadParameter(f"{value} is not possible; write a number, or leave the option out")
    return value


def measures_option(default: str) -> Any:
    """The measures of a verb; `default` says what holds without them."""
    return Option(
        None,
        "-m",
        "--measure",
        "--metric",
        help=f"Measures, separated by spaces; repeatable. {default}".strip(),
    )


Stored = Annotated[Path, typer.Argument(metavar="REPORT", help="A report folder that `germane run` wrote.")]
Latest = Annotated[
    Path | None,
    typer.Argument(metavar="[REPORT]", help="A report folder; else the latest in germane-reports."),
]
AsJson = Annotated[bool, Option("--json", help="Print the JSON document on stdout.")]
Against = Annotated[
    str | None, Option("--against", help="Relevance to: auto | query | reference | response | criterion.")
]
Scale = Annotated[str | None, Option("--scale", help="graded (0-3) | binary.")]
BaseUrl = Annotated[str | None, Option("--base-url", help="An OpenAI-compatible endpoint for the judge.")]
AtLedger = Annotated[str | None, Option("--ledger", help="Where answers are kept; else the usual place.")]
NoCache = Annotated[bool, Option("--no-cache", help="Neither read nor write the shared ledger.")]
FailUnder = Annotated[
    list[str] | None, Option("--fail-under", help="A gate, e.g. 'mean(nDCG@10)>=0.7'; repeatable.")
]
Baseline = Annotated[
    Path | None,
    Option(
        "--baseline",
        metavar="REPORT",
        help="For gates on change(...): a report folder, a --json document, or a folder of reports (the latest).",
    ),
]
FailOnRegression = Annotated[
    bool, Option("--fail-on-regression", help="With --baseline: exit 1 where a measure is worse for certain.")
]
AllowStandIn = Annotated[
    bool,
    Option(
        "--allow-stand-in",
        help="Decide on what a stand-in for a model judged (lexical); else undecided, exit 3.",
    ),
]
By = Annotated[
    str | None, Option("--by", metavar="TAG", help="Slices: a tag, `tags`, or a field of the metadata.")
]
