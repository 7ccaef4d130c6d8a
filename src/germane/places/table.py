"""The label table read by every ranked measure: rankings as rows, their places in one array per column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import ceil, inf
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Source: TypeAlias = Literal["gold", "judge", "human", "best"]

LEVELS = 4
"""The columns of a table of chances: grades 1 to 3, and what only a yes reaches."""


def column_of(rel: float, columns: int = LEVELS) -> int:
    """Return the column of a chances table with so many columns that holds the probability of reaching a level."""
    return min(ceil(rel), columns) - 1 if rel < inf else columns - 1


def reached(level: Floats, chances: Floats | None, rel: float) -> Bools | Floats:
    """Return True for each place that reaches the level `rel`, or its probability if any label is a distribution."""
    certain = level >= rel
    if chances is None:
        return certain
    chance = chances[:, column_of(rel, chances.shape[1])]
    return np.where(np.isnan(chance), certain, chance)


class LabelChoice(NamedTuple):
    """The labels that a ranked measure reads: their source, of all calls or of the final list.

    `against`: the judge compares a context with the `need` (the sample's query, and what the settings add to it), or with
    the query of the `call` that it came from.
    """

    source: Source
    against: str
    final: bool


@dataclass(frozen=True, kw_only=True)
class RankedLabels:
    """The labels of `rows` rankings; ranking r holds the places `pointers[r]:pointers[r + 1]`, best rank first.

    ======== ======= =============================================================================
    pointers rows+1  where each ranking starts in the place arrays
    gain     places  what a place is worth to nDCG: the grade, 0 where unjudged or negative
    level    places  compared with the threshold `rel`: the grade (a negative one as it is: bpref tells
                     it from 0), 0 where unjudged; +inf / 0 for yes / no labels
    judged   places  whether anybody judged this place
    ideal_pointers rows+1, ideal: the gains of all that is judged for the row's query, best first
    ideal_level      the same for `level`: those at or above `rel` are all the relevant there are
    rel      scalar  the threshold of the labels' own scale: gold 1, judge and human 0-3 grades 2
    complete scalar  whether the ideal holds all relevant documents (gold) or only what was retrieved
    ranks    places  the rank of each place, from 1; None: no place is left out, so they count 1, 2, 3, ...
    lengths  rows    how many places each ranking has, those that are left out included; None: none is
    chances  places  how probable it is that a place reaches level 1, 2, 3, and more (four columns, more of longer scales;
                     the last is 0 of grades, as a yes reaches every level); nan where the label is certain; None: all are
    several  rows    whether the row holds one of several people's labels, completed by the shares of the others: measures
                     of it are expectations over yes and no at each uncertain place; None: no row does
    ======== ======= =============================================================================

    Unjudged places may be left out: `ranks` and `lengths` then say where the others stand.
    """

    pointers: Ints
    gain: Floats
    level: Floats
    judged: Bools
    ideal_pointers: Ints
    ideal: Floats
    ideal_level: Floats
    rel: int = 1
    complete: bool = True
    ranks: Ints | None = None
    lengths: Ints | None = None
    chances: Floats | None = None
    several: Bools | None = None

    @property
    def rows(self) -> int:
        """The number of rankings, empty ones included."""
        return len(self.pointers) - 1

    @cached_property
    def row(self) -> Ints:
        """The index of each place's ranking, shape (places,)."""
        return np.repeat(np.arange(self.rows), np.diff(self.pointers))

    @cached_property
    def rank(self) -> Ints:
        """The rank of each place, from 1."""
        if self.ranks is not None:
            return self.ranks
        starts = np.repeat(self.pointers[:-1], np.diff(self.pointers))
        return np.arange(1, len(starts) + 1) - starts

    @cached_property
    def length(self) -> Ints:
        """The number of places of each ranking, omitted ones included."""
        return np.diff(self.pointers) if self.lengths is None else self.lengths

    @cached_property
    def ideal_row(self) -> Ints:
        """The ranking of each entry of the ideal."""
        return np.repeat(np.arange(self.rows), np.diff(self.ideal_pointers))

    @cached_property
    def ideal_table(self) -> RankedLabels:
        """The ideal of each ranking as a ranking."""
        return replace(
            self,
            pointers=self.ideal_pointers,
            gain=self.ideal,
            level=self.ideal_level,
            judged=np.ones(len(self.ideal), dtype=np.bool_),
            ranks=None,
            lengths=None,
            chances=None,
        )

    @cached_property
    def over_retrieved(self) -> RankedLabels:
        """The same rankings with their retrieved judged places as the ideal."""
        row = self.row[self.judged]
        return replace(
            self,
            ideal_pointers=pointers_of(np.bincount(row, minlength=self.rows)),
            ideal=best_first(self.gain[self.judged], row),
            ideal_level=best_first(self.level[self.judged], row),
        )

    def within(self, k: int | None) -> RankedLabels:
        """Return the rankings as a measure with this cut-off reads them.

        The ideal of gold is all that it knows. That of other labels is the best order of the first `k` places: which places
        below have a label depends on what else was asked.
        """
        near = self.rank <= (inf if k is None else k)
        return self if self.complete or near.all() else self.kept(near).over_retrieved

    @cached_property
    def condensed(self) -> RankedLabels:
        """The same rankings with their unjudged places dropped (Sakai, "Alternatives to Bpref", SIGIR 2007)."""
        return self.kept(self.judged)

    def kept(self, mask: Bools) -> RankedLabels:
        """Return the rankings with only the marked places, ranks closed up."""
        left = np.bincount(self.row[mask], minlength=self.rows)
        return replace(self, pointers=pointers_of(left), ranks=None, lengths=None, **self._columns(mask))

    def variants(self, row: int, orders: Sequence[Ints]) -> RankedLabels:
        """Return one ranking once per order of these places (numbered from 0).

        The ideal of gold stays; that of other labels is made of the places that are left.
        """
        at = np.concatenate([np.empty(0, np.int64), *orders]) + self.pointers[row]
        times, ideal = len(orders), slice(self.ideal_pointers[row], self.ideal_pointers[row + 1])
        changed = replace(
            self,
            pointers=pointers_of(map(len, orders)),
            ideal_pointers=pointers_of([ideal.stop - ideal.start] * times),
            ideal=np.tile(self.ideal[ideal], times),
            ideal_level=np.tile(self.ideal_level[ideal], times),
            several=None if self.several is None else np.full(times, self.several[row]),
            **self._columns(at),
        )
        return changed if self.complete else changed.over_retrieved

    def reranked(self) -> RankedLabels:
        """Return the same rankings in the best order by their labels: by gain, then level; ties keep their order."""
        order = np.lexsort((-self.level, -self.gain, self.row))
        return replace(self, **self._columns(order))

    def _columns(self, chosen: Bools | Ints | slice) -> dict[str, Any]:
        """Return the columns of these places by name, without those that the table lacks."""
        columns = ((name, getattr(self, name)) for name in ("gain", "level", "judged", "chances"))
        return {name: column[chosen] for name, column in columns if column is not None}

    def rows_from(self, start: int, end: int) -> RankedLabels:
        """Return the rankings from number `start` to before `end`."""
        span, ideal = (slice(p[start], p[end]) for p in (self.pointers, self.ideal_pointers))
        return replace(
            self,
            pointers=self.pointers[start : end + 1] - self.pointers[start],
            ideal_pointers=self.ideal_pointers[start : end + 1] - self.ideal_pointers[start],
            ideal=self.ideal[ideal],
            ideal_level=self.ideal_level[ideal],
            ranks=None if self.ranks is None else self.ranks[span],
            lengths=None if self.lengths is None else self.lengths[start:end],
            several=None if self.several is None else self.several[start:end],
            **self._columns(span),
        )

    @classmethod
    def of_hits(
        cls, row: Ints, rank: Ints, grade: Floats, lengths: Ints, judged: Ints, level: Floats
    ) -> RankedLabels:
        """Return a table of gold labels that holds only the judged places, sorted by row and rank.

        `judged` is how many grades are known for each row; `level` are all these grades, row after row.
        """
        pointers = pointers_of(np.bincount(row, minlength=len(judged)))
        return replace(
            cls.of_columns(pointers, grade, grade, gold=(judged, level)), ranks=rank, lengths=lengths
        )

    @classmethod
    def of_lists(
        cls,
        labels: Sequence[Sequence[float | None]],
        gold: Sequence[Sequence[float]] | None = None,
        *,
        rel: int = 1,
    ) -> RankedLabels:
        """Return a table from lists of the grade at each rank, None = unjudged.

        `gold` has all grades known for each query; without it the ideal is made of a row's own grades.
        """
        level = _flat(labels)
        known = None if gold is None else (np.array([*map(len, gold)], dtype=np.int64), _flat(gold))
        return cls.of_columns(pointers_of(map(len, labels)), level, level, gold=known, rel=rel)

    @classmethod
    def of_columns(
        cls,
        pointers: Ints,
        level: Floats,
        gain: Floats,
        *,
        gold: tuple[Ints, Floats] | None = None,
        rel: int = 1,
        chances: Floats | None = None,
        several: Bools | None = None,
    ) -> RankedLabels:
        """Return a table from columns of places, nan = unjudged; `gold` has the number of known grades of each row, and these."""
        judged, rows = ~np.isnan(level), len(pointers) - 1
        if gold is None:
            row = np.repeat(np.arange(rows), np.diff(pointers))[judged]
            ideal_level = best_first(level[judged], row)
            ideal = best_first(np.maximum(gain[judged], 0.0), row)
        else:
            row = np.repeat(np.arange(rows), gold[0])
            ideal_level = best_first(gold[1], row)
            ideal = np.maximum(ideal_level, 0.0)
        return cls(
            pointers=pointers,
            gain=np.where(judged, np.maximum(gain, 0.0), 0.0),
            level=np.where(judged, level, 0.0),
            judged=judged,
            ideal_pointers=pointers_of(np.bincount(row, minlength=rows)),
            ideal=ideal,
            ideal_level=ideal_level,
            rel=rel,
            complete=gold is not None,
            chances=chances,
            several=several,
        )


def _flat(rows: Iterable[Iterable[float | None]]) -> Floats:
    """Return the numbers of all rows concatenated; None becomes nan."""
    return np.array([*chain.from_iterable(rows)], dtype=np.float64)


def best_first(values: Floats, row: Ints) -> Floats:
    """Return the values of each row, highest first; `row` is each value's row, ascending."""
    if not ((values[1:] > values[:-1]) & (row[1:] == row[:-1])).any():
        return values
    result: Floats = values[np.lexsort((-values, row))]
    return result


def pointers_of(lengths: Iterable[int] | Ints) -> Ints:
    """Return the start of each row, and the end of the last, from the rows' lengths."""
    sizes = lengths if isinstance(lengths, np.ndarray) else np.fromiter(lengths, dtype=np.int64)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def relevant_known(table: RankedLabels, *, rel: float) -> Ints:
    """Return the number of known documents at or above `rel` for each row, retrieved or not."""
    return np.bincount(table.ideal_row[table.ideal_level >= rel], minlength=table.rows)


def share_of(marked: Bools, of: Bools, row: Ints, rows: int) -> Floats:
    """Return, for each row, the marked entries among those counted (`of`), divided by all counted; nan if there are none."""
    whole = np.bincount(row[of], minlength=rows)
    count = np.bincount(row[of & marked], minlength=rows)
    return np.asarray(np.divide(count, whole, out=np.full(rows, np.nan), where=whole > 0), np.float64)
