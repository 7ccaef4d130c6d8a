"""A block of samples and their graders in, outcomes out. Pure: it says what to ask and what follows from the answers.

Judged measures are programs of their own. Ranked measures that read the same labels share one label program per sample
and one table of labels per block; each is then one kernel call on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from math import fsum
from typing import Any, NamedTuple, Protocol, cast

from germane.measures import ranked
from germane.measures.labels import (
    HELPS,
    PlaceLabel,
    Ranking,
    Settings,
    fill_table,
    given,
    missing_verdicts,
    people_on,
    place_labels,
    rankings,
)
from germane.measures.measure import Definition, LabelChoice, Measure, define
from germane.measures.outcome import Outcome, bounds, error, incomplete, ok, safely, skipped
from germane.questions.asking import Program, Unanswered
from germane.questions.text import blank
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
    raise AssertionError("a grader of an eval file is no measure")


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
for _name, _formula in _GRADERS.items():
    define(
        Definition(
            name=_name,
            family="graded",
            compute=_never,
            needs=(),
            formula=_formula,
            doc="A grader, declared in an eval file.",
            reference="AgentV",
            aliases=(_name.replace("_", "-"),) if "_" in _name else (),
        )
    )


_ABSENT = {"contexts": "contexts are not known", "gold": "no gold groups", "forbidden": "no forbidden ids"}
_UNANSWERABLE = "unanswerable: nothing can be relevant"
NO_QRELS, NOTHING_RELEVANT = "no qrels", "no relevant document is known"
REPEATED = "contexts repeat a document that stands higher in the same list (the first counts)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One sample with the graders that apply to it, and the case that it stands in where any of them reads that."""

    sample: Sample
    graders: tuple[Grader, ...]
    case: Any = None


def labels_for(measure: Measure, sample: Sample, settings: Settings) -> Program[tuple[Ranking, ...]]:
    """The labelled rankings that a ranked measure reads of a sample."""
    return place_labels(sample, measure.choice, measure.depth, settings)


def open_holes(measure: Measure) -> bool:
    """Whether a place that nobody judged leaves the score open instead of counting as not relevant."""
    holes = measure.settings.get("holes", "zero")
    about_holes = measure.name == "Judged" or measure.settings.get("part") == "residual"
    return not about_holes and (holes == "bounds" or (holes == "zero" and measure.labels == "human"))


def is_relevant(label: PlaceLabel | Unanswered | None, measure: Measure) -> bool:
    """Whether a label reaches the measure's threshold, or that of the labels' own scale."""
    least = measure.settings.get("rel") or (1 if measure.labels == "gold" else HELPS)
    return isinstance(label, PlaceLabel) and label.level >= least


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
    known = measure.definition
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
    unlabelled = _unlabelled(measure, sample, settings) if known.family == "ranked" else None
    return skipped(unlabelled) if unlabelled else None


def _unlabelled(measure: Measure, sample: Sample, settings: Settings) -> str | None:
    """Why a sample does not have the labels that a ranked measure reads, if it has not."""
    source = measure.labels
    if source == "gold":
        if sample.qrels is None:
            return NO_QRELS
        least = measure.settings.get("rel") or 1
        return None if any(grade >= least for grade in sample.qrels.values()) else NOTHING_RELEVANT
    if source in {"human", "best"}:
        contexts = [context for _, found in rankings(sample) for context in found]
        scales = {label.scale for label in map(people_on(sample, settings), contexts) if label is not None}
        refusal = _off_scale(measure, scales, settings)
        if refusal or source == "human":
            return refusal or (None if scales or not contexts else "no human labels")
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


class Block:
    """What a block of jobs needs asked, and what its measures say once that is answered.

    Attributes:
        programs: What is asked, in the order of the samples.
        owners: For whom each program asks.
        notes: Counts of what a reader of the scores should know of the samples.
    """

    def __init__(self, jobs: Sequence[Job], settings: Settings, notes: Counter[str] | None = None) -> None:
        self.jobs, self.settings = jobs, settings
        self.notes: Counter[str] = Counter() if notes is None else notes
        self.programs: list[Program[Any]] = []
        self.owners: list[ProgramOwner] = []
        self._found: list[dict[str, Outcome | int]] = []
        """Per job and grader: the outcome, or the number of the program that it comes of."""
        self._labels: dict[LabelChoice, list[int]] = {}
        """The numbers of the label programs of each choice."""
        for job in jobs:
            self._note_empty(job.sample)
            self._found.append(self._start(job))

    def _start(self, job: Job) -> dict[str, Outcome | int]:
        found: dict[str, Outcome | int] = {}
        ranked_ones: dict[LabelChoice, list[Grader]] = {}
        for grader in job.graders:
            measure = grader.measure
            if grader.by is not None:
                found[grader.name] = self._ask(grader.by.grade(job.case), [measure])
            elif refusal := applicable(measure, job.sample, self.settings):
                found[grader.name] = refusal
            elif measure.definition.family == "judged":
                found[grader.name] = self._ask(program_of(measure, job.sample, self.settings), [measure])
            else:
                found[grader.name] = -1
                ranked_ones.setdefault(measure.choice, []).append(grader)
        for choice, graders in ranked_ones.items():
            measures = [grader.measure for grader in graders]
            depths = [measure.depth for measure in measures]
            depth = None if None in depths else max(filter(None, depths))
            number = self._ask(place_labels(job.sample, choice, depth, self.settings), measures)
            self._labels.setdefault(choice, []).append(number)
            found |= dict.fromkeys((grader.name for grader in graders), number)
        return found

    def _ask(self, program: Program[Any], measures: Iterable[Measure]) -> int:
        self.programs.append(program)
        self.owners.append(ProgramOwner(len(self._found), tuple(dict.fromkeys(map(str, measures)))))
        return len(self.programs) - 1

    def _note_empty(self, sample: Sample) -> None:
        lists = [contexts for _, contexts in rankings(sample)]
        if sample.calls and (empty := sum(not contexts for contexts in lists)):
            self.notes["search calls returned nothing and count 0"] += empty
        if empty := sum(bool(c.text) and blank(c.text) for contexts in lists for c in contexts):
            self.notes["contexts are empty: no judge is asked about them"] += empty

    def outcomes(self, results: Sequence[Any]) -> list[dict[str, Outcome]]:
        """For each job: the outcome of each of its graders, by the grader's name; `results` are those of the programs."""
        labels: dict[int, _Labelled] = {}
        for numbers in self._labels.values():
            labels |= dict.fromkeys(numbers, _Labelled({number: results[number] for number in numbers}))
        lists = {number: results[number] for number in labels}
        mixed = {self.owners[number].job for number, found in lists.items() if found and found[0].mixed}
        if mixed:
            self.notes["samples have labels on two scales: all count as yes or no"] += len(mixed)
        if repeated := sum(ranking.repeated for found in lists.values() for ranking in found):
            self.notes[REPEATED] += repeated
        outcomes = []
        for job, found in zip(self.jobs, self._found, strict=True):
            outcomes.append(mine := dict[str, Outcome]())
            for grader in job.graders:
                one = found[grader.name]
                if isinstance(one, int) and one in labels:
                    one = labels[one].outcome(grader, one, self.settings)
                elif isinstance(one, int):
                    one = results[one].outcome if grader.by else results[one]
                mine[grader.name] = one
        return outcomes

    def graded(self, results: Sequence[Any]) -> dict[tuple[int, str], Any]:
        """What graders that are no measures found, by the place of the job and the grader's name."""
        return {
            (index, grader.name): results[cast("int", found[grader.name])]
            for index, (job, found) in enumerate(zip(self.jobs, self._found, strict=True))
            for grader in job.graders
            if grader.by is not None
        }


class _Labelled:
    """The labels of one choice for a block: one table, which holds the rankings of one label program after the other."""

    def __init__(self, lists: Mapping[int, tuple[Ranking, ...]]) -> None:
        self._lists = lists
        self._table = fill_table([ranking for found in lists.values() for ranking in found])
        ends = accumulate(map(len, lists.values()), initial=0)
        self._rows = dict(zip(lists, pairwise(ends), strict=True))
        self._values: dict[str, list[float] | None] = {}

    def outcome(self, grader: Grader, number: int, settings: Settings) -> Outcome:
        """The outcome of a ranked measure for the job of this program; bounds where a label that it reads is missing."""
        measure, lists = grader.measure, self._lists[number]
        start, end = self._rows[number]
        try:
            values = self._values_of(measure, start, end)
            found = ok(fsum(values) / len(values) if values else 0.0)  # it made no search
            if measure.labels != "gold" or open_holes(measure):
                found = self._incomplete(measure, number, settings) or found
        except Exception as fault:  # noqa: BLE001 - a user's own formula may fail, on labels that are tried too
            return error(f"{measure} raised {type(fault).__name__}: {fault}")
        if measure.labels == "best" and found.status == "ok":
            read = _read(measure, lists)
            human = sum(isinstance(label, PlaceLabel) and label.source == "human" for label in read)
            mixed = "mixed: " if human < len(read) else ""
            found = replace(found, why=f"{mixed}{human / len(read):.0%} human" if human else None)
        return _noted(grader, found, lists)

    def _values_of(self, measure: Measure, start: int, end: int) -> list[float]:
        """The values of these rows. Where a formula fails on the whole table, each job has its own try."""
        name = str(measure)
        if name not in self._values:
            self._values[name] = None
            with suppress(Exception):
                self._values[name] = ranked.values(measure, self._table).tolist()
        values = self._values[name]
        if values is not None:
            return values[start:end]
        own: list[float] = ranked.values(measure, self._table.rows_from(start, end)).tolist()
        return own

    def _incomplete(self, measure: Measure, number: int, settings: Settings) -> Outcome | None:
        """An outcome with bounds where a label that the measure reads is missing, else None."""
        lists = self._lists[number]
        read, holes = _read(measure, lists), open_holes(measure)
        failed = [label.why for label in read if isinstance(label, Unanswered)]
        whys = failed + ["no label"] * (sum(label is None for label in read) if holes else 0)
        if not whys:
            return None
        why = f"{len(whys)} of {len(read)} {'labels' if holes else 'verdicts'} missing: {whys[0]}"
        if len(failed) == len(read):
            return error(why)
        labels = [place.label for one in lists for place in one.places if isinstance(place.label, PlaceLabel)]
        if measure.labels == "gold":
            top = max(1, *(lists[0].known or ()))
        else:
            grades = (int(label.scale.rpartition("-")[2]) for label in labels if "-" in label.scale)
            top = max(grades, default=3)
        scale = "binary" if any(label.scale == "binary" for label in labels) else settings.scale
        table, missing = self._table.rows_from(*self._rows[number]), missing_verdicts(lists, holes=holes)
        return incomplete(why, bounds(measure, table, missing, scale=scale, top=top))


def _read(measure: Measure, lists: Sequence[Ranking]) -> list[PlaceLabel | Unanswered | None]:
    """The labels of the places that a measure reads."""
    return [place.label for ranking in lists for place in ranking.places[: measure.depth]]


def _noted(grader: Grader, outcome: Outcome, lists: Sequence[Ranking]) -> Outcome:
    """The outcome with what the grader's options have to say about it; the value stays."""
    if outcome.status != "ok" or not (grader.strict or grader.expected_relevant_count):
        return outcome
    labels = _read(grader.measure, lists)
    relevant = sum(is_relevant(label, grader.measure) for label in labels)
    notes = []
    if grader.strict and relevant < len(labels):
        notes.append(f"{STRICT}{len(labels) - relevant} of {len(labels)} contexts are not relevant")
    if relevant < (grader.expected_relevant_count or 0):
        notes.append(f"{relevant} relevant contexts found, {grader.expected_relevant_count} expected")
    return replace(outcome, why="; ".join(filter(None, [*notes, outcome.why])) or None)
