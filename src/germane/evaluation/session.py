"""One session of an evaluation: its stores of answers and rows, who is asked, and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from germane.clean import counted, mask_urls
from germane.evaluation.choice import (
    Router,
    answers_in,
    keeps_answers,
    open_ledger,
    remove_ledger,
    with_labels,
)
from germane.evaluation.evaluation import evaluate_jobs
from germane.folder.files import SESSION, write_manifest
from germane.folder.rows import BlockRows, Tables
from germane.folder.writer import FolderWriter
from germane.judging.asker import Asker
from germane.judging.spending import Budget, Spent, UsageLog, manifest_of
from germane.reports.report import Report
from germane.targets.answers import PlannedCase, TargetAnswers, ask_targets

if TYPE_CHECKING:
    from germane.judges.judge import Judge
    from germane.ledger.store import Ledger
    from germane.measures.scoring import Job
    from germane.places.settings import Settings
    from germane.reports.gates import Gate
    from germane.targets.target import Target
    from germane.types import Json

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Session:
    """Evaluates jobs: looks up answers, asks a judge for the rest, stores the rows, and builds the report.

    Close it, or use it as a context manager.

    Args:
        judge: Who answers; None if no measure asks a judge.
        settings: How relevance is judged.
        ledger: Where answers are looked up and stored: a ledger, or the address of one, which is opened.
        replay: The address of a ledger that must answer everything.
        folder: Where the rows are written, block by block, so that another session can continue after this
            one was killed. None: rows are held in memory.
        stored: The manifest in the folder, if this session continues that evaluation.
        force: Whether to replace the report of another evaluation in the folder.
        no_cache: Whether to store answers in the folder alone, until the report is complete.
        sessions: The earlier sessions' counts of usage; this session's are then written to the folder too.
        budget: The limits of spending.
        asker: An open Asker for the same judge and ledger. Default: an own one, made with `asking`.
    """

    def __init__(
        self,
        judge: Judge | None,
        settings: Settings,
        ledger: Ledger | Path | str | None = None,
        *,
        replay: Path | str | None = None,
        folder: Path | None = None,
        stored: Mapping[str, Json] = _NOTHING,
        force: bool = False,
        no_cache: bool = False,
        sessions: Iterable[Mapping[str, Json]] | None = None,
        budget: Budget | None = None,
        asker: Asker | None = None,
        **asking: Any,
    ) -> None:
        self.judge, self.settings, self.budget = judge, settings, budget or Budget()
        self.earlier: Ledger | None = None
        self.writer: FolderWriter | None = None
        self.usage_log = UsageLog()
        self._answers: TargetAnswers | None = None
        self._stored, self._own_ledger = stored, folder / "ledger.sqlite" if no_cache and folder else None
        self._replaces: bool = stored.get("replaces", False)
        self._replay = str(mask_urls(str(replay or "")))
        with ExitStack() as opened:
            if folder is not None:
                self.writer = self._locked(folder, opened, force=force)
                if sessions is not None:
                    self.usage_log = UsageLog(folder / SESSION, sessions)
                    opened.callback(self.usage_log.close)
                if not no_cache:
                    asking["keep"] = self.writer.keep
            if self._own_ledger is not None and ledger is None and keeps_answers(judge):
                ledger = self._own_ledger
            if ledger is not None and not isinstance(ledger, str | Path):
                self.ledger: Ledger | None = ledger
            elif (own := open_ledger(ledger, replay)) is not None:
                opened.callback(own.close)
                self.ledger = own
            else:
                self.ledger = None
            self._opened = opened.pop_all()  # unless opening failed, everything stays open until `close`
        router = Router(judge)
        how = {"budget": self.budget, "earlier": self.earlier, "usage_log": self.usage_log, **asking}
        self.asker = asker or Asker(router, self.ledger, replay=self._replay, **how)
        if judge is not None:
            router.ask = self.asker.judge
        self.store = self.writer or BlockRows()
        self.tables: Tables = self.store if isinstance(self.store, BlockRows) else self.store.tables

    def _locked(self, folder: Path, opened: ExitStack, *, force: bool) -> FolderWriter:
        """Lock the folder, and find the answers of the sessions that this one continues."""
        writer = FolderWriter(folder).lock()
        opened.callback(writer.close)
        if not (self._stored or force):
            writer.refuse_other()
        if self._stored and not self._replay:
            if (earlier := answers_in(writer, self._stored)) is not None:
                opened.callback(earlier.close)
            self.earlier = earlier
        elif not self._stored:
            self._replaces = writer.has_rows()
            writer.forget_killed()
            if self._own_ledger is not None:
                remove_ledger(self._own_ledger)
        return writer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close(complete=kind is None)

    def close(self, *, complete: bool = False) -> None:
        """Close all files; if the report is `complete`, delete what only another session would read."""
        if complete:
            self.usage_log.close(forget=True)
        self._opened.close()
        if complete and self.writer is not None:
            TargetAnswers.forget(self.writer.path)
            if self._own_ledger is not None:
                remove_ledger(self._own_ledger)

    def write_manifest(self, status: str, entries: Mapping[str, Json] = _NOTHING) -> None:
        """Write the folder's manifest, with these entries, before the report is complete."""
        if self.writer is not None:
            write_manifest(self.writer.path, {**entries, "replaces": self._replaces}, status)

    async def ask_targets(
        self,
        cases: Sequence[PlannedCase],
        targets: Mapping[Any, Target],
        on_progress: Callable[[int, int], None],
        *,
        parts: int = 1,
    ) -> list[PlannedCase]:
        """Return the cases with their targets' answers, those of earlier sessions and new ones."""
        if self._answers is None:
            folder = None if self.writer is None else self.writer.path
            self._answers = TargetAnswers(folder, resumed=bool(self._stored), replaces=self._replaces)
        return await ask_targets(cases, targets, self._answers, on_progress, parts=parts)

    async def run(self, jobs: Iterable[Job]) -> None:
        """Judge and score jobs, and store their rows. The asker must be open."""
        jobs = with_labels(jobs, self.judge)
        await evaluate_jobs(jobs, self.asker.lookup, self.store, self.settings, ask=self.asker.judge)

    @property
    def spent(self) -> Spent:
        """The usage of all sessions, and the number of questions that this one left unanswered."""
        spent = self.usage_log.earlier + self.asker.spent
        spent.errors = len(self.usage_log.failed) if self.usage_log.session else spent.errors
        return spent

    @property
    def undecided(self) -> str:
        """The reason why gates cannot be decided (limit exceeded, answers missing in a replay), or ""."""
        missing = self.asker.missing
        if self.budget.exceeded or not missing:
            return self.budget.exceeded
        kinds = Counter(question.kind for question in missing.values())
        counts = ", ".join(f"{count} of {kind}" for kind, count in kinds.items())
        return (
            f"{counted(len(missing), 'answer is', 'answers are')} not in {self._replay} ({counts}); "
            "run this command with access to the judge and without --replay, then: germane ledger export -o FILE"
        )

    def report(
        self,
        made: Mapping[str, Json] = _NOTHING,
        gates: Sequence[Gate] = (),
        warn: Callable[[str], object] = lambda _: None,
        **how: Any,
    ) -> Report:
        """Return the report on the stored rows, with the gates decided.

        `made` are further entries of its manifest, and `how` those that decide the verdict. `warn` is called
        with a note if gold ids occur in no sample.
        """
        entries = manifest_of(self.settings, self.judge, self.spent) | dict(made)
        report = Report.build(self.tables, entries, gates=gates, over=self.undecided, **how)
        if report.misses_gold:
            from germane.labelling.unmatched import gold_notes  # most evaluations do not need it

            for count, note in list(gold_notes(report)):
                report.add_note(count, note)
                warn(f"{count} {note}")
        return report
