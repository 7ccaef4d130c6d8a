"""`germane run`: the main job."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer


def run(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Eval files (YAML), samples (JSONL, JSON, CSV), folders.")
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "-m",
            "--measure",
            "--metric",
            help="Measures, separated by spaces; repeatable. Replaces a file's own.",
        ),
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            "--judge",
            help="labels | gold | lexical | openai:gpt-4o-mini | ...; several are a panel and vote.",
        ),
    ] = None,
    repeat: Annotated[
        int, typer.Option("--repeat", help="Ask each judge so many times; the answers vote.", min=1)
    ] = 1,
    vote: Annotated[str, typer.Option("--vote", help="How a panel votes: majority | mean.")] = "majority",
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="An OpenAI-compatible endpoint for the judge.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header", help="NAME=VALUE for the judge's endpoint; repeatable, written down nowhere."
        ),
    ] = None,
    model_parameter: Annotated[
        list[str] | None,
        typer.Option("--model-parameter", help="NAME=VALUE in the request, e.g. seed=7; repeatable."),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", help="The model's; 0.1 without this.", min=0.0)
    ] = None,
    rpm: Annotated[
        float | None, typer.Option("--rpm", help="Judge requests a minute at most.", min=0.01)
    ] = None,
    tpm: Annotated[
        float | None, typer.Option("--tpm", help="Judge tokens a minute at most.", min=1.0)
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", help="Seconds that one answer may take; 120 without this.", min=0.1),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            help="A report file (.json .jsonl .csv .md .txt) or the report folder; repeatable.",
        ),
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option("--target", help="The system to ask; several are compared.")
    ] = None,
    targets: Annotated[Path | None, typer.Option("--targets", help="The targets file.")] = None,
    against: Annotated[
        str | None, typer.Option("--against", help="Relevance to: auto | query | reference | response.")
    ] = None,
    scale: Annotated[str | None, typer.Option("--scale", help="graded (0-3) | binary.")] = None,
    reading: Annotated[
        str, typer.Option("--reading", help="fused: one request a text; single: one a question.")
    ] = "fused",
    batch: Annotated[int, typer.Option("--batch", help="Passages of one query in one request.", min=1)] = 1,
    prompt: Annotated[
        list[str] | None, typer.Option("--prompt", help="KIND=FILE: your own wording; repeatable.")
    ] = None,
    fail_under: Annotated[
        list[str] | None, typer.Option("--fail-under", help="A gate, e.g. 'mean(nDCG@10)>=0.7'; repeatable.")
    ] = None,
    max_unmeasured: Annotated[
        float, typer.Option("--max-unmeasured", help="Share of scores that may be missing.", min=0.0, max=1.0)
    ] = 0.05,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="REPORT", help="Continue this evaluation.")
    ] = None,
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="With --resume: ask again what the judge failed at.")
    ] = False,
    ledger: Annotated[Path | None, typer.Option("--ledger", help="Where answers are kept.")] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(
            "--max-cost",
            metavar="USD",
            help="Stop when the judge would cost more; can be continued.",
            min=0.0,
        ),
    ] = None,
    max_calls: Annotated[
        int | None,
        typer.Option(
            "--max-calls", help="Stop before more questions are put to the judge; can be continued.", min=0
        ),
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            "--price", metavar="IN/OUT", help="US dollars for a million tokens of the judge, e.g. 0.15/0.60."
        ),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Neither read nor write the shared ledger.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", help="Judge requests in flight at most.", min=1)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count calls, tokens and price; ask nobody.")
    ] = False,
    columns: Annotated[
        list[str] | None, typer.Option("--columns", help="query=Query,contexts=Context: names in the data.")
    ] = None,
    doc_id: Annotated[
        str | None, typer.Option("--doc-id", metavar="REGEX", help="The document id inside a chunk id.")
    ] = None,
    only: Annotated[
        str | None, typer.Option("--filter", metavar="GLOB", help="Cases whose id or tag matches.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", help="The first N cases.", min=1)] = None,
    sample: Annotated[int | None, typer.Option("--sample", help="N cases drawn at random.", min=1)] = None,
    seed: Annotated[int, typer.Option("--seed", help="For --sample.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the JSON document on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print no report.")] = False,
) -> None:
    """Evaluate: ask the targets, judge what came back, score it, and say whether it is good enough.

    Exit codes: 0 ok, 1 a gate failed, 2 something in the input is wrong, 3 too much could not be measured
    or a limit (--max-cost, --max-calls) stopped the run, 130 interrupted.
    """
    from germane.cli.printing import Progress, finish
    from germane.cli.values import headers, pairs, parameters, prices
    from germane.errors import InputError
    from germane.options import Options
    from germane.running import forecast, run

    outputs = output or []
    folders = [path for path in outputs if not path.suffix]
    files = [path for path in outputs if path.suffix]
    options = Options(
        paths=tuple(map(str, paths or [])),
        measures=tuple(measure or []),
        judge=" ".join(judge) if judge else None,
        repeat=repeat,
        vote=vote,
        price=prices(price),
        max_cost=max_cost,
        max_calls=max_calls,
        base_url=base_url,
        headers=headers(header),
        temperature=temperature,
        parameters=parameters(model_parameter),
        rpm=rpm,
        tpm=tpm,
        timeout=timeout,
        against=against,
        scale=scale,
        reading=reading,
        batch=batch,
        prompts=pairs(prompt, "--prompt", "relevance=my.md"),
        targets=tuple(target or []),
        targets_file=str(targets) if targets else None,
        columns=pairs(columns, "--columns", "query=Query"),
        doc_id=doc_id,
        wanted=only,
        limit=limit,
        sample=sample,
        seed=seed,
        gates=tuple(fail_under or []),
        max_unmeasured=max_unmeasured,
        ledger=str(ledger) if ledger else None,
        no_cache=no_cache,
        jobs=jobs,
        folder=str(folders[0]) if folders else "",
    )
    for path in files:
        _writable(path)
    if dry_run and files:
        raise InputError(f"a dry run writes no report to {files[0]}", fix="leave -o out, or: --json > FILE")
    if dry_run:
        with Progress() as watch:
            expected = forecast(options, watch)
        print(jsonlib.dumps(expected.as_json(), ensure_ascii=False) if json else expected.text())
        return
    with Progress() as watch:
        report = run(options, watch, resume=resume, retry_errors=retry_errors)
    finish(report, files, as_json=json, quiet=quiet, code=False)
    watch.last_words()
    raise typer.Exit(report.verdict.exit_code)


def _writable(path: Path) -> None:
    """An unknown report format is said before anything is spent, not after."""
    from germane.errors import InputError
    from germane.reports.formats import FORMATS

    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: no report format ends in {path.suffix}", fix=f"use {', '.join(FORMATS)}")
