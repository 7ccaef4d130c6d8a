"""The difference between two systems, corrected with the labels that were drawn from both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from germane.clean import counted
from germane.reports.correct import corrections_of
from germane.reports.correction.draws import Draw, Pool, chance_of, design_of, draws_of, fingerprint, is_drawn
from germane.reports.correction.terms import Floats, ScoreTerms, distinct_rows
from germane.reports.pairing import MeasureComparison, PairedSystems, Side
from germane.statistics.differences import CorrectedDifference, corrected_difference
from germane.tables.labels import Label, LabelBook

_TOLERANCE = 1e-9
"""Weights and differences within this are equal."""


class DecidedPair(PairedSystems):
    """A pair whose comparisons say what decides them: the corrected difference wherever there is one."""

    @cached_property
    def _corrections(self) -> CorrectedDifferences:
        return CorrectedDifferences(self.a, self.b)

    def compare(
        self, measure: str, keep: NDArray[np.bool_] | None = None, name: str = ""
    ) -> MeasureComparison:
        """The comparison of one measure, with the difference as people's labels correct it, or why they do not."""
        comparison = super().compare(measure, keep, name)
        if {side.source(measure) for side in (self.a, self.b)} != {"judge"}:
            return comparison
        if comparison.difference is None or comparison.n < comparison.due:
            return comparison.replace(corrected_why="some scores are missing")
        if self.by_query:
            return comparison.replace(corrected_why="queries without ids are paired by their texts")
        case = self.values(measure)[0].case
        case = case if keep is None else case[keep[case]]
        cases = [self.a.scores.cases[number] for number in case.tolist()]
        clusters = self.a.scores.clusters_of(case, self.clusters)
        corrected, why = self._corrections.of(measure, cases, clusters, comparison.difference)
        if corrected is None:
            return comparison.replace(corrected_why=why)
        return comparison.replace(corrected=corrected, decided_by="corrected", stand_in=False)


class CorrectedDifferences:
    """The corrected differences B - A of two systems, by measure.

    Where only some of a query's passages are labelled, a measure that is a mean over verdicts is corrected by passages: one
    that is in both lists counts once, with the chance that either report's draw would have taken it,
    1 - (1 - chance in A)(1 - chance in B). Any other judged measure needs whole queries, labelled in both lists.
    """

    def __init__(self, a: Side, b: Side) -> None:
        self._sides = a, b
        self._corrections = corrections_of(a.report), corrections_of(b.report)
        self._draws: dict[str, _Drawn | str] = {}

    def of(
        self, measure: str, cases: Sequence[str], clusters: NDArray[np.generic] | None, judged: float
    ) -> tuple[CorrectedDifference | None, str]:
        """The corrected difference of a measure over these cases, or None and why there is none.

        `judged` is the difference that the judge's verdicts make, to which these must add up.
        """
        labelled = [bool(len(side.report.tables.labels)) for side in self._sides]
        if not all(labelled):
            return None, "only one of the two has human labels" if any(labelled) else "no human labels"
        sides = self._terms(measure)
        if not all(side.items for side in sides):
            return None, "people's labels are about other things than this measure's verdicts"
        for side, corrections in zip(sides, self._corrections, strict=True):
            if why := corrections.drifted(side):
                return None, why
        drawn = self._drawn(sides[0].kind)
        if isinstance(drawn, str):
            return None, drawn
        numbers = {case: number for number, case in enumerate(cases)}
        by_query = np.isnan(sides[0].weight).any() or all(draw.whole for draw in drawn.draws)
        if by_query:
            result = self._of_queries(sides, drawn, numbers, clusters)
        else:
            result = _of_terms(sides, drawn, numbers, clusters, judged)
        return (None, result) if isinstance(result, str) else (result, "")

    def _terms(self, measure: str) -> list[ScoreTerms]:
        """The verdicts that the scores of a measure rest on, of each side."""
        both = zip(self._sides, self._corrections, strict=True)
        return [corrections.terms(side.report[measure, side.system]) for side, corrections in both]

    def _drawn(self, kind: str) -> _Drawn | str:
        """The draws from both reports, and the labels that were drawn; or why there are none."""
        if kind not in self._draws:
            self._draws[kind] = self._find(kind)
        return self._draws[kind]

    def _find(self, kind: str) -> _Drawn | str:
        draws, labels, pools = list[Draw](), list[Label](), list[Pool]()
        both = zip(self._sides, self._corrections, strict=True)
        for corrections in {id(side.report.tables): c for side, c in both}.values():
            pool, book = corrections.pool(kind), LabelBook(corrections.labels)
            mine = [
                label
                for label in corrections.labels
                if label.kind == kind and (label.item in book or book.unsure(label.item))
            ]
            if pool and all(item in book for items in pool.values() for item in items):
                draws.append(Draw(mine, pool))
            else:
                draws += draws_of(filter(is_drawn, mine), pool)
            labels += mine
            pools.append(pool)
        shared = [label for label in labels if "between" in design_of(label)]
        between = fingerprint(*pools) if shared else ""
        shared = [label for label in shared if design_of(label)["between"] == between]
        whole = [label for label in shared if design_of(label).get("design") == "queries"]
        if whole:
            union: dict[str, frozenset[str]] = {}
            for pool in pools:
                for case, items in pool.items():
                    union[case] = union.get(case, frozenset()) | items
            draws += draws_of(whole, union)
        if passages := [label for label in shared if design_of(label).get("design") != "queries"]:
            draws += draws_of(passages, self.unshared(kind))
        if not draws:
            return "no labels were drawn at random"
        items = frozenset[str]().union(*(draw.items for draw in draws))
        return _Drawn(draws, [label for label in labels if label.item in items])

    def unshared(self, kind: str) -> Pool:
        """The items that do not count alike in both, and can make a difference, by query."""
        judged = [
            {
                line.measure
                for line in side.report.summaries
                if line.system == side.system and line.basis.source == "judge" and line.mean is not None
            }
            for side in self._sides
        ]
        result: dict[str, set[str]] = {}
        for measure in judged[0] & judged[1]:
            sides = self._terms(measure)
            if all(side.kind == kind and not np.isnan(side.weight).any() for side in sides):
                terms = _terms(sides)
                for case, item, weight in zip(terms.case, terms.item, terms.weight.tolist(), strict=True):
                    if abs(weight) > _TOLERANCE:
                        result.setdefault(case, set()).add(item)
        return {case: frozenset(items) for case, items in sorted(result.items())}

    def _of_queries(
        self,
        sides: Sequence[ScoreTerms],
        drawn: _Drawn,
        numbers: Mapping[str, int],
        clusters: NDArray[np.generic] | None,
    ) -> CorrectedDifference | str:
        """The difference of any judged measure, corrected by whole queries."""
        name = sides[0].measure.name
        if not any(draw.complete and draw.items for draw in drawn.draws):
            return f"{name} is not a mean over single verdicts: label whole queries (--design queries)"
        book = drawn.whole
        values: list[tuple[Floats, ...]] = []
        for side, corrections in zip(sides, self._corrections, strict=True):
            unsure = any(map(book.unsure, side.items))
            ends = [corrections.human(side, book, end) for end in ((0.0, 1.0) if unsure else (0.0,))]
            if refusal := next((end for end in ends if isinstance(end, str)), None):
                return refusal
            index_of = {name: number for number, name in enumerate(side.names)}
            rows = [index_of[case] for case in numbers]
            cases = side.cases
            verdicts = np.array([np.mean(trials) if len(trials) > 1 else trials[0] for trials in cases])
            values.append(tuple(np.asarray(of)[rows] for of in (ends[0], ends[-1], verdicts)))
        ours, theirs = values
        people, most, judged = theirs[0] - ours[1], theirs[1] - ours[0], theirs[2] - ours[2]
        labelled_whole = ~np.isnan(people)
        share = float(labelled_whole.mean())
        labelled = {item for side in sides for item in side.items if item in book}
        difference = corrected_difference(
            np.ones(len(people)),
            people,
            judged,
            np.full(len(people), share or 1.0),
            np.arange(len(people)),
            len(people),
            most=most,
            clusters=clusters,
        )
        whole = int(labelled_whole.sum())
        if isinstance(difference, str):
            return f"{whole} queries are labelled whole in both: at least 10 are needed"
        return difference.replace(labels=len(labelled), queries=whole)


def _of_terms(
    sides: Sequence[ScoreTerms],
    drawn: _Drawn,
    numbers: Mapping[str, int],
    clusters: NDArray[np.generic] | None,
    judged: float,
) -> CorrectedDifference | str:
    """The difference of a measure that is a mean over verdicts, corrected by single passages or claims."""
    draws, book = drawn.draws, drawn.book
    terms = _terms(sides)
    terms = terms.rows_where(np.array([case in numbers for case in terms.case], bool))
    if np.isnan(terms.grade).any():
        return "some verdicts are missing"
    if abs(sum(terms.judged.tolist()) / len(numbers) - judged) > _TOLERANCE:
        return "the stored verdicts do not add up to the difference"
    if (why := sides[0].unreadable(book)) is not None:
        return why
    terms = terms.rows_where(np.abs(terms.weight) > _TOLERANCE)
    rows = zip(terms.case, terms.item, strict=True)
    chances = np.array([chance_of(draws, *row) for row in rows])
    if missing := int((chances <= 0).sum()):
        of = f"{missing} of the {counted(len(terms.item), 'passage')} that make the difference"
        return f"{of} had no chance of being drawn: label both reports (germane label A B)"
    least, most = (sides[0].people(terms.item, book, unsure) for unsure in (0.0, 1.0))
    queries = [numbers[case] for case in terms.case]
    return corrected_difference(
        terms.weight,
        least,
        terms.grade,
        chances,
        queries,
        len(numbers),
        most=most,
        units=queries if any(draw.whole for draw in draws) else None,
        clusters=clusters,
    )


@dataclass(frozen=True)
class _Drawn:
    """The draws from both reports, and all labels that were drawn; one that both reports hold counts once."""

    draws: Sequence[Draw]
    labels: Sequence[Label]

    @cached_property
    def book(self) -> LabelBook:
        """The book of all these labels, which says which of several votes on an item count."""
        return LabelBook(self.labels)

    @cached_property
    def whole(self) -> LabelBook:
        """The labels of queries that are labelled whole; none where all were drawn in part."""
        if all(draw.complete for draw in self.draws):
            return self.book
        items = frozenset[str]().union(*(draw.items for draw in self.draws if draw.complete))
        return LabelBook(label for label in self.labels if label.item in items)


class _Terms(NamedTuple):
    """The part of each item of each query in the difference, one column each."""

    case: Sequence[str]
    item: Sequence[str]
    weight: Floats
    """The item's weight in B less that in A."""
    grade: Floats
    """The judge's grade: the mean of the two where both judged it."""
    judged: Floats
    """The amount that the judge's verdicts add to the sum of the differences."""

    def rows_where(self, mask: NDArray[np.bool_]) -> _Terms:
        """The rows in which the mask is True, shape (rows,), in their order."""
        at = np.flatnonzero(mask)
        names, items = ([column[row] for row in at.tolist()] for column in (self.case, self.item))
        return _Terms(names, items, self.weight[at], self.grade[at], self.judged[at])


def _terms(sides: Sequence[ScoreTerms]) -> _Terms:
    """The part of each item of each case in the difference."""
    numbers: dict[str, int] = {}
    case = np.array(
        [
            numbers.setdefault(name, len(numbers))
            for side in sides
            for name in map(side.names.__getitem__, side.case.tolist())
        ],
        np.intp,
    )
    items = [item for side in sides for item in side.items]
    weights = np.concatenate([-sides[0].weight, sides[1].weight])
    first, group = distinct_rows(case, items)
    grades, values = (
        np.concatenate(both) for both in ([side.verdict for side in sides], [side.values for side in sides])
    )
    sums = [
        np.asarray(np.bincount(group, column, len(first)), float)
        for column in (weights, grades, weights * values)
    ]
    names = list(numbers)
    return _Terms(
        case=[names[number] for number in case[first].tolist()],
        item=[items[row] for row in first.tolist()],
        weight=sums[0],
        grade=sums[1] / np.bincount(group, minlength=len(first)),
        judged=sums[2],
    )
