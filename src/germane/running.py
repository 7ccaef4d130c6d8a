"""One run of the main job: paths in, a report folder out. What is answered and judged survives whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from germane.answering import answered
from germane.errors import GermaneError, InputError, Interrupted, JudgeError, LedgerError, LimitReached
from germane.evaluation import Evaluation, manifest_of
from germane.interrupts import interruptible
from germane.judging.budget import Budget
from germane.judges.judge import Judge
from germane.judges.judge import members_of
from germane.judging.pool import Pool
from germane.judging.spending import Spent
from germane.measures.scoring import Job
from germane.options import Options
from germane.planning import Plan
from germane.prospects import Prospects
from germane.reports.gates import Verdict
from germane.reports.manifest import judge_entry, read_manifest
from germane.reports.report import Report
from germane.reports.store import FolderStore, MemoryStore, Store
from germane.routing import Router
from germane.session import Session, new_folder
from germane.suite import Item
from germane.types import Json
from germane.watching import Watch

__all__ = ["run"]


def run(
    options: Options, watch: Watch | None = None, *, resume: Path | None = None, retry_errors: bool = False
) -> Report:
    """Answer, judge and score everything that the paths name; the report stands in its folder.

    With `resume`, an earlier run's folder is continued: its options hold where none are given, its targets'
    answers and its judgements are used, and only what is missing is asked. Without `retry_errors` what failed
    before is not asked again.

    Raises InputError before anything is spent, JudgeError where the judge cannot be used at all, Interrupted
    (naming the command that continues) after Ctrl-C.
    """
    watch = watch or Watch()
    stored = read_manifest(resume) if resume is not None else {}
    return _Run(Plan(options, watch.warn, stored), watch, stored, resume, retry_errors=retry_errors).go()


class _Run:
    """The steps of one run, in their order."""

    def __init__(
        self, plan: Plan, watch: Watch, stored: dict[str, Json], resume: Path | None, *, retry_errors: bool
    ) -> None:
        self.plan, self.watch, self.options = plan, watch, plan.options
        self.stored, self.resume, self.retry_errors = stored, resume, retry_errors
        self.budget = Budget(self.options.max_cost, self.options.max_calls)
        self.spent = Spent()
        self.rows: Store = MemoryStore()

    def go(self) -> Report:
        """Everything, then the report."""
        items = list(self.plan.items()) if self.plan.asks_targets else None
        folder = self.resume or new_folder(self.options, self.plan.suite.paths)
        session = Session(self.options, folder, self.stored, retry_errors=self.retry_errors)
        evaluation = Evaluation(settings=self.plan.settings, store=FolderStore(folder))
        try:
            session.write("running", self._made(session))
            asyncio.run(self._work(items, evaluation, session))
        except (Interrupted, JudgeError, LedgerError, OSError) as failure:
            raise self._stopped(failure, evaluation, session) from None
        except InputError:
            if not session.existed and items is None:  # nothing was asked: a bad line came first
                shutil.rmtree(folder, ignore_errors=True)
            raise
        else:
            report = self._report(evaluation, session)
            session.close(complete=True)
            return report
        finally:
            session.close()

    def _report(self, evaluation: Evaluation, session: Session) -> Report:
        judge = self.plan.judge
        manifest = session.manifest(manifest_of(evaluation, judge, session.total(self.spent)))
        report = Report.build(
            evaluation.store,
            {**manifest, **self._warnings()},
            gates=self.plan.gates,
            max_unmeasured=self.options.max_unmeasured,
            over=self.budget.exceeded,
        )
        report.write_manifest("complete")
        if evaluation.failed and judge is not None and _costs(judge):
            self.watch.failed(session.command("--retry-errors"))
        return report

    def _last_look(self, jobs: Sequence[Job] | None) -> None:
        """Before anything is paid: a bad line, a measure that no sample can have.

        Jobs that are not at hand are read from the files for it.
        """
        prospects = Prospects(self.plan.settings)
        if jobs is None:
            self.plan.suite.check(lambda item: prospects.look(self.plan.job(item)))
        for job in jobs or ():
            prospects.look(job)
        prospects.check()

    def _stop(self, pool: Pool) -> None:
        pool.stop()
        self.watch.warn("interrupted: what is in flight is finished and kept; once more gives it up")

    def _stopped(self, failure: BaseException, evaluation: Evaluation, session: Session) -> GermaneError:
        """Write down and show what is known; the error says how the run is continued."""
        total = session.total(self.spent)
        flags = (self.budget.too_low, "...") if self.budget.too_low else ()
        error = session.explained(failure, total, *flags)
        with contextlib.suppress(OSError):  # a full disk: the manifest of the start stands, and will do
            session.write("interrupted", self._made(session))
            code = 3 if isinstance(error, LimitReached) else 130 if isinstance(error, Interrupted) else 2
            manifest = session.manifest(manifest_of(evaluation, self.plan.judge, total))
            verdict = Verdict(code, (str(failure),))
            self.watch.stopped(
                Report.so_far(self.rows, manifest, verdict, folder=session.folder, stopped=str(error))
            )
        return error

    def _made(self, session: Session) -> dict[str, Json]:
        """What a manifest says before the report is complete."""
        return {"judge": judge_entry(self.plan.judge, session.total(self.spent)), **self._warnings()}

    def _warnings(self) -> dict[str, Json]:
        notices = self.plan.notices
        return {"warnings": [str(notice) for notice in notices]} if len(notices) else {}

    async def _work(self, items: Sequence[Item] | None, evaluation: Evaluation, session: Session) -> None:
        """Ask the targets of `items`, then the judge; None = no case has a target, they are read as they are judged."""
        at_hand = None if items is None else await self._answered(items, evaluation, session)
        jobs: Iterable[Job] | None = at_hand
        if jobs is None:
            jobs = (self.plan.job(item, evaluation.notes) for item in self.plan.items())
        assert isinstance(evaluation.store, FolderStore)
        self.rows = evaluation.store.start()
        pool = Pool(
            Router(self.plan.judge),
            session.ledger,
            known=session.known,
            receipts=session.receipts,
            budget=self.budget,
            before_asking=partial(self._last_look, at_hand),
            on_progress=self.watch.judging,
        )
        try:
            with interruptible(partial(self._stop, pool), pool.abort):
                async with pool:
                    await evaluation.run(jobs, pool, self.watch.scored)
        finally:
            self.spent = pool.spent
            evaluation.store.close()

    async def _answered(self, items: Sequence[Item], evaluation: Evaluation, session: Session) -> list[Job]:
        asked = answered(items, session.folder, self.watch.answering, resumed=session.resumed)
        return [self.plan.job(item, evaluation.notes) for item in await _interruptibly(_listed(asked))]


async def _listed(items: AsyncIterator[Item]) -> list[Item]:
    return [item async for item in items]


async def _interruptibly(work: Coroutine[Any, Any, list[Item]]) -> list[Item]:
    """The result; Interrupted where a signal came first."""
    task = asyncio.ensure_future(work)
    with interruptible(task.cancel):
        try:
            return await task
        except asyncio.CancelledError:
            raise Interrupted("interrupted") from None


def _costs(judge: Judge) -> bool:
    return any(member.stored for member in members_of(judge))
