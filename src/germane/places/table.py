"""The table of labels from which ranked measures are computed: a ranking per row, flat arrays of places."""

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
"""The columns of a table of probabilities: grade 1 or more, 2 or more, 3 or more, and a yes."""


def reached(level: Floats, chances: Floats | None, rel: float) -> Bools | Floats:
    """Return whether each place's grade is at least `rel`, or its probability if labels are uncertain."""
    certain = level >= rel
    if chances is None:
        return certain
    chance = chances[:, ceil(min(rel, chances.shape[1])) - 1]
    return np.where(np.isnan(chance), certain, chance)


class LabelChoice(NamedTuple):
    """The labels that a ranked measure reads: their source, from all searches or the final list.

    With `against="need"` the judge compares a context with the sample's query (and what the settings add to
    it), with `against="call"` with the query of the search that returned the context.
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
    ranks    places  the rank of each place, from 1; None: no (unjudged) place is left out, so they count 1, 2, 3, ...
    lengths  rows    how many places each ranking has, those that are left out included; None: none is
    chances  places  how probable it is that a place reaches level 1, 2, 3, and more (four columns, more of longer scales;
                     the last is 0 of grades, as a yes reaches every level); nan where the label is certain; None: all are
    several  rows    whether the row holds one of several people's labels, completed by the shares of the others: measures
                     of it are expectations over yes and no at each uncertain place; None: no row does
    ======== ======= =============================================================================
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
        """The index of the ranking of each place, shape (places,)."""
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
        """The number of places of each ranking, including those that were left out."""
        return np.diff(self.pointers) if self.lengths is None else self.lengths

    @cached_property
    def ideal_row(self) -> Ints:
        """The index of the ranking to which each entry of `ideal` belongs."""
        return np.repeat(np.arange(self.rows), np.diff(self.ideal_pointers))

    @cached_property
    def ideal_table(self) -> RankedLabels:
        """A table whose rankings are the ideal rankings of this one."""
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
        """The same rankings, each with its own judged places as the ideal, so that nothing is missed."""
        row = self.row[self.judged]
        return replace(
            self,
            ideal_pointers=pointers_of(np.bincount(row, minlength=self.rows)),
            ideal=best_first(self.gain[self.judged], row),
            ideal_level=best_first(self.level[self.judged], row),
        )

    def within(self, k: int | None) -> RankedLabels:
        """Return the rankings with the ideal ranking that a measure with the cut-off `k` compares them with.

        With gold, the ideal holds all gold documents. With other labels it is the best order of the first `k`
        places: whether a place below `k` has a label depends on what other measures asked.
        """
        near = self.rank <= (inf if k is None else k)
        return self if self.complete or near.all() else self.kept(near).over_retrieved

    @cached_property
    def condensed(self) -> RankedLabels:
        """The same rankings with their unjudged places dropped (Sakai, "Alternatives to Bpref", SIGIR 2007)."""
        return self.kept(self.judged)

    def kept(self, mask: Bools) -> RankedLabels:
        """Return the rankings with only the places marked in `mask`; the ranks are counted anew."""
        left = np.bincount(self.row[mask], minlength=self.rows)
        return replace(self, pointers=pointers_of(left), ranks=None, lengths=None, **self._columns(mask))

    def reranked(self) -> RankedLabels:
        """Return the same rankings sorted by gain, then by level, highest first; ties keep their order."""
        order = np.lexsort((-self.level, -self.gain, self.row))
        return replace(self, **self._columns(order))

    def _columns(self, chosen: Bools | Ints | slice) -> dict[str, Any]:
        """Return the arrays, cut to the `chosen` places, by name, without arrays that are None."""
        columns = ((name, getattr(self, name)) for name in ("gain", "level", "judged", "chances"))
        return {name: column[chosen] for name, column in columns if column is not None}

    def rows_from(self, start: int, end: int) -> RankedLabels:
        """Return the rankings with the indices from `start` to `end` - 1."""
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
        """Return a table of gold labels with only the judged places, sorted by ranking and rank.

        `judged` is the number of gold grades of each ranking's query; `level` holds them, ranking by ranking.
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
        """Return a table from one list of grades per ranking, best rank first; None = unjudged.

        `gold` has all known grades for each query; without it, the ideal is made of the ranking's own grades.
        """
        level = np.array([*chain.from_iterable(labels)], dtype=np.float64)
        known = None
        if gold is not None:
            grades = np.array([*chain.from_iterable(gold)], dtype=np.float64)
            known = np.array([*map(len, gold)], dtype=np.int64), grades
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
        """Return a table from flat arrays of the places' levels and gains; nan = unjudged.

        `gold` holds the number of known grades for each ranking, and all these grades in one array.
        """
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


def best_first(values: Floats, row: Ints) -> Floats:
    """Return the values sorted within each row, highest first; `row` is each value's row, ascending."""
    if not ((values[1:] > values[:-1]) & (row[1:] == row[:-1])).any():
        return values
    result: Floats = values[np.lexsort((-values, row))]
    return result


def pointers_of(lengths: Iterable[int] | Ints) -> Ints:
    """Return the index at which each row starts in a flat array, and its end, from the rows' lengths."""
    sizes = lengths if isinstance(lengths, np.ndarray) else np.fromiter(lengths, dtype=np.int64)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def relevant_known(table: RankedLabels, *, rel: float) -> Ints:
    """Return, per ranking, the number of known documents graded `rel` or higher, retrieved or not."""
    return np.bincount(table.ideal_row[table.ideal_level >= rel], minlength=table.rows)


def share_of(marked: Bools, of: Bools, row: Ints, rows: int) -> Floats:
    """Return, for each row, the share of the entries in `of` that are in `marked`; nan for no entries."""
    whole = np.bincount(row[of], minlength=rows)
    count = np.bincount(row[of & marked], minlength=rows)
    return np.asarray(np.divide(count, whole, out=np.full(rows, np.nan), where=whole > 0), np.float64)
