"""Run an evaluation into a report folder. Answers and judgements survive an interruption or a kill."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import shutil
from array import array
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import compress, count
from pathlib import Path
from typing import TYPE_CHECKING, cast

from germane.addons import all_of, find, load
from germane.encoding import now
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
from germane.evaluation.plan import Plan, feasible
from germane.evaluation.session import Session, answers_in, keeps_answers, open_ledger
from germane.evaluation.spec import Spec, check_same_judge, ledger_of
from germane.folder.writer import FolderWriter
from germane.judges.judge import Judge
from germane.judging.caller import in_own_loop, interruptible, interruptibly, run_coroutine
from germane.judging.spending import Budget
from germane.measures.scoring import Job
from germane.questions.question import AnyQuestion
from germane.reports.gates import Verdict
from germane.reports.report import Report
from germane.samples.files import local
from germane.tables.judgements import JudgeLine
from germane.targets.answers import PlannedCase, TargetAnswers, answers_at_hand, check_targets, open_targets
from germane.types import Json

__all__ = ["Callbacks", "dry_run", "new_folder", "run"]

if TYPE_CHECKING:
    from germane.evaluation.forecast import Forecast
    from germane.evaluation.sampling import Stages
    from germane.judging.asker import Asker
    from germane.judging.spending import Spent
    from germane.reports.data import ReportData


class Callbacks:
    """The functions that a run calls to report its progress. By default they do nothing."""

    wants_forecast = False
    """True if `on_forecast` is to be called; the forecast takes up to a second of CPU."""

    def on_forecast(self, total: Spent) -> None:
        """Called before the judge's first question with the expected number and cost of the run's calls."""

    def warn(self, text: str) -> None:
        """Called with a warning if the input seems to have a mistake."""

    def note(self, text: str) -> None:
        """Called with a note on the default measures, if no measures were named, or on an interruption."""

    def on_gold(self, text: str) -> None:
        """Called with a note of the finished report if gold ids occur in no retrieved list."""

    def on_baseline(self, baseline: ReportData) -> None:
        """Called with the report that the run is compared with, before it starts."""

    def on_progress(self, what: str, done: int, total: int) -> None:
        """Called when `done` of `total` steps are complete; `what` is the task ("asking the target")."""

    def on_judgements(self, asker: Asker) -> None:
        """Called with the asker when its counts (answered, asked, cost, errors) have changed."""

    def on_stopped(self, report: ReportData) -> None:
        """Called when the run has stopped early, with a report on the results so far."""


def run(spec: Spec, callbacks: Callbacks | None = None, *, whole: Path | None = None) -> Report:
    """Answer, judge and score all cases at the paths of `spec`, and return the report in its folder.

    With `resume`, the run in that folder is continued. Its options apply unless `spec` sets them, its answers
    and judgements are used, and only missing or failed questions are asked. `reask` allows another judge,
    which is asked every question again. With an `engine`, the evaluation is run in parts. If this run is a
    part, `whole` is the folder of the whole evaluation, which errors name in the command that continues it.

    Raises:
        InputError: Something in the input is wrong; nothing was paid for.
        JudgeError: The judge cannot be used at all.
        Interrupted: The run was interrupted (Ctrl-C); the message names the command that continues it.
    """
    callbacks = callbacks or Callbacks()
    spec, stored = spec.resumed()
    if engine := spec.get("engine"):
        if (target := find("engines", str(engine).partition(":")[0].strip())) is None:
            fix = "write processes:8, dask, or dask:tcp://HOST:8786"
            raise InputError(f"--engine {engine!r} is not an engine", fix=fix)
        report: Report
        report, baseline = load(target)(spec, callbacks)
        if baseline is not None:
            callbacks.on_baseline(baseline)
        return report
    with spec.confined():
        return _Run(Plan.of(spec, callbacks.warn), callbacks, stored, whole).run()


def dry_run(spec: Spec, callbacks: Callbacks | None = None) -> Forecast:
    """Return the questions that `run` would ask with these options, and their cost.

    Neither a judge nor a target is asked, and nothing is written. The targets' answers are taken from the
    resumed folder and from recordings; a sample without an answer is counted as `waiting`. Raises InputError
    in the same cases as `run`.
    """
    from germane.evaluation.forecast import Forecast
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
        place = ledger_of(spec, folder)
        if place is not None and not is_there(place):
            place = None
        earlier = None if folder is None else answers_in(FolderWriter(folder), stored)
        ledger = open_ledger(place, spec.replay, read_only=True)
        for store in filter(None, (earlier, ledger)):
            opened.callback(store.close)
        forecast = Forecast(plan.judge, plan.settings, earlier, ledger)
        cases: Iterable[tuple[PlannedCase, bool]] = ((planned, True) for planned in plan.chosen())
        waits = False
        if plan.asks_targets:
            answers = TargetAnswers(folder, resumed=True, replaces=stored.get("replaces", False))
            cases = asyncio.run(answers_at_hand(list(plan.chosen()), answers))
            waits = not all(is_answered for _, is_answered in cases)
        made = ((plan.job(planned), is_answered) for planned, is_answered in cases)
        jobs = (job if is_answered else forecast.with_typical_answer(job) for job, is_answered in made)
        # a measure may be possible for a sample that waits for its answer or belongs to another part
        checked = jobs if waits or plan.share is not None else feasible(jobs, plan.settings, plan.gates)
        run_coroutine(forecast.count(checked))
        return forecast


def new_folder(spec: Spec, paths: tuple[Path, ...]) -> Path:
    """Return the report folder of a new run: `spec.folder`, or a name made of the first path and the time."""
    if spec.folder:
        return Path(spec.folder)
    stamp = datetime.datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    first = "stdin" if paths and str(paths[0]) == "-" else paths[0].resolve().stem if paths else "run"
    base = Path("germane-reports") / f"{first}-{stamp}"
    folder, number = base, 2
    while folder.exists():
        folder, number = base.with_name(f"{base.name}-{number}"), number + 1
    return folder


class _Run:
    """One session of `germane run`, which `stored`, a manifest, continues; a part belongs to `whole`."""

    session: Session
    folder: FolderWriter

    def __init__(self, plan: Plan, callbacks: Callbacks, stored: dict[str, Json], whole: Path | None) -> None:
        self.plan, self.callbacks, self.spec, self.whole = plan, callbacks, plan.spec, whole
        self.judge, self.share, self.stored = plan.judge, plan.share, stored
        self.created: str = self.stored.get("created") or now()
        if stored and not (self.spec.reask or self.spec.replay):
            check_same_judge(stored, self.judge)
        self.cases: list[PlannedCase] | None = None
        self.jobs: list[Job] | None = None
        """The answered cases of the current stage; None without targets: cases are then read one by one."""
        self.asked_targets = False
        self.models: dict[str, dict[str, str]] = {}
        self.counts: Counter[Path] = Counter()
        self.rows = array("q")
        self.stages: Stages | None = None
        self.baseline: ReportData | None = None
        if self.share is None and (self.spec.baseline or self.spec.fail_on_regression):
            from germane.reports.report import find_baseline

            # it is read before anything is paid
            self.baseline = find_baseline(self.spec.baseline and local(self.spec.baseline))
            callbacks.on_baseline(self.baseline)

    def run(self) -> Report:
        """Ask the targets and the judge, score the cases, and return the report."""
        if self.plan.defaults:
            self.callbacks.note(self.plan.defaults)
        if self.plan.asks_targets:
            self.cases = list(self.plan.chosen())
        self.digests = check_targets(self.cases or (), Path(self.spec.resume or ""), self.stored)
        if self.spec.until:
            from germane.evaluation.sampling import Stages, goals_of  # few runs need it

            goals = goals_of(self.spec.until, self.plan.all_graders())
            everything = self.plan.chosen() if self.cases is None else self.cases
            total = None if self.plan.drawn is None else self.plan.drawn[1]["of"]
            self.stages = Stages(everything, goals, self.spec.seed, total)
        self._open(Path(self.spec.resume) if self.spec.resume else new_folder(self.spec, self.plan.paths))
        complete = False
        try:
            self.session.start(self._manifest())
            asyncio.run(in_own_loop(self._work()))
            report, complete = self._report(), True
        except InputError:  # a bad line was found before anything was judged
            self._undo(asked=self.asked_targets)
            raise
        except (Interrupted, JudgeError, LedgerError, OSError) as failure:
            spent = self.session.asker.spent
            asked = self.asked_targets or bool(spent.calls or spent.cached)
            if isinstance(failure, MissingKey) and self._undo(asked=asked):
                raise
            if type(failure) is JudgeError and self.existed and self._undo(asked=True):
                raise JudgeError(f"{failure}\nthe report in {self.path} is as it was") from None
            raise self._stopped(failure) from None
        except KeyboardInterrupt:  # everything is scored, and the report is being built
            raise self._stopped(Interrupted("interrupted")) from None
        else:
            return report
        finally:
            self.session.close(complete=complete)
            self.plan.stdin.delete_copy()

    def _open(self, folder: Path) -> None:
        """Open the session in the report folder, with a ledger if a judge is asked or a ledger is named."""
        spec = self.spec
        own = self.share.of_limits(spec) if self.share else spec
        whole = (spec.max_cost, spec.max_calls) if self.share else None
        budget = Budget(own.max_cost, own.max_calls, whole)
        self.path, self.existed = folder, folder.exists()
        asks = keeps_answers(self.judge) or spec.first("ledger", "given", "report")[1]
        place = ledger_of(spec, folder) if asks else None
        if place is not None:
            from germane.ledger.sqlite import is_there

            is_there(place)  # raises InputError for an impossible place before any file is created
        self.session = Session(
            self.judge,
            self.plan.settings,
            place,
            replay=spec.replay,
            folder=folder,
            stored=self.stored,
            force=spec.force,
            no_cache=spec.no_cache,
            budget=budget,
            before_asking=self._check,
            on_progress=self.callbacks.on_judgements,
        )
        self.folder = cast("FolderWriter", self.session.writer)

    async def _work(self) -> None:
        """Query the targets, then ask the judge; with `--until`, stage by stage."""
        session, plan = self.session, self.plan
        await self._query()

        async def open_questions() -> list[tuple[Judge, AnyQuestion]]:
            """Return the unanswered questions that depend only on known answers, each with its judge."""
            forecast = self._forecast()
            await forecast.count(map(plan.job, plan.chosen()) if self.jobs is None else self.jobs)
            return forecast.certain

        for source in plan.sources if session.ledger is not None and not self.spec.replay else ():
            asking = source.answer(
                self.judge,
                session.ledger,
                session.usage_log,
                f"{self.path.name} {self.created}",
                self.callbacks,
                check=partial(plan.check, self.jobs),
                open_questions=open_questions,
            )
            await interruptibly(asking)

        def stop() -> None:
            session.asker.stop()
            note = "interrupted: finishing the requests in flight; press Ctrl-C again to abandon them"
            self.callbacks.note(note)

        try:
            with interruptible(stop, session.asker.abort):
                async with session.asker:
                    while True:
                        cases = self._in_stage(plan.chosen())
                        await session.run(map(self._job, cases) if self.jobs is None else self.jobs)
                        if self.stages is None or not self.stages.next(session.tables.scores):
                            break
                        await self._query()
        finally:
            self.folder.flush()

    def _forecast(self) -> Forecast:
        from germane.evaluation.forecast import Forecast

        return Forecast(self.judge, self.plan.settings, self.session.earlier, self.session.ledger)

    def _in_stage(self, cases: Iterable[PlannedCase]) -> Iterable[PlannedCase]:
        """Return those of the cases that are in the current stage of `--until`."""
        return cases if self.stages is None else self.stages.of_stage(cases)

    async def _query(self) -> None:
        """Query the targets about the cases of the current stage, if there are targets."""
        if self.cases is None:
            return
        from germane.targets.python import prints_to_stderr

        asked = list(self._in_stage(self.cases))
        progress = partial(self.callbacks.on_progress, "asking the target")
        progress(0, len(asked))
        with prints_to_stderr():
            targets = open_targets(asked)
            for (name, _), target in targets.items():
                if models := target.models.model_dump(exclude_none=True):
                    self.models[name] = models
            self.asked_targets = True
            parts = self.share.of if self.share else 1
            answered = await interruptibly(self.session.ask_targets(asked, targets, progress, parts=parts))
        for target in targets.values():
            self.folder.tables.notes.update(target.notes)
        self.jobs = list(map(self._job, answered))

    def _job(self, planned: PlannedCase) -> Job:
        """Return a case as a job, and count it for the file that it comes from."""
        if len(self.plan.paths) > 1:
            self.counts[planned.source] += 1
        if self.share is not None:
            self.rows.append(planned.row)
        return self.plan.job(planned, self.folder.tables.notes)

    def _check(self) -> None:
        """Check the input before anything is paid for; call `on_forecast` if `wants_forecast` is True."""
        if not self.callbacks.wants_forecast:
            self.plan.check(self.jobs)
            return
        from germane.evaluation.forecast import expectation

        checked = self.plan.checked_jobs(self.jobs)
        if self.stages is not None and self.jobs is None:  # what later stages ask is not known yet
            checked = compress(checked, map(self.stages.holds, count()))
        if (total := expectation(self._forecast(), checked)) is not None:
            self.callbacks.on_forecast(total)

    def _report(self) -> Report:
        """Return the finished report in its folder, with the gates decided."""
        plan, tables, over = self.plan, self.folder.tables, self.session.undecided
        cases = (case for file in plan.files.values() for case in file.cases)
        lines = {case.sample.id: [at.file, at.line] for case in cases if (at := case.location) is not None}
        made = self._manifest()
        if self.models:
            made["targets"] = self.models
        made |= {"places": lines, "by": self.spec.by}
        if self.share is not None:
            made["part"] = self.share.entry(tables, self.rows, plan.count, plan.inputs, plan.gates)
        how = {"max_unmeasured": self.spec.max_unmeasured, "allow_stand_in": self.spec.allow_stand_in}
        gates = () if self.share else plan.gates
        report = self.session.report(made, gates, self.callbacks.on_gold, **how)
        if self.share is not None:
            why = over or "this is the report of a part; `germane merge` decides the gates on the whole"
            report.verdict = Verdict(3 if over else 0, (why,))
        if self.baseline is not None:
            from germane.comparison.regression import settle_changes

            settle_changes(report, self.baseline, every=self.spec.fail_on_regression)
        report.finish(self.folder)
        return report

    def _manifest(self) -> dict[str, Json]:
        """Return the manifest's entries on the input and options, which a resumed run needs."""
        plan, spec, opened = self.plan, self.spec, self.session.ledger
        ledger = spec.first("ledger", "given", "report")[0] if opened is None else opened.place
        ledger = None if spec.no_cache or spec.replay else ledger
        options = {**spec.as_json(), "folder": str(self.path), "ledger": ledger}
        fields: dict[str, Json] = {"created": self.created, "cwd": str(Path.cwd()), "options": options}
        if self.digests:
            fields["target_digests"] = self.digests
        if warnings := list(map(str, plan.notices)):
            fields["warnings"] = warnings
        if len(plan.paths) > 1 and plan.files:
            fields["eval_files"] = [[str(path), self.counts[path]] for path in plan.paths]
        if self.stages is not None:
            fields |= {"sampled": self.stages.sampled(), "until": self.stages.as_json()}
        elif plan.drawn is not None:
            fields["sampled"] = plan.drawn[1]
        if plan.left_out:
            fields["left_out"] = dict(plan.left_out)
        return fields

    def _stopped(self, failure: BaseException) -> GermaneError:
        """Save and show the results so far; return the error to raise, which says how to resume the run."""
        flags = [*self.session.budget.too_low.split()[:1], "..."] if self.session.budget.too_low else []
        if not isinstance(failure, NoneAnswered):
            names = [name for source in all_of("sources").values() for name in source.options]
            waits = isinstance(failure, AskedLater)
            flags += [f"--{name}" for name in names if waits or getattr(self.spec, name)]
        known = failure if isinstance(failure, GermaneError) else None
        error = known or LedgerError(f"the report folder {self.path} cannot be written: {failure}")
        if self.whole is None or known is None:  # else the caller says how to continue
            command, spent = self.spec.resume_command(self.whole or self.path, *flags), self.session.spent
            again = f"continue with: {command}"
            if spent.calls or spent.requests:
                again += f"\nspent so far, in all sessions: {JudgeLine.stored(spent.as_json()).spent}"
            if isinstance(error, Interrupted):
                error = type(error)(f"{error}; {again}")
            else:
                kind = JudgeError if isinstance(error, JudgeError) else LedgerError
                stored = "all answers so far" if kind is JudgeError else "the answers before that"
                error = kind(f"{error}\n{stored} are stored; {again}")
        with contextlib.suppress(OSError):  # if the disk is full, the manifest from the start remains
            self.session.write_manifest("interrupted", self._manifest())
            self.session.usage_log.close(forget=True)
            code = 3 if isinstance(error, LimitReached) else 130 if isinstance(error, Interrupted) else 2
            manifest = self.session.manifest(self._manifest())
            verdict = Verdict(code, (str(failure),))
            report = Report.so_far(self.folder.tables, manifest, verdict, stopped=str(error))
            self.callbacks.on_stopped(report)
        return error

    def _undo(self, *, asked: bool) -> bool:
        """Leave the folder as it was before this run, unless it has new answers; return True if it is.

        A folder that this run created is deleted, unless a target or a judge was `asked`.
        """
        if self.existed:
            return not self.session.asker.spent.calls and self.session.restore()
        if asked:
            return False
        self.session.close()
        shutil.rmtree(self.path, ignore_errors=True)
        return True
