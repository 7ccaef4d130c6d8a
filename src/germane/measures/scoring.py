"""A block of samples and their graders in, outcomes out. Pure: it says what to ask and what follows from the answers.

Judged measures are programs of their own. Ranked measures that read the same labels share one label program per sample
and one table of labels per block; each is then one kernel call on it. Gold labels need no program at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from math import fsum
from typing import Any, NamedTuple, Protocol, TypeAlias

from germane.measures import ranked
from germane.measures.kernel import RankedLabels
from germane.measures.labels import (
    HELPS,
    PlaceLabel,
    Ranking,
    Settings,
    fill_table,
    given,
    gold_rankings,
    gold_table,
    human_scales,
    missing_verdicts,
    place_labels,
    rankings,
)
from germane.measures.measure import Definition, Measure, Source, define
from germane.measures.outcome import Outcome, bounds, error, incomplete, ok, safely, skipped
from germane.questions.asking import Program, Unanswered
from germane.questions.text import blank
from germane.types import FrozenDict, Json, Sample

PASS, BORDERLINE = 0.8, 0.6
STRICT = "strict: "
"""How the note on a score begins that fails the verdict of a case with a strict grader."""


class CaseResultLike(Protocol):
    """What a grader of an eval file found in a case."""

    @property
    def outcome(self) -> Outcome:
        """What its score row is made of."""

    def as_json(self) -> dict[str, Json]:
        """Score, verdict, hits, misses, reasoning and details."""


class GradesCases(Protocol):
    """A grader of an eval file that is no plain measure."""

    @property
    def asks(self) -> bool:
        """Whether it needs a judge."""

    def grade(self, case: Any) -> Program[CaseResultLike]:
        """The program that grades a case of an eval file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """A measure with what an eval file says about it.

    `name` is what it is reported under. `required` is the least value that the case must reach, as a gate on
    the evaluation, `threshold` the least score of the whole case. `strict` fails the case's verdict on any irrelevant context and leaves the score;
    `expected_relevant_count` adds a note where fewer are found. `by` grades the whole case where that is no
    plain measure's business; `measure` is then the type that its scores are stored under.
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


class _Reading(NamedTuple):
    """What a ranked measure reads: whose labels, held against what, of the calls or of the final list."""

    source: Source
    against: str
    final: bool

    def labels(self, sample: Sample, depth: int | None, settings: Settings) -> Program[tuple[Ranking, ...]]:
        """The program of it."""
        return place_labels(sample, self.source, depth, settings, against=self.against, final=self.final)


def reading_of(measure: Measure) -> _Reading:
    """What a ranked measure reads: those that read the same share one label program per sample."""
    params = measure.settings
    return _Reading(measure.labels, params.get("against", "need"), params.get("over") == "final")


def labels_for(measure: Measure, sample: Sample, settings: Settings) -> Program[tuple[Ranking, ...]]:
    """The labelled rankings that a ranked measure reads of a sample."""
    return reading_of(measure).labels(sample, depth_of(measure), settings)


def depth_of(measure: Measure) -> int | None:
    """How many places of each ranking a measure looks at; None = all."""
    cut = isinstance(measure.cutoff, int) and measure.settings.get("holes") != "condensed"
    return measure.cutoff if cut else None  # type: ignore[return-value]


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
    known, params = measure.definition, dict(measure.settings)
    if known.cutoff != "none":
        params["k"] = measure.cutoff
    if known.settings:
        params["settings"] = settings
    return safely(str(measure), lambda: known.compute(sample, **params))


def applicable(measure: Measure, sample: Sample, settings: Settings) -> Outcome | None:
    """None where the measure can be computed for this sample, else why not."""
    known = measure.definition
    for need in known.needs:
        if _absent(sample, need):
            return error(sample.error) if sample.error else skipped(_ABSENT.get(need, f"no {need}"))
    if sample.answerable is False and (known.answerable or known.family == "ranked"):
        return skipped(_UNANSWERABLE)
    unlabelled = _unlabelled(measure, sample, settings) if known.family == "ranked" else None
    return skipped(unlabelled) if unlabelled else None


def _absent(sample: Sample, need: str) -> bool:
    if need == "contexts":
        return sample.contexts is None and sample.calls is None
    if need in {"query", "reference", "response"}:
        return given(sample, need) is None
    return getattr(sample, need, None) in (None, "", ())


def _unlabelled(measure: Measure, sample: Sample, settings: Settings) -> str | None:
    """Why a sample does not have the labels that a ranked measure reads, if it has not."""
    source = measure.labels
    if source == "gold":
        if sample.qrels is None:
            return NO_QRELS
        least = measure.settings.get("rel") or 1
        return None if any(grade >= least for grade in sample.qrels.values()) else NOTHING_RELEVANT
    if source in {"human", "best"}:
        refusal = _off_scale(measure, human_scales(sample, settings), settings)
        if refusal or source == "human":
            nothing = not any(contexts for _, contexts in rankings(sample))
            return refusal or (None if nothing or human_scales(sample, settings) else "no human labels")
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


@dataclass(slots=True)
class Block:
    """What a block of jobs needs asked (`programs`), and what its measures say once that is answered (`outcomes`).

    `notes` counts what a reader of the scores should know of the samples.
    """

    jobs: Sequence[Job]
    settings: Settings
    notes: Counter[str] = field(default_factory=Counter)
    _labels: dict[_Reading, dict[int, int]] = field(default_factory=dict)
    _direct: dict[tuple[int, str], int | Outcome] = field(default_factory=dict)
    _wanted: dict[Measure, list[tuple[int, Grader]]] = field(default_factory=dict)
    _programs: list[Program[Any]] = field(default_factory=list)
    owners: list[ProgramOwner] = field(default_factory=list)
    """For whom each program asks."""

    def programs(self) -> list[Program[Any]]:
        """Every program of the block, in the order of its samples."""
        plans: dict[int, list[_Plan]] = {}
        for index, job in enumerate(self.jobs):
            self._note_empty(job.sample)
            depths: dict[_Reading, list[int | None]] = {}
            plan = plans.get(id(job.graders))
            if plan is None:
                plan = plans[id(job.graders)] = [self._plan(grader) for grader in job.graders]
            for grader, reading, depth, wanted in plan:
                refusal = None if grader.by else applicable(grader.measure, job.sample, self.settings)
                if reading is not None and refusal is None:
                    depths.setdefault(reading, []).append(depth)
                    wanted.append((index, grader))
                    continue
                self._direct[index, grader.name] = refusal or self._add(
                    grader.by.grade(job.case)
                    if grader.by
                    else program_of(grader.measure, job.sample, self.settings),
                    index,
                    [grader.measure],
                )
            for reading, cuts in depths.items():
                self._labels.setdefault(reading, {})[index] = self._add_labels(reading, cuts, index)
        return self._programs

    def _plan(self, grader: Grader) -> _Plan:
        measure = grader.measure
        if grader.by is not None or measure.definition.family == "judged":
            return grader, None, None, []
        return grader, reading_of(measure), depth_of(measure), self._wanted.setdefault(measure, [])

    def _add(self, program: Program[Any], index: int, measures: Iterable[Measure]) -> int:
        self._programs.append(program)
        self.owners.append(ProgramOwner(index, tuple(map(str, measures))))
        return len(self._programs) - 1

    def _add_labels(self, reading: _Reading, cuts: Sequence[int | None], index: int) -> int:
        if reading.source == "gold":
            return -1
        depth = None if None in cuts else max(cut for cut in cuts if cut is not None)
        job = self.jobs[index]
        measures = dict.fromkeys(grader.measure for grader in job.graders)
        mine = [one for one in measures if one in self._wanted and reading_of(one) == reading]
        return self._add(reading.labels(job.sample, depth, self.settings), index, mine)

    def _note_empty(self, sample: Sample) -> None:
        lists = [contexts for _, contexts in rankings(sample)]
        if sample.calls and (empty := sum(not contexts for contexts in lists)):
            self.notes["search calls returned nothing and count 0"] += empty
        if empty := sum(bool(c.text) and blank(c.text) for contexts in lists for c in contexts):
            self.notes["contexts are empty: no judge is asked about them"] += empty

    def outcomes(self, results: Sequence[Any]) -> list[dict[str, Outcome]]:
        """For each job: the outcome of each of its graders, by the grader's name."""
        found: list[dict[str, Outcome]] = [{} for _ in self.jobs]
        for (index, name), direct in self._direct.items():
            result = direct if isinstance(direct, Outcome) else results[direct]
            found[index][name] = result if isinstance(result, Outcome) else result.outcome
        labelled = {reading: self._labelled(reading, results) for reading in self._labels}
        mixed = {index for one in labelled.values() for index in one.mixed}
        if mixed:
            self.notes["samples have labels on two scales: all count as yes or no"] += len(mixed)
        if repeated := sum(one.repeated for one in labelled.values()):
            self.notes[REPEATED] += repeated
        for measure, wanted in self._wanted.items():
            if wanted:
                mine = labelled[reading_of(measure)]
                values = mine.outcomes(measure, [index for index, _ in wanted], self.settings)
                for (index, grader), outcome in zip(wanted, values, strict=True):
                    found[index][grader.name] = _noted(grader, outcome, mine, index)
        order = [[grader.name for grader in job.graders] for job in self.jobs]
        return [{name: one[name] for name in names} for one, names in zip(found, order, strict=True)]

    def graded(self, results: Sequence[Any]) -> dict[tuple[int, str], CaseResultLike]:
        """What graders that are no measures found, by the place of the job and the grader's name."""
        programs = {key: results[one] for key, one in self._direct.items() if isinstance(one, int)}
        return {key: found for key, found in programs.items() if not isinstance(found, Outcome)}

    def _labelled(self, reading: _Reading, results: Sequence[Any]) -> _Labelled:
        at = self._labels[reading]
        samples = {index: self.jobs[index].sample for index in at}
        if reading.source == "gold":
            table, lengths, repeated = gold_table(samples.values(), final=reading.final)
            return _Labelled(reading, samples, table, _rows_of(at, lengths), {}, repeated)
        lists: dict[int, tuple[Ranking, ...]] = {index: results[program] for index, program in at.items()}
        table = fill_table([ranking for found in lists.values() for ranking in found], reading.source)
        return _Labelled(reading, samples, table, _rows_of(at, map(len, lists.values())), lists)


class ProgramOwner(NamedTuple):
    """For whom a program asks: the place of its job in the block, and the canonical names of the measures."""

    job: int
    measures: tuple[str, ...]


_Plan: TypeAlias = tuple[Grader, _Reading | None, int | None, list[tuple[int, Grader]]]
"""A grader with what is known of its measure once per block: what it reads, how deep, and who wants it."""


def _rows_of(indexes: Iterable[int], lengths: Iterable[int]) -> dict[int, tuple[int, int]]:
    return dict(zip(indexes, pairwise(accumulate(lengths, initial=0)), strict=True))


@dataclass(slots=True)
class _Labelled:
    """The labels of one reading for a block: one table, in which job `index` has the rows `rows[index]`.

    `lists` are the labelled rankings where there was something to ask; gold has none until one is looked at.
    """

    reading: _Reading
    samples: Mapping[int, Sample]
    table: RankedLabels
    rows: Mapping[int, tuple[int, int]]
    lists: dict[int, tuple[Ranking, ...]]
    repeated: int = 0

    @property
    def mixed(self) -> list[int]:
        """The jobs whose labels are on two scales."""
        return [index for index, lists in self.lists.items() if lists and lists[0].mixed]

    def rankings(self, index: int) -> tuple[Ranking, ...]:
        """The labelled rankings of a job."""
        if index not in self.lists:
            self.lists[index] = gold_rankings(self.samples[index], final=self.reading.final)
        return self.lists[index]

    def outcomes(self, measure: Measure, indexes: Sequence[int], settings: Settings) -> list[Outcome]:
        """The outcome of a ranked measure for these jobs."""
        values: list[float] | None = None
        with suppress(Exception):  # a user's own formula; its fault is the error of one sample
            values = ranked.values(measure, self.table).tolist()
        if values is not None and self.reading.source == "gold" and not open_holes(measure):
            return [ok(_mean(values[slice(*self.rows[index])])) for index in indexes]
        return [self._outcome(measure, index, values, settings) for index in indexes]

    def _outcome(
        self, measure: Measure, index: int, values: Sequence[float] | None, settings: Settings
    ) -> Outcome:
        """The outcome where no label that the measure reads is missing, else its bounds."""
        start, end = self.rows[index]
        try:
            if values is None:
                own = ranked.values(measure, self.table.rows_from(start, end)).tolist()
            else:
                own = values[start:end]
            if partly := self._partly(measure, index, settings):
                return partly
        except Exception as fault:  # noqa: BLE001 - a user's own formula may fail on labels that are tried
            return error(f"{measure} raised {type(fault).__name__}: {fault}")
        found = ok(_mean(own))
        if self.reading.source != "best":
            return found
        labels = self.read(measure, index)
        human = sum(isinstance(label, PlaceLabel) and label.source == "human" for label in labels)
        mixed = "mixed: " if human < len(labels) else ""
        return replace(found, why=f"{mixed}{human / len(labels):.0%} human" if human else None)

    def read(self, measure: Measure, index: int) -> list[PlaceLabel | Unanswered | None]:
        """The labels of the places that the measure reads."""
        depth = depth_of(measure)
        return [place.label for ranking in self.rankings(index) for place in ranking.places[:depth]]

    def _partly(self, measure: Measure, index: int, settings: Settings) -> Outcome | None:
        """An outcome with bounds where a label that the measure reads is missing, else None."""
        read, holes = self.read(measure, index), open_holes(measure)
        failed = [label.why for label in read if isinstance(label, Unanswered)]
        whys = failed + ["no label"] * (sum(label is None for label in read) if holes else 0)
        if not whys:
            return None
        why = f"{len(whys)} of {len(read)} {'labels' if holes else 'verdicts'} missing: {whys[0]}"
        if len(failed) == len(read):
            return error(why)
        lists = self.rankings(index)
        labels = [place.label for one in lists for place in one.places if isinstance(place.label, PlaceLabel)]
        table = self.table.rows_from(*self.rows[index])
        if self.reading.source == "gold":
            top = max(1, *map(int, (self.samples[index].qrels or {}).values()))
        else:
            top = max(
                (int(label.scale.rpartition("-")[2]) for label in labels if "-" in label.scale), default=3
            )
        scale = "binary" if any(label.binary for label in labels) else settings.scale
        missing = missing_verdicts(lists, holes=holes)
        return incomplete(why, bounds(measure, table, missing, scale=scale, top=top))


def _mean(values: Sequence[float]) -> float:
    """The mean over the sample's rankings; 0 where it made no search."""
    return values[0] if len(values) == 1 else fsum(values) / len(values) if values else 0.0


def _noted(grader: Grader, outcome: Outcome, labelled: _Labelled, index: int) -> Outcome:
    """The outcome with what the grader's options have to say about it; the value stays."""
    if outcome.status != "ok" or not (grader.strict or grader.expected_relevant_count):
        return outcome
    labels = labelled.read(grader.measure, index)
    relevant = sum(is_relevant(label, grader.measure) for label in labels)
    notes = []
    if grader.strict and relevant < len(labels):
        notes.append(f"{STRICT}{len(labels) - relevant} of {len(labels)} contexts are not relevant")
    if relevant < (grader.expected_relevant_count or 0):
        notes.append(f"{relevant} relevant contexts found, {grader.expected_relevant_count} expected")
    return replace(outcome, why="; ".join(filter(None, [*notes, outcome.why])) or None)
