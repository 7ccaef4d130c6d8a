"""The ranked formulas, each one vectorised function from ranked labels to one value per ranking.

The only place where a formula of ranks stands. Conventions that hold for every function on `RankedLabels`:

- `rel` is the level from which a place is relevant, `k` the cut-off (None = the whole list);
- a denominator of 0 gives 0, never NaN: whether such a ranking counts at all is the caller's decision;
- a value depends on its own row alone. Floats are summed row by row in rank order (`bincount` adds one by
  one), never by differences of a running sum over all rows, so a value has the same bits in any batch.

The formulas of novelty, at the end, read a matrix of claims x places: which claim a context at which rank supports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum, log2
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from germane.errors import MeasureError

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Gain: TypeAlias = Literal["log2", "exp-log2"]
RBPPart: TypeAlias = Literal["score", "residual"]


@dataclass(frozen=True, kw_only=True)
class RankedLabels:
    """The labels of `rows` rankings; ranking r holds the places `pointers[r]:pointers[r + 1]`, best rank first.

    ======== ======= =============================================================================
    pointers rows+1  where each ranking starts in the place arrays
    gain     places  what a place is worth to nDCG: the grade, 0 where unjudged or negative
    level    places  what is held against the threshold `rel`: the grade (a negative one as it is: bpref tells
                     it from 0), 0 where unjudged; +inf / 0 for yes / no labels
    judged   places  whether anybody judged this place
    ideal_pointers rows+1, ideal: the gains of all that is judged for the row's query, best first
    ideal_level      the same for `level`: those at or above `rel` are all the relevant there are
    rel      scalar  the threshold of the labels' own scale: gold 1, judge and human 0-3 grades 2
    complete scalar  whether the ideal holds all relevant documents (gold) or only what was retrieved
    ranks    places  the rank of each place, from 1; None: no place is left out, so they count 1, 2, 3, ...
    lengths  rows    how many places each ranking has, those that are left out included; None: none is
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

    @property
    def rows(self) -> int:
        """How many rankings there are."""
        return len(self.pointers) - 1

    @cached_property
    def row(self) -> Ints:
        """The ranking of each place."""
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
        """How many places each ranking has, those that are left out included."""
        return np.diff(self.pointers) if self.lengths is None else self.lengths

    @cached_property
    def ideal_row(self) -> Ints:
        """The ranking of each entry of the ideal."""
        return np.repeat(np.arange(self.rows), np.diff(self.ideal_pointers))

    @cached_property
    def ideal_table(self) -> RankedLabels:
        """The ideal as rankings of its own."""
        return replace(
            self,
            pointers=self.ideal_pointers,
            gain=self.ideal,
            level=self.ideal_level,
            judged=np.ones(len(self.ideal), dtype=np.bool_),
            ranks=None,
            lengths=None,
        )

    @cached_property
    def condensed(self) -> RankedLabels:
        """The same rankings with their unjudged places dropped (Sakai, "Alternatives to Bpref", SIGIR 2007)."""
        return self.kept(self.judged)

    def dense(self) -> RankedLabels:
        """The same rankings with no place left out."""
        if self.ranks is None:
            return self
        pointers = pointers_of(self.length)
        at = pointers[self.row] + self.rank - 1
        gain, level, judged = (
            np.zeros(pointers[-1], dtype=kind) for kind in (np.float64, np.float64, np.bool_)
        )
        gain[at], level[at], judged[at] = self.gain, self.level, self.judged
        return replace(
            self, pointers=pointers, gain=gain, level=level, judged=judged, ranks=None, lengths=None
        )

    def kept(self, places: Bools) -> RankedLabels:
        """The same rankings with only the marked places, which close up."""
        left = np.bincount(self.row[places], minlength=self.rows)
        arrays = {name: getattr(self, name)[places] for name in ("gain", "level", "judged")}
        return replace(self, pointers=pointers_of(left), ranks=None, lengths=None, **arrays)

    def rows_from(self, start: int, end: int) -> RankedLabels:
        """Some of the rankings: those from `start` up to but not with `end`."""
        places, ideal = (slice(p[start], p[end]) for p in (self.pointers, self.ideal_pointers))
        return replace(
            self,
            pointers=self.pointers[start : end + 1] - self.pointers[start],
            gain=self.gain[places],
            level=self.level[places],
            judged=self.judged[places],
            ideal_pointers=self.ideal_pointers[start : end + 1] - self.ideal_pointers[start],
            ideal=self.ideal[ideal],
            ideal_level=self.ideal_level[ideal],
            ranks=None if self.ranks is None else self.ranks[places],
            lengths=None if self.lengths is None else self.lengths[start:end],
        )

    @classmethod
    def of_hits(
        cls, row: Ints, rank: Ints, grade: Floats, lengths: Ints, judged: Ints, level: Floats
    ) -> RankedLabels:
        """A table of gold labels in which only judged places stand, sorted by row and rank.

        `judged[r]` is how many grades are known for row r, `level` are all of them, row after row.
        """
        pointers = pointers_of(judged)
        of_row = np.repeat(np.arange(len(judged)), judged)
        if ((level[1:] > level[:-1]) & (of_row[1:] == of_row[:-1])).any():
            level = level[np.lexsort((-level, of_row))]
        return cls(
            pointers=pointers_of(np.bincount(row, minlength=len(judged))),
            gain=np.maximum(grade, 0.0),
            level=grade,
            judged=np.ones(len(grade), dtype=np.bool_),
            ideal_pointers=pointers,
            ideal=np.maximum(level, 0.0),
            ideal_level=level,
            ranks=rank,
            lengths=lengths,
        )

    @classmethod
    def of_lists(
        cls,
        labels: Sequence[Sequence[float | None]],
        judged: Sequence[Sequence[float]] | None = None,
        *,
        gains: Sequence[Sequence[float | None]] | None = None,
        rel: int = 1,
    ) -> RankedLabels:
        """A table from plain lists: `labels[r]` the grade at each rank, None = unjudged.

        `judged[r]` are all grades known for the query (gold); without it a row's own grades are its ideal. `gains` are
        what the places are worth where that is not their grade.
        """
        worth = labels if gains is None else gains
        level, gain = (_flat([[grade or 0.0 for grade in row] for row in rows]) for rows in (labels, worth))
        levels, best = (
            _best_first(rows) if judged is None else _best_first(judged) for rows in (labels, worth)
        )
        return cls(
            pointers=pointers_of(map(len, labels)),
            gain=np.maximum(gain, 0.0),
            level=level,
            judged=np.array([grade is not None for row in labels for grade in row], dtype=np.bool_),
            ideal_pointers=pointers_of(map(len, levels)),
            ideal=np.maximum(_flat(best), 0.0),
            ideal_level=_flat(levels),
            rel=rel,
            complete=judged is not None,
        )


def _flat(rows: Sequence[Sequence[float]]) -> Floats:
    return np.array([value for row in rows for value in row], dtype=np.float64)


def _best_first(rows: Sequence[Sequence[float | None]]) -> list[list[float]]:
    return [sorted((grade for grade in row if grade is not None), reverse=True) for row in rows]


def pointers_of(lengths: Iterable[int] | Ints) -> Ints:
    """Where each row starts, from the rows' lengths."""
    sizes = lengths if isinstance(lengths, np.ndarray) else np.fromiter(lengths, dtype=np.int64)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def relevant_known(table: RankedLabels, *, rel: float) -> Ints:
    """How many documents at or above `rel` are known for each row, retrieved or not."""
    return np.bincount(table.ideal_row[table.ideal_level >= rel], minlength=table.rows)


def relevant_retrieved(table: RankedLabels, *, rel: float) -> Ints:
    """How many places at or above `rel` each row has."""
    return _hits(table, rel, None)


def retrieved(table: RankedLabels) -> Ints:
    """How many places each row has."""
    return table.length


def precision(table: RankedLabels, *, rel: float, k: int) -> Floats:
    """P@k = relevant in the top k / k; a list shorter than k is not forgiven."""
    return _hits(table, rel, k) / float(k)


def recall(table: RankedLabels, *, rel: float, k: int | None) -> Floats:
    """R@k = relevant in the top k / all relevant known."""
    return _ratio(_hits(table, rel, k), relevant_known(table, rel=rel))


def f1(table: RankedLabels, *, rel: float, k: int) -> Floats:
    """F1@k = 2 P R / (P + R) of P@k and R@k, which is 2 hits / (k + all relevant known)."""
    return _ratio(2 * _hits(table, rel, k), k + relevant_known(table, rel=rel))


def success(table: RankedLabels, *, rel: float, k: int | None) -> Floats:
    """Success@k = 1 where the top k hold anything relevant, else 0."""
    return (_hits(table, rel, k) > 0).astype(np.float64)


def reciprocal_rank(table: RankedLabels, *, rel: float, k: int | None) -> Floats:
    """RR = 1 / rank of the first relevant place; 0 where there is none within the cut-off."""
    relevant = _relevant(table, rel, k)
    first = relevant & (_so_far(table, relevant) == 1)
    return _sum(table, np.where(first, 1.0 / table.rank, 0.0))


def average_precision(table: RankedLabels, *, rel: float, k: int | None) -> Floats:
    """AP = sum of P@r over the ranks r of relevant places / all relevant known (trec_eval's map, map_cut)."""
    return _ratio(_precision_sum(table, rel, k), relevant_known(table, rel=rel))


def context_precision(table: RankedLabels, *, rel: float, k: int | None) -> Floats:
    """Sum of P@r over the ranks r of relevant places / relevant places in the top k, not all known: see AP."""
    return _ratio(_precision_sum(table, rel, k), _hits(table, rel, k))


def context_position(table: RankedLabels, *, rel: float, k: int | None) -> Floats:
    """Sum of 1/r over the ranks r of relevant places / sum of 1/r over all places of the top k."""
    relevant = _sum(table, np.where(_relevant(table, rel, k), 1.0 / table.rank, 0.0))
    places = _places(table, k)
    harmonic = np.cumsum(np.concatenate([[0.0], 1.0 / np.arange(1, places.max(initial=0) + 1)]))
    return _ratio(relevant, harmonic[places])


def context_relevancy(table: RankedLabels, *, rel: float, k: int | None) -> Floats:
    """Relevant places / places, within the top k; the divisor is what came back, unlike P@k."""
    return _ratio(_hits(table, rel, k), _places(table, k))


def ndcg(table: RankedLabels, *, k: int | None, dcg: Gain = "log2") -> Floats:
    """nDCG = DCG / DCG of the ideal list, both cut at k; DCG = sum of gain / log2(rank + 1).

    The ideal is over all that is judged for the query. `exp-log2` takes 2**gain - 1 for the gain (Burges 2005).
    """
    ideal = table.ideal_table
    if dcg == "log2":
        return _ratio(_discounted(table, table.gain, k), _discounted(ideal, ideal.gain, k))
    peak = np.zeros(table.rows)
    for part in (table, ideal):
        np.maximum.at(peak, part.row, part.gain)
    found, best = (_discounted(part, _exponential(part, peak), k) for part in (table, ideal))
    return _ratio(found, best)


def _exponential(table: RankedLabels, peak: Floats) -> Floats:
    """2**gain - 1, divided by 2**peak as both sides of the quotient are: exact, and no grade overflows."""
    top = peak[table.row]
    return np.asarray(np.exp2(table.gain - top) - np.exp2(-top), dtype=np.float64)


def _discounted(table: RankedLabels, gain: Floats, k: int | None) -> Floats:
    return _sum(table, np.where(_within(table, k), gain / np.log2(table.rank + 1.0), 0.0))


def expected_reciprocal_rank(
    table: RankedLabels, *, k: int | None, top: int | None = None, normalised: bool = False
) -> Floats:
    """ERR = sum over ranks r of 1/r * R(r) * product of 1 - R(i) over the ranks i above; R = (2**grade - 1) / 2**top.

    The rank at which a reader who stops at a place with probability R stops (Chapelle et al. 2009). `top` is the
    scale's highest grade, 4 of gold (as gdeval has it), else 3; a yes is worth it. `normalised`: divided by the value
    of the ideal list, cut at k too. MeasureError where a grade is above `top`.
    """
    top = top or (4 if table.complete else 3)
    found = _stopping(table, k, top)
    return _ratio(found, _stopping(table.ideal_table, k, top)) if normalised else found


def _stopping(table: RankedLabels, k: int | None, top: int) -> Floats:
    grade = np.where(np.isinf(table.level), float(top), table.gain)
    if (grade > top).any():
        raise MeasureError(f"a grade of {grade.max():g} is above top={top}", fix=f"write top={grade.max():g}")
    graded = _within(table, k) & (grade > 0)
    row, rank = table.row[graded], table.rank[graded]
    stops = (np.exp2(grade[graded]) - 1.0) / 2.0**top
    nth = _so_far(table, graded)[graded]
    value, reading = np.zeros(table.rows), np.ones(table.rows)
    for places in np.split(np.argsort(nth, kind="stable"), np.cumsum(np.bincount(nth))[1:-1]):
        at = row[places]
        value[at] += reading[at] * stops[places] / rank[places]
        reading[at] *= 1.0 - stops[places]
    return value


def r_precision(table: RankedLabels, *, rel: float) -> Floats:
    """Rprec = relevant in the top R / R, R = all relevant known."""
    known = relevant_known(table, rel=rel)
    early = table.rank <= known[table.row]
    return _ratio(_count(table, early & (table.level >= rel)), known)


def bpref(table: RankedLabels, *, rel: float) -> Floats:
    """Sum over relevant places of 1 - min(judged non-relevant above, R) / min(R, N), over R (trec_eval's bpref).

    R and N count what is known to be relevant and non-relevant. Unjudged places do not count, nor do
    negative grades, which TREC files use for "in the pool but not judged".
    """
    known = relevant_known(table, rel=rel)
    nonrelevant = (table.ideal_level >= 0) & (table.ideal_level < rel)
    refused = np.bincount(table.ideal_row[nonrelevant], minlength=table.rows)
    row = table.row
    above = _so_far(table, table.judged & (table.level >= 0) & (table.level < rel))
    lost = _ratio(np.minimum(above, known[row]), np.minimum(known, refused)[row])
    return _ratio(_sum(table, np.where(table.level >= rel, 1.0 - lost, 0.0)), known)


def judged_share(table: RankedLabels, *, k: int | None) -> Floats:
    """Judged@k = judged places / places, within the top k (ir_measures divides by what came back, too)."""
    return _ratio(_count(table, _within(table, k) & table.judged), _places(table, k))


def rank_biased_precision(
    table: RankedLabels, *, rel: float, k: int | None, p: float = 0.8, part: RBPPart = "score"
) -> Floats:
    """RBP = (1 - p) * sum of p**(r - 1) over the ranks r of relevant places (Moffat and Zobel 2008).

    `part="residual"`: how much more it could be if all that nobody judged were relevant, places below the list's end
    (or the cut-off) included: 1 - (1 - p) * sum of p**(r - 1) over the ranks r of judged places.
    """
    weight = p ** (table.rank - 1.0)
    if part == "residual":
        judged = _within(table, k) & table.judged
        return 1.0 - (1.0 - p) * _sum(table, np.where(judged, weight, 0.0))
    return (1.0 - p) * _sum(table, np.where(_relevant(table, rel, k), weight, 0.0))


def interpolated_precision(table: RankedLabels, *, rel: float, k: float) -> Floats:
    """IPrec@k = the highest P@r over all ranks r where recall has reached the level k, from 0 to 1; 0 where none has.

    trec_eval's iprec_at_recall: the level is reached with floor(k * all relevant known + 0.9) relevant places.
    """
    relevant = _relevant(table, rel, None)
    so_far = _so_far(table, relevant)
    least = np.floor(k * relevant_known(table, rel=rel) + 0.9)
    reached = relevant & (so_far >= least[table.row])
    best = np.zeros(table.rows)
    np.maximum.at(best, table.row[reached], so_far[reached] / table.rank[reached])
    return best


def set_f(table: RankedLabels, *, rel: float) -> Floats:
    """2 P R / (P + R) of set precision and set recall, which is 2 hits / (places + all relevant known)."""
    return _ratio(2 * _hits(table, rel, None), table.length + relevant_known(table, rel=rel))


def _places(table: RankedLabels, k: int | None) -> Ints:
    """How many places each row has in the top k."""
    return table.length if k is None else np.minimum(table.length, k)


def _within(table: RankedLabels, k: int | None) -> Bools:
    return np.ones(len(table.gain), dtype=np.bool_) if k is None else table.rank <= k


def _relevant(table: RankedLabels, rel: float, k: int | None) -> Bools:
    return (table.level >= rel) & _within(table, k)


def _hits(table: RankedLabels, rel: float, k: int | None) -> Ints:
    return _count(table, _relevant(table, rel, k))


def _precision_sum(table: RankedLabels, rel: float, k: int | None) -> Floats:
    relevant = _relevant(table, rel, k)
    return _sum(table, np.where(relevant, _so_far(table, relevant) / table.rank, 0.0))


def _so_far(table: RankedLabels, marked: Bools) -> Ints:
    """For each place, how many marked places its own row holds down to it (whole numbers: no rounding)."""
    running = np.concatenate([[0], np.cumsum(marked)])
    before = np.repeat(running[table.pointers[:-1]], np.diff(table.pointers))
    return np.asarray(running[1:] - before, dtype=np.int64)


def _count(table: RankedLabels, marked: Bools) -> Ints:
    return np.bincount(table.row[marked], minlength=table.rows)


def _sum(table: RankedLabels, values: Floats) -> Floats:
    return np.asarray(np.bincount(table.row, values, table.rows), dtype=np.float64)


def _ratio(part: Floats | Ints, whole: Floats | Ints) -> Floats:
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)


Column: TypeAlias = frozenset[int]
"""The claims that one place supports, by their number."""


def covered(columns: Iterable[Column]) -> Column:
    """The claims that the places support between them."""
    return frozenset[int]().union(*columns)


def alpha_dcg(columns: Iterable[Column], alpha: float) -> float:
    """Sum over the ranks r and the claims supported there of (1 - alpha)**(how often before) / log2(r + 1)."""
    seen: dict[int, int] = {}
    terms = []
    for rank, column in enumerate(columns, 1):
        terms.append(_gain(column, seen, alpha) / log2(rank + 1))
        _see(column, seen)
    return fsum(terms)


def greedy(columns: Iterable[Column], alpha: float, k: int | None = None) -> list[Column]:
    """The columns in the order that takes the greatest gain next (ties: the one that stands first), k of them.

    The best order is NP-hard to find; this is the one that the measure has always been normalised by.
    """
    left, chosen = list(columns), list[Column]()
    seen: dict[int, int] = {}
    while left and (k is None or len(chosen) < k):
        best = max(range(len(left)), key=lambda at: _gain(left[at], seen, alpha))
        chosen.append(left.pop(best))
        _see(chosen[-1], seen)
    return chosen


def alpha_ndcg(
    columns: Sequence[Column], alpha: float, k: int | None = None, *, pool: Sequence[Column] | None = None
) -> float:
    """alpha-DCG of the first k places / that of the greedy order of the pool (default: of all the places); 0 of 0."""
    ideal = alpha_dcg(greedy(columns if pool is None else pool, alpha, k), alpha)
    return alpha_dcg(columns[:k], alpha) / ideal if ideal else 0.0


def _gain(column: Column, seen: dict[int, int], alpha: float) -> float:
    return fsum((1.0 - alpha) ** seen.get(claim, 0) for claim in sorted(column))


def _see(column: Column, seen: dict[int, int]) -> None:
    for claim in column:
        seen[claim] = seen.get(claim, 0) + 1
