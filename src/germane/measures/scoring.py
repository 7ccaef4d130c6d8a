"""A block of samples and their graders in, outcomes out. Pure: it says what to ask and what follows from the answers.

Judged measures are programs of their own. Ranked measures that read the same labels share one label program per sample
and one table of labels per block; each is then one kernel call on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, pairwise, product
from math import fsum, inf, nan, prod
from typing import Any, NamedTuple, Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import replace as replace_fields

from germane.measures import ranked
from germane.measures.kernel import Floats, Ints
from germane.measures.labels import (
    NO_TEXT,
    PlaceLabel,
    PlaceLabels,
    Ranking,
    Settings,
    given,
    has_texts,
    place_labels,
    rankings,
    within_budget,
)
from germane.measures.measure import Definition, LabelChoice, Measure, define
from germane.measures.outcome import Outcome, bounds, error, incomplete, ok, safely, skipped
from germane.questions.asking import Program, Unanswered
from germane.questions.relevance import HELPS, Passages
from germane.questions.text import blank
from germane.samples.gradertypes import FORMULAS
from germane.tables.labels import Label
from germane.tables.scores import ScoreTable
from germane.types import FrozenDict, Sample

PASS, BORDERLINE = 0.8, 0.6
STRICT = "strict: "
"""How the note on a score begins that fails the verdict of a case with a strict grader."""


class GradesCases(Protocol):
    """A grader of an eval file that is no plain measure."""

    @property
    def asks(self) -> bool:
        """Whether it needs a judge."""

    def grade_sample(self, sample: Sample, case: Any) -> Program[Any]:
        """The program that grades a sample, in its case of an eval file if it has one; its result has an `outcome` and is shown `as_json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """A measure with what an eval file says about it.

    `name` is what it is reported under. `required` is the least value that the case must reach, as a gate on
    the evaluation, `threshold` the least score of the whole case. `strict` fails the case's verdict on any irrelevant context and leaves the score;
    `expected_relevant_count` adds a note where fewer are found. `by` grades the whole case where that is no
    plain measure's business; `measure` is then the type that its scores are stored under. `options` holds
    `declared` where an eval file describes a grader and does not only name a measure.
    """

    measure: Measure
    name: str = ""
    weight: float = 1.0
    required: float | None = None
    threshold: float | None = None
    strict: bool = False
    expected_relevant_count: int | None = None
    by: GradesCases | None = None
    options: FrozenDict = field(default_factory=FrozenDict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or str(self.measure))

    @property
    def declares(self) -> bool:
        """Whether its cases pass or fail: it is described as a grader, is required, or the whole case has a threshold."""
        limits = (self.required, self.threshold)
        return (
            self.measure.definition.family == "graded"
            or self.strict
            or bool(self.options)
            or limits != (None, None)
        )


def graders_of(measures: tuple[Measure, ...]) -> tuple[Grader, ...]:
    """Plain measures as graders of equal weight."""
    return tuple(Grader(measure=measure) for measure in measures)


def _never(*_: object, **__: object) -> None:
    raise AssertionError("a grader of an eval file is not a measure")


DECLARED = FrozenDict(declared=True)
"""The options of a grader that an eval file describes."""
_defined: set[str] = set()


def define_grader(name: str, formula: str = "what its check returns", reference: str = "") -> None:
    """Make the type of a grader known, under which its scores are stored; MeasureError where it is a measure's name."""
    if name not in _defined:
        define(
            Definition(
                name=name,
                family="graded",
                compute=_never,
                needs=(),
                formula=formula,
                doc="A grader, declared in an eval file.",
                reference=reference,
                aliases=(name.replace("_", "-"),) if "_" in name else (),
            )
        )
        _defined.add(name)


for _name, _formula in FORMULAS.items():
    define_grader(_name, _formula, "AgentV")


_ABSENT = {
    "contexts": "contexts are not known",
    "gold": "no gold groups",
    "forbidden": "no forbidden ids",
    "superseded": "no stale versions are named",
}
_UNANSWERABLE = "unanswerable: nothing can be relevant"
NO_QRELS, NOTHING_RELEVANT = "no qrels", "no relevant document is known"
_MIXED = "samples have labels on two scales: all count as yes or no"
WITHOUT_IDS = (
    "samples have contexts without any document id: gold knows none of them, and they count as not relevant"
)
REPEATED = "contexts repeat a document that stands higher in the same list (the first counts)"


class Job(Struct, kw_only=True):
    """One sample with the graders that apply to it, and the case that it stands in where any of them reads that.

    `labels` are people's labels of its passages that stand beside it, not on its contexts.
    """

    sample: Sample
    graders: tuple[Grader, ...]
    case: Any = None
    labels: tuple[Label, ...] = ()


def labels_for(measure: Measure, sample: Sample, settings: Settings) -> Program[tuple[Ranking, ...]]:
    """The labelled rankings that a ranked measure reads of a sample, place by place."""
    labels = yield from place_labels(sample, measure.choice, measure.depth, settings)
    return labels.rankings(0)


def open_holes(measure: Measure) -> bool:
    """Whether a place that nobody judged leaves the score open instead of counting as not relevant."""
    holes = measure.settings.get("holes", "zero")
    about_holes = measure.name == "Judged" or measure.settings.get("part") == "residual"
    return not about_holes and (holes == "bounds" or (holes == "zero" and measure.labels == "human"))


def least_level(measure: Measure) -> float:
    """The measure's threshold, or that of the labels' own scale."""
    return measure.settings.get("rel") or (1 if measure.labels == "gold" else HELPS)


def is_relevant(label: PlaceLabel | Unanswered | None, measure: Measure) -> bool:
    """Whether a label reaches the measure's threshold."""
    return isinstance(label, PlaceLabel) and label.level >= least_level(measure)


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
    """None where the measure can be computed for this sample, else why not."""
    return Eligibility([sample], settings).refusals(measure).get(0)


class Eligibility:
    """For which samples of a block a measure cannot be computed, and why.

    Found once for all measures that need the same fields, and for all that need the same labels.
    """

    def __init__(self, samples: Sequence[Sample], settings: Settings) -> None:
        self._samples, self._settings = samples, settings
        self._of_fields: dict[tuple[tuple[str, ...], bool], dict[int, Outcome]] = {}
        self._of_labels: dict[tuple[object, ...], dict[int, Outcome]] = {}

    def refusals(self, measure: Measure) -> Mapping[int, Outcome]:
        """The outcome of each sample, by its number, for which the measure cannot be computed."""
        definition = measure.definition
        ranked = definition.family == "ranked"
        fields = definition.needs, definition.answerable or ranked
        if fields not in self._of_fields:
            self._of_fields[fields] = self._lacking(*fields)
        texts = self._without_texts if measure.budget is not None else {}
        labels = self._of_labels_read(measure) if ranked else {}
        return {**texts, **labels, **self._of_fields[fields]}

    @cached_property
    def _without_texts(self) -> dict[int, Outcome]:
        """The samples of whose contexts tokens cannot be counted."""
        return {n: skipped(NO_TEXT) for n, sample in enumerate(self._samples) if not has_texts(sample)}

    def _of_labels_read(self, measure: Measure) -> Mapping[int, Outcome]:
        """Why samples do not have the labels that a ranked measure reads; found once for all that read the same."""
        rel, against = measure.settings.get("rel", 0), measure.settings.get("against")
        threshold = rel or 1 if measure.labels == "gold" else rel is None
        read = measure.labels, threshold, against
        if read not in self._of_labels:
            self._of_labels[read] = self._unlabelled(measure)
        return self._of_labels[read]

    def _lacking(self, needs: tuple[str, ...], answerable: bool) -> dict[int, Outcome]:
        """Why samples do not have what measures need."""
        outcomes: dict[int, Outcome] = {}
        for need in needs:
            for number in self._absent(need):
                failed = self._samples[number].error
                why = error(failed) if failed else skipped(_ABSENT.get(need, f"no {need}"))
                outcomes.setdefault(number, why)
        if answerable:
            for number, sample in enumerate(self._samples):
                if sample.answerable is False:
                    outcomes.setdefault(number, skipped(_UNANSWERABLE))
        return outcomes

    def _absent(self, need: str) -> list[int]:
        """The samples without one field."""
        samples = enumerate(self._samples)
        if need == "contexts":
            return [n for n, sample in samples if sample.contexts is None and sample.calls is None]
        if need in {"query", "reference", "response"}:
            return [n for n, sample in samples if given(sample, need) is None]
        return [n for n, sample in samples if getattr(sample, need, None) in (None, "", ())]

    def _unlabelled(self, measure: Measure) -> dict[int, Outcome]:
        """Why samples do not have the labels that a ranked measure reads."""
        if measure.labels == "gold":
            least = measure.settings.get("rel") or 1
            best = self._best_grades
            return {
                number: skipped(NO_QRELS if value is None else NOTHING_RELEVANT)
                for number, value in enumerate(best)
                if value is None or value < least
            }
        outcomes: dict[int, Outcome] = {}
        for number, sample in enumerate(self._samples):
            why = self._unlabelled_by_people(measure, number) if measure.labels in {"human", "best"} else None
            if why is None and measure.labels != "human":
                why = self._unasked(measure, sample)
            if why is not None:
                outcomes[number] = skipped(why)
        return outcomes

    @cached_property
    def _best_grades(self) -> list[float | None]:
        """The highest grade that gold knows for each sample; None where there is no gold."""
        return [
            None if sample.qrels is None else max(sample.qrels.values(), default=-inf)
            for sample in self._samples
        ]

    @cached_property
    def unidentified(self) -> frozenset[int]:
        """The samples for which something came back, and nothing of it has an id."""
        return frozenset(number for number, sample in enumerate(self._samples) if _without_ids(sample))

    @cached_property
    def _people(self) -> PlaceLabels:
        people = PlaceLabels(LabelChoice("human", "need", final=False), self._settings)
        people.add(self._samples)
        return people

    def _unlabelled_by_people(self, measure: Measure, number: int) -> str | None:
        labelled = self._people.labelled[self._people.places_of(number)]
        refusal = _off_scale(measure, self._people.scales_of(number), self._settings)
        nobody = measure.labels == "human" and len(labelled) and not labelled.any()
        return refusal or ("no human labels" if nobody else None)

    def _unasked(self, measure: Measure, sample: Sample) -> str | None:
        """Why nobody can be asked about the sample's contexts."""
        if measure.settings.get("against") == "call":
            return None
        if given(sample, "query") is None:
            return "no query"
        against = self._settings.against
        asked = against in {"reference", "response", "criterion"}
        return f"no {against} to judge against" if asked and not given(sample, against) else None


def _without_ids(sample: Sample) -> bool:
    if not sample.calls:
        contexts = sample.contexts or ()
        return bool(contexts) and contexts[0].id is None and all(context.id is None for context in contexts)
    came = [context.id for _, contexts in rankings(sample) for context in contexts]
    return bool(came) and not any(came)


def _off_scale(measure: Measure, scales: set[str], settings: Settings) -> str | None:
    """Why people's labels cannot be read, if they cannot: a scale without a threshold, or two where one is needed."""
    other = sorted(scales - ({settings.scale} if measure.labels == "best" else {"graded", "binary"}))
    if other and measure.labels == "best":
        return (
            f"labels=best needs one scale: people's labels are {other[0]}, the judge's {settings.scale}; "
            "read labels=human or labels=judge, or ask on people's scale"
        )
    if other and measure.settings.get("rel", 0) is None:
        return f"people's grades are on the scale {other[0]}: say from which grade a context counts, rel="
    return None


class ProgramOwner(NamedTuple):
    """For whom a program asks: the place of its job in the block, and the canonical names of the measures."""

    job: int
    measures: tuple[str, ...]


class Block:
    """What a block of jobs needs asked, and what its measures say once that is answered.

    `beside`: also the values of the measures that belong beside those of gold.

    Attributes:
        programs: What is asked, in the order of the samples.
        owners: For whom each program asks.
        notes: Counts of what a reader of the scores should know of the samples.
    """

    def __init__(self, jobs: Sequence[Job], settings: Settings, *, beside: bool = False) -> None:
        self.jobs, self.settings = jobs, settings
        self.notes: Counter[str] = Counter()
        self.programs: list[Program[Any]] = []
        self.owners: list[ProgramOwner] = []
        self._choices: dict[LabelChoice, _Chosen] = {}
        self._settled = False
        self._eligible = Eligibility([job.sample for job in jobs], settings)
        self._runs: list[_SameGraders] = []
        for job in jobs:
            self._note_empty(job.sample)
        start = 0
        for _, some in groupby(jobs, key=lambda job: id(job.graders)):
            run = _SameGraders(start, list(some), beside=beside)
            self._start(run)
            self._runs.append(run)
            start += len(run.jobs)
        self._note_without_ids()

    def _start(self, run: _SameGraders) -> None:
        """What is known of the scores of jobs with the same graders before anything is answered, and what must be asked."""
        reads: dict[LabelChoice, list[_Column]] = {}
        for column in run.every:
            measure = column.grader.measure
            if column.grader.by is not None:
                continue
            self._put_known(run, column)
            if column.ranked:
                rows = range(len(run.jobs))
                column.read = [row for row in rows if row not in column.noted] if column.noted else rows
                reads.setdefault(measure.choice, []).append(column)
        for choice, columns in reads.items():
            self._read(run, choice, columns)
        asking = [column for column in run.columns if not column.ranked]
        asks = not self.settings.judged_by and any(choice.source in {"judge", "best"} for choice in reads)
        for row in range(len(run.jobs)) if asking or asks else ():
            for column in asking:
                self._ask_for(run, row, column)
            for choice, columns in reads.items():
                self._ask_labels(run, row, self._choices[choice], columns)

    def _put_known(self, run: _SameGraders, column: _Column) -> None:
        """Set the scores of jobs that cannot be computed, and of those whose gold is unsure: they are known at once."""
        measure, start = column.grader.measure, run.start
        refused = self._eligible.refusals(measure)
        for number in refused.keys() & range(start, start + len(run.jobs)) if refused else ():
            column.put(number - start, refused[number])
        for row in run.unsure if reads_gold_alone(measure) else ():
            lacking = refused.get(start + row)
            if lacking is None or lacking.why == NOTHING_RELEVANT:
                outcome = between(measure, run.jobs[row].sample, self.settings)
                column.put(row, outcome)
                column.noted[row] = outcome

    def _read(self, run: _SameGraders, choice: LabelChoice, columns: Sequence[_Column]) -> None:
        """Add the labels that these measures read, of each sample as deep as the deepest that can be computed looks."""
        if choice not in self._choices:
            self._choices[choice] = _Chosen(PlaceLabels(choice, self.settings), len(self.jobs))
        chosen, odd = self._choices[choice], set[int]().union(*(column.noted for column in columns))
        deepest = _deepest(columns)
        depths: dict[int, int | None] = dict.fromkeys(range(len(run.jobs)), deepest)
        for row in odd:
            if readers := [column for column in columns if row not in column.noted]:
                depths[row] = _deepest(readers)
            else:
                del depths[row]
        chosen.labels.add([run.jobs[row].sample for row in depths], depths.values())
        chosen.add([run.start + row for row in depths])

    def _ask_for(self, run: _SameGraders, row: int, column: _Column) -> None:
        """Ask for the score of one job by a grader that reads no labels."""
        job, grader = run.jobs[row], column.grader
        if grader.by is not None:
            column.programs[row] = self._ask(
                run.start + row, grader.by.grade_sample(job.sample, job.case), [grader.measure]
            )
        elif row not in column.noted:
            program = program_of(grader.measure, job.sample, self.settings)
            column.programs[row] = self._ask(run.start + row, program, [grader.measure])

    def _ask_labels(self, run: _SameGraders, row: int, chosen: _Chosen, columns: Sequence[_Column]) -> None:
        """Ask for the verdicts of one job, where a judge is asked about any of its contexts."""
        sample = chosen.samples[run.start + row]
        if sample >= 0 and chosen.labels.asks(sample):
            measures = [column.grader.measure for column in columns if row not in column.noted]
            questions = _verdicts(chosen.labels.questions(sample))
            chosen.programs[sample] = self._ask(run.start + row, questions, measures)

    def _ask(self, job: int, program: Program[Any], measures: Iterable[Measure]) -> int:
        self.programs.append(program)
        self.owners.append(ProgramOwner(job, tuple(dict.fromkeys(map(str, measures)))))
        return len(self.programs) - 1

    def _note_without_ids(self) -> None:
        gold = [chosen.samples for choice, chosen in self._choices.items() if choice.source == "gold"]
        if gold and (jobs := self._eligible.unidentified):
            self.notes[WITHOUT_IDS] += sum(any(samples[job] >= 0 for samples in gold) for job in jobs)

    def _note_empty(self, sample: Sample) -> None:
        if sample.calls and (empty := sum(not contexts for _, contexts in rankings(sample))):
            self.notes["search calls returned nothing and count 0"] += empty
        texts = [context.text for _, some in rankings(sample) for context in some if context.text]
        if empty := len([text for text in texts if not text[0].isalnum() and blank(text)]):
            self.notes["contexts are empty: no judge is asked about them"] += empty

    @property
    def grader_sets(self) -> list[tuple[Grader, ...]]:
        """The graders of the jobs, those of jobs that follow one another once."""
        return [run.jobs[0].graders for run in self._runs]

    def outcomes(self, results: Sequence[Any]) -> list[dict[str, Outcome]]:
        """For each job: the outcome of each of its graders, by the grader's name; `results` are those of the programs."""
        self._settle(results)
        return [
            {column.grader.name: column.outcome(row) for column in run.columns}
            for run in self._runs
            for row in range(len(run.jobs))
        ]

    def scores(self, results: Sequence[Any]) -> ScoreTable:
        """The scores of the jobs in their order, and of each job in that of its graders."""
        self._settle(results)
        first, *others = [run.scores() for run in self._runs] or [ScoreTable()]
        for table in others:
            first.extend(table, distinct=True)
        return first

    def rankings(self, job: int, measure: Measure) -> tuple[Ranking, ...] | None:
        """The labelled rankings that a ranked measure reads of a job, once it is answered; None where it reads none."""
        chosen = self._choices.get(measure.choice)
        sample = -1 if chosen is None else chosen.samples[job]
        return None if chosen is None or sample < 0 else chosen.labels.rankings(sample)

    def read_as_verdicts(self) -> Iterator[tuple[int, Passages, tuple[str, ...]]]:
        """Of each job the passages whose labels are read in the place of a judge's verdicts, and the measures that do."""
        for choice, chosen in self._choices.items():
            if not self.settings.judged_by or choice.source not in {"judge", "best"}:
                continue
            for run in self._runs:
                ranked = [
                    column
                    for column in run.columns
                    if column.ranked and column.grader.measure.choice == choice
                ]
                readers = [(str(column.grader.measure), set(column.read)) for column in ranked]
                for row in range(len(run.jobs)):
                    sample = chosen.samples[run.start + row]
                    if sample >= 0 and chosen.labels.cells[sample]:
                        measures = tuple(measure for measure, rows in readers if row in rows)
                        yield run.start + row, chosen.labels.questions(sample), measures

    def beside(self, results: Sequence[Any]) -> Iterator[tuple[str, str, list[float]]]:
        """The values of what belongs beside the means, by system and canonical name, of the samples that have any."""
        self._settle(results)
        for run in self._runs:
            for column in run.every[len(run.columns) :]:
                result: dict[str, list[float]] = {}
                for row, (job, value) in enumerate(zip(run.jobs, column.values.tolist(), strict=True)):
                    if row not in column.noted:
                        result.setdefault(job.sample.system, []).append(value)
                for system, values in result.items():
                    yield system, str(column.grader.measure), values

    def asking(self) -> Iterator[tuple[int, str, int, Sequence[int] | None]]:
        """Of each job in turn (its number) the graders that ask: the name, and the number of the program that asks.

        Of a program that others share, the numbers of the passages that no grader before reads; None = all that it asks.
        """
        for run in self._runs:
            for row, _ in enumerate(run.jobs, run.start):
                read: dict[LabelChoice, set[int]] = {}
                for column in run.columns:
                    name, measure = column.grader.name, column.grader.measure
                    if (program := column.programs.get(row - run.start)) is not None:
                        yield row, name, program, None
                    elif column.ranked and row - run.start not in column.noted:
                        chosen = self._choices[measure.choice]
                        if (program := chosen.programs.get(chosen.samples[row])) is not None:
                            before = read.setdefault(measure.choice, set())
                            cells = chosen.labels.cells_read(chosen.samples[row], measure.depth)
                            yield row, name, program, [cell for cell in cells if cell not in before]
                            before.update(cells)

    def _settle(self, results: Sequence[Any]) -> None:
        """Fill in what the programs were answered, and compute the scores of labels."""
        if self._settled:
            return
        self._settled = True
        mixed, repeated = set[int](), 0
        for chosen in self._choices.values():
            for sample, number in chosen.programs.items():
                chosen.labels.take(sample, results[number])
            marks = chosen.labels.mixed
            if marks.any():
                mixed |= {job for job, sample in enumerate(chosen.samples) if sample >= 0 and marks[sample]}
            repeated += chosen.labels.repeated
        self.notes.update({_MIXED: len(mixed), REPEATED: repeated})
        self.notes = +self.notes
        for run in self._runs:
            for column in run.every:
                for row, number in column.programs.items():
                    result = results[number]
                    column.put(row, result.outcome if column.grader.by else result)
                if column.read:
                    self._choices[column.grader.measure.choice].fill(column, run.start)

    def graded(self, results: Sequence[Any]) -> dict[tuple[int, str], Any]:
        """What graders that are no measures found, by the place of the job and the grader's name."""
        return {
            (run.start + row, column.grader.name): results[column.programs[row]]
            for run in self._runs
            for row in range(len(run.jobs) if any(column.grader.by for column in run.columns) else 0)
            for column in run.columns
            if column.grader.by is not None
        }


MOST_ASSIGNED = 4096
"""Combinations of what unsure gold may be, up to which a score's bounds are exact; beyond, they are the measure's range."""


def reads_gold_alone(measure: Measure) -> bool:
    """Whether a measure reads graded gold ids and asks nobody."""
    definition = measure.definition
    return (
        measure.labels == "gold"
        if definition.family == "ranked"
        else "qrels" in definition.needs and not definition.asks
    )


def between(measure: Measure, sample: Sample, settings: Settings) -> Outcome:
    """What a measure over gold can be where some of the gold is unsure: its one value, or its least and its greatest.

    Each unsure document is relevant with its grade, or is not. One that is not known is any document of the lists without a
    grade, one that did not come back, or none at all.
    """
    qrels, choices = dict(sample.qrels or {}), []
    free = [passage.context.id for passage in sample.places() if passage.context.id is not None]
    for name, grade in (sample.unsure or {}).items():
        places = dict.fromkeys(name for name in free if name not in qrels) if name.startswith("*") else ()
        choices.append([{}, {name: grade}, *({name: grade} for name in places)])
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
    outcomes = [outcome[str(measure)] for outcome in block.outcomes(list(map(_unasked, block.programs)))]
    values = [outcome.value for outcome in outcomes if outcome.value is not None]
    if not values:
        return outcomes[0]
    low, high = min(values), max(values)
    return ok(low) if low == high else incomplete(why, (low, high))


def _unasked(program: Program[Outcome]) -> Outcome:
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
    """The scores of one grader for jobs that follow one another.

    Attributes:
        values: The value of each job, nan where there is none.
        noted: The outcomes that say more than a value.
        programs: The program whose result the score of a job is.
        ranked: Whether its scores are a formula on labels.
        read: The jobs whose score is computed from labels.
    """

    __slots__ = ("grader", "noted", "programs", "ranked", "read", "values")

    def __init__(self, grader: Grader, rows: int) -> None:
        self.grader, self.values, self.noted = grader, np.full(rows, nan), dict[int, Outcome]()
        self.programs: dict[int, int] = {}
        self.read: Sequence[int] = ()
        self.ranked = grader.by is None and grader.measure.definition.family == "ranked"

    def put(self, row: int, outcome: Outcome) -> None:
        """Set a job's outcome."""
        if outcome.value is not None:
            self.values[row] = outcome.value
        if outcome.status != "ok" or outcome.why is not None or outcome.items:
            self.noted[row] = outcome

    def outcome(self, row: int) -> Outcome:
        """A job's outcome."""
        return self.noted.get(row) or Outcome(float(self.values[row]))


def _deepest(columns: Iterable[_Column]) -> int | None:
    """How many places of a ranking the measures read; None = all."""
    depths = {column.grader.measure.depth for column in columns}
    return None if None in depths else max(filter(None, depths))


class _SameGraders:
    """Jobs of a block that follow one another and have the same graders.

    Attributes:
        start: The number of the first job in the block.
        columns: The scores of each grader.
        every: These, and those of the measures that belong beside them.
        unsure: The jobs with gold that is unsure.
    """

    def __init__(self, start: int, jobs: Sequence[Job], *, beside: bool) -> None:
        self.start, self.jobs, graders = start, jobs, jobs[0].graders
        more = ranked.belonging_to(grader.measure for grader in graders) if beside else ()
        self.every = [_Column(grader, len(jobs)) for grader in (*graders, *graders_of(tuple(more)))]
        self.columns = self.every[: len(graders)]
        self.unsure = [row for row, job in enumerate(jobs) if job.sample.unsure]

    def scores(self) -> ScoreTable:
        """The scores, job by job."""
        noted = {
            row * len(self.columns) + number: (outcome.status, outcome.why, outcome.bounds)
            for number, column in enumerate(self.columns)
            for row, outcome in column.noted.items()
        }
        names = [(column.grader.name, str(column.grader.measure)) for column in self.columns]
        values = [column.values for column in self.columns]
        return ScoreTable.of_columns([job.sample.key for job in self.jobs], names, values, noted)


class _Chosen:
    """The labels of one choice for a block, and what measures make of them.

    Attributes:
        samples: The number of each job's sample in the table of labels; -1 where none of its measures reads them.
        programs: The number of the program that asks for the labels of each of these samples, where any does.
    """

    def __init__(self, labels: PlaceLabels, jobs: int) -> None:
        self.labels, self.samples, self.programs = labels, [-1] * jobs, dict[int, int]()
        self._values: dict[Measure, Floats | None] = {}

    def add(self, jobs: Sequence[int]) -> None:
        """The samples of these jobs were added to the table."""
        for number, job in enumerate(jobs, len(self.labels.samples) - len(jobs)):
            self.samples[job] = number

    @cached_property
    def _numbers(self) -> Ints:
        return np.array(self.samples)

    def fill(self, column: _Column, start: int) -> None:
        """Set a ranked measure's scores; bounds where a label that it reads is missing. `start`: the column's first job."""
        grader, measure, labels = column.grader, column.grader.measure, self.labels
        at = np.arange(len(column.read)) if type(column.read) is range else np.array(column.read)
        samples = self._numbers[start + at]
        values = self._values_of(measure)
        odd = set(column.read) if values is None else set(at[~np.isfinite(values[samples])].tolist())
        if values is not None:
            column.values[at] = values[samples]
        if measure.labels == "best" or grader.strict or grader.expected_relevant_count:
            odd = set(column.read)
        elif measure.labels != "gold" or open_holes(measure):
            missing = labels.missing_in(measure.depth, holes=open_holes(measure))
            odd |= set(at[missing[samples]].tolist()) if missing.any() else set()
        for row in sorted(odd):
            column.values[row] = nan
            column.put(row, self._outcome(grader, self.samples[start + row]))

    def _values_of(self, measure: Measure) -> Floats | None:
        """The mean over its rankings of each sample; None where the formula fails on the whole table."""
        if measure not in self._values:
            self._values[measure] = None
            with suppress(Exception):  # a user's own formula: which sample it fails on is found one by one
                self._values[measure] = sample_means(measure, self.labels)
        return self._values[measure]

    def _outcome(self, grader: Grader, sample: int) -> Outcome:
        measure, labels = grader.measure, self.labels
        try:
            values = self._values_of(measure)
            if values is None:
                values, at = ranked.values(measure, labels.table_of(sample)), 0
                values = _means(values, [0, len(values)])
            else:
                at = sample
            outcome = ok(float(values[at]))
            if measure.labels != "gold" or open_holes(measure):
                outcome = self._incomplete(measure, sample) or outcome
        except Exception as fault:  # noqa: BLE001 - a user's own formula may fail, on labels that are tried too
            return error(f"{measure} raised {type(fault).__name__}: {fault}")
        if measure.labels == "best" and outcome.status == "ok":
            read = labels.read(sample, measure.depth)
            human = sum(map(labels.by_people, read))
            mixed = "mixed: " if human < len(read) else ""
            outcome = replace(outcome, why=f"{mixed}{human / len(read):.0%} human" if human else None)
        return self._exceptions(grader, outcome, sample)

    def _incomplete(self, measure: Measure, sample: int) -> Outcome | None:
        """An outcome with bounds where a label that the measure reads is missing, else None."""
        labels, holes = self.labels, open_holes(measure)
        read = labels.read(sample, measure.depth)
        failed = [labels.failed[position] for position in read if position in labels.failed]
        unjudged = [
            position for position in read if not labels.labelled[position] and position not in labels.failed
        ]
        whys = failed + ["no label"] * (len(unjudged) if holes else 0)
        if not whys:
            return None
        why = f"{len(whys)} of {len(read)} {'labels' if holes else 'verdicts'} missing: {whys[0]}"
        if len(failed) == len(read):
            return error(why)
        scales = labels.scales_of(sample)
        if measure.labels == "gold":
            top = max(1, *(labels.samples[sample].qrels or {}).values())
        else:
            top = max((int(scale.rpartition("-")[2]) for scale in scales if "-" in scale), default=3)
        scale = "binary" if "binary" in scales else labels.settings.scale
        missing = labels.missing_verdicts(sample, holes=holes)
        return incomplete(why, bounds(measure, labels.table_of(sample), missing, scale=scale, top=top))

    def _exceptions(self, grader: Grader, outcome: Outcome, sample: int) -> Outcome:
        """The outcome with what the grader's options have to say about it; the value stays."""
        if outcome.status != "ok" or not (grader.strict or grader.expected_relevant_count):
            return outcome
        read = self.labels.read(sample, grader.measure.depth)
        relevant = int((self.labels.level[read] >= least_level(grader.measure)).sum()) if len(read) else 0
        notes = []
        if grader.strict and relevant < len(read):
            notes.append(f"{STRICT}{len(read) - relevant} of {len(read)} contexts are not relevant")
        if relevant < (grader.expected_relevant_count or 0):
            notes.append(f"{relevant} relevant contexts found, {grader.expected_relevant_count} expected")
        return replace(outcome, why="; ".join(filter(None, [*notes, outcome.why])) or None)


def sample_means(measure: Measure, labels: PlaceLabels) -> Floats:
    """A ranked measure's value of each sample: the mean over its rankings."""
    return _means(ranked.values(measure, labels.table), labels.rows)


def _means(values: Floats, rows: Sequence[int]) -> Floats:
    """The mean of each sample's rankings, `rows[n]` up to `rows[n + 1]`; 0 where it made no search."""
    if len(values) == len(rows) - 1 == rows[-1] and (np.diff(rows) == 1).all():
        return values
    listed = values.tolist()
    return np.array([fsum(listed[a:b]) / (b - a) if b > a else 0.0 for a, b in pairwise(rows)])
