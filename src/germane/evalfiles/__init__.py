"""Reads eval files: YAML files that say what a run measures, on which data and with which judge."""

from germane.evalfiles.case import Case
from germane.evalfiles.evalfile import (
    WRITTEN,
    EvalFile,
    GraderSpec,
    by_name,
    grader_nodes,
    read_eval_file,
    spec_of,
    specs_of,
)
from germane.evalfiles.messages import content_text, is_guideline

__all__ = [
    "WRITTEN",
    "Case",
    "EvalFile",
    "GraderSpec",
    "by_name",
    "content_text",
    "grader_nodes",
    "is_guideline",
    "read_eval_file",
    "spec_of",
    "specs_of",
]
