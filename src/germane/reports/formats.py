"""A report as a file: one render function a format, chosen by the file's extension."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from germane.errors import InputError
from germane.reports.cases import CaseResult
from germane.reports.clean import cell, shorten
from germane.reports.data import ReportData
from germane.reports.manifest import spent_in_words
from germane.reports.schema import CaseRow, Document, JudgeLine, ScoreRow, SystemLine
from germane.reports.text import notes_of, remarks_of, render_plain
from germane.tables.folder import OWN
from germane.tables.scores import dump_score
from germane.types import Json

__all__ = ["FORMATS", "json_document", "write"]


def json_document(report: ReportData, *, scores: bool = True) -> Document:
    """The document of `--json`; its schema is published."""
    document: Document = {
        "schema_version": 1,
        "passed": report.verdict.passed,
        "exit_code": report.verdict.exit_code,
        "report": str(report.folder) if report.folder is not None else None,
        "judge": _judge(report.manifest.get("judge") or {}),
        "verdict": list(report.verdict.reasons),
        "gates": report.verdict.as_json()["gates"],
        "notes": list(notes_of(report)),
        "cases": [],
    }
    systems: list[SystemLine] = [{"system": system, "measures": {}} for system in report.systems]
    for summary in report.summaries:
        systems[report.systems.index(summary.system)]["measures"][summary.measure] = summary.as_json()
    if len(systems) == 1:
        document["measures"] = systems[0]["measures"]
    else:
        document["systems"] = systems
    if scores:
        document["scores"] = [cast("ScoreRow", dump_score(score)) for score in report.scores()]
    document["cases"] = [_case(case) for case in report.cases()]
    if report.stopped:
        document["stopped"] = report.stopped
    return document


def _judge(entry: Mapping[str, Json]) -> JudgeLine:
    tokens = {"input": 0, "output": 0, **(entry.get("tokens") or {})}
    counts = {name: entry.get(name, 0) for name in ("calls", "cached", "shared", "requests", "errors")}
    line = {"source": entry.get("source"), **counts, "tokens": tokens, "cost_usd": entry.get("cost_usd")}
    return cast("JudgeLine", line | ({"estimated": entry["estimated"]} if "estimated" in entry else {}))


def _case(case: CaseResult) -> CaseRow:
    row: CaseRow = {
        "sample": case.sample,
        "score": case.score,
        "verdict": case.verdict,
        "failed_required": list(case.failed_required),
    }
    if case.system or case.trial:
        row |= {"system": case.system, "trial": case.trial}
    return row


def _json(report: ReportData) -> Iterator[str]:
    yield json.dumps(json_document(report), ensure_ascii=False, indent=1) + "\n"


def _jsonl(report: ReportData) -> Iterator[str]:
    return (line.decode() for line in report.tables.scores.lines())


def _csv(report: ReportData) -> Iterator[str]:
    columns = report.tables.scores.to_columns()
    yield _row(list(columns))
    for values in zip(*columns.values(), strict=True):
        yield _row(list(map(cell, values)))


def _row(values: Sequence[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(values)
    return out.getvalue()


def _markdown(report: ReportData) -> Iterator[str]:
    several = len(report.systems) > 1
    head = [*(["system"] if several else []), "measure", "mean", "n", "skipped", "incomplete", "errors"]
    yield f"| {' | '.join(head)} |\n|{' --- |' * len(head)}\n"
    for s in report.summaries:
        counts = (f"{s.n}/{s.total}", str(s.skipped), str(s.incomplete), str(s.errors))
        row = [_escaped(s.measure), s.in_words(), *counts]
        yield f"| {' | '.join([_escaped(s.system), *row] if several else row)} |\n"
    for remark, concerned in remarks_of(report):
        yield f"\n{_escaped(remark)} ({_escaped(concerned)})\n"
    judge = report.manifest.get("judge") or {}
    if judge.get("source"):
        yield f"\nJudge: {_escaped(judge['source'])}: {spent_in_words(judge)}.\n"
    if judge.get("stand_in"):
        yield f"\n> {_escaped(judge['stand_in'])}\n"
    yield f"\n**{report.verdict.word.capitalize()}** (exit code {report.verdict.exit_code}): "
    yield f"{_escaped('; '.join(report.verdict.reasons), 1000)}\n"


def _escaped(text: str, most: int = 200) -> str:
    shown = shorten(text, most)
    for char in "\\|`*_<>[]":
        shown = shown.replace(char, f"\\{char}")
    return shown


def _text(report: ReportData) -> Iterator[str]:
    yield f"{render_plain(report)}\n"


FORMATS: dict[str, Callable[[ReportData], Iterator[str]]] = {
    ".json": _json,
    ".jsonl": _jsonl,
    ".csv": _csv,
    ".md": _markdown,
    ".txt": _text,
}
"""What a report can be written as, by the file's extension."""


def write(report: ReportData, path: Path) -> None:
    """Write a report file; InputError where it has no known extension, or is one of the report's own files."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(
            f"{path}: no report format ends in {path.suffix or 'nothing'}", fix=f"use {', '.join(FORMATS)}"
        )
    if report.folder is not None and path.resolve() in {(report.folder / own).resolve() for own in OWN}:
        raise InputError(f"{path} is the report's own", fix="write to another file")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(FORMATS[path.suffix.lower()](report))
