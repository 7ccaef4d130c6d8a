"""Before and after judging: what a number of queries can show, how two runs' lists differ, and systems in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import fsum, sqrt

import numpy as np

from germane.comparison.pairing import Compared, Pair, sides_of
from germane.comparison.result import MeasureComparison, adjusted, higher_is_better
from germane.errors import InputError
from germane.measures.measure import Measure
from germane.reports.data import ReportData
from germane.reports.schema import RankedLine, RankingLine, line_of
from germane.reports.summary import MeasureSummary
from germane.statistics.power import detectable_difference, power_of, units_needed
from germane.statistics.ranking import kendall_tau, overlap_at, rank_biased_overlap, top_half_tau
from germane.types import Json

POWER = 0.8
"""Probability with which a difference is to be detected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerPlan:
    """What the queries of a report can show of a difference on one measure, by a two-sided test at 0.05.

    `deviation` is the standard deviation of the paired differences of `n` queries or clusters: measured over two systems,
    or from the `correlation` that two systems' scores of a query are thought to have. `smallest` is the difference that n
    queries detect with probability 0.8, `power` the probability of detecting `detect`, `needed` the queries for 0.8.
    """

    measure: str
    n: int
    deviation: float
    correlation: float | None
    detect: float
    smallest: float
    power: float
    needed: int | None

    def as_json(self) -> dict[str, Json]:
        """For `--json`."""
        return asdict(self)

    def __str__(self) -> str:
        rests = (
            "measured"
            if self.correlation is None
            else f"for a correlation of {self.correlation:g} between systems"
        )
        needed = (
            "no number of queries shows it" if self.needed is None else f"{self.needed:,} queries show it"
        )
        return (
            f"{self.measure}: {self.n:,} queries, standard deviation of differences {self.deviation:.4f} ({rests})\n"
            f"  a difference of {self.detect:g} is detected with probability {self.power:.2f}; {needed} with {POWER:g}\n"
            f"  the smallest difference that {self.n:,} queries show with {POWER:g} is {self.smallest:.4f}"
        )


def plan_power(
    report: ReportData, measure: str, detect: float, other: ReportData | None = None, correlation: float = 0.5
) -> PowerPlan:
    """How large a difference the queries of a report can show, and how many would show one of `detect`.

    With a second report, or a second system in the first, the spread of the differences is measured. With one system it
    is sqrt(2 (1 - correlation)) standard deviations of its scores.

    Raises:
        InputError: The measure is not there or has no two complete scores, or a number is outside its range.
    """
    if not detect > 0:
        raise InputError(f"a difference of {detect}", fix="give --detect a number above 0, such as 0.02")
    if not -1 <= correlation < 1:
        raise InputError(f"a correlation of {correlation}", fix="give a number from -1 to below 1")
    if other is not None or len(report.systems) > 1:
        here = [Compared(report)] if other is None else [Compared(report), Compared(other)]
        a, b = sides_of(here)[:2]
        name = _name(report, measure)
        if name not in b.measures:
            raise InputError(f"{measure} was not measured of both", fix="name a measure of both")
        pair = Pair(a, b, {**b.report.tables.clusters(), **a.report.tables.clusters()})
        units = pair.complete_differences(name)
        n, deviation, assumed = len(units.sums), units.deviation, None
    else:
        summary = report[_name(report, measure)]
        if summary.error is None or summary.n < 2:
            raise InputError(f"{measure} has no two complete scores", fix="name another measure")
        n = summary.units or summary.n
        deviation, assumed = summary.error * sqrt(n) * sqrt(2 * (1 - correlation)), correlation
        name = summary.measure
    if n < 2:
        raise InputError(f"{n} queries in common", fix="name reports over the same queries")
    return PowerPlan(
        measure=name,
        n=n,
        deviation=deviation,
        correlation=assumed,
        detect=detect,
        smallest=detectable_difference(deviation, n, power=POWER),
        power=power_of(deviation, n, detect),
        needed=units_needed(deviation, detect, power=POWER),
    )


def _name(report: ReportData, measure: str) -> str:
    try:
        return report[measure].measure
    except KeyError as error:
        raise InputError(str(error.args[0]), fix="name a measure with -m") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOverlap:
    """How alike two lists for one query are: rank-biased overlap, and the share of the first k places, 0 to 1."""

    query: str
    rbo: float
    overlap: float
    same: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How alike the lists of two systems are, query by query, the least alike first; nothing is judged for it.

    `new` counts the results of B in the first k places that A does not have there: what judging B would add.
    """

    k: int
    p: float
    queries: Sequence[QueryOverlap]
    only_in: tuple[Sequence[str], Sequence[str]]
    new: int
    total: int

    @property
    def rbo(self) -> float:
        """The mean rank-biased overlap."""
        return fsum(one.rbo for one in self.queries) / len(self.queries)

    @property
    def overlap(self) -> float:
        """The mean overlap of the first k places."""
        return fsum(one.overlap for one in self.queries) / len(self.queries)

    @property
    def differing(self) -> list[QueryOverlap]:
        """The queries whose first k places differ at all, in which documents or in which order."""
        return [one for one in self.queries if not one.same]

    def as_json(self) -> dict[str, Json]:
        """For `--json`."""
        return {
            "schema_version": 1,
            "k": self.k,
            "p": self.p,
            "n": len(self.queries),
            "rbo": self.rbo,
            "overlap": self.overlap,
            "differing": len(self.differing),
            "new": self.new,
            "total": self.total,
            "only_in": {"A": list(self.only_in[0]), "B": list(self.only_in[1])},
            "queries": [asdict(one) for one in self.queries],
        }


def overlap(
    a: Mapping[str, Sequence[str]], b: Mapping[str, Sequence[str]], *, k: int = 10, p: float = 0.9
) -> Overlap:
    """Compare two systems' lists of document ids, best first, by query.

    Raises:
        InputError: No query is in both, k is below 1, or p is not between 0 and 1.
    """
    both = [query for query in a if query in b]
    if not both:
        raise InputError("the two have no query in common", fix="name runs over the same queries")
    rows = [
        QueryOverlap(
            query=query,
            rbo=rank_biased_overlap(a[query], b[query], p),
            overlap=overlap_at(a[query], b[query], k),
            same=list(a[query][:k]) == list(b[query][:k]),
        )
        for query in both
    ]
    return Overlap(
        k=k,
        p=p,
        queries=sorted(rows, key=lambda one: one.rbo),
        only_in=([query for query in a if query not in b], [query for query in b if query not in a]),
        new=sum(len(set(b[query][:k]) - set(a[query][:k])) for query in both),
        total=sum(len(set(b[query][:k])) for query in both),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One system in its place: its mean, and how far it is behind the first (None for the first itself)."""

    system: str
    summary: MeasureSummary
    behind: MeasureComparison | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedSystems:
    """The systems of a report in the order of their means on one measure, the best first.

    `orders` says how alike another measure orders them: Kendall's tau with ties over all systems and over the better half.
    """

    measure: str
    systems: Sequence[Ranked]
    orders: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)

    def as_json(self) -> RankingLine:
        """For `--json`."""
        systems = []
        for one in self.systems:
            behind = one.behind
            known = {
                name: getattr(behind, name, None)
                for name in ("difference", "p_holm", "mde", "distinguishable")
            }
            ends = behind.interval.ends if behind else None
            interval = list(one.summary.interval) if one.summary.interval else None
            systems.append(
                line_of(
                    RankedLine, one.summary, **known,
                    interval=interval, difference_interval=list(ends) if ends else None,
                )
            )  # fmt: skip
        orders = {name: {"tau": tau, "top_half": top} for name, (tau, top) in self.orders.items()}
        found: RankingLine = line_of(RankingLine, self, systems=systems, orders=orders)
        return found


def rank_systems(report: ReportData, measure: str | None = None) -> RankedSystems:
    """The systems of a report by their means, each against the best, p-values adjusted by Holm.

    Two measures that are the same but for whose labels they read are set against each other in `orders`.

    Raises:
        InputError: The report holds one system, or does not hold the measure.
    """
    name = _name(report, measure) if measure else report.measures[0]
    summaries = [one for one in report.summaries if one.measure == name and one.mean is not None]
    if len(summaries) < 2:
        raise InputError("one system cannot be ranked", fix="give several systems")
    sign = -1 if higher_is_better(summaries[0].type) else 1
    order = sorted(summaries, key=lambda one: sign * (one.mean or 0.0))
    sides = sides_of([Compared(report)], [one.system for one in order])
    clusters = report.tables.clusters()
    behind = adjusted((Pair(sides[0], side, clusters).compare(name) for side in sides[1:]), [name])
    return RankedSystems(
        measure=name,
        systems=[
            Ranked(system=summary.system, summary=summary, behind=one)
            for summary, one in zip(order, [None, *behind], strict=True)
        ],
        orders=_orders(report, name, [one.system for one in order]),
    )


def _orders(
    report: ReportData, name: str, systems: Sequence[str]
) -> dict[str, tuple[float | None, float | None]]:
    """How alike measures with other labels order the systems."""
    first = report[name]
    found = {}
    for other in report.measures:
        if other == name or _without_labels(report[other].type) != _without_labels(first.type):
            continue
        means = [[report[one, system].mean for system in systems] for one in (name, other)]
        if None not in means[0] and None not in means[1]:
            a, b = (np.array(side, float) for side in means)
            found[other] = (kendall_tau(a, b), top_half_tau(a, b))
    return found


def _without_labels(canonical: str) -> str:
    """A measure's name over gold labels: what measures of several label sources have in common."""
    try:
        measure = Measure.parse(canonical)
        return str(measure(labels="judge")) if "labels" in measure.definition.params else canonical
    except InputError:
        return canonical
