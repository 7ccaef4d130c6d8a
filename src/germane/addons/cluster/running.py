"""Run an evaluation's parts in parallel, by processes or Dask, and merge them into one report."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import Future, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from germane.addons.cluster.engines import executor_of, parse_engine
from germane.addons.cluster.merging import merge_parts
from germane.addons.cluster.share import Share
from germane.encoding import now
from germane.errors import GermaneError, InputError, Interrupted, JudgeError
from germane.evaluation.choice import keeps_answers, open_ledger
from germane.evaluation.plan import Plan
from germane.evaluation.run import run, stored_manifest
from germane.evaluation.session import command_to_resume, ledger_of, new_folder
from germane.evaluation.spec import Callbacks, Spec
from germane.folder.manifest import write_manifest
from germane.folder.writer import FolderWriter
from germane.reports.data import ReportData
from germane.reports.report import Report, find_baseline
from germane.samples.urls import local
from germane.types import Json

_PARTS = "parts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What every worker receives: the folder of the whole evaluation and its options, without keys.

    Attributes:
        spec: What was asked of the whole, without the options that a part finds in its own manifest.
        whole: The report folder of the whole, which holds a folder for each part, and which `--resume` names.
        cwd: The working directory, to which paths are relative.
        host: The machine on which the evaluation began.
        options: The options of the whole, as in its manifest.
    """

    spec: Spec
    whole: Path
    cwd: Path
    host: str
    options: Mapping[str, Json]


def run_part(inputs: Inputs, share: Share) -> None:
    """Run one part, or continue it: what was answered is not asked again. Raises as `run` does."""
    host, ledger = socket.gethostname(), str(inputs.options.get("ledger") or "")
    if not (inputs.whole.is_dir() and inputs.cwd.is_dir()):
        problem = f"the worker on {host} does not see {inputs.whole} and {inputs.cwd}"
        raise InputError(problem, fix="use folders that all machines share")
    if ledger and host != inputs.host and "://" not in ledger:
        problem = f"the ledger {ledger} is a file of {inputs.host}, which the worker on {host} cannot share"
        raise InputError(problem, fix="keep it in a database: --ledger postgresql://HOST/NAME")
    os.chdir(inputs.cwd)
    folder = inputs.whole / _PARTS / share.folder
    if not (folder / "manifest.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        options = {**inputs.options, "folder": str(folder), "part": str(share), "engine": None}
        made = {
            "created": now(),
            "cwd": str(inputs.cwd),
            "options": {**options, "outputs": [], "store": None},
        }
        write_manifest(folder, made, "running")
    run(inputs.spec.but(resume=folder), whole=inputs.whole)


def run_in_parts(spec: Spec, callbacks: Callbacks) -> tuple[Report, ReportData | None]:
    """Run an evaluation in as many parts as its engine has workers; return the report and its baseline.

    With `resume`, all parts are continued. Raises as `run` does, InputError if the engine cannot be used, and JudgeError if a
    worker is killed.
    """
    stored = stored_manifest(spec)
    resumed = spec.resuming(stored)
    with resumed.confined():
        plan = Plan.of(resumed, callbacks.warn)
        if plan.defaults is not None:
            callbacks.note(plan.defaults.why)
        engine = str(plan.spec.get("engine") or "")
        _check(plan, parse_engine(engine)[0])
        whole = Path(spec.resume) if spec.resume else new_folder(plan.spec, plan.paths)
        target = FolderWriter(whole).lock()
        try:
            if not (stored or spec.force):
                target.refuse_other()
            begin = partial(_write_start, plan, stored, target, spec)
            parts = _all_parts(engine, begin, callbacks, command_to_resume(whole, plan.spec))
            more = {"outputs": list(plan.spec.outputs), "store": plan.spec.store}
            report, before = merge_parts(parts, whole, locked=target, more=more)
        finally:
            target.close()
    shutil.rmtree(whole / _PARTS, ignore_errors=True)
    if any(field in {"errors", "failed"} for _, field, _ in report.tables.asked):
        callbacks.on_failures(command_to_resume(whole, plan.spec))
    return report, before


def _check(plan: Plan, kind: str) -> None:
    """Raise InputError for what cannot be run in parts, and for invalid input, before anything is paid."""
    spec = plan.spec
    if spec.get("part"):
        raise InputError("--part and --engine do not go together", fix="leave one of them out")
    if spec.baseline or spec.fail_on_regression:
        find_baseline(spec.baseline and local(spec.baseline))
    if "-" in spec.paths:
        raise InputError("several workers cannot read samples from stdin", fix="write them to a file")
    if spec.headers and kind != "processes":
        problem = "--header does not travel to other machines: it may be a key"
        raise InputError(problem, fix="set the key in the environment of the workers, as OPENAI_API_KEY")
    if keeps_answers(plan.judge) and not plan.asks_targets:
        plan.check(None)


def _write_start(
    plan: Plan,
    stored: Mapping[str, Json],
    target: FolderWriter,
    given: Spec,
    workers: int,
) -> tuple[Inputs, list[Share]]:
    """Write the manifest of the whole evaluation; return the workers' inputs and the parts, as many as before if resumed."""
    spec, address = plan.spec, None
    if keeps_answers(plan.judge) and not spec.no_cache:
        address = ledger_of(spec, target.path)
    if address is not None and not spec.replay:
        ledger = open_ledger(address)  # it is there when the parts look for it
        assert ledger is not None
        address = ledger.place
        ledger.close()
    if not stored:
        shutil.rmtree(target.path / _PARTS, ignore_errors=True)
    of = int(stored.get("parts") or workers)
    cwd = stored.get("cwd") or str(Path.cwd())
    whole = {**spec.as_json(), "folder": str(target.path), "ledger": address}
    made = {"created": stored.get("created") or now(), "cwd": cwd, "options": whole, "parts": of}
    target.write_manifest(made, "running")
    inputs = Inputs(
        spec=given.but(folder=None, outputs=None, engine=None, ledger=None, store=None, force=True),
        whole=target.path.absolute(),
        cwd=Path(cwd),
        host=socket.gethostname(),
        options=whole,
    )
    return inputs, [Share(number, of) for number in range(1, of + 1)]


def _all_parts(
    engine: str, begin: Callable[[int], tuple[Inputs, list[Share]]], callbacks: Callbacks, again: str
) -> list[Path]:
    """Run all parts to their end and return their folders; an error ends with the command that continues."""
    with executor_of(engine) as (executor, workers):
        inputs, shares = begin(workers)
        futures: list[Future[None]] = [executor.submit(run_part, inputs, share) for share in shares]
        callbacks.on_progress("running in parts", 0, len(shares))
        try:
            for done, _ in enumerate(as_completed(futures), 1):
                callbacks.on_progress("running in parts", done, len(shares))
        except KeyboardInterrupt:
            _kill_workers(futures)
            raise Interrupted(f"interrupted; continue with: {again}") from None
        errors = [error for future in futures if (error := future.exception()) is not None]
        if any(not isinstance(error, GermaneError) for error in errors):
            _kill_workers(futures)
    if not errors:
        return [inputs.whole / _PARTS / share.folder for share in shares]
    error = next((error for error in errors if isinstance(error, InputError)), errors[0])
    if isinstance(error, InputError):
        raise error
    if isinstance(error, GermaneError):
        raise type(error)(f"{error}; continue with: {again}")
    what = f"{type(error).__name__}: {error}"
    raise JudgeError(f"a worker ended before its part did ({what}); answers are kept; continue with: {again}")


def _kill_workers(futures: list[Future[None]]) -> None:
    """Kill the worker processes, of which a pool that has lost one would wait for the others for ever, and drop waiting parts."""
    for future in futures:
        future.cancel()
    for child in multiprocessing.active_children():
        child.kill()
