"""One run of the main job: paths in, a report folder out. What is answered and judged survives whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from germane.answering import answered, prepared, script_of
from germane.config import read_config
from germane.errors import GermaneError, InputError, Interrupted, JudgeError, LedgerError, LimitReached
from germane.evaluation import Evaluation, Router, manifest_of, needs_judge
from germane.forecast import Forecast, forecast_jobs
from germane.interrupts import interruptible
from germane.judging.asking import Pool
from germane.judging.budget import Budget, check_price
from germane.judging.judge import Judge, members_of
from germane.judging.ledger import SQLiteLedger
from germane.judging.spending import Spent
from germane.measures.graders import CODE_JUDGE
from germane.measures.measure import parse_measures
from germane.measures.scoring import Job
from germane.measures.settings import Settings
from germane.options import Options, configured
from germane.prospects import Prospects
from germane.reports.gates import Gate, Verdict
from germane.reports.manifest import judge_entry, read_manifest
from germane.reports.report import Report
from germane.reports.store import FolderStore, MemoryStore, Store
from germane.samples.notices import Notices
from germane.session import Session, new_folder
from germane.setup import at, judge_words, ledger_path, pick_judge, settled
from germane.suite import Item, Suite, load_suite
from germane.types import Json
from germane.watching import Watch

__all__ = ["forecast", "run"]


def run(
    options: Options, watch: Watch | None = None, *, resume: Path | None = None, retry_errors: bool = False
) -> Report:
    """Answer, judge and score everything that the paths name; the report stands in its folder.

    With `resume`, an earlier run's folder is continued: its options hold where none are given, its targets'
    answers and its judgements are used, and only what is missing is asked.

    Raises InputError before anything is spent, JudgeError where the judge cannot be used at all, Interrupted
    (naming the command that continues) after Ctrl-C.
    """
    options = configured(options)
    stored = read_manifest(resume) if resume is not None else {}
    begun = _Run(
        options.over(stored.get("options") or {}), watch or Watch(), stored, resume, retry_errors=retry_errors
    )
    begun.said = options
    return begun.go()


def forecast(options: Options, watch: Watch | None = None) -> Forecast:
    """What `run` would ask and what that would cost: no judge is asked. Targets are: what they answer is needed."""
    return _Run(configured(options), watch or Watch(), {}, None, retry_errors=False).expect()


class _Run:
    """The steps of one run, in their order."""

    def __init__(
        self,
        options: Options,
        watch: Watch,
        stored: dict[str, Json],
        resume: Path | None,
        *,
        retry_errors: bool,
    ) -> None:
        self.options, self.watch = options, watch
        self.notices = Notices(lambda notice: watch.warn(str(notice)))
        self.suite = _suite(options, self.notices)
        self.settings = Settings.of(options.against or self.suite.setting("against"), options.scale)
        self.gates = (*self.suite.gates, *map(Gate.parse, options.gates))
        self.stored, self.resume, self.retry_errors = stored, resume, retry_errors
        self.budget = Budget(options.max_cost, options.max_calls)
        self.spent = Spent()
        self.rows: Store = MemoryStore()
        self.said = options
        """What flags say, as opposed to what a resumed folder's manifest says: only flags are trusted with a key."""

    def go(self) -> Report:
        """Everything, then the report."""
        judge = self._judge()
        check_price(judge, self.options.max_cost)
        items = list(self.suite.items()) if self._must_ask() else self.suite.items()
        folder = self.resume or new_folder(self.options, self.suite.paths)
        session = Session(self.options, folder, self.stored, retry_errors=self.retry_errors)
        evaluation = Evaluation(settings=self.settings, store=FolderStore(folder))
        try:
            session.write("running", self._made(judge, session))
            asyncio.run(self._work(items, evaluation, judge, session))
        except (Interrupted, JudgeError, LedgerError, OSError) as failure:
            raise self._stopped(failure, evaluation, judge, session) from None
        except InputError:
            if not session.existed and not isinstance(
                items, list
            ):  # nothing was asked: a bad line came first
                shutil.rmtree(folder, ignore_errors=True)
            raise
        else:
            report = self._report(evaluation, judge, session)
            session.close(complete=True)
            return report
        finally:
            session.close()

    def _report(self, evaluation: Evaluation, judge: Judge | None, session: Session) -> Report:
        manifest = session.manifest(manifest_of(evaluation, judge, session.total(self.spent)))
        report = Report.build(
            evaluation.store,
            {**manifest, **self._warnings()},
            gates=self.gates,
            max_unmeasured=self.options.max_unmeasured,
            over=self.budget.exceeded,
        )
        report.write_manifest("complete")
        if evaluation.failed and judge is not None and _costs(judge):
            self.watch.failed(session.command("--retry-errors"))
        return report

    def expect(self) -> Forecast:
        """What judging would cost."""
        judge = self._judge()
        check_price(judge, self.options.max_cost)
        items = list(self.suite.items())
        with tempfile.TemporaryDirectory() as scratch, self._known_answers() as ledger:
            if self._must_ask():
                told = self.watch.answering
                items = asyncio.run(_listed(answered(items, Path(scratch), told, resumed=False)))
            jobs = (_job(prepared(item, self.suite.document_ids(), Counter())) for item in items)
            found = forecast_jobs(jobs, judge, ledger, self.settings)
            return replace(found, max_cost=self.options.max_cost, max_calls=self.options.max_calls)

    def _check(self, items: Sequence[Item] | Iterator[Item]) -> None:
        """The last look before anything is paid: a bad line, a measure that no sample can have."""
        prospects, rule = Prospects(self.settings), self.suite.document_ids()

        def look(item: Item) -> None:
            prospects.look(_job(prepared(item, rule, Counter())))

        if isinstance(items, list):
            for item in items:
                look(item)
        else:
            self.suite.check(look)
        prospects.check()

    def _known_answers(self) -> contextlib.AbstractContextManager[SQLiteLedger | None]:
        """The ledger where there is one: a dry run makes none."""
        path = ledger_path(Path(self.options.ledger) if self.options.ledger else None)
        if self.options.no_cache or not path.is_file():
            return contextlib.nullcontext()
        return SQLiteLedger(path, reading=True)

    def _stop(self, pool: Pool) -> None:
        pool.stop()
        self.watch.warn("interrupted: what is in flight is finished and kept; once more gives it up")

    def _stopped(
        self, failure: BaseException, evaluation: Evaluation, judge: Judge | None, session: Session
    ) -> GermaneError:
        """Write down and show what is known; the error says how the run is continued."""
        total = session.total(self.spent)
        flags = (self.budget.too_low, "...") if self.budget.too_low else ()
        error = session.explained(failure, total, *flags)
        with contextlib.suppress(OSError):  # a full disk: the manifest of the start stands, and will do
            session.write("interrupted", self._made(judge, session))
            code = 3 if isinstance(error, LimitReached) else 130 if isinstance(error, Interrupted) else 2
            manifest = session.manifest(manifest_of(evaluation, judge, total))
            verdict = Verdict(code, (str(failure),))
            self.watch.stopped(
                Report.so_far(self.rows, manifest, verdict, folder=session.folder, stopped=str(error))
            )
        return error

    def _made(self, judge: Judge | None, session: Session) -> dict[str, Json]:
        """What a manifest says before the report is complete."""
        return {"judge": judge_entry(judge, session.total(self.spent)), **self._warnings()}

    def _warnings(self) -> dict[str, Json]:
        return {"warnings": [str(notice) for notice in self.notices]} if len(self.notices) else {}

    def _must_ask(self) -> bool:
        """Whether any case needs a target: their answers are all on disk before anything is judged."""
        return bool(self.options.targets) or any(
            file.target or any(case.target for case in file.cases) for file in self.suite.files.values()
        )

    def _judge(self) -> Judge | None:
        """The judge, where the graders need one; what the gates are about is checked on the way."""
        graders = self.suite.all_graders()
        for gate in self.gates if graders else ():
            gate.check_named({name for grader in graders for name in (grader.name, str(grader.measure))})
        needed = needs_judge(grader for grader in graders if grader.measure != CODE_JUDGE)
        self.options = settled(self.options, self.suite.asking())
        flag, in_file, url = self._named()
        found = pick_judge(flag, in_file, options=replace(self.options, base_url=url), needed=needed)
        if found is not None and self.options.judge is None:
            self.options = replace(self.options, judge=judge_words(flag, in_file)[0])
        return found if needed else None

    def _named(self) -> tuple[str | None, str | None, str | None]:
        """The judge by flag, the judge in a file, and the base URL by flag.

        What a resumed folder's manifest says counts as said in a file: a URL in it gets no key.
        """
        in_file = self.suite.setting("judge")
        if self.said.judge is None:
            in_file = self.options.judge or in_file
            if in_file and self.said.base_url is None and self.options.base_url:
                in_file = at(in_file, self.options.base_url)
        return self.said.judge, in_file, self.said.base_url

    async def _work(
        self,
        items: Sequence[Item] | Iterator[Item],
        evaluation: Evaluation,
        judge: Judge | None,
        session: Session,
    ) -> None:
        if isinstance(items, list):
            told = self.watch.answering
            asked = answered(items, session.folder, told, resumed=session.resumed)
            items = await _interruptibly(_listed(asked))
        assert isinstance(evaluation.store, FolderStore)
        self.rows = evaluation.store.start()
        pool = Pool(
            Router(judge),
            session.ledger,
            known=session.known,
            receipts=session.receipts,
            budget=self.budget,
            before_asking=partial(self._check, items),
            on_progress=self.watch.judging,
        )
        try:
            with interruptible(partial(self._stop, pool), pool.abort):
                async with pool:
                    rule = self.suite.document_ids()
                    ready = (prepared(item, rule, evaluation.notes) for item in items)
                    await evaluation.run(map(_job, ready), pool, self.watch.scored)
        finally:
            self.spent = pool.spent
            evaluation.store.close()


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


def _job(item: Item) -> Job:
    if not item.specs:
        return Job(sample=item.sample, graders=item.graders)
    return Job(sample=item.sample, graders=tuple(replace(g, script=script_of(item, g)) for g in item.graders))


def _suite(options: Options, warn: Callable[..., None]) -> Suite:
    if not options.paths:
        raise InputError("nothing to evaluate", fix="name an eval file, a data file or a folder")
    paths, files = load_suite([Path(path) for path in options.paths], warn)
    return Suite(
        paths=paths,
        files=files,
        measures=parse_measures(options.measures),
        usual=parse_measures(_words(read_config(Path.cwd()).get("measures"))),
        targets=options.targets,
        targets_file=Path(options.targets_file) if options.targets_file else None,
        columns=dict(options.columns),
        doc_id=options.doc_id,
        wanted=options.wanted,
        limit=options.limit,
        sample=options.sample,
        seed=options.seed,
        warn=warn,
    )


def _words(value: Json) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(map(str, value))


def _costs(judge: Judge) -> bool:
    return any(member.stored for member in members_of(judge))
