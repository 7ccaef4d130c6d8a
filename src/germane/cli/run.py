"""`germane run`: the main job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from germane.cli import options

if TYPE_CHECKING:
    from germane.evaluation.options import Options


def run(
    paths: options.Paths = None,
    measure: options.Measure = None,
    judge: options.Judge = None,
    labels: options.Labels = None,
    repeat: options.Repeat = 1,
    vote: options.Vote = "majority",
    base_url: options.BaseUrl = None,
    header: options.Header = None,
    model_parameter: options.ModelParameter = None,
    temperature: options.Temperature = None,
    reasoning: options.Reasoning = None,
    rpm: options.Rpm = None,
    tpm: options.Tpm = None,
    timeout: options.Timeout = None,
    output: options.Output = None,
    target: options.Target = None,
    targets: options.Targets = None,
    trials: options.Trials = None,
    untrusted: options.Untrusted = False,
    allow: options.Allow = None,
    against: options.Against = None,
    scale: options.Scale = None,
    rubric: options.Rubric = None,
    reading: options.Reading = "fused",
    batch: options.Batch = 1,
    prompt: options.Prompt = None,
    fail_under: options.FailUnder = None,
    baseline: options.Baseline = None,
    fail_on_regression: options.FailOnRegression = False,
    by: options.By = None,
    max_unmeasured: options.MaxUnmeasured = 0.05,
    resume: options.Resume = None,
    retry_errors: options.RetryErrors = False,
    ledger: options.Ledger = None,
    replay: options.Replay = None,
    max_cost: options.MaxCost = None,
    max_calls: options.MaxCalls = None,
    price: options.Price = None,
    no_cache: options.NoCache = False,
    force: options.Force = False,
    jobs: options.Jobs = None,
    dry_run: options.DryRun = False,
    columns: options.Columns = None,
    doc_id: options.DocId = None,
    only: options.Only = None,
    limit: options.Limit = None,
    sample: options.Sample = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Evaluate: ask the targets, judge what came back, score it, and say whether it is good enough.

    An eval file runs code, as a Makefile does: its scripts, commands and Python targets. --dry-run runs and imports
    nothing of it, --untrusted refuses it.

    Exit codes: 0 ok, 1 a gate failed, 2 something in the input is wrong, 3 too much could not be measured
    or a limit (--max-cost, --max-calls) stopped the run, or --replay lacks an answer, 130 interrupted.
    """
    from germane.cli.printing import Progress, finish, finish_each, print_json
    from germane.cli.values import headers, pairs, parameters, prices
    from germane.errors import InputError
    from germane.evaluation.options import Options

    outputs = output or []
    folders = [path for path in outputs if not path.suffix]
    files = [path for path in outputs if path.suffix]
    chosen = Options(
        paths=tuple(paths or []),
        measures=tuple(measure or []),
        judge=" ".join(judge) if judge else None,
        labels=str(labels) if labels else None,
        repeat=repeat,
        vote=vote,
        price=prices(price),
        max_cost=max_cost,
        max_calls=max_calls,
        base_url=base_url,
        headers=headers(header),
        temperature=temperature,
        reasoning=reasoning,
        parameters=parameters(model_parameter),
        rpm=rpm,
        tpm=tpm,
        timeout=timeout,
        against=against,
        scale=scale,
        rubric=rubric,
        reading=reading,
        batch=batch,
        prompts=pairs(prompt, "--prompt", "relevance=my.md"),
        targets=tuple(target or []),
        targets_file=str(targets) if targets else None,
        trials=trials,
        untrusted=untrusted,
        allowed=tuple(allow or []),
        columns=pairs(columns, "--columns", "query=Query"),
        doc_id=doc_id,
        wanted=only,
        limit=limit,
        sample=sample,
        seed=seed,
        gates=tuple(fail_under or []),
        baseline=str(baseline) if baseline else None,
        fail_on_regression=fail_on_regression,
        by=by,
        max_unmeasured=max_unmeasured,
        ledger=ledger or None,
        replay=replay,
        no_cache=no_cache,
        force=force,
        jobs=jobs,
        folder=str(folders[0]) if folders else "",
        outputs=tuple(map(str, files)),
    )
    for path in files:
        _writable(path)
    _only_replayed(replay, {"--ledger": ledger, "--no-cache": no_cache, "--resume": resume})
    if dry_run and files:
        raise InputError(f"a dry run writes no report to {files[0]}", fix="leave -o out, or: --json > FILE")
    if dry_run:
        _print_forecast(chosen, resume, retry_errors=retry_errors, json=json)
        return
    from germane.comparison.compare import comparison_of
    from germane.evaluation.run import run, run_each
    from germane.reports.gates import worst_exit_code
    from germane.reports.report import Report

    reports: dict[str, Report] = {}
    try:
        with Progress(quiet=quiet) as watch:
            if resume is not None:
                reports[""] = run(chosen, watch, resume=resume, retry_errors=retry_errors)
            else:
                reports.update(run_each(chosen, watch))
    except BaseException:
        if reports:
            finish_each(reports, files, as_json=json, quiet=quiet)
        elif json and watch.so_far is not None:
            print_json(watch.so_far)
        raise
    report = reports.get("")
    if report is None:
        finish_each(reports, files, as_json=json, quiet=quiet)
    else:
        wanted = report.manifest["options"]["outputs"]  # of a run that is continued, those of its start
        files = [Path(name) for name in wanted]
        finish(
            report,
            files,
            as_json=json,
            quiet=quiet,
            code=False,
            baseline=watch.before,
            comparison=comparison_of(watch.before, report) if files and watch.before is not None else None,
        )
    watch.last_words()
    raise typer.Exit(worst_exit_code(one.verdict.exit_code for one in reports.values()))


def _print_forecast(chosen: Options, resume: Path | None, *, retry_errors: bool, json: bool) -> None:
    """What each of the evaluations would ask, and what that would cost."""
    from germane.cli.printing import Progress, print_document
    from germane.evaluation.plan import separate
    from germane.evaluation.run import forecast

    with Progress() as watch:
        parts = separate(chosen, dry=True) if resume is None else {"": chosen}
        found = {
            path: forecast(one, watch, resume=resume, retry_errors=retry_errors)
            for path, one in parts.items()
        }
    if json:
        shown = {path: one.as_json() for path, one in found.items()}
        print_document(shown.get("") or {"schema_version": 1, "reports": shown})
        return
    print("\n\n".join(f"{path}\n{one.text()}" if path else one.text() for path, one in found.items()))


def _only_replayed(replay: str | None, others: Mapping[str, object]) -> None:
    """A ledger that is replayed is the only one."""
    from germane.errors import InputError

    for flag, given in others.items():
        if replay is not None and given:
            raise InputError(f"--replay and {flag} do not go together", fix=f"leave {flag} out")


def _writable(path: Path) -> None:
    """An unknown report format is said before anything is spent, not after."""
    from germane.errors import InputError
    from germane.reports.formats import FORMATS

    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: no report format ends in {path.suffix}", fix=f"use {', '.join(FORMATS)}")
