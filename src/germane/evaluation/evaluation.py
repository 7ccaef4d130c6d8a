"""Evaluate cases in blocks, in one event loop: cases in, rows of the report out.

A block is a few hundred cases that are judged and scored together. Merging the rows of blocks (BlockRows) is
associative and exact, so the division into blocks does not change a byte of the report. A Session is one
process's work on an evaluation: it opens the stores, asks, and builds the report.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from germane.folder.tables import BlockRows
from germane.folder.writer import FolderWriter
from germane.measures.scoring import Block, Job
from germane.places.asked import AskedItem, places_asked
from germane.places.lists import turns
from germane.places.settings import Settings
from germane.questions.asking import AskJudge, FindAnswers, Running, finish, start
from germane.questions.question import AnyQuestion
from germane.questions.relevance import Passages, examples_of
from germane.reports.data import dump_grader
from germane.reports.explain import result_row
from germane.tables.columns import batched
from germane.tables.labels import add_labels

if TYPE_CHECKING:
    pass

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
        for some in batched(jobs, size):
            await find([])  # lets the event loop handle signals
            block = Block(some, settings or Settings(), companions=True)
            working = Working(block, await start(block.programs, find))
            asking.append((working, asyncio.ensure_future(finish(working.programs, ask))))
            while asking and (len(asking) == _AHEAD or asking[0][0].finished):
                await asking[0][1]
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

    @property
    def finished(self) -> bool:
        """True if every program of the block has ended, so that no question is left to ask."""
        return all(program.finished for program in self.programs)

    def rows(self) -> BlockRows:
        """Return the block's rows for the report: samples, items, answers, labels and scores."""
        rows, block = BlockRows(), self.block
        results = [program.result for program in self.programs]
        rows.scores, rows.notes = block.scores(results), block.notes
        numbers = {id(some): rows.number_of(list(map(dump_grader, some))) for some in block.grader_sets}
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
                names = {(o.query, o.passage): o.item for o in items if o.kind == "relevance" and not history}
                add_labels(rows.labels, sample, history, names)
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
        for job, passages, measures in self.block.read_as_verdicts():
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
    if not isinstance(questions, Passages):
        return list(map(AskedItem.of, questions))
    cells = zip(questions.items, questions.cells, strict=True)
    return [AskedItem(item, "relevance", query, passage) for item, (query, passage) in cells]
