"""The ranked measures: what each one means, its parameters and where it comes from. The formulas are in kernel.py.

All read the label table. Over gold labels a query with nothing relevant gets 0 from the formula; whether it counts
is decided by who fills the table (`germane rank` counts it, `germane run` skips it and says why).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from germane.measures import kernel
from germane.measures.measure import Definition, Measure, Param, Source, define
from germane.measures.table import Floats, LabelTable

__all__ = [
    "AP",
    "F1",
    "RBP",
    "RR",
    "Judged",
    "P",
    "R",
    "Rprec",
    "SetF",
    "SetP",
    "SetR",
    "Success",
    "bpref",
    "context_position",
    "context_precision",
    "context_relevance",
    "nDCG",
    "values",
]

Compute: TypeAlias = Callable[[LabelTable, Mapping[str, Any], int | None], Floats]

_SOURCES: tuple[Source, ...] = ("gold", "judge", "human", "best")
_NEEDS_GOLD = "the judge saw only what was retrieved; recall needs gold"
_ALL_JUDGED = "a judge labels whatever it is shown; Judged asks how far gold or people's labels reach"

_GOLD = Param(str, "gold", "whose labels are read", _SOURCES)
_JUDGE = Param(str, "judge", "whose labels are read", _SOURCES)
_OVER = Param(
    str,
    "calls",
    "several searches: the mean over them, or the final list alone (the last search's where there is none)",
    ("calls", "final"),
)
_AGAINST = Param(
    str,
    "need",
    "what the judge holds a context against: the sample's query (and reference), or its call's own query alone",
    ("need", "call"),
)
_HOLES = Param(
    str, "zero", "unjudged places: not relevant (zero) or dropped first (condensed)", ("zero", "condensed")
)
_REL = Param(int, None, "the lowest grade that counts as relevant; default 1 of gold, 2 of grades 0-3", low=1)
_DCG = Param(str, "log2", "what a grade g gains: g (log2) or 2**g - 1 (exp-log2)", ("log2", "exp-log2"))
_PERSISTENCE = Param(float, 0.8, "persistence: the chance of looking at the next place", low=0.0, high=0.999)
UNIT = Param(
    str, "statement", "what is counted: statements of the contexts, or contexts", ("statement", "context")
)

_OVER_GOLD = {"labels": _GOLD, "over": _OVER}
_USUAL = {"rel": _REL, "holes": _HOLES, **_OVER_GOLD}
_OF_CONTEXTS = {"rel": _REL, "labels": _JUDGE, "over": _OVER, "against": _AGAINST}

_ranked = partial(
    Definition,
    family="ranked",
    needs=("contexts",),
    nothing="0 where nothing came back or nothing of it is relevant",
)
_recall = partial(
    _ranked,
    sources=("gold",),
    refusal=_NEEDS_GOLD,
    nothing="0 where nothing came back, nothing of it is relevant, or nothing relevant is known",
)


def values(measure: Measure, table: LabelTable) -> Floats:
    """The values of a ranked measure, one for each row of the table."""
    found: Floats = measure.definition.compute(table, measure.settings, measure.cutoff)
    return found


def _on_labels(formula: Callable[..., Floats], *passed: str, cut: bool = True) -> Compute:
    """A definition's `compute` from a kernel formula: holes, threshold and cut-off filled in, `passed` handed on."""

    def compute(table: LabelTable, params: Mapping[str, Any], k: int | None) -> Floats:
        if params.get("holes") == "condensed":
            table = kernel.condensed(table)
        given: dict[str, Any] = {name: params[name] for name in passed}
        if "rel" in params:
            given["rel"] = table.rel if params["rel"] is None else params["rel"]
        return formula(table, **given, **({"k": k} if cut else {}))

    return compute


define(
    _ranked(
        name="nDCG",
        compute=_on_labels(kernel.ndcg, "dcg"),
        formula="DCG@k / ideal DCG@k, DCG = sum of gain / log2(rank + 1)",
        doc="How much of the best possible graded ranking came back, early places counting more. The ideal is over "
        "all that is judged for the query; over labels of a judge or of people, over what they saw of what came back.",
        reference="Järvelin and Kekäläinen, ACM TOIS 20(4), 2002; trec_eval ndcg_cut. exp-log2: Burges et al. 2005",
        params={"dcg": _DCG, "holes": _HOLES, "against": _AGAINST, **_OVER_GOLD},
        cutoff="optional",
        aliases=("ndcg_cut", "normalized_discounted_cumulative_gain"),
        presets={"ndcg_burges": {"dcg": "exp-log2"}},
    )
)
define(
    _recall(
        name="AP",
        compute=_on_labels(kernel.average_precision),
        formula="sum of P@r over the ranks r of relevant places / all relevant known",
        doc="Precision averaged over the places of all relevant documents; one that did not come back adds 0. "
        "Its mean over queries is MAP.",
        reference="Buckley and Voorhees, TREC, MIT Press 2005, chapter 3; trec_eval map, map_cut",
        params=_USUAL,
        cutoff="optional",
        aliases=("map", "map_cut", "average_precision", "mean_average_precision"),
    )
)
define(
    _ranked(
        name="RR",
        compute=_on_labels(kernel.reciprocal_rank),
        formula="1 / rank of the first relevant place",
        doc="How soon the first relevant passage comes. Its mean over queries is MRR.",
        reference="Kantor and Voorhees, TREC-5, 1996; trec_eval recip_rank",
        params=_USUAL,
        cutoff="optional",
        aliases=("recip_rank", "mrr", "reciprocal_rank", "mean_reciprocal_rank"),
    )
)
define(
    _ranked(
        name="P",
        compute=_on_labels(kernel.precision),
        formula="relevant in the top k / k",
        doc="The share of the top k that is relevant. Divides by k even where fewer came back.",
        reference="van Rijsbergen, Information Retrieval, 1979; trec_eval P",
        params=_USUAL,
        cutoff="required",
        aliases=("precision",),
    )
)
define(
    _recall(
        name="R",
        compute=_on_labels(kernel.recall),
        formula="relevant in the top k / all relevant known",
        doc="The share of all relevant documents that the top k hold.",
        reference="van Rijsbergen, Information Retrieval, 1979; trec_eval recall",
        params=_USUAL,
        cutoff="required",
        aliases=("recall",),
    )
)
define(
    _recall(
        name="F1",
        compute=_on_labels(kernel.f1),
        formula="2 P@k R@k / (P@k + R@k)",
        doc="The harmonic mean of P@k and R@k.",
        reference="van Rijsbergen, Information Retrieval, 1979; ranx f1",
        params=_USUAL,
        cutoff="required",
        aliases=("f1_score",),
    )
)
define(
    _ranked(
        name="Success",
        compute=_on_labels(kernel.success),
        formula="1 if anything relevant is in the top k, else 0",
        doc="Whether the top k hold at least one relevant passage; its mean is the hit rate.",
        reference="trec_eval success",
        params=_USUAL,
        cutoff="required",
        aliases=("hit_rate", "hit", "hitrate"),
    )
)
define(
    _recall(
        name="Rprec",
        compute=_on_labels(kernel.r_precision, cut=False),
        formula="relevant in the top R / R, R = all relevant known",
        doc="Precision at the depth where precision and recall are equal.",
        reference="Buckley and Voorhees, TREC, MIT Press 2005, chapter 3; trec_eval Rprec",
        params=_USUAL,
        aliases=("r_precision", "r-precision", "r_prec"),
    )
)
define(
    _recall(
        name="bpref",
        compute=_on_labels(kernel.bpref, cut=False),
        formula="1/R * sum over relevant places of 1 - min(n, R) / min(N, R), n = judged non-relevant above",
        doc="How seldom a judged non-relevant document stands above a relevant one. Unjudged documents do not "
        "count, nor do negative grades (TREC: in the pool, not judged). R, N = known relevant, non-relevant.",
        reference="Buckley and Voorhees, SIGIR 2004; trec_eval bpref",
        params={"rel": _REL, **_OVER_GOLD},
    )
)
define(
    _ranked(
        name="Judged",
        compute=_on_labels(kernel.judged_share),
        formula="judged in the top k / places in the top k",
        doc="How far the labels reach: the share of what came back that anybody judged. Where it is low, the other "
        "measures tell little. Divides by what came back.",
        reference="ir_measures Judged",
        params=_OVER_GOLD,
        cutoff="optional",
        sources=("gold", "human"),
        refusal=_ALL_JUDGED,
        nothing="0 where nothing came back",
    )
)
define(
    _ranked(
        name="RBP",
        compute=_on_labels(kernel.rank_biased_precision, "p"),
        formula="(1 - p) * sum of p**(r - 1) over the ranks r of relevant places",
        doc="Precision for a reader who looks at the next place with probability p. Binary, p = 0.8 as in "
        "ir_measures; trec_eval's spelling rbp means its own default, p = 0.9. Below 1 even for a perfect list.",
        reference="Moffat and Zobel, ACM TOIS 27(1), 2008",
        params={"p": _PERSISTENCE, **_USUAL},
        cutoff="optional",
        aliases=("rank_biased_precision",),
        presets={"rbp": {"p": 0.9}},
    )
)
define(
    _ranked(
        name="SetP",
        compute=_on_labels(kernel.set_precision, cut=False),
        formula="relevant places / places",
        doc="The share of everything that came back that is relevant, whatever its rank.",
        reference="trec_eval set_P",
        params=_USUAL,
        aliases=("set_p", "set_precision"),
    )
)
define(
    _recall(
        name="SetR",
        compute=_on_labels(kernel.set_recall, cut=False),
        formula="relevant places / all relevant known",
        doc="The share of all relevant documents that came back, whatever their rank.",
        reference="trec_eval set_recall",
        params=_USUAL,
        aliases=("set_r", "set_recall"),
    )
)
define(
    _recall(
        name="SetF",
        compute=_on_labels(kernel.set_f, cut=False),
        formula="2 SetP SetR / (SetP + SetR)",
        doc="The harmonic mean of SetP and SetR.",
        reference="van Rijsbergen, Information Retrieval, 1979; trec_eval set_F",
        params=_USUAL,
        aliases=("set_f", "set_f1"),
    )
)
define(
    _ranked(
        name="context_precision",
        compute=_on_labels(kernel.context_precision),
        formula="sum of P@r over the ranks r of relevant places / relevant places in the top k",
        doc="Whether the relevant contexts stand before the others: 1 = all of them first. Divides by the relevant "
        "contexts that came back, so it says nothing of those that did not: that is AP.",
        reference="ragas context_precision, DeepEval contextual precision, Mastra context precision",
        params=_OF_CONTEXTS,
        cutoff="optional",
        labels="judge",
        aliases=("contextual_precision",),
    )
)
define(
    _ranked(
        name="context_position",
        compute=_on_labels(kernel.context_position),
        formula="sum of 1/r over the ranks r of relevant places / sum of 1/r over all places",
        doc="How much of the weight of the early places is relevant. Precision is mixed in: one relevant context "
        "on top of three others gets 0.48.",
        reference="Mastra context position",
        params=_OF_CONTEXTS,
        cutoff="optional",
        labels="judge",
        aliases=("contextual_position",),
    )
)
define(
    _ranked(
        name="context_relevancy",
        compute=_on_labels(kernel.context_relevancy),
        formula="relevant contexts / contexts",
        doc="The share of the contexts that is relevant, without regard to rank.",
        reference="DeepEval contextual relevancy, counted by context",
        params={"unit": UNIT, **_OF_CONTEXTS},
        cutoff="optional",
        labels="judge",
        when={"unit": "context"},
        aliases=("context_relevance",),
    )
)

nDCG = Measure("nDCG")
AP = Measure("AP")
RR = Measure("RR")
P = Measure("P")
R = Measure("R")
F1 = Measure("F1")
Success = Measure("Success")
Rprec = Measure("Rprec")
bpref = Measure("bpref")
Judged = Measure("Judged")
RBP = Measure("RBP")
SetP = Measure("SetP")
SetR = Measure("SetR")
SetF = Measure("SetF")
context_precision = Measure("context_precision")
context_position = Measure("context_position")
context_relevance = Measure("context_relevance")
