"""germane measures the quality of a RAG system's retrieval, its uncertainty, and whether a change helped.

Every measure is computed from relevance labels, which come from gold documents, people's grades or a model's
verdicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from germane.lazy import lazily
from germane.version import __version__

if TYPE_CHECKING:
    from germane.comparison.compare import compare
    from germane.comparison.formats import Comparison
    from germane.errors import GermaneError, InputError, JudgeError, LedgerError, MeasureError
    from germane.evaluation.evaluate import aevaluate, evaluate
    from germane.measures.measure import Measure
    from germane.reports.report import Report
    from germane.samples.reading import read_samples
    from germane.types import Call, Context, Evidence, Judgement, Message, Sample, Score, ToolCall, Usage

_HOME = {
    "comparison.compare": ("compare",),
    "comparison.formats": ("Comparison",),
    "errors": ("GermaneError", "InputError", "JudgeError", "LedgerError", "MeasureError"),
    "evaluation.evaluate": ("aevaluate", "evaluate"),
    "measures.measure": ("Measure",),
    "reports.report": ("Report",),
    "samples.reading": ("read_samples",),
    "types": ("Call", "Context", "Evidence", "Judgement", "Message", "Sample", "Score", "ToolCall", "Usage"),
}
_WHERE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Call",
    "Comparison",
    "Context",
    "Evidence",
    "GermaneError",
    "InputError",
    "JudgeError",
    "Judgement",
    "LedgerError",
    "Measure",
    "MeasureError",
    "Message",
    "Report",
    "Sample",
    "Score",
    "ToolCall",
    "Usage",
    "__version__",
    "aevaluate",
    "compare",
    "evaluate",
    "read_samples",
]


__getattr__ = lazily(__name__, _WHERE)
"""Public names are imported on first use, so that `germane --help` does not load numpy."""


def __dir__() -> list[str]:
    return sorted(__all__)
