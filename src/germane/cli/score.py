"""`germane score` and `sweep`: new numbers from what is stored, without one judge call."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Exit, Option

from germane.cli.options import (
    AllowStandIn,
    AsJson,
    Baseline,
    By,
    FailOnRegression,
    FailUnder,
    Stored,
    measures_option,
)
from germane.cli.values import print_document
from germane.errors import InputError


def score(
    folder: Stored,
    measure: list[str] | None = measures_option("Without them only the gates are decided anew."),
    output: list[Path] | None = Option(None, "-o", "--output", help="A report file, or a new report folder."),
    fail_under: FailUnder = None,
    baseline: Baseline = None,
    fail_on_regression: FailOnRegression = False,
    allow_stand_in: AllowStandIn = False,
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
    report = rescore(
        folder,
        parse_measures(measure or []),
        gates=fail_under or [],
        allow_stand_in=allow_stand_in,
        by=by,
        folder=first,
    )
    settle_changes(report, before, every=fail_on_regression)
    if first is not None:
        report.finish()  # with what was decided on the change
    for path in folders[1:]:
        report.save(path)
    raise Exit(finish({"": report}, files, as_json=json))


def _refuse_source(output: Path, folder: Path) -> None:
    """What is scored holds judgements that were paid for, and a new measure needs only some of them."""
    from germane.tables.folder import is_own

    if output.resolve() == folder.resolve() or is_own(output, folder):
        problem = f"-o {output} would overwrite the report that is scored"
        raise InputError(problem, fix="name another file or folder")


def sweep(
    path: Path = Argument(..., metavar="SAMPLES", help="Samples with retriever scores, or a report folder."),
    json: AsJson = False,
) -> None:
    """Sweep a floor over the retriever's scores: false hits on unanswerable questions against recall kept."""
    from germane.evaluation.sweep import sweep as swept
    from germane.samples import read_samples

    result = swept(read_samples(path / "samples.jsonl" if path.is_dir() else path))
    if json:
        print_document(result.as_json())
        return
    asked = f"{result.unanswerable} unanswerable and {result.answerable} answerable questions"
    print(f"{asked}, {result.left_out} left out")
    print(f"\n{'floor':>12}  {'false hits':>10}  {'recall kept':>11}")
    step = max(1, len(result.floors) // 15)
    shown = [*result.floors[::step], result.floors[-1], result.best]
    for floor in sorted(dict.fromkeys(shown), key=lambda one: one.floor):
        mark = "  <- most recall kept less false hits" if floor == result.best else ""
        print(f"{floor.floor:12.4f}  {floor.false_hits:10.4f}  {floor.recall_kept:11.4f}{mark}")
