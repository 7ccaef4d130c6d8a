"""Cases: their scores as arrays, with a case's trials averaged, and the same case in another data set."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import inf

import numpy as np
from numpy.typing import NDArray

from germane.tables.scores import ScoreTable
from germane.types import STATUSES, Sample

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_OK, _SKIPPED = STATUSES.index("ok"), STATUSES.index("skipped")


@dataclass(frozen=True, slots=True)
class CaseValues:
    """The scores of one measure for the cases of one system, as arrays of shape (cases,).

    Skipped cases are left out.

    Attributes:
        case: The index of each case in `CaseScores.cases`.
        low, high: The lowest and highest possible mean over the case's trials; equal if no score is missing.
        complete: True for each case whose trials all have a score.
        measured: The mean over the trials that have a score, for each case with at least one score.
    """

    case: Ints
    low: Floats
    high: Floats
    complete: NDArray[np.bool_]
    measured: Floats

    @property
    def values(self) -> Floats:
        """The mean of each case over its trials; nan if a trial's score is missing."""
        return self.low if self.complete.all() else np.where(self.complete, self.low, np.nan)

    def taken(self, rows: NDArray[np.intp]) -> CaseValues:
        """Return the values of the cases at the indices in `rows`, in the order of `rows`."""
        low, complete = self.low[rows], self.complete[rows]
        return CaseValues(self.case[rows], low, self.high[rows], complete, low[complete])


class CaseScores:
    """Groups a table of scores by case. `systems` and `cases` are in order of first appearance.

    Attributes:
        cases: The id of each case.
        case: The index in `cases` of each sample's case, shape (samples,).
        trials: True if any sample has a trial number other than 0.
    """

    def __init__(self, table: ScoreTable) -> None:
        self.table, self.measures, self.whys = table, table.measures, table.whys
        self.systems, self._system = table.systems()
        self.trials = table.has_trials
        if len(self.systems) < 2 and not self.trials:  # each sample is a case
            self.cases, self.case = table.ids, np.arange(len(table.ids), dtype=np.int64)
        else:
            self.cases = list(dict.fromkeys(table.ids))
            self.case = np.array([self.numbers[case] for case in table.ids], np.int64)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The index in `cases` of each case, by case id."""
        return {case: number for number, case in enumerate(self.cases)}

    def cases_of(self, system: str) -> Ints:
        """Return the indices of the cases that a system has samples of, in order of first appearance."""
        number = self.systems.index(system) if system in self.systems else -1
        distinct, first = np.unique(self.case[self._system == number], return_index=True)
        return distinct[np.argsort(first)]

    def groups(self, keep: Ints | None = None) -> Iterator[tuple[str, int, Ints]]:
        """Yield (system, measure's index, rows) in order of appearance, over the samples `keep`."""
        sample, keys, width = self.table.sample, self.table.measure, max(1, len(self.measures))
        if len(self.systems) > 1:
            keys += self._system[sample] * width
        kept = None if keep is None else np.flatnonzero(np.isin(sample, keep))
        keys = keys if kept is None else keys[kept]
        counts = np.bincount(keys)
        # numbers of 16 bits or less are sorted by radix
        order = np.argsort(keys.astype(np.min_scalar_type(len(counts))), kind="stable")
        split = np.split(order if kept is None else kept[order], np.cumsum(counts)[:-1])
        found = ((key, rows) for key, rows in enumerate(split) if len(rows))
        for group, rows in sorted(found, key=lambda group: int(group[1][0])):
            system, number = divmod(group, width)
            yield self.systems[system], number, rows

    @cached_property
    def _rows(self) -> dict[tuple[str, int], Ints]:
        return {(system, number): rows for system, number, rows in self.groups()}

    def case_values(
        self, system: str, measure: tuple[str, str], span: tuple[float, float], keep: Ints | None = None
    ) -> CaseValues:
        """Return a system's scores by case for a measure, which is given as (reported name, canonical name).

        The result is empty if there are no such scores. `span` is the measure's lowest and highest value, which
        bound a missing score. If `keep` is given, only samples with these indices count.
        """
        rows = self._rows.get((system, self.measures.index(measure)), np.empty(0, np.int64))
        return self.values_of(rows if keep is None else rows[np.isin(self.table.sample[rows], keep)], span)

    def values_of(self, rows: Ints, span: tuple[float, float]) -> CaseValues:
        """Return the scores by case of these rows of one system and measure; `span` bounds missing ones."""
        score_rows = self.table.taken(rows)
        due = score_rows.status != _SKIPPED
        ok = score_rows.status[due] == _OK
        value, low, high = score_rows.value[due], score_rows.low[due], score_rows.high[due]
        if ok.all():
            low = high = value
        else:
            if value[ok].min(initial=inf) < span[0] - 1e-9 or value[ok].max(initial=-inf) > span[1] + 1e-9:
                span = -inf, inf  # the range that was declared is not the measure's
            low = np.where(ok, value, np.where(np.isnan(low), span[0], low))
            high = np.where(ok, value, np.where(np.isnan(high), span[1], high))
        case = self.case[self.table.sample[rows[due]]]
        if not self.trials:
            return CaseValues(case, low, high, ok, value if low is value else value[ok])
        names, first, codes = np.unique(case, return_index=True, return_inverse=True)
        order = np.argsort(np.argsort(first))  # from sorted order to order of appearance
        codes = order[codes]
        measured, counted = _means(value[ok], codes[ok], len(names))
        return CaseValues(
            names[np.argsort(first)],
            _means(low, codes, len(names))[0],
            _means(high, codes, len(names))[0],
            np.bincount(codes, ~ok, len(names)) == 0,
            measured[counted],
        )

    def counts(self, rows: Ints, status: NDArray[np.uint8]) -> Ints:
        """Return how many trials of each case have each status, shape (cases, statuses), in index order."""
        codes = np.unique(self.case[self.table.sample[rows]], return_inverse=True)[1]
        size = len(STATUSES)
        cells = np.bincount(codes * size + status, minlength=size * (codes.max(initial=-1) + 1))
        return cells.reshape(-1, size)

    def clusters_of(self, case: Ints, clusters: Mapping[str, str] | None) -> NDArray[np.generic] | None:
        """Return the cluster number of each case, unique for one without; None if there are no `clusters`."""
        if not clusters:
            return None
        numbers: dict[str, int] = {}
        codes = np.arange(len(self.cases), dtype=np.int64) + len(clusters)
        for name, cluster in clusters.items():
            if (number := self.numbers.get(name)) is not None:
                codes[number] = numbers.setdefault(cluster, len(numbers))
        return codes[case]


def _means(values: Floats, codes: Ints, n: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the mean of each code's values (0 without any), and whether it has values."""
    order = np.lexsort((values, codes))
    counts = np.bincount(codes, minlength=n)
    return np.bincount(codes[order], values[order], n) / np.maximum(counts, 1), counts > 0


def texts_of(samples: Iterable[Sample]) -> dict[str, str]:
    """Return the query of each case by case id, in order of first appearance; white space is normalized."""
    texts: dict[str, str] = {}
    for sample in samples:
        if sample.id not in texts:
            texts[sample.id] = " ".join(sample.query.split())
    return texts


def are_line_numbers(ids: Iterable[str]) -> bool:
    """Return True if the ids are ascending positive integers, as ids are if the samples have none."""
    names = list(ids)
    whole = bool(names) and all(name.isascii() and name.isdigit() and name[0] != "0" for name in names)
    return whole and all(low < high for low, high in pairwise(map(int, names)))


def ids_of(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return a mapping from each query text to the ids of the cases with this query, in order."""
    cases = defaultdict[str, list[str]](list)
    for case, text in texts.items():
        cases[text].append(case)
    return cases


def counterparts(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str | None]:
    """Return, for each case id in `theirs`, the id of the same case in `ours`, or None.

    Both arguments map case ids to queries. Returns {} if cases with equal ids are the same. Cases are matched
    by query if all ids may be line numbers and at least one id has different queries in the two sets. Cases
    with equal queries are matched in order if both sets contain the same number of them, else to None.
    Ascending ids other than 1, 2, 3, ... may have been chosen by the user. They are matched by query
    only if one of the differing queries occurs under another id in the other set.
    """
    different = [case for case, text in theirs.items() if ours.get(case, text) != text]
    same = not different and not ours.keys().isdisjoint(theirs)
    if same or not (are_line_numbers(ours) and are_line_numbers(theirs)):
        return {}
    cases_of = ids_of(ours)
    moved = any(theirs[case] in cases_of for case in different or theirs)
    if not moved and not (is_count(ours) and is_count(theirs)):
        return {}
    made: dict[str, str | None] = {}
    for text, cases in ids_of(theirs).items():
        others: list[str | None] = [*cases_of.get(text, ())]
        made |= zip(cases, others if len(others) == len(cases) else [None] * len(cases), strict=True)
    return made


def is_count(ids: Iterable[str]) -> bool:
    """Return True if the ids are 1, 2, 3, ... or 2, 3, ... (line numbers below a header line)."""
    numbers = list(map(int, ids))
    return numbers[0] in {1, 2} and numbers[-1] - numbers[0] == len(numbers) - 1
