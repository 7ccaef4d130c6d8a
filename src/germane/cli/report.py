"""The commands `germane report` and `germane explain`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from msgspec import to_builtins

from germane.clean import clean, clean_json
from germane.cli.printing import finish, latest_reports, opened
from germane.cli.values import print_lines
from germane.encoding import encode
from germane.errors import InputError
from germane.reports.explain import explain_query
from germane.reports.report import Report
from germane.reports.text.explanation import lines_of
from germane.samples.urls import local


def report(
    folder: Path | None,
    *,
    output: Sequence[Path],
    by: str | None,
    baseline: Path | None,
    json: bool,
) -> None:
    """Print a stored report, or write it as an HTML page, JSON, JSON lines, CSV, Markdown, text, JUnit XML, SVG, PNG or Parquet.

    Default: the latest report in germane-reports. An interrupted run is shown as far as it got.
    """
    shown = opened(folder)
    if by is not None:
        shown.slices(by)  # an unknown name is an error here
        shown.by = by
    before = None if baseline is None else Report.open(baseline)
    finish(shown, output, as_json=json, verbose=True, baseline=before)


def explain(named: str | None, query: str | None, measure: str | None, *, json: bool) -> None:
    """Print each retrieved passage with its labels, and each formula with this query's numbers.

    Default report: the latest in germane-reports: `germane explain q58`.
    """
    folder = None if named is None else Path(named)
    if named and re.match(r"\w+://\S+$", named):
        folder = local(named)
    if folder is not None and not folder.exists():
        if measure is not None:
            fix = "name a report folder: germane explain REPORT QUERY MEASURE"
            raise InputError(f"there is no report {folder}", fix=fix)
        folder, query, measure = None, named, query
    facts = explain_query(Report.open(folder or latest_reports("explain")[0]), query, measure)
    if json:
        print(clean_json(encode(to_builtins(facts)).decode()))
        return
    width = shutil.get_terminal_size((100, 24)).columns
    print_lines("\n".join(map(clean, lines_of(facts, max(width, 60)))))
