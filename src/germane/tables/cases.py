"""The scores of each case as arrays: trials are averaged, missing scores have bounds. The case is the unit of statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from germane.tables.scores import STATUSES, ScoreTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_OK, _SKIPPED = STATUSES.index("ok"), STATUSES.index("skipped")


@dataclass(frozen=True, slots=True)
class CaseValues:
    """One measure of one system: arrays of shape (cases,), without skipped cases.

    Attributes:
        case: The number of each case in `CaseScores.cases`.
        low, high: The bounds of the mean over the case's trials; equal where it is `complete`.
        complete: Whether all trials were measured.
        measured: The means over the measured trials, of the cases that have any.
    """

    case: Ints
    low: Floats
    high: Floats
    complete: NDArray[np.bool_]
    measured: Floats

    @property
    def values(self) -> Floats:
        """The value of each case; nan where it is not complete."""
        return self.low if self.complete.all() else np.where(self.complete, self.low, np.nan)

    def taken(self, rows: NDArray[np.intp]) -> CaseValues:
        """Return the values of these rows in order."""
        complete = self.complete[rows]
        return CaseValues(
            self.case[rows], self.low[rows], self.high[rows], complete, self.low[rows][complete]
        )


class CaseScores:
    """A table of scores by case; `systems` and `cases` are in order of first appearance."""

    def __init__(self, table: ScoreTable) -> None:
        self.table, self.measures, self.whys = table, table.measures, table.whys
        self.systems, system = table.keys.systems()
        self._system = system.astype(np.int64)
        self._clusters: tuple[Mapping[str, str], Ints] | None = None

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Maps the id of each case to its number."""
        numbers: dict[str, int] = {}
        for case in self.table.keys.ids():
            numbers.setdefault(case, len(numbers))
        return numbers

    @cached_property
    def case(self) -> Ints:
        """The case number of each sample, shape (samples,)."""
        return np.array([self.numbers[case] for case in self.table.keys.ids()], np.int64)

    @cached_property
    def cases(self) -> list[str]:
        """The ids of the cases."""
        return list(self.numbers)

    def cases_of(self, system: str) -> Ints:
        """Return the numbers of a system's cases, in order of first appearance."""
        mine = (
            self.case[self._system == self.systems.index(system)] if system in self.systems else self.case[:0]
        )
        distinct, first = np.unique(mine, return_index=True)
        return distinct[np.argsort(first)]

    def groups(self, keep: Ints | None = None) -> Iterator[tuple[str, int, Ints]]:
        """Iterate over (system, number of the measure, rows), in order of first appearance.

        `keep` restricts the rows to samples with these numbers, in ascending order.
        """
        sample, measure = self.table.sample, self.table.measure
        width = max(1, len(self.measures))
        kept = np.arange(len(sample)) if keep is None else np.flatnonzero(np.isin(sample, keep))
        for group, rows in _groups(self._system[sample[kept]] * width + measure[kept]):
            system, number = divmod(group, width)
            yield self.systems[system], number, kept[rows]

    @cached_property
    def _rows(self) -> dict[tuple[str, int], Ints]:
        return {(system, number): rows for system, number, rows in self.groups()}

    def of(
        self, system: str, measure: tuple[str, str], span: tuple[float, float], keep: Ints | None = None
    ) -> CaseValues:
        """Return a measure, named (reported, canonical), of a system; without cases if it has no rows. `keep` is as in `groups`."""
        groups = self._rows if keep is None else {(name, at): rows for name, at, rows in self.groups(keep)}
        rows = groups.get((system, self.measures.index(measure)), np.empty(0, np.int64))
        return self.of_rows(rows, span)

    def of_rows(self, rows: Ints, span: tuple[float, float]) -> CaseValues:
        """Return the cases in the rows of one system and measure; `span` bounds unknown scores."""
        score_rows = self.table.taken(rows)
        due = score_rows.status != _SKIPPED
        ok = score_rows.status[due] == _OK
        value, low, high = (
            column if due.all() else column[due]
            for column in (score_rows.value, score_rows.low, score_rows.high)
        )
        if ok.all():
            low = high = value
        else:
            low = np.where(ok, value, np.where(np.isnan(low), span[0], low))
            high = np.where(ok, value, np.where(np.isnan(high), span[1], high))
        case = self._case_of(rows if due.all() else rows[due])
        if not self.table.keys.trials:
            return CaseValues(case, low, high, ok, value if low is value else value[ok])
        names, first, codes = np.unique(case, return_index=True, return_inverse=True)
        order = np.argsort(np.argsort(first))  # from sorted cases to those in order of appearance
        codes = order[codes]
        measured, counted = _means(value[ok], codes[ok], len(names))
        return CaseValues(
            names[np.argsort(first)],
            _means(low, codes, len(names))[0],
            _means(high, codes, len(names))[0],
            np.bincount(codes, ~ok, len(names)) == 0,
            measured[counted],
        )

    def _case_of(self, rows: Ints) -> Ints:
        return self.case[self.table.sample[rows]]

    def counts(self, rows: Ints, status: NDArray[np.uint8]) -> Ints:
        """Return the number of trials by status, shape (cases, statuses); `status` is each row's."""
        codes = np.unique(self._case_of(rows), return_inverse=True)[1]
        size = len(STATUSES)
        cells = np.bincount(codes * size + status, minlength=size * (codes.max(initial=-1) + 1))
        return cells.reshape(-1, size)

    def reasons(self, rows: Ints) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """Return the status of each row, and the index of its reason in `whys`."""
        return self.table.noted(rows)[:2]

    def clusters_of(self, case: Ints, clusters: Mapping[str, str] | None) -> NDArray[np.generic] | None:
        """Return the cluster of each case, or None without clusters; a case without one is a cluster of its own."""
        if not clusters:
            return None
        if self._clusters is None or self._clusters[0] is not clusters:
            numbers: dict[str, int] = {}
            codes = np.arange(len(self.numbers), dtype=np.int64) + len(clusters)
            for name, cluster in clusters.items():
                if (number := self.numbers.get(name)) is not None:
                    codes[number] = numbers.setdefault(cluster, len(numbers))
            self._clusters = clusters, codes
        return self._clusters[1][case]


def _groups(keys: Ints) -> Iterator[tuple[int, Ints]]:
    """Iterate over the rows of each key, in order of first appearance."""
    order = np.argsort(keys, kind="stable")
    distinct, firsts = np.unique(keys[order], return_index=True)
    split = np.split(order, firsts[1:]) if len(distinct) else []
    yield from sorted(zip(distinct.tolist(), split, strict=True), key=lambda value: int(value[1][0]))


def _means(values: Floats, codes: Ints, n: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the mean of the values of each code, independent of order, and which codes have values."""
    order = np.lexsort((values, codes))
    counts = np.bincount(codes, minlength=n)
    return np.bincount(codes[order], values[order], n) / np.maximum(counts, 1), counts > 0
