"""Reports by path: a report folder, a document of `--json`, or the latest report in a folder of reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from germane.errors import InputError, Place
from germane.reports.data import ReportData
from germane.reports.gates import Verdict
from germane.reports.summary import Bases, summarise
from germane.tables.part import Part
from germane.tables.scores import ScoreTable
from germane.types import Json, Score

_MANIFEST = "manifest.json"


def find_report(path: str | Path, open_folder: Callable[[Path], ReportData]) -> ReportData:
    """The report that a path names: a report folder, a document of `--json`, or the latest report in a folder of reports.

    InputError where there is none.
    """
    path = Path(path)
    if path.is_file():
        return read_document(path)
    if not path.is_dir():
        raise InputError(
            f"there is no report {path}", fix="name a report folder, a --json document or a folder of reports"
        )
    if (path / _MANIFEST).exists():
        return open_folder(path)
    latest = _latest(path)
    if latest is None:
        raise InputError(f"{path} holds no finished report", fix="name a folder that `germane run` wrote")
    return open_folder(latest) if latest.is_dir() else read_document(latest)


def _latest(folder: Path) -> Path | None:
    """The report folder (or, where there is none, the document) in a folder that was made last."""
    made: list[tuple[str, Path]] = []
    for manifest in folder.glob(f"*/{_MANIFEST}"):
        try:
            found = json.loads(manifest.read_text("utf-8"))
        except ValueError:
            continue
        if isinstance(found, dict) and found.get("status") == "complete":
            made.append((str(found.get("created", "")), manifest.parent))
    if made:
        return max(made)[1]
    return max(folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns, default=None)


def read_document(path: Path) -> ReportData:
    """The scores and the judge in a document of `--json`, as a report without samples and judgements."""
    place = Place(str(path))
    try:
        document = json.loads(path.read_text("utf-8"))
        rows = document["scores"]
        table = ScoreTable(_score(row) for row in rows)
    except KeyError:
        if isinstance(document.get("reports"), dict):
            problem = f"this document holds {len(document['reports'])} reports"
            raise InputError(problem, fix="name the folder of one of them", place=place) from None
        fix = "write it with germane run --json, or germane rank --json -q"
        raise InputError("this document holds no scores", fix=fix, place=place) from None
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"this is no --json document: {error}", fix="name a report folder or such a document", place=place
        ) from None
    manifest: dict[str, Json] = {"judge": document.get("judge") or {}}
    tables = Part(scores=table)
    bases = Bases(manifest, tables)
    summaries = [replace(line, basis=bases.of(line.type, line.system)) for line in summarise(table)]
    return ReportData(tables, manifest, Verdict(0, ()), summaries)


def _score(row: Mapping[str, Json]) -> Score:
    bounds = row["bounds"]
    if bounds is not None:
        bounds = (bounds[0], float("inf") if bounds[1] is None else bounds[1])
    return Score(**{**row, "bounds": bounds})
