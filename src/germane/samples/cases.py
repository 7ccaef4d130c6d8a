"""What an eval file says, read: its settings, its cases, and the graders of each. Frozen, without logic."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from germane.errors import Place
from germane.types import FrozenDict, Message, Sample

__all__ = ["Case", "EvalFile", "GraderSpec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraderSpec:
    """One grader as an eval file describes it; what its `type` means is resolved upstream.

    `type` is a measure's name (`context_precision@5`) or a kind of grader (`code_judge`). `required` is the
    score that a case must reach (`true` in the file is 0.8; None = not required). `script` is a shell command
    or an argument list, run in `cwd`; `env` names variables passed on to it; `max_calls` (not None) gives it a
    judge with that many calls. `params` parametrise a measure; every key without a meaning here is in `config`.
    """

    name: str
    type: str
    weight: float = 1.0
    required: float | None = None
    script: str | tuple[str, ...] | None = None
    cwd: Path | None = None
    timeout: float = 120.0
    env: tuple[str, ...] = ()
    max_calls: int | None = None
    strict: bool = False
    expected_relevant_count: int | None = None
    params: FrozenDict = field(default_factory=FrozenDict)
    config: FrozenDict = field(default_factory=FrozenDict)
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case: the sample (its contexts None until a target answered), and all the graders that apply to it.

    `graders` is complete: those of the file are in it where they apply. `criteria` is what a good answer
    accomplishes (`expected_outcome`), `reference_answer` the last expected message's content. File paths are
    absolute; guideline files are not input files.
    """

    sample: Sample
    graders: tuple[GraderSpec, ...] = ()
    target: str | None = None
    place: Place | None = None
    question: str = ""
    expected_outcome: str = ""
    reference_answer: str = ""
    input_messages: tuple[Message, ...] = ()
    expected_messages: tuple[Message, ...] = ()
    guideline_files: tuple[str, ...] = ()
    input_files: tuple[str, ...] = ()
    conversation_id: str | None = None
    metadata: FrozenDict = field(default_factory=FrozenDict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalFile:
    """One eval file. `measures` are the graders that apply to every case and to every sample of `data`.

    `gates` are conditions as they stand (`mean(nDCG@10)>=0.7`) with their places; `columns` maps our field names
    to those of the data; `judge` are names with spaces between them; None everywhere = the file does not say.
    """

    path: Path
    description: str | None = None
    dataset: str | None = None
    judge: str | None = None
    repeat: int | None = None
    vote: str | None = None
    batch: int | None = None
    reading: str | None = None
    against: str | None = None
    measures: tuple[GraderSpec, ...] = ()
    gates: tuple[tuple[str, Place], ...] = ()
    cases: tuple[Case, ...] = ()
    data: tuple[Path, ...] = ()
    target: str | None = None
    targets_file: Path | None = None
    compatibility: str | None = None
    contexts_from: Literal["auto", "text"] = "auto"
    doc_id: str | None = None
    columns: FrozenDict = field(default_factory=FrozenDict)
