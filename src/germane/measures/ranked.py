"""The ranked measures: what each one means, its parameters and where it comes from. The formulas are in kernel.py.

Over gold labels a query with nothing relevant gets 0 from the formula; whether it counts is decided by who makes the
ranked labels (`germane rank` counts it, `germane run` skips it and says why).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, TypeAlias

import numpy as np

from germane.measures import kernel
from germane.measures.kernel import Floats, RankedLabels
from germane.measures.measure import Definition, Measure, Param, Source, define

Compute: TypeAlias = Callable[[RankedLabels, Mapping[str, Any], int | None], Floats]

_SOURCES: tuple[Source, ...] = ("gold", "judge", "human", "best")
_NEEDS_GOLD = "the judge saw only what was retrieved; recall needs gold"
_ALL_JUDGED = "a judge labels whatever it is shown; Judged asks how far gold or people's labels reach"

LABELS = Param(str, "judge", "whose labels are read", _SOURCES)
OVER = Param(
    str,
    "calls",
    "several searches: the mean over them, or the final list alone (the last search's where there is none)",
    ("calls", "final"),
)
REL = Param(int, None, "the lowest grade that counts as relevant; default 1 of gold, 2 of grades 0-3", low=1)
UNIT = Param(
    str, "statement", "what is counted: statements of the contexts, or contexts", ("statement", "context")
)
_GOLD = Param(str, "gold", LABELS.meaning, _SOURCES)
_AGAINST = Param(
    str,
    "need",
    "what the judge holds a context against: the sample's query (and reference), or its call's own query alone",
    ("need", "call"),
)
_HOLES = Param(
    str,
    "zero",
    "unjudged places: not relevant (zero; over people's labels bounds), dropped first (condensed), or whatever they "
    "could be (bounds: the score is an interval unless they cannot change it)",
    ("zero", "condensed", "bounds"),
)
_DCG = Param(str, "log2", "what a grade g gains: g (log2) or 2**g - 1 (exp-log2)", ("log2", "exp-log2"))
_TOP = Param(int, None, "the highest grade of the scale; default 4 of gold, else 3", low=1)
_PERSISTENCE = Param(float, 0.8, "persistence: the chance of looking at the next place", low=0.0, high=0.999)
_PART = Param(str, "score", "the score, or how much more it could be", ("score", "residual"))

_OVER_GOLD = {"labels": _GOLD, "over": OVER}
_GRADED = {"holes": _HOLES, "against": _AGAINST, **_OVER_GOLD}
_USUAL = {"rel": REL, "holes": _HOLES, **_OVER_GOLD}
_OF_CONTEXTS = {"rel": REL, "holes": _HOLES, "labels": LABELS, "over": OVER, "against": _AGAINST}


def values(measure: Measure, table: RankedLabels) -> Floats:
    """The values of a ranked measure, one for each row of the table."""
    found: Floats = measure.definition.compute(table, measure.settings, measure.cutoff)
    return found


def _on_labels(formula: Callable[..., Any], passed: tuple[str, ...], **fixed: object) -> Compute:
    """A definition's `compute` from a kernel formula: holes and threshold filled in, `passed` handed on."""

    def compute(table: RankedLabels, params: Mapping[str, Any], k: int | None) -> Floats:
        if params.get("holes") == "condensed":
            table = table.condensed
        given: dict[str, Any] = {name: params[name] for name in passed if name != "k"}
        if params.get("rel", 0) is None and "rel" in passed:
            given["rel"] = table.rel
        found = formula(table, **given, **fixed, **({"k": k} if "k" in passed else {}))
        return np.asarray(found, dtype=np.float64)

    return compute


def _ranked(
    name: str,
    formula: Callable[..., Any],
    /,
    *passed: str,
    fixed: Mapping[str, object] | None = None,
    **known: Any,
) -> Measure:
    """Define a measure of a kernel formula that is handed these parameters (`k` = the cut-off)."""
    usual = {
        "params": _USUAL,
        "nothing": "0 where nothing came back or nothing of it is relevant",
        "cutoff": "optional" if "k" in passed else "none",
    }
    compute = _on_labels(formula, passed, **(fixed or {}))
    define(Definition(name=name, family="ranked", needs=("contexts",), compute=compute, **{**usual, **known}))
    return Measure(name, known.get("when", {}))


def _of_recall(name: str, formula: Callable[..., Any], /, *passed: str, **known: Any) -> Measure:
    """A measure that divides by all that is relevant: gold alone knows it."""
    nothing = "0 where nothing came back, nothing of it is relevant, or nothing relevant is known"
    usual = {"sources": ("gold",), "refusal": _NEEDS_GOLD, "nothing": nothing}
    return _ranked(name, formula, *passed, **{**usual, **known})


nDCG = _ranked(
    "nDCG", kernel.ndcg, "k", "dcg",
    formula="DCG@k / ideal DCG@k, DCG = sum of gain / log2(rank + 1)",
    doc="How much of the best possible graded ranking came back, early places counting more. The ideal is over "
    "all that is judged for the query; over labels of a judge or of people, over what they saw of what came back.",
    reference="Järvelin and Kekäläinen, ACM TOIS 20(4), 2002; trec_eval ndcg_cut. exp-log2: Burges et al. 2005",
    params={"dcg": _DCG, **_GRADED},
    aliases=("ndcg_cut", "normalized_discounted_cumulative_gain"),
    presets={"ndcg_burges": {"dcg": "exp-log2"}},
)  # fmt: skip
AP = _of_recall(
    "AP", kernel.average_precision, "rel", "k",
    formula="sum of P@r over the ranks r of relevant places / all relevant known",
    doc="Precision averaged over the places of all relevant documents; one that did not come back adds 0. "
    "Its mean over queries is MAP.",
    reference="Buckley and Voorhees, TREC, MIT Press 2005, chapter 3; trec_eval map, map_cut",
    aliases=("map", "map_cut", "average_precision", "mean_average_precision"),
)  # fmt: skip
RR = _ranked(
    "RR", kernel.reciprocal_rank, "rel", "k",
    formula="1 / rank of the first relevant place",
    doc="How soon the first relevant passage comes. Its mean over queries is MRR.",
    reference="Kantor and Voorhees, TREC-5, 1996; trec_eval recip_rank",
    aliases=("recip_rank", "mrr", "reciprocal_rank", "mean_reciprocal_rank"),
)  # fmt: skip
ERR = _ranked(
    "ERR", kernel.expected_reciprocal_rank, "k", "top",
    formula="sum over ranks r of 1/r * R(r) * product of 1 - R(i) for i < r; R = (2**grade - 1) / 2**top",
    doc="The expected reciprocal of the rank at which a reader is satisfied, who stops at a place the more likely the "
    "higher its grade. Below 1 even for a perfect list. A grade above `top` is an error.",
    reference="Chapelle et al., Expected Reciprocal Rank for Graded Relevance (CIKM 2009); TREC's gdeval, top=4",
    params={"top": _TOP, **_GRADED},
    aliases=("expected_reciprocal_rank",),
)  # fmt: skip
nERR = _ranked(
    "nERR", kernel.expected_reciprocal_rank, "k", "top", fixed={"normalised": True},
    formula="ERR@k / ERR@k of the ideal list",
    doc="ERR as a share of the best that is possible. The ideal is that of nDCG.",
    reference="Chapelle et al. (CIKM 2009); normalised as in TREC Web and NTCIR",
    params={"top": _TOP, **_GRADED},
)  # fmt: skip
P = _ranked(
    "P", kernel.precision, "rel", "k",
    formula="relevant in the top k / k",
    doc="The share of the top k that is relevant. Divides by k even where fewer came back.",
    reference="van Rijsbergen, Information Retrieval, 1979; trec_eval P",
    cutoff="required",
    aliases=("precision",),
)  # fmt: skip
R = _of_recall(
    "R", kernel.recall, "rel", "k",
    formula="relevant in the top k / all relevant known",
    doc="The share of all relevant documents that the top k hold.",
    reference="van Rijsbergen, Information Retrieval, 1979; trec_eval recall",
    cutoff="required",
    aliases=("recall",),
)  # fmt: skip
F1 = _of_recall(
    "F1", kernel.f1, "rel", "k",
    formula="2 P@k R@k / (P@k + R@k)",
    doc="The harmonic mean of P@k and R@k.",
    reference="van Rijsbergen, Information Retrieval, 1979; ranx f1",
    cutoff="required",
    aliases=("f1_score",),
)  # fmt: skip
Success = _ranked(
    "Success", kernel.success, "rel", "k",
    formula="1 if anything relevant is in the top k, else 0",
    doc="Whether the top k hold at least one relevant passage; its mean is the hit rate.",
    reference="trec_eval success",
    cutoff="required",
    aliases=("hit_rate", "hit", "hitrate"),
)  # fmt: skip
Rprec = _of_recall(
    "Rprec", kernel.r_precision, "rel",
    formula="relevant in the top R / R, R = all relevant known",
    doc="Precision at the depth where precision and recall are equal.",
    reference="Buckley and Voorhees, TREC, MIT Press 2005, chapter 3; trec_eval Rprec",
    aliases=("r_precision", "r-precision", "r_prec"),
)  # fmt: skip
IPrec = _of_recall(
    "IPrec", kernel.interpolated_precision, "rel", "k",
    formula="highest P@r over the ranks r where recall has reached the level",
    doc="The best precision that is left once a share of all relevant documents has come: `IPrec@0.1`. The level is "
    "reached with floor(level * R + 0.9) of the R relevant documents.",
    reference="Salton and McGill, Introduction to Modern Information Retrieval, 1983; trec_eval iprec_at_recall",
    cutoff="recall",
    aliases=("iprec_at_recall",),
)  # fmt: skip
bpref = _of_recall(
    "bpref", kernel.bpref, "rel",
    formula="1/R * sum over relevant places of 1 - min(n, R) / min(N, R), n = judged non-relevant above",
    doc="How seldom a judged non-relevant document stands above a relevant one. Unjudged documents do not "
    "count, nor do negative grades (TREC: in the pool, not judged). R, N = known relevant, non-relevant.",
    reference="Buckley and Voorhees, SIGIR 2004; trec_eval bpref",
    params={"rel": REL, **_OVER_GOLD},
)  # fmt: skip
Judged = _ranked(
    "Judged", kernel.judged_share, "k",
    formula="judged in the top k / places in the top k",
    doc="How far the labels reach: the share of what came back that anybody judged. Where it is low, the other "
    "measures tell little. Divides by what came back.",
    reference="ir_measures Judged",
    params=_OVER_GOLD,
    sources=("gold", "human"),
    refusal=_ALL_JUDGED,
    nothing="0 where nothing came back",
)  # fmt: skip
RBP = _ranked(
    "RBP", kernel.rank_biased_precision, "rel", "k", "p", "part",
    formula="(1 - p) * sum of p**(r - 1) over the ranks r of relevant places",
    doc="Precision for a reader who looks at the next place with probability p. Binary, p = 0.8 as in "
    "ir_measures; trec_eval's spelling rbp means its own default, p = 0.9. Below 1 even for a perfect list. "
    "`part=residual` is the weight of all that nobody judged, what stands below the list included.",
    reference="Moffat and Zobel, ACM TOIS 27(1), 2008",
    params={"p": _PERSISTENCE, "part": _PART, **_USUAL},
    aliases=("rank_biased_precision",),
    presets={"rbp": {"p": 0.9}},
)  # fmt: skip
SetP = _ranked(
    "SetP", kernel.context_relevancy, "rel", fixed={"k": None},
    formula="relevant places / places",
    doc="The share of everything that came back that is relevant, whatever its rank.",
    reference="trec_eval set_P",
    aliases=("set_p", "set_precision"),
)  # fmt: skip
SetR = _of_recall(
    "SetR", kernel.recall, "rel", fixed={"k": None},
    formula="relevant places / all relevant known",
    doc="The share of all relevant documents that came back, whatever their rank.",
    reference="trec_eval set_recall",
    aliases=("set_r", "set_recall"),
)  # fmt: skip
SetF = _of_recall(
    "SetF", kernel.set_f, "rel",
    formula="2 SetP SetR / (SetP + SetR)",
    doc="The harmonic mean of SetP and SetR.",
    reference="van Rijsbergen, Information Retrieval, 1979; trec_eval set_F",
    aliases=("set_f", "set_f1"),
)  # fmt: skip
num_ret = _ranked(
    "num_ret", kernel.retrieved,
    formula="number of places",
    doc="How many documents came back. The mean over queries; trec_eval prints the sum.",
    reference="trec_eval num_ret",
    params=_OVER_GOLD,
    range=(0.0, inf),
)  # fmt: skip
num_rel = _of_recall(
    "num_rel", kernel.relevant_known, "rel",
    formula="number of all relevant known",
    doc="How many relevant documents are known. The mean over queries; trec_eval prints the sum.",
    reference="trec_eval num_rel",
    params={"rel": REL, **_OVER_GOLD},
    range=(0.0, inf),
)  # fmt: skip
num_rel_ret = _ranked(
    "num_rel_ret", kernel.relevant_retrieved, "rel",
    formula="number of relevant places",
    doc="How many relevant documents came back. The mean over queries; trec_eval prints the sum.",
    reference="trec_eval num_rel_ret",
    range=(0.0, inf),
)  # fmt: skip
context_precision = _ranked(
    "context_precision", kernel.context_precision, "rel", "k",
    formula="sum of P@r over the ranks r of relevant places / relevant places in the top k",
    doc="Whether the relevant contexts stand before the others: 1 = all of them first. Divides by the relevant "
    "contexts that came back, so it says nothing of those that did not: that is AP.",
    reference="ragas context_precision, DeepEval contextual precision, Mastra context precision",
    params=_OF_CONTEXTS,
    labels="judge",
    aliases=("contextual_precision",),
)  # fmt: skip
context_position = _ranked(
    "context_position", kernel.context_position, "rel", "k",
    formula="sum of 1/r over the ranks r of relevant places / sum of 1/r over all places",
    doc="How much of the weight of the early places is relevant. Precision is mixed in: one relevant context "
    "on top of three others gets 0.48.",
    reference="Mastra context position",
    params=_OF_CONTEXTS,
    labels="judge",
    aliases=("contextual_position",),
)  # fmt: skip
context_relevance = _ranked(
    "context_relevancy", kernel.context_relevancy, "rel", "k",
    formula="relevant contexts / contexts",
    doc="The share of the contexts that is relevant, without regard to rank.",
    reference="DeepEval contextual relevancy, counted by context",
    params={"unit": UNIT, **_OF_CONTEXTS},
    labels="judge",
    when={"unit": "context"},
    aliases=("context_relevance", "contextual_relevance"),
)  # fmt: skip
