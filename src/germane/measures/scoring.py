"""A block of samples and their graders in, outcomes out. Pure: it says what to ask and what follows from the answers.

Judged measures are programs of their own. Ranked measures share one label program a source and sample, then one
kernel call a measure for the whole block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from typing import Any, NamedTuple

from germane.measures import ranked
from germane.measures.bounds import bounds
from germane.measures.graders import STRICT, Grader
from germane.measures.labels import Label, Ranking
from germane.measures.measure import Measure, Source
from germane.measures.outcome import Outcome, Result, error, incomplete, ok, safely, skipped
from germane.measures.passages import given
from germane.measures.placing import place_labels
from germane.measures.settings import Settings
from germane.measures.tables import fill_table, missing_verdicts
from germane.questions.asking import Program, Unanswered, ask
from germane.questions.text import blank
from germane.types import Sample

__all__ = ["Block", "Job", "applicable", "depth_of", "is_relevant", "labels_for", "program_of", "reading_of"]

_ABSENT = {"contexts": "contexts are not known", "gold": "no gold groups", "forbidden": "no forbidden ids"}
_UNANSWERABLE = "unanswerable: nothing can be relevant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One sample with the graders that apply to it."""

    sample: Sample
    graders: tuple[Grader, ...]


@dataclass(slots=True)
class Block:
    """What a block of jobs needs asked (`programs`), and what its measures say once that is answered (`outcomes`)."""

    jobs: Sequence[Job]
    settings: Settings
    notes: Counter[str] = field(default_factory=Counter)
    _labels: dict[_Reading, dict[int, int]] = field(default_factory=dict)
    _direct: dict[tuple[int, str], int | Outcome] = field(default_factory=dict)
    _programs: list[Program[Any]] = field(default_factory=list)

    def programs(self) -> list[Program[Any]]:
        """Every program of the block, in the order of its samples."""
        for index, job in enumerate(self.jobs):
            self._note_empty(job.sample)
            depths: dict[_Reading, list[int | None]] = {}
            for grader in job.graders:
                if grader.script is not None:
                    self._direct[index, grader.name] = self._add(_script(grader))
                elif (refusal := applicable(grader.measure, job.sample, self.settings)) is not None:
                    self._direct[index, grader.name] = refusal
                elif grader.measure.definition.family == "judged":
                    self._direct[index, grader.name] = self._add(
                        program_of(grader.measure, job.sample, self.settings)
                    )
                else:
                    depths.setdefault(reading_of(grader.measure), []).append(depth_of(grader.measure))
            for reading, cuts in depths.items():
                depth = None if None in cuts else max(cut for cut in cuts if cut is not None)
                labels = reading.labels(job.sample, depth, self.settings)
                self._labels.setdefault(reading, {})[index] = self._add(labels)
        return self._programs

    def _note_empty(self, sample: Sample) -> None:
        if sample.calls and (empty := sum(not call.contexts for call in sample.calls)):
            self.notes["search calls returned nothing and count 0"] += empty
        lists = [call.contexts for call in sample.calls] if sample.calls else [sample.contexts or ()]
        if empty := sum(bool(c.text) and blank(c.text) for contexts in lists for c in contexts):
            self.notes["contexts are empty: no judge is asked about them"] += empty

    def _add(self, program: Program[Any]) -> int:
        self._programs.append(program)
        return len(self._programs) - 1

    def outcomes(self, results: Sequence[Any]) -> list[dict[str, Outcome]]:
        """For each job: the outcome of each of its graders, by the grader's name."""
        found: list[dict[str, Outcome]] = [{} for _ in self.jobs]
        ranked_by: dict[Measure, list[tuple[int, Grader]]] = {}
        for index, job in enumerate(self.jobs):
            for grader in job.graders:
                direct = self._direct.get((index, grader.name))
                if direct is None:
                    ranked_by.setdefault(grader.measure, []).append((index, grader))
                else:
                    found[index][grader.name] = direct if isinstance(direct, Outcome) else results[direct]
        labelled = {reading: self._labelled(reading, results) for reading in self._labels}
        mixed = {
            index
            for one in labelled.values()
            for index, lists in one.rankings.items()
            if lists and lists[0].mixed
        }
        if mixed:
            self.notes["samples have labels on two scales: all count as yes or no"] += len(mixed)
        for measure, wanted in ranked_by.items():
            mine = labelled[reading_of(measure)]
            values = _ranked(measure, mine, self.settings)
            for index, grader in wanted:
                found[index][grader.name] = _noted(grader, values[index], mine.rankings[index])
        return found

    def _labelled(self, reading: _Reading, results: Sequence[Any]) -> _Labelled:
        rankings = {index: results[at] for index, at in self._labels[reading].items()}
        for lists in rankings.values():
            self._note(lists)
        return _Labelled(
            reading.source, rankings, {index: self.jobs[index].sample.qrels or {} for index in rankings}
        )

    def _note(self, rankings: tuple[Ranking, ...]) -> None:
        if repeated := sum(ranking.repeated for ranking in rankings):
            self.notes[
                "contexts repeat a document that stands higher in the same list (the first counts)"
            ] += repeated


class _Reading(NamedTuple):
    """What a ranked measure reads: whose labels, held against what, of the calls or of the final list."""

    source: Source
    against: str
    final: bool

    def labels(self, sample: Sample, depth: int | None, settings: Settings) -> Program[tuple[Ranking, ...]]:
        """The program of it."""
        return place_labels(sample, self.source, depth, settings, against=self.against, final=self.final)


def reading_of(measure: Measure) -> _Reading:
    """What a ranked measure reads: those that read the same share one label program a sample."""
    params = measure.settings
    return _Reading(measure.labels, params.get("against", "need"), params.get("over") == "final")


def labels_for(measure: Measure, sample: Sample, settings: Settings) -> Program[tuple[Ranking, ...]]:
    """The labelled rankings that a ranked measure reads of a sample."""
    return reading_of(measure).labels(sample, depth_of(measure), settings)


def program_of(measure: Measure, sample: Sample, settings: Settings) -> Program[Outcome]:
    """A judged measure's program for a sample; it never raises."""
    known, params = measure.definition, measure.settings
    if known.cutoff != "none":
        params["k"] = measure.cutoff
    if known.settings:
        params["settings"] = settings
    return safely(str(measure), lambda: known.compute(sample, **params))


@dataclass(frozen=True, slots=True)
class _Labelled:
    source: Source
    rankings: Mapping[int, tuple[Ranking, ...]]
    qrels: Mapping[int, Mapping[str, int]]


def applicable(measure: Measure, sample: Sample, settings: Settings) -> Outcome | None:
    """None where the measure can be computed for this sample, else why not."""
    known = measure.definition
    for need in known.needs:
        if _absent(sample, need):
            missing = _ABSENT.get(need, f"no {need}")
            return error(sample.error) if sample.error else skipped(missing)
    if sample.answerable is False and (known.answerable or known.family == "ranked"):
        return skipped(_UNANSWERABLE)
    unlabelled = _unlabelled(measure, sample, settings) if known.family == "ranked" else None
    return skipped(unlabelled) if unlabelled else None


def _unlabelled(measure: Measure, sample: Sample, settings: Settings) -> str | None:
    """Why a sample does not have the labels that a ranked measure reads, if it has not."""
    if measure.labels == "gold":
        if sample.qrels is None:
            return "no qrels"
        known = any(grade >= (measure.settings.get("rel") or 1) for grade in sample.qrels.values())
        return None if known else "no relevant document is known"
    if measure.labels == "human":
        return None if _has_labels(sample) else "no human labels"
    if measure.settings.get("against") == "call":
        return None
    if given(sample, "query") is None:
        return "no query"
    return None if _shown(sample, settings) else f"no {settings.against} to judge against"


def _shown(sample: Sample, settings: Settings) -> bool:
    asked = settings.against in {"reference", "response"}
    return not asked or given(sample, settings.against) is not None


def _absent(sample: Sample, need: str) -> bool:
    if need == "contexts":
        return sample.contexts is None and sample.calls is None
    if need in {"query", "reference", "response"}:
        return given(sample, need) is None
    return getattr(sample, need, None) in (None, "", ())


def _has_labels(sample: Sample) -> bool:
    lists = [call.contexts for call in sample.calls] if sample.calls else [sample.contexts or ()]
    contexts = [context for one in lists for context in one]
    return not contexts or any(c.grade is not None or c.relevant is not None for c in contexts)


def depth_of(measure: Measure) -> int | None:
    """How many places of each ranking a measure looks at; None = all."""
    return measure.cutoff if measure.settings.get("holes") != "condensed" else None


def _script(grader: Grader) -> Program[Outcome]:
    def program() -> Program[Result]:
        assert grader.script is not None
        result = yield from ask(grader.script)
        return result.score

    return safely(grader.name, program)


def _ranked(measure: Measure, labelled: _Labelled, settings: Settings) -> dict[int, Outcome]:
    """The outcome of a ranked measure for every job whose rankings carry its labels."""
    rows = labelled.rankings
    flat = [ranking for lists in rows.values() for ranking in lists]
    known = [labelled.qrels[index] for index, lists in rows.items() for _ in lists]
    try:
        values = iter(ranked.values(measure, fill_table(flat, labelled.source, known)).tolist())
    except Exception as fault:  # noqa: BLE001 - a user's own formula; its fault is the error of one sample
        if len(rows) == 1:
            return dict.fromkeys(rows, error(f"{measure} raised {type(fault).__name__}: {fault}"))
        alone = (replace(labelled, rankings={index: lists}) for index, lists in rows.items())
        return {index: found for one in alone for index, found in _ranked(measure, one, settings).items()}
    outcomes = {}
    for index, lists in rows.items():
        mine = [next(values) for _ in lists]
        outcomes[index] = _partly(measure, lists, labelled, index, settings) or ok(
            fsum(mine) / len(mine) if mine else 0.0
        )
    return outcomes


def _noted(grader: Grader, outcome: Outcome, lists: Sequence[Ranking]) -> Outcome:
    """The outcome with what the grader's options have to say about it; the value stays."""
    if outcome.status != "ok" or not (grader.strict or grader.expected_relevant_count):
        return outcome
    labels = [place.label for ranking in lists for place in ranking.places[: depth_of(grader.measure)]]
    relevant = sum(is_relevant(label, grader.measure) for label in labels)
    notes = []
    if grader.strict and relevant < len(labels):
        notes.append(f"{STRICT}{len(labels) - relevant} of {len(labels)} contexts are not relevant")
    if relevant < (grader.expected_relevant_count or 0):
        notes.append(f"{relevant} relevant contexts found, {grader.expected_relevant_count} expected")
    return replace(outcome, why="; ".join(notes) or None)


def is_relevant(label: Label | Unanswered | None, measure: Measure) -> bool:
    """Whether a label reaches the measure's threshold, or that of the labels' own scale."""
    least = measure.settings.get("rel") or (1 if measure.labels == "gold" else 2)
    return isinstance(label, Label) and label.level >= least


def _partly(
    measure: Measure, lists: Sequence[Ranking], labelled: _Labelled, index: int, settings: Settings
) -> Outcome | None:
    """An outcome with bounds where a verdict that the measure reads is missing, else None."""
    read = [place.label for ranking in lists for place in ranking.places[: depth_of(measure)]]
    whys = [label.why for label in read if isinstance(label, Unanswered)]
    if not whys:
        return None
    why = f"{len(whys)} of {len(read)} verdicts missing: {whys[0]}"
    if len(whys) == len(read):
        return error(why)
    table = fill_table(lists, labelled.source, [labelled.qrels[index]] * len(lists))
    labels = [place.label for ranking in lists for place in ranking.places]
    binary = any(isinstance(label, Label) and label.binary for label in labels)
    scale = "binary" if binary else settings.scale
    return incomplete(why, bounds(measure, table, missing_verdicts(lists), scale=scale))
