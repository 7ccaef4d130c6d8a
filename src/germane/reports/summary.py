"""Scores in, one line per measure out: the mean, what it rests on, and what it could still become.

The unit is the case: trials of one case are averaged first. Sums are exact (fsum), so the order in which scores
arrive changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import floor, fsum, isfinite

import numpy as np
from numpy.typing import NDArray

from germane.reports.basis import Basis
from germane.reports.schema import MeasureLine
from germane.tables.scores import STATUSES, ScoreTable
from germane.types import Score

__all__ = ["MeasureSummary", "summarise"]

_OK, _SKIPPED, _INCOMPLETE, _ERROR = range(len(STATUSES))
_REASONS = 100
"""How many distinct reasons of one measure are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureSummary:
    """One measure over one system's cases.

    `mean` is over the `n` cases that could be measured (None where n = 0), of `due` that should have been;
    `mean_bounds` puts every incomplete score at its own bounds and every error anywhere in the measure's range, so that
    failures cannot flatter. `low` and `high` are the smallest and largest value, `edges` what these could be under the same
    rule. `total` counts scores, of which `skipped`, `incomplete` and `errors` have no value, for the reasons in `why`.

    `interval` is the interval of the mean at `level` by `interval_method` over `units`; None where there is none.
    `basis` says whose labels the numbers rest on.
    """

    measure: str
    type: str
    system: str = ""
    mean: float | None
    mean_bounds: tuple[float, float] | None
    interval: tuple[float, float] | None = None
    interval_method: str | None = None
    level: float | None = None
    units: int | None = None
    low: float | None = None
    high: float | None = None
    edges: tuple[tuple[float, float], tuple[float, float]] | None = None
    n: int
    due: int
    total: int
    skipped: int
    incomplete: int
    errors: int
    why: tuple[tuple[str, int], ...] = ()
    basis: Basis = field(default_factory=Basis)

    def in_words(self) -> str:
        """The mean, and where failures took cases out of it, over how many it is and what it would be over all."""
        if self.mean is None:
            return "-"
        if self.incomplete + self.errors == 0 or self.mean_bounds is None:
            return f"{self.mean:.4f}"
        low, high = self.mean_bounds
        least, most = floor(low * 100) / 100, -floor(-high * 100) / 100 if isfinite(high) else None
        could = f"{least:.2f} or more" if most is None else f"{least:.2f} to {most:.2f}"
        return f"{self.mean:.4f} over {self.n} of {self.due} ({could} over all)"

    def as_json(self) -> MeasureLine:
        """The summary as scripts read it; bounds without an end (a count that could not be taken) are null."""
        bounds = self.mean_bounds if self.mean_bounds and isfinite(self.mean_bounds[1]) else None
        return {
            "mean": self.mean,
            "interval": list(self.interval) if self.interval else None,
            "interval_method": self.interval_method,
            "level": self.level,
            "units": self.units,
            "mean_bounds": list(bounds) if bounds else None,
            "n": self.n,
            "total": self.total,
            "skipped": self.skipped,
            "incomplete": self.incomplete,
            "errors": self.errors,
            "basis": self.basis.as_json(),
        }


def _unit_range(_: str) -> tuple[float, float]:
    return 0.0, 1.0


def summarise(
    scores: ScoreTable | Iterable[Score], range_of: Callable[[str], tuple[float, float]] = _unit_range
) -> list[MeasureSummary]:
    """One summary per (system, measure), in order of first appearance; `range_of` gives a canonical measure's range."""
    table = scores if isinstance(scores, ScoreTable) else ScoreTable(scores)
    samples, measures, whys = table.samples, table.measures, table.whys
    systems = {system: number for number, system in enumerate(dict.fromkeys(key[1] for key in samples))}
    system = np.array([systems[key[1]] for key in samples], dtype=np.int64)
    names = list(systems)
    rows = _Rows(table)
    if any(trial for _, _, trial in samples):
        cases: dict[str, int] = {}
        case = np.array([cases.setdefault(key[0], len(cases)) for key in samples], dtype=np.int64)
        rows.case = case[table.sample]
    summaries = []
    for group, mine in _groups(system[table.sample] * len(measures) + table.measure):
        number, at = divmod(group, len(measures))
        measure, canonical = measures[at]
        values, lows, highs = rows.units(mine, range_of(canonical))
        counts = np.bincount(rows.status[mine], minlength=len(STATUSES)).tolist()
        n = len(values)
        summaries.append(
            MeasureSummary(
                measure=measure,
                type=canonical,
                system=names[number],
                mean=fsum(values) / n if n else None,
                mean_bounds=(fsum(lows) / len(lows), fsum(highs) / len(highs)) if lows else None,
                low=min(values, default=None),
                high=max(values, default=None),
                edges=((min(lows), min(highs)), (max(lows), max(highs))) if lows else None,
                n=n,
                due=len(lows),
                total=len(mine),
                skipped=counts[_SKIPPED],
                incomplete=counts[_INCOMPLETE],
                errors=counts[_ERROR],
                why=_reasons(rows.why[mine], whys),
            )
        )
    return summaries


def _groups(keys: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """The rows of each key, in order of the keys' first appearance."""
    order = np.argsort(keys, kind="stable")
    distinct, firsts = np.unique(keys[order], return_index=True)
    split = np.split(order, firsts[1:]) if len(distinct) else []
    yield from sorted(zip(distinct.tolist(), split, strict=True), key=lambda one: int(one[1][0]))


class _Rows:
    """The columns that a summary reads."""

    def __init__(self, table: ScoreTable) -> None:
        self.value, self.status, self.why = table.value, table.status, table.why
        self.low, self.high = table.low, table.high
        self.case: NDArray[np.int64] | None = None
        """The case of each row, where cases have several trials."""

    def units(
        self, rows: NDArray[np.int64], span: tuple[float, float]
    ) -> tuple[list[float], list[float], list[float]]:
        """The values of the cases, and the least and most that every case to be measured could have."""
        due = rows[self.status[rows] != _SKIPPED]
        ok = self.status[due] == _OK
        value, low, high = self.value[due], self.low[due], self.high[due]
        low = np.where(ok, value, np.where(np.isnan(low), span[0], low))
        high = np.where(ok, value, np.where(np.isnan(high), span[1], high))
        if self.case is None:
            return value[ok].tolist(), low.tolist(), high.tolist()
        found: tuple[list[float], list[float], list[float]] = ([], [], [])
        for _, mine in _groups(self.case[due]):
            measured = mine[ok[mine]]
            for means, of in zip(found, (value[measured], low[mine], high[mine]), strict=True):
                if len(of):
                    means.append(fsum(of.tolist()) / len(of))
        return found


def _reasons(codes: NDArray[np.int32], whys: list[str | None]) -> tuple[tuple[str, int], ...]:
    """The reasons with how many scores have them, the most frequent first."""
    found, counts = np.unique(codes[codes > 0], return_counts=True)
    reasons = zip((whys[code] or "" for code in found.tolist()), counts.tolist(), strict=True)
    return tuple(sorted(reasons, key=lambda reason: (-reason[1], reason[0]))[:_REASONS])
