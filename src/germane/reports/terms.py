"""Collect the verdicts on passages and claims from which judged scores are computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import fsum, nan
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from germane.encoding import batched
from germane.folder.tables import Tables
from germane.judging.recorded import StoredAnswers
from germane.measures.measure import Measure
from germane.measures.scoring import program_of
from germane.places.lists import Settings
from germane.places.places import Places
from germane.places.table import Floats
from germane.questions.asking import Unanswered, replay
from germane.questions.question import AnyQuestion
from germane.questions.relevance import HELPS
from germane.reports.summary import PASSAGE_MEANS, VERDICT_MEANS
from germane.tables.labels import LabelBook
from germane.tables.scores import SampleKey
from germane.types import Sample

Ints: TypeAlias = NDArray[np.intp]

BLOCK = 500  # samples whose verdicts are read together


def reads_verdicts(measure: Measure, settings: Settings) -> bool:
    """Return True if a ranked measure uses the judge's verdicts on passages, which people can label too."""
    return measure.definition.family == "ranked" and measure.labels == "judge" and not settings.judged_by


def claim_verdicts(
    measure: Measure, sample: Sample, settings: Settings, answers: StoredAnswers
) -> Iterator[tuple[AnyQuestion, str, int, float, float]]:
    """Yield (question, item, claim, verdict, weight) for each yes/no verdict that the score adds up.

    `claim` is its number in the question, 0 for the whole question; `verdict` is nan if the judge failed.
    """
    if measure.name not in VERDICT_MEANS:
        return
    _, exchange = replay(program_of(measure, sample, settings), answers.values)
    for question, answer in exchange:
        lost = isinstance(answer, Unanswered)
        if question.kind == "support" and (claims := question.subjects):
            values = [None] * len(claims) if lost else answer
            for claim, (item, value) in enumerate(zip(question.parts(), values, strict=True), 1):
                verdict = nan if value is None else float(bool(value.contexts))
                yield question, item, claim, verdict, 1 / len(claims)
        elif question.kind == "sufficiency":
            yield question, question.item, 0, nan if lost else float(answer.sufficient), 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTerms:
    """The verdicts from which one system's scores of a measure are computed, one row per passage or claim.

    A relevant or supported item adds `weight` to its case's score; `weight` is nan if the score is not a sum
    over verdicts. All trials of a case share its rows.
    """

    measure: Measure
    cases: Mapping[str, Sequence[float]]  # the values of each case's trials
    rankings: Sequence[Sequence[Sequence[Sequence[str]]]]  # the items of each ranking of each case's trials
    items: Sequence[str]
    case: Ints
    verdict: Floats
    weight: Floats
    scale: str

    @property
    def kind(self) -> str:
        """The kind of the verdicts: relevance, support or sufficiency."""
        if self.measure.name not in VERDICT_MEANS:
            return "relevance"
        return "sufficiency" if self.measure.name == "context_sufficiency" else "support"

    @property
    def values(self) -> Floats:
        """Each verdict as 1 if the item counts as relevant, supported or sufficient, otherwise 0."""
        return _counted(self.measure, self.verdict, self.scale)

    def people(self, items: Iterable[str], book: LabelBook, unsure: float) -> Floats:
        """Return the share of people who call each item relevant; who is unsure counts as `unsure`."""
        counted = cache(lambda answer, scale: float(_counted(self.measure, float(answer), scale)))
        shares = []
        for item in items:
            people = ([counted(vote.answer, vote.scale) for vote in some] for some in book.by_person(item))
            votes = [fsum(some) / len(some) for some in people]
            votes += [unsure] * book.unsure(item)
            shares.append(fsum(votes) / len(votes) if votes else nan)
        return np.array(shares)

    def unreadable(self, book: LabelBook) -> str | None:
        """Return why the grades in `book` do not tell what is relevant unless `rel` is set, or None."""
        other = {label.scale for label in book} - {"graded", "binary"}
        if other and self.measure.settings.get("rel", 0) is None:
            where = f"people's grades are on the scale {min(other)}"
            return f"{where}: set the lowest relevant grade, e.g. {self.measure.name}(rel=2)"
        return None


def _counted(measure: Measure, answer: float | Floats, scale: str) -> Floats:
    """Return 1 if a grade on `scale` counts as relevant for the measure, otherwise 0."""
    threshold = 1.0 if scale == "binary" else float(measure.settings.get("rel") or HELPS)
    return np.where(np.asarray(answer) >= threshold, 1.0, 0.0)


_Row: TypeAlias = tuple[SampleKey, str, str, float, float]
"""A sample's key, an item that its score is computed from, and the verdict's scale, value and weight."""


def score_terms(tables: Tables, settings: Settings) -> dict[tuple[str, str], ScoreTerms]:
    """Return the verdicts from which the scores are computed, by (measure, system)."""
    table = tables.scores
    values: dict[tuple[str, str], tuple[Measure, dict[SampleKey, float]]] = {}
    for (name, canonical), system in product(table.measures, table.systems()[0]):
        rows = table.rows_of((name, canonical), system)
        scored = (table.samples[number] for number in table.sample[rows].tolist())
        of_sample = dict(zip(scored, table.taken(rows).value.tolist(), strict=True))
        values[name, system] = Measure.remembered(canonical), of_sample
    found: dict[tuple[str, str], list[_Row]] = {names: [] for names in values}
    rankings: dict[tuple[str, str], dict[SampleKey, list[list[str]]]] = {names: {} for names in values}
    answers = StoredAnswers(tables.judgements)
    for samples in batched(tables.samples, BLOCK):
        read = answers.places_reader(samples, settings)
        keys = [sample.key for sample in samples]
        for names, (measure, of_sample) in values.items():
            here = {at: key for at, key in enumerate(keys) if key in of_sample}
            if here and reads_verdicts(measure, settings):
                places = read(measure.choice, measure.depth)
                found[names] += _rows_of(places, measure, here)
                if measure.name not in PASSAGE_MEANS:
                    for at, key in here.items():
                        lists = [places.items[span.start : span.stop] for span in places.spans_of(at, None)]
                        rankings[names][key] = lists
            for at, key in here.items() if measure.name in VERDICT_MEANS else ():
                for _, item, _, verdict, weight in claim_verdicts(measure, samples[at], settings, answers):
                    found[names].append((key, item, "binary", verdict, weight))
    return {names: _joined(*values[names], rows, rankings[names]) for names, rows in found.items()}


def _rows_of(places: Places, measure: Measure, samples: Mapping[int, SampleKey]) -> Iterator[_Row]:
    """Yield a row for each passage that a measure uses; `samples` maps indices in `places` to sample keys."""
    counts, lengths = np.diff(places.rows), np.diff(np.array(places.pointers))
    weights = np.full(len(places.level), nan)
    if measure.name in PASSAGE_MEANS:
        cut = measure.k if measure.name == "P" else None
        weights = np.repeat(1 / (np.repeat(counts, counts) * (cut or np.maximum(lengths, 1))), lengths)
    own, known = str(places.settings.scale), zip(places.scale, places.labelled.tolist(), strict=True)
    scales = [scale if of_judge else own for scale, of_judge in known]
    sample, grades, weight = (of.tolist() for of in (places.sample, places.grades, weights))
    rows = zip(sample, places.items, scales, grades, weight, strict=True)
    return ((samples[at], *row) for at, *row in rows if at in samples)


def _joined(
    measure: Measure,
    values: Mapping[SampleKey, float],
    rows: Sequence[_Row],
    rankings: Mapping[SampleKey, list[list[str]]],
) -> ScoreTerms:
    """Join the rows of each case's trials; an item's weight is its mean weight over the trials."""
    cases: dict[str, list[float]] = {}
    lists: dict[str, list[list[list[str]]]] = {}
    for key, value in values.items():
        cases.setdefault(key[0], []).append(value)
        lists.setdefault(key[0], []).append(rankings.get(key, []))
    code = {case: number for number, case in enumerate(cases)}
    first: dict[tuple[int, str], _Row] = {}
    weights: dict[tuple[int, str], list[float]] = {}
    for row in rows:
        of = code[row[0][0]], row[1]
        first.setdefault(of, row)
        weights.setdefault(of, []).append(row[4])
    trials = [*map(len, cases.values())]
    return ScoreTerms(
        measure=measure,
        cases=cases,
        rankings=list(lists.values()),
        items=[item for _, item in first],
        case=np.array([case for case, _ in first], np.intp),
        verdict=np.array([row[3] for row in first.values()], float),
        weight=np.array([fsum(of) / trials[case] for (case, _), of in weights.items()]),
        scale="binary" if {row[2] for row in first.values()} == {"binary"} else "graded",
    )
