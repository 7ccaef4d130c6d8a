"""The measures as values: `nDCG @ 10`, `AP(rel=2)`, `context_precision @ 5`; or by name, `Measure.parse("nDCG@10")`.

`measure` and `ranked_measure` declare your own; `ask` and `ask_all` put questions (`germane.questions`) to the
judge inside one, `proportion` and `Item` make a score and its explanation of what was counted.
"""

from germane.measures.answers import (
    answer_relevancy,
    context_utilisation,
    faithfulness,
    hallucination,
    noise_sensitivity,
)
from germane.measures.calls import calls_after_sufficiency, marginal_recall, repeat_rate
from germane.measures.citations import citation_precision, citation_recall
from germane.measures.coverage import StR, alpha_nDCG
from germane.measures.defining import measure, ranked_measure
from germane.measures.entities import context_entity_recall
from germane.measures.evidence import IoU, evidence_precision, evidence_recall
from germane.measures.graders import CODE_JUDGE
from germane.measures.ids import (
    abstained,
    full_recall,
    group_recall,
    id_f1,
    id_precision,
    id_recall,
    leaks,
)
from germane.measures.judged import context_recall, context_relevancy, context_sufficiency
from germane.measures.measure import Measure, Param, parse_measures
from germane.measures.nuggets import nugget_recall
from germane.measures.outcome import Item, Outcome, ok, proportion, skipped
from germane.measures.ranked import (
    AP,
    F1,
    RBP,
    RR,
    Judged,
    P,
    R,
    Rprec,
    SetF,
    SetP,
    SetR,
    Success,
    bpref,
    context_position,
    context_precision,
    context_relevance,
    nDCG,
)
from germane.measures.redundancy import context_redundancy
from germane.questions.asking import ask, ask_all

__all__ = [
    "AP",
    "CODE_JUDGE",
    "F1",
    "RBP",
    "RR",
    "IoU",
    "Item",
    "Judged",
    "Measure",
    "Outcome",
    "P",
    "Param",
    "R",
    "Rprec",
    "SetF",
    "SetP",
    "SetR",
    "StR",
    "Success",
    "abstained",
    "alpha_nDCG",
    "answer_relevancy",
    "ask",
    "ask_all",
    "bpref",
    "calls_after_sufficiency",
    "citation_precision",
    "citation_recall",
    "context_entity_recall",
    "context_position",
    "context_precision",
    "context_recall",
    "context_redundancy",
    "context_relevance",
    "context_relevancy",
    "context_sufficiency",
    "context_utilisation",
    "evidence_precision",
    "evidence_recall",
    "faithfulness",
    "full_recall",
    "group_recall",
    "hallucination",
    "id_f1",
    "id_precision",
    "id_recall",
    "leaks",
    "marginal_recall",
    "measure",
    "nDCG",
    "noise_sensitivity",
    "nugget_recall",
    "ok",
    "parse_measures",
    "proportion",
    "ranked_measure",
    "repeat_rate",
    "skipped",
]
