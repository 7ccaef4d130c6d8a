"""The verdicts that judged scores rest on.

The program of each score runs again on the stored answers, so that every verdict is found under the item that people label.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from math import fsum, nan
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from germane.folder.rows import Tables
from germane.judging.driver import replay
from germane.judging.recorded import StoredAnswers
from germane.measures.measure import Measure
from germane.measures.scoring import program_of
from germane.places.places import Places
from germane.places.settings import Settings
from germane.places.table import Floats, LabelChoice
from germane.questions.asking import Unanswered
from germane.questions.question import AnyQuestion
from germane.questions.relevance import HELPS
from germane.reports.summary import PASSAGE_MEANS, VERDICT_MEANS
from germane.tables.columns import batched
from germane.tables.labels import LabelBook
from germane.types import Sample

Ints: TypeAlias = NDArray[np.intp]

_COMPLEMENTS = {"hallucination"}
"""Measures that count what does not hold."""
BLOCK = 500
"""Samples whose verdicts are read together."""


class ScoreTerm(NamedTuple):
    """One verdict that a sample's score rests on.

    Attributes:
        item: The item of the verdict.
        asked, number: The question that it answers, as one of several: made only where `question` is read.
        part: The number of the claim in that question, from 1; 0 = the verdict answers the whole question.
        scale: The scale of the verdict.
        verdict: The judge's grade, or 1 and 0 for yes and no; nan if the judge gave none.
        chance: The probability that the verdict reaches the measure's threshold, if the judge gives a distribution; else nan.
        weight: What a hit adds to the score; nan if the score is not a sum over hits.
        call: The number of the search that returned the passage, from 1; 0 = the verdict is not about a single passage.
        rank: The rank of the passage in that search, from 1; 0 = the verdict is not about a single passage.
    """

    item: str
    asked: Sequence[AnyQuestion]
    number: int
    part: int
    scale: str
    verdict: float
    chance: float
    weight: float
    call: int = 0
    rank: int = 0

    @property
    def question(self) -> AnyQuestion:
        """The question that the verdict answers."""
        return self.asked[self.number]


_Columns: TypeAlias = tuple[list[int], list[str], list[float], list[float]]
"""The number of the question, the scale, the grade and the chance of a hit of each place of a block."""


class JudgedSamples:
    """A block of samples and the stored answers about them; measures that read the same labels share their places."""

    def __init__(self, samples: Sequence[Sample], settings: Settings, answers: StoredAnswers) -> None:
        self._samples, self._settings, self._answers = samples, settings, answers
        self._places: dict[tuple[LabelChoice, int | None], Places] = {}
        self._columns: dict[tuple[LabelChoice, int | None, Any], _Columns] = {}

    def terms(self, measure: Measure, number: int) -> list[ScoreTerm]:
        """Return the verdicts that the score of a sample rests on; none if people cannot label them."""
        if measure.name in VERDICT_MEANS:
            return list(self._verdicts(measure, self._samples[number]))
        return list(self._ranked(measure, number)) if self._reads_places(measure) else []

    def rankings(self, measure: Measure, number: int) -> list[list[str]]:
        """Return the items of each ranking that a measure reads of a sample; [] unless it is a ranked measure."""
        if not self._reads_places(measure):
            return []
        places = self._read(measure)
        items = places.questions(number).items
        return [[items[places.verdict[at]] for at in span] for span in places.spans_of(number, None)]

    def _reads_places(self, measure: Measure) -> bool:
        ranked = measure.definition.family == "ranked"
        return ranked and measure.labels == "judge" and not self._settings.judged_by

    def _read(self, measure: Measure) -> Places:
        key = measure.choice, measure.depth
        if key not in self._places:
            self._places[key] = places = Places(measure.choice, self._settings)
            places.add(self._samples, repeat(measure.depth))
            self._answers.label(places)
        return self._places[key]

    def _ranked(self, measure: Measure, number: int) -> Iterator[ScoreTerm]:
        """Iterate over the places that a ranked measure reads of a sample."""
        places = self._read(measure)
        asked, rankings = places.questions(number), places.spans_of(number, None)
        verdicts, scales, grades, chances = self._columns_of(measure, places)
        cut = measure.k if measure.name == "P" else None
        for call, span in enumerate(rankings, 1):
            weight = 1 / (len(rankings) * (cut or len(span) or 1)) if measure.name in PASSAGE_MEANS else nan
            for rank, at in enumerate(span, 1):
                cell = verdicts[at]
                verdict = scales[at], grades[at], chances[at]
                yield ScoreTerm(asked.items[cell], asked, cell, 0, *verdict, weight, call, rank)

    def _columns_of(self, measure: Measure, places: Places) -> _Columns:
        """Return what a measure reads of each place of the block, made once: question, scale, grade, chance of a hit."""
        key = measure.choice, measure.depth, measure.settings.get("rel")
        if key not in self._columns:
            judged = places.labelled.astype(bool)
            judged[list(places.failed)] = False
            own = str(self._settings.scale)
            named = zip(places.scale.tolist(), judged.tolist(), strict=True)
            self._columns[key] = (
                list(places.verdict),
                [places.scales[scale] if known else own for scale, known in named],
                np.where(judged, places.grades, nan).tolist(),
                places.chances_at(measure.settings.get("rel") or HELPS).tolist(),
            )
        return self._columns[key]

    def _verdicts(self, measure: Measure, sample: Sample) -> Iterator[ScoreTerm]:
        """Iterate over the verdicts on claims, or on all passages together, that a measure takes the mean of."""
        _, exchange = replay(program_of(measure, sample, self._settings), self._answers.look_up)
        for question, answer in exchange:
            lost = isinstance(answer, Unanswered)
            if question.kind == "support" and (claims := question.subjects):
                answers = [None] * len(claims) if lost else answer
                for claim, (item, value) in enumerate(zip(question.parts(), answers, strict=True), 1):
                    verdict = nan if value is None else float(bool(value.contexts))
                    yield ScoreTerm(item, (question,), 0, claim, "binary", verdict, nan, 1 / len(claims))
            elif question.kind == "sufficiency":
                verdict = nan if lost else float(answer.sufficient)
                yield ScoreTerm(question.item, (question,), 0, 0, "binary", verdict, nan, 1.0)


@dataclass(slots=True, kw_only=True)
class ScoreTerms:
    """The terms of one measure of one system: one row per distinct item of a case; a case may have several trials.

    `names` are the ids of the cases. `weight` is what a hit adds to the case's score; nan if that is not a sum over hits.
    """

    measure: Measure
    names: Sequence[str]
    cases: Sequence[Sequence[float]]
    """The values of each case's trials."""
    rankings: Sequence[Sequence[Sequence[Sequence[str]]]]
    """The items of each ranking of each case's trials."""
    items: Sequence[str]
    case: Ints
    verdict: Floats
    chance: Floats
    weight: Floats
    rank: Ints
    scale: str
    kind: str

    @property
    def values(self) -> Floats:
        """The value of each verdict: 1 for a hit, else 0; for a distribution the probability of a hit."""
        counted = np.asarray(_counted(self.measure, self.verdict, self.scale), float)
        return np.where(np.isnan(self.chance), counted, self.chance)

    @property
    def proxy(self) -> Floats:
        """The best predictor of a person's yes or no: the judge's probability of a hit, else its grade."""
        grade = 1 - self.verdict if self.measure.name in _COMPLEMENTS else self.verdict
        return np.where(np.isnan(self.chance), grade, self.chance)

    def people(self, items: Iterable[str], book: LabelBook, unsure: float) -> Floats:
        """Return for each item the share of the people asked who call it a hit; nan if nobody was asked.

        A person who could not tell counts as `unsure`: 0 gives the smallest possible share, 1 the largest.
        """
        counted = cache(lambda answer, scale: float(_counted(self.measure, float(answer), scale)))
        shares = []
        for item in items:
            people = ([counted(vote.answer, vote.scale) for vote in some] for some in book.by_person(item))
            votes = [fsum(some) / len(some) for some in people]
            votes += [unsure] * book.unsure(item)
            shares.append(fsum(votes) / len(votes) if votes else nan)
        return np.array(shares)

    def unreadable(self, book: LabelBook) -> str | None:
        """Return why people's labels do not say what counts (their scale has no known threshold), or None."""
        other = {label.scale for label in book} - {"graded", "binary"}
        if other and self.measure.settings.get("rel", 0) is None:
            where = f"people's grades are on the scale {min(other)}"
            return f"{where}: say from which grade a context counts, rel="
        return None


def _counted(measure: Measure, answer: Any, scale: str) -> Any:
    """Return 1 if a verdict is a hit, else 0; of an array elementwise."""
    threshold = 1.0 if scale == "binary" else float(measure.settings.get("rel") or HELPS)
    hit = np.asarray(answer) >= threshold
    return np.where(hit ^ (measure.name in _COMPLEMENTS), 1.0, 0.0)


def score_terms(tables: Tables, settings: Settings) -> dict[tuple[str, str], ScoreTerms]:
    """Return the terms of each measure of each system, by both names; every sample is read once."""
    table = tables.scores
    systems, system = table.keys.systems()
    values: dict[tuple[str, str], tuple[Measure, dict[int, float]]] = {}
    for name, canonical in table.measures:
        rows = table.rows_of((name, canonical))
        sample, value = table.sample[rows], table.taken(rows).value
        for code, of in enumerate(systems):
            mine = system[sample] == code
            of_sample = dict(zip(sample[mine].tolist(), value[mine].tolist(), strict=True))
            values[name, of] = Measure.remembered(canonical), of_sample
    read: dict[tuple[str, str], dict[int, _SampleTerms]] = {name: {} for name in values}
    answers = StoredAnswers(tables.judgements)
    for samples in batched(tables.samples, BLOCK):
        judged = JudgedSamples(samples, settings, answers)
        for at, one in enumerate(samples):
            number = table.keys.find(one.key)
            for names, (measure, of_sample) in values.items():
                if number is not None and number in of_sample:
                    read[names][number] = judged.terms(measure, at), judged.rankings(measure, at)
    ids = list(table.keys.ids())
    return {name: _joined(*values[name], terms, ids) for name, terms in read.items()}


_SampleTerms: TypeAlias = tuple[list[ScoreTerm], list[list[str]]]
"""The terms of a sample, and the items of its rankings."""


def _joined(
    measure: Measure, values: Mapping[int, float], read: Mapping[int, _SampleTerms], ids: Sequence[str]
) -> ScoreTerms:
    """Return the terms of samples, by their number, as one row per distinct item of a case."""
    cases: dict[str, list[float]] = {}
    rankings: dict[str, list[list[list[str]]]] = {}
    rows: dict[tuple[str, str], tuple[ScoreTerm, list[float]]] = {}
    for number, value in values.items():
        terms, lists = read.get(number, ([], []))
        cases.setdefault(ids[number], []).append(value)
        rankings.setdefault(ids[number], []).append(lists)
        for term in terms:
            rows.setdefault((ids[number], term.item), (term, []))[1].append(term.weight)
    first, numbers = [term for term, _ in rows.values()], {name: at for at, name in enumerate(cases)}
    weights = [fsum(of) / len(cases[case]) for (case, _), (_, of) in rows.items()]
    return ScoreTerms(
        measure=measure,
        names=list(cases),
        cases=list(cases.values()),
        rankings=list(rankings.values()),
        items=[item for _, item in rows],
        case=np.array([numbers[case] for case, _ in rows], np.intp),
        verdict=np.array([term.verdict for term in first], float),
        chance=np.array([term.chance for term in first], float),
        weight=np.array(weights, float),
        rank=np.array([term.rank for term in first], np.intp),
        scale="binary" if {term.scale for term in first} == {"binary"} else "graded",
        kind=first[0].question.kind if first else "",
    )
