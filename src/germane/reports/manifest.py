"""manifest.json: how a report came to be, and what a stored one needs to be read again."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from germane.errors import InputError
from germane.judges.judge import Judge
from germane.judging.spending import Spent
from germane.measures.graders import Grader
from germane.measures.measure import Measure
from germane.types import FrozenDict, Json

__all__ = ["dump_grader", "judge_entry", "load_grader", "read_manifest", "spent_in_words", "write_manifest"]


def write_manifest(folder: Path, manifest: Mapping[str, Json], status: str) -> None:
    """Write manifest.json in one step: it appears whole or not at all."""
    text = json.dumps({**manifest, "status": status}, ensure_ascii=False, indent=1)
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / "manifest.json.part"
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / "manifest.json")


def read_manifest(folder: Path) -> dict[str, Json]:
    """The manifest of a report folder, finished or not; InputError where there is none."""
    manifest = None
    with suppress(OSError, ValueError):
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    if not isinstance(manifest, dict) or not isinstance(manifest.get("options", {}), dict):
        raise InputError(f"{folder} is no report folder that can be continued", fix="start a new run")
    return manifest


def judge_entry(judge: Judge | None, spent: Spent) -> dict[str, Json]:
    """Who judged, and what that cost."""
    return {
        "source": judge.name if judge is not None else None,
        "identity": dict(judge.identity) if judge is not None else None,
        "stand_in": judge.stand_in if judge is not None else "",
        **spent.as_json(),
    }


def spent_in_words(entry: Mapping[str, Json]) -> str:
    """What judging cost, from a manifest's entry: the same words wherever people read it."""
    calls, cached, shared = (entry.get(name, 0) for name in ("calls", "cached", "shared"))
    tokens, requests, price = entry.get("tokens") or {}, entry.get("requests", 0), entry.get("cost_usd")
    words = [f"{calls} calls", f"{cached} cached" + (f" ({cached / (calls + cached):.0%})" if cached else "")]
    if shared:
        words.append(f"{shared} shared")
    if requests or any(tokens.values()):
        words.append(f"{requests} requests")
        about = "about " if entry.get("estimated") else ""
        words.append(f"{about}{tokens.get('input', 0):,} + {tokens.get('output', 0):,} tokens")
        words.append("price unknown" if price is None else f"{about}${price:.4f}")
    if entry.get("errors"):
        words.append(f"{entry['errors']} failed")
    return ", ".join(words)


def dump_grader(grader: Grader) -> dict[str, Json]:
    """A grader as a JSON object: what a stored report needs to compute cases and verdicts again."""
    shown: dict[str, Json] = {"name": grader.name, "measure": str(grader.measure)}
    for name in ("weight", "required", "strict", "expected_relevant_count"):
        if (value := getattr(grader, name)) not in (None, False, 1.0):
            shown[name] = value
    return shown


def load_grader(row: dict[str, Json]) -> Grader:
    """The grader in a JSON object."""
    return Grader(**{**row, "measure": Measure.remembered(row["measure"])}, options=FrozenDict())
