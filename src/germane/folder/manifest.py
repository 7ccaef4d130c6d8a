"""manifest.json: its shape, how it is read and written, and what is wrong with one that was edited or damaged."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from germane.encoding import replace_surrogates
from germane.errors import InputError, SourceLocation
from germane.folder.layout import LABELS, MANIFEST, UNFINISHED, open_new, sync
from germane.samples.files import json_in, read_text
from germane.types import Json

__all__ = ["read_manifest", "write_manifest"]

SCHEMA_VERSION = 4
"""The version of the report folder's files that is written, and the oldest that is read."""

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


def read_manifest(path: Path) -> dict[str, Json]:
    """Return the manifest of a report folder, finished or not.

    InputError where there is none, or it is damaged or of another version.
    """
    file = path / MANIFEST
    if not path.exists():
        at_url = re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path))
        fix = "copy it here first: a report is read from disk" if at_url else _NAME_ONE
        raise InputError(f"no report folder {path}", fix=fix)
    if path.is_file():
        problem = f"{path} is a file, which has scores at most: the samples and the answers of judges and people are missing"
        fix = "name the folder that `germane run` wrote; `germane compare` reads files of scores"
        raise InputError(problem, fix=fix)
    if not file.is_file():
        inside = max(path.glob(f"*/{MANIFEST}"), key=lambda file: file.stat().st_mtime_ns, default=None)
        fix = f"name one of those in it: {inside.parent}" if inside else _NAME_ONE
        raise InputError(f"{path} is not a report folder: it has no {MANIFEST}", fix=fix)
    manifest = json_in(read_text(file), file, fix=_AGAIN, surrogates=True)
    if not isinstance(manifest, dict):
        raise InputError("a manifest is one JSON object", fix=_AGAIN, place=SourceLocation(str(file)))
    if (version := manifest.get("schema_version")) != SCHEMA_VERSION:
        newer = isinstance(version, int) and version > SCHEMA_VERSION
        problem = f"{path} is a report of format {version}; this germane reads format {SCHEMA_VERSION}"
        stored = (name for name in manifest.get("files") or () if name.startswith("judgements."))
        kept = carried_over(path, next(stored, "judgements.jsonl"))
        raise InputError(problem, fix="update germane" if newer else kept)
    try:
        msgspec.convert(replace_surrogates(manifest), _Manifest)
    except msgspec.ValidationError as error:
        place = SourceLocation(str(file))
        raise InputError(f"the manifest is damaged: {error}", fix=_AGAIN, place=place) from None
    return manifest


_AGAIN, _NAME_ONE = "run the evaluation again", "name a folder that `germane run` wrote"


def carried_over(path: Path, judgements: str) -> str:
    """Return the commands that keep the answers of a report that is not read: the judges' and the people's."""
    return (
        f"keep what was paid and run again: germane ledger import {path / judgements}; "
        f"germane label NEW_REPORT --import {path / LABELS}"
    )


def write_manifest(path: Path, manifest: Mapping[str, Json], status: str) -> dict[str, Json]:
    """Write the manifest of a report folder, which appears whole or not at all.

    Args:
        path: The folder.
        manifest: The entries other than version and status.
        status: running, interrupted or complete.

    Returns:
        All entries.
    """
    made = draft_manifest(path, manifest, status)
    (path / f"{MANIFEST}{UNFINISHED}").replace(path / MANIFEST)
    return made


def draft_manifest(path: Path, manifest: Mapping[str, Json], status: str) -> dict[str, Json]:
    """Write the next manifest of a report folder beside the one that stands there, as `write_manifest` does."""
    made = {**manifest, "schema_version": SCHEMA_VERSION, "status": status}
    with open_new(path / f"{MANIFEST}{UNFINISHED}") as file:
        text = json.dumps(made, ensure_ascii=False, indent=1)
        # half a surrogate, of a file name that is not UTF-8, becomes its escape, which JSON reads back
        file.write(text.encode("utf-8", "backslashreplace") + b"\n")
        sync(file)
    return made
