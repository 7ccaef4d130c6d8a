"""The LiveRAG shape: `ContextRecall().evaluate(results, references).metrics["avg_context_recall"]`."""

from germane.integrations.liverag.evaluator import (
    AGGREGATES,
    COLUMNS,
    ContextRecall,
    EvaluationResult,
    EvaluationRow,
    QAPair,
    RAGResult,
)

__all__ = [
    "AGGREGATES",
    "COLUMNS",
    "ContextRecall",
    "EvaluationResult",
    "EvaluationRow",
    "QAPair",
    "RAGResult",
]
