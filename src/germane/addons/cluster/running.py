"""Run an evaluation's parts in parallel, by processes or Dask, and merge them into one report."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from multiprocessing import connection, parent_process
from pathlib import Path
from typing import Any

from germane.addons.cluster.merging import Share, merge_parts, open_parts
from germane.encoding import now
from germane.errors import (
    COMMANDS,
    GermaneError,
    InputError,
    Interrupted,
    JudgeError,
    MissingPart,
    install_extra,
)
from germane.evaluation.plan import Plan
from germane.evaluation.run import Callbacks, new_folder, run
from germane.evaluation.session import keeps_answers, open_ledger
from germane.evaluation.spec import Spec, ledger_of
from germane.folder.files import write_manifest
from germane.folder.writer import FolderWriter
from germane.reports.data import ReportData
from germane.reports.report import Report, find_baseline
from germane.samples.files import local
from germane.types import Json

_FIX = "write processes:8, dask, or dask:tcp://HOST:8786"


def parse_engine(text: str) -> tuple[str, str]:
    """Split an engine (`processes:4`, `dask:ADDRESS`) into its kind, and its number of processes or address.

    The second string is "" if `text` is only the kind. Raises InputError if `text` names no engine.
    """
    kind, _, rest = text.strip().partition(":")
    if kind == "dask" or (kind == "processes" and re.fullmatch("0*[1-9][0-9]*|", rest)):
        return kind, rest
    raise InputError(f"--engine {text!r} is not an engine", fix=_FIX)


@contextmanager
def executor_of(text: str) -> Iterator[tuple[Executor, int]]:
    """Start the engine `text`; yield its executor and the number of parts that it runs at the same time."""
    kind, rest = parse_engine(text)
    if kind == "processes":
        count = int(rest or os.cpu_count() or 1)
        # spawned, not forked: a forked process may wait forever for a lock that a thread of its parent held
        with ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), begin_worker) as pool:
            yield pool, count
        return
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise MissingPart("--engine dask needs the package distributed", fix=install_extra("dask")) from None
    try:
        # without an address the client starts a cluster of its own, and closes it
        own = {} if rest else {"threads_per_worker": 1, "dashboard_address": None}
        client = distributed.Client(rest or None, timeout=30, **own)
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {rest!r}: {error}", fix=_FIX) from None
    with client:
        if not client.nthreads():
            raise InputError(f"the Dask at {rest} has no worker", fix="start one: dask worker ADDRESS")
        # no retries: if a worker is lost, the command to resume continues its part
        yield client.get_executor(retries=0, pure=False), sum(client.nthreads().values())


def begin_worker() -> None:
    """Make this worker process ignore Ctrl-C, which its parent handles, and exit when its parent exits."""
    parent = parent_process()
    if parent is None:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":
        os.setpgid(0, 0)

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="germane-parent", daemon=True).start()


_PARTS = "parts"


def run_part(
    spec: Spec, options: Mapping[str, Json], cwd: Path, whole: Path, host: str, share: Share
) -> None:
    """Run the part `share`, or continue it without asking answered questions again."""
    worker, ledger = socket.gethostname(), str(options.get("ledger") or "")
    if not (whole.is_dir() and cwd.is_dir()):
        problem = f"the worker on {worker} cannot access {whole} and {cwd}"
        raise InputError(problem, fix="use folders that all machines share")
    if ledger and worker != host and "://" not in ledger:
        problem = f"the ledger {ledger} is a file of {host}, which the worker on {worker} cannot share"
        raise InputError(problem, fix="keep it in a database: --ledger postgresql://HOST/NAME")
    os.chdir(cwd)
    folder = whole / _PARTS / share.folder
    if not (folder / "manifest.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        own: dict[str, Json] = {"folder": str(folder), "part": str(share), "engine": None}
        made = {**options, **own, "outputs": [], "store": None}
        write_manifest(folder, {"created": now(), "cwd": str(cwd), "options": made}, "running")
    COMMANDS.append("germane run")  # this process has no other purpose
    run(spec.but(resume=folder), whole=whole)


def run_in_parts(spec: Spec, callbacks: Callbacks) -> tuple[Report, ReportData | None]:
    """Run an evaluation in as many parts as its engine has workers; return the report and any baseline."""
    resumed, stored = spec.resumed()
    with resumed.confined():
        plan = Plan.of(resumed, callbacks.warn)
        if plan.defaults:
            callbacks.note(plan.defaults)
        engine, planned = str(plan.spec.get("engine") or ""), plan.spec
        kind, _ = parse_engine(engine)
        if planned.get("part"):
            raise InputError("--part and --engine cannot be combined", fix="leave one of them out")
        if planned.baseline or planned.fail_on_regression:
            find_baseline(planned.baseline and local(planned.baseline))
        if "-" in planned.paths:
            raise InputError("several workers cannot read samples from stdin", fix="write them to a file")
        if planned.headers and kind != "processes":
            problem = "--header cannot be sent to other machines, since it may contain a key"
            raise InputError(problem, fix="set the key in the environment of the workers, as OPENAI_API_KEY")
        if keeps_answers(plan.judge) and not plan.asks_targets:
            plan.check(None)
        whole = Path(spec.resume) if spec.resume else new_folder(plan.spec, plan.paths)
        again = plan.spec.resume_command(whole)
        target = FolderWriter(whole).lock()
        try:
            if not (stored or spec.force):
                target.refuse_other()
            with executor_of(engine) as (executor, workers):
                total = int(stored.get("parts") or workers)
                shares = [Share(number, total) for number in range(1, total + 1)]
                work = _write_start(plan, stored, target, spec, total)
                _wait_for([executor.submit(work, share) for share in shares], callbacks, again)
            parts = open_parts([target.path.absolute() / _PARTS / share.folder for share in shares])
            own = {"outputs": list(plan.spec.outputs), "store": plan.spec.store}
            report, before = merge_parts(*parts, target, own)
        finally:
            target.close()
    shutil.rmtree(whole / _PARTS, ignore_errors=True)
    return report, before


def _write_start(
    plan: Plan, stored: Mapping[str, Json], target: FolderWriter, given: Spec, total: int
) -> Callable[[Share], None]:
    """Write the whole evaluation's manifest, with `total` parts, and return the function that runs a part.

    `stored` is the manifest of the evaluation to resume, and `given` are the options of this session.
    """
    spec, address = plan.spec, None
    if keeps_answers(plan.judge) and not spec.no_cache:
        address = ledger_of(spec, target.path)
    if address is not None and not spec.replay:
        ledger = open_ledger(address)  # create it before the parts open it
        assert ledger is not None
        address = ledger.place
        ledger.close()
    if not stored:
        shutil.rmtree(target.path / _PARTS, ignore_errors=True)
    cwd = stored.get("cwd") or str(Path.cwd())
    options = {**spec.as_json(), "folder": str(target.path), "ledger": address}
    made = {"created": stored.get("created") or now(), "cwd": cwd, "options": options, "parts": total}
    write_manifest(target.path, made, "running")
    own = given.but(folder=None, outputs=None, engine=None, ledger=None, store=None, force=True)
    return partial(run_part, own, options, Path(cwd), target.path.absolute(), socket.gethostname())


def _wait_for(futures: Sequence[Future[None]], callbacks: Callbacks, again: str) -> None:
    """Wait until all parts have ended, and raise the error of one that failed, which names how to continue."""
    callbacks.on_progress("running in parts", 0, len(futures))
    try:
        for done, _ in enumerate(as_completed(futures), 1):
            callbacks.on_progress("running in parts", done, len(futures))
    except KeyboardInterrupt:
        _kill_workers(futures)
        raise Interrupted(f"interrupted; continue with: {again}") from None
    errors = [error for future in futures if (error := future.exception()) is not None]
    if any(not isinstance(error, GermaneError) for error in errors):
        _kill_workers(futures)
    error = next((error for error in errors if isinstance(error, InputError)), next(iter(errors), None))
    if isinstance(error, InputError):
        raise error
    if isinstance(error, GermaneError):
        raise type(error)(f"{error}; continue with: {again}")
    if error is not None:
        what = f"{type(error).__name__}: {error}"
        raise JudgeError(f"a worker ended before its part did ({what}); continue with: {again}")


def _kill_workers(futures: Sequence[Future[None]]) -> None:
    """Kill all workers and cancel waiting parts: a pool that has lost a worker would wait forever."""
    for future in futures:
        future.cancel()
    for child in multiprocessing.active_children():
        child.kill()
