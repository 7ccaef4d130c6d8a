"""Before judging: what a number of queries can show, and how two runs' lists differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum, isfinite, sqrt
from typing import Literal

import numpy as np
from msgspec import structs

from germane.clean import counted, shorten, some_of
from germane.comparison.noise import variance_of
from germane.errors import InputError
from germane.reports.data import ReportData
from germane.reports.pairing import PairedSystems, sides_of
from germane.reports.schema import Line
from germane.reports.summary import MeasureSummary, check_change, range_of
from germane.statistics.distributions import normal_quantile
from germane.statistics.intervals import group_cases
from germane.statistics.power import POWER, Pilot, smallest
from germane.statistics.ranking import overlap_at, rank_biased_overlap
from germane.types import Json


class VarianceLine(Line):
    """The variance of a system's mean by its sources: queries, trials, replicas of the judge, labels.

    `components` are variances of one score, `counts` how many of each there are, `shares` each one's share of the variance of
    the mean (`of_mean`), `one_more` the share that one more of each would take off it.
    """

    of: str
    components: dict[str, float | None]
    counts: dict[str, float]
    of_mean: float
    shares: dict[str, float]
    one_more: dict[str, float]


class PowerPlan(Line, kw_only=True):
    """The differences that the queries of a report can show on one measure, by the interval at 0.95 and its test.

    `deviation` is the standard deviation of the paired differences of `n` queries or clusters: measured over two systems,
    or from the `correlation` that two systems' scores of a query are thought to have. `smallest` is the difference that n
    queries detect with probability 0.8 (null where none within the measure's range), `power` the probability of detecting `detect`, `needed` the queries for 0.8.
    `power_to_pass` is the probability that n queries pass `margin` where there is no difference, `needed_to_pass` the queries
    for 0.8. Where differences do not vary nothing can be told, and `why` says so. `variance` says where the noise of the
    first system's mean comes from (`variance_of`), where there are trials, replicas of the judge, or labels.
    """

    measure: str
    n: int
    deviation: float
    correlation: float | None
    detect: float
    smallest: float | None = None
    power: float | None = None
    needed: int | None = None
    margin: float | None = None
    power_to_pass: float | None = None
    needed_to_pass: int | None = None
    why: str | None = None
    variance: VarianceLine | None = None

    def __str__(self) -> str:
        assumed = self.correlation
        basis = "measured" if assumed is None else f"for a correlation of {assumed:g} between systems"
        deviation = f"standard deviation of differences {self.deviation:.4f} ({basis})"
        lines = [f"{self.measure}: {counted(self.n, 'query')}, {deviation}"]
        if self.power is None:
            return "\n  ".join([*lines, str(self.why), *_noise(self.variance)])
        least = "no difference that the measure can have" if self.smallest is None else f"{self.smallest:.4f}"
        lines += [
            f"detecting a difference of {self.detect:g} takes {_queries(self.needed)} (power {POWER:g}); these have power {self.power:.2f}",
            f"the smallest that they detect with power {POWER:g}: {least}",
        ]
        if self.margin is not None:
            lines.append(
                f"passing a margin of {self.margin:g} where there is no difference takes {_queries(self.needed_to_pass)} "
                f"(power {POWER:g}); these have power {self.power_to_pass:.2f}"
            )
        return "\n  ".join([*lines, *_noise(self.variance)])


def _noise(variance: VarianceLine | None) -> Iterator[str]:
    """The share of each source in the variance, and the share that one more of each would take off; nothing for None."""
    if variance is None:
        return
    shares = ", ".join(f"{name} {share:.0%}" for name, share in variance.shares.items())
    yield f"the variance of {variance.of} comes from: {shares}"
    more = ", ".join(f"{_ONE[name]} -{share:.1%}" for name, share in variance.one_more.items())
    yield f"what one more would take off it: {more}"


class PowerDocument(Line):
    """The document of `germane power --json`."""

    schema_version: Literal[1]
    measures: list[PowerPlan]


_ONE = {
    "queries": "query",
    "trials": "trial of every query",
    "replicas": "replica of every verdict",
    "labels": "label of every query",
}


def _variance(report: ReportData, summary: MeasureSummary) -> VarianceLine | None:
    components = variance_of(report, summary)
    if components is None:
        return None
    parts = components.of_mean
    total = fsum(parts.values())
    return VarianceLine(
        of=f"the mean of {summary.system}" if summary.system else "the mean",
        components={name: getattr(components, name) for name in _ONE},
        counts=dict(components.counts),
        of_mean=total,
        shares={name: variance / total for name, variance in parts.items()} if total > 0 else {},
        one_more=components.one_more,
    )


def _queries(needed: int | None) -> str:
    return "more queries than can be computed" if needed is None else counted(needed, "query")


def plan_power(
    report: ReportData,
    measure: str,
    detect: float,
    other: ReportData | None = None,
    correlation: float = 0.5,
    margin: float | None = None,
) -> PowerPlan:
    """The difference that the queries of a report can show, and the number that would show one of `detect` or pass a margin.

    With a second report, or a second system in the first, the spread of the differences is measured. With one system it
    is sqrt(2 (1 - correlation)) standard deviations of its scores, and normal.

    Raises:
        InputError: The measure is not there or has no two complete scores, or a number is outside its range.
    """
    if not detect > 0:
        raise InputError(f"a difference of {detect}", fix="give --detect a number above 0, such as 0.02")
    if margin is not None and not margin > 0:
        raise InputError(f"a margin of {margin}", fix="give --margin a number above 0, such as 0.02")
    if not -1 <= correlation < 1:
        raise InputError(f"a correlation of {correlation}", fix="give a number from -1 to below 1")
    name = report.reported(measure)
    canonical = report[name, report.systems[0]].type
    check_change(canonical, detect, f"a difference of {detect:g} in {name}")
    if margin is not None:
        check_change(canonical, margin, f"a margin of {margin:g} for {name}")
    assumed = None
    if other is not None or len(report.systems) > 1:
        a, b, *_ = sides_of([report for report in (report, other) if report is not None])
        if name not in b.types:
            raise InputError(f"{measure} was not measured of both", fix="name a measure of both")
        pilot = PairedSystems(a, b).pilot(name)
    else:
        pilot, assumed = _one_system(report[name], correlation), correlation
    n = len(pilot.units.sums)
    if n < 2:
        raise InputError(f"{n} queries in common", fix="name reports over the same queries")
    plan = PowerPlan(
        measure=name,
        n=n,
        deviation=pilot.deviation,
        correlation=assumed,
        detect=detect,
        margin=margin,
        variance=_variance(report, report[name, report.systems[0]]),
    )
    if not pilot.varies:
        what = "differences" if assumed is None else "scores"
        why = f"all {what} are equal: their spread is unknown, and with it what any number of queries shows"
        return structs.replace(plan, why=why)
    low, high = range_of(report[name].type)
    least = pilot.detectable(n)
    plan = structs.replace(
        plan,
        smallest=None if least > high - low else least,
        power=pilot.power(n, detect),
        needed=smallest(lambda n: pilot.power(n, detect), pilot.about(detect)),
    )
    if margin is None:
        return plan
    needed = smallest(lambda n: pilot.power_to_pass(n, margin), pilot.about(margin))
    return structs.replace(plan, power_to_pass=pilot.power_to_pass(n, margin), needed_to_pass=needed)


def _one_system(summary: MeasureSummary, correlation: float) -> Pilot:
    """Normal differences to a system whose scores go with this one's so closely."""
    if summary.error is None or summary.n < 2:
        raise InputError(f"{summary.measure} has no two complete scores", fix="name another measure")
    n = summary.units or summary.n
    low, high = range_of(summary.type)
    values = np.array([normal_quantile((position + 0.5) / n) for position in range(n)])
    values *= summary.error * sqrt(n) * sqrt(2 * (1 - correlation)) / float(values.std(ddof=1))
    end = high - low if isfinite(high) else None
    return Pilot(group_cases(values if end is None else np.clip(values, -end, end), None), end)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOverlap:
    """The similarity of two lists for one query: rank-biased overlap, and the share of the first k places, 0 to 1."""

    query: str
    rbo: float
    overlap: float
    same: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """The similarity of the lists of two systems, query by query, the least alike first; nothing is judged for it.

    `rbo` and `overlap` are means over the queries, `differing` the queries whose first k places differ at all. `new` counts
    the results of B in the first k places that A does not have there: what judging B would add.
    """

    k: int
    p: float
    rbo: float
    overlap: float
    differing: Sequence[QueryOverlap]
    new: int
    total: int
    only_in: Mapping[str, Sequence[str]]
    queries: Sequence[QueryOverlap]

    def as_json(self) -> dict[str, Json]:
        """The document of `--json`, with the number of queries and of those that differ."""
        counts = {"n": len(self.queries), "differing": len(self.differing)}
        return {"schema_version": 1, **asdict(self), **counts}

    def __str__(self) -> str:
        k, differing, only_in = self.k, self.differing, self.only_in.items()
        both = f"{counted(len(self.queries), 'query')} in both: RBO {self.rbo:.4f} (p = {self.p:g})"
        new = f"{self.new:,} of {counted(self.total, 'result')} of B are not in A's first {k}"
        lines = [
            f"{both}, overlap@{k} {self.overlap:.4f}",
            f"{len(differing):,} differ in the first {k}; {new}",
        ]
        names = [shorten(row.query, 40) for row in differing[:_SHOWN]]
        width = max(map(len, names), default=0)
        lines += [
            f"  {name.ljust(width)}  RBO {row.rbo:.4f}  overlap@{k} {row.overlap:.4f}"
            for name, row in zip(names, differing, strict=False)
        ]
        if len(differing) > _SHOWN:
            lines.append(f"  and {len(differing) - _SHOWN:,} more")
        lines += [f"only in {name}: {len(cases)} ({some_of(cases)})" for name, cases in only_in if cases]
        return "\n".join(lines)


_SHOWN = 10
"""Queries that are named before the others are only counted."""


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
    queries = [
        QueryOverlap(
            query=query,
            rbo=rank_biased_overlap(a[query], b[query], p),
            overlap=overlap_at(a[query], b[query], k),
            same=list(a[query][:k]) == list(b[query][:k]),
        )
        for query in both
    ]
    queries.sort(key=lambda overlap: overlap.rbo)
    return Overlap(
        k=k,
        p=p,
        rbo=fsum(query.rbo for query in queries) / len(both),
        overlap=fsum(query.overlap for query in queries) / len(both),
        differing=[query for query in queries if not query.same],
        new=sum(len(set(b[query][:k]) - set(a[query][:k])) for query in both),
        total=sum(len(set(b[query][:k])) for query in both),
        only_in={
            "A": [query for query in a if query not in b],
            "B": [query for query in b if query not in a],
        },
        queries=queries,
    )
