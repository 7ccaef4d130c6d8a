"""Open reports: a report folder, the latest of several, a `--json` document, results of other programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET, UnsetType

from germane.encoding import Line
from germane.errors import InputError, SourceLocation
from germane.folder.files import read_manifest
from germane.folder.tables import BlockRows
from germane.measures.measure import UNKNOWN, Measure
from germane.reports.data import ReportData
from germane.reports.gates import Verdict
from germane.reports.report import Report, summaries_of
from germane.samples.files import read_text, shown_name
from germane.tables.judgements import JudgeLine
from germane.tables.scores import ScoreRow, ScoreTable
from germane.types import Json, Status

if TYPE_CHECKING:
    from germane.results.reading import MeasuredRow

__all__ = ["find_baseline"]


def reports_in(folder: Path) -> list[Path]:
    """Return the report folders in a folder, the latest first, by their manifests' dates, then file times."""

    def created(report: Path) -> tuple[str, int]:
        time = ""
        with suppress(InputError):
            time = str(read_manifest(report).get("created", ""))
        return time, (report / "manifest.json").stat().st_mtime_ns

    return sorted((file.parent for file in folder.glob("*/manifest.json")), key=created, reverse=True)


def complete_in(folder: Path) -> Iterator[Path]:
    """Yield the complete report folders in a folder, the latest first."""
    for report in reports_in(folder):
        with suppress(InputError):
            if read_manifest(report).get("status") == "complete":
                yield report


def find_report(path: str | Path, *, corrected: bool = True) -> ReportData:
    """Return the report at a path.

    The path is a report folder, a `--json` document, a result file of another program, or a folder of
    reports, of which the latest complete report is opened. Raises InputError if there is no report.
    """
    path = Path(path)
    if path.is_file():
        return open_together([path], {}, {})[0][0]
    if not path.is_dir():
        fix = "name a report folder, a --json document, a result file or a folder of reports"
        raise InputError(f"there is no report at {path}", fix=fix)
    if (path / "manifest.json").exists():
        return Report.open(path, corrected=corrected)
    latest = next(complete_in(path), None)
    if latest is None:
        raise InputError(f"{path} contains no finished report", fix="name a folder that `germane run` wrote")
    return Report.open(latest, corrected=corrected)


def find_baseline(path: str | Path | None) -> ReportData:
    """Return the report given with --baseline. Raises InputError if there is none."""
    if path is None:
        raise InputError("--fail-on-regression needs a baseline", fix="give --baseline REPORT")
    return find_report(path)


ANOTHER_PROGRAM = "another program"  # the source of the judge if another program wrote the scores


class ScoredDocument(Line):
    """The fields of a `--json` document that are read for comparisons and baselines."""

    schema_version: int = 1
    scores: list[ScoreRow] | UnsetType = UNSET
    judge: dict[str, Any] | None = None


def read_document(path: Path) -> ReportData:
    """Return the scores and judge of a `--json` document as a report. Raises InputError if it is damaged."""
    location = SourceLocation(str(path))
    fix = "name the folder that `germane run` wrote, or a document of germane run --json or germane rank --json -q"
    try:
        document = msgspec.json.decode(read_text(path), type=ScoredDocument)
        JudgeLine.stored(document.judge)
    except msgspec.DecodeError as error:
        problem = f"this is neither a --json document nor a known result file of another program: {error}"
        raise InputError(problem, fix=fix, place=location) from None
    if document.schema_version > 1:
        problem = f"this document is of version {document.schema_version}; this germane reads version 1"
        raise InputError(problem, fix="update germane", place=location)
    if document.scores is UNSET:
        raise InputError("this --json document has no scores", fix=fix, place=location)
    table, seen, ranges = ScoreTable(), set[tuple[object, ...]](), dict[str, tuple[float, float]]()
    for row in document.scores:
        if row.type not in ranges:
            definition = Measure.remembered(row.type).definition
            ours = definition.compute.__module__.startswith("germane.") and definition.formula != UNKNOWN
            low, high = definition.range if ours else (-inf, inf)
            ranges[row.type] = max(low, -1e100), min(high, 1e100)  # so that squares of values are finite
        low, high = ranges[row.type]
        for value in (row.value, *(row.bounds or ())):
            if value is not None and not low - _SLACK <= value <= high + _SLACK:
                problem = f"a score of {row.measure} is {value:g}, which is not between {low:g} and {high:g}"
                again = "write the document again: germane run --json, or germane score REPORT"
                raise InputError(problem, fix=again, place=location)
        try:
            table.add(row)
        except (ValueError, OverflowError) as error:
            problem = f"this --json document has an invalid score: {error}"
            raise InputError(problem, fix=fix, place=location) from None
        if (name := (row.measure, row.sample, row.system, row.trial)) in seen:
            problem = f"this --json document has two scores of {row.measure} for the sample {row.sample!r}"
            raise InputError(problem, fix="remove one of the two scores", place=location)
        seen.add(name)
    tables, manifest = BlockRows(scores=table), {"judge": document.judge or {}}
    return ReportData(tables, manifest, Verdict(0), *summaries_of(tables, manifest))


_SLACK = 1e-9  # how far a value may be outside its measure's range


def is_of_results(report: ReportData) -> bool:
    """Return True if a report's scores were read from another program's result file."""
    return "results" in report.manifest


def open_together(
    values: Iterable[ReportData | str | Path],
    ranges: Mapping[str, tuple[float, float]],
    directions: Mapping[str, bool],
) -> tuple[list[ReportData], list[str]]:
    """Return reports or paths as reports with uncorrected means, and notes on guesses about measures.

    `ranges` and `directions` (True if higher is better) describe measures in files of other programs.
    """
    from germane.results.naming import types_of  # not at the top: `germane rank` reads no such files
    from germane.results.reading import read_results

    opened: list[ReportData | tuple[str, list[MeasuredRow]]] = []
    for value in values:
        if isinstance(value, ReportData):
            opened.append(value)
        elif (is_file := Path(value).is_file()) and (results := read_results(value)) is not None:
            opened.append((shown_name(value), results))
        else:  # the differences are corrected, not these means
            report = read_document(Path(value)) if is_file else find_report(value, corrected=False)
            report.where = str(value)
            opened.append(report)
    reports = [one for one in opened if isinstance(one, ReportData)]
    files = [one for one in opened if not isinstance(one, ReportData)]
    types, notes = types_of(
        ((row.measure, row.value, row.higher) for _, rows in files for row in rows),
        {line.measure: line.type for report in reports for line in report.summaries},
        ranges,
        directions,
    )
    for at, one in enumerate(opened):
        if isinstance(one, ReportData):
            continue
        tables, cluster_of = BlockRows(), dict[str, str]()
        for row in one[1]:
            status: Status = "error" if row.value is None else "ok"
            of = row.sample, row.system, row.trial, row.measure, types[row.measure]
            tables.scores.add(ScoreRow(*of, row.value, status, row.why or None, None))
            if row.cluster:
                cluster_of[row.sample] = row.cluster
        tables.cluster_of = cluster_of
        manifest: dict[str, Json] = {"judge": {"source": ANOTHER_PROGRAM}, "results": True}
        opened[at] = report = ReportData(tables, manifest, Verdict(0), *summaries_of(tables, manifest))
        report.where = one[0]
    return cast("list[ReportData]", opened), notes
