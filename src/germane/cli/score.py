"""The command `germane score`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from germane.cli.printing import finish, latest_reports
from germane.cli.values import refuse_input
from germane.evaluation.rescore import rescore
from germane.measures.declaration import parse_measures
from germane.reports.data import ReportData
from germane.reports.report import find_baseline
from germane.samples.urls import local


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
