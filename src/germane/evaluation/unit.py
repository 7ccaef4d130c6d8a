"""Units of work: plan -> evaluate_unit -> merge.

A unit is a few jobs (a sample with its graders) that are judged and scored together. It needs nothing but an answerer:
whoever answers questions (the pool, stored answers) is handed in. Its result is a Part; merging parts is associative and
exact, so an evaluation in one unit and in seven gives the same bytes.
"""

from __future__ import annotations

import asyncio
import threading
from array import array
from collections import Counter, deque
from collections.abc import (
    AsyncIterator,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

from germane.judging.driver import Answerer, Running, finish, recall
from germane.measures.labels import Settings, turns
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.measures.scoring import (
    Block,
    Grader,
    Job,
    graders_of,
)
from germane.questions.question import AnyQuestion
from germane.reports.data import dump_grader
from germane.reports.explain import result_row
from germane.reports.summary import belonging_to
from germane.tables.items import ItemRow, item_rows
from germane.tables.labels import Label, label_rows
from germane.tables.part import Beside, Part
from germane.types import Sample

T = TypeVar("T")

SIZE = 250
"""Samples per unit: few enough to keep memory flat."""

_AHEAD = 4
"""Units that ask at once: enough to keep any endpoint busy, so that the slow end of one delays nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Jobs that are judged and scored together, under one evaluation's settings."""

    jobs: tuple[Job, ...]
    settings: Settings


def plan(jobs: Iterable[Job], settings: Settings, *, size: int = SIZE) -> Iterator[Unit]:
    """The jobs as units of `size`, in their order."""
    remaining = iter(jobs)
    while some := tuple(islice(remaining, size)):
        yield Unit(jobs=some, settings=settings)


async def evaluate_unit(unit: Unit, answerer: Answerer) -> Part:
    """Judge and score one unit."""
    working = _Working(unit)
    await recall(working.programs, answerer)
    await finish(working.programs, answerer)
    return working.part()


async def evaluated(units: Iterable[Unit], answerer: Answerer) -> AsyncIterator[Part]:
    """The parts of the units in their order: what is known is looked up unit by unit, the rest is asked several units ahead."""
    asking: deque[_Asking] = deque()
    try:
        for unit in units:
            working = _Working(unit)
            await recall(working.programs, answerer)
            asking.append((working, asyncio.ensure_future(finish(working.programs, answerer))))
            while asking and (len(asking) == _AHEAD or all(one.finished for one in asking[0][0].programs)):
                yield await _first(asking)
        while asking:
            yield await _first(asking)
    finally:
        for _, asked in asking:
            asked.cancel()
        await asyncio.gather(*(asked for _, asked in asking), return_exceptions=True)


class _Working:
    """A unit while its questions are answered."""

    def __init__(self, unit: Unit) -> None:
        self.unit, self.notes = unit, Counter[str]()
        self.block = Block(jobs=unit.jobs, settings=unit.settings, notes=self.notes)
        self.programs: list[Running[Any]] = list(map(Running, self.block.programs))

    def part(self) -> Part:
        """What the unit's samples were asked, answered and scored."""
        part = Part(notes=self.notes)
        results = [one.result for one in self.programs]
        outcomes = self.block.outcomes(results)
        asked = self._asked(part)
        sets: dict[int, _GraderNames] = {}
        items, labels = list[ItemRow](), list[Label]()
        for job, found, questions in zip(self.unit.jobs, outcomes, asked, strict=True):
            graders = sets.get(id(job.graders))
            if graders is None:
                graders = sets[id(job.graders)] = _GraderNames.of(job.graders, part)
            part.samples.append(job.sample)
            part.graded.append(graders.number)
            _add_scores(part, job.sample, graders.names, found)
            items += item_rows(job.sample, questions)
            labels += label_rows(job.sample, turns(job.sample))
        part.items.extend(items)
        part.labels.extend(labels)
        for (index, name), result in self.block.graded(results).items():
            part.judgements.add(result_row(self.unit.jobs[index].sample, name, result.as_json()))
        measures = {grader.measure: None for job in self.unit.jobs for grader in job.graders}
        part.beside = _beside(part.samples, belonging_to(measures))
        return part

    def _asked(self, part: Part) -> list[list[AnyQuestion]]:
        """The questions of each job; their answers go into the part."""
        asked: list[list[AnyQuestion]] = [[] for _ in self.unit.jobs]
        for owner, program in zip(self.block.owners, self.programs, strict=True):
            trace = program.trace
            asked[owner.job] += [question for question, _ in trace]
            for measure in owner.measures if trace else ():
                part.reads.setdefault(measure, set()).update(question.kind for question, _ in trace)
            for question, answer in trace:
                judgement = answer.judgement
                if part.judgements.add(judgement) and judgement.prompt:
                    part.prompts[question.prompt] = judgement.prompt
                part.judgements.extend(answer.children)
        return asked


class _GraderNames(NamedTuple):
    """A grader set of a part: its number there, and of each grader its name and its measure's."""

    number: int
    names: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, graders: Sequence[Grader], part: Part) -> _GraderNames:
        """The set, which joins the part's where it is new."""
        shown = [dump_grader(grader) for grader in graders]
        if shown not in part.graders:
            part.graders.append(shown)
        names = tuple((grader.name, str(grader.measure)) for grader in graders)
        return cls(part.graders.index(shown), names)


def _add_scores(
    part: Part, sample: Sample, names: Iterable[tuple[str, str]], found: Mapping[str, Outcome]
) -> None:
    key = (sample.id, sample.system, sample.trial)
    for name, canonical in names:
        outcome = found[name]
        part.scores.append(key, name, canonical, outcome.value, outcome.status, outcome.why, outcome.bounds)


def _beside(samples: Sequence[Sample], measures: Sequence[Measure]) -> Beside:
    """The values of measures that belong beside those of gold labels, of the samples that have any."""
    found: Beside = {}
    if measures:
        graders = graders_of(tuple(measures))
        block = Block([Job(sample=sample, graders=graders) for sample in samples], Settings())
        outcomes = block.outcomes([Running(one).result for one in block.programs])  # gold labels ask nobody
        for sample, row in zip(samples, outcomes, strict=True):
            for name, outcome in row.items():
                if outcome.value is not None:
                    found.setdefault((sample.system, name), array("d")).append(outcome.value)
    return found


_Asking: TypeAlias = tuple[_Working, asyncio.Task[None]]


async def _first(asking: deque[_Asking]) -> Part:
    working, asked = asking[0]
    await asked
    asking.popleft()
    return working.part()


async def judged(jobs: Iterable[Job], settings: Settings, answerer: Answerer) -> Part:
    """Judge and score jobs, unit by unit, into one part."""
    whole: Part | None = None
    async for part in evaluated(plan(jobs, settings), answerer):
        if whole is None:
            whole = part
        else:
            whole.add(part)
    return Part() if whole is None else whole


def run_coroutine(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in a thread where an event loop is running already (a notebook).

    What interrupts the wait (Ctrl-C) cancels the coroutine, as it does without a thread; it is raised once the
    coroutine has ended.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return _in_thread(work)


def _in_thread(work: Coroutine[Any, Any, T]) -> T:
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()
    ended: Future[T] = Future()

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None
        begun.set_result((asyncio.get_running_loop(), task))
        return await work

    def run() -> None:
        try:
            ended.set_result(asyncio.run(main()))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            ended.set_exception(error)

    thread = threading.Thread(target=run, name="germane-evaluate")
    thread.start()
    interrupt: BaseException | None = None
    while not ended.done():
        try:
            ended.exception()  # waits; a thread's join() cannot be waited for again once it was interrupted
        except BaseException as error:  # noqa: BLE001 - raised again below
            interrupt = error
            loop, task = begun.result()
            with suppress(RuntimeError):  # it has ended at this moment
                loop.call_soon_threadsafe(task.cancel)
    thread.join()
    if interrupt is not None:
        raise interrupt
    return ended.result()
