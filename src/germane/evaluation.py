"""The pipeline, in one sitting: jobs in, judged and scored block by block, a report out.

Only judging touches the world. Everything here is the same whether answers come from a model, from a stored
evaluation or from people's labels: a block's programs are driven against whoever answers, and what follows from the
answers is computed in one place.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import germane
from germane.errors import InputError
from germane.judging.budget import Budget, check_price
from germane.judging.driver import Drive, Trace
from germane.judges.judge import Judge
from germane.judges.judge import Judges
from germane.judges.panel import Agreement
from germane.judges.panel import whole
from germane.judging.pool import Answerer, Pool
from germane.judging.spending import Spent
from germane.ledger.store import Ledger, open_ledger
from germane.loops import run_coroutine
from germane.measures.graders import Grader, graders_of
from germane.measures.measure import Measure, parse_measures
from germane.measures.scoring import Block, Job
from germane.measures.settings import Settings
from germane.reports.gates import Gate
from germane.reports.manifest import dump_grader, judge_entry
from germane.reports.report import Report
from germane.reports.store import MemoryStore, Store
from germane.routing import Router, needs_judge, resolve_judge
from germane.samples.reading import samples_from
from germane.types import Json, Judgement, Sample, Score
from germane.utc import now

__all__ = ["Evaluation", "aevaluate", "evaluate"]

BLOCK, AHEAD = 250, 4
"""How many samples are scored together: few enough to keep memory flat. And how many blocks ask at once: enough to keep
any endpoint busy, so that the slow end of one delays nothing."""

_Asking: TypeAlias = tuple[Block, Drive[Any], asyncio.Task[None]]


@dataclass(slots=True)
class Evaluation:
    """One run over jobs: what it is told, and what it has counted so far.

    `store` gets the rows of every block as soon as it is scored. `notes` count what a reader should know (repeated
    documents, empty calls); `prompts` are the hashes of the wordings that were used; `failed` says whether any
    question came to nothing, `agreement` how far a panel agreed.
    """

    settings: Settings = field(default_factory=Settings)
    store: Store = field(default_factory=MemoryStore)
    notes: Counter[str] = field(default_factory=Counter)
    prompts: dict[str, str] = field(default_factory=dict)
    graders: dict[tuple[Grader, ...], int] = field(default_factory=dict)
    sets: dict[str, int] = field(default_factory=dict)
    failed: bool = False
    agreement: Agreement = field(default_factory=Agreement)

    async def run(
        self, jobs: Iterable[Job], answerer: Answerer, on_block: Callable[[int], None] = lambda _: None
    ) -> None:
        """Judge and score all jobs, block by block."""
        blocks = (Block(jobs=some, settings=self.settings, notes=self.notes) for some in _blocks(jobs))
        done = 0
        async for block, drive in _driven(blocks, answerer):
            scores = self._scores(block, drive.results)
            samples = [job.sample for job in block.jobs]
            self.store.add(samples, self._judgements(drive.traces), scores)
            done += len(samples)
            on_block(done)

    def _scores(self, block: Block, results: Sequence[Any]) -> list[Score]:
        scores = []
        for job, found in zip(block.jobs, block.outcomes(results), strict=True):
            self._remember(job)
            for grader in job.graders:
                outcome = found[grader.name]
                scores.append(
                    Score(
                        sample=job.sample.id,
                        system=job.sample.system,
                        trial=job.sample.trial,
                        measure=grader.name,
                        type=str(grader.measure),
                        value=outcome.value,
                        status=outcome.status,
                        why=outcome.why,
                        bounds=outcome.bounds,
                    )
                )
        return scores

    def _remember(self, job: Job) -> None:
        number = self.graders.setdefault(job.graders, len(self.graders))
        if number:
            self.sets[sample_key(job.sample)] = number

    def graded(self) -> dict[str, Json]:
        """By what the samples were graded, and what a reader should know, for the manifest."""
        return {
            "graders": [[dump_grader(grader) for grader in graders] for graders in self.graders],
            "sets": self.sets,
            "notes": dict(sorted({**self.notes, **self.agreement.notes()}.items())),
        }

    def _judgements(self, traces: Iterable[Trace]) -> Iterator[Judgement]:
        seen: set[str] = set()
        hashes: set[str] = set()
        for trace in traces:
            for question, answer in trace:
                judgement = answer.judgement
                if judgement.key in seen:
                    continue
                seen.add(judgement.key)
                if judgement.provenance or judgement.error is not None:
                    self.agreement.add(judgement)
                    self.failed |= not whole(judgement)
                if judgement.prompt not in hashes:
                    hashes.add(judgement.prompt)
                    if judgement.prompt:
                        self.prompts[question.prompt] = judgement.prompt
                yield judgement


def sample_key(sample: Sample | Score) -> str:
    """What names a sample within an evaluation: id, system and trial."""
    name = sample.id if isinstance(sample, Sample) else sample.sample
    return "\t".join([name, sample.system, str(sample.trial)])


def _blocks(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    remaining = iter(jobs)
    while block := list(islice(remaining, BLOCK)):
        yield block


async def _driven(blocks: Iterable[Block], answerer: Answerer) -> AsyncIterator[tuple[Block, Drive[Any]]]:
    """The blocks in their order, with all that they ask answered: what is known one by one, the rest several at a time."""
    asking: deque[_Asking] = deque()
    try:
        for block in blocks:
            drive = Drive(block.programs())
            await drive.recall(answerer)
            asking.append((block, drive, asyncio.ensure_future(drive.ask(answerer))))
            while asking and (len(asking) == AHEAD or asking[0][1].finished):
                yield await _next(asking)
        while asking:
            yield await _next(asking)
    finally:
        tasks = [asked for _, _, asked in asking]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _next(asking: deque[_Asking]) -> tuple[Block, Drive[Any]]:
    block, drive, asked = asking[0]
    await asked
    asking.popleft()
    return block, drive


def _measures(measures: Measure | str | Iterable[Measure | str]) -> tuple[Measure, ...]:
    listed = [measures] if isinstance(measures, Measure | str) else list(measures)
    found: dict[Measure, None] = {}
    for one in listed:
        found.update(dict.fromkeys(parse_measures([one]) if isinstance(one, str) else [one.require_cutoff()]))
    if not found:
        raise InputError("no measure was asked for", fix='name one, e.g. "nDCG@10" or context_precision @ 5')
    return tuple(found)


async def aevaluate(
    samples: Iterable[Sample | dict[str, Json]],
    measures: Measure | str | Iterable[Measure | str],
    *,
    judge: Judges | None = None,
    against: str = "auto",
    scale: str = "graded",
    ledger: Ledger | Path | str | None = None,
    gates: Iterable[str] = (),
    max_unmeasured: float = 0.05,
    max_cost: float | None = None,
    max_calls: int | None = None,
) -> Report:
    """Judge and score samples; the coroutine behind `evaluate`, for code that runs in an event loop."""
    graders = graders_of(_measures(measures))
    who = resolve_judge(judge) if needs_judge(graders) else None
    check_price(who, max_cost)
    evaluation = Evaluation(settings=Settings.of(against, scale))
    store = open_ledger(ledger) if isinstance(ledger, str | Path) else ledger
    checked = (Job(sample=sample, graders=graders) for sample in samples_from(samples))
    parsed = [Gate.parse(gate) for gate in gates]
    budget = Budget(max_cost, max_calls)
    try:
        async with Pool(Router(who), store, budget=budget) as pool:
            await evaluation.run(checked, pool)
    finally:
        if isinstance(ledger, str | Path) and store is not None:
            store.close()
    return Report.build(
        evaluation.store,
        manifest_of(evaluation, who, pool.spent),
        gates=parsed,
        max_unmeasured=max_unmeasured,
        over=budget.exceeded,
    )


def manifest_of(evaluation: Evaluation, judge: Judge | None, spent: Spent) -> dict[str, Json]:
    """What a report says about how it came to be."""
    return {
        "schema_version": 1,
        "germane": germane.__version__,
        "created": now(),
        "judge": judge_entry(judge, spent),
        "settings": {"against": evaluation.settings.against, "scale": evaluation.settings.scale},
        "prompts": dict(sorted(evaluation.prompts.items())),
        **evaluation.graded(),
    }


def evaluate(
    samples: Iterable[Sample | dict[str, Json]],
    measures: Measure | str | Iterable[Measure | str],
    *,
    judge: Judges | None = None,
    against: str = "auto",
    scale: str = "graded",
    ledger: Ledger | Path | str | None = None,
    gates: Iterable[str] = (),
    max_unmeasured: float = 0.05,
    max_cost: float | None = None,
    max_calls: int | None = None,
) -> Report:
    """Judge and score samples.

    Args:
        samples: Samples, or mappings with the keys of a sample line (other tools' usual names are known).
        measures: Measures or their names: `[context_precision @ 5, "nDCG@10"]`.
        judge: Who answers: a judge, or its name (`"lexical"`, `"labels"`, `"openai:gpt-4o-mini"`); a list of these is a
            panel that votes. Needed as soon as a measure asks; never chosen in silence.
        against: What relevance is judged against: auto, query, reference, response.
        scale: Which scale relevance is asked on: graded (0-3) or binary.
        ledger: Where answers are kept for the next evaluation: a path or a ledger. None keeps none.
        gates: What must be reached (`"mean(nDCG@10)>=0.7"`): see `Report.verdict`.
        max_unmeasured: The share of scores that may be missing before the verdict is undecided.
        max_cost: US dollars at most: before they would be exceeded the evaluation stops with LimitReached. What is
            in the ledger by then is not asked again.
        max_calls: Questions put to the judge at most, likewise.

    Returns:
        A Report: `print(report)` shows the command line's table, `report["nDCG@10"].mean` is one number.

    Raises:
        InputError: A sample, measure, judge, ledger's place or gate cannot be used as given.
        LedgerError: The ledger cannot be read or written (a full disk). What it had taken before is not asked again.
        JudgeError: The judge cannot be used at all. One failed answer raises nothing: it is its score's `why`.
        LimitReached: `max_cost` or `max_calls` would have been exceeded, or a model asks everybody to wait for longer than
            any call does.

    Works inside a running event loop too (a notebook): it then waits for a worker thread.
    """
    work = aevaluate(
        samples,
        measures,
        judge=judge,
        against=against,
        scale=scale,
        ledger=ledger,
        gates=gates,
        max_unmeasured=max_unmeasured,
        max_cost=max_cost,
        max_calls=max_calls,
    )
    return run_coroutine(work)
