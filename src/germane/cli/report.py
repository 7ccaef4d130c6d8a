"""The commands `germane report`, `germane explain` and `germane score`."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from msgspec import to_builtins

from germane.clean import clean, clean_json
from germane.cli.finishing import finish, latest_reports, opened, reports_here
from germane.cli.output import print_lines, refuse_input
from germane.encoding import encode
from germane.errors import InputError
from germane.measures.declaration import parse_measures
from germane.reports.data import ReportData
from germane.reports.explain import explain_query, lines_of
from germane.reports.report import Report, find_baseline
from germane.samples.files import local


def report(
    folder: Path | None, *, output: Sequence[Path], by: str | None, baseline: Path | None, json: bool
) -> None:
    """Print a stored report, or write it as an HTML page, JSON, JSON lines, CSV, Markdown, text, JUnit XML, SVG, PNG or Parquet.

    Default: the latest report in germane-reports. For an interrupted run, the results so far are shown.
    """
    shown = opened(folder)
    if by is not None:
        shown.slices(by)  # an unknown name is an error here
        shown.by = by
    before = None if baseline is None else Report.open(baseline)
    finish(shown, output, as_json=json, verbose=True, baseline=before)


def explain(named: str | None, query: str | None, measure: str | None, *, json: bool) -> None:
    """Print each retrieved passage with its labels, and each formula with this query's numbers.

    Without a report, as in `germane explain q58`, the latest report in germane-reports is used.
    """
    folder = None if named is None else Path(named)
    if named and re.match(r"\w+://\S+$", named):
        folder = local(named)
    absent = folder is not None and not os.path.exists(folder)  # noqa: PTH110 - False for a long query
    if absent and measure is not None:
        fix = f"name a report folder: germane explain REPORT QUERY MEASURE{reports_here()}"
        raise InputError(f"there is no report {folder}", fix=fix)
    if absent:
        folder, query, measure = None, named, query
    neither = f"there is no report {named}, and " if absent else ""
    read = Report.open(folder or latest_reports("explain", begin=neither)[0])
    facts = explain_query(read, query, measure, neither, reports_here() if absent else "")
    if json:
        print(clean_json(encode(to_builtins(facts)).decode()))
        return
    width = shutil.get_terminal_size((100, 24)).columns
    print_lines("\n".join(map(clean, lines_of(facts, max(width, 60)))))


def score(
    folder: Path | None,
    *,
    measures: Sequence[str],
    output: Sequence[Path],
    gates: Sequence[str],
    baseline: Path | None,
    fail_on_regression: bool,
    allow_stand_in: bool,
    by: str | None,
    verbose: bool,
    json: bool,
) -> int:
    """Compute measures from a stored report, without judge calls.

    Default report: the latest in germane-reports.
    """
    from germane.evaluation.evaluate import rescore  # the other commands score nothing

    folder = folder or latest_reports("score")[0]
    for path in output:
        refuse_input(path, [folder])
    before: ReportData | None = None
    if baseline is not None or fail_on_regression:
        before = find_baseline(baseline and local(baseline))
    files = [path for path in output if path.suffix]
    folders = [path for path in output if not path.suffix]
    first = folders[0] if folders else None
    parsed = parse_measures(measures)
    report = rescore(folder, parsed, gates=gates, allow_stand_in=allow_stand_in, by=by, folder=first)
    if before is not None:
        from germane.comparison.regression import settle_changes

        settle_changes(report, before, every=fail_on_regression)
        if first is not None:
            report.store_verdict()
    for path in folders[1:]:
        report.save(path)
    return finish(report, files, as_json=json, verbose=verbose, baseline=before)
