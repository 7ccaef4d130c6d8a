"""The LiveRAG shape: `ContextRecall().evaluate(results, references).metrics["avg_context_recall"]`."""

from germane.integrations.liverag.evaluator import AGGREGATES, ContextRecall
from germane.integrations.liverag.records import EvaluationResult, EvaluationRow, QAPair, RAGResult
from germane.integrations.liverag.scoring import COLUMNS

__all__ = [
    "AGGREGATES",
    "COLUMNS",
    "ContextRecall",
    "EvaluationResult",
    "EvaluationRow",
    "QAPair",
    "RAGResult",
]
