"""Write a report in the format that a file's extension names: JSON, CSV, HTML, Markdown, JUnit and others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from germane.addons import absent, all_of, find, load
from germane.encoding import Line
from germane.errors import InputError
from germane.folder.files import is_own
from germane.reports.data import CaseResult, ReportData
from germane.reports.gates import GateResult
from germane.reports.summary import MeasureSummary
from germane.reports.text.overview import markdown, notes_of, render_plain
from germane.samples.files import whole_file, write_whole
from germane.show.table import csv_lines
from germane.tables.judgements import JudgeLine
from germane.tables.scores import SampleKey, ScoreRow, dump_score, to_frame
from germane.types import Json


class SystemLine(Line, kw_only=True):
    """The summaries of one system over all cases, or over the cases of one `slice` or one eval `file`."""

    system: str
    measures: dict[str, MeasureSummary]
    slice: str | UnsetType = UNSET
    file: str | UnsetType = UNSET


def system_lines(summaries: Iterable[MeasureSummary], **of: str) -> list[SystemLine]:
    """Return one line per system with its summaries; `of` is `slice=NAME` or `file=NAME` for a part."""
    measures: dict[str, dict[str, MeasureSummary]] = {}
    for summary in summaries:
        measures.setdefault(summary.system, {})[summary.measure] = summary
    return [SystemLine(system=system, measures=rows, **of) for system, rows in (measures or {"": {}}).items()]


class Document(Line, kw_only=True):
    """The document that `--json` prints.

    It contains `measures` if there is one system, and `systems` if there are several. If several eval files
    ran, `files` contains the means over the cases of each file.

    If the run stopped early, `stopped` says why and how to continue it, and the document contains the results
    so far.
    """

    schema_version: Literal[1] = 1
    passed: bool
    exit_code: int
    report: str | None
    judge: JudgeLine
    verdict: list[str]
    gates: list[GateResult]
    notes: list[str]
    measures: dict[str, MeasureSummary] | UnsetType = UNSET
    systems: list[SystemLine] | UnsetType = UNSET
    files: list[SystemLine] | UnsetType = UNSET
    slices: list[SystemLine] | UnsetType = UNSET
    scores: list[ScoreRow] | UnsetType = UNSET
    cases: list[CaseResult]
    stopped: str | UnsetType = UNSET


def json_document(report: ReportData, *, scores: bool = True) -> dict[str, Json]:
    """Return the `--json` document (docs/schema/report.schema.json); `scores` adds each sample's scores."""
    systems, verdict = system_lines(report.summaries), report.verdict
    files = [system_lines(of.summaries, file=of.name) for of in report.files]
    slices = [system_lines(of.summaries, slice=of.name) for of in report.own_slices()[0]]
    document = Document(
        passed=verdict.passed,
        exit_code=verdict.exit_code,
        report=str(report.folder) if report.folder is not None else None,
        judge=report.judge,
        verdict=list(verdict.reasons),
        gates=list(verdict.gates),
        notes=list(notes_of(report)),
        measures=systems[0].measures if len(systems) == 1 else UNSET,
        systems=systems if len(systems) > 1 else UNSET,
        files=list(chain.from_iterable(files)) or UNSET,
        slices=list(chain.from_iterable(slices)) or UNSET,
        scores=[] if scores else UNSET,
        cases=list(report.cases()),
        stopped=report.stopped or UNSET,
    ).as_json()
    if scores:
        document["scores"] = list(map(dump_score, report.scores()))
    return document


def _jsonl(report: ReportData) -> Iterator[str]:
    verdicts, remarks = _verdicts(report), _remarks(report)
    if not verdicts and not any(remarks.values()):
        yield from (line.decode() for line in report.tables.scores.lines())
        return
    for score in report.scores():
        of_mean = remarks[score.system, score.measure]
        more: dict[str, Json] = {"remarks": of_mean} if of_mean else {}
        more |= {"verdict": verdicts.get(score.key)} if verdicts else {}
        yield json.dumps({**dump_score(score), **more}, ensure_ascii=False) + "\n"


def _verdicts(report: ReportData) -> dict[SampleKey, str | None]:
    return {case.key: case.verdict for case in report.cases()} if report.has_verdicts else {}


def _remarks(report: ReportData) -> dict[tuple[str, str], list[str]]:
    return {(summary.system, summary.measure): list(summary.remarks()) for summary in report.summaries}


def _csv(report: ReportData) -> Iterator[str]:
    columns = report.tables.scores.to_columns()
    if verdicts := _verdicts(report):
        keys = zip(columns["sample"], columns["system"], columns["trial"], strict=True)
        columns["verdict"] = [verdicts.get(key) for key in keys]
    remarks = {key: "; ".join(remark) for key, remark in _remarks(report).items()}
    columns["remarks"] = [remarks[key] for key in zip(columns["system"], columns["measure"], strict=True)]
    yield from csv_lines(chain([columns], zip(*columns.values(), strict=True)))


def html(report: ReportData, baseline: ReportData | None = None, **more: Any) -> Iterator[str]:
    """Yield the text of the report's HTML page in pieces; `more` are further arguments of `page_data`."""
    from germane.reports.page.data import page_data
    from germane.reports.page.render import page_html

    return page_html(*page_data(report, baseline, **more))


def _junit(report: ReportData) -> Iterable[str]:
    from germane.reports.ci import junit  # not at the top: few reports are written as XML

    return junit(report)


FORMATS: dict[str, Callable[[ReportData], Iterable[str]]] = {
    ".json": lambda report: [json.dumps(json_document(report), ensure_ascii=False, indent=1), "\n"],
    ".jsonl": _jsonl,
    ".csv": _csv,
    ".md": markdown,
    ".txt": lambda report: [f"{render_plain(report)}\n"],
    ".xml": _junit,
    ".html": html,
}
"""The formats of a report, by the ending of the file's name."""
_PICTURES = (".svg", ".png")  # files with the report's charts; .png needs an extra
ENDINGS = (*FORMATS, *_PICTURES, ".parquet")


def known_format(path: Path) -> str | None:
    """Return the format that a file's name ends in, or None. Raises InputError if its add-on is absent."""
    name = path.name.lower()

    def longest(endings: Iterable[str]) -> str | None:
        known = [of for of in endings if (name.endswith(of) if of[0] == "." else name == of)]
        return max(known, key=len, default=None)

    if owner := absent("writers", name, "".join(path.suffixes[-2:]).lower()):
        problem = f"{path}: this format needs the add-on {owner}, which is not installed"
        raise InputError(problem, fix=f"name a file that ends in {', '.join(ENDINGS)}")
    known = longest([*ENDINGS, *all_of("writers")])
    return known or (longest(all_of("writers", installed=True)) if path.suffix else None)


def format_of(path: Path) -> str:
    """Return the report format of a file name, such as ".csv". Raises InputError if it has none."""
    if kind := known_format(path):
        return kind
    ending = f"ends in {path.suffix}, which is not a report format" if path.suffix else "has no extension"
    endings = ", ".join([*ENDINGS, *all_of("writers")])
    raise InputError(f"the file {path} {ending}", fix=f"name a file that ends in {endings}")


def write(report: ReportData, path: Path, *, baseline: ReportData | None = None, **page: Any) -> None:
    """Write a report to a file, in the format of its extension; pages and pictures show the `baseline`.

    Raises InputError if the extension is unknown, or `path` is one of the report folder's own files.
    """
    kind = format_of(path)
    if report.folder is not None and is_own(path, report.folder):
        problem = f"{path} is a file of the report folder itself, and would be overwritten"
        raise InputError(problem, fix="write outside the folder, e.g. -o report.html")
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind in _PICTURES:
        from germane.reports.plots import write_picture

        write_picture(report, path, baseline)
    elif kind == ".parquet":
        with whole_file(path) as file:
            to_frame(report.tables.scores.to_columns(), "polars").write_parquet(file)
    elif kind == ".html":
        write_whole(path, html(report, baseline, **page))
    elif kind == ".md":
        write_whole(path, markdown(report, page.get("comparison")))
    else:
        write_whole(path, (FORMATS.get(kind) or load(find("writers", kind)))(report))
