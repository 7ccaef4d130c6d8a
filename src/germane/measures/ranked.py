"""The ranked measures: their formulas, parameters and sources.

Each formula is a vectorised function from a table of labels to one value per ranking:

- `rel` is the lowest grade at which a place (a passage at a rank) is relevant, `k` the cut-off (None = all);
- a denominator of 0 gives 0, never NaN. For a query without relevant documents, `germane rank` counts this 0,
  but `germane run` skips the query with a reason;
- if labels are probabilities, a sum is an expected value (places are assumed to be independent), and a ratio
  is the ratio of two expected values;
- the value of a row does not depend on other rows. Floats are summed row by row in rank order (`bincount`
  adds one by one), never as differences of a running sum, so a value has the same bits in any batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from germane.errors import MeasureError
from germane.measures.declaration import ranked_measure
from germane.measures.measure import Param, one_of
from germane.places.table import (
    CERTAINTY,
    Bools,
    Floats,
    Ints,
    RankedLabels,
    ratio,
    reached,
    relevant_known,
    so_far,
)

_GOLD = one_of("source of the labels", "gold", "judge", "human", "best")
OVER = one_of(
    "several searches: the mean over them, or the final list alone (else the last search's)", "calls", "final"
)
REL = Param(int, None, "lowest grade that counts as relevant; default 1 for gold, 2 for grades 0-3", low=1)
UNIT = one_of("what is counted: statements of the contexts, or contexts", "statement", "context")
_AGAINST = one_of(
    "what a context is judged against: the sample's query (and reference), or only its call's query",
    "need",
    "call",
)
_HOLES = one_of(
    "unjudged places: zero = not relevant (with bounds over people's labels); condensed = removed first",
    "zero",
    "condensed",
)
_IDEAL = one_of(
    "the best possible ranking: of all documents that gold knows for the query, or of the retrieved ones, which is all "
    "that a judge or people have seen",
    "all",
    "retrieved",
)
_DCG = one_of("what a grade g gains: g (log2) or 2**g - 1 (exp-log2)", "log2", "exp-log2")
_PERSISTENCE = Param(float, 0.8, "persistence: the chance of looking at the next place", low=0.0, high=0.999)
_PART = one_of("the score, or how much more it could be", "score", "residual")
_TOP = Param(int, None, "the highest grade of the scale; default 4 of gold, else 3", low=1)

_OVER_GOLD = {"labels": _GOLD, "over": OVER}
_GRADED = {"holes": _HOLES, "against": _AGAINST, **_OVER_GOLD}
_USUAL = {"rel": REL, "holes": _HOLES, **_OVER_GOLD}
_OF_CONTEXTS = {**_USUAL, "labels": replace(_GOLD, default="judge"), "against": _AGAINST}

Marks: TypeAlias = Bools | Floats
"""For each place, a boolean that says whether it counts, or the probability that it counts."""


def _top_size(table: RankedLabels, k: int | None) -> Ints:
    """Return the number of passages in the top k of each row: at most `k`, or all if `k` is None."""
    return table.length if k is None else np.minimum(table.length, k)


def _within(table: RankedLabels, k: int | None) -> Bools:
    """Return a mask of the passages that are in the top k of their row (None = all passages)."""
    return np.ones(len(table.gain), dtype=np.bool_) if k is None else table.rank <= k


def _relevant(table: RankedLabels, rel: float, k: int | None) -> Marks:
    """Return a mask of the passages in the top k (None = all) with grade `rel` or higher.

    If some labels are uncertain, the values are the probabilities of such a grade instead (0 below k).
    """
    return reached(table.level, table.chances, rel) * _within(table, k)


def _hits(table: RankedLabels, rel: float, k: int | None) -> Floats:
    """Return, for each row, the number of passages in the top k (None = all) with grade `rel` or higher.

    An uncertain passage counts as its probability of such a grade.
    """
    return _sum(table, _relevant(table, rel, k))


def _running(
    table: RankedLabels, values: Floats, total: Callable[..., Floats] = np.cumsum, before: float = 0.0
) -> Floats:
    """Return, for each passage, the sum of the values of the passages above it in its row.

    `total` may be `np.cumprod`, for a product. `before` is the result for the first passage.
    """
    positions = table.rank - 1
    rows = np.full((table.rows, 1 + int(positions.max(initial=-1)) + 1), before)
    rows[table.row, positions + 1] = values
    return np.asarray(total(rows, axis=1)[table.row, positions], np.float64)


def _first(table: RankedLabels, relevant: Any) -> Marks:
    """Return a mask that marks the first relevant passage of each row.

    If `relevant` holds probabilities, return the probability that each passage is the first relevant one.
    """
    if relevant.dtype == np.bool_:
        return np.asarray(relevant & (so_far(table, relevant) == 1), np.bool_)
    return np.asarray(relevant * _running(table, 1.0 - relevant, np.cumprod, 1.0))


def _sum(table: RankedLabels, marked: Marks, values: NDArray[np.floating[Any]] | float = 1.0) -> Floats:
    """Return each row's sum of `values` (one per passage, or one for all) over the marked passages."""
    return np.asarray(np.bincount(table.row, marked * values, table.rows), dtype=np.float64)


def _ideal(table: RankedLabels, ideal: str) -> RankedLabels:
    """Return the table of ideal rankings."""
    return (table.over_retrieved if ideal == "retrieved" and table.complete else table).ideal


def _ndcg(table: RankedLabels, k: int | None, dcg: str, ideal: str) -> tuple[Floats, Floats]:
    """Return (DCG, ideal DCG) for each row: sums of gain / log2(rank + 1) over the top k.

    The gain of grade g is g with `dcg="log2"` and 2**g - 1 with "exp-log2".
    """
    sums = []
    for side in (table, _ideal(table, ideal)):
        gain = side.gain
        if dcg == "exp-log2":
            _require_certain(table)
            if (highest := gain.max(initial=0.0)) > 1000:  # 2**1024 is infinite
                problem = f"the grade {highest:g} is too high for a gain of 2**grade"
                raise MeasureError(problem, fix="use dcg=log2")
            gain = np.exp2(gain) - 1.0
        sums.append(_sum(side, _within(side, k), gain / np.log2(side.rank + 1.0)))
    return sums[0], sums[1]


def _require_certain(table: RankedLabels) -> None:
    """Raise MeasureError if a label is uncertain: the mean grade does not tell the mean of 2**grade."""
    uncertain = np.zeros(len(table.gain), np.bool_)
    if table.several is not None:  # gains are mean grades: where people differ, not the person's own grade
        own = np.where(np.isinf(table.level), 1.0, np.maximum(table.level, 0.0))
        uncertain = table.several[table.row] & table.judged & (table.gain != own)
    if table.chances is not None:
        uncertain |= ((table.chances > CERTAINTY) & (table.chances < 1 - CERTAINTY)).any(axis=1)
    if uncertain.any():
        problem = "2**grade (ERR, dcg=exp-log2) needs one grade per context, not grades of several people or probabilities"
        raise MeasureError(problem, fix="use nDCG with dcg=log2, whose gain is the grade")


def _stopping(table: RankedLabels, k: int | None, top: int | None) -> Floats:
    """Return the ERR of each row over its top k (None = all).

    Its user stops at a passage with probability (2**grade - 1) / 2**top. `top` is the highest grade of the
    scale: by default 4 for gold, else 3. A yes has the grade `top`. Raises MeasureError if a grade is higher.
    """
    _require_certain(table)
    top = top or (4 if table.complete else 3)
    yes = (table.level > table.gain) & (table.gain > 0)  # also grades beside yes/no labels
    grade = np.where(yes, float(top), table.gain)
    if (highest := grade.max(initial=0.0)) > top:
        problem = f"the grade {highest:g} is higher than the highest grade, top={top}"
        raise MeasureError(problem, fix=f"write top={highest:g}")
    stops = (np.exp2(grade) - 1.0) / 2.0**top
    graded = _within(table, k) & (stops > 0)
    row, rank, stops = table.row[graded], table.rank[graded], stops[graded]
    nth = so_far(table, graded)[graded]
    value, continues = np.zeros(table.rows), np.ones(table.rows)
    for step in np.split(np.argsort(nth, kind="stable"), np.cumsum(np.bincount(nth))[1:-1]):
        at = row[step]
        value[at] += continues[at] * stops[step] / rank[step]
        continues[at] *= 1.0 - stops[step]
    return value


def _precisions(table: RankedLabels, rel: float, k: int | None) -> Floats:
    """Return the numerator of AP for each row: the sum of P@r over the ranks r of relevant passages."""
    relevant: Any = _relevant(table, rel, k)
    if relevant.dtype == np.bool_:
        return _sum(table, relevant, so_far(table, relevant) / table.rank)
    return _sum(table, relevant, (1.0 + _running(table, relevant)) / table.rank)


def _r_precision(table: RankedLabels, rel: float) -> Floats:
    """Return the precision at rank R, the number of known relevant documents, for each row."""
    relevant = relevant_known(table, rel=rel)
    early = table.rank <= relevant[table.row]
    return ratio(_sum(table, early & (table.level >= rel)), relevant)


def _interpolated(table: RankedLabels, rel: float, k: float) -> Floats:
    """Return the interpolated precision of each row: the highest precision at a rank with recall >= `k`."""
    relevant = table.level >= rel  # of gold: certain
    count = so_far(table, relevant)
    least = np.floor(k * relevant_known(table, rel=rel) + 0.9)  # trec_eval's iprec_at_recall
    reached = relevant & (count >= least[table.row])
    best = np.zeros(table.rows)
    np.maximum.at(best, table.row[reached], count[reached] / table.rank[reached])
    return best


def _bpref(table: RankedLabels, rel: float) -> Floats:
    """Return bpref for each row: 1/R * sum over relevant passages of 1 - min(n, R) / min(N, R).

    R and N are the numbers of known relevant and non-relevant documents. n is the number of non-relevant
    passages above the relevant passage.
    """
    relevant, row = relevant_known(table, rel=rel), table.row
    nonrelevant = (table.ideal.level >= 0) & (table.ideal.level < rel)
    refused = np.bincount(table.ideal.row[nonrelevant], minlength=table.rows)
    above = so_far(table, table.judged & (table.level >= 0) & (table.level < rel))
    lost = ratio(np.minimum(above, relevant[row]), np.minimum(relevant, refused)[row])
    return ratio(_sum(table, table.level >= rel, 1.0 - lost), relevant)


def _rank_biased(table: RankedLabels, rel: float, k: int | None, p: float, part: str) -> Floats:
    """Return RBP for each row: (1 - p) * sum of p**(rank - 1) over the relevant passages.

    With `part="residual"`, return the weight of all ranks without a judged passage.
    """
    counted = _within(table, k) & table.judged if part == "residual" else _relevant(table, rel, k)
    value = (1.0 - p) * _sum(table, counted, p ** (table.rank - 1.0))
    return 1.0 - value if part == "residual" else value


def _position(table: RankedLabels, rel: float, k: int | None) -> tuple[Floats, Floats]:
    """Return two sums of 1 / rank over the top k of each row: of relevant passages, and of all passages."""
    positions = _top_size(table, k)
    harmonic = np.cumsum(np.concatenate([[0.0], 1.0 / np.arange(1, positions.max(initial=0) + 1)]))
    return _sum(table, _relevant(table, rel, k), 1.0 / table.rank), harmonic[positions]


_ranked = partial(ranked_measure, params=_USUAL)
_of_recall = partial(
    _ranked,
    sources=("gold",),
    refusal="the judge saw only what was retrieved; recall needs gold",
    nothing="0 if nothing relevant is retrieved or known",
)
"""Declares a measure that needs the number of all relevant documents, which is known only with gold."""
_of_contexts = partial(ranked_measure, params=_OF_CONTEXTS, labels="judge")

nDCG = _ranked(
    "nDCG", _ndcg,
    formula="DCG@k / ideal DCG@k, DCG = sum of gain / log2(rank + 1)",
    doc="Graded gain of the ranking over that of the ideal one, discounted by rank. Over a judge's or people's labels the ideal is "
    "the best order of the retrieved passages, with a cut-off of the first k (named nDCG(ideal=retrieved)): it does not say whether "
    "anything was missed.",
    reference="Järvelin and Kekäläinen, ACM TOIS 20(4), 2002; trec_eval ndcg_cut. exp-log2: Burges et al. 2005",
    params={"dcg": _DCG, "ideal": _IDEAL, **_GRADED},
    aliases=("ndcg_cut", "normalized_discounted_cumulative_gain"),
    presets={"ndcg_burges": {"dcg": "exp-log2"}},
)  # fmt: skip
AP = _of_recall(
    "AP", lambda table, rel, k: (_precisions(table, rel, k), relevant_known(table, rel=rel)),
    formula="sum of P@r over the ranks r of relevant places / all relevant known",
    doc="Precision averaged over all relevant documents; one that is not retrieved adds 0. Its mean over queries is MAP.",
    reference="Buckley and Voorhees 2005; trec_eval map, map_cut",
    aliases=("map", "map_cut", "average_precision", "mean_average_precision"),
)  # fmt: skip
RR = _ranked(
    "RR", lambda table, rel, k: _sum(table, _first(table, _relevant(table, rel, k)), 1.0 / table.rank),
    formula="1 / rank of the first relevant place",
    doc="Reciprocal rank of the first relevant passage. Its mean over queries is MRR.",
    reference="Kantor and Voorhees, TREC-5, 1996; trec_eval recip_rank",
    aliases=("recip_rank", "mrr", "reciprocal_rank", "mean_reciprocal_rank"),
)  # fmt: skip
ERR = _ranked(
    "ERR", _stopping,
    formula="sum over ranks r of 1/r * R(r) * product of 1 - R(i) for i < r; R = (2**grade - 1) / 2**top",
    doc="Expected reciprocal rank at which a reader stops, more likely at higher grades. Below 1 even for a perfect list. A grade "
    "above `top` is an error.",
    reference="Chapelle et al. (CIKM 2009); TREC's gdeval, top=4",
    params={"top": _TOP, **_GRADED},
    aliases=("expected_reciprocal_rank",),
)  # fmt: skip
nERR = _ranked(
    "nERR", lambda table, k, top, ideal: ratio(
        _stopping(table, k, top), _stopping(_ideal(table, ideal), k, top)
    ),
    formula="ERR@k / ERR@k of the ideal list",
    doc="ERR over that of the ideal ranking (as in nDCG).",
    reference="Chapelle et al. (CIKM 2009); normalised as in TREC Web and NTCIR",
    params={"top": _TOP, "ideal": _IDEAL, **_GRADED},
)  # fmt: skip
P = _ranked(
    "P", lambda table, rel, k: (_hits(table, rel, k), np.full(table.rows, k)),
    formula="relevant in the top k / k",
    doc="The share of the top k that is relevant. Divides by k even if fewer are retrieved.",
    reference="van Rijsbergen 1979; trec_eval P",
    cutoff="required",
    aliases=("precision",),
)  # fmt: skip
R = _of_recall(
    "R", lambda table, rel, k: (_hits(table, rel, k), relevant_known(table, rel=rel)),
    formula="relevant in the top k / all relevant known",
    doc="The share of all relevant documents that are in the top k.",
    reference="van Rijsbergen 1979; trec_eval recall",
    cutoff="required",
    aliases=("recall",),
)  # fmt: skip
F1 = _of_recall(
    "F1", lambda table, rel, k: ratio(2 * _hits(table, rel, k), k + relevant_known(table, rel=rel)),
    formula="2 P@k R@k / (P@k + R@k)",
    doc="The harmonic mean of P@k and R@k.",
    reference="van Rijsbergen 1979; ranx f1",
    cutoff="required",
    aliases=("f1_score",),
)  # fmt: skip
Success = _ranked(
    "Success", lambda table, rel, k: _sum(table, _first(table, _relevant(table, rel, k))),
    formula="1 if anything relevant is in the top k, else 0",
    doc="1 if the top k hold a relevant passage, else 0; its mean is the hit rate.",
    reference="trec_eval success",
    cutoff="required",
    aliases=("hit_rate", "hit", "hitrate"),
)  # fmt: skip
Rprec = _of_recall(
    "Rprec", _r_precision,
    formula="relevant in the top R / R, R = all relevant known",
    doc="Precision at rank R, where R is the number of relevant documents.",
    reference="Buckley and Voorhees 2005; trec_eval Rprec",
    aliases=("r_precision", "r-precision", "r_prec"),
)  # fmt: skip
IPrec = _of_recall(
    "IPrec", _interpolated,
    formula="highest P@r over the ranks r where recall has reached the level",
    doc="Best precision at or after a level of recall: `IPrec@0.1`. The level is reached with floor(level * R + 0.9) of the R "
    "relevant documents.",
    reference="Salton and McGill 1983; trec_eval iprec_at_recall",
    cutoff="recall",
    aliases=("iprec_at_recall",),
)  # fmt: skip
bpref = _of_recall(
    "bpref", _bpref,
    formula="1/R * sum over relevant places of 1 - min(n, R) / min(N, R), n = judged non-relevant above",
    doc="How rarely judged non-relevant documents rank above relevant ones. Unjudged documents and negative grades (TREC: "
    "pooled, not judged) do not count. R, N = known relevant, non-relevant.",
    reference="Buckley and Voorhees, SIGIR 2004; trec_eval bpref",
    params={"rel": REL, **_OVER_GOLD},
)  # fmt: skip
Judged = _ranked(
    "Judged", lambda table, k: ratio(_sum(table, _within(table, k) & table.judged), _top_size(table, k)),
    formula="judged in the top k / places in the top k",
    doc="The share of retrieved documents that are judged. If it is low, other measures say little.",
    reference="ir_measures Judged",
    params=_OVER_GOLD,
    sources=("gold", "human"),
    refusal="a judge labels whatever it is shown; Judged asks how far gold or people's labels reach",
    diagnostic=True,
    nothing="0 if nothing is retrieved",
)  # fmt: skip
RBP = _ranked(
    "RBP", _rank_biased,
    formula="(1 - p) * sum of p**(r - 1) over the ranks r of relevant places",
    doc="Precision for a reader who continues to the next rank with probability p. Binary; p = 0.8 as in ir_measures (the spelling "
    "rbp: trec_eval's 0.9). Below 1 even for a perfect list. `part=residual` is the weight of everything unjudged, below the "
    "list too.",
    reference="Moffat and Zobel, ACM TOIS 27(1), 2008",
    params={"p": _PERSISTENCE, "part": _PART, **_USUAL},
    aliases=("rank_biased_precision",),
    presets={"rbp": {"p": 0.9}},
)  # fmt: skip
SetP = _ranked(
    "SetP", lambda table, rel: (_hits(table, rel, None), table.length),
    formula="relevant places / places",
    doc="The share of retrieved documents that are relevant, at any rank.",
    reference="trec_eval set_P",
    aliases=("set_p", "set_precision"),
)  # fmt: skip
SetR = _of_recall(
    "SetR", lambda table, rel: (_hits(table, rel, None), relevant_known(table, rel=rel)),
    formula="relevant places / all relevant known",
    doc="The share of all relevant documents that are retrieved, at any rank.",
    reference="trec_eval set_recall",
    aliases=("set_r", "set_recall"),
)  # fmt: skip
SetF = _of_recall(
    "SetF", lambda table, rel: ratio(2 * _hits(table, rel, None), table.length + relevant_known(table, rel=rel)),
    formula="2 SetP SetR / (SetP + SetR)",
    doc="The harmonic mean of SetP and SetR.",
    reference="van Rijsbergen 1979; trec_eval set_F",
    aliases=("set_f", "set_f1"),
)  # fmt: skip
num_ret = _ranked(
    "num_ret", lambda table: table.length,
    formula="number of places",
    doc="Number of retrieved documents. The mean over queries; trec_eval prints the sum.",
    reference="trec_eval num_ret",
    diagnostic=True,
    params=_OVER_GOLD,
    range=(0.0, inf),
)  # fmt: skip
num_rel = _of_recall(
    "num_rel", lambda table, rel: relevant_known(table, rel=rel),
    formula="number of all relevant known",
    doc="Number of known relevant documents. The mean over queries; trec_eval prints the sum.",
    reference="trec_eval num_rel",
    diagnostic=True,
    params={"rel": REL, **_OVER_GOLD},
    range=(0.0, inf),
)  # fmt: skip
num_rel_ret = _ranked(
    "num_rel_ret", lambda table, rel: _hits(table, rel, None),
    formula="number of relevant places",
    doc="Number of retrieved relevant documents. The mean over queries; trec_eval prints the sum.",
    reference="trec_eval num_rel_ret",
    range=(0.0, inf),
)  # fmt: skip
context_precision = _of_contexts(
    "context_precision", lambda table, rel, k: (_precisions(table, rel, k), _hits(table, rel, k)),
    formula="sum of P@r over the ranks r of relevant places / relevant places in the top k",
    doc="How well relevant contexts rank above others: 1 = all of them first. Divides by the relevant contexts that are "
    "retrieved, unlike AP, which also counts those that are not.",
    reference="ragas context_precision, DeepEval contextual precision, Mastra context precision",
    aliases=("contextual_precision",),
)  # fmt: skip
context_position = _of_contexts(
    "context_position", _position,
    formula="sum of 1/r over the ranks r of relevant places / sum of 1/r over all places",
    doc="Share of relevant contexts, weighted by 1/rank. It mixes in precision: one relevant context above three others gets 0.48.",
    reference="Mastra context position",
    aliases=("contextual_position",),
)  # fmt: skip
context_relevance = _of_contexts(
    "context_relevancy", lambda table, rel, k: (_hits(table, rel, k), _top_size(table, k)),
    formula="relevant contexts / contexts",
    doc="The share of contexts that are relevant, at any rank.",
    reference="DeepEval contextual relevancy, counted by context",
    params={"unit": UNIT, **_OF_CONTEXTS},
    when={"unit": "context"},
    aliases=("context_relevance", "contextual_relevance"),
)  # fmt: skip
