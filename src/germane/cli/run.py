"""The command `germane run`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from germane.addons import find, load
from germane.clean import some_of
from germane.cli.printing import Outputs, check_writable, finish
from germane.cli.progress import Progress
from germane.cli.values import print_document, print_lines, spec_of
from germane.errors import InputError, Interrupted
from germane.evaluation.plan import split_evaluations
from germane.evaluation.run import forecast, run_each, sources_of, stored_manifest
from germane.evaluation.run import run as run_evaluation
from germane.evaluation.spec import Spec
from germane.reports.formats import json_document
from germane.reports.report import Report


def run(*, resume: Path | None, dry_run: bool, json: bool, quiet: bool, verbose: bool, **flags: Any) -> int:
    """Query the targets, judge what they retrieve, score it and decide the gates.

    Without -m, measures follow from the data: gold labels give nDCG@10, R@10 and RR, gold groups group_recall and
    full_recall, evidence evidence_recall; people's labels or a named judge give context_precision and
    context_relevancy(unit=context), and a judge with references context_recall. A judge named only by the environment is
    not used by default.

    An eval file runs code, as a Makefile does: scripts, commands and Python targets. --dry-run runs none of it, and
    --untrusted refuses it.

    Exit codes: 0 ok, 1 a gate failed, 2 invalid input, 3 too much could not be measured, a gate is undecided, a limit
    (--max-cost, --max-calls) stopped the run, --replay lacks an answer, or batches (--later) are pending, 130 interrupted.
    """
    outputs = Outputs.of(flags.pop("output"))
    files = outputs.files
    chosen = spec_of(
        {
            **flags,
            "resume": resume,
            "folder": outputs.folder,
            "outputs": [path for path in files if path not in outputs.urls],
            "store": outputs.store,
        }
    )
    sources_of(chosen)  # refuses options that do not go together
    if resume is not None and chosen.paths:
        _check_same_paths(chosen, resume)
    for path in files:
        check_writable(
            path, [*chosen.paths, chosen.labels, chosen.corpus, chosen.targets_file, chosen.replay]
        )
    if dry_run and files:
        raise InputError(f"a dry run writes no report to {files[0]}", fix="leave -o out, or: --json > FILE")
    if dry_run:
        _print_forecast(chosen, json=json)
        return 0
    outputs.refuse_other(replace=bool(chosen.force or chosen.get("part") or resume))

    reports: dict[str, Report] = {}
    try:
        with Progress(quiet=quiet) as callbacks:
            reports.update(_evaluated(chosen, callbacks))
    except BaseException:
        if reports:
            finish(reports, files, as_json=json, quiet=quiet, verbose=verbose)
        elif json and callbacks.so_far is not None:
            print_document(json_document(callbacks.so_far))
        raise
    if "" in reports:  # of a run that is continued, those of its start
        stored = reports[""].manifest["options"]
        files = [*map(Path, stored["outputs"]), *outputs.urls]
    baselines = dict(zip(reports, callbacks.baselines, strict=False))
    try:
        code = finish(reports, files, as_json=json, quiet=quiet, verbose=verbose, baselines=baselines)
    except KeyboardInterrupt:
        lines = ", ".join(f"germane report {shlex.quote(str(report.folder))}" for report in reports.values())
        raise Interrupted(f"interrupted; all is measured and kept: {lines}") from None
    outputs.put(reports)
    callbacks.print_hints()
    return code


def _evaluated(chosen: Spec, callbacks: Progress) -> Iterator[tuple[str, Report]]:
    """Run the evaluations, in this process or by an engine; return each one's path and report."""
    whole = chosen.resuming(stored_manifest(chosen))
    if engine := whole.get("engine"):
        if (target := find("engines", str(engine).partition(":")[0].strip())) is None:
            fix = "write processes:8, dask, or dask:tcp://HOST:8786"
            raise InputError(f"--engine {engine!r} is not an engine", fix=fix)
        run_in_parts = load(target)
        report, before = run_in_parts(whole, callbacks)
        if before is not None:
            callbacks.on_baseline(before)
        yield "", report
    elif chosen.resume:
        yield "", run_evaluation(chosen, callbacks)
    else:
        yield from run_each(chosen, callbacks)


def _check_same_paths(chosen: Spec, resume: Path) -> None:
    """Raise InputError if --resume names other data than the report was made of; data that has moved may be named anew."""
    before = chosen.resuming(stored_manifest(chosen)).report.get("paths", ())
    stored = {Path(path).resolve() for path in before}
    if all(path.exists() for path in stored) and stored != {Path(path).resolve() for path in chosen.paths}:
        raise InputError(
            f"{resume} is an evaluation of {some_of(before)}, not of {some_of(chosen.paths)}",
            fix=f"germane run --resume {resume}, without a path, continues it; without --resume a new run begins",
        )


def _print_forecast(chosen: Spec, *, json: bool) -> None:
    """Print the questions that each evaluation would ask, and their price."""
    with Progress() as callbacks:
        with chosen.confined():
            parts = {"": chosen} if chosen.resume else split_evaluations(chosen, dry=True)
        forecasts = {path: forecast(evaluation, callbacks) for path, evaluation in parts.items()}
    if json:
        fields = {path: forecast.as_json() for path, forecast in forecasts.items()}
        print_document(fields.get("") or {"schema_version": 1, "reports": fields})
        return
    texts = (f"{path}\n{forecast.text()}".lstrip("\n") for path, forecast in forecasts.items())
    print_lines("\n\n".join(texts))
