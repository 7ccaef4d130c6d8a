"""Two systems over the same cases: what each side is, which cases both have, and their paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from germane.comparison.result import MeasureComparison, higher_is_better
from germane.errors import InputError
from germane.reports.data import ReportData
from germane.reports.summary import range_of
from germane.statistics.comparison import (
    DifferenceParts,
    PairedDifference,
    paired_difference,
    split_difference,
)
from germane.statistics.intervals import Units, group_cases
from germane.tables.cases import CaseScores, CaseValues
from germane.types import Sample

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Compared:
    """A report that is compared: its scores by case, and its samples, each read once.

    `where` is what it was named by: a path, or "" for a report in memory.
    """

    def __init__(self, report: ReportData, where: str = "") -> None:
        self.report = report
        self.where = where or (str(report.folder) if report.folder else "")

    @cached_property
    def scores(self) -> CaseScores:
        """The scores by case."""
        return CaseScores(self.report.tables.scores)

    @cached_property
    def samples(self) -> Mapping[str, Mapping[str, Sequence[Sample]]]:
        """The samples of each system by the case's id, one per trial; none where a document or a run was read."""
        found: dict[str, dict[str, list[Sample]]] = {}
        for sample in self.report.samples():
            found.setdefault(sample.system, {}).setdefault(sample.id, []).append(sample)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One system that is compared; `name` is what it is printed as."""

    name: str
    of: Compared
    system: str
    measures: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """(reported name, canonical name) of each measure, by the reported one."""

    @property
    def report(self) -> ReportData:
        """The report that the system stands in."""
        return self.of.report

    @property
    def samples(self) -> Mapping[str, Sequence[Sample]]:
        """The system's samples by the case's id."""
        return self.of.samples.get(self.system, {})


def sides_of(reports: Sequence[Compared], systems: Sequence[str] = ()) -> list[Side]:
    """The systems to compare, the first of which is what the others are held against.

    One report: its systems, or those named. Several: the one system of each; where one holds several, `systems` names
    one for all or one for each.

    Raises:
        InputError: A system is not there, or it is not clear which one is meant, or there are fewer than two.
    """
    if len(reports) == 1:
        chosen = [(reports[0], system) for system in systems or reports[0].report.systems]
    else:
        if len(systems) not in {0, 1, len(reports)}:
            raise InputError(
                f"{len(systems)} systems for {len(reports)} reports",
                fix="name one system for all reports, or one for each",
            )
        each: Sequence[str | None] = systems or [None]
        wanted = list(each) if len(each) > 1 else list(each) * len(reports)
        chosen = [(one, _only(one, system)) for one, system in zip(reports, wanted, strict=True)]
    for one, system in chosen:
        if system not in one.report.systems:
            have = ", ".join(name or "(no name)" for name in one.report.systems)
            raise InputError(
                f"there is no system {system!r} in {one.where or 'the report'}", fix=f"there: {have}"
            )
    if len(chosen) < 2:
        raise InputError(
            "one system cannot be compared", fix="name a second report, or a report of several systems"
        )
    names = _names(chosen)
    return [_side(name, one, system) for name, (one, system) in zip(names, chosen, strict=True)]


def pairs_of(reports: Sequence[Compared], systems: Sequence[str] = ()) -> list[tuple[Side, Side]]:
    """What is compared with what: the first system with each other one.

    Two reports that hold the same several systems, of which none is named: each system with itself in the other report.
    InputError as of `sides_of`.
    """
    both = [one.report.systems for one in reports]
    if len(reports) == 2 and not systems and all(len(held) > 1 for held in both):
        common = [system for system in both[0] if system in both[1]]
        if common:
            names = _names([(one, "") for one in reports])
            sides = [
                [_side(f"{name}:{system}", one, system) for system in common]
                for name, one in zip(names, reports, strict=True)
            ]
            return list(zip(*sides, strict=True))
    first, *others = sides_of(reports, systems)
    return [(first, other) for other in others]


def _side(name: str, one: Compared, system: str) -> Side:
    lines = (line for line in one.report.summaries if line.system == system)
    return Side(name, one, system, {line.measure: (line.measure, line.type) for line in lines})


def _only(one: Compared, system: str | None) -> str:
    if system is not None:
        return system
    if len(one.report.systems) > 1:
        have = ", ".join(one.report.systems)
        raise InputError(
            f"{one.where or 'a report'} holds several systems: {have}", fix="name one: --systems NAME"
        )
    return one.report.systems[0]


def _names(chosen: Sequence[tuple[Compared, str]]) -> list[str]:
    """The shortest names that tell the sides apart: the systems', the folders', both, or letters."""
    stems = [Path(one.where).name.removesuffix(".json") for one, _ in chosen]
    systems = [system for _, system in chosen]
    both = [f"{stem}:{system}" for stem, system in zip(stems, systems, strict=True)]
    paths = [one.where for one, _ in chosen]
    for names in (systems, stems, both, paths):
        if all(names) and len(set(names)) == len(names):
            return names
    return [chr(ord("A") + number) if number < 26 else f"S{number + 1}" for number in range(len(chosen))]


def measures_in_common(sides: Sequence[Side]) -> list[str]:
    """The reported names of the measures that every side has, of the same type, in the first one's order."""
    first, *others = sides
    return [
        name for name, both in first.measures.items() if all(s.measures.get(name) == both for s in others)
    ]


class Pair:
    """Two systems and the cases that both have.

    Args:
        a: What is held against.
        b: What is compared with it.
        clusters: The cluster of each case that shares one with others, by the case's id.
        seed: Seed of the random flips of the tests.
    """

    def __init__(self, a: Side, b: Side, clusters: Mapping[str, str] | None = None, seed: int = 0) -> None:
        self.a, self.b, self.clusters, self.seed = a, b, clusters, seed

    @cached_property
    def _in_a(self) -> Ints:
        """The number in A of each case of B's report; -1 = A's report does not have it."""
        ours, theirs = self.a.of.scores, self.b.of.scores
        if ours is theirs:
            return np.arange(len(ours.cases))
        numbers = ours.numbers
        return np.array([numbers.get(case, -1) for case in theirs.cases], np.int64)

    def only_in(self) -> tuple[list[str], list[str]]:
        """The ids of the cases that only A has, and of those that only B has."""
        mine, theirs = self.a.of.scores.cases_of(self.a.system), self.b.of.scores.cases_of(self.b.system)
        there = set(self._in_a[theirs].tolist())
        have = set(mine.tolist())
        names_a, names_b = self.a.of.scores.cases, self.b.of.scores.cases
        only_b = [
            names_b[n]
            for n, at in zip(theirs.tolist(), self._in_a[theirs].tolist(), strict=True)
            if at not in have
        ]
        return [names_a[number] for number in mine.tolist() if number not in there], only_b

    def values(self, measure: str) -> tuple[CaseValues, CaseValues]:
        """The cases of which both should have been measured, in A's order, numbered as in A."""
        span = range_of(self.a.measures[measure][1])
        ours = self.a.of.scores.of(self.a.system, self.a.measures[measure], span)
        theirs = self.b.of.scores.of(self.b.system, self.b.measures[measure], span)
        at = self._in_a[theirs.case]
        known = np.flatnonzero(at >= 0)
        place = np.full(len(self.a.of.scores.cases), -1)
        place[at[known]] = known
        both = np.flatnonzero(place[ours.case] >= 0)
        ours = ours.taken(both)
        return ours, replace(theirs.taken(place[ours.case]), case=ours.case)

    def compare(self, measure: str, keep: Flags | None = None, name: str = "") -> MeasureComparison:
        """The comparison of one measure, by its reported name.

        Args:
            measure: Its reported name.
            keep: Which of A's cases count, shape (cases of A's report,); None = all.
            name: What these cases are called.
        """
        ours, theirs = self.values(measure)
        if keep is not None:
            chosen = np.flatnonzero(keep[ours.case])
            ours, theirs = ours.taken(chosen), theirs.taken(chosen)
        canonical = self.a.measures[measure][1]
        complete = ours.complete & theirs.complete
        some = np.flatnonzero(complete)
        counted = self._difference(ours.taken(some), theirs.taken(some), canonical)
        whole = counted
        if not complete.all():
            if np.isfinite(ours.high).all() and np.isfinite(theirs.high).all():
                whole = self._difference(ours, theirs, canonical)
            else:
                why = "what is missing could have any value"
                whole = replace(counted, interval=replace(counted.interval, ends=None, why=why), test=None)
        better = higher_is_better(canonical)
        return MeasureComparison(
            a=self.a.name,
            b=self.b.name,
            measure=measure,
            type=canonical,
            slice=name,
            n=len(some),
            due=len(complete),
            mean_a=counted.mean_a,
            mean_b=counted.mean_b,
            difference=counted.difference,
            interval=whole.interval,
            p=whole.p,
            test=whole.test.method if whole.test else None,
            wins=counted.wins if better else counted.losses,
            ties=counted.ties,
            losses=counted.losses if better else counted.wins,
            mde=counted.detectable,
            needed=counted.needed,
        )

    def _difference(self, ours: CaseValues, theirs: CaseValues, canonical: str) -> PairedDifference:
        return paired_difference(
            ours.values,
            theirs.values,
            clusters=self.a.of.scores.clusters_of(ours.case, self.clusters),
            bounds_a=(ours.low, ours.high),
            bounds_b=(theirs.low, theirs.high),
            value_range=_range_around(canonical, ours, theirs),
            seed=self.seed,
        )

    def complete_differences(self, measure: str) -> Units:
        """B minus A of the cases of which both were measured, by independent unit."""
        ours, theirs = self.values(measure)
        both = np.flatnonzero(ours.complete & theirs.complete)
        names = self.a.of.scores.clusters_of(ours.case[both], self.clusters)
        return group_cases(theirs.low[both] - ours.low[both], names)

    def split(self, measure: str, mixed: Floats) -> DifferenceParts | None:
        """The difference as retrieval and verdicts, over the cases with all three scores; None where there is none.

        `mixed` holds the score of B's lists with A's verdicts for each of A's cases, nan where there is none.
        """
        ours, theirs = self.values(measure)
        known = np.flatnonzero(ours.complete & theirs.complete & ~np.isnan(mixed[ours.case]))
        if not len(known):
            return None
        ours, theirs = ours.taken(known), theirs.taken(known)
        return split_difference(
            ours.values,
            mixed[ours.case],
            theirs.values,
            clusters=self.a.of.scores.clusters_of(ours.case, self.clusters),
            value_range=_range_around(self.a.measures[measure][1], ours, theirs),
        )


def _range_around(canonical: str, ours: CaseValues, theirs: CaseValues) -> tuple[float, float] | None:
    """The measure's range; None where a value is outside of it, as that of a measure that was not loaded may be."""
    low, high = range_of(canonical)
    inside = all(
        not len(one.low) or (one.low.min() >= low and one.high.max() <= high) for one in (ours, theirs)
    )
    return (low, high) if inside else None
