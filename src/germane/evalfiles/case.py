"""The cases of an eval file: a sample with its graders, target and threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from germane.errors import SourceLocation
from germane.types import FrozenDict, Message, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case of an eval file: its sample (whose contexts are None until a target answers) and its graders.

    `graders` includes the graders of the whole file that apply. `expected_outcome` is the sample's criterion, and
    `reference_answer` the content of the last expected message, as AgentV's scripts get it. `threshold` is the lowest
    score with which the case passes. File paths are absolute; guideline files are not among the input files.
    """

    sample: Sample
    graders: tuple[Any, ...] = ()
    target: str | None = None
    threshold: float | None = None
    location: SourceLocation | None = None
    question: str = ""
    expected_outcome: str = ""
    reference_answer: str = ""
    input_messages: tuple[Message, ...] = ()
    expected_messages: tuple[Message, ...] = ()
    guideline_files: tuple[str, ...] = ()
    input_files: tuple[str, ...] = ()
    conversation_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=FrozenDict)
