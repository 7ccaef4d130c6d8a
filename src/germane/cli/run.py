"""`germane run`: the main job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from germane.cli.values import print_document, say
from germane.errors import InputError

if TYPE_CHECKING:
    from germane.cli.printing import Progress
    from germane.evaluation.options import Options
    from germane.reports.report import Report


def run(
    *,
    resume: Path | None,
    retry_errors: bool,
    reask: bool,
    dry_run: bool,
    json: bool,
    quiet: bool,
    page_queries: str,
    **flags: Any,
) -> int:
    """Evaluate: ask the targets, judge what came back, score it, and say whether it is good enough.

    Without paths it takes the folder evals/. Data that no measure is named for get those that they allow: of gold nDCG@10,
    R@10 and RR, of people's labels or a judge that is named context_precision and context_relevancy(unit=context), of a
    judge and references context_recall too. A judge that only the environment names is not asked by default.

    An eval file runs code, as a Makefile does: its scripts, commands and Python targets. --dry-run runs and imports
    nothing of it, --untrusted refuses it.

    Exit codes: 0 ok, 1 a gate failed, 2 something in the input is wrong, 3 too much could not be measured
    or a limit (--max-cost, --max-calls) stopped the run, or --replay lacks an answer, 130 interrupted.
    """
    from germane.cli.printing import Progress, check_writable, finish
    from germane.reports.page.excerpt import PageQueries

    queries = PageQueries.parse(page_queries)
    output: list[Path] = flags.pop("output")
    files = [path for path in output if path.suffix]
    folders = [str(path) for path in output if not path.suffix]
    chosen = _options({**flags, "resume": resume, "folder": folders[0] if folders else "", "outputs": files})
    for path in files:
        check_writable(path, chosen.paths)
    if dry_run and files:
        raise InputError(f"a dry run writes no report to {files[0]}", fix="leave -o out, or: --json > FILE")
    if dry_run:
        _print_forecast(chosen, resume, retry_errors=retry_errors, reask=reask, json=json)
        return 0
    from germane.reports.formats import json_document

    reports: dict[str, Report] = {}
    try:
        with Progress(quiet=quiet) as watch:
            reports.update(_evaluated(chosen, watch, resume, retry_errors=retry_errors, reask=reask))
    except BaseException:
        if reports:
            finish(reports, files, as_json=json, quiet=quiet, queries=queries)
        elif json and watch.so_far is not None:
            print_document(json_document(watch.so_far))
        raise
    if "" in reports:  # of a run that is continued, those of its start
        files = [Path(name) for name in reports[""].manifest["options"]["outputs"]]
    baselines = dict(zip(reports, watch.baselines, strict=False))
    code = finish(reports, files, as_json=json, quiet=quiet, baselines=baselines, queries=queries)
    watch.last_words()
    return code


_USUAL_PATH = "evals"


def _usual_path() -> str:
    """The folder that is evaluated where no path is named."""
    if not Path(_USUAL_PATH).is_dir():
        problem = f"nothing to evaluate: there is no folder {_USUAL_PATH}/ here, and no path is named"
        raise InputError(
            problem, fix="name an eval file, a data file or a folder; germane init makes an example"
        )
    say(f"evaluating {_USUAL_PATH}/")
    return _USUAL_PATH


def _evaluated(
    chosen: Options, watch: Progress, resume: Path | None, *, retry_errors: bool, reask: bool
) -> Iterator[tuple[str, Report]]:
    """Run what is asked for, in this process or by an engine: each evaluation's path and its report."""
    from germane.evaluation.run import run, run_each
    from germane.tables.folder import read_manifest

    again: dict[str, Any] = {"resume": resume, "retry_errors": retry_errors, "reask": reask}
    stored = {} if resume is None else read_manifest(resume).get("options") or {}
    if chosen.engine or stored.get("engine"):
        from germane.evaluation.parts.running import run_in_parts

        report, before = run_in_parts(chosen, watch, **again)
        watch.baselines = [] if before is None else [before]
        yield "", report
    elif resume is not None:
        yield "", run(chosen, watch, **again)
    else:
        yield from run_each(chosen, watch)


def _print_forecast(
    chosen: Options, resume: Path | None, *, retry_errors: bool, reask: bool, json: bool
) -> None:
    """What each of the evaluations would ask, and what that would cost."""
    from germane.cli.printing import Progress
    from germane.evaluation.plan import separate
    from germane.evaluation.run import forecast

    with Progress() as watch:
        with chosen.confined():
            parts = separate(chosen, dry=True) if resume is None else {"": chosen}
        found = {
            path: forecast(one, watch, resume=resume, retry_errors=retry_errors, reask=reask)
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
        "paths": flags["paths"] or ([] if flags["resume"] else [_usual_path()]),
        "judge": " ".join(flags["judge"]) or None,
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
