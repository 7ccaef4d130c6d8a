"""The ranked formulas, each one vectorised function from a label table to one value per ranking.

The only place where a formula of ranks stands. Conventions that hold for every function here:

- `rel` is the level from which a place is relevant, `k` the cut-off (None = the whole list);
- a denominator of 0 gives 0, never NaN: whether such a ranking counts at all is the caller's decision;
- a value depends on its own row alone. Floats are summed row by row in rank order (`bincount` adds one by
  one), never by differences of a running sum over all rows, so a value has the same bits in any batch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from germane.measures.table import Bools, Floats, Ints, LabelTable

__all__ = [
    "average_precision",
    "bpref",
    "condensed",
    "context_position",
    "context_precision",
    "context_relevancy",
    "f1",
    "judged_share",
    "ndcg",
    "precision",
    "r_precision",
    "rank_biased_precision",
    "recall",
    "reciprocal_rank",
    "relevant_known",
    "set_f",
    "set_precision",
    "set_recall",
    "success",
]

Gain: TypeAlias = Literal["log2", "exp-log2"]


def condensed(table: LabelTable) -> LabelTable:
    """The same rankings with their unjudged places dropped (Sakai, "Alternatives to Bpref", SIGIR 2007)."""
    kept = _count(table, table.judged)
    return replace(
        table,
        pointers=np.concatenate([[0], np.cumsum(kept)]).astype(np.int64),
        gain=table.gain[table.judged],
        level=table.level[table.judged],
        judged=table.judged[table.judged],
    )


def relevant_known(table: LabelTable, *, rel: float) -> Ints:
    """How many documents at or above `rel` are known for each row, retrieved or not."""
    row = _rows(table.ideal_pointers)
    return np.bincount(row[table.ideal_level >= rel], minlength=table.rows)


def precision(table: LabelTable, *, rel: float, k: int) -> Floats:
    """P@k = relevant in the top k / k; a list shorter than k is not forgiven."""
    return _hits(table, rel, k) / float(k)


def recall(table: LabelTable, *, rel: float, k: int | None) -> Floats:
    """R@k = relevant in the top k / all relevant known."""
    return _ratio(_hits(table, rel, k), relevant_known(table, rel=rel))


def f1(table: LabelTable, *, rel: float, k: int) -> Floats:
    """F1@k = 2 P R / (P + R) of P@k and R@k, which is 2 hits / (k + all relevant known)."""
    return _ratio(2 * _hits(table, rel, k), k + relevant_known(table, rel=rel))


def success(table: LabelTable, *, rel: float, k: int | None) -> Floats:
    """Success@k = 1 where the top k hold anything relevant, else 0."""
    return (_hits(table, rel, k) > 0).astype(np.float64)


def reciprocal_rank(table: LabelTable, *, rel: float, k: int | None) -> Floats:
    """RR = 1 / rank of the first relevant place; 0 where there is none within the cut-off."""
    relevant = _relevant(table, rel, k)
    first = relevant & (_so_far(table, relevant) == 1)
    return _sum(table, np.where(first, 1.0 / _ranks(table), 0.0))


def average_precision(table: LabelTable, *, rel: float, k: int | None) -> Floats:
    """AP = sum of P@r over the ranks r of relevant places / all relevant known (trec_eval's map, map_cut)."""
    return _ratio(_precision_sum(table, rel, k), relevant_known(table, rel=rel))


def context_precision(table: LabelTable, *, rel: float, k: int | None) -> Floats:
    """Sum of P@r over the ranks r of relevant places / relevant places in the top k, not all known: see AP."""
    return _ratio(_precision_sum(table, rel, k), _hits(table, rel, k))


def context_position(table: LabelTable, *, rel: float, k: int | None) -> Floats:
    """Sum of 1/r over the ranks r of relevant places / sum of 1/r over all places of the top k."""
    weight = 1.0 / _ranks(table)
    relevant = _sum(table, np.where(_relevant(table, rel, k), weight, 0.0))
    return _ratio(relevant, _sum(table, np.where(_within(table, k), weight, 0.0)))


def context_relevancy(table: LabelTable, *, rel: float, k: int | None) -> Floats:
    """Relevant places / places, within the top k; the divisor is what came back, unlike P@k."""
    return _ratio(_hits(table, rel, k), _count(table, _within(table, k)))


def ndcg(table: LabelTable, *, k: int | None, dcg: Gain = "log2") -> Floats:
    """nDCG = DCG / DCG of the ideal list, both cut at k; DCG = sum of gain / log2(rank + 1).

    The ideal is over all that is judged for the query. `exp-log2` takes 2**gain - 1 for the gain (Burges 2005).
    """
    ideal = replace(
        table,
        pointers=table.ideal_pointers,
        gain=table.ideal,
        level=table.ideal_level,
        judged=np.ones(len(table.ideal), dtype=np.bool_),
    )
    peak = np.zeros(table.rows)
    for part in (table, ideal):
        np.maximum.at(peak, _rows(part.pointers), part.gain)
    return _ratio(_dcg(table, k, dcg, peak), _dcg(ideal, k, dcg, peak))


def _dcg(table: LabelTable, k: int | None, dcg: Gain, peak: Floats) -> Floats:
    gain = table.gain
    if dcg == "exp-log2":
        # 2**gain - 1, both sides of the quotient divided by 2**peak: exact, and no grade overflows
        top = peak[_rows(table.pointers)]
        gain = np.exp2(gain - top) - np.exp2(-top)
    return _sum(table, np.where(_within(table, k), gain / np.log2(_ranks(table) + 1.0), 0.0))


def r_precision(table: LabelTable, *, rel: float) -> Floats:
    """Rprec = relevant in the top R / R, R = all relevant known."""
    known = relevant_known(table, rel=rel)
    early = _ranks(table) <= known[_rows(table.pointers)]
    return _ratio(_count(table, early & (table.level >= rel)), known)


def bpref(table: LabelTable, *, rel: float) -> Floats:
    """Sum over relevant places of 1 - min(judged non-relevant above, R) / min(R, N), over R (trec_eval's bpref).

    R and N count what is known to be relevant and non-relevant. Unjudged places do not count, nor do
    negative grades, which TREC files use for "in the pool but not judged".
    """
    known = relevant_known(table, rel=rel)
    refused = np.bincount(
        _rows(table.ideal_pointers)[(table.ideal_level >= 0) & (table.ideal_level < rel)],
        minlength=table.rows,
    )
    row = _rows(table.pointers)
    above = _so_far(table, table.judged & (table.level >= 0) & (table.level < rel))
    lost = _ratio(np.minimum(above, known[row]), np.minimum(known, refused)[row])
    return _ratio(_sum(table, np.where(table.level >= rel, 1.0 - lost, 0.0)), known)


def judged_share(table: LabelTable, *, k: int | None) -> Floats:
    """Judged@k = judged places / places, within the top k (ir_measures divides by what came back, too)."""
    within = _within(table, k)
    return _ratio(_count(table, within & table.judged), _count(table, within))


def rank_biased_precision(table: LabelTable, *, rel: float, k: int | None, p: float = 0.8) -> Floats:
    """RBP = (1 - p) * sum of p**(r - 1) over the ranks r of relevant places (Moffat and Zobel 2008)."""
    weight = np.where(_relevant(table, rel, k), p ** (_ranks(table) - 1.0), 0.0)
    return (1.0 - p) * _sum(table, weight)


def set_precision(table: LabelTable, *, rel: float) -> Floats:
    """Relevant places / places, over the whole list."""
    return _ratio(_hits(table, rel, None), np.diff(table.pointers))


def set_recall(table: LabelTable, *, rel: float) -> Floats:
    """Relevant places / all relevant known, over the whole list."""
    return recall(table, rel=rel, k=None)


def set_f(table: LabelTable, *, rel: float) -> Floats:
    """2 P R / (P + R) of set precision and set recall, which is 2 hits / (places + all relevant known)."""
    return _ratio(2 * _hits(table, rel, None), np.diff(table.pointers) + relevant_known(table, rel=rel))


def _rows(pointers: Ints) -> Ints:
    return np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))


def _ranks(table: LabelTable) -> Ints:
    starts = np.repeat(table.pointers[:-1], np.diff(table.pointers))
    return np.arange(1, len(starts) + 1) - starts


def _within(table: LabelTable, k: int | None) -> Bools:
    return np.ones(len(table.gain), dtype=np.bool_) if k is None else _ranks(table) <= k


def _relevant(table: LabelTable, rel: float, k: int | None) -> Bools:
    return (table.level >= rel) & _within(table, k)


def _hits(table: LabelTable, rel: float, k: int | None) -> Ints:
    return _count(table, _relevant(table, rel, k))


def _precision_sum(table: LabelTable, rel: float, k: int | None) -> Floats:
    relevant = _relevant(table, rel, k)
    return _sum(table, np.where(relevant, _so_far(table, relevant) / _ranks(table), 0.0))


def _so_far(table: LabelTable, marked: Bools) -> Ints:
    """For each place, how many marked places its own row holds down to it (whole numbers: no rounding)."""
    running = np.concatenate([[0], np.cumsum(marked)])
    before = np.repeat(running[table.pointers[:-1]], np.diff(table.pointers))
    return np.asarray(running[1:] - before, dtype=np.int64)


def _count(table: LabelTable, marked: Bools) -> Ints:
    return np.bincount(_rows(table.pointers)[marked], minlength=table.rows)


def _sum(table: LabelTable, values: Floats) -> Floats:
    return np.asarray(np.bincount(_rows(table.pointers), values, table.rows), dtype=np.float64)


def _ratio(part: Floats | Ints, whole: Floats | Ints) -> Floats:
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)
