"""The command `germane run`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from germane.addons import find, load
from germane.clean import some_of
from germane.cli.printing import Outputs, check_writable, finish
from germane.cli.progress import Progress
from germane.cli.values import print_document, print_lines, say, spec_of
from germane.errors import InputError, Interrupted
from germane.evaluation.run import forecast, sources_of, stored_manifest
from germane.evaluation.run import run as run_evaluation
from germane.evaluation.spec import Spec
from germane.reports.formats import json_document
from germane.reports.report import Report


def run(*, resume: Path | None, dry_run: bool, json: bool, quiet: bool, verbose: bool, **flags: Any) -> int:
    """Query the targets, judge what they retrieve, score it and decide the gates.

    Without -m, measures follow from the data: gold labels give nDCG@10, R@10 and RR; a named judge gives context_precision
    and context_relevancy(unit=context), and with references context_recall. A judge named only by the environment is not
    used by default.

    An eval file runs code, as a Makefile does: scripts, commands and Python targets. --dry-run runs none of it, and
    --untrusted refuses it.

    Exit codes: 0 ok, 1 a gate failed, 2 invalid input, 3 too much could not be measured, a gate is undecided, a limit
    (--max-cost, --max-calls) stopped the run, --replay lacks an answer, or batches (--later) are pending, 130 interrupted.
    """
    outputs = Outputs.of(flags.pop("output"))
    files = outputs.files
    kept = [path for path in files if path not in outputs.urls]
    written = {"folder": outputs.folder, "outputs": kept, "store": outputs.store}
    chosen = spec_of({**flags, "resume": resume, **written})
    sources_of(chosen)  # refuses options that do not go together
    if resume is not None and chosen.paths:
        _check_same_paths(chosen, resume)
    for path in files:
        check_writable(path, [*chosen.paths, chosen.labels, chosen.targets_file, chosen.replay])
    if dry_run:
        if files:
            fix = "leave out -o, or write --json > FILE"
            raise InputError(f"--dry-run writes no report, but -o {files[0]} is given", fix=fix)
        with Progress() as callbacks:
            expected = forecast(chosen, callbacks)
        if json:
            print_document(expected.as_json())
        else:
            print_lines(expected.text())
        return 0
    outputs.refuse_other(replace=bool(chosen.force or chosen.get("part") or resume))

    try:
        with Progress(quiet=quiet) as callbacks:
            report = _evaluated(chosen, callbacks)
    except BaseException:
        if json and callbacks.so_far is not None:
            print_document(json_document(callbacks.so_far))
        raise
    # of a run that is continued, those of its start
    files = [*map(Path, report.manifest["options"]["outputs"]), *outputs.urls]
    try:
        code = finish(report, files, as_json=json, quiet=quiet, verbose=verbose, baseline=callbacks.baseline)
    except KeyboardInterrupt:
        command = f"germane report {shlex.quote(str(report.folder))}"
        raise Interrupted(f"interrupted; the report is complete: {command}") from None
    outputs.put(report)
    if callbacks.hint:
        say(callbacks.hint)
    return code


def _evaluated(chosen: Spec, callbacks: Progress) -> Report:
    """Run the evaluation, in this process or by an engine."""
    whole = chosen.resuming(stored_manifest(chosen))
    engine = whole.get("engine")
    if not engine:
        return run_evaluation(chosen, callbacks)
    if (target := find("engines", str(engine).partition(":")[0].strip())) is None:
        fix = "write processes:8, dask, or dask:tcp://HOST:8786"
        raise InputError(f"--engine {engine!r} is not an engine", fix=fix)
    report: Report
    report, callbacks.baseline = load(target)(whole, callbacks)
    return report


def _check_same_paths(chosen: Spec, resume: Path) -> None:
    """Raise InputError if --resume names other data than the report's, unless the report's data has moved."""
    before = chosen.resuming(stored_manifest(chosen)).report.get("paths", ())
    stored = {Path(path).resolve() for path in before}
    if all(path.exists() for path in stored) and stored != {Path(path).resolve() for path in chosen.paths}:
        problem = f"{resume} is an evaluation of {some_of(before)}, not of {some_of(chosen.paths)}"
        again = f"germane run --resume {resume}, without a path, continues it"
        raise InputError(problem, fix=f"{again}; leave out --resume to begin a new run")
