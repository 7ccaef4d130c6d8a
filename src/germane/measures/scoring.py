"""Score batches of samples: collect the questions for the judge, then turn the answers into outcomes.

Judged measures are programs: generators that yield questions and return an outcome. For ranked measures that
read the same labels, there is one program per sample, which asks for the verdicts, and one table of labels
per batch. Each formula is computed once on this table.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, groupby, product
from math import nan, prod
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace as replace_fields

from germane.clean import blank
from germane.measures import ranked
from germane.measures.eligibility import NOTHING_RELEVANT, Broken, refusals
from germane.measures.graders import STRICT, Grader, graders_of
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome, error, incomplete, ok, safely
from germane.places.places import Places
from germane.places.settings import Settings
from germane.places.table import Floats, Ints, LabelChoice
from germane.questions.asking import Program
from germane.questions.relevance import Passages
from germane.tables.labels import Label, has_labels
from germane.tables.scores import ScoreTable
from germane.types import Sample, key_of

__all__ = ["Job"]

_MIXED = "x labels on two scales in a sample: all count as yes or no"
REPEATED = "x a document repeated in a list: only its first place counts"
MOST_ASSIGNED = 4096
"""The most variants of uncertain gold to try for exact bounds; with more, the measure's range is used."""


class Job(Struct, kw_only=True):
    """A sample with the graders that score it.

    `case` is the sample's case in the eval file; some graders read it. `labels` are people's labels of the
    sample's passages that are not stored on its contexts.
    """

    sample: Sample
    graders: tuple[Grader, ...]
    case: Any = None
    labels: tuple[Label, ...] = ()


def program_of(measure: Measure, sample: Sample, settings: Settings) -> Program[Outcome]:
    """Return the generator that scores a sample by a judged measure; exceptions become an error outcome."""
    definition = measure.definition
    params = {name: value for name, value in measure.settings.items() if name not in definition.when}
    if definition.cutoff != "none":
        params["k"] = measure.k
    if definition.settings:
        params["settings"] = settings
    return safely(str(measure), lambda: definition.compute(sample, **params))


class Block:
    """A batch of samples with their graders.

    It collects the questions to ask, and computes the scores from the answers. With `companions`, the
    measures that are reported along with gold measures are computed too.

    Attributes:
        programs: The programs that ask questions, in the order of the samples.
        owners: For each program, the index of its job and the names of the measures that use its answers.
        grader_sets: The distinct tuples of graders among the jobs.
        notes: Remarks on the scores, mapped to the number of samples or contexts that they apply to.
        labelled: The indices of the jobs whose contexts have people's labels.
    """

    def __init__(self, jobs: Sequence[Job], settings: Settings, *, companions: bool = False) -> None:
        self.jobs, self.settings, self._samples = jobs, settings, [job.sample for job in jobs]
        self.notes, self.labelled = Counter[str](), list[int]()
        self.programs, self.owners = list[Program[Any]](), list[tuple[int, tuple[str, ...]]]()
        self._readings: dict[LabelChoice, _Reading] = {}
        self._settled = False
        sets: dict[int, list[int]] = {}
        for number, job in enumerate(jobs):
            sets.setdefault(id(job.graders), []).append(number)
        self.grader_sets = [jobs[numbers[0]].graders for numbers in sets.values()]
        self._columns: dict[int, list[_Column]] = {}
        own, others = dict[int, _Column](), dict[Measure, _Column]()
        for graders, numbers in zip(self.grader_sets, sets.values(), strict=True):
            columns = [own.setdefault(id(grader), _Column(grader, len(jobs))) for grader in graders]
            self._columns[id(graders)] = columns
            more = ranked.belonging_to(grader.measure for grader in graders) if companions else ()
            added = [others.setdefault(m, _Column(Grader(measure=m), len(jobs))) for m in more]
            for column in (*columns, *added):
                column.jobs = np.append(column.jobs, np.array(numbers, np.int64))
        self._companions = list(others.values())
        self._every = [*own.values(), *self._companions]
        self._start()
        self._look_at_contexts()

    def _start(self) -> None:
        """Set the outcomes that need no answers, and collect the programs that ask for the other scores."""
        known: dict[object, Broken] = {}
        unsure = {number for number, sample in enumerate(self._samples) if sample.unsure}
        for column in self._every:
            if column.grader.by is None:
                self._put_known(column, known, unsure)
                if column.ranked:
                    column.read = column.unnoted()
                    choice, depth = column.grader.measure.choice, column.grader.measure.depth
                    if choice not in self._readings:
                        self._readings[choice] = _Reading(choice, self.settings, len(self.jobs))
                    depths = self._readings[choice].depths
                    depths[column.read] = np.maximum(depths[column.read], depth or sys.maxsize)
        for reading in self._readings.values():
            reading.places.add(self._samples, reading.depths.tolist())
        judged = any(choice.source in {"judge", "best"} for choice in self._readings)
        if (judged and not self.settings.judged_by) or not all(column.ranked for column in self._every):
            for number in range(len(self.jobs)):
                self._ask(number)

    def _put_known(self, column: _Column, known: dict[object, Broken], unsure: set[int]) -> None:
        """Set a grader's outcomes for jobs that it cannot score and for jobs with uncertain gold labels.

        `known` caches results of checks between graders. `unsure` are the indices of the jobs with uncertain
        gold.
        """
        measure = column.grader.measure
        refused = refusals(measure, self._samples, self.settings, known)
        graded = set(column.jobs.tolist())
        for number in graded.intersection(refused):
            column.put(number, refused[number])
        for number in graded & unsure if unsure and reads_gold_alone(measure) else ():
            lacking = refused.get(number)
            if lacking is None or lacking.why == NOTHING_RELEVANT:
                column.noted[number] = outcome = between(measure, self.jobs[number].sample, self.settings)
                column.put(number, outcome)

    def _ask(self, number: int) -> None:
        """Add the programs of one job: one per judged measure, and one per choice of relevance labels."""
        job, columns = self.jobs[number], self._columns_of(number)
        for column in columns:
            grader = column.grader
            if grader.by is not None:
                program = grader.by.grade_sample(job.sample, job.case)
            elif not column.ranked and number not in column.noted:
                program = program_of(grader.measure, job.sample, self.settings)
            else:
                continue
            column.programs[number] = self._add_program(program, number, [str(grader.measure)])
        for choice, reading in self._readings.items():
            if reading.places.asks(number):
                asked = _asked(reading.places.questions(number))
                reading.programs[number] = self._add_program(asked, number, self._readers(choice, number))

    def _add_program(self, program: Program[Any], number: int, measures: Iterable[str]) -> int:
        self.programs.append(program)
        self.owners.append((number, tuple(measures)))
        return len(self.programs) - 1

    def _readers(self, choice: LabelChoice, number: int) -> tuple[str, ...]:
        """Return the canonical names of the measures of job `number` that read the labels of `choice`."""
        columns = (c for c in self._columns_of(number) if c.ranked and c.grader.measure.choice == choice)
        return tuple(dict.fromkeys(str(c.grader.measure) for c in columns if number not in c.noted))

    def _columns_of(self, number: int) -> list[_Column]:
        """Return the column of scores of each grader of the job with this index."""
        return self._columns[id(self.jobs[number].graders)]

    def _look_at_contexts(self) -> None:
        """Find the samples with labels on contexts, and count empty searches and contexts without text."""
        answered = [sample for sample in self._samples if not sample.error]
        calls = [call.contexts for sample in answered for call in sample.calls or ()]
        lists = chain((sample.contexts or () for sample in answered if not sample.calls), calls)
        # a text whose first character is visible ASCII is not blank: one comparison for nearly all of them
        unusual = [c.text for some in lists for c in some if c.text and not "!" <= c.text < "\x7f"]
        self.labelled = [number for number, sample in enumerate(self._samples) if has_labels(sample)]
        self.notes["x a search that returned nothing: counts 0"] += calls.count(())
        self.notes["x an empty context: answered without a call"] += sum(map(blank, unusual))

    def outcomes(self, results: Sequence[Any]) -> list[dict[str, Outcome]]:
        """Return the outcomes by grader name, a dictionary per sample; `results` are those of `programs`."""
        self._settle(results)
        return [
            {column.grader.name: column.outcome(number) for column in self._columns_of(number)}
            for number in range(len(self.jobs))
        ]

    def scores(self, results: Sequence[Any]) -> ScoreTable:
        """Return the table of scores, by job and grader; `results` are the results of `programs`."""
        self._settle(results)
        scores = ScoreTable()
        for _, some in groupby(range(len(self.jobs)), key=lambda number: id(self.jobs[number].graders)):
            numbers = list(some)
            columns = self._columns_of(numbers[0])
            noted = {
                row * len(columns) + at: (outcome.status, outcome.why, outcome.bounds)
                for at, column in enumerate(columns)
                for row, number in enumerate(numbers if column.noted else ())
                if (outcome := column.noted.get(number)) is not None
            }
            names = [(column.grader.name, str(column.grader.measure)) for column in columns]
            values = [column.values[numbers[0] : numbers[-1] + 1] for column in columns]
            keys = [key_of(self.jobs[number].sample) for number in numbers]
            scores.extend(ScoreTable.of_columns(keys, names, values, noted), distinct=True)
        return scores

    def places(self, job: int, measure: Measure) -> tuple[Places, int] | None:
        """Return the labels that a ranked measure reads, and the index of the job in them.

        Returns None if the measure reads no labels for this job. Call `scores` first.
        """
        reading = self._readings.get(measure.choice)
        return (reading.places, job) if reading is not None and reading.depths[job] else None

    def read_as_verdicts(self) -> Iterator[tuple[int, Passages, tuple[str, ...]]]:
        """Yield (job, questions, measure names) for each job for which labels replace a judge's verdicts."""
        for choice, reading in self._readings.items():
            if self.settings.judged_by and choice.source in {"judge", "best"}:
                for number in range(len(self.jobs)):
                    if reading.places.cells[number]:
                        yield number, reading.places.questions(number), self._readers(choice, number)

    def companions(self, results: Sequence[Any]) -> Iterator[tuple[str, str, list[float]]]:
        """Yield (system, measure, values) for the measures that are reported along with gold measures."""
        self._settle(results)
        systems: dict[str, list[int]] = {}
        for number, job in enumerate(self.jobs if self._companions else ()):
            systems.setdefault(job.sample.system, []).append(number)
        for column in self._companions:
            for system, numbers in systems.items():
                counted = np.intersect1d(numbers, column.unnoted(), assume_unique=True)
                if len(counted):
                    yield system, str(column.grader.measure), column.values[counted].tolist()

    def asking(self) -> Iterator[tuple[int, str, int, Sequence[int] | None]]:
        """Yield (job, grader name, program, new passages) for each grader that asks questions.

        Ranked graders that read the same labels use the same program. For these, `new passages` are the
        indices of the passages that no earlier grader of the job reads; for other graders, it is None.
        """
        for number in range(len(self.jobs)):
            read: dict[LabelChoice, set[int]] = {}
            for column in self._columns_of(number):
                name, measure = column.grader.name, column.grader.measure
                if (program := column.programs.get(number)) is not None:
                    yield number, name, program, None
                elif column.ranked and number not in column.noted:
                    reading = self._readings[measure.choice]
                    if (program := reading.programs.get(number)) is not None:
                        before = read.setdefault(measure.choice, set())
                        cells = reading.places.cells_read(number, measure.depth)
                        yield number, name, program, [cell for cell in cells if cell not in before]
                        before.update(cells)

    def _settle(self, results: Sequence[Any]) -> None:
        """Store the results of the programs and compute ranked scores; do nothing if called again."""
        if self._settled:
            return
        self._settled = True
        mixed, repeated = np.zeros(len(self.jobs), np.bool_), 0
        for reading in self._readings.values():
            for number, program in reading.programs.items():
                reading.places.take(number, results[program])
            mixed |= reading.places.mixed
            repeated += reading.places.repeated
        self.notes.update({_MIXED: int(mixed.sum()), REPEATED: repeated})
        self.notes = +self.notes
        for column in self._every:
            for number, program in column.programs.items():
                result = results[program]
                column.put(number, result.outcome if column.grader.by else result)
            if len(column.read):
                self._readings[column.grader.measure.choice].fill(column)

    def graded(self, results: Sequence[Any]) -> dict[tuple[int, str], Any]:
        """Return the results of graders that are not measures, by job index and grader name."""
        cases = range(len(self.jobs) if any(column.grader.by for column in self._every) else 0)
        return {
            (number, column.grader.name): results[column.programs[number]]
            for number in cases
            for column in self._columns_of(number)
            if column.grader.by is not None
        }


def reads_gold_alone(measure: Measure) -> bool:
    """Return True if a measure reads gold labels (qrels) and asks no judge."""
    definition = measure.definition
    if definition.family == "ranked":
        return measure.labels == "gold"
    return "qrels" in definition.needs and not definition.asks


def between(measure: Measure, sample: Sample, settings: Settings) -> Outcome:
    """Return a gold measure's outcome for a sample with uncertain gold labels (`unsure`).

    The measure is computed for all possible labels. If the values differ, the outcome is incomplete, with the
    lowest and highest value as bounds. An uncertain document either has its grade or is not relevant. If its
    id begins with *, the document is unknown: it may be any retrieved document without a grade, a document
    that was not retrieved, or not exist.
    """
    qrels, choices = dict(sample.qrels or {}), []
    free = [context.id for context in sample.retrieved() if context.id is not None]
    for name, grade in (sample.unsure or {}).items():
        unjudged = dict.fromkeys(name for name in free if name not in qrels) if name.startswith("*") else ()
        choices.append([{}, {name: grade}, *({name: grade} for name in unjudged)])
    why = f"{len(choices)} gold labels are unsure" if len(choices) > 1 else "one gold label is unsure"
    if prod(map(len, choices)) > MOST_ASSIGNED:
        return incomplete(why, measure.definition.range)
    graders, jobs = graders_of((measure,)), []
    for chosen in product(*choices):
        grades = dict(qrels)
        for row in chosen:
            grades |= {name: max(grade, grades.get(name, grade)) for name, grade in row.items()}
        jobs.append(Job(sample=replace_fields(sample, qrels=grades, unsure=None), graders=graders))
    block = Block(jobs, settings)
    outcomes = [outcome[str(measure)] for outcome in block.outcomes(list(map(_result_of, block.programs)))]
    values = [outcome.value for outcome in outcomes if outcome.value is not None]
    if not values:
        return outcomes[0]
    low, high = min(values), max(values)
    return ok(low) if low == high else incomplete(why, (low, high))


def _result_of(program: Program[Outcome]) -> Outcome:
    """Run a generator that must not yield a question, and return its outcome."""
    try:
        raise AssertionError(f"a measure over gold labels must not ask a judge, but asks {next(program)}")
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome


def _asked(questions: Passages) -> Program[tuple[Any, ...]]:
    return (yield questions)


class _Column:
    """The scores of one grader for the jobs of a batch.

    `values` holds a score per job, nan if there is none. `jobs` are the indices of the jobs that are graded.
    `noted` maps a job's index to its outcome if that is more than a value (a status other than ok, a note or
    items). `programs` maps a job's index to the index of the program that returns its outcome. `read` are the
    indices of the jobs whose scores are computed from ranked labels.
    """

    def __init__(self, grader: Grader, jobs: int) -> None:
        self.grader, self.values = grader, np.full(jobs, nan)
        self.jobs: Ints = np.empty(0, np.int64)
        self.noted: dict[int, Outcome] = {}
        self.programs: dict[int, int] = {}
        self.ranked = grader.by is None and grader.measure.definition.family == "ranked"
        self.read: Ints = np.empty(0, np.int64)

    def put(self, number: int, outcome: Outcome) -> None:
        """Store a job's value and, if there is also a status other than ok, a note or items, the outcome."""
        if outcome.value is not None:
            self.values[number] = outcome.value
        if outcome.status != "ok" or outcome.why is not None or outcome.items:
            self.noted[number] = outcome

    def outcome(self, number: int) -> Outcome:
        """Return the outcome of a job; if only a value is stored, it is an ok outcome with that value."""
        return self.noted.get(number) or Outcome(float(self.values[number]))

    def unnoted(self) -> Ints:
        """Return the indices of the jobs whose outcome is a value without a note."""
        return self.jobs[~np.isin(self.jobs, [*self.noted])] if self.noted else self.jobs


class _Reading:
    """The labels from one source for a batch of samples, from which ranked measures are computed.

    `places` holds the labels of the first `depths[job]` ranks of each list of a job. `programs` maps a job's
    index to the index of the program that asks for its labels.
    """

    def __init__(self, choice: LabelChoice, settings: Settings, jobs: int) -> None:
        self.places, self.depths = Places(choice, settings), np.zeros(jobs, np.int64)
        self.programs: dict[int, int] = {}
        self._values: dict[Measure, Floats | None] = {}

    def fill(self, column: _Column) -> None:
        """Set the scores of a ranked measure in its column.

        If a label is missing, the score is incomplete, with bounds.
        """
        grader, measure, jobs = column.grader, column.grader.measure, column.read
        values, holes = self._values_of(measure), ranked.open_holes(measure)
        noted = np.ones(len(jobs), np.bool_)
        with_notes = measure.labels == "best" or grader.strict or grader.expected_relevant_count
        if values is not None and not with_notes:
            column.values[jobs] = values[jobs]
            noted = ~np.isfinite(values[jobs])
            if measure.labels != "gold":
                noted |= self.places.missing_in(measure.depth, holes=holes)[jobs]
        for number in jobs[noted].tolist():
            column.values[number] = nan
            column.put(number, self._outcome(grader, number))

    def _values_of(self, measure: Measure) -> Floats | None:
        """Return a measure's value for each sample: the mean over the sample's rankings.

        Returns None if the formula raises an exception.
        """
        if measure not in self._values:
            self._values[measure] = None
            with suppress(Exception):  # a user's own formula: which sample it fails on is found one by one
                table = self.places.table.within(measure.depth)
                self._values[measure] = ranked.sample_means(measure, table, self.places.rows)
        return self._values[measure]

    def _outcome(self, grader: Grader, sample: int) -> Outcome:
        """Return the outcome of a ranked measure for one sample, with notes."""
        measure, places = grader.measure, self.places
        try:
            values = self._values_of(measure)
            if values is None:
                table = places.table_of(sample).within(measure.depth)
                value = ranked.sample_means(measure, table, [0, table.rows])[0]
            else:
                value = values[sample]
            outcome = ok(float(value))
            if measure.labels != "gold":
                outcome = self._incomplete(measure, sample) or outcome
        except Exception as fault:  # noqa: BLE001 - a user's own formula may fail, on labels that are tried too
            return error(f"{measure} raised {type(fault).__name__}: {fault}")
        if outcome.status != "ok":
            return outcome
        read = places.read(sample, measure.depth)
        notes, relevant = [], int((places.level[read] >= ranked.least_level(measure)).sum())
        if grader.strict and relevant < len(read):
            notes.append(f"{STRICT}{len(read) - relevant} of {len(read)} contexts are not relevant")
        if relevant < (grader.expected_relevant_count or 0):
            notes.append(f"{relevant} relevant contexts found, {grader.expected_relevant_count} expected")
        if measure.labels == "best" and (human := sum(map(places.by_people, read))):
            notes.append(f"{'mixed: ' if human < len(read) else ''}{human / len(read):.0%} human")
        elif measure.labels != "best" and outcome.why:
            notes.append(outcome.why)
        return replace(outcome, why="; ".join(notes) or None)

    def _incomplete(self, measure: Measure, sample: int) -> Outcome | None:
        """Return an outcome if a label that the measure reads is missing, else None.

        It is incomplete, with bounds, or an error if all labels are missing.
        """
        places, holes = self.places, ranked.open_holes(measure)
        read = places.read(sample, measure.depth)
        failed = [places.failed[position] for position in read if position in places.failed]
        unjudged = int((~places.labelled[read]).sum()) - len(failed) if holes else 0
        if not failed and not unjudged:
            return None
        what, first = "labels" if holes else "verdicts", failed[0] if failed else "no label"
        why = f"{len(failed) + unjudged} of {len(read)} {what} missing: {first}"
        if len(failed) == len(read):
            return error(why)
        scales = places.scales_of(sample)
        top = max((int(scale.rpartition("-")[2]) for scale in scales if "-" in scale), default=3)
        binary = "binary" in scales or places.settings.scale == "binary"
        table, missing = places.table_of(sample), places.missing_verdicts(sample, holes=holes)
        return incomplete(why, ranked.bounds(measure, table, missing, binary=binary, top=top))
