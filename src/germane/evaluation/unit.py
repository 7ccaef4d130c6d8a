"""Units of work: plan -> evaluate_unit -> merge.

A unit is a few jobs (a sample with its graders) that are judged and scored together. It needs nothing but an answerer:
whoever answers questions (the pool, stored answers) is handed in. Its result is a Part; merging parts is associative and
exact, so an evaluation in one unit and in seven gives the same bytes.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice
from math import inf
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from germane.encoding import encode
from germane.judges.judge import Judge
from germane.judges.labels import LabelsJudge
from germane.judging.driver import Answerer, Drive
from germane.judging.labelled import LabelledRows
from germane.measures import ranked
from germane.measures.kernel import Floats, RankedLabels
from germane.measures.labels import HELPS, Settings, turns
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.measures.scoring import (
    NO_QRELS,
    NOTHING_RELEVANT,
    REPEATED,
    Block,
    Grader,
    Job,
    depth_of,
    open_holes,
    reading_of,
)
from germane.questions.question import AnyQuestion
from germane.reports.explain import result_row
from germane.reports.manifest import dump_grader
from germane.samples.rows import PlainRow
from germane.tables.items import ItemRow, item_lines, item_rows
from germane.tables.labels import Label, label_lines, label_rows, relevance_items
from germane.tables.part import Part, WrittenPart
from germane.tables.scores import ScoreTable
from germane.types import Sample

__all__ = [
    "SIZE",
    "PlainMeasures",
    "PlainUnit",
    "Unit",
    "evaluate_unit",
    "evaluated",
    "judged",
    "plan",
    "run_coroutine",
]

T = TypeVar("T")

SIZE = 250
"""Samples per unit: few enough to keep memory flat."""
PLAIN_SIZE = 1000
"""Plain rows per unit."""

_AHEAD = 4
"""Units that ask at once: enough to keep any endpoint busy, so that the slow end of one delays nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Jobs that are judged and scored together, under one evaluation's settings."""

    jobs: tuple[Job, ...]
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainUnit:
    """Rows that are scored together from the labels that stand in them."""

    rows: tuple[PlainRow, ...]
    measures: PlainMeasures

    def unit(self) -> Unit:
        """The same rows as jobs, for what is not plain in them."""
        graders = self.measures.graders
        jobs = tuple(Job(sample=row.sample, graders=graders) for row in self.rows)
        return Unit(jobs=jobs, settings=self.measures.settings)


def plan(
    jobs: Iterable[Job | PlainRow],
    settings: Settings,
    *,
    plain: PlainMeasures | None = None,
    size: int = SIZE,
) -> Iterator[Unit | PlainUnit]:
    """The jobs as units of `size`, in their order. Plain rows, which need `plain`, have units of their own."""
    for is_row, run in groupby(jobs, key=lambda job: isinstance(job, PlainRow)):
        remaining: Iterator[Any] = iter(run)
        while some := tuple(islice(remaining, PLAIN_SIZE if is_row else size)):
            if is_row:
                assert plain is not None
                yield PlainUnit(rows=some, measures=plain)
            else:
                yield Unit(jobs=some, settings=settings)


async def evaluate_unit(unit: Unit, answerer: Answerer) -> Part:
    """Judge and score one unit."""
    working = _Working(unit)
    await working.drive.recall(answerer)
    await working.drive.ask(answerer)
    return working.part()


async def evaluated(
    units: Iterable[Unit | PlainUnit], answerer: Answerer
) -> AsyncIterator[Part | WrittenPart]:
    """The parts of the units in their order: what is known is looked up unit by unit, the rest is asked several units ahead."""
    asking: deque[_Asking] = deque()
    try:
        for one in units:
            unit = one
            if isinstance(unit, PlainUnit):
                while asking:
                    yield await _first(asking)
                await answerer.known([])  # signals are heard here
                if (written := unit.measures.part(unit.rows)) is not None:
                    yield written
                    continue
                unit = unit.unit()
            working = _Working(unit)
            await working.drive.recall(answerer)
            asking.append((working, asyncio.ensure_future(working.drive.ask(answerer))))
            while asking and (len(asking) == _AHEAD or asking[0][0].drive.finished):
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
        self.drive: Drive[Any] = Drive(self.block.programs())

    def part(self) -> Part:
        """What the unit's samples were asked, answered and scored."""
        part = Part(notes=self.notes)
        outcomes = self.block.outcomes(self.drive.results)
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
        for (index, name), result in self.block.graded(self.drive.results).items():
            part.judgements.add(result_row(self.unit.jobs[index].sample, name, result.as_json()))
        return part

    def _asked(self, part: Part) -> list[list[AnyQuestion]]:
        """The questions of each job; their answers go into the part."""
        asked: list[list[AnyQuestion]] = [[] for _ in self.unit.jobs]
        for owner, trace in zip(self.block.owners, self.drive.traces, strict=True):
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


class PlainMeasures:
    """Ranked measures over gold and people's labels, scored from columns: no question, no passage and no score is an object.

    What they yield is what `evaluate_unit` does of the same rows; `part` refuses rows of which it is not sure.

    Args:
        graders: The graders of all rows.
        settings: What the evaluation asks relevance about.
        judge: The judge of labels, where any measure asks.
    """

    def __init__(
        self, graders: tuple[Grader, ...], settings: Settings, judge: LabelsJudge | None = None
    ) -> None:
        self.graders, self.settings = graders, settings
        self._measures = {grader.name: grader.measure for grader in graders}
        self._types = {name: str(measure) for name, measure in self._measures.items()}
        self._shown = [dump_grader(grader) for grader in graders]
        judged = [measure for measure in self._measures.values() if measure.labels == "judge"]
        self._depth = _deepest(judged)
        self._reads = {str(measure): {"relevance"} for measure in judged}
        self._answers = LabelledRows(judge, settings.asked) if judge is not None and judged else None
        self._from_labels = any(measure.labels != "gold" for measure in self._measures.values())
        by_reading: dict[object, list[Measure]] = {}
        for measure in self._measures.values():
            by_reading.setdefault(reading_of(measure), []).append(measure)
        self._depths = {reading: _deepest(measures) for reading, measures in by_reading.items()}

    @classmethod
    def of(cls, graders: tuple[Grader, ...], settings: Settings, judge: Judge | None) -> PlainMeasures | None:
        """None where a grader needs more than the labels in a row."""
        if not graders or not all(map(_is_plain, graders)):
            return None
        if any(grader.measure.labels == "judge" for grader in graders):
            plain = settings.scale == "graded" and settings.against in {"auto", "query"}
            if not (type(judge) is LabelsJudge and plain):
                return None
            return cls(graders, settings, judge)
        return cls(graders, settings)

    def part(self, rows: Sequence[PlainRow]) -> WrittenPart | None:
        """What the rows yield; None where any of them has to be looked at more closely."""
        if self._from_labels and not all(map(self._is_labelled, rows)):
            return None
        tables = _Tables(rows)
        values: dict[str, Floats] = {}
        refused: dict[str, dict[int, str]] = {}
        for name, measure in self._measures.items():
            gold = measure.labels == "gold"
            try:
                table = tables.gold if gold else tables.labels(self._depths[reading_of(measure)])
                values[name] = ranked.values(measure, table)
            except Exception:  # noqa: BLE001 - a user's own formula: which sample it fails on is found one by one
                return None
            if not np.isfinite(values[name]).all():
                return None
            if gold:
                refused[name] = tables.without_gold(measure.settings.get("rel") or 1)
        part = WrittenPart(
            samples=[encode(row.shown) + b"\n" for row in rows],
            scores=ScoreTable.of_values(
                [(row.id, row.system, row.trial) for row in rows], values, types=self._types, refused=refused
            ),
            graders=self._shown,
        )
        self._add_labels(rows, part)
        repeated = tables.repeated(refused)
        if repeated:
            part.notes[REPEATED] = repeated
        return part

    def _is_labelled(self, row: PlainRow) -> bool:
        """Whether every place has a label, and each passage that is asked about stands there once."""
        found = row.contexts
        if not found.shown:
            return True
        if found.grades is None:
            return False
        return self._answers is None or (
            found.texts is not None and len(set(found.texts)) == len(found.texts)
        )

    def _add_labels(self, rows: Sequence[PlainRow], part: WrittenPart) -> None:
        """The rows of items, judgements and labels."""
        answers = self._answers
        if answers is not None:
            answers.renew()
        for row in rows:
            found = row.contexts
            if not found.grades:
                continue
            key = (row.id, row.system, row.trial)
            items = relevance_items(row.query, found.texts or found.ids or ())
            part.labels += label_lines(key, items, found.grades)
            if answers is not None:
                asked = items[: self._depth]
                part.items += item_lines(key, asked)
                made = answers.of(asked, found.grades[: self._depth], self.settings.beside(row))
                if part.judgements and part.judgements[-1].example is made.example:
                    part.judgements[-1].keys.extend(made.keys)
                    part.judgements[-1].lines.extend(made.lines)
                else:
                    part.judgements.append(made)
                part.reads = self._reads


class _Tables:
    """The labels of some rows, as the tables that formulas read."""

    def __init__(self, rows: Sequence[PlainRow]) -> None:
        self._rows = rows
        self._labels: dict[int | None, RankedLabels] = {}
        self._refused: dict[int, dict[int, str]] = {}

    @cached_property
    def gold(self) -> RankedLabels:
        """The gold labels of each row; none where it has no qrels."""
        labels = [_gold_labels(row) for row in self._rows]
        return RankedLabels.of_lists(labels, [[*(row.qrels or {}).values()] for row in self._rows])

    def labels(self, depth: int | None) -> RankedLabels:
        """People's labels of each row's first places."""
        if depth not in self._labels:
            grades = [(row.contexts.grades or [])[:depth] for row in self._rows]
            binary = [bool(row) and type(row[0]) is bool for row in grades]
            levels = [
                [inf if one else 0.0 for one in row] if yes else row
                for row, yes in zip(grades, binary, strict=True)
            ]
            self._labels[depth] = RankedLabels.of_lists(levels, gains=grades, rel=HELPS)
        return self._labels[depth]

    def without_gold(self, least: int) -> dict[int, str]:
        """The rows of which no document of this grade or above is known, and why they are skipped."""
        if least not in self._refused:
            self._refused[least] = {
                number: NO_QRELS if row.qrels is None else NOTHING_RELEVANT
                for number, row in enumerate(self._rows)
                if not row.qrels or max(row.qrels.values()) < least
            }
        return self._refused[least]

    def repeated(self, refused: Mapping[str, Mapping[int, str]]) -> int:
        """How many contexts repeat a document that stands higher, in the rows that any gold measure counts."""
        if not refused:
            return 0
        left_out = set.intersection(*map(set, refused.values()))
        ids = (row.contexts.ids or () for number, row in enumerate(self._rows) if number not in left_out)
        return sum(len(some) - len(set(some)) for some in ids)


def _gold_labels(row: PlainRow) -> list[int | None]:
    ids, qrels = row.contexts.ids, row.qrels or {}
    if ids is None:
        return [None] * len(row.contexts.shown)
    return list(map(qrels.get, dict.fromkeys(ids)))


def _deepest(measures: Iterable[Measure]) -> int | None:
    depths = list(map(depth_of, measures))
    return None if None in depths else max((depth for depth in depths if depth is not None), default=None)


def _is_plain(grader: Grader) -> bool:
    measure = grader.measure
    if grader.by is not None or grader.strict or grader.expected_relevant_count:
        return False
    if measure.definition.family != "ranked" or measure.labels == "best":
        return False
    if measure.settings.get("against", "need") != "need":
        return False
    return measure.labels != "gold" or not open_holes(measure)


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
        assert isinstance(part, Part)
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
