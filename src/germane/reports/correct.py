"""Judged means corrected with people's labels, and the verdicts that each score is made of.

Scores are taken apart by running their programs again on the stored answers, so that whatever a score rests on, its
verdicts are found under the items that people labelled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import compress, islice, repeat
from math import fsum, nan
from sys import intern
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from germane.errors import MeasureError
from germane.folder.rows import Tables
from germane.judging.driver import replay
from germane.judging.recorded import StoredAnswers
from germane.measures.measure import Measure
from germane.measures.scoring import program_of, sample_means
from germane.places.places import Places
from germane.places.settings import Settings
from germane.places.table import LabelChoice
from germane.questions.asking import Unanswered
from germane.questions.question import AnyQuestion
from germane.questions.relevance import HELPS, Passages
from germane.reports.correction.draws import design_of, drift_of, is_drawn, pool_of
from germane.reports.summary import PASSAGE_MEANS, VERDICT_MEANS, CorrectedSummary, MeasureSummary
from germane.statistics.correction import (
    POPULATIONS,
    CorrectedMean,
    between,
    corrected_mean,
    corrected_query_mean,
)
from germane.statistics.intervals import mean_interval
from germane.tables.labels import Label, LabelBook
from germane.types import Json, Sample

if TYPE_CHECKING:
    from germane.reports.data import ReportData

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.intp]

_COMPLEMENTS = {"hallucination"}
"""Measures that count what does not hold."""
_BETWEEN = (
    "labels were drawn from what two reports do not share: they correct the difference (germane compare A B)"
)
_BLOCK = 500
"""Samples that are taken apart together."""
_GRADED = {"dcg", "top"}
"""Parameters of measures that read the grade itself: people's and the judge's must be on one scale."""


class TermTable(NamedTuple):
    """The terms of some samples' scores by one measure, one column each, in the order of these samples.

    A term is the verdict on a passage, on a claim with the contexts, or on these alone.

    ========= ======= ==========================================================================================
    questions samples what was asked about each sample
    sample    terms   the number of the term's sample among these
    item      terms   what the verdict is on
    number    terms   the number of the question among those about the sample
    part      terms   the number of the part of that question, from 1; 0 = the verdict answers all of it
    scale     terms   the scale of the verdict
    verdict   terms   the judge's grade, or 1 and 0 for yes and no; nan where there is none
    chance    terms   the probability that the measure's threshold is reached, where the judge gives a distribution, of
                      which the verdict is the mode; else nan
    weight    terms   what a hit adds to the score; nan where the score is not a sum over hits
    call      terms   the search that brought the passage, from 1; 0 = the verdict is on no single passage
    rank      terms   the passage's place in it, from 1; 0 = the verdict is on no single passage
    searches  samples the number of its rankings; 0 where the verdicts are on no single passages
    lengths   rankings the number of terms in it
    ========= ======= ==========================================================================================
    """

    questions: Sequence[Sequence[AnyQuestion]]
    sample: Ints
    item: Sequence[str]
    number: Ints
    part: Ints
    scale: Sequence[str]
    verdict: Floats
    chance: Floats
    weight: Floats
    call: Ints
    rank: Ints
    searches: Ints
    lengths: Ints

    @property
    def kind(self) -> str:
        """The kind of the questions; "" where there is no term."""
        if not self.item:
            return ""
        return self.questions[int(self.sample[0])][int(self.number[0])].kind


def blocks_of(samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    """The samples in lists of some hundreds, in their order."""
    remaining = iter(samples)
    while block := list(islice(remaining, _BLOCK)):
        yield block


class JudgedSamples:
    """A block of samples with the stored answers to what was asked about them: the verdicts that their scores are made of.

    Ranked measures that read the same labels share one table of them.
    """

    def __init__(self, samples: Sequence[Sample], settings: Settings, answers: StoredAnswers) -> None:
        self._samples, self._settings, self._answers = samples, settings, answers
        self._tables: dict[tuple[LabelChoice, int | None], tuple[Places, list[Passages]]] = {}

    def score_terms(self, measure: Measure, numbers: Sequence[int]) -> TermTable:
        """The verdicts that the score of each of these samples rests on; none where people cannot label them."""
        if measure.name in VERDICT_MEANS:
            return self._verdicts(measure, numbers)
        if measure.definition.family != "ranked" or measure.labels != "judge" or self._settings.judged_by:
            return _term_table([()] * len(numbers), ())
        labels, asked = self._labels(measure.choice, measure.depth)
        return _ranked(measure, labels, np.array(numbers, np.intp), [asked[number] for number in numbers])

    def _labels(self, choice: LabelChoice, depth: int | None) -> tuple[Places, list[Passages]]:
        """The labels of this choice, and what was asked about each sample."""
        if (choice, depth) not in self._tables:
            places = Places(choice, self._settings)
            places.add(self._samples, repeat(depth))
            asked = [places.questions(number) for number in range(len(self._samples))]
            for number, values in enumerate(self._answers.values(asked)):
                if values:
                    places.take(number, values)
            self._tables[choice, depth] = places, asked
        return self._tables[choice, depth]

    def _verdicts(self, measure: Measure, numbers: Iterable[int]) -> TermTable:
        """The terms of a measure that is a mean over verdicts which are no ranking's."""
        asked: list[list[AnyQuestion]] = []
        rows: list[tuple[int, str, int, int, float, float]] = []
        for sample, at in enumerate(numbers):
            program = program_of(measure, self._samples[at], self._settings)
            _, exchange = replay(program, self._answers.look_up)
            asked.append([question for question, _ in exchange])
            for number, (question, answer) in enumerate(exchange):
                lost = isinstance(answer, Unanswered)
                if question.kind == "support" and (claims := question.subjects):
                    answers = [None] * len(claims) if lost else answer
                    for claim, (item, value) in enumerate(zip(question.parts(), answers, strict=True), 1):
                        verdict = nan if value is None else float(bool(value.contexts))
                        rows.append((sample, item, number, claim, verdict, 1 / len(claims)))
                elif question.kind == "sufficiency":
                    verdict = nan if lost else float(answer.sufficient)
                    rows.append((sample, question.item, number, 0, verdict, 1.0))
        return _term_table(asked, rows)


def _term_table(
    asked: Sequence[Sequence[AnyQuestion]], rows: Sequence[tuple[int, str, int, int, float, float]]
) -> TermTable:
    """The table of terms that are on no single passage: sample, item, question, part, verdict and weight of each."""
    sample, item, number, part, verdict, weight = zip(*rows, strict=True) if rows else [()] * 6
    nowhere = np.zeros(len(rows), np.intp)
    return TermTable(
        questions=asked, sample=np.array(sample, np.intp), item=item, number=np.array(number, np.intp),
        part=np.array(part, np.intp), scale=["binary"] * len(rows), verdict=np.array(verdict, float),
        chance=np.full(len(rows), nan), weight=np.array(weight, float), call=nowhere, rank=nowhere,
        searches=np.zeros(len(asked), np.intp), lengths=nowhere[:0],
    )  # fmt: skip


def _ranked(measure: Measure, places: Places, numbers: Ints, asked: Sequence[Passages]) -> TermTable:
    """The places that a ranked measure reads of these samples."""
    rows, pointers = np.array(places.rows), np.array(places.pointers)
    counts = pointers[rows[numbers + 1]] - pointers[rows[numbers]]
    sample = np.repeat(np.arange(len(numbers)), counts)
    at = _spans(pointers[rows[numbers]], counts)
    ranking = np.searchsorted(pointers, at, "right") - 1
    searches = rows[numbers + 1] - rows[numbers]
    weight = np.full(len(at), nan)
    if measure.name in PASSAGE_MEANS:
        cut = measure.k if measure.name == "P" else None
        weight = 1 / (searches[sample] * (cut or np.diff(pointers)[ranking]))
    judged = places.labelled[at]
    judged[np.isin(at, list(places.failed))] = False
    number = np.array(places.verdict, np.intp)[at]
    items = [passages.items for passages in asked]
    scales = [*places.scales, str(places.settings.scale)]
    return TermTable(
        questions=asked,
        sample=sample,
        item=[items[of][which] for of, which in zip(sample.tolist(), number.tolist(), strict=True)],
        number=number,
        part=np.zeros(len(at), np.intp),
        scale=[scales[which] for which in np.where(judged, places.scale[at], -1).tolist()],
        verdict=np.where(judged, places.grades[at], nan),
        chance=places.chances_at(measure.settings.get("rel") or HELPS)[at],
        weight=weight,
        call=ranking - rows[numbers][sample] + 1,
        rank=at - pointers[ranking] + 1,
        searches=searches,
        lengths=np.diff(pointers)[_spans(rows[numbers], searches)],
    )


def _spans(starts: Ints, counts: Ints) -> Ints:
    """The numbers in several spans, one after another, from their first numbers and their lengths."""
    return np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)


@dataclass(slots=True, kw_only=True)
class ScoreTerms:
    """The terms of one measure of one system: one row per distinct item of a case; a case may have several trials.

    `names` are the cases' ids; `weight` is what a hit adds to the case's score, nan where that is not a sum over hits.
    """

    measure: Measure
    names: Sequence[str]
    cases: Sequence[Sequence[float]]
    """The values of each case's trials."""
    ranked_rows: Ints
    """The row of each place of the rankings of each trial of each case."""
    searches: Ints
    """The number of rankings of each trial."""
    lengths: Ints
    """The number of places of each ranking."""
    items: Sequence[str]
    case: NDArray[np.intp]
    verdict: Floats
    chance: Floats
    weight: Floats
    rank: NDArray[np.intp]
    scale: str
    kind: str

    def rankings(self) -> Iterator[list[list[str]]]:
        """The items of each ranking, of each trial of the cases in their order."""
        items = map(self.items.__getitem__, self.ranked_rows.tolist())
        lengths = iter(self.lengths.tolist())
        for searches in self.searches.tolist():
            yield [list(islice(items, length)) for length in islice(lengths, searches)]

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


class Corrections:
    """The corrected mean of each judged measure of an evaluation, from its labels.

    Labels count that were drawn at random with a known probability (queues `random` and `stratified`), or all of them
    where everything that was judged is labelled: there nothing was chosen. Of several draws that with the most labels
    counts.
    """

    def __init__(self, tables: Tables, manifest: Mapping[str, Json]) -> None:
        self._tables, self._manifest = tables, manifest
        self._terms: dict[tuple[str, str], ScoreTerms] = {}
        self._drifted: dict[tuple[object, ...], str] = {}

    def with_labels(self, labels: Iterable[Label]) -> Corrections:
        """The corrections that these labels make, in place of those of the tables."""
        other = copy(self)
        for name in ("book", "_drawn", "_all_labelled"):
            other.__dict__.pop(name, None)
        other._drifted = {}  # noqa: SLF001 - it is one of us
        other.labels = list(labels)
        return other

    @cached_property
    def labels(self) -> Sequence[Label]:
        """The labels of people, oldest first."""
        return list(self._tables.labels)

    def of(self, summary: MeasureSummary) -> tuple[CorrectedSummary | None, str]:
        """The corrected mean, or None and why there is none."""
        if summary.mean is None:
            return None, "nothing was measured"
        if not self.book:
            return None, "no human labels"
        if not (self._drawn or self._all_labelled):
            between = any("between" in design_of(label) for label in self.labels)
            return None, _BETWEEN if between else "no labels were drawn at random"
        rows = self.terms(summary)
        if not rows.items:
            return None, "people's labels are about other things than this measure's verdicts"
        mean = self._of_all(rows, summary) or self._of_draw(rows, summary)
        if isinstance(mean, str):
            return None, mean
        return (CorrectedSummary.of(mean), "") if mean.ends is not None else (None, mean.why)

    def terms(self, summary: MeasureSummary) -> ScoreTerms:
        """The terms that the scores of a measure of a system rest on."""
        if not self._terms:
            self._terms.update(self._take_apart())
        return self._terms[summary.measure, summary.system]

    @cached_property
    def book(self) -> LabelBook:
        """The book of all labels, which says which of several votes on an item count."""
        return LabelBook(self.labels)

    @cached_property
    def _drawn(self) -> list[Label]:
        return list(filter(is_drawn, self.labels))

    @cached_property
    def _all_labelled(self) -> bool:
        """True if everything of some kind that was judged may be labelled."""
        judged = {(row.kind, row.of is not None, row.item) for row in self._tables.places}
        groups = Counter((kind, is_part) for kind, is_part, _ in judged)
        labelled = Counter((kind, is_part) for kind, is_part, item in judged if item in self.book)
        return any(count == groups[group] for group, count in labelled.items())

    @cached_property
    def _settings(self) -> Settings:
        return Settings.stored(self._manifest)

    def _take_apart(self) -> Iterator[tuple[tuple[str, str], ScoreTerms]]:
        """The terms of each measure of each system, by both names: all samples are read once."""
        table = self._tables.scores
        systems, system = table.keys.systems()
        names = list(table.keys.ids())
        scored = []
        for name, canonical in table.measures:
            rows = table.rows_of((name, canonical))
            sample, value = table.sample[rows], table.taken(rows).value
            for code, of in enumerate(systems):
                mine = system[sample] == code
                made = _Scored(Measure.remembered(canonical), names, sample[mine], value[mine])
                scored.append(((name, of), made))
        answers = StoredAnswers(self._tables.judgements)
        for samples in blocks_of(self._tables.samples):
            judged = JudgedSamples(samples, self._settings, answers)
            numbers = [table.keys.find(sample.key) for sample in samples]
            for _, made in scored:
                made.add(judged, numbers)
        return ((of, made.terms()) for of, made in scored)

    def _of_all(self, rows: ScoreTerms, summary: MeasureSummary) -> CorrectedMean | None:
        """People's own mean, where they labelled everything."""
        values = self.human(rows, self.book, 0.0)
        if isinstance(values, str) or np.isnan(values).any() or any(map(self.book.unsure, rows.items)):
            return None
        mean, count, limits = (
            fsum(values.tolist()) / len(values),
            len(rows.items),
            rows.measure.definition.range,
        )
        clusters = self._tables.clusters()
        names = [clusters.get(case, f"case {case}") for case in rows.names] if clusters else None
        ends = mean_interval(values, clusters=names, value_range=limits).ends
        return CorrectedMean(
            mean=mean, ends=ends, set_ends=(mean, mean), set_human_ends=(mean, mean), method="labels of all", judged=summary.mean or 0.0,
            human=mean, human_ends=ends, labels=count, total=count, queries=len(rows.cases), ess=float(count),
        )  # fmt: skip

    def _of_draw(self, rows: ScoreTerms, summary: MeasureSummary) -> CorrectedMean | str:
        """The mean corrected with a random sample of labels, or why it is not."""
        items = set(rows.items)
        mine = [label for label in self._drawn if label.item in items]
        if not mine:
            return self._why_none(rows.kind)
        if np.isnan(rows.verdict).any() or self.drifted(rows):
            return self.drifted(rows) or "some verdicts are missing"
        drawn, queue, design = largest_draw(mine)
        book = LabelBook(drawn)
        if (why := rows.unreadable(book)) is not None:
            return why
        if design != "queries" and np.isnan(rows.weight).any():
            name = rows.measure.name
            return f"{name} is not a mean over single verdicts: label whole queries (--design queries)"
        strata = drawn if queue == "stratified" else []
        unsure = sum(book.unsure(item) > 0 for item in set(rows.items))
        sides = []
        for side in (0.0, 1.0) if unsure else (0.0,):
            if design == "queries":
                mean = self._of_queries(rows, book, side)
            else:
                mean = _of_terms(rows, rows.people(rows.items, book, side), summary, strata)
            if isinstance(mean, str):
                return mean
            sides.append(mean)
        return sides[0] if len(sides) == 1 else between(*sides, unsure=unsure)

    def drifted(self, rows: ScoreTerms) -> str:
        """The reason why labels that were drawn for another report do not serve this one; "" where they do."""
        key = rows.measure, rows.kind, len(rows.items)
        if key not in self._drifted:
            self._drifted[key] = ""
            if drawn := [label for label in self._drawn if label.kind == rows.kind]:
                facts = zip(rows.case.tolist(), rows.verdict.tolist(), rows.rank.tolist(), strict=True)
                facts_of = dict(zip(rows.items, facts, strict=True))
                self._drifted[key] = drift_of(drawn, pool_of(self._tables, rows.kind), facts_of)
        return self._drifted[key]

    def _why_none(self, kind: str) -> str:
        """The reason why no label that was drawn is about the verdicts of a measure, which are of this kind."""
        kinds = sorted({label.kind for label in self._drawn})
        if not kinds:
            return "no labels were drawn at random"
        if kind not in kinds:
            return f"people labelled {' and '.join(kinds)}, this measure rests on {kind}"
        return f"none of the labels is about the {kind} verdicts of this measure"

    def _of_queries(self, rows: ScoreTerms, book: LabelBook, unsure: float) -> CorrectedMean | str:
        """The corrected mean where some queries are labelled whole: estimand B."""
        values = self.human(rows, book, unsure)
        if isinstance(values, str):
            return values
        judged = [fsum(scores) / len(scores) for scores in rows.cases]
        whole = int((~np.isnan(values)).sum())
        each, limits = np.arange(len(values)), rows.measure.definition.range
        mean = partial(corrected_mean, np.array(judged), values, clusters=each, value_range=limits)
        of_set, result = mean(queries=None), mean(queries=each)
        if result.mean is None or result.ends is None:
            result = replace(result, why=result.why.replace(" labels", " queries labelled whole", 1))
        else:
            result = _both(of_set, result, limits)
        labelled = np.isin(rows.case, np.flatnonzero(~np.isnan(values)))
        return replace(
            result, labels=int(labelled.sum()), total=len(rows.items), queries=whole,
            method=f"{result.method}, whole queries",
        )  # fmt: skip

    def human(self, rows: ScoreTerms, book: LabelBook, unsure: float) -> Floats | str:
        """People's value of each case, nan where a label is missing; or why there is none at all.

        Where somebody could not tell, `unsure` 0 gives the least that it can be, 1 the most.
        """
        labels = rows.people(rows.items, book, unsure)
        if not np.isnan(rows.weight).any():
            return np.bincount(rows.case, rows.weight * labels, len(rows.cases)).astype(float)
        measure = rows.measure
        if _GRADED & measure.definition.params.keys() and (
            others := {label.scale for label in book} - {rows.scale}
        ):
            return f"{measure.name} reads grades: people's are {min(others)}, the judge's {rows.scale}"
        try:
            human = Measure(measure.name, {**measure.params, "labels": "human"}, measure.cutoff)  # type: ignore[arg-type]
        except MeasureError as error:
            return str(error)
        missing = set(rows.case[np.isnan(labels)].tolist())
        doubts = {
            case for case, item in zip(rows.case.tolist(), rows.items, strict=True) if book.unsure(item)
        }
        whole = np.ones(len(rows.cases), np.bool_)
        whole[[*missing, *doubts]] = False
        people = Places(human.choice, replace(self._settings, labels=book))
        each = np.repeat(np.arange(len(rows.cases)), list(map(len, rows.cases)))  # the case of each trial
        for lists in compress(rows.rankings(), whole[each].tolist()):
            people.add_items(lists)
        trials: list[list[float]] = [[] for _ in rows.cases]
        means = sample_means(human, people.table, people.rows).tolist() if whole.any() else []
        for number, mean in zip(each[whole[each]].tolist(), means, strict=True):
            trials[number].append(mean)
        values = np.array([fsum(mine) / len(mine) if mine else nan for mine in trials])
        values[[*doubts - missing]] = measure.definition.range[int(unsure)]
        return values


class _Scored:
    """The samples that have a value by one measure of one system, and their terms, which are collected block by block.

    Args:
        measure: The measure.
        names: The ids of all samples, by number.
        numbers: The numbers of the samples that have a value, in their order.
        values: These values.
    """

    def __init__(self, measure: Measure, names: Sequence[str], numbers: Ints, values: Floats) -> None:
        cases: dict[str, list[float]] = {}
        for number, value in zip(numbers.tolist(), values.tolist(), strict=True):
            cases.setdefault(names[number], []).append(value)
        codes = {name: code for code, name in enumerate(cases)}
        self._measure, self._cases = measure, cases
        self._case_of: Mapping[int | None, int] = {
            number: codes[names[number]] for number in numbers.tolist()
        }
        self._items, self._scales, self._kind = list[str](), set[str](), ""
        self._columns: list[tuple[NDArray[Any], ...]] = [(np.empty(0, np.intp),) * 8]

    def add(self, judged: JudgedSamples, numbers: Sequence[int | None]) -> None:
        """Add the terms of a block's samples; `numbers` are theirs, None = without a score."""
        at = [position for position, number in enumerate(numbers) if number in self._case_of]
        case = np.array([self._case_of[numbers[position]] for position in at], np.intp)
        terms = judged.score_terms(self._measure, at)
        self._kind = self._kind or terms.kind
        self._items += map(intern, terms.item)
        self._scales.update(terms.scale)
        columns = terms.verdict, terms.chance, terms.weight, terms.rank, terms.searches, terms.lengths
        self._columns.append((case, case[terms.sample], *columns))

    def terms(self) -> ScoreTerms:
        """The terms, one row per distinct item of a case."""
        trial, case, verdict, chance, weight, rank, searches, lengths = map(
            np.concatenate, zip(*self._columns, strict=True)
        )
        # the trials of a case may stand apart
        order, by_trial = np.argsort(case, kind="stable"), np.argsort(trial, kind="stable")
        by_search = np.argsort(np.repeat(trial, searches), kind="stable")
        items, case = [self._items[at] for at in order.tolist()], case[order]
        first, rows = distinct_rows(case, items)
        trials = np.array([len(values) for values in self._cases.values()], np.intp)
        weights = np.bincount(rows, weight[order] / trials[case], len(first))
        return ScoreTerms(
            measure=self._measure,
            names=list(self._cases),
            cases=list(self._cases.values()),
            ranked_rows=rows,
            searches=searches[by_trial],
            lengths=lengths[by_search],
            items=[items[at] for at in first.tolist()],
            case=case[first],
            verdict=verdict[order][first],
            chance=chance[order][first],
            weight=np.asarray(weights, float),
            rank=rank[order][first],
            scale="binary" if self._scales == {"binary"} else "graded",
            kind=self._kind,
        )


def _of_terms(
    rows: ScoreTerms, labels: Floats, summary: MeasureSummary, strata: Sequence[Label]
) -> CorrectedMean | str:
    """The corrected mean where some passages (or claims) of each query are labelled: estimand C, or A over strata of the grade.

    Every verdict is scaled so that the mean of those of a query is its score: what counts twice has twice the weight.
    """
    values = rows.values
    per_case = np.bincount(rows.case, minlength=len(rows.cases))
    total = len(rows.cases)
    if strata:
        scale = rows.weight * len(rows.items) / total
    else:
        scale = rows.weight * per_case[rows.case] * np.count_nonzero(per_case) / total
    judged = fsum((rows.weight * values).tolist()) / total
    if summary.mean is None or abs(judged - summary.mean) > 1e-9:
        return "the stored verdicts do not add up to the mean"
    limits = (0.0, max(1.0, float(scale.max())))
    proxy = rows.proxy * scale
    if strata:
        names = [str(int(verdict)) for verdict in rows.verdict.tolist()]
        stratum_of = {label.item: str(design_of(label).get("stratum")) for label in strata}
        if any(stratum_of.get(item, name) != name for item, name in zip(rows.items, names, strict=True)):
            return "the judge's verdicts changed after labels were drawn from their strata"
        mean = partial(corrected_mean, values * scale, labels * scale, proxy=proxy, strata=names)
        of_set, result = (mean(queries=queries, value_range=limits) for queries in (None, rows.case))
    else:
        mean = partial(corrected_query_mean, values * scale, labels * scale, rows.case, proxy=proxy)
        of_set, result = (mean(population=of, value_range=limits) for of in POPULATIONS)
    queries = len(set(rows.case[~np.isnan(labels)].tolist()))
    if result.mean is None or result.ends is None:
        return result
    return replace(_both(of_set, result, rows.measure.definition.range), queries=queries)


def corrections_of(report: ReportData) -> Corrections:
    """The corrections of a report's judged means by its labels."""
    return report.corrections or Corrections(report.tables, report.manifest)


def _both(of_set: CorrectedMean, of_queries: CorrectedMean, limits: tuple[float, float]) -> CorrectedMean:
    """A corrected mean of queries like these, with the interval of these queries, both within the measure's range.

    Estimated variances may order the two the wrong way round; the wider population never has the narrower interval.
    """
    low, high = of_queries.ends or limits
    set_low, set_high = of_set.ends or (low, high)
    ends = np.clip(
        [of_queries.mean or 0.0, min(low, set_low), max(high, set_high), set_low, set_high], *limits
    ).tolist()
    return replace(
        of_queries,
        mean=ends[0],
        ends=(ends[1], ends[2]),
        set_ends=(ends[3], ends[4]),
        set_human_ends=of_set.human_ends,
    )


def largest_draw(labels: Sequence[Label]) -> tuple[list[Label], str, str]:
    """The labels of the draw that has the most of them, with its queue and its design."""

    def draw(label: Label) -> tuple[str, str]:
        return label.queue, str(design_of(label).get("design"))

    (queue, design), _ = Counter(map(draw, labels)).most_common(1)[0]
    return [label for label in labels if draw(label) == (queue, design)], queue, design
