"""A block of samples and their graders in, outcomes out. Pure: it says what to ask and what follows from the answers.

Judged measures are programs of their own. Ranked measures that read the same labels share one label program per sample
and one table of labels per block; each is then one kernel call on it.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import chain, groupby, pairwise, product
from math import fsum, nan, prod
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace as replace_fields

from germane.measures import ranked
from germane.measures.graders import STRICT, Grader, graders_of
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome, error, incomplete, ok, safely, skipped
from germane.places.lists import NO_TEXT, field_text, has_texts, rankings, within_budget
from germane.places.places import Places
from germane.places.settings import Settings
from germane.places.table import Floats, Ints, LabelChoice, RankedLabels
from germane.questions.asking import Program
from germane.questions.relevance import HELPS, Passages
from germane.questions.text import blank
from germane.tables.labels import Label, has_labels
from germane.tables.scores import ScoreTable
from germane.types import Context, Sample, key_of

__all__ = [
    "Job",
]

_ABSENT = {
    "contexts": "contexts are not known",
    "gold": "no gold groups",
    "forbidden": "no forbidden ids",
    "superseded": "no stale versions are named",
}
NO_QRELS, NOTHING_RELEVANT = "no qrels", "no relevant document is known"
_MIXED = "x labels on two scales in a sample: all count as yes or no"
WITHOUT_IDS = "no context has a document id, and gold is about ids"
_LIKE_AN_ID = re.compile(r"(?i)(\b|_)(id|ids|uri|url|key|uuid|source|file|path|name)$|[a-z](Id|Uri|Key)$")
TIED = "x tied scores: the list's order is kept (germane rank orders ties by document id)"
REPEATED = "x a document repeated in a list: only its first place counts"


def tied_gold(sample: Sample) -> bool:
    """True if a gold document of the list would take another place with ties ordered by document id, descending.

    Only a list is looked at whose scores never rise: another one is in an order of its own.
    """
    if not sample.qrels or not sample.contexts or sample.calls:
        return False
    if len({context.score for context in sample.contexts}) == len(sample.contexts):
        return False
    scores = [context.score for context in sample.contexts]
    if None in scores:
        return False
    listed = [(context.score or 0.0, context.id or "") for context in sample.contexts]
    ordered = sorted(listed, reverse=True)
    if [score for score, _ in ordered] != scores:
        return False
    grades = [[sample.qrels.get(name, 0) for _, name in names] for names in (listed, ordered)]
    return grades[0] != grades[1]


class Job(Struct, kw_only=True):
    """One sample with the graders that apply to it, and the case that it stands in where any of them reads that.

    `labels` are people's labels of its passages that are not on its contexts.
    """

    sample: Sample
    graders: tuple[Grader, ...]
    case: Any = None
    labels: tuple[Label, ...] = ()


def open_holes(measure: Measure) -> bool:
    """True if a place that nobody judged leaves the score open instead of counting as not relevant."""
    holes = measure.settings.get("holes", "zero")
    about_holes = measure.name == "Judged" or measure.settings.get("part") == "residual"
    return not about_holes and (holes == "bounds" or (holes == "zero" and measure.labels == "human"))


def least_level(measure: Measure) -> float:
    """The measure's threshold, or that of the labels' own scale."""
    return measure.settings.get("rel") or (1 if measure.labels == "gold" else HELPS)


def program_of(measure: Measure, sample: Sample, settings: Settings) -> Program[Outcome]:
    """A judged measure's program for a sample; it never raises."""
    definition = measure.definition
    params = {name: value for name, value in measure.settings.items() if name not in definition.when}
    if definition.cutoff != "none":
        params["k"] = measure.k
    if measure.budget is not None:
        sample = within_budget(sample, measure.budget)
        params["k"] = max(1, *(len(contexts) for _, contexts in rankings(sample)), 1)
    if definition.settings:
        params["settings"] = settings
    return safely(str(measure), lambda: definition.compute(sample, **params))


def applicable(measure: Measure, sample: Sample, settings: Settings) -> Outcome | None:
    """The reason why the measure cannot be computed for this sample; None where it can."""
    return Eligibility([sample], settings).refusals(measure).get(0)


class Eligibility:
    """The samples of a block for which a measure cannot be computed, and why.

    Measures share rules, and each rule looks at every sample once.
    """

    def __init__(self, samples: Sequence[Sample], settings: Settings) -> None:
        self._samples, self._settings = samples, settings
        self._broken: dict[object, dict[int, Outcome]] = {}

    def refusals(self, measure: Measure) -> Mapping[int, Outcome]:
        """The outcome of each sample, by its number, for which the measure cannot be computed."""
        outcomes: dict[int, Outcome] = {}
        for rule, broken in self._rules(measure):
            if rule not in self._broken:
                self._broken[rule] = dict(broken)
            outcomes = {**self._broken[rule], **outcomes}
        return outcomes

    def _rules(self, measure: Measure) -> Iterator[tuple[object, Iterator[tuple[int, Outcome]]]]:
        """The rules for the samples of a measure, the first one first: a name, and the number and outcome of each sample that breaks it."""
        samples, definition, labels = self._samples, measure.definition, measure.labels
        ranked, rel = definition.family == "ranked", measure.settings.get("rel", 0)
        yield "error", ((n, error(sample.error or "")) for n, sample in enumerate(samples) if sample.failed)
        for need in definition.needs:
            yield need, _lacking(need, samples)
        if definition.answerable or ranked:
            yield "answerable", _unanswerable(samples)
        if ranked and labels == "gold":
            yield ("qrels", rel or 1), _without_gold(rel or 1, samples)
        if (ranked and labels == "gold" and measure.name not in _COUNTS) or not _OF_IDS.isdisjoint(
            definition.needs
        ):
            yield "ids", _without_ids(samples)
        if ranked and labels in {"human", "best"}:
            yield (labels, rel is None), self._unlabelled(measure)
        if ranked and labels in {"judge", "best"} and measure.settings.get("against") != "call":
            yield "asked", _unasked(self._settings.against, samples)
        if measure.budget is not None:
            yield (
                "texts",
                ((n, skipped(NO_TEXT)) for n, sample in enumerate(samples) if not has_texts(sample)),
            )

    @cached_property
    def _people(self) -> Places:
        people = Places(LabelChoice("human", "need", final=False), self._settings)
        people.add(self._samples)
        return people

    def _unlabelled(self, measure: Measure) -> Iterator[tuple[int, Outcome]]:
        """The samples whose labels by people cannot be read."""
        best, judged = measure.labels == "best", self._settings.scale
        for number in range(len(self._samples)):
            labelled = self._people.labelled[self._people.span_of(number)]
            other = sorted(self._people.scales_of(number) - ({judged} if best else {"graded", "binary"}))
            if other and best:
                why = (
                    f"labels=best needs one scale: people's labels are {other[0]}, the judge's {judged}; "
                    "read labels=human or labels=judge, or ask on people's scale"
                )
            elif other and measure.settings.get("rel", 0) is None:
                why = f"people's grades are on the scale {other[0]}: say from which grade a context counts, rel="
            elif not best and len(labelled) and not labelled.any():
                why = "no human labels"
            else:
                continue
            yield number, skipped(why)


def _lacking(need: str, samples: Sequence[Sample]) -> Iterator[tuple[int, Outcome]]:
    """The samples without a field that a measure needs."""
    if need == "contexts":
        lacking = [n for n, sample in enumerate(samples) if sample.contexts is None and sample.calls is None]
    elif need in {"query", "reference", "response"}:
        lacking = [n for n, sample in enumerate(samples) if field_text(sample, need) is None]
    else:
        lacking = [n for n, sample in enumerate(samples) if getattr(sample, need, None) in (None, "", ())]
    for number in lacking:
        fault = samples[number].error
        yield number, error(fault) if fault else skipped(_ABSENT.get(need, f"no {need}"))


def _unanswerable(samples: Sequence[Sample]) -> Iterator[tuple[int, Outcome]]:
    for number in [number for number, sample in enumerate(samples) if sample.answerable is False]:
        yield number, skipped("unanswerable: nothing can be relevant")


def _without_gold(rel: int, samples: Sequence[Sample]) -> Iterator[tuple[int, Outcome]]:
    for number in [n for n, row in enumerate(samples) if not row.qrels or max(row.qrels.values()) < rel]:
        yield number, skipped(NO_QRELS if samples[number].qrels is None else NOTHING_RELEVANT)


_COUNTS = {"num_ret", "num_rel"}
"""The ranked measures that count results or gold, whatever the ids."""
_OF_IDS = {"gold", "forbidden", "superseded"}


def _without_ids(samples: Sequence[Sample]) -> Iterator[tuple[int, Outcome]]:
    """The samples with contexts of which none has an id: whether one of them is a gold document is not known."""
    for number, sample in enumerate(samples):
        lists = [call.contexts for call in sample.calls] if sample.calls else [sample.contexts or ()]
        if any(lists) and all(context.id is None for contexts in lists for context in contexts):
            yield number, skipped(f"{WITHOUT_IDS}{_where_ids_are(sample, chain.from_iterable(lists))}")


def _where_ids_are(sample: Sample, contexts: Iterable[Context]) -> str:
    """Where contexts without an id seem to have it: their text, or a key that is not read as one; "" where none does."""
    gold = {*(sample.qrels or ()), *chain.from_iterable(sample.gold or ()), *sample.forbidden}
    likely = ""
    for context in contexts:
        if context.text.strip() in gold:
            return '; texts are gold ids: give contexts as {"id": ...}, or their ids as retrieved_context_ids'
        for key, value in context.metadata.items():
            if isinstance(value, str | int) and str(value) in gold:
                return f"; {key!r} holds gold ids: rename it to id"
            if not likely and _LIKE_AN_ID.search(key) and isinstance(value, str | int):
                likely = f"; if {key!r} is one, rename it to id"
    return likely


def _unasked(against: str, samples: Sequence[Sample]) -> Iterator[tuple[int, Outcome]]:
    """The samples about whose contexts nobody can be asked."""
    has_field = against in {"reference", "response", "criterion"}
    for number, sample in enumerate(samples):
        if field_text(sample, "query") is None:
            yield number, skipped("no query")
        elif has_field and not field_text(sample, against):
            yield number, skipped(f"no {against} to judge against")


class ProgramOwner(NamedTuple):
    """The owner of a program's questions: the number of its job in the block, and the canonical names of the measures."""

    job: int
    measures: tuple[str, ...]


class Block:
    """The questions that a block of jobs needs answered, and its scores once they are.

    Jobs may have graders of their own; the scores of a grader are one column over the block.
    `companions`: also the values of the measures that belong to those of gold.

    Attributes:
        programs: What is asked, in the order of the samples.
        owners: For whom each program asks.
        grader_sets: The graders of the jobs, each set once.
        notes: Counts of what a reader of the scores should know of the samples.
        labelled: The numbers of the jobs on whose contexts people's labels stand.
    """

    def __init__(self, jobs: Sequence[Job], settings: Settings, *, companions: bool = False) -> None:
        self.jobs, self.settings = jobs, settings
        self.notes: Counter[str] = Counter()
        self.labelled: list[int] = []
        self.programs: list[Program[Any]] = []
        self.owners: list[ProgramOwner] = []
        self._readings: dict[LabelChoice, _Reading] = {}
        self._settled = False
        self._eligible = Eligibility([job.sample for job in jobs], settings)
        self._columns: dict[int, list[_Column]] = {}
        own: dict[int, _Column] = {}
        others: dict[Measure, _Column] = {}
        sets: dict[int, list[int]] = {}
        for number, job in enumerate(jobs):
            sets.setdefault(id(job.graders), []).append(number)
        self.grader_sets = [jobs[numbers[0]].graders for numbers in sets.values()]
        for graders, numbers in zip(self.grader_sets, sets.values(), strict=True):
            columns = [own.setdefault(id(grader), _Column(grader, len(jobs))) for grader in graders]
            self._columns[id(graders)] = columns
            more = ranked.belonging_to(grader.measure for grader in graders) if companions else ()
            added = [others.setdefault(m, _Column(Grader(measure=m), len(jobs))) for m in more]
            of_set = np.array(numbers, np.int64)
            for column in (*columns, *added):
                column.jobs = np.append(column.jobs, of_set) if len(column.jobs) else of_set
        self._companions = list(others.values())
        self._every = [*own.values(), *self._companions]
        self._start()
        self._look_at_contexts()

    def _start(self) -> None:
        """Set the scores that are known before anything is answered, and gather what must be asked."""
        unsure = {number for number, job in enumerate(self.jobs) if job.sample.unsure}
        for column in self._every:
            if column.grader.by is not None:
                continue
            self._put_known(column, unsure)
            measure = column.grader.measure
            if column.ranked:
                column.read = column.unnoted()
                if measure.choice not in self._readings:
                    self._readings[measure.choice] = _Reading(measure.choice, self.settings, len(self.jobs))
                self._readings[measure.choice].read(column.read, measure.depth)
        for reading in self._readings.values():
            reading.gather(self.jobs)
        judged = not self.settings.judged_by and any(
            choice.source in {"judge", "best"} for choice in self._readings
        )
        if judged or not all(column.ranked for column in self._every):
            for number in range(len(self.jobs)):
                self._ask(number)

    def _put_known(self, column: _Column, unsure: set[int]) -> None:
        """Set the scores that cannot be computed, and those of samples with unsure gold."""
        measure = column.grader.measure
        refused = self._eligible.refusals(measure)
        for number in column.jobs.tolist() if refused else ():
            if number in refused:
                column.put(number, refused[number])
        both = unsure.intersection(column.jobs.tolist()) if unsure and reads_gold_alone(measure) else ()
        for number in both:
            lacking = refused.get(number)
            if lacking is None or lacking.why == NOTHING_RELEVANT:
                outcome = between(measure, self.jobs[number].sample, self.settings)
                column.put(number, outcome)
                column.noted[number] = outcome

    def _ask(self, number: int) -> None:
        """Ask for the scores of a job by the graders that read no labels, and for the verdicts that the others read."""
        job, columns = self.jobs[number], self._columns_of(number)
        for column in columns:
            grader = column.grader
            if grader.by is not None:
                program = grader.by.grade_sample(job.sample, job.case)
            elif not column.ranked and number not in column.noted:
                program = program_of(grader.measure, job.sample, self.settings)
            else:
                continue
            column.programs[number] = self._add_program(program, number, [column])
        for choice, reading in self._readings.items():
            sample = int(reading.samples[number])
            if sample >= 0 and reading.places.asks(sample):
                readers = [c for c in columns if c.reads(choice) and number not in c.noted]
                asked = _verdicts(reading.places.questions(sample))
                reading.programs[sample] = self._add_program(asked, number, readers)

    def _add_program(self, program: Program[Any], number: int, columns: Iterable[_Column]) -> int:
        self.programs.append(program)
        names = dict.fromkeys(str(column.grader.measure) for column in columns)
        self.owners.append(ProgramOwner(number, tuple(names)))
        return len(self.programs) - 1

    def _columns_of(self, number: int) -> list[_Column]:
        """The columns of the graders of a job."""
        return self._columns[id(self.jobs[number].graders)]

    def _look_at_contexts(self) -> None:
        """Find the labels on contexts; count searches that returned nothing, and contexts without text."""
        samples = [job.sample for job in self.jobs]
        answered = [sample for sample in samples if not sample.error]
        calls = [call.contexts for sample in answered for call in sample.calls or ()]
        lists = chain((sample.contexts or () for sample in answered if not sample.calls), calls)
        # a text is not blank where its first character is a visible one of ASCII
        unusual = [
            context
            for contexts in lists
            for context in contexts
            if context.grade is not None
            or context.relevant is not None
            or ((text := context.text) and not "!" <= text < "\x7f")
        ]
        if calls or any(context.grade is not None or context.relevant is not None for context in unusual):
            self.labelled = [number for number, sample in enumerate(samples) if has_labels(sample)]
        blanks = sum(blank(context.text) for context in unusual if context.text)
        self.notes["x a search that returned nothing: counts 0"] += calls.count(())
        self.notes["x an empty context: answered without a call"] += blanks
        if any(column.ranked for column in self._every):
            self.notes[TIED] += sum(map(tied_gold, answered))

    def outcomes(self, results: Sequence[Any]) -> list[dict[str, Outcome]]:
        """For each job: the outcome of each of its graders, by the grader's name; `results` are those of the programs."""
        self._settle(results)
        return [
            {column.grader.name: column.outcome(number) for column in self._columns_of(number)}
            for number in range(len(self.jobs))
        ]

    def scores(self, results: Sequence[Any]) -> ScoreTable:
        """The scores of the jobs in their order, and of each job in that of its graders."""
        self._settle(results)
        tables = []
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
            tables.append(ScoreTable.of_columns(keys, names, values, noted))
        first, *others = tables or [ScoreTable()]
        for table in others:
            first.extend(table, distinct=True)
        return first

    def places(self, job: int, measure: Measure) -> tuple[Places, int] | None:
        """The labelled places that a ranked measure reads of a job, once it is answered, and the job's sample among these."""
        reading = self._readings.get(measure.choice)
        sample = -1 if reading is None else int(reading.samples[job])
        return None if reading is None or sample < 0 else (reading.places, sample)

    def read_as_verdicts(self) -> Iterator[tuple[int, Passages, tuple[str, ...]]]:
        """The passages of each job whose labels are read in place of a judge's verdicts, and the measures that read them."""
        for choice, reading in self._readings.items():
            if not self.settings.judged_by or choice.source not in {"judge", "best"}:
                continue
            for number, sample in enumerate(reading.samples.tolist()):
                if sample >= 0 and reading.places.cells[sample]:
                    columns = self._columns_of(number)
                    readers = [c for c in columns if c.reads(choice) and number not in c.noted]
                    names = tuple(str(column.grader.measure) for column in readers)
                    yield number, reading.places.questions(sample), names

    def companions(self, results: Sequence[Any]) -> Iterator[tuple[str, str, list[float]]]:
        """The values of what belongs to the means of gold, by system and canonical name, of the samples that have any."""
        self._settle(results)
        systems: dict[str, list[int]] = {}
        for number, job in enumerate(self.jobs if self._companions else ()):
            systems.setdefault(job.sample.system, []).append(number)
        of_system = {system: np.array(numbers, np.int64) for system, numbers in systems.items()}
        for column in self._companions:
            counted = np.zeros(len(self.jobs), np.bool_)
            counted[column.unnoted()] = True
            for system, numbers in of_system.items():
                if values := column.values[numbers][counted[numbers]].tolist():
                    yield system, str(column.grader.measure), values

    def asking(self) -> Iterator[tuple[int, str, int, Sequence[int] | None]]:
        """The graders that ask, job by job (its number): their name, and the number of the program that asks.

        Of a program that others share, the numbers of the passages that no grader before reads; None = all that it asks.
        """
        for number in range(len(self.jobs)):
            read: dict[LabelChoice, set[int]] = {}
            for column in self._columns_of(number):
                name, measure = column.grader.name, column.grader.measure
                if (program := column.programs.get(number)) is not None:
                    yield number, name, program, None
                elif column.ranked and number not in column.noted:
                    reading = self._readings[measure.choice]
                    sample = int(reading.samples[number])
                    if (program := reading.programs.get(sample)) is not None:
                        before = read.setdefault(measure.choice, set())
                        cells = reading.places.cells_read(sample, measure.depth)
                        yield number, name, program, [cell for cell in cells if cell not in before]
                        before.update(cells)

    def _settle(self, results: Sequence[Any]) -> None:
        """Fill in what the programs were answered, and compute the scores of labels."""
        if self._settled:
            return
        self._settled = True
        mixed, repeated = np.zeros(len(self.jobs), np.bool_), 0
        for reading in self._readings.values():
            for sample, number in reading.programs.items():
                reading.places.take(sample, results[number])
            marks = reading.places.mixed
            if marks.any():
                mixed |= (reading.samples >= 0) & marks[reading.samples]
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
        """The results of graders that are no measures, by the number of the job and the grader's name."""
        cases = [] if all(column.grader.by is None for column in self._every) else range(len(self.jobs))
        return {
            (number, column.grader.name): results[column.programs[number]]
            for number in cases
            for column in self._columns_of(number)
            if column.grader.by is not None
        }


MOST_ASSIGNED = 4096
"""Combinations of what unsure gold may be, up to which a score's bounds are exact; beyond, they are the measure's range."""


def reads_gold_alone(measure: Measure) -> bool:
    """True if a measure reads graded gold ids and asks nobody."""
    definition = measure.definition
    return (
        measure.labels == "gold"
        if definition.family == "ranked"
        else "qrels" in definition.needs and not definition.asks
    )


def between(measure: Measure, sample: Sample, settings: Settings) -> Outcome:
    """The outcome of a measure over gold that is unsure in part: its one value, or its least and its greatest.

    Each unsure document is relevant with its grade, or is not. One that is not known is any document of the lists without a
    grade, one that did not come back, or none at all.
    """
    qrels, choices = dict(sample.qrels or {}), []
    free = [passage.context.id for passage in sample.ranked_passages() if passage.context.id is not None]
    for name, grade in (sample.unsure or {}).items():
        unjudged = dict.fromkeys(name for name in free if name not in qrels) if name.startswith("*") else ()
        choices.append([{}, {name: grade}, *({name: grade} for name in unjudged)])
    why = f"{len(choices)} gold documents are unsure" if len(choices) > 1 else "a gold document is unsure"
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
    """The result of a program that asks nobody."""
    try:
        next(program)
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome
    raise AssertionError("a measure of gold alone asks nobody")


def _verdicts(questions: Passages) -> Program[tuple[Any, ...]]:
    """The program that asks for a sample's verdicts."""
    return (yield questions)


class _Column:
    """The scores of one grader for the jobs of a block.

    Attributes:
        jobs: The numbers of the jobs that it grades.
        values: The value of each job of the block, nan where there is none.
        noted: The outcomes that say more than a value, by the number of the job.
        programs: The program whose result the score of a job is.
        ranked: Whether its scores are a formula on labels.
        read: The jobs whose score is computed from labels.
    """

    def __init__(self, grader: Grader, jobs: int) -> None:
        self.grader, self.values = grader, np.full(jobs, nan)
        self.jobs: Ints = np.empty(0, np.int64)
        self.noted: dict[int, Outcome] = {}
        self.programs: dict[int, int] = {}
        self.ranked = grader.by is None and grader.measure.definition.family == "ranked"
        self.read: Ints = np.empty(0, np.int64)

    def put(self, number: int, outcome: Outcome) -> None:
        """Keep the outcome of a job: its value, and the whole outcome where it is more than a value."""
        if outcome.value is not None:
            self.values[number] = outcome.value
        if outcome.status != "ok" or outcome.why is not None or outcome.items:
            self.noted[number] = outcome

    def outcome(self, number: int) -> Outcome:
        """The outcome of a job, made of its value where nothing else was kept."""
        return self.noted.get(number) or Outcome(float(self.values[number]))

    def reads(self, choice: LabelChoice) -> bool:
        """True if its scores are a formula on these labels."""
        return self.ranked and self.grader.measure.choice == choice

    def unnoted(self) -> Ints:
        """The jobs whose outcome is no more than a value."""
        return self.jobs[~np.isin(self.jobs, [*self.noted])] if self.noted else self.jobs


class _Reading:
    """The labels of one choice for a block, and what measures make of them.

    Attributes:
        places: The labels of the samples that any measure reads.
        samples: The number of each job's sample among these; -1 where none of its measures reads them.
        programs: The number of the program that asks for the labels of a sample, where any does.
    """

    def __init__(self, choice: LabelChoice, settings: Settings, jobs: int) -> None:
        self.places, self.samples = Places(choice, settings), np.full(jobs, -1)
        self.programs: dict[int, int] = {}
        self._depths = np.zeros(jobs, np.int64)
        self._values: dict[Measure, Floats | None] = {}

    def read(self, jobs: Ints, depth: int | None) -> None:
        """Let a measure read the first `depth` places (None = all) of these jobs."""
        self._depths[jobs] = np.maximum(self._depths[jobs], sys.maxsize if depth is None else depth)

    def gather(self, jobs: Sequence[Job]) -> None:
        """Read the labels of all jobs that are read, each as deep as the deepest of its measures looks."""
        read = np.flatnonzero(self._depths)
        self.samples[read] = np.arange(len(read))
        self.places.add([jobs[number].sample for number in read.tolist()], self._depths[read].tolist())

    def fill(self, column: _Column) -> None:
        """Set a ranked measure's scores; bounds where a label that it reads is missing."""
        grader, measure, samples = column.grader, column.grader.measure, self.samples[column.read]
        values = self._values_of(measure)
        noted = np.ones(len(samples), np.bool_)
        if values is not None and not (
            measure.labels == "best" or grader.strict or grader.expected_relevant_count
        ):
            column.values[column.read] = values[samples]
            noted = ~np.isfinite(values[samples])
            if measure.labels != "gold" or open_holes(measure):
                noted |= self.places.missing_in(ranked.depth_of_ideal(measure), holes=open_holes(measure))[
                    samples
                ]
        for number, sample in zip(column.read[noted].tolist(), samples[noted].tolist(), strict=True):
            column.values[number] = nan
            column.put(number, self._outcome(grader, sample))

    def _values_of(self, measure: Measure) -> Floats | None:
        """The mean over its rankings of each sample; None where the formula fails on the whole table."""
        if measure not in self._values:
            self._values[measure] = None
            with suppress(Exception):  # a user's own formula: which sample it fails on is found one by one
                self._values[measure] = sample_means(measure, self.places.table, self.places.rows)
        return self._values[measure]

    def _outcome(self, grader: Grader, sample: int) -> Outcome:
        measure, places = grader.measure, self.places
        try:
            values = self._values_of(measure)
            if values is None:
                table, at = places.table_of(sample), 0
                values = sample_means(measure, table, [0, table.rows])
            else:
                at = sample
            outcome = ok(float(values[at]))
            if measure.labels != "gold" or open_holes(measure):
                outcome = self._incomplete(measure, sample) or outcome
        except Exception as fault:  # noqa: BLE001 - a user's own formula may fail, on labels that are tried too
            return error(f"{measure} raised {type(fault).__name__}: {fault}")
        if measure.labels == "best" and outcome.status == "ok":
            read = places.read(sample, measure.depth)
            human = sum(map(places.by_people, read))
            mixed = "mixed: " if human < len(read) else ""
            outcome = replace(outcome, why=f"{mixed}{human / len(read):.0%} human" if human else None)
        return self._exceptions(grader, outcome, sample)

    def _incomplete(self, measure: Measure, sample: int) -> Outcome | None:
        """An outcome with bounds where a label that the measure reads is missing, else None."""
        places, holes = self.places, open_holes(measure)
        read = places.read(sample, ranked.depth_of_ideal(measure))
        failed = [places.failed[position] for position in read if position in places.failed]
        unjudged = int((~places.labelled[read]).sum()) - len(failed) if holes else 0
        if not failed and not unjudged:
            return None
        what, first = "labels" if holes else "verdicts", failed[0] if failed else "no label"
        why = f"{len(failed) + unjudged} of {len(read)} {what} missing: {first}"
        if len(failed) == len(read):
            return error(why)
        scales = places.scales_of(sample)
        if measure.labels == "gold":
            top = max(1, *(places.samples[sample].qrels or {}).values())
        else:
            top = max((int(scale.rpartition("-")[2]) for scale in scales if "-" in scale), default=3)
        binary = "binary" in scales or places.settings.scale == "binary"
        table, missing = places.table_of(sample), places.missing_verdicts(sample, holes=holes)
        return incomplete(why, ranked.bounds(measure, table, missing, binary=binary, top=top))

    def _exceptions(self, grader: Grader, outcome: Outcome, sample: int) -> Outcome:
        """The outcome with what the grader's options have to say about it; the value stays."""
        if outcome.status != "ok" or not (grader.strict or grader.expected_relevant_count):
            return outcome
        read = self.places.read(sample, grader.measure.depth)
        relevant = int((self.places.level[read] >= least_level(grader.measure)).sum())
        notes = []
        if grader.strict and relevant < len(read):
            notes.append(f"{STRICT}{len(read) - relevant} of {len(read)} contexts are not relevant")
        if relevant < (grader.expected_relevant_count or 0):
            notes.append(f"{relevant} relevant contexts found, {grader.expected_relevant_count} expected")
        return replace(outcome, why="; ".join(filter(None, [*notes, outcome.why])) or None)


def sample_means(measure: Measure, table: RankedLabels, rows: Sequence[int]) -> Floats:
    """A ranked measure's value of each sample: the mean over its rankings, `rows[n]` up to `rows[n + 1]`; 0 without any."""
    values = ranked.values(measure, table)
    if rows[-1] == len(rows) - 1 and [*rows] == [*range(len(rows))]:
        return values
    listed = values.tolist()
    return np.array([fsum(listed[a:b]) / (b - a) if b > a else 0.0 for a, b in pairwise(rows)])
