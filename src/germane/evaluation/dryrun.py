"""Forecast the questions and cost of a run from its options (`--dry-run`), without asking anyone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from pathlib import Path

from germane.evaluation.choice import answers_in, check_same_judge, ledger_of, open_ledger
from germane.evaluation.evaluation import run_coroutine
from germane.evaluation.forecast import Forecast, Forecaster
from germane.evaluation.plan import Plan, feasible
from germane.evaluation.spec import Callbacks, Spec
from germane.folder.writer import FolderWriter
from germane.targets.answers import PlannedCase, TargetAnswers, answers_at_hand

__all__ = ["forecast"]


def forecast(spec: Spec, callbacks: Callbacks | None = None) -> Forecast:
    """Return the questions that `run` would ask with these options, and their cost.

    Neither a judge nor a target is asked, and nothing is written. The targets' answers are taken from the
    resumed folder and from recordings; a sample without an answer is counted as `waiting`. Raises InputError
    in the same cases as `run`.
    """
    from germane.ledger.sqlite import is_there

    callbacks = callbacks or Callbacks()
    spec, stored = spec.resumed()
    folder = Path(spec.resume) if spec.resume else None
    with spec.confined(), contextlib.ExitStack() as opened:
        plan = Plan.of(spec, callbacks.warn, dry=True)
        spec = plan.spec
        if plan.defaults:
            callbacks.note(plan.defaults)
        if not (spec.reask or spec.replay):
            check_same_judge(stored, plan.judge)
        location = ledger_of(spec, folder)
        if location is not None and not is_there(location):
            location = None
        earlier = None if folder is None else answers_in(FolderWriter(folder), stored)
        ledger = open_ledger(location, spec.replay, read_only=True)
        for store in filter(None, (earlier, ledger)):
            opened.callback(store.close)
        forecaster = Forecaster(plan.judge, plan.settings, earlier, ledger)
        answers = TargetAnswers(folder, resumed=True, replaces=stored.get("replaces", False))
        return _counted(plan, forecaster, answers)


def _counted(plan: Plan, forecaster: Forecaster, answers: TargetAnswers) -> Forecast:
    """Count the questions on all cases of `plan` with `forecaster`, and return its forecast.

    `answers` are the targets' stored answers. Raises InputError if a measure is impossible for every sample.
    """
    cases: Iterable[tuple[PlannedCase, bool]] = ((planned, True) for planned in plan.cases())
    wait = False
    if plan.asks_targets:
        cases = asyncio.run(answers_at_hand(list(plan.cases()), answers))
        wait = not all(has_answer for _, has_answer in cases)
    made = ((plan.job(planned), has_answer) for planned, has_answer in cases)
    jobs = (job if has_answer else forecaster.waiting(job) for job, has_answer in made)
    # a measure may be possible for a sample that waits for its answer or belongs to another part
    checked = jobs if wait or plan.share is not None else feasible(jobs, plan.settings, plan.gates)
    run_coroutine(forecaster.count(checked))
    return forecaster.forecast
