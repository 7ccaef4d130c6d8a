"""Evaluate cases in blocks, in one event loop: cases in, rows of the report out.

A block is a few hundred cases that are judged and scored together. The caller passes in the source of answers
(an asker, stored judgements) and the store of rows (memory, a folder). Merging the rows of blocks (BlockRows)
is associative and exact, so the division into blocks does not change a byte of the report.
"""

from __future__ import annotations

import asyncio
import signal
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar, cast

from germane.errors import Interrupted
from germane.folder.rows import BlockRows
from germane.folder.writer import FolderWriter
from germane.judging.caller import called_by, in_own_loop
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

__all__ = ["run_coroutine"]

T = TypeVar("T")
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


def run_coroutine(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result.

    If an event loop is already running (as in a notebook), the coroutine runs in another thread. Functions of
    targets that must run in the calling thread are then called there while it waits. An interruption (Ctrl-C)
    cancels the coroutine, and is raised once the coroutine has ended.
    """
    running = False
    with suppress(RuntimeError):
        running = asyncio.get_running_loop() is not None
    if not running:
        # asyncio computes the repr of its task, and thus of the task's result, when it restores the signal
        # handler; so the task has no result
        results = list[T]()

        async def run() -> None:
            results.append(await in_own_loop(work))

        asyncio.run(run())
        return results[0]
    calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = Future()

    async def main() -> T:
        begun.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        return await called_by(calls.put, work)

    with ThreadPoolExecutor(1, "germane-evaluate") as executor:  # at its end it waits for the thread
        result = executor.submit(asyncio.run, main())
        result.add_done_callback(lambda _: calls.put(None))
        try:
            while (call := calls.get()) is not None:
                call()
            return result.result()
        except BaseException:
            loop, task = begun.result()
            with suppress(RuntimeError):  # the loop has just ended
                loop.call_soon_threadsafe(cast("asyncio.Task[Any]", task).cancel)
            raise


async def interruptibly(work: Any) -> Any:
    """Await a coroutine and return its result. Raises Interrupted if a signal (Ctrl-C) arrives before."""
    task = asyncio.ensure_future(work)
    with interruptible(task.cancel):
        try:
            return await task
        except asyncio.CancelledError:
            raise Interrupted("interrupted") from None


_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def interruptible(*steps: Callable[[], object]) -> Iterator[None]:
    """Return a context in which each signal (such as Ctrl-C) calls the next of `steps` in the event loop.

    Signals that arrive after the last step act as usual. A signal raises KeyboardInterrupt if the loop has
    not called the previous step yet, for example because a long regular expression blocks the loop. Outside
    of the main thread, signals are not handled.
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

    with suppress(ValueError):  # not the main thread
        for number in _SIGNALS:
            if number.name != "SIGHUP" or signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores it
                before[number] = signal.signal(number, take)
    try:
        yield
    finally:
        restore()
