"""Read and write manifest.json; the names and types of its entries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from germane.encoding import replace_surrogates
from germane.errors import InputError, SourceLocation
from germane.folder.files import LABELS, MANIFEST, REPLACE, UNFINISHED, opened, sync
from germane.samples.files import json_in, read_text
from germane.types import Json

__all__ = ["read_manifest", "write_manifest"]

SCHEMA_VERSION = 4
"""The version of the report folder's format that is written; only this version is read."""


class _GraderEntry(msgspec.Struct):
    name: str
    measure: str
    options: dict[str, Any]
    weight: float = 1.0
    threshold: float | None = None
    required: float | None = None


_TYPES: Mapping[Any, tuple[str, ...]] = {
    str | None: ("status", "germane", "created", "by", "over"),
    float: ("max_unmeasured", "labels_size"),
    dict[str, str]: ("prompts", "files"),
    dict[str, list[str]]: ("reads",),
    dict[str, dict[str, Any]]: ("asked", "beside", "references"),
    dict[str, Any]: ("command", "left_out", "options", "part", "places", "sampled", "settings", "until"),
    dict[str, Any] | None: ("judge", "targets", "verdict"),
    list[dict[str, Any]]: ("changes", "sessions"),
    list[list[_GraderEntry]]: ("graders",),
    list[Any]: ("eval_files", "gates"),
}
_MANIFEST = msgspec.defstruct(
    "Manifest", [(name, kind, None) for kind, names in _TYPES.items() for name in names]
)
"""The manifest entries that germane reads, with their types; each may be missing, others are allowed."""


def read_manifest(path: Path) -> dict[str, Json]:
    """Return the manifest of a report folder, whether the report is complete or not.

    Raises InputError if the folder has no manifest, or the manifest is damaged or of another version.
    """
    file = path / MANIFEST
    if path.is_file():
        raise InputError(
            f"{path} is a file, but a report folder is needed, with samples and the labels of judges and people",
            fix="name the folder that `germane run` wrote (only `germane compare` reads files)",
        )
    if not file.is_file():
        inside = max(path.glob(f"*/{MANIFEST}"), key=lambda file: file.stat().st_mtime_ns, default=None)
        named = (
            f"report in that folder, such as {inside.parent}" if inside else "folder that `germane run` wrote"
        )
        raise InputError(f"{path} is not a report folder: it has no {MANIFEST}", fix=f"name a {named}")
    manifest = json_in(read_text(file), file, fix=_AGAIN, surrogates=True)
    place = SourceLocation(str(file))
    if not isinstance(manifest, dict):
        raise InputError("the manifest must be one JSON object", fix=_AGAIN, place=place)
    if (version := manifest.get("schema_version")) != SCHEMA_VERSION:
        problem = f"{path} is a report of format {version}, but this germane reads format {SCHEMA_VERSION}"
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise InputError(problem, fix="update germane")
        stored = (name for name in manifest.get("files") or () if name.startswith("judgements."))
        raise InputError(
            problem,
            fix=f"keep the paid answers: germane ledger import {path / next(stored, 'judgements.jsonl')}; "
            "run the evaluation again; "
            f"keep people's labels: germane label NEW_REPORT --import {path / LABELS}",
        )
    try:
        msgspec.convert(replace_surrogates(manifest), _MANIFEST)
    except ValueError as error:
        raise InputError(f"the manifest is damaged: {error}", fix=_AGAIN, place=place) from None
    return manifest


_AGAIN = "restore the file, or run the evaluation again"


def write_manifest(path: Path, manifest: Mapping[str, Json], status: str) -> dict[str, Json]:
    """Replace the manifest of a report folder in one atomic step, and return all of its entries.

    `manifest` has the entries other than version and status; `status` is running, interrupted or complete.
    """
    made = draft_manifest(path, manifest, status)
    (path / f"{MANIFEST}{UNFINISHED}").replace(path / MANIFEST)
    return made


def draft_manifest(path: Path, manifest: Mapping[str, Json], status: str) -> dict[str, Json]:
    """Write the new manifest to a `.part` file beside the old one; see `write_manifest` for the rest."""
    made = {**manifest, "schema_version": SCHEMA_VERSION, "status": status}
    with opened(path / f"{MANIFEST}{UNFINISHED}", REPLACE) as file:
        text = json.dumps(made, ensure_ascii=False, indent=1)
        # half a surrogate, of a file name that is not UTF-8, becomes its escape, which JSON reads back
        file.write(text.encode("utf-8", "backslashreplace") + b"\n")
        sync(file)
    return made
