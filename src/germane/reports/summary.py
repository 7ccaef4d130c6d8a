"""Scores in, one line a measure out: the mean, what it rests on, and what it could still become.

The unit is the case: trials of one case are averaged first. Sums are exact (fsum), so the order in which scores
arrive changes nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import fsum, isfinite

from germane.reports.schema import MeasureLine
from germane.types import Score

__all__ = ["MeasureSummary", "Tally", "summarise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureSummary:
    """One measure over one system's cases.

    `mean` is over the `n` cases that could be measured (None where n = 0); `mean_bounds` puts every incomplete
    score at its own bounds and every error anywhere in the measure's range, so that failures cannot flatter.
    `low` and `high` are the smallest and largest value, `edges` what these could be under the same rule.
    """

    measure: str
    type: str
    system: str = ""
    mean: float | None
    mean_bounds: tuple[float, float] | None
    interval: tuple[float, float] | None = None
    low: float | None = None
    high: float | None = None
    edges: tuple[tuple[float, float], tuple[float, float]] | None = None
    n: int
    total: int
    skipped: int
    incomplete: int
    errors: int
    why: tuple[tuple[str, int], ...] = ()

    def as_json(self) -> MeasureLine:
        """The summary as scripts read it; bounds without an end (a count that could not be taken) are null."""
        bounds = self.mean_bounds if self.mean_bounds and isfinite(self.mean_bounds[1]) else None
        return {
            "mean": self.mean,
            "interval": list(self.interval) if self.interval else None,
            "mean_bounds": list(bounds) if bounds else None,
            "n": self.n,
            "total": self.total,
            "skipped": self.skipped,
            "incomplete": self.incomplete,
            "errors": self.errors,
        }


@dataclass(slots=True)
class _Case:
    values: list[float] = field(default_factory=list)
    bounds: list[tuple[float, float]] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """Collects the scores of one (system, measure) in constant memory a score."""

    measure: str
    type: str
    system: str
    span: tuple[float, float] = (0.0, 1.0)
    total: int = 0
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("ok", "skipped", "incomplete", "error"), 0)
    )
    whys: dict[str, int] = field(default_factory=dict)
    values: array[float] = field(default_factory=lambda: array("d"))
    cases: array[int] = field(default_factory=lambda: array("q"))
    unknown: list[tuple[int, float, float]] = field(default_factory=list)
    repeated: bool = False

    def add(self, score: Score) -> None:
        """Count one score."""
        self.total += 1
        self.counts[score.status] += 1
        case = hash(score.sample)
        self.repeated |= score.trial != 0
        if score.value is not None:
            self.values.append(score.value)
            self.cases.append(case)
        elif score.status != "skipped":
            self.unknown.append((case, *(score.bounds or self.span)))
        if score.why and (score.why in self.whys or len(self.whys) < 100):
            self.whys[score.why] = self.whys.get(score.why, 0) + 1

    def result(self) -> MeasureSummary:
        """What was counted, summarised."""
        values, lows, highs = self._units()
        n = len(values)
        return MeasureSummary(
            measure=self.measure,
            type=self.type,
            system=self.system,
            mean=fsum(values) / n if n else None,
            mean_bounds=(fsum(lows) / len(lows), fsum(highs) / len(highs)) if lows else None,
            low=min(values, default=None),
            high=max(values, default=None),
            edges=((min(lows), min(highs)), (max(lows), max(highs))) if lows else None,
            n=n,
            total=self.total,
            skipped=self.counts["skipped"],
            incomplete=self.counts["incomplete"],
            errors=self.counts["error"],
            why=tuple(sorted(self.whys.items(), key=lambda item: (-item[1], item[0]))),
        )

    def _units(self) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
        """The values of the cases, and the least and most that every case to be measured could have."""
        if not self.repeated:
            lows, highs = array("d", self.values), array("d", self.values)
            lows.extend(low for _, low, _ in self.unknown)
            highs.extend(high for _, _, high in self.unknown)
            return self.values, lows, highs
        cases: dict[int, _Case] = {}
        for case, value in zip(self.cases, self.values, strict=True):
            cases.setdefault(case, _Case()).values.append(value)
        for case, low, high in self.unknown:
            cases.setdefault(case, _Case()).bounds.append((low, high))
        means = [fsum(case.values) / len(case.values) for case in cases.values() if case.values]
        sizes = [len(case.values) + len(case.bounds) for case in cases.values()]
        lows_of = [
            fsum([*c.values, *(low for low, _ in c.bounds)]) / k
            for c, k in zip(cases.values(), sizes, strict=True)
        ]
        highs_of = [
            fsum([*c.values, *(high for _, high in c.bounds)]) / k
            for c, k in zip(cases.values(), sizes, strict=True)
        ]
        return means, lows_of, highs_of


def summarise(
    scores: Iterable[Score], spans: dict[str, tuple[float, float]] | None = None
) -> list[MeasureSummary]:
    """One summary a (system, measure), in order of first appearance."""
    tallies: dict[tuple[str, str], Tally] = {}
    for score in scores:
        key = (score.system, score.measure)
        if (tally := tallies.get(key)) is None:
            span = (0.0, 1.0) if spans is None else spans.get(score.type, (0.0, 1.0))
            tally = tallies[key] = Tally(score.measure, score.type, score.system, span)
        tally.add(score)
    return [tally.result() for tally in tallies.values()]
