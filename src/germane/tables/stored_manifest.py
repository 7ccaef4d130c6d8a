"""manifest.json as it is read: its shape, and what is wrong with one that was edited or damaged."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from germane.encoding import replace_surrogates
from germane.errors import InputError, SourceLocation
from germane.samples.files import JsonFault, parse_strict_json, read_text
from germane.types import Json

_Number = Annotated[float, msgspec.Meta(ge=-1e100, le=1e100)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class _Grader(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    measure: str
    name: str
    weight: _Number | UnsetType = UNSET
    required: _Number | UnsetType | None = UNSET
    threshold: _Number | UnsetType | None = UNSET
    strict: bool | UnsetType = UNSET
    expected_relevant_count: int | UnsetType | None = UNSET
    options: dict[str, Any]


class _Judge(msgspec.Struct, kw_only=True):
    source: str | UnsetType | None = UNSET
    identity: dict[str, Any] | UnsetType | None = UNSET
    stand_in: str | UnsetType = UNSET
    calls: _Count | UnsetType = UNSET
    cached: _Count | UnsetType = UNSET
    shared: _Count | UnsetType = UNSET
    requests: _Count | UnsetType = UNSET
    errors: _Count | UnsetType = UNSET
    tokens: dict[str, _Count] | UnsetType = UNSET
    estimated: bool | UnsetType = UNSET
    cost_usd: float | UnsetType | None = UNSET


class _Asked(msgspec.Struct, kw_only=True):
    n: _Count | UnsetType = UNSET
    fused: _Count | UnsetType = UNSET
    windows: _Count | UnsetType = UNSET
    with_reference: _Count | UnsetType = UNSET
    without_reference: _Count | UnsetType = UNSET
    list_size: dict[str, _Count] | UnsetType = UNSET
    left_out: dict[str, _Count] | UnsetType = UNSET
    model: dict[str, _Count] | UnsetType = UNSET
    mode: dict[str, _Count] | UnsetType = UNSET


class _Sampled(msgspec.Struct, kw_only=True):
    n: _Count
    of: _Count
    seed: int


class _PartEntry(msgspec.Struct, kw_only=True):
    number: _Count
    of: _Count
    cases: _Count
    gates: list[Any]
    beside: list[tuple[str, str, list[tuple[_Number, _Count]]]]
    inputs: list[str] | UnsetType = UNSET


class _Change(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    gate: str
    outcome: Literal["passed", "failed", "undecided"]
    detail: str
    stand_in: bool | UnsetType = UNSET
    decided_by: str | UnsetType = UNSET
    sentence: str | UnsetType = UNSET
    few: str | UnsetType = UNSET


class _Until(msgspec.Struct, kw_only=True):
    widths: dict[str, float]
    stages: list[int]


class _Settings(msgspec.Struct, forbid_unknown_fields=True):
    against: str = ""
    scale: str = ""
    rubric: str = ""


class _Command(msgspec.Struct, kw_only=True):
    """The place of a report among several evaluations of one command; `number` from 1, `path` what it evaluates."""

    id: str
    number: int
    path: str


class _Manifest(msgspec.Struct, kw_only=True):
    """The entries that are read; there may be others."""

    status: str | UnsetType = UNSET
    germane: str | UnsetType = UNSET
    created: str | UnsetType = UNSET
    labels_size: _Count | UnsetType = UNSET
    left_out: dict[str, _Count] | UnsetType = UNSET
    graders: list[list[_Grader]] | UnsetType = UNSET
    notes: dict[str, _Count] | list[str] | UnsetType = UNSET
    prompts: dict[str, str] | UnsetType = UNSET
    reads: dict[str, list[str]] | UnsetType = UNSET
    references: dict[str, dict[str, _Count]] | UnsetType = UNSET
    asked: dict[str, _Asked] | UnsetType = UNSET
    beside: dict[str, dict[str, _Number]] | UnsetType = UNSET
    judge: _Judge | UnsetType | None = UNSET
    settings: _Settings | UnsetType = UNSET
    options: dict[str, Any] | UnsetType = UNSET
    places: dict[str, Any] | UnsetType = UNSET
    targets: dict[str, dict[str, str]] | UnsetType | None = UNSET
    eval_files: list[tuple[str, int]] | UnsetType = UNSET
    command: _Command | UnsetType = UNSET
    sampled: _Sampled | UnsetType = UNSET
    part: _PartEntry | UnsetType = UNSET
    until: _Until | UnsetType = UNSET
    by: str | UnsetType | None = UNSET
    max_unmeasured: float | UnsetType = UNSET
    over: str | UnsetType | None = UNSET
    gates: list[str | tuple[str, str | None]] | UnsetType = UNSET
    changes: list[_Change] | UnsetType = UNSET
    verdict: dict[str, Any] | UnsetType | None = UNSET
    files: dict[str, str] | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Raise ValueError where the time is none: what is written of traces has it as a number."""
        if self.created is not UNSET:
            datetime.fromisoformat(self.created)


def manifest_in(file: Path) -> dict[str, Json]:
    """The document of a manifest; InputError says where it is damaged. Its version is the caller's to check."""
    fix = "run the evaluation again"
    text = read_text(file)
    try:
        manifest = parse_strict_json(text, surrogates=True)
    except JsonFault as fault:
        raise fault.error(file, text, fix=fix) from None
    if not isinstance(manifest, dict):
        raise InputError("a manifest is one JSON object", fix=fix, place=SourceLocation(str(file)))
    return manifest


def check_shape(manifest: dict[str, Json], file: Path) -> None:
    """InputError where an entry of a manifest of this version is not what it should be."""
    try:
        msgspec.convert(replace_surrogates(manifest), _Manifest)
    except msgspec.ValidationError as error:
        fix = "run the evaluation again"
        raise InputError(
            f"the manifest is damaged: {error}", fix=fix, place=SourceLocation(str(file))
        ) from None
