"""manifest.json: its schema, reading and writing it, and the faults of an edited or damaged one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from germane.encoding import replace_surrogates
from germane.errors import InputError, SourceLocation
from germane.folder.layout import LABELS, MANIFEST, REPLACE, UNFINISHED, opened, sync
from germane.samples.files import json_in, read_text
from germane.types import Json

__all__ = ["read_manifest", "write_manifest"]

SCHEMA_VERSION = 4
"""The version of the report folder's files that is written, and the oldest that is read."""

_NUMBER: TypeAlias = Annotated[float, msgspec.Meta(ge=-1e100, le=1e100)]
_COUNT: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
_COUNTS: TypeAlias = dict[str, _COUNT]


def _record(needed: Mapping[str, Any], others: Mapping[str, Any], *, closed: bool = False) -> Any:
    """Return the type of an object with these entries; `others` may be missing, and if `closed` no further ones may exist."""
    fields: list[Any] = [*needed.items(), *((name, kind, None) for name, kind in others.items())]
    return msgspec.defstruct("Entry", fields, kw_only=True, forbid_unknown_fields=closed)


def _list(kind: Any) -> Any:
    return GenericAlias(list, (kind,))


_SETTINGS = dict.fromkeys(("against", "scale", "rubric"), str)
_GRADER = {
    "weight": _NUMBER,
    "required": _NUMBER | None,
    "threshold": _NUMBER | None,
    "strict": bool,
    "expected_relevant_count": int | None,
}
_JUDGE = {
    "source": str | None,
    "identity": dict[str, Any] | None,
    "stand_in": str,
    "estimated": bool,
    **dict.fromkeys(("calls", "cached", "shared", "requests", "errors"), _COUNT),
    "tokens": _record({"input": _COUNT, "output": _COUNT}, {}),
    "cost_usd": float | None,
}
_ASKED = {
    **dict.fromkeys(("n", "fused", "windows", "with_reference", "without_reference"), _COUNT),
    **dict.fromkeys(("list_size", "left_out", "model", "mode"), _COUNTS),
}
_PART = {
    **dict.fromkeys(("number", "of", "cases"), _COUNT),
    "gates": list[Any],
    "beside": list[tuple[str, str, list[tuple[_NUMBER, _COUNT]]]],
}
_SESSION = {
    "at": str,
    "cost_usd": _NUMBER,
    **dict.fromkeys(("calls", "requests", "input_tokens", "output_tokens", "unpriced"), _COUNT),
}
_CHANGE = {"gate": str, "outcome": Literal["passed", "failed", "undecided"], "detail": str}
_TEXTS = dict.fromkeys(("decided_by", "sentence", "few"), str)
_MANIFEST = _record(
    {},
    {
        **dict.fromkeys(("status", "germane", "created"), str),
        "by": str | None,
        "over": str | None,
        "max_unmeasured": float,
        "labels_size": _COUNT,
        "left_out": _COUNTS,
        "graders": _list(
            _list(_record({"measure": str, "name": str, "options": dict[str, Any]}, _GRADER, closed=True))
        ),
        "notes": _COUNTS | list[str],
        "prompts": dict[str, str],
        "files": dict[str, str],
        "reads": dict[str, list[str]],
        "references": dict[str, _COUNTS],
        "asked": GenericAlias(dict, (str, _record({}, _ASKED))),
        "beside": dict[str, dict[str, _NUMBER]],
        "judge": _record({}, _JUDGE) | None,
        "settings": _record({}, _SETTINGS, closed=True),
        **dict.fromkeys(("options", "places"), dict[str, Any]),
        "targets": dict[str, dict[str, str]] | None,
        "eval_files": list[tuple[str, int]],
        "command": _record({"id": str, "number": int, "path": str}, {}),
        "sampled": _record({"n": _COUNT, "of": _COUNT, "seed": int}, {}),
        "sessions": _list(_record(_SESSION, {"id": str, "estimated": _COUNT})),
        "part": _record(_PART, {"inputs": list[str]}),
        "until": _record({"widths": dict[str, float], "stages": list[int]}, {}),
        "gates": list[str | tuple[str, str | None]],
        "changes": _list(_record(_CHANGE, {"stand_in": bool, **_TEXTS}, closed=True)),
        "verdict": dict[str, Any] | None,
    },
)
"""The entries that are read, and their types; each may be missing, and there may be others."""


def read_manifest(path: Path) -> dict[str, Json]:
    """Return the manifest of a report folder, complete or not.

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
        msgspec.convert(replace_surrogates(manifest), _MANIFEST)
        datetime.fromisoformat(manifest.get("created") or "2026-01-01")  # written of traces as a number
    except ValueError as error:
        place = SourceLocation(str(file))
        raise InputError(f"the manifest is damaged: {error}", fix=_AGAIN, place=place) from None
    return manifest


_AGAIN, _NAME_ONE = "run the evaluation again", "name a folder that `germane run` wrote"


def carried_over(path: Path, judgements: str) -> str:
    """Return the commands that import the judges' answers and people's labels of a report that cannot be read."""
    return (
        f"keep what was paid: germane ledger import {path / judgements}; then run again, "
        f"and keep people's labels: germane label NEW_REPORT --import {path / LABELS}"
    )


def write_manifest(path: Path, manifest: Mapping[str, Json], status: str) -> dict[str, Json]:
    """Write the manifest of a report folder, which appears whole or not at all, and return all entries.

    `manifest` are the entries other than version and status; `status` is running, interrupted or complete.
    """
    made = draft_manifest(path, manifest, status)
    (path / f"{MANIFEST}{UNFINISHED}").replace(path / MANIFEST)
    return made


def draft_manifest(path: Path, manifest: Mapping[str, Json], status: str) -> dict[str, Json]:
    """Write the next manifest of a report folder beside the current one; otherwise as `write_manifest`."""
    made = {**manifest, "schema_version": SCHEMA_VERSION, "status": status}
    with opened(path / f"{MANIFEST}{UNFINISHED}", REPLACE) as file:
        text = json.dumps(made, ensure_ascii=False, indent=1)
        # half a surrogate, of a file name that is not UTF-8, becomes its escape, which JSON reads back
        file.write(text.encode("utf-8", "backslashreplace") + b"\n")
        sync(file)
    return made
