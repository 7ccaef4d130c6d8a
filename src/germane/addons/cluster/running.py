"""Run an evaluation's parts in parallel, by processes or Dask, and merge them into one report."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Future, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from germane.addons.cluster.engines import executor_of, interrupts, parse_engine
from germane.addons.cluster.merging import merge_parts
from germane.addons.cluster.remote import is_there, pack, remove, unpacked
from germane.addons.cluster.share import Share
from germane.encoding import decode, encode, now
from germane.errors import GermaneError, InputError, Interrupted, JudgeError, LimitReached
from germane.evaluation.choice import keeps_answers, open_ledger
from germane.evaluation.plan import Plan, split_evaluations
from germane.evaluation.run import run, stored_manifest
from germane.evaluation.session import command_to_resume, ledger_of, new_folder
from germane.evaluation.spec import Callbacks, Spec, differing_options
from germane.folder.manifest import read_manifest, write_manifest
from germane.folder.writer import FolderWriter
from germane.reports.data import ReportData
from germane.reports.report import Report, find_baseline
from germane.samples.urls import local
from germane.tables.judgements import asked_counts
from germane.types import Json

_PARTS = "parts"
_ATTEMPTS = 5
"""Attempts at a part whose worker ends before the part does."""
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What every worker receives: the folder of the whole evaluation and its options, without keys.

    Attributes:
        spec: What was asked of the whole, without the options that a part finds in its own manifest.
        whole: The report folder of the whole, which holds a folder for each part, and which `--resume` names.
        cwd: The working directory, to which paths are relative.
        host: The machine on which the evaluation began.
        options: The options of the whole, as in its manifest.
        store: A URL where finished parts are put; machines then need no shared folder.
    """

    spec: Spec
    whole: Path
    cwd: str
    host: str
    options: Mapping[str, Json]
    store: str = ""

    def at(self, share: Share) -> str:
        """Return the URL of a finished part."""
        return f"{self.store}/{_PARTS}/{share.folder}.zip"

    def has_finished(self, part: Path) -> bool:
        """Return True if the part in a folder is complete, has the current options, and needs no question asked again."""
        stored = read_manifest(part)
        same = not differing_options(stored.get("options") or {}, decode(encode(self.options)))
        failed = any(field in {"errors", "failed"} for _, field, _ in asked_counts(stored.get("asked") or {}))
        return stored.get("status") == "complete" and same and not (failed or self.spec.reask)


def run_part(inputs: Inputs, number: int, of: int) -> None:
    """Run one part, or continue it; a finished part stays as it is. Raises as `run` does."""
    share = Share(number, of)
    try:
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
    except ValueError:  # a thread of a cluster's worker
        before = None
    try:
        if interrupts:
            raise Interrupted("interrupted")
        if not inputs.store:
            _run_in(inputs.whole / _PARTS / share.folder, inputs, share)
        elif not (is_there(inputs.at(share)) and inputs.has_finished(unpacked(inputs.at(share))[0])):
            with tempfile.TemporaryDirectory(prefix="germane-part-") as scratch:
                folder = Path(scratch) / share.folder
                _run_in(folder, inputs, share)
                pack(folder, inputs.at(share))
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _run_in(folder: Path, inputs: Inputs, share: Share) -> None:
    """Run or continue a part in this folder, on whatever machine the worker is."""
    host, cwd = socket.gethostname(), Path(inputs.cwd)
    if not inputs.store and not (inputs.whole.is_dir() and cwd.is_dir()):
        missing = cwd if inputs.whole.is_dir() else inputs.whole
        problem = f"the worker on {host} does not see {missing}"
        raise InputError(problem, fix="use folders that all machines share, or name the inputs and -o by URL")
    if cwd.is_dir() and Path.cwd() != cwd:
        os.chdir(cwd)
    ledger = inputs.options.get("ledger") or "" if host != inputs.host else ""
    if ledger and "://" not in ledger:
        problem = f"the ledger {ledger} is a file of {inputs.host}, which the worker on {host} cannot share"
        raise InputError(problem, fix="keep it in a database: --ledger postgresql://HOST/NAME")
    while folder.exists() and not _is_free(folder):  # a worker of an earlier start is still at it
        time.sleep(_LOOK_SECONDS)
    if not (folder / "manifest.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        own = {
            **inputs.options,
            "folder": str(folder),
            "part": str(share),
            "engine": None,
            "outputs": [],
            "store": None,
        }
        write_manifest(folder, {"created": now(), "cwd": inputs.cwd, "options": own}, "running")
    if not inputs.has_finished(folder):
        run(inputs.spec.but(resume=folder), whole=inputs.whole)


def _is_free(folder: Path) -> bool:
    """Return True if nobody writes to a report folder just now."""
    try:
        FolderWriter(folder).lock().close()
    except InputError:
        return False
    return True


def run_in_parts(spec: Spec, callbacks: Callbacks) -> tuple[Report, ReportData | None]:
    """Run an evaluation in as many parts as its engine has workers; return the report and its baseline.

    Another worker continues a part whose worker is killed. With `resume`, finished parts are kept and the others
    continued. Raises as `run` does, and InputError if the engine cannot be used.
    """
    stored = stored_manifest(spec)
    resumed = spec.resuming(stored)
    with resumed.confined():
        if not stored and len(split_evaluations(spec)) > 1:
            problem = "these paths are several evaluations, and an engine runs one"
            raise InputError(problem, fix="run the eval files one by one")
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
            again = f"continue with: {command_to_resume(whole, plan.spec)}"
            parts = _all_parts(engine, begin, callbacks, again)
            report, before = merge_parts(
                parts,
                whole,
                locked=target,
                more={"outputs": list(plan.spec.outputs), "store": plan.spec.store},
            )
        finally:
            target.close()
    shutil.rmtree(whole / _PARTS, ignore_errors=True)
    if plan.spec.store:
        remove(f"{plan.spec.store}/{_PARTS}")
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
        if spec.store:
            remove(f"{spec.store}/{_PARTS}")
    of = int(stored.get("parts") or workers)
    cwd = stored.get("cwd") or str(Path.cwd())
    whole = {**spec.as_json(), "folder": str(target.path), "ledger": address}
    made = {"created": stored.get("created") or now(), "cwd": cwd, "options": whole, "parts": of}
    target.write_manifest(made, "running")
    inputs = Inputs(
        spec=given.but(folder=None, outputs=None, engine=None, ledger=None, store=None, force=True),
        whole=target.path.absolute(),
        cwd=cwd,
        host=socket.gethostname(),
        options=whole,
        store=spec.store or "",
    )
    return inputs, [Share(number, of) for number in range(1, of + 1)]


_LAST_SECONDS = 10
"""Seconds that a worker has to finish what is in flight when another one was killed."""


def _all_parts(
    engine: str, begin: Callable[[int], tuple[Inputs, list[Share]]], callbacks: Callbacks, again: str
) -> list[Path]:
    """Run all parts to their end, repeating those of killed workers, and return their folders."""
    lost: BaseException | None
    inputs, shares, left = None, list[Share](), list[Share]()
    for _ in range(_ATTEMPTS):
        lost = None
        with executor_of(engine) as (executor, workers):
            if inputs is None:
                inputs, shares = begin(workers)
                left = list(shares)
            callbacks.on_progress("running in parts", len(shares) - len(left), len(shares))
            futures = {executor.submit(run_part, inputs, share.number, share.of): share for share in left}
            failures = list[GermaneError]()
            with _passed_on(futures) as signals:
                for future in as_completed(futures):
                    error = Interrupted("interrupted") if future.cancelled() else future.exception()
                    if error is None:
                        left.remove(futures[future])
                        callbacks.on_progress("running in parts", len(shares) - len(left), len(shares))
                    elif isinstance(error, GermaneError):
                        failures.append(error)
                    else:
                        lost = error
                        failures += [Interrupted("interrupted")] * bool(signals)  # it was ended by them
            if isinstance(lost, BrokenExecutor):
                _end_workers()
        if failures:
            result = max(failures, key=_weight)
            raise result if isinstance(result, InputError) else type(result)(f"{result}; {again}")
        if not left:
            if inputs.store:
                return [part for share in shares for part in unpacked(inputs.at(share))]
            return [inputs.whole / _PARTS / share.folder for share in shares]
        callbacks.warn(f"a worker ended before its part did; continuing: {', '.join(map(str, left))}")
    raise JudgeError(
        f"the workers of {', '.join(map(str, left))} end before their parts do ({type(lost).__name__}: {lost}); "
        f"what was answered is kept; {again}"
    )


def _end_workers() -> None:
    """Shut down the workers of a pool that has lost one, after they have finished the requests in flight.

    The pool has sent them SIGTERM, after which they wait for more work; since Python 3.12 it then waits for them for ever.
    """
    for child in multiprocessing.active_children():
        child.join(_LAST_SECONDS)
        child.kill()


def _weight(error: GermaneError) -> int:
    """Return an error's rank among those of several parts: input errors first, then judge errors, then interruptions."""
    order = (LimitReached, Interrupted, JudgeError, GermaneError, InputError)
    return max(number for number, kind in enumerate(order) if isinstance(error, kind))


@contextmanager
def _passed_on(futures: Iterable[Future[None]]) -> Iterator[list[int]]:
    """Pass stop signals on to the worker processes, which finish requests in flight; yield the list of these signals.

    On a cluster, parts that have not begun are cancelled, and the others run to their end.
    """
    signals = list[int]()

    def take(number: int, _frame: object) -> None:
        signals.append(number)
        for future in futures:
            future.cancel()
        for child in multiprocessing.active_children():
            with suppress(ProcessLookupError):
                os.kill(child.pid or 0, number)

    before = {}
    with suppress(ValueError):  # not the main thread
        for name in ("SIGINT", "SIGTERM"):
            before[name] = signal.signal(getattr(signal, name), take)
    try:
        yield signals
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
