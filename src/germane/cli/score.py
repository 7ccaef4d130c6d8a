"""`germane score`: new measures, thresholds or gates on a stored evaluation, without one judge call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from germane.cli.options import AsJson, Baseline, By, FailOnRegression, FailUnder, Files, Stored, Words


def score(
    folder: Stored,
    measure: Annotated[
        Words,
        typer.Option("-m", "--measure", "--metric", help="Measures, separated by spaces; repeatable."),
    ] = None,
    output: Annotated[
        Files, typer.Option("-o", "--output", help="A report file, or a new report folder.")
    ] = None,
    fail_under: FailUnder = None,
    baseline: Baseline = None,
    fail_on_regression: FailOnRegression = False,
    by: By = None,
    json: AsJson = False,
) -> None:
    """Compute measures on what a stored evaluation has judged already: no judge is asked."""
    from germane.cli.printing import finish
    from germane.comparison.regression import find_baseline, settle_changes
    from germane.evaluation.evaluate import rescore
    from germane.measures.declaration import parse_measures

    for path in output or []:
        _refuse_source(path, folder)
    before = find_baseline(baseline, every=fail_on_regression)
    files = [path for path in output or [] if path.suffix]
    folders = [path for path in output or [] if not path.suffix]
    first = folders[0] if folders else None
    report = rescore(folder, parse_measures(measure or []), gates=fail_under or [], by=by, folder=first)
    settle_changes(report, before, every=fail_on_regression)
    if first is not None:
        report.finish()  # with what was decided on the change
    for path in folders[1:]:
        report.save(path)
    finish(report, files, as_json=json)


def _refuse_source(output: Path, folder: Path) -> None:
    """What is scored holds judgements that were paid for, and a new measure needs only some of them."""
    from germane.errors import InputError
    from germane.tables.folder import OWN

    if output.resolve() in {folder.resolve(), *((folder / name).resolve() for name in OWN)}:
        raise InputError(
            f"-o {output} would overwrite the report that is scored", fix="name another file or folder"
        )
