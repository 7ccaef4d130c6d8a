"""The verdicts that scores rest on: on passages, on claims with the contexts, or on these alone.

Scores are taken apart by running their programs again on the stored answers, so that whatever a score rests on, its
verdicts are found under the items that people labelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, repeat
from math import fsum, nan
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from germane.judging.driver import replay
from germane.judging.recorded import StoredAnswers
from germane.measures.measure import Measure
from germane.measures.scoring import program_of
from germane.places.places import Places
from germane.places.settings import Settings
from germane.places.table import LabelChoice
from germane.questions.asking import Unanswered
from germane.questions.question import AnyQuestion
from germane.questions.relevance import HELPS
from germane.reports.summary import PASSAGE_MEANS, VERDICT_MEANS
from germane.tables.labels import LabelBook
from germane.types import Sample

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.intp]

_COMPLEMENTS = {"hallucination"}
"""Measures that count what does not hold."""
_BLOCK = 500
"""Samples that are taken apart together."""


class ScoreTerm(NamedTuple):
    """One verdict that a sample's score rests on.

    Attributes:
        item: What the verdict is on.
        question: The question that it answers.
        part: The number of the part of that question, from 1; 0 = the verdict answers all of it.
        scale: Its scale.
        verdict: The judge's grade, or 1 and 0 for yes and no; nan where there is none.
        chance: The probability that the measure's threshold is reached, where the judge gives a distribution, of which the
            verdict is the mode; else nan.
        weight: What a hit adds to the score; nan where the score is not a sum over hits.
        call: The search that brought the passage, from 1; 0 = the verdict is on no single passage.
        rank: The passage's place in it, from 1; 0 = the verdict is on no single passage.
    """

    item: str
    question: AnyQuestion
    part: int
    scale: str
    verdict: float
    chance: float
    weight: float
    call: int = 0
    rank: int = 0


def blocks_of(samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    """The samples in lists of some hundreds, in their order."""
    remaining = iter(samples)
    while block := list(islice(remaining, _BLOCK)):
        yield block


class JudgedSamples:
    """A block of samples with the stored answers to what was asked about them; measures that read the same labels share places."""

    def __init__(self, samples: Sequence[Sample], settings: Settings, answers: StoredAnswers) -> None:
        self._samples, self._settings, self._answers = samples, settings, answers
        self._places: dict[tuple[LabelChoice, int | None], Places] = {}

    def terms(self, measure: Measure, number: int) -> list[ScoreTerm]:
        """The verdicts that the score of a sample rests on; none where people cannot label them."""
        if measure.name in VERDICT_MEANS:
            return list(self._verdicts(measure, self._samples[number]))
        return list(self._ranked(measure, number)) if self._reads_places(measure) else []

    def rankings(self, measure: Measure, number: int) -> list[list[str]]:
        """The items of each ranking that a measure reads of a sample; [] where its verdicts are on no single passages."""
        if not self._reads_places(measure):
            return []
        places = self._read(measure.choice, measure.depth)
        items = places.questions(number).items
        return [[items[places.verdict[at]] for at in span] for span in places.spans_of(number, None)]

    def _reads_places(self, measure: Measure) -> bool:
        ranked = measure.definition.family == "ranked"
        return ranked and measure.labels == "judge" and not self._settings.judged_by

    def _read(self, choice: LabelChoice, depth: int | None) -> Places:
        """The labelled places of all samples."""
        if (choice, depth) not in self._places:
            self._places[choice, depth] = places = Places(choice, self._settings)
            places.add(self._samples, repeat(depth))
            self._answers.label(places)
        return self._places[choice, depth]

    def _ranked(self, measure: Measure, number: int) -> Iterator[ScoreTerm]:
        """The places that a ranked measure reads of a sample."""
        places = self._read(measure.choice, measure.depth)
        asked, rankings, grades = places.questions(number), places.spans_of(number, None), places.grades
        chances = places.chances_at(measure.settings.get("rel") or HELPS)
        cut = measure.k if measure.name == "P" else None
        for call, span in enumerate(rankings, 1):
            weight = 1 / (len(rankings) * (cut or len(span) or 1)) if measure.name in PASSAGE_MEANS else nan
            for rank, at in enumerate(span, 1):
                cell, judged = places.verdict[at], bool(places.labelled[at]) and at not in places.failed
                yield ScoreTerm(
                    asked.items[cell],
                    asked[cell],
                    0,
                    places.scales[int(places.scale[at])] if judged else str(self._settings.scale),
                    float(grades[at]) if judged else nan,
                    float(chances[at]),
                    weight,
                    call,
                    rank,
                )

    def _verdicts(self, measure: Measure, sample: Sample) -> Iterator[ScoreTerm]:
        """The verdicts of a measure that is a mean over some which are no ranking's."""
        _, exchange = replay(program_of(measure, sample, self._settings), self._answers.look_up)
        for question, answer in exchange:
            lost = isinstance(answer, Unanswered)
            if question.kind == "support" and (claims := question.subjects):
                answers = [None] * len(claims) if lost else answer
                for claim, (item, value) in enumerate(zip(question.parts(), answers, strict=True), 1):
                    verdict = nan if value is None else float(bool(value.contexts))
                    yield ScoreTerm(item, question, claim, "binary", verdict, nan, 1 / len(claims))
            elif question.kind == "sufficiency":
                verdict = nan if lost else float(answer.sufficient)
                yield ScoreTerm(question.item, question, 0, "binary", verdict, nan, 1.0)


@dataclass(slots=True, kw_only=True)
class ScoreTerms:
    """The terms of one measure of one system: one row per distinct item of a case; a case may have several trials.

    `names` are the cases' ids; `weight` is what a hit adds to the case's score, nan where that is not a sum over hits.
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
        """The value of each verdict: 1 for a hit, else 0; of a distribution the probability of a hit."""
        counted = np.asarray(_counted(self.measure, self.verdict, self.scale), float)
        return np.where(np.isnan(self.chance), counted, self.chance)

    @property
    def proxy(self) -> Floats:
        """The best predictor of a person's yes or no: the judge's probability of a hit, else its grade."""
        grade = 1 - self.verdict if self.measure.name in _COMPLEMENTS else self.verdict
        return np.where(np.isnan(self.chance), grade, self.chance)

    def people(self, items: Iterable[str], book: LabelBook, unsure: float) -> Floats:
        """The share of the people who were asked about each of these items for whom it is a hit; nan where nobody was.

        Who could not tell counts as `unsure`: 0 gives the least that the share can be, 1 the most.
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
        """The reason why people's labels do not say what counts: their scale has no known threshold; None where they do."""
        other = {label.scale for label in book} - {"graded", "binary"}
        if other and self.measure.settings.get("rel", 0) is None:
            where = f"people's grades are on the scale {min(other)}"
            return f"{where}: say from which grade a context counts, rel="
        return None


def distinct_rows(case: Ints, items: Sequence[str]) -> tuple[Ints, Ints]:
    """The first row of each item of a case, in their order, and which of these each row is of."""
    codes: dict[str, int] = {}
    code = np.array([codes.setdefault(item, len(codes)) for item in items], np.intp)
    _, first, of = np.unique(case * (len(codes) + 1) + code, return_index=True, return_inverse=True)
    order = np.argsort(first)
    numbers = np.empty(len(order), np.intp)
    numbers[order] = np.arange(len(order))
    return first[order], numbers[of]


def _counted(measure: Measure, answer: Any, scale: str) -> Any:
    """1 where a verdict, or each of an array, is a hit, else 0."""
    threshold = 1.0 if scale == "binary" else float(measure.settings.get("rel") or HELPS)
    hit = np.asarray(answer) >= threshold
    return np.where(hit ^ (measure.name in _COMPLEMENTS), 1.0, 0.0)


class TermCollector:
    """The samples that have a value by one measure of one system, and their terms, which are added sample by sample.

    Args:
        measure: The measure.
        values: The values of the samples that have one, by their number, in their order.
        names: The ids of all samples, by number.
    """

    def __init__(self, measure: Measure, values: Mapping[int, float], names: Sequence[str]) -> None:
        self.measure, self._names = measure, names
        self._values: dict[str, list[float]] = {}
        for number, value in values.items():
            self._values.setdefault(names[number], []).append(value)
        self._due = values.keys()
        self._terms: dict[str, list[ScoreTerm]] = {name: [] for name in self._values}
        self._rankings: dict[str, list[list[list[str]]]] = {name: [] for name in self._values}

    def add(self, judged: JudgedSamples, at: int, number: int | None) -> None:
        """Add the terms of the sample at a place of a block, whose number among all samples is this; None = it has no score."""
        if number not in self._due or number is None:
            return
        terms = judged.terms(self.measure, at)
        self._terms[self._names[number]] += terms
        self._rankings[self._names[number]].append(judged.rankings(self.measure, at))

    def collected(self) -> ScoreTerms:
        """The terms, one row per distinct item of a case."""
        rows: dict[tuple[int, str], list[Any]] = {}
        scales = set[str]()
        kind = next((terms[0].question.kind for terms in self._terms.values() if terms), "")
        for case, (name, terms) in enumerate(self._terms.items()):
            trials = len(self._values[name])
            for term in terms:
                scales.add(term.scale)
                row = rows.setdefault((case, term.item), [term, 0.0])
                row[1] += term.weight / trials
        first = [term for term, _ in rows.values()]
        return ScoreTerms(
            measure=self.measure,
            names=list(self._values),
            cases=list(self._values.values()),
            rankings=list(self._rankings.values()),
            items=[item for _, item in rows],
            case=np.array([case for case, _ in rows], np.intp),
            verdict=np.array([term.verdict for term in first], float),
            chance=np.array([term.chance for term in first], float),
            weight=np.array([weight for _, weight in rows.values()], float),
            rank=np.array([term.rank for term in first], np.intp),
            scale="binary" if scales == {"binary"} else "graded",
            kind=kind,
        )
