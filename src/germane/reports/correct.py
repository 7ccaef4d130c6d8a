"""Correct the means of judged measures with people's labels of the verdicts from which they are computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice, product
from math import fsum, nan
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from germane.clean import counted
from germane.encoding import batched
from germane.errors import MeasureError
from germane.folder.tables import Tables
from germane.judging.stored_answers import BLOCK, StoredAnswers
from germane.measures.bounds import sample_means
from germane.measures.measure import Measure
from germane.measures.scoring import program_of
from germane.places.lists import Settings
from germane.places.places import Places
from germane.places.table import Floats
from germane.questions.asking import Unanswered, replay
from germane.questions.question import AnyQuestion
from germane.questions.relevance import HELPS
from germane.reports.label_draws import Pool, fingerprint, is_drawn, pool_of
from germane.reports.summary import PASSAGE_MEANS, VERDICT_MEANS, MeasureSummary
from germane.statistics.correction import (
    FEWEST,
    POPULATIONS,
    corrected_mean,
    corrected_query_mean,
    merge_bounds,
)
from germane.statistics.intervals import CorrectedMean, mean_interval
from germane.tables.labels import Label, LabelBook
from germane.tables.scores import SampleKey
from germane.types import Json, Sample

if TYPE_CHECKING:
    from germane.reports.data import ReportData

Ints: TypeAlias = NDArray[np.intp]

_KINDS = ("relevance", "support", "sufficiency")  # the kinds of verdicts that people can label too
_GRADED = {"dcg", "top"}
"""Parameters of measures that use the grade's value: people and the judge must use the same scale."""


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
            people = ([counted(vote.answer, vote.scale) for vote in votes] for votes in book.by_person(item))
            votes = [fsum(person) / len(person) for person in people]
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
        scored = map(table.key, table.sample[rows].tolist())
        of_sample = dict(zip(scored, table.taken(rows).value.tolist(), strict=True))
        values[name, system] = Measure.remembered(canonical), of_sample
    found: dict[tuple[str, str], list[_Row]] = {names: [] for names in values}
    rankings: dict[tuple[str, str], dict[SampleKey, list[list[str]]]] = {names: {} for names in values}
    answers = StoredAnswers(tables.judgements)
    for samples in batched(tables.samples, BLOCK):
        read = answers.places_reader(samples, settings)
        keys = [sample.key for sample in samples]
        for names, (measure, of_sample) in values.items():
            in_block = {at: key for at, key in enumerate(keys) if key in of_sample}
            if in_block and reads_verdicts(measure, settings):
                places = read(measure.choice, measure.depth)
                counts, lengths = np.diff(places.rows), np.diff(np.array(places.pointers))
                weights = np.full(len(places.level), nan)
                if measure.name in PASSAGE_MEANS:
                    size = (measure.k if measure.name == "P" else None) or np.maximum(lengths, 1)
                    weights = np.repeat(1 / (np.repeat(counts, counts) * size), lengths)
                own, known = str(settings.scale), zip(places.scale, places.labelled.tolist(), strict=True)
                scales = [scale if of_judge else own for scale, of_judge in known]
                sample, grades, weight = (
                    column.tolist() for column in (places.sample, places.grades, weights)
                )
                passages = zip(sample, places.items, scales, grades, weight, strict=True)
                found[names] += ((in_block[at], *passage) for at, *passage in passages if at in in_block)
                if measure.name not in PASSAGE_MEANS:
                    for at, key in in_block.items():
                        lists = [places.items[span.start : span.stop] for span in places.spans_of(at, None)]
                        rankings[names][key] = lists
            for at, key in in_block.items() if measure.name in VERDICT_MEANS else ():
                for _, item, _, verdict, weight in claim_verdicts(measure, samples[at], settings, answers):
                    found[names].append((key, item, "binary", verdict, weight))
    return {names: _joined(*values[names], rows, rankings[names]) for names, rows in found.items()}


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
        pair = code[row[0][0]], row[1]
        first.setdefault(pair, row)
        weights.setdefault(pair, []).append(row[4])
    trials = [*map(len, cases.values())]
    return ScoreTerms(
        measure=measure,
        cases=cases,
        rankings=list(lists.values()),
        items=[item for _, item in first],
        case=np.array([case for case, _ in first], np.intp),
        verdict=np.array([row[3] for row in first.values()], float),
        weight=np.array([fsum(shares) / trials[case] for (case, _), shares in weights.items()]),
        scale="binary" if {row[2] for row in first.values()} == {"binary"} else "graded",
    )


class Corrections:
    """Corrects the means of an evaluation's judged measures with people's labels.

    Labels that were drawn at random (queue `random`) correct a mean. If they come from several designs, the
    design with the most labels is used. If every judged item has a label, labels of any queue are used.
    `labels` are people's labels, oldest first, and `book` looks them up by item.
    """

    def __init__(self, tables: Tables, manifest: Mapping[str, Json]) -> None:
        self._tables, self._settings = tables, Settings.stored(manifest)
        self._terms: dict[tuple[str, str], ScoreTerms] = {}
        self._pools: dict[str, Pool] = {}
        self.set_labels(tables.labels)

    def set_labels(self, labels: Iterable[Label]) -> None:
        """Use these labels instead of the labels in the tables."""
        self.labels = list(labels)
        self.book = LabelBook(self.labels)
        self._drawn = list(filter(is_drawn, self.labels))
        self._drawn_of: dict[str, list[Label]] = {}

    def with_labels(self, labels: Iterable[Label]) -> Corrections:
        """Return a copy of these corrections that uses other labels; stored verdicts are not read again."""
        other = copy(self)
        other.set_labels(labels)
        return other

    def corrected_mean(self, summary: MeasureSummary) -> tuple[CorrectedMean | None, str]:
        """Return (corrected mean, "") of a measure, or (None, reason) if the mean cannot be corrected."""
        if summary.mean is None:
            return None, "nothing was measured"
        if not self.book:
            return None, "no human labels"
        if not self._drawn and not any(map(self.all_labelled, _KINDS)):
            return None, "no labels were drawn at random"
        rows = self.terms(summary)
        if not (rows.measure.name in VERDICT_MEANS or reads_verdicts(rows.measure, self._settings)):
            return None, "people's labels cannot correct this measure"
        if not rows.items:
            return None, "no passage or claim whose verdict this measure uses has a label of a person"
        mean = self._of_all(rows, summary) or self._of_draw(rows, summary)
        return (None, mean) if isinstance(mean, str) else (mean, "")

    def terms(self, summary: MeasureSummary) -> ScoreTerms:
        """Return the verdicts from which the scores of a summary's measure and system were computed."""
        if not self._terms:
            self._terms.update(score_terms(self._tables, self._settings))
        return self._terms[summary.measure, summary.system]

    def pool(self, kind: str) -> Pool:
        """Return the judged items of a kind (relevance, support or sufficiency), by case id."""
        if kind not in self._pools:
            self._pools[kind] = pool_of(self._tables, kind)
        return self._pools[kind]

    def drawn(self, kind: str) -> list[Label]:
        """Return the labels of a kind that were drawn at random from this report, not from another."""
        if kind not in self._drawn_of:
            own = fingerprint(self.pool(kind))
            of_kind = (label for label in self._drawn if label.kind == kind)
            self._drawn_of[kind] = [
                label for label in of_kind if (label.design or {}).get("pool", own) == own
            ]
        return self._drawn_of[kind]

    def all_labelled(self, kind: str) -> bool:
        """Return True if every judged item of a kind has a person's label."""
        pool = self.pool(kind)
        return bool(pool) and all(item in self.book for items in pool.values() for item in items)

    def _of_all(self, rows: ScoreTerms, summary: MeasureSummary) -> CorrectedMean | str:
        """Return the mean of people's labels alone; "" if one is missing, or without an interval."""
        clusters, count = self._tables.clusters(), len(rows.items)
        names = [clusters.get(case, f"case {case}") for case in rows.cases] if clusters else None
        unsure, sides = sum(self.book.unsure(item) > 0 for item in rows.items), []
        for side in (0.0, 1.0) if unsure else (0.0,):
            values = self.human(rows, self.book, side)
            if isinstance(values, str) or np.isnan(values).any():
                return ""
            mean = fsum(values.tolist()) / len(values)
            ends = mean_interval(values, clusters=names, value_range=rows.measure.definition.range).ends
            if ends is None:
                return ""
            of_side = CorrectedMean(
                mean=mean, ends=ends, set_ends=(mean, mean), method="labels of all", judged=summary.mean or 0.0,
                labels=count, total=count, queries=len(rows.cases), ess=float(count),
            )  # fmt: skip
            sides.append(of_side)
        return sides[0] if len(sides) == 1 else merge_bounds(*sides, unsure=unsure)

    def _of_draw(self, rows: ScoreTerms, summary: MeasureSummary) -> CorrectedMean | str:
        """Return the mean corrected with randomly drawn labels, or the reason why it cannot be corrected."""
        items = set(rows.items)
        drawn = [label for label in self.drawn(rows.kind) if label.item in items]
        if not drawn:
            kinds = sorted({label.kind for label in self._drawn})
            if not kinds:
                why = "no labels were drawn at random"
            elif rows.kind not in kinds:
                why = f"people labelled {' and '.join(kinds)}, but this measure uses verdicts on {rows.kind}"
            elif not self.drawn(rows.kind):
                why = "the labels were drawn for another report: label this one (germane label)"
            else:
                why = f"none of the {rows.kind} labels is of a passage or claim that this measure uses"
            return why
        if np.isnan(rows.verdict).any():
            return "some verdicts of the judge are missing: run `germane run --resume REPORT`"
        by_design: dict[str, list[Label]] = {}
        for label in drawn:
            by_design.setdefault(str((label.design or {}).get("design")), []).append(label)
        design = max(by_design, key=lambda name: len(by_design[name]))
        book = LabelBook(by_design[design])
        if (unreadable := rows.unreadable(book)) is not None:
            return unreadable
        if design != "queries" and np.isnan(rows.weight).any():
            name = rows.measure.name
            return f"{name} is not a mean over single verdicts: label whole queries (--design queries)"
        unsure, sides = sum(book.unsure(item) > 0 for item in items), []
        for side in (0.0, 1.0) if unsure else (0.0,):
            if design == "queries":
                mean = self._of_queries(rows, book, side)
            else:
                mean = _of_terms(rows, rows.people(rows.items, book, side), summary)
            if isinstance(mean, str):
                return mean
            sides.append(mean)
        return sides[0] if len(sides) == 1 else merge_bounds(*sides, unsure=unsure)

    def _of_queries(self, rows: ScoreTerms, book: LabelBook, unsure: float) -> CorrectedMean | str:
        """Return the mean corrected with the completely labelled queries, or why it cannot be corrected."""
        values = self.human(rows, book, unsure)
        if isinstance(values, str):
            return values
        judged = [fsum(scores) / len(scores) for scores in rows.cases.values()]
        labelled, limits = ~np.isnan(values), rows.measure.definition.range
        if (count := int(labelled.sum())) < FEWEST:
            return f"{counted(count, 'query')} labelled whole: at least {FEWEST} are needed"
        mean = partial(corrected_mean, np.array(judged), values, value_range=limits)
        result = _both([mean(population=population) for population in POPULATIONS], limits)
        if isinstance(result, str):
            return result.replace(" labels", " queries labelled whole", 1)
        return result.replace(
            labels=int(labelled[rows.case].sum()),
            total=len(rows.items),
            queries=count,
            method=f"{result.method}, whole queries",
        )

    def human(self, rows: ScoreTerms, book: LabelBook, unsure: float) -> Floats | str:
        """Return each case's score from the labels in `book` (nan = a label is missing), or why it has none.

        A label "unsure" counts as the answer with the lowest score if `unsure` is 0, the highest if it is 1.
        """
        labels = rows.people(rows.items, book, unsure)
        if not np.isnan(rows.weight).any():
            return np.bincount(rows.case, rows.weight * labels, len(rows.cases)).astype(float)
        measure = rows.measure
        others = {label.scale for label in book} - {rows.scale}
        if others and _GRADED & measure.definition.params.keys():
            scales = f"people's labels are on the scale {min(others)}, the judge's verdicts on {rows.scale}"
            return f"{measure.name} reads grades, but {scales}"
        try:
            human = Measure(measure.name, {**measure.params, "labels": "human"}, measure.k)  # type: ignore[arg-type]
        except MeasureError as error:
            return str(error)
        missing, doubts = np.zeros((2, len(rows.cases)), np.bool_)
        missing[rows.case[np.isnan(labels)]] = True
        doubts[rows.case[[book.unsure(item) > 0 for item in rows.items]]] = True
        values = np.where(doubts & ~missing, measure.definition.range[int(unsure)], nan)
        whole = np.flatnonzero(~(missing | doubts)).tolist()
        people = Places(human.choice, replace(self._settings, labels=book))
        for lists in (lists for case in whole for lists in rows.rankings[case]):
            people.add_items(lists)
        try:
            means = sample_means(human, people.table, people.rows).tolist() if whole else []
        except MeasureError as error:  # people differ, and the measure needs one grade per passage
            return str(error)
        of_trials = iter(means)
        for case in whole:
            trials = list(islice(of_trials, len(rows.rankings[case])))
            values[case] = fsum(trials) / len(trials)
        return values


def _of_terms(rows: ScoreTerms, labels: Floats, summary: MeasureSummary) -> CorrectedMean | str:
    """Return the mean corrected with `labels` (nan = none) of some passages or claims, or why not."""
    total, per_case = len(rows.cases), np.bincount(rows.case, minlength=len(rows.cases))
    judged = fsum((rows.weight * rows.values).tolist()) / total
    if summary.mean is None or abs(judged - summary.mean) > 1e-9:
        return "the stored verdicts do not add up to the stored mean: score again with germane score"
    # scaled by its weight, so that the mean of a query's verdicts is its score
    scale = rows.weight * per_case[rows.case] * np.count_nonzero(per_case) / total
    mean = partial(
        corrected_query_mean,
        rows.values * scale,
        labels * scale,
        rows.case,
        proxy=rows.verdict * scale,  # the judge's grade predicts a person's yes or no better than 1 or 0
        value_range=(0.0, max(1.0, float(scale.max()))),
    )
    result = _both([mean(population=population) for population in POPULATIONS], rows.measure.definition.range)
    queries = len(np.unique(rows.case[~np.isnan(labels)]))
    return result if isinstance(result, str) else result.replace(queries=queries)


def _both(means: Iterable[CorrectedMean | str], limits: tuple[float, float]) -> CorrectedMean | str:
    """Join the intervals of one mean: for these queries alone, and for queries like these.

    The second is widened to contain the first, because estimated variances do not ensure this.
    """
    of_set, of_queries = means
    if isinstance(of_queries, str):
        return of_queries
    low, high = of_queries.ends
    set_low, set_high = (low, high) if isinstance(of_set, str) else of_set.ends
    values = [of_queries.mean, min(low, set_low), max(high, set_high), set_low, set_high]
    mean, least, most, *set_ends = np.clip(values, *limits).tolist()
    return of_queries.replace(mean=mean, ends=(least, most), set_ends=tuple(set_ends))


def corrections_of(report: ReportData) -> Corrections:
    """Return the `Corrections` of a report's judged means by the people's labels stored in the report."""
    return report.corrections or Corrections(report.tables, report.manifest)
