"""manifest.json as it is read: its shape, and what is wrong with one that was edited or damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Required, TypedDict

import msgspec

from germane.errors import InputError, Place
from germane.samples.files import JsonFault, parse_strict_json, read_text
from germane.types import Json


class _Grader(TypedDict, total=False):
    measure: Required[str]
    name: Required[str]
    weight: float
    required: float | None
    threshold: float | None
    strict: bool
    expected_relevant_count: int | None
    options: dict[str, Any]


class _Judge(TypedDict, total=False):
    source: str | None
    identity: dict[str, Any] | None
    stand_in: str
    calls: int
    cached: int
    shared: int
    requests: int
    errors: int
    tokens: dict[str, int]
    estimated: bool
    cost_usd: float | None


class _Asked(TypedDict, total=False):
    n: int
    fused: int
    windows: int
    with_reference: int
    without_reference: int
    list_size: dict[str, int]
    left_out: dict[str, int]
    model: dict[str, int]
    mode: dict[str, int]


class _Sampled(TypedDict):
    n: int
    of: int
    seed: int


class _PartEntry(TypedDict):
    number: int
    of: int
    cases: int
    gates: list[Any]
    beside: list[tuple[str, str, list[tuple[float, int]]]]


class _DecidedGate(TypedDict):
    above: bool | None
    interval: tuple[float, float]


class _Until(TypedDict):
    widths: dict[str, float]
    stages: list[int]
    gates: dict[str, _DecidedGate]


class _Settings(msgspec.Struct, forbid_unknown_fields=True):
    against: str = ""
    scale: str = ""
    rubric: str = ""


class _Command(TypedDict):
    """Which of the several evaluations of one command a report is; `number` from 1, `path` what it evaluates."""

    id: str
    number: int
    path: str


class _Manifest(TypedDict, total=False):
    """The entries that are read; others may stand beside them."""

    status: str
    germane: str
    created: str
    labels_size: int
    graders: list[list[_Grader]]
    notes: dict[str, int] | list[str]
    prompts: dict[str, str]
    reads: dict[str, list[str]]
    references: dict[str, dict[str, int]]
    asked: dict[str, _Asked]
    beside: dict[str, dict[str, float]]
    judge: _Judge | None
    settings: _Settings
    options: dict[str, Any]
    places: dict[str, Any]
    targets: dict[str, dict[str, str]] | None
    eval_files: list[tuple[str, int]]
    command: _Command
    sampled: _Sampled
    part: _PartEntry
    until: _Until
    by: str | None
    max_unmeasured: float
    over: str | None
    gates: list[Any]
    verdict: dict[str, Any] | None
    files: dict[str, str]


def manifest_in(file: Path) -> dict[str, Json]:
    """The document of a manifest; InputError says where it is damaged. Its version is the caller's to check."""
    fix = "run the evaluation again"
    text = read_text(file)
    try:
        manifest = parse_strict_json(text)
    except JsonFault as fault:
        raise fault.error(file, text, fix=fix) from None
    if not isinstance(manifest, dict):
        raise InputError("a manifest is one JSON object", fix=fix, place=Place(str(file)))
    return manifest


def check_shape(manifest: dict[str, Json], file: Path) -> None:
    """InputError where an entry of a manifest of this version is not what it should be."""
    try:
        msgspec.convert(manifest, _Manifest)
    except msgspec.ValidationError as error:
        fix = "run the evaluation again"
        raise InputError(f"the manifest is damaged: {error}", fix=fix, place=Place(str(file))) from None
