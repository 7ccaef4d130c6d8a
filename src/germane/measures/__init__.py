"""Measures as Python objects, e.g. `nDCG @ 10`, or by name: `Measure.parse("nDCG@10")`.

`measure` declares your own measure. In it, `ask` and `ask_all` put questions to the judge, and `proportion`
and `Item` make a score, with its explanation, from counted items.

Measures that ask a judge are imported at first use, to start fast.
"""

# ruff: noqa: F403, F405 - for a type checker, the names are those of __all__: they are listed once

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from germane.measures.bounds import values
from germane.measures.declaration import measure, parse_measures
from germane.measures.measure import FINDERS, Measure, Param
from germane.measures.ranked import *
from germane.places.table import RankedLabels

if TYPE_CHECKING:
    from germane.measures.context import *
    from germane.measures.gold import *
    from germane.measures.outcome import *
    from germane.measures.response import *
    from germane.places.lists import distinct_contexts
    from germane.questions.asking import ask, ask_all

_LATER = (
    "germane.questions.asking",
    "germane.measures.outcome",
    "germane.measures.gold",
    "germane.measures.context",
    "germane.measures.response",
    "germane.measures.scoring",
    "germane.places.lists",
)


def __getattr__(name: str) -> Any:
    """Import a name at its first use, so that ranked measures can be used without loading judged ones."""
    if name in __all__:
        for module in map(import_module, _LATER):
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


FINDERS.insert(0, lambda _: [*map(import_module, _LATER)])

__all__ = [
    "AP", "ERR", "F1", "RBP", "RR", "IPrec", "IoU", "Item", "Judged", "Measure", "Outcome", "P", "Param",
    "R", "RankedLabels", "Rprec", "SetF", "SetP", "SetR", "StR", "Success", "abstained", "alpha_nDCG", "answer_relevancy",
    "ask", "ask_all", "bpref", "calls_after_sufficiency", "citation_precision", "citation_recall",
    "context_claim_precision", "context_entity_recall", "context_position", "context_precision",
    "context_recall", "context_redundancy", "context_relevance", "context_relevancy", "context_sufficiency",
    "context_utilisation", "distinct_contexts", "evidence_precision", "evidence_recall", "faithfulness",
    "full_recall", "group_recall", "hallucination", "id_f1", "id_precision", "id_recall", "leaks", "marginal_recall",
    "measure", "nDCG", "nERR", "noise_sensitivity", "nugget_recall", "num_rel", "num_rel_ret", "num_ret",
    "ok", "parse_measures", "proportion", "repeat_rate", "skipped",
    "values",
]  # fmt: skip
