"""`germane run`: paths in, a report folder out. What is answered and judged survives whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from germane.addons import all_of, load
from germane.errors import (
    AskedLater,
    GermaneError,
    InputError,
    Interrupted,
    JudgeError,
    LedgerError,
    LimitReached,
    MissingKey,
    NoneAnswered,
)
from germane.evaluation.choice import (
    Router,
    keeps_answers,
    open_corpus,
    why_undecided,
    with_labels,
)
from germane.evaluation.evaluate import note_gold
from germane.evaluation.evaluation import Evaluation, run_coroutine
from germane.evaluation.plan import Feasibility, Plan, split_evaluations
from germane.evaluation.session import (
    Session,
    answers_so_far,
    check_same_judge,
    ledger_of,
    new_folder,
)
from germane.evaluation.spec import Callbacks, Spec
from germane.folder.manifest import read_manifest
from germane.folder.writer import FolderWriter
from germane.judges.judge import Judge
from germane.judging.asker import Asker
from germane.judging.caller import in_own_loop
from germane.judging.spending import Budget, UsageLog
from germane.measures.scoring import Job
from germane.questions.question import AnyQuestion
from germane.reports.gates import Verdict
from germane.reports.manifest import judge_entry, manifest_of
from germane.reports.report import Report
from germane.samples.urls import local
from germane.targets.answers import (
    PlannedCase,
    TargetAnswers,
    answers_at_hand,
    ask_targets,
    check_targets,
    open_targets,
)
from germane.types import Json

__all__ = ["forecast", "run", "stored_manifest"]

if TYPE_CHECKING:
    from germane.evaluation.forecast import Forecast, Forecaster
    from germane.evaluation.sampling import Stages
    from germane.ledger.store import Ledger
    from germane.reports.data import ReportData


def run(spec: Spec, callbacks: Callbacks | None = None, *, whole: Path | None = None) -> Report:
    """Answer, judge and score everything that the paths name; the report stands in its folder.

    With `resume`, the run in that folder is resumed: its options hold where none is given, its targets' answers and its judgements
    are used, and what is missing or failed is asked. Another judge, which is asked everything again, is taken only with `reask`.
    What is one part of a `whole` that an engine runs is resumed with that.

    Raises:
        InputError: Something in the input is wrong; nothing was spent.
        JudgeError: The judge cannot be used at all.
        Interrupted: After Ctrl-C; the message names the command that continues.
    """
    callbacks = callbacks or Callbacks()
    stored = stored_manifest(spec)
    spec = spec.resuming(stored)
    with spec.confined():
        return _Run(Plan(spec, callbacks.warn), callbacks, stored, whole=whole).run()


def stored_manifest(spec: Spec) -> dict[str, Json]:
    """The manifest of the report that is resumed; {} where none is."""
    return read_manifest(Path(spec.resume)) if spec.resume else {}


def run_each(spec: Spec, callbacks: Callbacks | None = None) -> Iterator[tuple[str, Report]]:
    """Run each of the evaluations that the paths are (see `separate`), one after the other: its path and its report.

    The path is "" where they are one. Whatever is wrong in any of them is found before anything is paid; limits hold for
    all of them together. Raises as `run` does.
    """
    callbacks = callbacks or Callbacks()
    with spec.confined():
        plans = {path: Plan(own, callbacks.warn) for path, own in split_evaluations(spec).items()}
    if spec.get("part") and len(plans) > 1:
        problem = "these paths are several evaluations, and --part cuts one"
        raise InputError(problem, fix="run the eval files one by one")
    budget, command = Budget(spec.max_cost, spec.max_calls), os.urandom(16).hex()
    later: list[AskedLater] = []
    for number, (path, plan) in enumerate(list(plans.items()), 1):
        part: dict[str, Json] | None = {"id": command, "number": number, "path": path} if path else None
        try:
            with spec.confined():
                report = _Run(plan, callbacks, budget=budget, command=part).run()
            yield path, report
        except AskedLater as under_way:
            later.append(under_way)
        except GermaneError:
            del plans[path]
            if plans:
                callbacks.warn(f"not evaluated: {', '.join(plans)}")
            raise
        del plans[path]
    if later:
        raise AskedLater("\n".join(map(str, later)))


def sources_of(spec: Spec) -> list[Any]:
    """Return the sources of answers, made with the specification, that its options ask for, or all of a resumed run."""
    return [
        load(source.make)(spec)
        for source in all_of("sources").values()
        if spec.resume or any(getattr(spec, name) for name in source.options)
    ]


def forecast(spec: Spec, callbacks: Callbacks | None = None) -> Forecast:
    """The questions that `run` of the same specification would ask, and their cost.

    Neither a judge nor a live target is asked, and nothing is written. Answers of targets are taken from the folder
    that is continued and from recordings; a sample without one is counted as `waiting`.

    Raises InputError as `run` does.
    """
    from germane.evaluation.forecast import Forecaster
    from germane.ledger.address import is_there
    from germane.ledger.opening import open_at, open_for_replay

    callbacks, stored = callbacks or Callbacks(), stored_manifest(spec)
    folder, spec = Path(spec.resume) if spec.resume else None, spec.resuming(stored)
    with spec.confined(), contextlib.ExitStack() as opened:
        plan = Plan(spec, callbacks.warn, dry=True)
        spec = plan.spec
        if plan.defaults is not None:
            callbacks.note(plan.defaults.why)
        if not (spec.reask or spec.replay):
            check_same_judge(stored, plan.judge)
        location = ledger_of(spec, folder)
        usage_log = UsageLog(folder / "receipts.jsonl", resumed=True) if folder is not None else None
        judgements = answers_so_far(FolderWriter(folder) if folder else None, stored)
        ledger: Ledger | None = None
        if spec.replay:
            ledger = opened.enter_context(contextlib.closing(open_for_replay(spec.replay)))
        elif location is not None and is_there(location):
            ledger = opened.enter_context(contextlib.closing(open_at(location, read_only=True)))
        forecaster = Forecaster(plan.judge, plan.settings, judgements, ledger, usage_log)
        answers = TargetAnswers(folder, resumed=True, replaces=stored.get("replaces", False))
        forecast = _counted(plan, forecaster, answers)
    until = bool(spec.until)
    return replace(forecast, max_cost=spec.max_cost, max_calls=spec.max_calls, until=until)


def _counted(plan: Plan, forecaster: Forecaster, answers: TargetAnswers) -> Forecast:
    """The forecast of all cases; InputError for a measure that no sample can have."""
    feasibility = Feasibility(plan.settings, plan.gates)
    cases: Iterable[tuple[PlannedCase, bool]] = ((planned, True) for planned in plan.suite.cases())
    if plan.suite.asks_targets:
        cases = asyncio.run(answers_at_hand(list(plan.suite.cases()), answers))

    def jobs() -> Iterator[Job]:
        for planned, has_answer in cases:
            job = plan.job(planned)
            if has_answer:
                feasibility.add(job)
            yield job if has_answer else forecaster.waiting(job)

    run_coroutine(forecaster.count(jobs()))
    # a sample that waits, or of another part, may have what these lack
    if not forecaster.forecast.waiting and plan.share is None:
        feasibility.check()
    return forecaster.forecast


class _Run:
    """The steps of one run, in their order."""

    def __init__(
        self,
        plan: Plan,
        callbacks: Callbacks,
        stored: dict[str, Json] | None = None,
        *,
        budget: Budget | None = None,
        command: Mapping[str, Json] | None = None,
        whole: Path | None = None,
    ) -> None:
        self.plan, self.callbacks, self.spec, self.whole = plan, callbacks, plan.spec, whole
        self.stored, self.resume = stored or {}, Path(plan.spec.resume) if plan.spec.resume else None
        self.command = command or self.stored.get("command")
        limits = plan.share.of_limits(self.spec) if plan.share else self.spec
        self.budget = budget or Budget(limits.max_cost, limits.max_calls)
        if not (self.spec.reask or self.spec.replay):
            check_same_judge(self.stored, plan.judge)
        self.sources = sources_of(self.spec) if plan.judge is not None else []
        for source in self.sources:
            source.check(plan.judge, *(self._earlier(self.resume) if self.resume else ("", "")))
        self.missing: Mapping[str, AnyQuestion] = {}
        self.models: dict[str, dict[str, str]] = {}
        self.counts: Counter[Path] = Counter()
        self.rows = array("q")
        self.corpus = open_corpus(self.spec)
        self.answers: TargetAnswers | None = None
        self.stages: Stages | None = None
        self.baseline: ReportData | None = None
        if plan.share is None and (self.spec.baseline or self.spec.fail_on_regression):
            from germane.reports.report import find_baseline

            # read before anything is paid
            self.baseline = find_baseline(self.spec.baseline and local(self.spec.baseline))
            callbacks.on_baseline(self.baseline)

    def _earlier(self, folder: Path) -> tuple[str, str]:
        """Return the name of the run in this folder, and the ledger of its earlier sessions where this one has another, else ""."""
        from germane.ledger.address import address_from, is_there

        first = (self.stored.get("options") or {}).get("ledger")
        named = str(ledger_of(self.spec, folder) or "")
        same = not first or first in {named, address_from(Path.cwd(), named)} or not is_there(first)
        return _name_of(folder, self.stored["created"]), "" if same else str(first)

    def run(self) -> Report:
        """Ask the targets and the judge, score, and build the report."""
        if self.plan.defaults is not None:
            self.callbacks.note(self.plan.defaults.why)
        cases = list(self.plan.suite.cases()) if self.plan.suite.asks_targets else None
        check_targets(cases or ())
        if self.spec.until:
            self.stages = self._stages(cases)
        folder = self.resume or new_folder(self.spec, self.plan.suite.paths)
        asks = keeps_answers(self.plan.judge)
        session = Session(self.spec, folder, self.stored, asks=asks, whole=self.whole)
        try:
            session.write("running", self._made(session))
            asyncio.run(in_own_loop(self._work(cases, session)))
            report = self._report(session)
        except InputError:
            self._discard(session, asked=cases is not None)  # nothing was judged: a bad line came first
            raise
        except (Interrupted, JudgeError, LedgerError, OSError) as failure:
            spent = session.usage_log.spent
            asked = cases is not None or bool(spent.calls or spent.cached)
            if isinstance(failure, MissingKey) and self._discard(session, asked=asked):
                raise
            raise self._stopped(failure, session) from None
        except KeyboardInterrupt:  # all is measured, and the report is being made
            raise self._stopped(Interrupted("interrupted"), session) from None
        else:
            session.close(complete=True)
            return report
        finally:
            session.close()

    async def _work(self, cases: Sequence[PlannedCase] | None, session: Session) -> None:
        """Ask the targets of `cases`, then the judge; None = no case has a target, they are read as they are judged."""
        notes = session.folder.start().tables.notes
        jobs = None if cases is None else await self._answered(cases, session)
        if session.ledger is not None and not self.spec.replay:
            for source in self.sources:
                asking = source.answer(
                    self.plan.judge,
                    session.ledger,
                    session.usage_log,
                    _name_of(session.path, session.created),
                    self.callbacks,
                    check=partial(self.plan.check, jobs),
                    open_questions=partial(self._open_questions, jobs, session),
                )
                await _interruptibly(asking)
        router = Router(self.plan.judge)
        pool = Asker(
            router,
            session.ledger,
            earlier=session.earlier,
            usage_log=session.usage_log,
            budget=self.budget,
            replay=self.spec.replay or "",
            before_asking=partial(self._check, jobs, session),
            on_progress=self.callbacks.on_judgements,
        )
        router.lend(pool)
        try:
            with interruptible(partial(self._stop, pool), pool.abort):
                async with pool:
                    while True:
                        todo = with_labels(self._todo(jobs, notes), self.plan.judge)
                        await Evaluation(todo, (), pool, session.folder, self.plan.settings).run()
                        if self.stages is None or not self.stages.next(session.folder.tables.scores):
                            break
                        if cases is not None:
                            jobs = await self._answered(cases, session)
        finally:
            self.missing = pool.missing
            session.folder.flush()

    async def _open_questions(
        self, jobs: Sequence[Job] | None, session: Session
    ) -> list[tuple[Judge, AnyQuestion]]:
        """The open questions that follow from no unknown answer, each with its judge."""
        forecaster = self._forecaster(session)
        await forecaster.count(map(self.plan.job, self.plan.suite.cases()) if jobs is None else jobs)
        return forecaster.forecast.certain

    def _forecaster(self, session: Session) -> Forecaster:
        from germane.evaluation.forecast import Forecaster

        earlier, ledger, usage_log = session.earlier, session.ledger, session.usage_log
        return Forecaster(self.plan.judge, self.plan.settings, earlier, ledger, usage_log)

    def _stages(self, cases: Sequence[PlannedCase] | None) -> Stages:
        """The stages in which the cases are judged; InputError where a goal is none."""
        from germane.evaluation.sampling import Goals, Stages  # which few runs need

        spec, suite, drawn = self.spec, self.plan.suite, self.plan.suite.draw()
        graders = suite.all_graders()
        goals = Goals.of(spec.until, graders)
        everything = suite.cases() if cases is None else cases
        return Stages(everything, goals, spec.seed, None if drawn is None else drawn.count)

    def _todo(self, jobs: Sequence[Job] | None, notes: Counter[str]) -> Iterable[Job]:
        """The jobs to judge now: these, or (None) the cases as they are read."""
        if jobs is not None:
            return jobs
        return (self._job(planned, notes) for planned in self._of_stage(self.plan.suite.cases()))

    def _of_stage(self, cases: Iterable[PlannedCase]) -> Iterable[PlannedCase]:
        return cases if self.stages is None else self.stages.of_stage(cases)

    async def _answered(self, cases: Sequence[PlannedCase], session: Session) -> list[Job]:
        """The cases that are judged now, answered by their targets."""
        from germane.targets.python import prints_to_stderr

        asked = list(self._of_stage(cases))
        progress = partial(self.callbacks.on_progress, "asking the target")
        progress(0, len(asked))
        parts = self.plan.share.of if self.plan.share else 1
        with prints_to_stderr():
            targets = open_targets(asked)
            declared = {
                name: target.models.model_dump(exclude_none=True) for (name, _), target in targets.items()
            }
            self.models |= {name: models for name, models in declared.items() if models}
            if self.answers is None:
                self.answers = TargetAnswers(session.path, resumed=session.resumed, replaces=session.replaces)
            asking = ask_targets(asked, targets, self.answers, progress, parts=parts)
            cases = await _interruptibly(asking)
        for target in targets.values():
            session.folder.tables.notes.update(target.notes)
        return [self._job(planned, session.folder.tables.notes) for planned in cases]

    def _check(self, jobs: Sequence[Job] | None, session: Session) -> None:
        """The last look at the input before anything is paid; the watch gets the forecast where it wants one."""
        if not self.callbacks.wants_forecast:
            self.plan.check(jobs)
            return
        from germane.evaluation.forecast import expectation

        checked = self.plan.checked_jobs(jobs)
        if self.stages is not None and jobs is None:  # what later stages ask is not known yet
            checked = compress(checked, map(self.stages.holds, count()))
        if (total := expectation(self._forecaster(session), checked)) is not None:
            self.callbacks.on_forecast(total)

    def _job(self, planned: PlannedCase, notes: Counter[str]) -> Job:
        """A case, ready to be judged, counted to its file."""
        if len(self.plan.suite.paths) > 1:
            self.counts[planned.source] += 1
        if self.plan.share is not None:
            self.rows.append(planned.row)
        return self.plan.job(planned, notes)

    def _stop(self, pool: Asker) -> None:
        pool.stop()
        self.callbacks.on_stopping()

    def _report(self, session: Session) -> Report:
        plan, judge = self.plan, self.plan.judge
        made = {
            **session.manifest(manifest_of(plan.settings, judge, session.total)),
            **self._input(),
            **({"targets": self.models} if self.models else {}),
            **({"corpus": self.corpus.identity} if self.corpus else {}),
            "places": plan.suite.case_locations(),
            "by": self.spec.by,
        }
        tables = session.folder.tables
        over = why_undecided(self.budget, self.missing, session.ledger, self.spec.replay or "", tables)
        if plan.share is not None:
            suite = plan.suite
            made["part"] = plan.share.entry(tables, self.rows, suite.count, suite.inputs, plan.gates)
        report = Report.build(
            session.folder.tables,
            made,
            gates=() if plan.share else plan.gates,
            max_unmeasured=self.spec.max_unmeasured,
            allow_stand_in=self.spec.allow_stand_in,
            over=over,
        )
        for number, note in note_gold(report, self.corpus):
            check = "; germane labels check says what became of them" if self.corpus is not None else ""
            self.callbacks.warn(f"{number} {note}{check}")
        if plan.share is not None:
            why = over or "a part: gates are decided on the whole, by `germane merge`"
            report.verdict = Verdict(3 if over else 0, (why,))
        if self.baseline is not None:
            from germane.comparison.regression import settle_changes

            settle_changes(report, self.baseline, every=self.spec.fail_on_regression)
        report.finish(session.folder)
        asked = not self.spec.replay and keeps_answers(judge)
        # a question without an answer, or a member of a panel that gave none
        if asked and any(field in {"errors", "failed"} for _, field, _ in session.folder.tables.asked):
            self.callbacks.on_failures(session.command())
        return report

    def _stopped(self, failure: BaseException, session: Session) -> GermaneError:
        """Write down and show what is known; the error says how the run is continued."""
        flags = [self.budget.too_low, "..."] if self.budget.too_low else []
        if not isinstance(failure, NoneAnswered):
            names = [name for source in all_of("sources").values() for name in source.options]
            flags += [f"--{name}" for name in names if getattr(self.spec, name)]
        error = session.explained(failure, *flags)
        with contextlib.suppress(OSError):  # a full disk: the manifest of the start stands, and will do
            session.write("interrupted", self._made(session))
            code = 3 if isinstance(error, LimitReached) else 130 if isinstance(error, Interrupted) else 2
            made = {**manifest_of(self.plan.settings, self.plan.judge, session.total), **self._input()}
            manifest = session.manifest(made)
            verdict = Verdict(code, (str(failure),))
            report = Report.so_far(session.folder.tables, manifest, verdict, stopped=str(error))
            self.callbacks.on_stopped(report)
        return error

    def _discard(self, session: Session, *, asked: bool) -> bool:
        """Leave no folder behind where this run made it and `asked` nobody anything; whether it is gone."""
        if asked or session.existed:
            return False
        session.close()
        shutil.rmtree(session.path, ignore_errors=True)
        return True

    def _made(self, session: Session) -> dict[str, Json]:
        """The manifest's entries before the report is complete."""
        return {"judge": judge_entry(self.plan.judge, session.total), **self._input()}

    def _input(self) -> dict[str, Json]:
        """The manifest's entries about the input: warnings, the place among several evaluations of one command, the cases of each path, the sample drawn.

        Where one of these is an eval file, they have means of their own.
        """
        suite, warnings = self.plan.suite, list(map(str, self.plan.notices))
        fields: dict[str, Json] = {"warnings": warnings} if warnings else {}
        if self.command:
            fields["command"] = self.command
        if len(suite.paths) > 1 and suite.files:
            fields["eval_files"] = [[str(path), self.counts[path]] for path in suite.paths]
        if self.stages is not None:
            fields |= {"sampled": self.stages.sampled(), "until": self.stages.as_json()}
        elif (drawn := suite.draw()) is not None:
            fields["sampled"] = drawn.as_json()
        if suite.left_out:
            fields["left_out"] = dict(suite.left_out)
        return fields


def _name_of(folder: Path, created: str) -> str:
    """The evaluation in a folder, as its batches name it."""
    return f"{folder.name} {created}"


async def _interruptibly(work: Any) -> Any:
    """The result of a coroutine; Interrupted where a signal came first."""
    task = asyncio.ensure_future(work)
    with interruptible(task.cancel):
        try:
            return await task
        except asyncio.CancelledError:
            raise Interrupted("interrupted") from None


_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextlib.contextmanager
def interruptible(*steps: Callable[[], object]) -> Iterator[None]:
    """Within, each signal takes the next of these steps in the event loop; once all are taken, it acts as it did before.

    A signal that comes while the loop has not come to the step before (a grader's pattern is searched for) is a KeyboardInterrupt.
    Outside of the main thread nothing changes: signals are handled elsewhere then.
    """
    loop, left, before = asyncio.get_running_loop(), list(steps), dict[signal.Signals, Any]()

    def restore() -> None:
        while before:
            number, handler = before.popitem()
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    waiting: list[Callable[[], object]] = []

    def step() -> None:
        waiting.pop()()

    def take(_number: int, _frame: object) -> None:
        if waiting:
            restore()
            raise KeyboardInterrupt
        waiting.append(left.pop(0))
        loop.call_soon_threadsafe(step)
        if not left:
            restore()

    with contextlib.suppress(ValueError):  # not the main thread
        for number in _SIGNALS:
            if number.name != "SIGHUP" or signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores it
                before[number] = signal.signal(number, take)
    try:
        yield
    finally:
        restore()
