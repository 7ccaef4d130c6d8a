"""Graders for use from Python: `evaluate(samples, [FieldAccuracy(...)])`."""

from germane.addons.agentv.graders.code_grader import CodeGrader
from germane.addons.agentv.graders.composite import Aggregator, Composite
from germane.addons.agentv.graders.field_accuracy import FieldAccuracy, FieldRule
from germane.addons.agentv.graders.llm_grader import LLMGrader, RubricItem
from germane.addons.agentv.graders.rules import (
    Cost,
    ExpectedCall,
    Latency,
    TextAssertion,
    TokenUsage,
    ToolTrajectory,
)

__all__ = [
    "Aggregator",
    "CodeGrader",
    "Composite",
    "Cost",
    "ExpectedCall",
    "FieldAccuracy",
    "FieldRule",
    "LLMGrader",
    "Latency",
    "RubricItem",
    "TextAssertion",
    "TokenUsage",
    "ToolTrajectory",
]
