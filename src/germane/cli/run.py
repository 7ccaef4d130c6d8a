"""`germane run`: the main job."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option

from germane.cli.options import (
    Against,
    AllowStandIn,
    AsJson,
    AtLedger,
    Baseline,
    BaseUrl,
    By,
    FailOnRegression,
    FailUnder,
    NoCache,
    Scale,
    finite,
    measures_option,
)
from germane.cli.values import print_document
from germane.errors import InputError

if TYPE_CHECKING:
    from germane.evaluation.options import Options


def run(
    paths: list[str] | None = Argument(
        None, help="Eval files (YAML), samples (JSONL, JSON, CSV, Parquet), folders; - is JSONL on stdin."
    ),
    measures: list[str] | None = measures_option("Replaces a file's own."),
    judge: list[str] | None = Option(
        None,
        "--judge",
        help="labels | gold | lexical | openai:gpt-4o-mini | ...; several are a panel and vote.",
    ),
    labels: Path | None = Option(
        None,
        "--labels",
        metavar="FILE",
        help="People's labels, for --judge labels and labels=human: .jsonl, .csv, TREC qrels, or a report.",
    ),
    repeat: int = Option(1, "--repeat", help="Ask each judge so many times; the answers vote.", min=1),
    vote: str = Option("majority", "--vote", help="How a panel votes: majority | mean."),
    base_url: BaseUrl = None,
    headers: list[str] | None = Option(
        None, "--header", help="NAME=VALUE for the judge's endpoint; repeatable, written down nowhere."
    ),
    parameters: list[str] | None = Option(
        None, "--model-parameter", help="NAME=VALUE in the request, e.g. seed=7; repeatable."
    ),
    temperature: float | None = Option(
        None, "--temperature", help="The model's; 0.1 without this.", min=0.0, callback=finite
    ),
    reasoning: str | None = Option(
        None, "--reasoning", help="How much the model may reason: off | low | ..., where it takes it."
    ),
    rpm: float | None = Option(
        None, "--rpm", help="Judge requests per minute at most, in all.", min=0.01, callback=finite
    ),
    tpm: float | None = Option(
        None, "--tpm", help="Judge tokens per minute at most, in all.", min=1.0, callback=finite
    ),
    timeout: float | None = Option(
        None,
        "--timeout",
        help="Seconds that one answer may take; 120 without this.",
        min=0.1,
        callback=finite,
    ),
    output: list[Path] | None = Option(
        None,
        "-o",
        "--output",
        help="A report file (.html .json .jsonl .csv .md .txt .xml .svg) or the report folder; repeatable.",
    ),
    targets: list[str] | None = Option(None, "--target", help="The system to ask; several are compared."),
    targets_file: Path | None = Option(None, "--targets", help="The targets file."),
    trials: int | None = Option(None, "--trials", help="How often each target is asked each case.", min=1),
    untrusted: bool = Option(
        False, "--untrusted", help="Refuse everything that an eval file would run or send."
    ),
    allowed: list[str] | None = Option(
        None, "--allow", metavar="NAME", help="With --untrusted: a grader or target that may run; repeatable."
    ),
    against: Against = None,
    scale: Scale = None,
    rubric: str | None = Option(None, "--rubric", help="What the grades mean: trec (UMBRELA) | usefulness."),
    reading: str = Option("fused", "--reading", help="fused: one request a text; single: one a question."),
    batch: int = Option(1, "--batch", help="Passages of one query in one request.", min=1),
    prompts: list[str] | None = Option(None, "--prompt", help="KIND=FILE: your own wording; repeatable."),
    gates: FailUnder = None,
    baseline: Baseline = None,
    fail_on_regression: FailOnRegression = False,
    allow_stand_in: AllowStandIn = False,
    by: By = None,
    max_unmeasured: float = Option(
        0.05, "--max-unmeasured", help="Share of scores that may be missing.", min=0.0, max=1.0
    ),
    resume: Path | None = Option(None, "--resume", metavar="REPORT", help="Continue this evaluation."),
    retry_errors: bool = Option(
        False, "--retry-errors", help="With --resume: ask again what the judge failed at."
    ),
    ledger: AtLedger = None,
    replay: str | None = Option(
        None,
        "--replay",
        metavar="LEDGER",
        help="Ask no judge: answers come from this ledger, or an export of one; a missing one is exit code 3.",
    ),
    max_cost: float | None = Option(
        None,
        "--max-cost",
        metavar="USD",
        help="Stop when the judge would cost more; can be continued.",
        min=0.0,
        callback=finite,
    ),
    max_calls: int | None = Option(
        None, "--max-calls", help="Stop before more questions are put to the judge; can be continued.", min=0
    ),
    price: str | None = Option(
        None,
        "--price",
        metavar="IN/OUT",
        help="US dollars for a million tokens of the judge, e.g. 0.15/0.60.",
    ),
    no_cache: NoCache = False,
    force: bool = Option(
        False, "--force", help="Overwrite the report of another evaluation in the folder of -o."
    ),
    jobs: int | None = Option(None, "-j", "--jobs", help="Judge requests in flight at most, in all.", min=1),
    dry_run: bool = Option(
        False, "--dry-run", help="Count calls, tokens and price; ask neither judge nor target."
    ),
    columns: list[str] | None = Option(
        None, "--columns", help="query=Query,contexts=Context: names in the data."
    ),
    doc_id: str | None = Option(None, "--doc-id", metavar="REGEX", help="The document id inside a chunk id."),
    wanted: str | None = Option(None, "--filter", metavar="GLOB", help="Cases whose id or tag matches."),
    limit: int | None = Option(None, "--limit", help="The first N cases.", min=1),
    sample: int | None = Option(None, "--sample", help="N cases drawn at random.", min=1),
    seed: int = Option(0, "--seed", help="For --sample."),
    json: AsJson = False,
    quiet: bool = Option(False, "-q", "--quiet", help="Print only what failed."),
) -> None:
    """Evaluate: ask the targets, judge what came back, score it, and say whether it is good enough.

    An eval file runs code, as a Makefile does: its scripts, commands and Python targets. --dry-run runs and imports
    nothing of it, --untrusted refuses it.

    Exit codes: 0 ok, 1 a gate failed, 2 something in the input is wrong, 3 too much could not be measured
    or a limit (--max-cost, --max-calls) stopped the run, or --replay lacks an answer, 130 interrupted.
    """
    flags = locals()
    from germane.cli.printing import Progress, finish

    files = [path for path in output or () if path.suffix]
    folders = [str(path) for path in output or () if not path.suffix]
    chosen = _options({**flags, "folder": folders[0] if folders else "", "outputs": files})
    for path in files:
        _check_writable(path, paths or ())
    if dry_run and files:
        raise InputError(f"a dry run writes no report to {files[0]}", fix="leave -o out, or: --json > FILE")
    if dry_run:
        _print_forecast(chosen, resume, retry_errors=retry_errors, json=json)
        return
    from germane.comparison.compare import comparison_of
    from germane.evaluation.run import run, run_each
    from germane.reports.formats import json_document
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
            finish(reports, files, as_json=json, quiet=quiet)
        elif json and watch.so_far is not None:
            print_document(json_document(watch.so_far))
        raise
    before, changes = watch.before, None
    if (report := reports.get("")) is not None:
        # of a run that is continued, those of its start
        files = [Path(name) for name in report.manifest["options"]["outputs"]]
        changes = comparison_of(before, report) if files and before is not None else None
    code = finish(reports, files, as_json=json, quiet=quiet, baseline=before, comparison=changes)
    watch.last_words()
    raise typer.Exit(code)


def _print_forecast(chosen: Options, resume: Path | None, *, retry_errors: bool, json: bool) -> None:
    """What each of the evaluations would ask, and what that would cost."""
    from germane.cli.printing import Progress
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


def _options(flags: Mapping[str, Any]) -> Options:
    """The flags as the options of a run: one that is not given is at its default, lists are tuples, paths are text."""
    from germane.cli.values import headers, pairs, parameters, prices
    from germane.evaluation.options import Options

    for name in ("ledger", "no_cache", "resume"):
        if flags["replay"] is not None and flags[name]:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"--replay and {flag} do not go together", fix=f"leave {flag} out")
    read = {
        **flags,
        "judge": flags["judge"] and " ".join(flags["judge"]),
        "price": prices(flags["price"]),
        "headers": headers(flags["headers"]),
        "parameters": parameters(flags["parameters"], "--model-parameter", "seed=7"),
        "prompts": pairs(flags["prompts"], "--prompt", "relevance=my.md"),
        "columns": pairs(flags["columns"], "--columns", "query=Query"),
        "ledger": flags["ledger"] or None,
    }
    names = {field.name for field in fields(Options)} & read.keys()
    return Options(**{name: _plain(read[name]) for name in names if read[name] is not None})


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_plain, value))
    return str(value) if isinstance(value, Path) else value


def _check_writable(path: Path, inputs: Iterable[str]) -> None:
    """InputError, before anything is spent, where no report can be written there or one of the inputs stands there."""
    from germane.reports.formats import FORMATS

    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: no report format ends in {path.suffix}", fix=f"use {', '.join(FORMATS)}")
    there = next(one for one in (path, *path.parents) if one.exists())
    if there == path and path.is_dir():
        raise InputError(f"{path} is a folder", fix="name a file: -o report.html")
    if there != path and not there.is_dir():
        raise InputError(f"{there} is a file", fix="name a file in a folder: -o reports/report.html")
    if not os.access(there, os.W_OK):
        raise InputError(f"{path} cannot be written", fix="name a file in a folder that can be written")
    if there == path and any(Path(one).exists() and path.samefile(one) for one in inputs):
        raise InputError(f"-o {path} would overwrite the input", fix="name another file")
