"""Judged means corrected with people's labels, and the verdicts that each score is made of.

Scores are taken apart by running their programs again on the stored answers, so that whatever a score rests on, its
verdicts are found under the items that people labelled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import chain, islice, pairwise, repeat
from math import fsum, nan
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from germane.errors import MeasureError
from germane.judging.driver import replay
from germane.judging.recorded import StoredAnswers
from germane.measures.labels import PlaceLabels, Settings
from germane.measures.measure import LabelChoice, Measure
from germane.measures.scoring import program_of, sample_means
from germane.questions.asking import Unanswered, answered
from germane.questions.question import AnyQuestion
from germane.questions.relevance import HELPS, Passages, example_of
from germane.reports.correction.draws import design_of, drift_of, is_drawn, pool_of
from germane.reports.summary import LIKE_THESE, THESE, MeasureSummary, interval_in_words
from germane.statistics.correction import (
    POPULATIONS,
    CorrectedMean,
    between,
    corrected_mean,
    corrected_query_mean,
)
from germane.statistics.intervals import mean_interval
from germane.tables.folder import Tables
from germane.tables.labels import Label, LabelBook
from germane.tables.scores import SampleKey
from germane.types import Json, Judgement, Sample

if TYPE_CHECKING:
    from germane.reports.data import ReportData

Floats: TypeAlias = NDArray[np.float64]
LookUp: TypeAlias = Callable[[Sequence[AnyQuestion]], Sequence[Judgement]]

PASSAGE_MEANS = ("P", "SetP", "context_relevancy")
"""Ranked measures that are a mean over passages: their order does not matter."""
VERDICT_MEANS = ("context_recall", "faithfulness", "hallucination", "context_sufficiency")
"""Judged measures that are a mean over yes or no: is this claim supported, do these contexts suffice?"""
_COMPLEMENTS = {"hallucination"}
"""Measures that count what does not hold."""
_BETWEEN = (
    "labels were drawn from what two reports do not share: they correct the difference (germane compare A B)"
)
_GRADED = {"dcg", "top"}
"""Parameters of measures that read the grade itself: people's and the judge's must be on one scale."""


class ScoreTerm(Struct, frozen=True, kw_only=True, gc=False):
    """A term of a sample's score: the verdict on a passage, on a claim (`part`, from 1) with the contexts, or on these alone.

    `verdict` is the judge's grade, or 1 and 0 for yes and no; nan where there is none. `chance` is how probable it is that
    the measure's threshold is reached, where the judge gives a distribution, of which `verdict` is the mode. `weight` is what a hit adds to
    the score; nan where the score is no sum over hits. `call` and `rank` say where a passage stands. It was asked about in
    question `number` of `questions`.
    """

    item: str
    questions: Sequence[AnyQuestion]
    number: int = 0
    part: int = 0
    verdict: float = nan
    chance: float = nan
    scale: str = "binary"
    weight: float = nan
    call: int | None = None
    rank: int | None = None

    @property
    def question(self) -> AnyQuestion:
        """The question that was asked about it, or about the list that it is a part of."""
        return self.questions[self.number]

    @property
    def kind(self) -> str:
        """The kind of that question."""
        return example_of(self.questions, self.number).kind


class JudgedSamples:
    """Samples with the stored answers to what was asked about them: the verdicts that their scores are made of.

    Ranked measures that read the same labels share one table of them.
    """

    def __init__(self, samples: Sequence[Sample], settings: Settings, look_up: LookUp) -> None:
        self._samples, self._settings, self._look_up = samples, settings, look_up
        self._tables: dict[tuple[LabelChoice, int | None], tuple[PlaceLabels, list[Passages]]] = {}

    def score_terms(self, measure: Measure, numbers: Iterable[int]) -> Iterator[list[ScoreTerm]]:
        """The verdicts that the score of each of these samples rests on; none where people cannot label them."""
        if measure.name in VERDICT_MEANS:
            return (list(self._verdicts(measure, self._samples[number])) for number in numbers)
        if measure.definition.family != "ranked" or measure.labels != "judge" or self._settings.judged_by:
            return ([] for _ in numbers)
        labels, asked = self._labels(measure.choice, measure.depth)
        return (list(_places(measure, labels, number, asked[number])) for number in numbers)

    def _labels(self, choice: LabelChoice, depth: int | None) -> tuple[PlaceLabels, list[Passages]]:
        """The labels of this choice, and what was asked about each sample."""
        if (choice, depth) not in self._tables:
            labels = PlaceLabels(choice, self._settings)
            labels.add(self._samples, repeat(depth))
            asked = [labels.questions(number) for number in range(len(self._samples))]
            for number, passages in enumerate(asked):
                if passages:
                    example, judgements = passages.example, self._look_up(passages)
                    labels.take(number, [answered(example, judgement).value for judgement in judgements])
            self._tables[choice, depth] = labels, asked
        return self._tables[choice, depth]

    def _verdicts(self, measure: Measure, sample: Sample) -> Iterator[ScoreTerm]:
        _, exchange = replay(program_of(measure, sample, self._settings), self._look_up)
        for question, answer in exchange:
            lost = isinstance(answer, Unanswered)
            if question.kind == "support" and (claims := question.things):
                weight = 1 / len(claims)
                answers = [None] * len(claims) if lost else answer
                for part, (item, value) in enumerate(zip(question.parts(), answers, strict=True), 1):
                    verdict, asked = nan if value is None else float(bool(value.contexts)), [question]
                    yield ScoreTerm(item=item, questions=asked, part=part, verdict=verdict, weight=weight)
            elif question.kind == "sufficiency":
                verdict = nan if lost else float(answer.sufficient)
                yield ScoreTerm(item=question.item, questions=[question], verdict=verdict, weight=1.0)


def _places(measure: Measure, labels: PlaceLabels, sample: int, asked: Passages) -> Iterator[ScoreTerm]:
    """The places that a ranked measure reads of a sample."""
    pointers = labels.pointers[labels.rows[sample] : labels.rows[sample + 1] + 1]
    at = labels.places_of(sample)
    columns = (
        labels.columns.labelled[at].tolist(),
        labels.grades_of(sample).tolist(),
        labels.chances_at(measure.settings.get("rel") or HELPS, sample).tolist(),
        labels.columns.scale[at].tolist(),
    )
    places = zip(range(at.start, at.stop), labels.verdict[at], *columns, strict=True)
    for call, (start, end) in enumerate(pairwise(pointers), 1):
        shown = measure.k if measure.name == "P" and measure.k else end - start
        weight = 1 / ((len(pointers) - 1) * (shown or 1)) if measure.name in PASSAGE_MEANS else nan
        for rank, place in enumerate(islice(places, end - start), 1):
            position, number, known, grade, chance, scale = place
            judged = known and position not in labels.failed
            on = labels.scales[scale] if judged else str(labels.settings.scale)
            yield ScoreTerm(item=asked.items[number], questions=asked, number=number, scale=on, weight=weight,
                              verdict=grade if judged else nan, chance=chance, call=call, rank=rank)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class ScoreTerms:
    """The terms of one measure of one system: one row per distinct item of a case; a case may have several trials.

    `names` are the cases' ids; `weight` is what a hit adds to the case's score, nan where that is no sum over hits.
    """

    measure: Measure
    names: Sequence[str]
    cases: Sequence[Sequence[float]]
    """The values of each case's trials."""
    samples: Sequence[Sequence[Sample]]
    items: Sequence[str]
    case: NDArray[np.intp]
    verdict: Floats
    chance: Floats
    weight: Floats
    rank: NDArray[np.intp]
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
            votes = [counted(vote.answer, vote.scale) for vote in book.votes(item)]
            votes += [unsure] * book.unsure(item)
            shares.append(fsum(votes) / len(votes) if votes else nan)
        return np.array(shares)

    def unreadable(self, book: LabelBook) -> str | None:
        """Why people's labels do not say what counts, where their scale has no threshold that is known."""
        other = {label.scale for label in book} - {"graded", "binary"}
        if other and self.measure.settings.get("rel", 0) is None:
            where = f"people's grades are on the scale {min(other)}"
            return f"{where}: say from which grade a context counts, rel="
        return None


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
        self._labels: Iterable[Label] = tables.labels
        self._known: dict[tuple[str, str], ScoreTerms] = {}
        self._drifted: dict[tuple[object, ...], str] = {}

    def with_labels(self, labels: Iterable[Label]) -> Corrections:
        """The corrections that these labels make, in the place of those of the tables."""
        other = copy(self)
        for name in ("book", "_drawn", "_all_labelled"):
            other.__dict__.pop(name, None)
        other._drifted = {}  # noqa: SLF001 - it is one of us
        other._labels = list(labels)  # noqa: SLF001 - it is one of us
        return other

    def of(self, summary: MeasureSummary) -> tuple[CorrectedMean | None, str]:
        """The corrected mean, or None and why there is none."""
        if summary.mean is None:
            return None, "nothing was measured"
        if not self.book:
            return None, "no human labels"
        if not (self._drawn or self._all_labelled):
            between = any("between" in design_of(label) for label in self._labels)
            return None, _BETWEEN if between else "no labels were drawn at random"
        rows = self.terms(summary)
        if not rows.items:
            return None, "people's labels are about other things than this measure's verdicts"
        mean = self._of_all(rows, summary) or self._of_draw(rows, summary)
        if isinstance(mean, str):
            return None, mean
        return (mean, "") if mean.mean is not None and mean.ends is not None else (None, mean.why)

    def terms(self, summary: MeasureSummary) -> ScoreTerms:
        """The terms that the scores of a measure of a system rest on."""
        key = summary.measure, summary.system
        if key not in self._known:
            self._known[key] = self._rows(summary)
        return self._known[key]

    @cached_property
    def book(self) -> LabelBook:
        """The labels that count."""
        return LabelBook(self._labels)

    @cached_property
    def _drawn(self) -> list[Label]:
        return list(filter(is_drawn, self._labels))

    @cached_property
    def _all_labelled(self) -> bool:
        """True if everything of some kind that was judged may be labelled."""
        columns = map(self._tables.items.column, ("kind", "of", "item"))
        judged = {(kind, of is not None, item) for kind, of, item in zip(*columns, strict=True)}
        groups = Counter((kind, part) for kind, part, _ in judged)
        labelled = Counter((kind, part) for kind, part, item in judged if item in self.book)
        return any(count == groups[group] for group, count in labelled.items())

    @cached_property
    def _samples(self) -> list[Sample]:
        return list(self._tables.samples)

    @cached_property
    def _numbers(self) -> dict[SampleKey, int]:
        return {sample.key: number for number, sample in enumerate(self._samples)}

    @cached_property
    def _settings(self) -> Settings:
        return Settings.stored(self._manifest)

    @cached_property
    def _judged(self) -> JudgedSamples:
        return JudgedSamples(self._samples, self._settings, StoredAnswers(self._tables.judgements).look_up)

    def _rows(self, summary: MeasureSummary) -> ScoreTerms:
        measure, table = Measure.remembered(summary.type), self._tables.scores
        rows = table.rows_of((summary.measure, summary.type))
        cases: dict[str, list[float]] = {}
        numbers: dict[str, list[int]] = {}
        keys = table.samples
        for row, value in zip(table.sample[rows].tolist(), table.taken(rows).value.tolist(), strict=True):
            case, system, _ = keys[row]
            if system == summary.system:
                cases.setdefault(case, []).append(value)
                numbers.setdefault(case, []).append(self._numbers[keys[row]])
        terms: dict[tuple[int, str], ScoreTerm] = {}
        weights: dict[tuple[int, str], float] = {}
        of_samples = self._judged.score_terms(measure, chain.from_iterable(numbers.values()))
        for number, trials in enumerate(numbers.values()):
            for term in chain.from_iterable(islice(of_samples, len(trials))):
                at = number, term.item
                terms.setdefault(at, term)
                weights[at] = weights.get(at, 0.0) + term.weight / len(trials)
        return ScoreTerms(
            measure=measure,
            names=list(cases),
            cases=list(cases.values()),
            samples=[[self._samples[number] for number in trials] for trials in numbers.values()],
            items=[item for _, item in terms],
            case=np.array([case for case, _ in terms], np.intp),
            verdict=np.array([term.verdict for term in terms.values()]),
            chance=np.array([term.chance for term in terms.values()]),
            weight=np.array(list(weights.values())),
            rank=np.array([term.rank or 0 for term in terms.values()], np.intp),
            scale="binary" if {term.scale for term in terms.values()} == {"binary"} else "graded",
            kind=next((term.kind for term in terms.values()), ""),
        )

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
        ends = mean_interval(values, clusters=self._clusters_of(rows), value_range=limits).ends
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
        """Why labels that were drawn for another report do not serve this one, or ""."""
        key = rows.measure, rows.kind, len(rows.items)
        if key not in self._drifted:
            self._drifted[key] = ""
            if drawn := [label for label in self._drawn if label.kind == rows.kind]:
                places = zip(rows.case.tolist(), rows.verdict.tolist(), rows.rank.tolist(), strict=True)
                stands = dict(zip(rows.items, places, strict=True))
                self._drifted[key] = drift_of(drawn, pool_of(self._tables, rows.kind), stands)
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
        """Some queries are labelled whole: estimand B."""
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

    def _clusters_of(self, rows: ScoreTerms) -> list[str] | None:
        """The cluster of each case, where any case has one."""
        known = self._tables.clusters()
        return [known.get(case, f"case {case}") for case in rows.names] if known else None

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
        cases = rows.case.tolist()
        missing = set(rows.case[np.isnan(labels)].tolist())
        doubts = {case for case, item in zip(cases, rows.items, strict=True) if book.unsure(item)}
        people = PlaceLabels(human.choice, replace(self._settings, labels=book))
        whole = [n for n in range(len(rows.samples)) if n not in missing and n not in doubts]
        for number in whole:
            people.add(rows.samples[number], repeat(human.depth))
        values = np.full(len(rows.samples), nan)
        values[[*doubts - missing]] = measure.definition.range[int(unsure)]
        trials = iter(sample_means(human, people.table, people.rows).tolist() if whole else ())
        for number in whole:
            mine = list(islice(trials, len(rows.samples[number])))
            values[number] = fsum(mine) / len(mine)
        return values


def _of_terms(
    rows: ScoreTerms, labels: Floats, summary: MeasureSummary, strata: Sequence[Label]
) -> CorrectedMean | str:
    """Some passages (or claims) of each query are labelled: estimand C, or A over strata of the judge's grade.

    Every verdict is scaled so that the mean of those of a query is its score: what counts twice has twice the weight.
    """
    values = rows.values
    held = np.bincount(rows.case, minlength=len(rows.cases))
    total = len(rows.cases)
    if strata:
        scale = rows.weight * len(rows.items) / total
    else:
        scale = rows.weight * held[rows.case] * np.count_nonzero(held) / total
    judged = fsum((rows.weight * values).tolist()) / total
    if summary.mean is None or abs(judged - summary.mean) > 1e-9:
        return "the stored verdicts do not add up to the mean"
    limits = (0.0, max(1.0, float(scale.max())))
    proxy = rows.proxy * scale
    if strata:
        names = [str(int(verdict)) for verdict in rows.verdict.tolist()]
        told = {label.item: str(design_of(label).get("stratum")) for label in strata}
        if any(told.get(item, name) != name for item, name in zip(rows.items, names, strict=True)):
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


def _both(of_set: CorrectedMean, found: CorrectedMean, limits: tuple[float, float]) -> CorrectedMean:
    """A corrected mean of queries like these, with the interval of these queries, both within the measure's range.

    Estimated variances may order the two the wrong way round; the wider population never has the narrower interval.
    """
    low, high = found.ends or limits
    set_low, set_high = of_set.ends or (low, high)
    ends = np.clip(
        [found.mean or 0.0, min(low, set_low), max(high, set_high), set_low, set_high], *limits
    ).tolist()
    return replace(
        found,
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


def corrected_in_words(summaries: Iterable[MeasureSummary]) -> Iterator[str]:
    """One sentence per corrected mean."""
    for summary in summaries:
        if (mean := summary.corrected) is not None and mean.mean is not None and mean.ends is not None:
            measure = Measure.remembered(summary.type)
            what = "claims" if measure.definition.family == "judged" else "passages"
            what = "queries" if measure.name == "context_sufficiency" else what
            system = f" of {summary.system}" if summary.system else ""
            unsure = f", {mean.unsure} unsure," if mean.unsure else ""
            of_set = f"; {interval_in_words(mean.set_ends, 3)} {THESE}" if mean.set_ends else ""
            yield (
                f"{summary.measure}{system}: the judge says {mean.judged:.3f}; with people's labels on {mean.labels} of "
                f"{mean.total} {what}{unsure} it is {mean.mean:.3f} ({interval_in_words(mean.ends, 3)} {LIKE_THESE}{of_set})"
            )
