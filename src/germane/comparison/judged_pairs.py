"""Compare two systems: whether their judges allow it, the corrected difference, and what it is due to.

A difference is split by scoring B's lists with A's verdicts and gold. If M is that score, M - A is due to
retrieval and B - M is due to the labels.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from math import fsum
from statistics import fmean
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from germane.clean import counted, shorten
from germane.encoding import batched
from germane.judging.stored_answers import BLOCK, StoredAnswers
from germane.measures.measure import Measure
from germane.measures.scoring import outcomes_of
from germane.places.lists import Settings, distinct_contexts, field_text, rankings
from germane.places.table import Floats
from germane.questions.asking import FindValues, Unanswered
from germane.questions.question import AnyQuestion
from germane.reports.correct import Corrections, ScoreTerms, corrections_of
from germane.reports.data import ReportData
from germane.reports.explain import settings_of
from germane.reports.label_draws import Draw, chance_of, draws_of
from germane.reports.pairing import MeasureComparison, PairedSystems, Side, how_judged
from germane.reports.summary import known_measure
from germane.statistics.differences import CorrectedDifference, corrected_difference
from germane.statistics.systems import DifferenceParts, Overlap, mean_overlap, rank_biased_overlap
from germane.tables.labels import Label, LabelBook
from germane.types import Context, Sample

_TOLERANCE = 1e-9  # the largest rounding error: weights and differences closer than this are equal
MOST_SPLIT = 20_000
"""The most cases for which a difference is split, as each list must be scored once more."""
_TEXTS = ("reference", "criterion")
"""Fields, besides query and contexts, whose text may be part of a measure's questions."""
_GOLD = ("qrels", "gold", "evidence", "answerable", "forbidden", "grade_scale")

_Clusters: TypeAlias = NDArray[np.generic] | None
_Drawn: TypeAlias = tuple[Sequence[Draw], LabelBook, LabelBook]
"""The draws from both reports, their labels, and the labels of fully labelled queries."""


class DecidedPair(PairedSystems):
    """Two systems whose differences are computed, and corrected with people's labels where possible.

    A measure that is a mean over verdicts can be corrected with labels of single passages. A passage in both
    lists counts once; the probability that it was drawn in at least one report is 1 - (1 - chance in A)(1 -
    chance in B). Any other judged measure needs queries whose passages are all labelled, in both lists.
    """

    def __init__(self, a: Side, b: Side) -> None:
        super().__init__(a, b)
        self._draws: dict[str, _Drawn | str] = {}
        self._was_read = False
        self._renamed: list[tuple[str, str, str]] = []
        self._overlaps: list[float] = []

    @cached_property
    def _corrected(self) -> list[tuple[Side, Corrections]]:
        return [(side, corrections_of(side.report)) for side in (self.a, self.b)]

    def samples_in_both(self) -> Iterator[tuple[str, list[Sample], list[Sample]]]:
        """Yield (case, samples of A, samples of B) for each common case, reading both in parallel."""
        self._was_read, self._renamed, self._overlaps = True, [], []
        sides = self.a, self.b
        name_of: tuple[Callable[[str], str | None], ...] = (str, self.case_in_a)
        due = [
            Counter(name(key[0]) for key in side.scores.table.samples if key[1] == side.system)
            for side, name in zip(sides, name_of, strict=True)
        ]
        waiting = [dict[str, list[Sample]](), dict[str, list[Sample]]()]
        for both in zip_longest(*(side.read() for side in sides)):
            for sample, samples_of_case, name in zip(both, waiting, name_of, strict=True):
                case = None if sample is None else name(sample.id)
                if sample is not None and case is not None and all(case in cases for cases in due):
                    samples_of_case.setdefault(case, []).append(sample)
                    if all(
                        len(samples.get(case, ())) == n[case] for samples, n in zip(waiting, due, strict=True)
                    ):
                        before, after = (samples.pop(case) for samples in waiting)
                        self._look_at(case, before, after)
                        yield case, before, after

    def _look_at(self, case: str, before: Sequence[Sample], after: Sequence[Sample]) -> None:
        """Record whether a case's query differs between A and B, and how similar the two ranked lists are.

        If the case has several trials, the similarity is the mean over all pairs of a list of A and one of B.
        """
        query, other = (" ".join(samples[0].query.split()) for samples in (before, after))
        if query != other and not self.by_query:
            self._renamed.append((case, query, other))
        lists = (
            [tuple(c.id or c.text for c in distinct_contexts(s)) for s in samples if s.contexts is not None]
            for samples in (before, after)
        )
        ours, theirs = map(Counter, lists)  # trials often have the same list
        if ours and theirs:
            overlaps = [rank_biased_overlap(a, b) for a in ours for b in theirs]
            self._overlaps.append(fmean(overlaps, [n * m for n in ours.values() for m in theirs.values()]))

    def _read(self) -> None:
        """Read all samples once, for the overlaps and the note on ids, if both reports contain samples."""
        if not self._was_read and self.a.has_samples and self.b.has_samples:
            deque(self.samples_in_both(), 0)

    def overlap(self) -> Overlap | None:
        """Return the mean rank-biased overlap of the two systems' lists; None if there are no lists."""
        self._read()
        return mean_overlap(self._overlaps)

    def renamed_note(self) -> tuple[int, str] | None:
        """Return the number of ids that (may) have different queries in A and B, and a note, or None."""
        self._read()
        if not (self.a.has_samples and self.b.has_samples):
            cases = {*self.a.scores.cases} - {"0"}
            if cases == {*map(str, range(1, len(cases) + 1))}:
                note = "cases are paired by number, without questions to check that by"
                return len(cases), f"{note}: give ids, or a column query"
        if not self._renamed:
            return None
        count, (case, ours, theirs) = len(self._renamed), (shorten(text, 40) for text in self._renamed[0])
        have = "id has" if count == 1 else "ids have"
        texts = f"{case} is {ours!r} and {theirs!r}"
        return count, f"{have} different queries in {self.a.name} and {self.b.name}: {texts}"

    def compare(
        self, measure: str, keep: NDArray[np.bool_] | None = None, name: str = ""
    ) -> MeasureComparison:
        """Return the comparison of a measure over all cases, or over the cases in the mask `keep`.

        `name` is the name of the slice that `keep` selects. If people's labels cannot correct the difference
        of judged scores, `corrected_why` of the result is the reason.
        """
        comparison = super().compare(measure, keep, name)
        if {side.source(measure) for side in (self.a, self.b)} != {"judge"}:
            return comparison
        if comparison.difference is None or comparison.n < comparison.due:
            return comparison.replace(corrected_why="some samples have no score")
        if self.by_query:
            return comparison.replace(corrected_why="the queries have no ids, and were paired by their texts")
        corrected = self._difference_by_people(measure, keep, comparison.difference)
        if isinstance(corrected, str):
            return comparison.replace(corrected_why=corrected)
        return comparison.replace(corrected=corrected, decided_by="corrected", stand_in=False)

    def decided(self, measure: str) -> MeasureComparison:
        """Return the comparison over all cases, with the reason `undecided_why` if nothing can be decided."""
        comparison = self.compare(measure)
        judged = verdicts_of((self.a, self.b), measure) != "labels"
        why = how_judged(self.a, self.b, [measure]) if judged else ""
        # at least half of each system's queries are needed, unless only a random sample of them was evaluated
        n, due = comparison.n, [len(side.case) for side in self.due(measure)]
        sampled = [side.report.manifest.get("sampled") for side in (self.b, self.a)]
        whole = [count for count, other in zip(due, sampled, strict=True) if not other]
        if not why and not (n and 2 * n >= max(whole, default=0)):
            both = f"the {counted(due[0], 'query')} of {comparison.a} and the {due[1]} of {comparison.b}"
            have = "query has" if n == 1 else "queries have"
            why = f"only {n} {have} {measure} in both reports, of {both}"
        return comparison.replace(undecided_why=why)

    def _difference_by_people(
        self, measure: str, keep: NDArray[np.bool_] | None, judged: float
    ) -> CorrectedDifference | str:
        """Return the difference corrected with people's labels, or why that is impossible."""
        labelled = [bool(len(side.report.tables.labels)) for side, _ in self._corrected]
        if not all(labelled):
            return "only one of the two reports has human labels" if any(labelled) else "no human labels"
        sides = [
            corrections.terms(side.report[measure, side.system]) for side, corrections in self._corrected
        ]
        if not all(side.items for side in sides):
            return "people's labels are not of the items that this measure's verdicts are about"
        kind = sides[0].kind
        drawn = self._draws[kind] = self._draws.get(kind) or self._drawn(kind)
        if isinstance(drawn, str):
            return drawn
        case = self.values(measure)[0].case
        case = case if keep is None else case[keep[case]]
        numbers = {self.a.scores.cases[at]: number for number, at in enumerate(case.tolist())}
        clusters = self.a.scores.clusters_of(case, self.clusters)
        if np.isnan(sides[0].weight).any() or all(draw.whole for draw in drawn[0]):
            return self._of_queries(sides, drawn, numbers, clusters)
        return _of_terms(sides, drawn, numbers, clusters, judged)

    def _drawn(self, kind: str) -> _Drawn | str:
        """Return both reports' draws, the book of their labels and that of complete draws, or why not."""
        draws, labels = list[Draw](), list[Label]()
        for corrections in {id(side.report.tables): c for side, c in self._corrected}.values():
            pool, book = corrections.pool(kind), corrections.book
            of_kind = (label for label in corrections.labels if label.kind == kind)
            usable = [label for label in of_kind if label.item in book or book.unsure(label.item)]
            if corrections.all_labelled(kind):
                draws.append(Draw(usable, pool))
            else:
                items = {label.item for label in usable}
                draws += draws_of((drawn for drawn in corrections.drawn(kind) if drawn.item in items), pool)
            labels += usable
        if not draws:
            return "no labels were drawn at random"

        def book_of(draws_made: Iterable[Draw]) -> LabelBook:
            items = frozenset[str]().union(*(draw.items for draw in draws_made))
            return LabelBook(label for label in labels if label.item in items)

        return draws, book_of(draws), book_of(draw for draw in draws if draw.complete)

    def _of_queries(
        self, sides: Sequence[ScoreTerms], drawn: _Drawn, numbers: Mapping[str, int], clusters: _Clusters
    ) -> CorrectedDifference | str:
        """Return the difference of any judged measure, corrected with fully labelled queries, or why not."""
        draws, _, book = drawn
        if not any(draw.complete and draw.items for draw in draws):
            name = sides[0].measure.name
            return f"{name} is not a mean over single verdicts: label whole queries (--design queries)"
        values = list[tuple[Floats, ...]]()
        for side, (_, corrections) in zip(sides, self._corrected, strict=True):
            unsure = any(map(book.unsure, side.items))
            least = corrections.human(side, book, 0.0)
            most = corrections.human(side, book, 1.0) if unsure else least
            if isinstance(least, str) or isinstance(most, str):
                return least if isinstance(least, str) else str(most)
            index_of = {name: number for number, name in enumerate(side.cases)}
            rows = [index_of[case] for case in numbers]
            verdicts = np.array(
                [np.mean(trials) if len(trials) > 1 else trials[0] for trials in side.cases.values()]
            )
            values.append((least[rows], most[rows], verdicts[rows]))
        (least_a, most_a, judge_a), (least_b, most_b, judge_b) = values
        least, most, judged = least_b - most_a, most_b - least_a, judge_b - judge_a
        n, labelled = len(least), ~np.isnan(least)
        whole, chances = int(labelled.sum()), np.full(n, float(labelled.mean()) or 1.0)
        difference = corrected_difference(
            np.ones(n), least, judged, chances, np.arange(n), n, most=most, clusters=clusters
        )
        if isinstance(difference, str):
            are = counted(whole, "query is", "queries are")
            return f"{are} fully labelled in both reports: a correction needs at least 10"
        items = {item for side in sides for item in side.items if item in book}
        return difference.replace(labels=len(items), queries=whole)


def _of_terms(
    sides: Sequence[ScoreTerms], drawn: _Drawn, numbers: Mapping[str, int], clusters: _Clusters, judged: float
) -> CorrectedDifference | str:
    """Return the difference of a mean over verdicts, corrected with labels of single items, or why not."""
    draws, book, _ = drawn
    # by (query, item): B's - A's weight, the sum and number of grades, and the part of the difference
    joined: dict[tuple[str, str], list[float]] = {}
    for sign, side in zip((-1, 1), sides, strict=True):
        weights, cases = sign * side.weight, list(side.cases)
        columns = np.stack([weights, side.verdict, np.ones(len(weights)), weights * side.values], axis=1)
        for at, item, column in zip(side.case.tolist(), side.items, columns.tolist(), strict=True):
            if cases[at] in numbers:
                row = joined.setdefault((cases[at], item), [0.0] * 4)
                row[:] = map(float.__add__, row, column)
    weight, grade, count, added = np.array(list(joined.values()), float).reshape(-1, 4).T
    grade = grade / count
    if np.isnan(grade).any():
        return "some of the measure's verdicts are missing"
    if abs(sum(added.tolist()) / len(numbers) - judged) > _TOLERANCE:
        return "the stored verdicts do not add up to the difference"
    if (why := sides[0].unreadable(book)) is not None:
        return why
    kept = np.abs(weight) > _TOLERANCE
    names = [name for name, keep in zip(joined, kept.tolist(), strict=True) if keep]
    items, queries = [item for _, item in names], [numbers[case] for case, _ in names]
    chances = np.array([chance_of(draws, *name) for name in names])
    if missing := int((chances <= 0).sum()):
        undrawn = f"{missing} of the {counted(len(items), 'passage')} that decide the difference"
        return f"{undrawn} could not be drawn for labelling: label both reports"
    least, most = (sides[0].people(items, book, unsure) for unsure in (0.0, 1.0))
    units = queries if any(draw.whole for draw in draws) else None
    weight, grade, n = weight[kept], grade[kept], len(numbers)
    return corrected_difference(
        weight, least, grade, chances, queries, n, most=most, units=units, clusters=clusters
    )


def verdicts_of(sides: Iterable[Side], measure: str) -> Literal["judge", "labels", "mixed"]:
    """Return where a measure's verdicts come from: a judge, labels (gold or people's), or a mix of both."""
    sources = {side.source(measure) for side in sides}
    return "mixed" if "best" in sources else "judge" if "judge" in sources else "labels"


def parts_of(pair: DecidedPair, measures: Sequence[str]) -> dict[str, tuple[DifferenceParts | None, str]]:
    """Return, by measure, (parts, ""), or (None, the reason why the difference cannot be split).

    The two parts of the difference are due to retrieval and to labels. If A has no verdict on a passage of
    B's lists, B's own verdict is used.
    """
    a, b = pair.a, pair.b
    if a.report is b.report:  # one report holds one verdict per item: all of the difference is retrieval
        unchanged = np.full(len(a.scores.cases), np.nan)
        return {name: _split(pair, name, unchanged) for name in measures}
    settings = settings_of(a.report), settings_of(b.report)
    result: dict[str, tuple[DifferenceParts | None, str]] = {
        name: (None, why) for name in measures if (why := _refusal(pair, name, settings))
    }
    scorable = {name: Measure.parse(a.types[name]) for name in measures if name not in result}
    if not scorable:
        return result
    mixed, texts_differ = _scored_again(pair, scorable, settings)
    for name, sums in mixed.items():
        if texts_differ and verdicts_of((a, b), name) == "judge":
            result[name] = None, "the judges were shown different references or criteria"
        else:
            result[name] = _split(pair, name, sums)
    return result


def _scored_again(
    pair: DecidedPair, measures: dict[str, Measure], both: tuple[Settings, Settings]
) -> tuple[dict[str, Floats], bool]:
    """Return the scores of B's lists with A's labels, by measure and case; True if judges saw other texts.

    A score is nan if A's and B's labels are the same, because it then equals B's stored score.
    """
    a, b, (ours, theirs) = pair.a, pair.b, both
    changed: Container[str] = a.scores.numbers if pair.by_query else _judged_otherwise(a, b)
    settings = theirs if ours.judged_by == theirs.judged_by else theirs.with_judge("")
    find = None
    sums = {name: np.zeros(len(a.scores.cases)) for name in measures}
    trials, texts_differ = np.zeros(len(a.scores.cases)), False
    for cases_of_block in batched(pair.samples_in_both(), BLOCK):
        scored, case_of = list[Sample](), list[int]()
        for case, before, after in cases_of_block:
            first, other = before[0], after[0]
            texts_differ |= ours.shown_with(first) != theirs.shown_with(other)
            texts_differ |= any(field_text(first, name) != field_text(other, name) for name in _TEXTS)
            samples = [_with_labels(sample, first) for sample in after]
            if case in changed or samples != after:
                scored += samples
                case_of += [a.scores.numbers[case]] * len(samples)
        if not scored:
            continue
        find = find or _shared_verdicts(a.report, b.report)
        results = outcomes_of([*measures.values()], scored, settings, find)
        for number, outcomes in zip(case_of, results, strict=True):
            trials[number] += 1
            for name, outcome in zip(measures, outcomes, strict=True):
                sums[name][number] += np.nan if outcome.value is None else outcome.value
    counts = np.where(trials > 0, trials, np.nan)
    return {name: total / counts for name, total in sums.items()}, texts_differ


def _judged_otherwise(a: Side, b: Side) -> Container[str]:
    """Return the ids of B's cases with an item (e.g. a passage) to which A and B store different answers."""
    ours: dict[str, bytes] = {}
    for item, answer in a.report.tables.answers():
        if answer is not None:
            ours.setdefault(item, answer)
    alike: dict[str, bool] = {}
    for item, answer in b.report.tables.answers():
        alike[item] = alike.get(item, True) and answer == ours.get(item)
    rows = (row for row in b.report.places() if row.of is None and row.system == b.system)
    return {row.sample for row in rows if row.item in ours and not alike.get(row.item)}


def _shared_verdicts(a: ReportData, b: ReportData) -> FindValues:
    """Return a function that looks up the stored answer to each question: A's, or B's if A has no answer."""
    ours, theirs = StoredAnswers(a.tables.judgements, however=True), StoredAnswers(b.tables.judgements)

    def find(asked: Sequence[Sequence[AnyQuestion]]) -> list[list[Any]]:
        result = [list(values) for values in ours.values(asked)]
        lacking = [n for n, values in enumerate(result) if any(isinstance(v, Unanswered) for v in values)]
        for n, own in zip(lacking, theirs.values([asked[n] for n in lacking]), strict=True):
            both = zip(result[n], own, strict=True)
            result[n] = [other if isinstance(value, Unanswered) else value for value, other in both]
        return result

    return find


def _refusal(pair: PairedSystems, name: str, settings: tuple[Settings, Settings]) -> str:
    """Return the reason why a measure's difference cannot be split; "" if it can."""
    a, b, measure = pair.a, pair.b, known_measure(pair.a.types[name])
    sources = {a.source(name), b.source(name)}
    reasons = {
        "the measure mixes people's labels with a judge's": "best" in sources,
        "one system's verdicts are people's labels, the other's are gold": sources == {"human", "gold"},
        "the score is a script's or of an unknown measure, which cannot be computed again": (
            measure is None or measure.definition.family == "graded"
        ),
        "the samples of both systems are needed; only report folders of germane run have them": not (
            a.has_samples and b.has_samples
        ),
        f"system B has more than {MOST_SPLIT:,} queries": len(b.scores.cases_of(b.system)) > MOST_SPLIT,
        "the two judges answered on different scales": settings[0].scale != settings[1].scale,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def _with_labels(sample: Sample, other: Sample) -> Sample:
    """Return `sample` with the gold and people's labels of `other`, the other system's sample of the case."""
    labels: dict[str | None, tuple[int | None, bool | None]] = {}
    for _, contexts in rankings(other):
        for context in contexts:
            if context.grade is not None or context.relevant is not None:
                labels.setdefault(context.text or context.id, (context.grade, context.relevant))
    gold = {name: value for name in _GOLD if (value := getattr(other, name)) != getattr(sample, name)}
    if not labels and not gold:
        return sample

    def labelled(context: Context) -> Context:
        own = context.grade, context.relevant
        grade, relevant = labels.get(context.text or context.id, own)
        return context if (grade, relevant) == own else replace(context, grade=grade, relevant=relevant)

    return sample.with_contexts(labelled, **gold) if labels else replace(sample, **gold)


def _split(pair: PairedSystems, measure: str, mixed: Floats) -> tuple[DifferenceParts | None, str]:
    """Return (parts of the difference, "") or (None, why not); `mixed` is nan where it equals B's score."""
    if verdicts_of((pair.a, pair.b), measure) == "judge" and (why := how_judged(pair.a, pair.b, [measure])):
        return None, why
    ours, theirs = pair.values(measure)
    common = np.flatnonzero(ours.complete & theirs.complete)
    if not len(common):
        return None, "no query has a score in both systems"
    a, b, middle = ours.low[common], theirs.low[common], mixed[ours.case[common]]
    middle = np.where(np.isnan(middle), b, middle)
    retrieval, labels = (fsum(part.tolist()) / len(common) for part in (middle - a, b - middle))
    return DifferenceParts(retrieval, labels), ""
