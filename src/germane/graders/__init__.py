"""Graders: what a case scores by its answer, its tool calls, its cost, a script's or a model's word, or a measure."""

from germane.graders.code_grader import CodeGrader
from germane.graders.composite import Aggregator, Composite
from germane.graders.field_accuracy import FieldAccuracy, FieldRule
from germane.graders.grader import CaseGrader, DirectGrader, GraderResult
from germane.graders.limits import Cost, Latency, TokenUsage
from germane.graders.llm_grader import LLMGrader, RubricItem
from germane.graders.measure_grader import MeasureGrader
from germane.graders.specs import Where, grader_of
from germane.graders.text_assertion import TextAssertion
from germane.graders.tool_trajectory import ExpectedCall, ToolTrajectory

__all__ = [
    "Aggregator",
    "CaseGrader",
    "CodeGrader",
    "Composite",
    "Cost",
    "DirectGrader",
    "ExpectedCall",
    "FieldAccuracy",
    "FieldRule",
    "GraderResult",
    "LLMGrader",
    "Latency",
    "MeasureGrader",
    "RubricItem",
    "TextAssertion",
    "TokenUsage",
    "ToolTrajectory",
    "Where",
    "grader_of",
]
