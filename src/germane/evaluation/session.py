"""Evaluate cases in blocks, in one event loop, within a session that opens the stores and builds the report.

A block is a few hundred cases that are judged and scored together. Merging the rows of blocks (BlockRows) is
associative and exact, so the division into blocks does not change a byte of the report.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import structs

from germane.clean import counted, mask_urls
from germane.encoding import batched, now
from germane.errors import InputError
from germane.folder.files import (
    EARLIER,
    SESSION,
    UNFINISHED,
    earlier_judgements,
    files_in,
    read_manifest,
    write_manifest,
)
from germane.folder.tables import BlockRows, Tables, check_digest
from germane.folder.writer import FolderWriter
from germane.judges.judge import Judge, LabelsJudge, members_of
from germane.judging.asker import Asker
from germane.judging.spending import Budget, Spent, UsageLog
from germane.measures.scoring import Block, Job
from germane.places.lists import AskedItem, Settings, places_asked, turns
from germane.questions.asking import AskJudge, FindAnswers, Running, finish, start
from germane.questions.question import AnyQuestion
from germane.questions.relevance import Passages, examples_of
from germane.reports.data import dump_grader
from germane.reports.explain import result_row
from germane.reports.report import Report
from germane.tables.labels import labels_on
from germane.targets.answers import PlannedCase, TargetAnswers, ask_targets
from germane.types import Json
from germane.version import __version__

__all__ = ["Session", "keeps_answers", "open_ledger"]

if TYPE_CHECKING:
    from germane.ledger.store import Ledger
    from germane.reports.gates import Gate
    from germane.targets.target import Target

Store = TypeVar("Store", bound=BlockRows | FolderWriter)

SIZE = 500
"""Cases per block: few enough for flat memory and cache locality, many enough to amortise a block's cost."""

_AHEAD = 4
"""The number of blocks whose questions are asked at the same time.

Several blocks keep an endpoint busy while one block waits for its last answers.
"""


async def evaluate_jobs(
    jobs: Iterable[Job],
    find: FindAnswers,
    store: Store,
    settings: Settings | None = None,
    *,
    ask: AskJudge | None = None,
) -> Store:
    """Judge and score jobs, add their rows to `store` block by block, in order, and return `store`.

    `find` looks up stored answers, for example in a report. `ask` asks a judge for all other answers, and may
    be None if all answers are stored. `store` collects the rows in memory or writes them to a report folder.
    """
    async for block in answered_blocks(jobs, find, settings, ask=ask):
        store.add(block.rows())
    return store


async def answered_blocks(
    jobs: Iterable[Job],
    find: FindAnswers,
    settings: Settings | None = None,
    *,
    ask: AskJudge | None = None,
    size: int = SIZE,
) -> AsyncIterator[Working]:
    """Yield the jobs in blocks of `size`, in order, each block once all of its questions are answered.

    `find` looks up stored answers, block by block. `ask` asks the other questions of a few blocks at a time.
    """
    asking: deque[tuple[Working, asyncio.Task[None]]] = deque()
    try:
        for chunk in batched(jobs, size):
            await find([])  # lets the event loop handle signals
            block = Block(chunk, settings or Settings(), companions=True)
            working = Working(block, await start(block.programs, find))
            asking.append((working, asyncio.ensure_future(finish(working.programs, ask))))
            while asking:
                first, asked = asking[0]
                if len(asking) < _AHEAD and not all(program.finished for program in first.programs):
                    break
                await asked
                yield asking.popleft()[0]
        while asking:
            await asking[0][1]
            yield asking.popleft()[0]
    finally:
        for _, asked in asking:
            asked.cancel()
        await asyncio.gather(*(asked for _, asked in asking), return_exceptions=True)


@dataclass(slots=True, eq=False)
class Working:
    """A block of jobs whose questions are being answered, and the programs that ask these questions."""

    block: Block
    programs: list[Running[Any]]

    def rows(self) -> BlockRows:
        """Return the block's rows for the report: samples, items, answers, labels and scores."""
        rows, block = BlockRows(), self.block
        results = [program.result for program in self.programs]
        rows.scores, rows.notes = block.scores(results), block.notes
        numbers = {id(group): rows.number_of(list(map(dump_grader, group))) for group in block.grader_sets}
        for job in block.jobs:
            rows.samples.append(job.sample)
            if number := numbers[id(job.graders)]:
                rows.graded[job.sample.key] = number
        asked = self._asked(rows)
        labelled = {number for number, job in enumerate(block.jobs) if job.labels}.union(block.labelled)
        for number in sorted({*asked, *labelled}):
            job, sample, items = block.jobs[number], rows.samples[number], asked.get(number, ())
            if items:
                rows.places += places_asked(sample, items)
            if number in labelled:
                history = turns(sample)
                names = {row[2:4]: row[0] for row in items if row[1] == "relevance" and not history}
                rows.labels += labels_on(sample, history, names)
            if job.labels:
                rows.append_labels(job.labels)
        for (index, name), result in block.graded(results).items():
            rows.judgements.add(result_row(block.jobs[index].sample, name, result.as_json()))
        for system, measure, values in block.companions():
            rows.beside.setdefault((system, measure), array("d")).extend(values)
        return rows

    def _asked(self, rows: BlockRows) -> dict[int, list[AskedItem]]:
        """Return the items asked about, by number of the job in the block; add the answers to `rows`."""
        asked = defaultdict[int, list[AskedItem]](list)
        for job, passages, measures in self.block.verdicts:
            asked[job] += _items_of(passages)
            for measure in measures:
                rows.reads.setdefault(measure, set()).add("relevance")
        for (job, measures), program in zip(self.block.owners, self.programs, strict=True):
            for questions, answers in program.trace:
                asked[job] += _items_of(questions)
                kinds = {question.kind for question in examples_of(questions)}
                for measure in measures:
                    rows.reads.setdefault(measure, set()).update(kinds)
                against = [answer.judgement.provenance.get("against") for answer in answers]
                against_known, with_it = len(against) - against.count(None), against.count("reference")
                for measure in measures if against_known else ():
                    counts = rows.references.setdefault(measure, Counter())
                    counts["with_reference"] += with_it
                    counts["without_reference"] += against_known - with_it
                for question, answer in zip(examples_of(questions), answers, strict=True):
                    judgement = answer.judgement
                    # an answer without a key did not come from a judge
                    if judgement.key and rows.judgements.add(judgement) and judgement.prompt:
                        rows.prompts[question.prompt] = judgement.prompt
                    if answer.children:
                        rows.judgements.extend(answer.children)
        return asked


def _items_of(questions: Sequence[AnyQuestion]) -> list[AskedItem]:
    if isinstance(questions, Passages):  # without making a question of each
        cells = zip(questions.items, questions.cells, strict=True)
        return [(item, "relevance", *cell, ()) for item, cell in cells]
    texts = ((asked, asked.judged()) for asked in questions)
    return [(q.item, q.kind, text.get("query"), text.get("passage"), q.parts()) for q, text in texts]


_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Session:
    """Evaluates jobs: looks up answers, asks a judge for the rest, stores the rows, and builds the report.

    Answers are looked up and stored in `ledger`, a ledger or the address of one; with `no_cache`, they are
    stored in the folder alone, until the report is complete. `replay` is the address of a ledger that must
    answer everything. Rows are held in memory or, with a `folder`, written there block by block, so that
    another session can continue after this one was killed; `stored` is the manifest there if this session
    continues that evaluation, and `force` replaces the report of another one. `asker` is an open Asker for
    the same judge and ledger; by default, one is made with `asking`.
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
        self._before = stored  # the manifest that was in the folder
        self._replay = str(mask_urls(str(replay or "")))
        with ExitStack() as opened:
            if folder is not None:
                self.writer = self._locked(folder, opened, force=force)
                self.usage_log = UsageLog(folder / SESSION, stored.get("sessions", ()))
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
        how = {"budget": self.budget, "earlier": self.earlier, "usage_log": self.usage_log, **asking}
        self.asker = asker or Asker(judge, self.ledger, replay=self._replay, **how)
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
            self._replaces = files_in(folder)["judgements"].exists()
            with suppress(InputError):  # there is none, or it is damaged
                self._before = read_manifest(folder)
            for end in (EARLIER, UNFINISHED):  # of killed sessions of another evaluation
                files_in(folder, end)["judgements"].unlink(missing_ok=True)
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

    def manifest(self, made: Mapping[str, Json] = _NOTHING) -> dict[str, Json]:
        """Return the manifest's entries on the judge, its usage in all sessions, the settings, and `made`."""
        judge, settings = self.judge, self.settings
        named: dict[str, Json] = {"source": None, "identity": None, "stand_in": ""}
        if judge is not None:
            named = {"source": judge.name, "identity": mask_urls(judge.identity), "stand_in": judge.stand_in}
        entries: dict[str, Json] = {
            "germane": __version__,
            "created": now(),
            "judge": named | self.spent.as_json(),
            "settings": {name: getattr(settings, name) for name in ("against", "scale", "rubric")},
        }
        if self.writer is not None and keeps_answers(self.judge):
            entries["sessions"] = self.usage_log.sessions
        return entries | dict(made)

    def start(self, made: Mapping[str, Json] = _NOTHING) -> None:
        """Begin the folder's report with empty tables; `made` are further entries of its manifest."""
        if self.writer is not None:
            self.write_manifest("running", made)
            self.writer.start()

    def restore(self) -> bool:
        """Leave the folder with the complete report that this session was to replace; False if it has none."""
        if self.writer is None or self._before.get("status") != "complete":
            return False
        write_manifest(self.writer.path, self._before, "complete")
        return True

    def write_manifest(self, status: str, made: Mapping[str, Json]) -> None:
        """Write the folder's manifest before the report is complete."""
        if self.writer is not None:
            write_manifest(self.writer.path, {**self.manifest(made), "replaces": self._replaces}, status)

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
        if isinstance(self.judge, LabelsJudge) and self.judge.by_item:
            jobs = _with_labels(jobs, self.judge)
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
        other = "no answer in it fits: the judge's model, URL (OPENAI_BASE_URL) and parameters must match; "
        return (
            f"{counted(len(missing), 'answer is', 'answers are')} not in {self._replay} ({counts}); "
            f"{'' if self.asker.spent.cached else other}"
            "run this command with access to the judge and without --replay, then: germane ledger export -o FILE"
        )

    def report(
        self,
        made: Mapping[str, Json] = _NOTHING,
        gates: Sequence[Gate] = (),
        on_gold: Callable[[str], object] = lambda _: None,
        **how: Any,
    ) -> Report:
        """Return the report on the stored rows, with the gates decided. `on_gold` is called with its note on gold.

        `made` are further entries of its manifest, and `how` those that decide the verdict.
        """
        report = Report.build(self.tables, self.manifest(made), gates=gates, over=self.undecided, **how)
        gold = any(summary.basis.source == "gold" for summary in report.summaries)
        if gold and (self.tables.scores.value == 0).any():  # a sample that retrieved no gold, for example
            from germane.labelling.unmatched import gold_notes  # most evaluations do not need it

            for count, note in list(gold_notes(report)):
                report.add_note(count, note)
                on_gold(f"{count} {note}")
        return report


def keeps_answers(judge: Judge | None) -> bool:
    """Return True if the answers of the judge, or of any member of a panel, are stored in the ledger."""
    return judge is not None and any(member.stored for member in members_of(judge))


def _with_labels(jobs: Iterable[Job], judge: LabelsJudge) -> Iterator[Job]:
    """Yield the jobs with the judge's labels by item in place of those of the contexts."""
    for job in jobs:
        sample = job.sample
        contexts = sample.with_contexts(partial(judge.labelled, sample.query, turns(sample)))
        yield structs.replace(job, sample=contexts)


def open_ledger(
    address: str | Path | None, replay: str | Path | None = None, *, read_only: bool = False
) -> Ledger | None:
    """Open and return the ledger at `replay` (read-only), else at `address`; return None if both are None."""
    if replay is None and address is None:
        return None
    from germane.ledger.sqlite import open_at, open_for_replay

    return open_for_replay(replay) if replay is not None else open_at(address or "", read_only=read_only)


def answers_in(folder: FolderWriter, stored: Mapping[str, Json]) -> Ledger | None:
    """Return the answers of earlier sessions in the report folder as a ledger; None if there are no answers.

    `stored` is the folder's manifest. Raises InputError if the report is complete and its file of judgements
    was modified afterwards.
    """
    if stored.get("status") == "complete":
        file = folder.path / "judgements.jsonl"
        if digest := stored.get("files", {}).get(file.name):
            check_digest(file, digest)
    if not (files := folder.earlier(finished=not stored.get("replaces", False))):
        return None
    from germane.ledger.sqlite import SQLiteLedger

    return SQLiteLedger(files[0], rows=earlier_judgements(files))  # without lines that cannot be read


def remove_ledger(path: Path) -> None:
    """Delete a ledger's file and its write-ahead log."""
    from germane.ledger.sqlite import files_of

    for file in files_of(path):
        file.unlink(missing_ok=True)
