"""Reads eval files: YAML files that say what a run measures, on which data and with which judge."""

from germane.evalfiles.evalfile import (
    WRITTEN,
    Case,
    EvalFile,
    GraderSpec,
    by_name,
    content_text,
    grader_nodes,
    is_guideline,
    read_eval_file,
    spec_of,
    specs_of,
)

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
