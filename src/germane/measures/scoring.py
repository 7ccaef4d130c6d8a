"""A block of samples and their graders in, outcomes out. Pure: it says what to ask and what follows from the answers.

Judged measures are programs of their own. Ranked measures that read the same labels share one label program per sample
and one table of labels per block; each is then one kernel call on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from math import fsum, nan
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

import numpy as np

from germane.measures import ranked
from germane.measures.kernel import Floats
from germane.measures.labels import (
    PlaceLabel,
    PlaceLabels,
    Ranking,
    Settings,
    given,
    place_labels,
    rankings,
)
from germane.measures.measure import Definition, LabelChoice, Measure, define
from germane.measures.outcome import NO_IDS, Outcome, bounds, error, incomplete, ok, safely, skipped
from germane.questions.asking import Program, Unanswered
from germane.questions.relevance import HELPS, Passages
from germane.questions.text import blank
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

    def grade(self, case: Any) -> Program[Any]:
        """The program that grades a case of an eval file; its result has an `outcome` and is shown `as_json`."""


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


_GRADERS = {
    "code_judge": "what the script prints as score",
    "llm_judge": "the model's score; of a rubric: satisfied weight / whole weight",
    "field_accuracy": "weight of the matching fields / weight of all",
    "tool_trajectory": "expected calls that were made / expected calls",
    "latency": "1 within the threshold, else 0",
    "cost": "1 within the budget, else 0",
    "token_usage": "1 within the limits, else 0",
    "execution_metrics": "limits that are kept / limits",
    "skill_trigger": "1 where the agent used the skill as it should",
    "composite": "what the aggregator makes of the members' scores",
    **dict.fromkeys(
        ("contains", "contains_any", "contains_all", "icontains", "icontains_any", "icontains_all", "starts_with",
         "ends_with", "equals", "regex", "is_json"),
        "1 where the answer passes the test, else 0",
    ),
}  # fmt: skip
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


for _name, _formula in _GRADERS.items():
    define_grader(_name, _formula, "AgentV")


_ABSENT = {"contexts": "contexts are not known", "gold": "no gold groups", "forbidden": "no forbidden ids"}
_UNANSWERABLE = "unanswerable: nothing can be relevant"
NO_QRELS, NOTHING_RELEVANT = "no qrels", "no relevant document is known"
_MIXED = "samples have labels on two scales: all count as yes or no"
REPEATED = "contexts repeat a document that stands higher in the same list (the first counts)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One sample with the graders that apply to it, and the case that it stands in where any of them reads that."""

    sample: Sample
    graders: tuple[Grader, ...]
    case: Any = None


def labels_for(measure: Measure, sample: Sample, settings: Settings) -> Program[tuple[Ranking, ...]]:
    """The labelled rankings that a ranked measure reads of a sample, place by place."""
    found = yield from place_labels(sample, measure.choice, measure.depth, settings)
    return found.rankings(0)


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
    known = measure.definition
    params = {name: value for name, value in measure.settings.items() if name not in known.when}
    if known.cutoff != "none":
        params["k"] = measure.cutoff
    if known.settings:
        params["settings"] = settings
    return safely(str(measure), lambda: known.compute(sample, **params))


def applicable(measure: Measure, sample: Sample, settings: Settings) -> Outcome | None:
    """None where the measure can be computed for this sample, else why not."""
    refused = _lacking(measure.definition, sample)
    if (
        refused is None
        and measure.definition.family == "ranked"
        and (why := _unlabelled(measure, sample, settings))
    ):
        return skipped(why)
    return refused


def _lacking(known: Definition, sample: Sample) -> Outcome | None:
    """Why a sample does not have what measures of this definition need, if it has not."""
    for need in known.needs:
        if need == "contexts":
            there = sample.contexts is not None or sample.calls is not None
        elif need in {"query", "reference", "response"}:
            there = given(sample, need) is not None
        else:
            there = getattr(sample, need, None) not in (None, "", ())
        if not there:
            return error(sample.error) if sample.error else skipped(_ABSENT.get(need, f"no {need}"))
    if sample.answerable is False and (known.answerable or known.family == "ranked"):
        return skipped(_UNANSWERABLE)
    return None


def _without_ids(sample: Sample) -> bool:
    """Whether something came back and nothing of it has an id."""
    came = [context.id for _, contexts in rankings(sample) for context in contexts[:1]]
    if not came or any(came):  # the first of each list tells, nearly always
        return False
    return not any(context.id for _, contexts in rankings(sample) for context in contexts)


def _without_gold(measure: Measure, sample: Sample) -> str | None:
    """Why gold says nothing of a sample's contexts, if it does not."""
    if sample.qrels is None:
        return NO_QRELS
    least = measure.settings.get("rel") or 1
    if max(sample.qrels.values(), default=least - 1) < least:
        return NOTHING_RELEVANT
    return NO_IDS if _without_ids(sample) else None


def _unlabelled(measure: Measure, sample: Sample, settings: Settings) -> str | None:
    """Why a sample does not have the labels that a ranked measure reads, if it has not."""
    source = measure.labels
    if source == "gold":
        return _without_gold(measure, sample)
    if source in {"human", "best"}:
        people = PlaceLabels(LabelChoice("human", "need", final=False), settings)
        people.add(sample, None)
        refusal = _off_scale(measure, people.scales_of(0), settings)
        if refusal or source == "human":
            return refusal or (
                None if people.labelled.any() or not len(people.labelled) else "no human labels"
            )
    if measure.settings.get("against") == "call":
        return None
    if given(sample, "query") is None:
        return "no query"
    asked = settings.against in {"reference", "response", "criterion"}
    return (
        f"no {settings.against} to judge against" if asked and not given(sample, settings.against) else None
    )


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


Found: TypeAlias = "Outcome | int | LabelChoice"
"""What is known of a score before anything is answered: its outcome, the program that it comes of, or the labels."""


class Block:
    """What a block of jobs needs asked, and what its measures say once that is answered.

    Attributes:
        programs: What is asked, in the order of the samples.
        owners: For whom each program asks.
        asked: Of each program the passages whose relevance it asks; None where it is a measure's own.
        notes: Counts of what a reader of the scores should know of the samples.
    """

    def __init__(self, jobs: Sequence[Job], settings: Settings, notes: Counter[str] | None = None) -> None:
        self.jobs, self.settings = jobs, settings
        self.notes: Counter[str] = Counter() if notes is None else notes
        self.programs: list[Program[Any]] = []
        self.owners: list[ProgramOwner] = []
        self._found: list[Sequence[Found]] = []
        """Per job, what is known of the score of each grader."""
        self._choices: dict[LabelChoice, _Chosen] = {}
        for number, job in enumerate(jobs):
            self._note_empty(job.sample)
            self._found.append(self._start(number, job))

    def _start(self, number: int, job: Job) -> list[Found]:
        sample, found = job.sample, list[Found]()
        read: dict[LabelChoice, list[Measure]] = {}
        for grader in job.graders:
            measure, known = grader.measure, grader.measure.definition
            if grader.by is not None:
                found.append(self._ask(number, grader.by.grade(job.case), [measure]))
                continue
            refused = _lacking(known, sample)
            if refused is None and known.family == "judged":
                found.append(self._ask(number, program_of(measure, sample, self.settings), [measure]))
            elif refused is not None:
                found.append(refused)
            elif why := _unlabelled(measure, sample, self.settings):
                found.append(skipped(why))
            else:
                found.append(measure.choice)
                read.setdefault(measure.choice, []).append(measure)
        for choice, measures in read.items():
            self._read(number, sample, choice, measures)
        return found

    def _read(self, number: int, sample: Sample, choice: LabelChoice, measures: Sequence[Measure]) -> None:
        """Add the labels that these measures read of a sample, as deep as the deepest looks."""
        if choice not in self._choices:
            self._choices[choice] = _Chosen(PlaceLabels(choice, self.settings))
        chosen, depths = self._choices[choice], [measure.depth for measure in measures]
        chosen.rows[number] = row = len(chosen.rows)
        chosen.labels.add(sample, None if None in depths else max(filter(None, depths)))
        if chosen.labels.asks(row):
            chosen.programs[row] = self._ask(number, _verdicts(chosen.labels.questions(row)), measures)

    def _ask(self, job: int, program: Program[Any], measures: Iterable[Measure]) -> int:
        self.programs.append(program)
        self.owners.append(ProgramOwner(job, tuple(dict.fromkeys(map(str, measures)))))
        return len(self.programs) - 1

    def _note_empty(self, sample: Sample) -> None:
        lists = [contexts for _, contexts in rankings(sample)]
        if sample.calls and (empty := sum(not contexts for contexts in lists)):
            self.notes["search calls returned nothing and count 0"] += empty
        if empty := sum([c.text != "" and blank(c.text) for contexts in lists for c in contexts]):
            self.notes["contexts are empty: no judge is asked about them"] += empty

    def outcomes(self, results: Sequence[Any]) -> list[dict[str, Outcome]]:
        """For each job: the outcome of each of its graders, by the grader's name; `results` are those of the programs."""
        self._take(results)
        outcomes: list[dict[str, Outcome]] = []
        for start, end in self._runs():
            columns = self._columns(start, end, results)
            names = [grader.name for grader in self.jobs[start].graders]
            outcomes += [
                {name: column.outcome(row) for name, column in zip(names, columns, strict=True)}
                for row in range(end - start)
            ]
        return outcomes

    def scores(self, results: Sequence[Any]) -> ScoreTable:
        """The scores of the jobs in their order, and of each job in that of its graders."""
        self._take(results)
        tables = []
        for start, end in self._runs():
            jobs, graders = self.jobs[start:end], self.jobs[start].graders
            columns = self._columns(start, end, results)
            noted = {
                row * len(graders) + number: (one.status, one.why, one.bounds)
                for number, column in enumerate(columns)
                for row, one in column.noted.items()
            }
            names = [(grader.name, str(grader.measure)) for grader in graders]
            values = [column.values for column in columns]
            tables.append(ScoreTable.of_columns([job.sample.key for job in jobs], names, values, noted))
        first, *others = tables or [ScoreTable()]
        for table in others:
            first.extend(table, distinct=True)
        return first

    def rankings(self, job: int, measure: Measure) -> tuple[Ranking, ...] | None:
        """The labelled rankings that a ranked measure reads of a job, once it is answered; None where it reads none."""
        chosen = self._choices.get(measure.choice)
        return None if chosen is None or job not in chosen.rows else chosen.labels.rankings(chosen.rows[job])

    def read_as_verdicts(self) -> Iterator[tuple[int, Passages, tuple[str, ...]]]:
        """Of each job the passages whose labels are read in the place of a judge's verdicts, and the measures that do."""
        for choice, chosen in self._choices.items():
            if not self.settings.judged_by or choice.source not in {"judge", "best"}:
                continue
            for job, row in chosen.rows.items():
                if chosen.labels.cells[row]:
                    found = zip(self.jobs[job].graders, self._found[job], strict=True)
                    measures = tuple(str(grader.measure) for grader, one in found if one == choice)
                    yield job, chosen.labels.questions(row), measures

    def beside(self, measures: Sequence[Measure]) -> Iterator[tuple[Measure, Sample, float]]:
        """The values of further measures of gold labels, of the samples that have any: from the same labels."""
        for measure in measures:
            chosen = self._choices.get(measure.choice)
            known = {} if chosen is None else chosen.rows
            column = _Column.empty(len(self.jobs))
            jobs = [
                n for n, job in enumerate(self.jobs) if applicable(measure, job.sample, self.settings) is None
            ]
            if rows := {n: known[n] for n in jobs if n in known}:
                assert chosen is not None
                chosen.fill(column, Grader(measure=measure), rows)
            for n in jobs:
                if n not in known:  # no measure of the block reads its labels
                    other = Block(
                        [Job(sample=self.jobs[n].sample, graders=graders_of((measure,)))], self.settings
                    )
                    column.put(n, other.outcomes(())[0][str(measure)])
            for n in jobs:
                if n not in column.noted:
                    yield measure, self.jobs[n].sample, float(column.values[n])

    def _take(self, results: Sequence[Any]) -> None:
        """Fill in what the programs of labels were answered."""
        mixed, repeated = set[int](), 0
        for chosen in self._choices.values():
            for row, number in chosen.programs.items():
                chosen.labels.take(row, results[number])
            marks = chosen.labels.mixed
            mixed |= {job for job, row in chosen.rows.items() if marks[row]} if marks.any() else set()
            repeated += chosen.labels.repeated
        self.notes.update({_MIXED: len(mixed), REPEATED: repeated})
        self.notes = +self.notes

    def _runs(self) -> Iterator[tuple[int, int]]:
        """Where jobs begin and end that follow one another and have the same graders."""
        start = 0
        for _, some in groupby(self.jobs, key=lambda job: id(job.graders)):
            end = start + sum(1 for _ in some)
            yield start, end
            start = end

    def _columns(self, start: int, end: int, results: Sequence[Any]) -> list[_Column]:
        """The scores of these jobs, which have the same graders, by grader."""
        columns = []
        for number, grader in enumerate(self.jobs[start].graders if end > start else ()):
            column, read = _Column.empty(end - start), dict[int, int]()
            for row, found in enumerate(self._found[start:end]):
                one = found[number]
                if isinstance(one, LabelChoice):
                    read[row] = self._choices[one].rows[start + row]
                elif isinstance(one, int):
                    column.put(row, results[one].outcome if grader.by else results[one])
                else:
                    column.put(row, one)
            if read:
                self._choices[grader.measure.choice].fill(column, grader, read)
            columns.append(column)
        return columns

    def graded(self, results: Sequence[Any]) -> dict[tuple[int, str], Any]:
        """What graders that are no measures found, by the place of the job and the grader's name."""
        return {
            (index, grader.name): results[cast("int", one)]
            for index, (job, found) in enumerate(zip(self.jobs, self._found, strict=True))
            for grader, one in zip(job.graders, found, strict=True)
            if grader.by is not None
        }


def _verdicts(questions: Passages) -> Program[tuple[Any, ...]]:
    """The program that asks for a sample's verdicts."""
    return (yield questions)


@dataclass(slots=True)
class _Column:
    """The scores of one grader: the value of each job, nan where there is none, and the outcomes that say more than a value."""

    values: Floats
    noted: dict[int, Outcome]

    @classmethod
    def empty(cls, rows: int) -> _Column:
        """No score yet."""
        return cls(np.full(rows, nan), {})

    def put(self, row: int, outcome: Outcome) -> None:
        """Set a job's outcome."""
        if outcome.value is not None:
            self.values[row] = outcome.value
        if outcome.status != "ok" or outcome.why is not None or outcome.items:
            self.noted[row] = outcome

    def outcome(self, row: int) -> Outcome:
        """A job's outcome."""
        return self.noted.get(row) or Outcome(float(self.values[row]))


class _Chosen:
    """The labels of one choice for a block, and what measures make of them.

    Attributes:
        rows: The number of each job's sample in the table of labels.
        programs: The number of the program that asks for the labels of each of these, where any does.
    """

    def __init__(self, labels: PlaceLabels) -> None:
        self.labels, self.rows, self.programs = labels, dict[int, int](), dict[int, int]()
        self._values: dict[Measure, Floats | None] = {}

    def fill(self, column: _Column, grader: Grader, rows: Mapping[int, int]) -> None:
        """Set a ranked measure's scores of these rows; bounds where a label that it reads is missing."""
        measure, labels = grader.measure, self.labels
        at, samples = np.array([*rows]), np.array([*rows.values()])
        values = self._values_of(measure)
        odd = set(rows) if values is None else set(at[~np.isfinite(values[samples])].tolist())
        if values is not None:
            column.values[at] = values[samples]
        if measure.labels == "best" or grader.strict or grader.expected_relevant_count:
            odd = set(rows)
        elif measure.labels != "gold" or open_holes(measure):
            missing = labels.missing_in(measure.depth, holes=open_holes(measure))
            odd |= set(at[missing[samples]].tolist()) if missing.any() else set()
        for row in sorted(odd):
            column.values[row] = nan
            column.put(row, self._outcome(grader, rows[row]))

    def _values_of(self, measure: Measure) -> Floats | None:
        """The mean over its rankings of each sample; None where the formula fails on the whole table."""
        if measure not in self._values:
            self._values[measure] = None
            with suppress(Exception):  # a user's own formula: which sample it fails on is found one by one
                self._values[measure] = _means(ranked.values(measure, self.labels.table), self.labels.rows)
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
            found = ok(float(values[at]))
            if measure.labels != "gold" or open_holes(measure):
                found = self._incomplete(measure, sample) or found
        except Exception as fault:  # noqa: BLE001 - a user's own formula may fail, on labels that are tried too
            return error(f"{measure} raised {type(fault).__name__}: {fault}")
        if measure.labels == "best" and found.status == "ok":
            read = labels.read(sample, measure.depth)
            human = sum(map(labels.by_people, read))
            mixed = "mixed: " if human < len(read) else ""
            found = replace(found, why=f"{mixed}{human / len(read):.0%} human" if human else None)
        return self._noted(grader, found, sample)

    def _incomplete(self, measure: Measure, sample: int) -> Outcome | None:
        """An outcome with bounds where a label that the measure reads is missing, else None."""
        labels, holes = self.labels, open_holes(measure)
        read = labels.read(sample, measure.depth)
        failed = [labels.failed[place] for place in read if place in labels.failed]
        unjudged = [place for place in read if not labels.labelled[place] and place not in labels.failed]
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

    def _noted(self, grader: Grader, outcome: Outcome, sample: int) -> Outcome:
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


def _means(values: Floats, rows: Sequence[int]) -> Floats:
    """The mean of each sample's rankings, `rows[n]` up to `rows[n + 1]`; 0 where it made no search."""
    if len(values) == len(rows) - 1 == rows[-1] and (np.diff(rows) == 1).all():
        return values
    listed = values.tolist()
    return np.array([fsum(listed[a:b]) / (b - a) if b > a else 0.0 for a, b in pairwise(rows)])
