"""`germane compare`, `power` and `overlap`: did the change help, could we have seen it, and are the lists alike at all?"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from typer import Argument, Exit, Option

from germane.cli.options import AllowStandIn, AsJson, By, measures_option
from germane.cli.values import print_document, say


def compare(
    reports: list[Path] = Argument(
        ...,
        metavar="A B...",
        help="Report folders, --json documents, or folders of reports (the latest); one alone: its systems.",
    ),
    systems: list[str] | None = Option(
        None, "--systems", help="Systems of one report, or the one to take of each; repeatable."
    ),
    measure: list[str] | None = measures_option("Default: all in common."),
    primary: list[str] | None = Option(
        None, "--primary", help="Measures that the finding rests on (Holm); default: all compared."
    ),
    margin: list[str] | None = Option(
        None, "--margin", help="The loss that is acceptable, e.g. 'nDCG@10: 0.02'; repeatable."
    ),
    across_judges: bool = Option(
        False, "--across-judges", help="Compare what different judges judged; says what is the judge's."
    ),
    allow_stand_in: AllowStandIn = False,
    cluster: str | None = Option(
        None, "--cluster", help="The metadata field that names the queries' cluster."
    ),
    by: By = None,
    seed: int = Option(0, "--seed", help="Of the random flips of the test."),
    output: list[Path] | None = Option(
        None, "-o", "--output", help="Write a file: .json .csv .md .tex .txt; repeatable."
    ),
    json: AsJson = False,
) -> None:
    """Compare systems over the same queries, each against the first: paired differences, tests, what moved.

    Exit codes with --margin: 0 no worse than the margin, 1 worse, 3 undecided: with the number of queries that would
    decide it, where fewer than half of either side's queries are in both, or where a stand-in judged.
    """
    from germane.cli.printing import print_console
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
        allow_stand_in=allow_stand_in,
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
    raise Exit(found.exit_code)


def power(
    report: Path = Argument(..., metavar="REPORT", help="A report folder, or a --json document."),
    other: Path | None = Argument(
        None, metavar="[OTHER]", help="A second system: its differences are measured."
    ),
    measure: list[str] | None = measures_option("Default: all."),
    detect: float = Option(0.02, "--detect", help="The difference to detect."),
    correlation: float = Option(
        0.5, "--correlation", help="Of one system alone: how its scores go with those of the next."
    ),
    json: AsJson = False,
) -> None:
    """How many queries would show a difference, and the smallest one that these can show, at 0.05 with power 0.8."""
    from dataclasses import asdict

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


def overlap(
    a: Path = Argument(..., metavar="A", help="A run (TREC, TSV, CSV, JSONL), or a report folder."),
    b: Path = Argument(..., metavar="B", help="Another one over the same queries."),
    k: int = Option(10, "-k", help="How many first places are compared.", min=1),
    p: float = Option(0.9, "-p", help="The persistence of rank-biased overlap."),
    json: AsJson = False,
) -> None:
    """Compare the lists of two systems: rank-biased overlap, overlap@k, and which queries differ at all."""
    from germane.comparison.planning import overlap as overlap_of

    found = overlap_of(_lists(a), _lists(b), k=k, p=p)
    if json:
        print_document(found.as_json())
    else:
        print(found)


def _lists(path: Path) -> Mapping[str, Sequence[str]]:
    """The ids of each query's results, best first; ties in score by id, descending, as in trec_eval."""
    if path.is_dir():
        from germane.measures.labels import distinct_contexts
        from germane.reports.report import Report

        return {
            sample.id: [context.id or context.text for context in distinct_contexts(sample)]
            for sample in Report.open(path).samples()
        }
    from germane.samples.trec import read_run

    return {
        query: [doc for _, doc in sorted(zip(found.scores, found.ids, strict=True), reverse=True)]
        if found.scores
        else list(found.ids)
        for query, found in read_run(path).queries.items()
    }
