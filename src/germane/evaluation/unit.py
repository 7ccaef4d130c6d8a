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
    Container,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby, islice
from math import inf
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from germane.judging.driver import Answerer, Running, finish, recall
from germane.judging.labelled import AskedRow, RowAnswers
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
    graders_of,
    open_holes,
)
from germane.questions.question import AnyQuestion
from germane.reports.data import dump_grader
from germane.reports.explain import result_row
from germane.reports.summary import belonging_to
from germane.samples.rows import PlainRow
from germane.tables.items import ItemRow, item_lines, item_rows
from germane.tables.labels import Label, label_lines, label_rows, relevance_items
from germane.tables.part import Beside, Part, WrittenPart
from germane.tables.scores import ScoreTable
from germane.types import Sample

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
    await recall(working.programs, answerer)
    await finish(working.programs, answerer)
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


class PlainMeasures:
    """Ranked measures over gold and people's labels, scored from columns: no question, no passage and no score is an object.

    What they yield is what `evaluate_unit` does of the same rows; `part` refuses rows of which it is not sure.

    Args:
        graders: The graders of all rows.
        settings: What the evaluation asks relevance about.
        answers: Whoever knows the verdicts, where any measure asks for them.
    """

    def __init__(
        self, graders: tuple[Grader, ...], settings: Settings, answers: RowAnswers | None = None
    ) -> None:
        self.graders, self.settings, self._answers = graders, settings, answers
        self._measures = {grader.name: grader.measure for grader in graders}
        self._types = {name: str(measure) for name, measure in self._measures.items()}
        self._shown = [dump_grader(grader) for grader in graders]
        measures = list(self._measures.values())
        self._sources = {measure.labels for measure in measures}
        self._depths = {
            reading: _deepest(one for one in measures if one.choice == reading)
            for reading in [one.choice for one in measures]
        }
        self._asked = [depth for reading, depth in self._depths.items() if reading.source == "judge"]
        self._beside = belonging_to(measures)
        self._reads = {str(one): {"relevance"} for one in measures if one.labels == "judge"}

    @classmethod
    def of(
        cls, graders: tuple[Grader, ...], settings: Settings, answers: RowAnswers | None = None
    ) -> PlainMeasures | None:
        """None where a grader needs more than the labels in a row and the verdicts on its passages."""
        if not graders or not all(map(_is_plain, graders)):
            return None
        sources = {grader.measure.labels for grader in graders}
        if "judge" in sources and (answers is None or settings.against not in {"auto", "query"}):
            return None
        if "human" in sources and settings.labels is not None:
            return None
        return cls(graders, settings, answers if "judge" in sources else None)

    def part(self, rows: Sequence[PlainRow]) -> WrittenPart | None:
        """What the rows yield; None where any of them has to be looked at more closely."""
        part = WrittenPart(samples=[row.line for row in rows], scores=ScoreTable(), graders=self._shown)
        verdicts = self._add_labels(rows, part)
        if verdicts is None:
            return None
        tables = _Tables(rows, verdicts)
        values: dict[str, Floats] = {}
        refused: dict[str, dict[int, str]] = {}
        for name, measure in self._measures.items():
            reading = measure.choice
            try:
                values[name] = ranked.values(measure, tables.of(reading.source, self._depths[reading]))
            except Exception:  # noqa: BLE001 - a user's own formula: which sample it fails on is found one by one
                return None
            if not np.isfinite(values[name]).all():
                return None
            if reading.source == "gold":
                refused[name] = tables.without_gold(measure.settings.get("rel") or 1)
        keys = [(row.id, row.system, row.trial) for row in rows]
        part.scores = ScoreTable.of_values(keys, values, types=self._types, refused=refused)
        for reading in self._depths:
            if reading.source == "gold":
                mine = (refused[name] for name, one in self._measures.items() if one.choice == reading)
                part.notes.update({REPEATED: tables.repeated(set.intersection(*map(set, mine)))})
        part.notes = +part.notes
        part.beside = tables.beside(self._beside)
        if self._answers is not None:
            self._answers.count(sum(len(row[:depth]) for row in verdicts for depth in self._asked))
            part.prompts = dict(self._answers.prompts)
        return part

    def _add_labels(self, rows: Sequence[PlainRow], part: WrittenPart) -> list[Sequence[int]] | None:
        """Add the rows of items, judgements and labels; returns each row's verdicts, None where anything is missing."""
        answers, depth = self._answers, _largest(self._asked)
        asked, labelled = list[AskedRow](), list[Iterable[bytes]]()
        part.labels = chain.from_iterable(labelled)
        for row in rows:
            found, key = row.contexts, (row.id, row.system, row.trial)
            if found.shown and found.grades is None and "human" in self._sources:
                return None
            asked.append(AskedRow())
            if not found.shown or (answers is None and found.grades is None):
                continue
            items = relevance_items(row.query, found.texts or found.ids or ())
            if found.grades is not None:
                labelled.append(label_lines(key, items, found.grades))
            if answers is None:
                continue
            if found.texts is None or len(set(found.texts)) != len(found.texts):
                return None
            grades = None if found.grades is None else found.grades[:depth]
            asked[-1] = AskedRow(items[:depth], grades, self.settings.beside(row))
            part.items += item_lines(key, items[:depth])
            part.reads = self._reads
        if answers is None:
            return [()] * len(rows)
        answered = answers.of(asked)
        if answered is None:
            return None
        part.judgements = answered.rows
        return answered.labels


class _Tables:
    """The labels of some rows, as the tables that formulas read."""

    def __init__(self, rows: Sequence[PlainRow], verdicts: Sequence[Sequence[int]]) -> None:
        self._rows, self._verdicts = rows, verdicts
        self._labels: dict[tuple[str, int | None], RankedLabels] = {}
        self._refused: dict[int, dict[int, str]] = {}

    @cached_property
    def gold(self) -> RankedLabels:
        """The gold labels of each row; none where it has no qrels."""
        labels = [_gold_labels(row) for row in self._rows]
        return RankedLabels.of_lists(labels, [[*(row.qrels or {}).values()] for row in self._rows])

    def of(self, source: str, depth: int | None) -> RankedLabels:
        """The labels of this source; people's and the judge's of each row's first places."""
        if source == "gold":
            return self.gold
        if (source, depth) not in self._labels:
            given = self._verdicts if source == "judge" else [row.contexts.grades or () for row in self._rows]
            grades = [row[:depth] for row in given]
            levels = [
                [inf if one else 0.0 for one in row] if row and type(row[0]) is bool else row
                for row in grades
            ]
            self._labels[source, depth] = RankedLabels.of_lists(levels, gains=grades, rel=HELPS)
        return self._labels[source, depth]

    def without_gold(self, least: int) -> dict[int, str]:
        """The rows of which no document of this grade or above is known, and why they are skipped."""
        if least not in self._refused:
            self._refused[least] = {
                number: NO_QRELS if row.qrels is None else NOTHING_RELEVANT
                for number, row in enumerate(self._rows)
                if not row.qrels or max(row.qrels.values()) < least
            }
        return self._refused[least]

    def repeated(self, left_out: Container[int]) -> int:
        """How many contexts repeat a document that stands higher, in the other rows."""
        ids = (row.contexts.ids or () for number, row in enumerate(self._rows) if number not in left_out)
        return sum(len(some) - len(set(some)) for some in ids)

    def beside(self, measures: Iterable[Measure]) -> Beside:
        """The values of these measures of the rows that have gold."""
        found: Beside = {}
        for measure in measures:
            without, name = self.without_gold(measure.settings.get("rel") or 1), str(measure)
            for number, value in enumerate(ranked.values(measure, self.gold).tolist()):
                if number not in without:
                    found.setdefault((self._rows[number].system, name), array("d")).append(value)
        return found


def _gold_labels(row: PlainRow) -> list[int | None]:
    ids, qrels = row.contexts.ids, row.qrels or {}
    if ids is None:
        return [None] * len(row.contexts.shown)
    return list(map(qrels.get, dict.fromkeys(ids)))


def _deepest(measures: Iterable[Measure]) -> int | None:
    return _largest([measure.depth for measure in measures])


def _largest(depths: Sequence[int | None]) -> int | None:
    """The largest depth; None = without end."""
    return None if None in depths else max((depth for depth in depths if depth is not None), default=0)


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
