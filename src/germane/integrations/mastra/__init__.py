"""The Mastra shape: `ContextPositionMetric(model, context=[...]).measure(input, output)`, and the newer scorers."""

from germane.integrations.mastra.metrics import (
    ContextPositionMetric,
    ContextPrecisionMetric,
    ContextRelevancyMetric,
    ContextualRecallMetric,
    MetricResult,
)
from germane.integrations.mastra.scorers import (
    ContextPrecisionScorer,
    ContextRecallScorer,
    ContextRelevanceScorer,
    ScorerResult,
)

__all__ = [
    "ContextPositionMetric",
    "ContextPrecisionMetric",
    "ContextPrecisionScorer",
    "ContextRecallScorer",
    "ContextRelevanceScorer",
    "ContextRelevancyMetric",
    "ContextualRecallMetric",
    "MetricResult",
    "ScorerResult",
]
