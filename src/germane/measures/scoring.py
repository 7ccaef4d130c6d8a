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
from germane.measures.bounds import bounds, least_level, open_holes, sample_means
from germane.measures.declaration import STRICT, Grader, belonging_to, graders_of
from germane.measures.measure import Measure
from germane.measures.outcome import (
    NOTHING_RELEVANT,
    Broken,
    Outcome,
    error,
    incomplete,
    ok,
    refusals,
    safely,
)
from germane.places.lists import Settings
from germane.places.places import Places
from germane.places.table import Floats, Ints, LabelChoice
from germane.questions.asking import FindValues, Program, results_of
from germane.questions.relevance import Passages
from germane.tables.labels import OLDER_SCALE, Label, has_labels
from germane.tables.scores import ScoreTable
from germane.types import Sample, key_of

__all__ = ["Job"]

_MIXED = "x labels on two scales in a sample: all count as yes or no"
_UNCOUNTED = f"x a label of a passage does {OLDER_SCALE}"
REPEATED = "x a document repeated in a list: only its first place counts"
MOST_ASSIGNED = 4096
"""The most variants of uncertain gold to try for exact bounds; with more, the measure's range is used."""


class Job(Struct, kw_only=True):
    """A sample with the graders that score it.

    `case` is the sample's case in the eval file. `labels` are people's labels that are not on its contexts.
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
        verdicts: (Job index, questions, names of measures) where labels answer the questions, not a judge.
        grader_sets: The distinct tuples of graders among the jobs.
        notes: Remarks on the scores, mapped to the number of samples or contexts that they apply to.
        labelled: The indices of the jobs whose contexts have people's labels.
    """

    def __init__(self, jobs: Sequence[Job], settings: Settings, *, companions: bool = False) -> None:
        self.jobs, self.settings, self._samples = jobs, settings, [job.sample for job in jobs]
        self.notes, self.labelled = Counter[str](), list[int]()
        self.programs, self.owners = list[Program[Any]](), list[tuple[int, tuple[str, ...]]]()
        self.verdicts = list[tuple[int, Passages, tuple[str, ...]]]()
        self._places: dict[LabelChoice, Places] = {}
        self._asked: dict[tuple[LabelChoice, int], int] = {}
        sets: dict[int, list[int]] = {}
        for number, job in enumerate(jobs):
            sets.setdefault(id(job.graders), []).append(number)
        self.grader_sets = [jobs[numbers[0]].graders for numbers in sets.values()]
        columns_of: dict[int, list[_Column]] = {}
        own, others = dict[int, _Column](), dict[Measure, _Column]()
        for graders, numbers in zip(self.grader_sets, sets.values(), strict=True):
            columns = [own.setdefault(id(grader), _Column(grader, len(jobs))) for grader in graders]
            columns_of[id(graders)] = columns
            more = belonging_to(grader.measure for grader in graders) if companions else ()
            added = [others.setdefault(m, _Column(Grader(measure=m), len(jobs))) for m in more]
            for column in (*columns, *added):
                column.jobs = np.append(column.jobs, np.array(numbers, np.int64))
        self._columns = [columns_of[id(job.graders)] for job in jobs]
        """The column of scores of each grader of each job."""
        self._companions = list(others.values())
        self._every = [*own.values(), *self._companions]
        self._gather()
        self._ask()
        answered = [sample for sample in self._samples if not sample.error]
        calls = [call.contexts for sample in answered for call in sample.calls or ()]
        lists = chain((sample.contexts or () for sample in answered if not sample.calls), calls)
        # a text whose first character is visible ASCII is not blank: one comparison for nearly all of them
        unusual = [c.text for contexts in lists for c in contexts if c.text and not "!" <= c.text < "\x7f"]
        self.labelled = [number for number, sample in enumerate(self._samples) if has_labels(sample)]
        self.notes["x a search that returned nothing: counts 0"] += calls.count(())
        self.notes["x an empty context: answered without a call"] += sum(map(blank, unusual))

    def _gather(self) -> None:
        """Set the outcomes that need no answers, and gather the places that the ranked measures read."""
        known, depths = dict[object, Broken](), dict[LabelChoice, Ints]()
        unsure = {number for number, sample in enumerate(self._samples) if sample.unsure}
        for column in self._every:
            if column.grader.by is not None:
                continue
            measure, graded = column.grader.measure, set(column.jobs.tolist())
            refused = refusals(measure, self._samples, self.settings, known)
            for number in graded.intersection(refused):
                column.put(number, refused[number])
            of_gold = "qrels" in measure.definition.needs and not measure.asks
            gold_alone = measure.labels == "gold" if column.ranked else of_gold
            for number in graded & unsure if gold_alone else ():
                lacking = refused.get(number)
                if lacking is None or lacking.why == NOTHING_RELEVANT:
                    column.noted[number] = outcome = between(measure, self._samples[number], self.settings)
                    column.put(number, outcome)
            if column.ranked:
                column.read = column.unnoted()
                deepest = depths.setdefault(measure.choice, np.zeros(len(self.jobs), np.int64))
                deepest[column.read] = np.maximum(deepest[column.read], measure.depth or sys.maxsize)
        for choice, deepest in depths.items():
            self._places[choice] = Places(choice, self.settings)
            self._places[choice].add(self._samples, deepest.tolist())

    def _ask(self) -> None:
        """Add the programs of each job: one per judged measure, and one per choice of relevance labels."""
        judged = any(choice.source in {"judge", "best"} for choice in self._places)
        everything_known = not judged and all(column.ranked for column in self._every)
        for number, columns in enumerate(() if everything_known else self._columns):
            for column in columns:
                grader, sample = column.grader, self._samples[number]
                if not column.ranked and number not in column.noted:
                    column.programs[number] = len(self.programs)
                    if grader.by is None:
                        self.programs.append(program_of(grader.measure, sample, self.settings))
                    else:
                        self.programs.append(grader.by.grade_sample(sample, self.jobs[number].case))
                    self.owners.append((number, (str(grader.measure),)))
            for choice, places in self._places.items():
                if not places.cells or not places.cells[number]:
                    continue
                read = (c for c in columns if c.ranked and c.grader.measure.choice == choice)
                names = tuple(dict.fromkeys(str(c.grader.measure) for c in read if number not in c.noted))
                if self.settings.judged_by:
                    self.verdicts.append((number, places.questions(number), names))
                else:
                    self._asked[choice, number] = len(self.programs)
                    self.programs.append(_asked(places.questions(number)))
                    self.owners.append((number, names))

    def outcomes(self, results: Sequence[Any]) -> list[dict[str, Outcome]]:
        """Return {grader name: outcome} for each sample; `results` are what `programs` returned, in order."""
        self._settle(results)
        return [
            {c.grader.name: c.noted.get(number) or Outcome(float(c.values[number])) for c in columns}
            for number, columns in enumerate(self._columns)
        ]

    def scores(self, results: Sequence[Any]) -> ScoreTable:
        """Return the score of each job by each grader; `results` are what `programs` returned, in order."""
        self._settle(results)
        scores = ScoreTable()
        for _, group in groupby(range(len(self.jobs)), key=lambda number: id(self.jobs[number].graders)):
            numbers = list(group)
            columns = self._columns[numbers[0]]
            noted = {
                row * len(columns) + at: (outcome.status, outcome.why, outcome.bounds)
                for at, column in enumerate(columns)
                for row, number in enumerate(numbers if column.noted else ())
                if (outcome := column.noted.get(number)) is not None
            }
            names = [(column.grader.name, str(column.grader.measure)) for column in columns]
            values = [column.values[numbers[0] : numbers[-1] + 1] for column in columns]
            ids, systems, trials = zip(*map(key_of, self._samples[numbers[0] : numbers[-1] + 1]), strict=True)
            made = ScoreTable.of_columns((ids, systems, trials), names, values, noted)
            scores.extend(made, distinct=True)
        return scores

    def places(self, job: int, measure: Measure) -> tuple[Places, int] | None:
        """Return the Places whose labels a ranked measure reads for a job, and its index there, or None.

        Call `outcomes` first.
        """
        columns = (column for column in self._columns[job] if column.grader.measure == measure)
        return (self._places[measure.choice], job) if any(job in c.read for c in columns) else None

    def companions(self) -> Iterator[tuple[str, str, list[float]]]:
        """Yield (system, measure, its value for each sample) for measures reported along with gold measures.

        Call `scores` first.
        """
        systems: dict[str, list[int]] = {}
        for number, sample in enumerate(self._samples if self._companions else ()):
            systems.setdefault(sample.system, []).append(number)
        for column in self._companions:
            for system, numbers in systems.items():
                counted = np.intersect1d(numbers, column.unnoted(), assume_unique=True)
                if len(counted):
                    yield system, str(column.grader.measure), column.values[counted].tolist()

    def asking(self) -> Iterator[tuple[int, str, int, Sequence[int] | None]]:
        """Yield (job index, grader name, program index, new passages) for each grader that asks questions.

        Ranked graders that read the same labels use the same program; their new passages are those (by index)
        that no earlier grader of the job reads. For other graders, the last value is None.
        """
        for number, columns in enumerate(self._columns):
            read: dict[LabelChoice, set[int]] = {}
            for column in columns:
                name, measure = column.grader.name, column.grader.measure
                if number in column.programs:
                    yield number, name, column.programs[number], None
                elif column.ranked and number not in column.noted and (measure.choice, number) in self._asked:
                    before = read.setdefault(measure.choice, set())
                    cells = self._places[measure.choice].cells_read(number, measure.depth)
                    new = [cell for cell in cells if cell not in before]
                    yield number, name, self._asked[measure.choice, number], new
                    before.update(cells)

    def _settle(self, results: Sequence[Any]) -> None:
        """Store the results of the programs and compute the scores of ranked measures."""
        for (choice, number), program in self._asked.items():
            self._places[choice].take(number, results[program])
        mixed, repeated, uncounted = np.zeros(len(self.jobs), np.bool_), 0, 0
        for places in self._places.values():
            mixed |= places.mixed
            repeated += places.repeated
            uncounted = max(uncounted, places.uncounted)
        self.notes.update({_MIXED: int(mixed.sum()), REPEATED: repeated, _UNCOUNTED: uncounted})
        self.notes = +self.notes
        for column in self._every:
            for number, program in column.programs.items():
                result = results[program]
                column.put(number, result.outcome if column.grader.by else result)
            if len(column.read):
                column.fill(self._places[column.grader.measure.choice])

    def graded(self, results: Sequence[Any]) -> dict[tuple[int, str], Any]:
        """Return {(job index, grader name): result} for graders that are not measures."""
        return {
            (number, column.grader.name): results[column.programs[number]]
            for number, columns in enumerate(self._columns)
            for column in columns
            if column.grader.by is not None
        }


def outcomes_of(
    measures: Sequence[Measure], samples: Iterable[Sample], settings: Settings, find: FindValues
) -> list[list[Outcome]]:
    """Return each sample's outcome by each measure, computed from the answers that `find` looks up."""
    graders = graders_of(tuple(measures))
    block = Block([Job(sample=sample, graders=graders) for sample in samples], settings)
    outcomes = block.outcomes(results_of(block.programs, find))
    return [[of_sample[str(measure)] for measure in measures] for of_sample in outcomes]


def between(measure: Measure, sample: Sample, settings: Settings) -> Outcome:
    """Return a gold measure's outcome for a sample with uncertain gold labels (`unsure`).

    The measure is computed for all possible labels; if the values differ, it is incomplete, with bounds. An
    uncertain document either has its grade or is not relevant. If its id begins with *, it is unknown: it may
    be any retrieved document without a grade, one that was not retrieved, or not exist.
    """
    qrels, choices = dict(sample.qrels or {}), []
    free = [context.id for context in sample.retrieved() if context.id is not None]
    for name, grade in (sample.unsure or {}).items():
        unjudged = dict.fromkeys(name for name in free if name not in qrels) if name.startswith("*") else ()
        choices.append([{}, {name: grade}, *({name: grade} for name in unjudged)])
    why = f"{len(choices)} gold labels are unsure" if len(choices) > 1 else "one gold label is unsure"
    if prod(map(len, choices)) > MOST_ASSIGNED:
        return incomplete(why, measure.definition.range)
    samples = []
    for chosen in product(*choices):
        grades = dict(qrels)
        for row in chosen:
            grades |= {name: max(grade, grades.get(name, grade)) for name, grade in row.items()}
        samples.append(replace_fields(sample, qrels=grades, unsure=None))
    outcomes = outcomes_of([measure], samples, settings, lambda _: [])  # it asks nothing
    values = [outcome.value for (outcome,) in outcomes if outcome.value is not None]
    if not values:
        return outcomes[0][0]
    low, high = min(values), max(values)
    return ok(low) if high - low < 1e-12 else incomplete(why, (low, high))  # sums round differently


def _asked(questions: Passages) -> Program[tuple[Any, ...]]:
    return (yield questions)


class _Column:
    """The scores of one grader for the jobs of a batch.

    `values` holds a score per job, nan if there is none. `jobs` are the indices of the graded jobs, and
    `read` those whose scores are computed from ranked labels. `noted` maps a job to its outcome if that is
    more than a value, `programs` to the index of the program that returns its outcome.
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

    def unnoted(self) -> Ints:
        """Return the indices of the jobs whose outcome is a value without a note."""
        return self.jobs[~np.isin(self.jobs, [*self.noted])] if self.noted else self.jobs

    def fill(self, places: Places) -> None:
        """Compute the scores of a ranked measure from the labels in `places`, and store them.

        If a label is missing, the score is incomplete, with bounds.
        """
        grader, measure, jobs = self.grader, self.grader.measure, self.read
        values = None
        with suppress(Exception):  # a user's own formula: which sample it fails on is found one by one
            values = sample_means(measure, places.table.within(measure.depth), places.rows)
        noted = np.ones(len(jobs), np.bool_)
        with_notes = measure.labels == "best" or grader.strict or grader.expected_relevant_count
        if values is not None and not with_notes:
            self.values[jobs] = values[jobs]
            noted = ~np.isfinite(values[jobs])
            if measure.labels != "gold":
                noted |= places.missing_in(measure.depth, holes=open_holes(measure))[jobs]
        for number in jobs[noted].tolist():
            self.values[number] = nan
            self.put(number, _ranked_outcome(grader, places, number, values))


def _ranked_outcome(grader: Grader, places: Places, sample: int, values: Floats | None) -> Outcome:
    """Return the outcome of a ranked measure for one sample, with notes; incomplete if a label is missing."""
    measure, holes = grader.measure, open_holes(grader.measure)
    read = places.read(sample, measure.depth)
    failed = [places.failed[position] for position in read if position in places.failed]
    missing = len(failed) + (int((~places.labelled[read]).sum()) - len(failed) if holes else 0)
    try:
        if values is None:  # before missing labels are tried: a fault of the known labels is named first
            table = places.table_of(sample).within(measure.depth)
            outcome = ok(float(sample_means(measure, table, [0, table.rows])[0]))
        else:
            outcome = ok(float(values[sample]))
        if missing and measure.labels != "gold":
            what, first = "labels" if holes else "verdicts", failed[0] if failed else "no label"
            why = f"{missing} of {len(read)} {what} missing: {first}"
            if len(failed) == len(read):
                return error(why)
            scales = {places.scale[at] for at in places.read(sample, None) if places.labelled[at]}
            top = max((int(scale.rpartition("-")[2]) for scale in scales if "-" in scale), default=3)
            binary = "binary" in scales or places.settings.scale == "binary"
            table, unknown = places.table_of(sample), places.missing_verdicts(sample, holes=holes)
            outcome = incomplete(why, bounds(measure, table, unknown, binary=binary, top=top))
    except Exception as fault:  # noqa: BLE001 - a user's own formula may fail, on labels that are tried too
        return error(f"{measure} raised {type(fault).__name__}: {fault}")
    if outcome.status != "ok":
        return outcome
    notes, relevant = [], int((places.level[read] >= least_level(measure)).sum())
    if grader.strict and relevant < len(read):
        notes.append(f"{STRICT}{len(read) - relevant} of {len(read)} contexts are not relevant")
    if relevant < (grader.expected_relevant_count or 0):
        notes.append(f"{relevant} relevant contexts found, {grader.expected_relevant_count} expected")
    if measure.labels == "best" and (human := sum(map(places.by_people, read))):
        notes.append(f"{'mixed: ' if human < len(read) else ''}{human / len(read):.0%} human")
    elif measure.labels != "best" and outcome.why:
        notes.append(outcome.why)
    return replace(outcome, why="; ".join(notes) or None)
