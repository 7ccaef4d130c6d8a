"""A case: what a target is asked, and what is known of it besides its sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from germane.errors import SourceLocation
from germane.types import FrozenDict, Message, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case: its sample (contexts are None until a target answers) and its graders.

    `graders` is complete: those of the file are in it where they apply. `expected_outcome` is the sample's
    criterion, `reference_answer` the last expected message's content, as AgentV's scripts get it. `threshold` is the
    least score that the case must reach. File paths are absolute; guideline files are not input files.
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
