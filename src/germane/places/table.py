"""The table of labels from which ranked measures are computed; each ranking is a slice of flat arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import ceil, fsum, inf, nan
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Source: TypeAlias = Literal["gold", "judge", "human", "best"]

CERTAINTY = 1e-9
"""A probability this close to 0 or 1 counts as certain, because it is a sum of rounded numbers."""
LEVELS = 4
"""The number of columns in a table of probabilities: grade >= 1, grade >= 2, grade >= 3, and a yes."""


def reached(level: Floats, chances: Floats | None, rel: float) -> Bools | Floats:
    """Return whether each passage's grade is at least `rel`; with `chances`, the probability of this."""
    certain = level >= rel
    if chances is None:
        return certain
    chance = chances[:, ceil(min(rel, chances.shape[1])) - 1]
    return np.where(np.isnan(chance), certain, chance)


def chances_table(places: int, probabilities: Mapping[int, Sequence[float]]) -> Floats:
    """Return the probabilities that the label of each row reaches a grade >= 1, 2, 3, ..., in columns.

    `probabilities` maps a row to the probabilities of its grades from 0 up, or of no and yes; other rows are
    nan. For a yes/no label, each column holds the probability of a yes. The last column stands for a yes,
    which a grade never reaches.
    """
    columns = max(LEVELS, *map(len, probabilities.values())) if probabilities else LEVELS
    chances = np.full((places, columns), nan)
    for place, shares in probabilities.items():
        if len(shares) == 2:
            chances[place] = shares[1]
        elif shares:
            chances[place] = [fsum(shares[grade:]) for grade in range(1, columns)] + [0.0]
    return chances


class LabelChoice(NamedTuple):
    """The choice of the labels and lists that a ranked measure reads.

    `source` is the source of the labels. With `against="need"`, a context is judged against the sample's
    query (and the field that the settings add to it); with `against="call"`, it is judged against the query
    of the search that returned it. With `final`, only the final list is read, otherwise the lists of all
    searches.
    """

    source: Source
    against: str
    final: bool


@dataclass(frozen=True, kw_only=True)
class RankedLabels:
    """The labels of several rankings: ranking r contains passages `pointers[r]` to `pointers[r + 1] - 1`.

    `gain`, `level`, `judged`, `ranks` and `chances` have a value per passage, best rank first.

    Attributes:
        pointers: The index of each ranking's first passage, and the number of all passages; shape (rows +
            1,).
        gain: The gain in nDCG: the grade, or 0 if the passage is unjudged or the grade is negative.
        level: The value that is compared with `rel`: the grade (which may be negative, for bpref), inf for a
            yes, 0 for a no or an unjudged passage.
        judged: True if the passage has a label.
        best: A table whose ranking r holds all labelled documents for the query of ranking r, best first.
            None if the rankings are ideal themselves.
        rel: The lowest relevant grade by default: 1 for gold, 2 for grades 0-3 of a judge or people.
        complete: True if the ideal contains all relevant documents (gold), False if only the retrieved ones.
        ranks: The ranks, from 1. None if the passages of each ranking have the ranks 1, 2, 3, ...; this is
            not so if unjudged passages are left out of the arrays.
        lengths: The number of passages of each ranking, including those left out. None if none is left out.
        chances: The probabilities of a level >= 1, 2, 3 (more on longer scales) and of a yes, in columns; nan
            for a certain label. None if all labels are certain.
        several: True for a ranking labelled by one of several people. For a passage that this person did not
            label, measures are averaged over yes and no. None if there is no such ranking.
    """

    pointers: Ints
    gain: Floats
    level: Floats
    judged: Bools
    best: RankedLabels | None = None
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
        """The index of the ranking to which each passage belongs."""
        return np.repeat(np.arange(self.rows), np.diff(self.pointers))

    @cached_property
    def rank(self) -> Ints:
        """The rank of each passage, from 1."""
        if self.ranks is not None:
            return self.ranks
        starts = np.repeat(self.pointers[:-1], np.diff(self.pointers))
        return np.arange(1, len(starts) + 1) - starts

    @cached_property
    def length(self) -> Ints:
        """The number of passages of each ranking, including unjudged passages left out of the arrays."""
        return np.diff(self.pointers) if self.lengths is None else self.lengths

    @property
    def ideal(self) -> RankedLabels:
        """A table whose ranking r is the ideal of ranking r of this table."""
        return self.best or self

    @cached_property
    def over_retrieved(self) -> RankedLabels:
        """The same rankings, with ideal rankings made only of the judged passages in each ranking."""
        level, gain, row = self.level[self.judged], self.gain[self.judged], self.row[self.judged]
        return replace(self, best=_best_first(level, gain, row, self))

    def within(self, k: int | None) -> RankedLabels:
        """Return the table for a measure with the cut-off `k` (None = no cut-off).

        With gold, it is unchanged. Otherwise rankings are cut to `k` passages, whose best order is their
        ideal: lower passages have labels only if another measure needed them.
        """
        near = self.rank <= (inf if k is None else k)
        return self if self.complete or near.all() else self.kept(near).over_retrieved

    @cached_property
    def condensed(self) -> RankedLabels:
        """The same rankings without unjudged passages (Sakai, "Alternatives to Bpref", SIGIR 2007)."""
        return self.kept(self.judged)

    def kept(self, mask: Bools) -> RankedLabels:
        """Return the rankings without the passages that `mask` does not mark; ranks are counted anew."""
        left = np.bincount(self.row[mask], minlength=self.rows)
        return replace(self, pointers=pointers_of(left), ranks=None, lengths=None, **self._columns(mask))

    def reranked(self) -> RankedLabels:
        """Return the rankings sorted by gain, then by level, highest first; ties stay in order."""
        return replace(self, **self._columns(np.lexsort((-self.level, -self.gain, self.row))))

    def _columns(self, chosen: Bools | Ints | slice) -> dict[str, Any]:
        """Return the `chosen` values of each array that has a value per passage and is not None, by name."""
        columns = ((name, getattr(self, name)) for name in ("gain", "level", "judged", "chances"))
        return {name: column[chosen] for name, column in columns if column is not None}

    def rows_from(self, start: int, end: int) -> RankedLabels:
        """Return a table of the rankings with the indices `start` to `end` - 1."""
        span = slice(self.pointers[start], self.pointers[end])
        return replace(
            self,
            pointers=self.pointers[start : end + 1] - self.pointers[start],
            best=self.best and self.best.rows_from(start, end),
            ranks=None if self.ranks is None else self.ranks[span],
            lengths=None if self.lengths is None else self.lengths[start:end],
            several=None if self.several is None else self.several[start:end],
            **self._columns(span),
        )

    @classmethod
    def of_hits(
        cls, row: Ints, rank: Ints, grade: Floats, lengths: Ints, judged: Ints, level: Floats
    ) -> RankedLabels:
        """Return a table of gold labels that contains only the judged passages.

        `row`, `rank` and `grade` have a value per judged passage, sorted by ranking (`row`) and rank.
        `lengths` is the number of all passages of each ranking, `judged` the number of gold grades of its
        query, and `level` holds these grades, ranking by ranking.
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
        """Return a table from a list of grades per ranking, best rank first (None: unjudged).

        `gold` holds all known grades of each ranking's query; without it, the ideal ranking is made of the
        ranking's own. `rel` is the lowest relevant grade.
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
        """Return a table from a level (nan: unjudged) and a gain per passage, in flat arrays.

        `gold` is the number of known grades of each ranking's query, and all these grades in one array.
        Without it, the ideal ranking is made of the ranking's own labels. The other arguments are those of
        the class.
        """
        judged = ~np.isnan(level)
        new = cls(
            pointers=pointers,
            gain=np.where(judged, np.maximum(gain, 0.0), 0.0),
            level=np.where(judged, level, 0.0),
            judged=judged,
            rel=rel,
            complete=gold is not None,
            chances=chances,
            several=several,
        )
        if gold is None:
            return new.over_retrieved
        return replace(new, best=_best_first(gold[1], None, np.repeat(np.arange(new.rows), gold[0]), new))


def _best_first(level: Floats, gain: Floats | None, row: Ints, table: RankedLabels) -> RankedLabels:
    """Return the table of the ideal rankings of `table`: levels and gains, each the highest first.

    `row` is the ranking of each level, ascending. Without `gain`, it is the level, but at least 0.
    """
    columns = []
    for values in (level,) if gain is None else (level, gain):
        rises = (values[1:] > values[:-1]) & (row[1:] == row[:-1])
        columns.append(values[np.lexsort((-values, row))] if rises.any() else values)
    return RankedLabels(
        pointers=pointers_of(np.bincount(row, minlength=table.rows)),
        gain=np.maximum(columns[0], 0.0) if gain is None else columns[1],
        level=columns[0],
        judged=np.ones(len(level), dtype=np.bool_),
        rel=table.rel,
        complete=table.complete,
    )


def pointers_of(lengths: Iterable[int] | Ints) -> Ints:
    """Return the index of each row's first entry in a flat array, followed by the number of all entries."""
    sizes = lengths if isinstance(lengths, np.ndarray) else np.fromiter(lengths, dtype=np.int64)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def relevant_known(table: RankedLabels, *, rel: float) -> Ints:
    """Return the number of known relevant documents for each ranking, with gold also those not retrieved."""
    return np.bincount(table.ideal.row[table.ideal.level >= rel], minlength=table.rows)


def share_of(marked: Bools, among: Bools, row: Ints, rows: int) -> Floats:
    """Return the proportion of the entries in mask `among` that are also in `marked`, for each row.

    `row` is the row of each entry. The result is nan if `among` marks no entry of a row.
    """
    whole = np.bincount(row[among], minlength=rows)
    count = np.bincount(row[among & marked], minlength=rows)
    return np.asarray(np.divide(count, whole, out=np.full(rows, np.nan), where=whole > 0), np.float64)


def so_far(table: RankedLabels, marked: Bools) -> Ints:
    """Return, for each passage, the number of marked passages at its rank or above in its row."""
    running = np.concatenate([[0], np.cumsum(marked)])
    before = np.repeat(running[table.pointers[:-1]], np.diff(table.pointers))
    return np.asarray(running[1:] - before, dtype=np.int64)


def ratio(numerator: Floats | Ints, denominator: Floats | Ints) -> Floats:
    """Return numerator / denominator for each row, or 0 if the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros(len(denominator)), where=denominator > 0)
