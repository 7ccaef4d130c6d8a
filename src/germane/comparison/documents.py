"""Reports by path: a report folder, a document of `--json`, or the latest report in a folder of reports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from germane.errors import InputError, Place
from germane.reports.data import ReportData
from germane.reports.gates import Verdict
from germane.reports.report import Report, reports_in
from germane.reports.summary import Bases, summarise
from germane.tables.folder import read_manifest
from germane.tables.part import Part
from germane.tables.scores import ScoreTable
from germane.types import Json, Score


def find_report(path: str | Path) -> ReportData:
    """The report that a path names: a report folder, a document of `--json`, or the latest report in a folder of reports.

    InputError where there is none.
    """
    path = Path(path)
    if path.is_file():
        return read_document(path)
    if not path.is_dir():
        fix = "name a report folder, a --json document or a folder of reports"
        raise InputError(f"there is no report {path}", fix=fix)
    if (path / "manifest.json").exists():
        return Report.open(path)
    for folder in reports_in(path):
        if read_manifest(folder).get("status") == "complete":
            return Report.open(folder)
    documents = sorted(path.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    if not documents:
        raise InputError(f"{path} holds no finished report", fix="name a folder that `germane run` wrote")
    return read_document(documents[-1])


def read_document(path: Path) -> ReportData:
    """The scores and the judge in a document of `--json`, as a report without samples and judgements."""
    place = Place(str(path))
    try:
        document = json.loads(path.read_text("utf-8"))
        table = ScoreTable(map(_score, document["scores"]))
    except KeyError:
        problem, fix = (
            "this document holds no scores",
            "write it with germane run --json, or germane rank --json -q",
        )
        if isinstance(document.get("reports"), dict):
            problem = f"this document holds {len(document['reports'])} reports"
            fix = "name the folder of one of them"
        raise InputError(problem, fix=fix, place=place) from None
    except (ValueError, TypeError, AttributeError) as error:
        problem, fix = f"this is no --json document: {error}", "name a report folder or such a document"
        raise InputError(problem, fix=fix, place=place) from None
    manifest: dict[str, Json] = {"judge": document.get("judge") or {}}
    tables = Part(scores=table)
    bases = Bases(manifest, tables)
    summaries = [replace(line, basis=bases.of(line.type, line.system)) for line in summarise(table)]
    return ReportData(tables, manifest, Verdict(0, ()), summaries)


def _score(row: dict[str, Json]) -> Score:
    bounds = row["bounds"]
    if bounds is not None:
        bounds = (bounds[0], float("inf") if bounds[1] is None else bounds[1])
    return Score(**{**row, "bounds": bounds})
