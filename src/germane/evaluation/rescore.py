"""Score a stored report again with other measures, from its samples and judgements."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from germane.errors import InputError
from germane.evaluation.evaluation import evaluate_jobs, run_coroutine
from germane.folder.reader import StoredTables
from germane.folder.rows import BlockRows, Tables
from germane.folder.writer import FolderWriter
from germane.judging.recorded import StoredAnswers
from germane.judging.spending import Spent
from germane.measures.graders import graders_of
from germane.measures.measure import Measure
from germane.measures.scoring import Job
from germane.places.settings import Settings
from germane.reports.gates import Gate
from germane.reports.report import Report
from germane.reports.summary import MeasureSummary, slices_of
from germane.tables.labels import LabelBook
from germane.types import Json

_OF_ROWS = {
    "labels_size",
    "graders",
    "notes",
    "beside",
    "prompts",
    "reads",
    "references",
    "asked",
    "files",
    "status",
    "changes",
}
"""The entries of a manifest that are about its rows, which change when a report is scored again."""


def rescore(
    report: Report | Path | str,
    measures: Sequence[Measure],
    *,
    gates: Iterable[str] = (),
    allow_stand_in: bool = False,
    by: str | None = None,
    folder: Path | str | None = None,
) -> Report:
    """Return a report with these measures, scored from a report's samples and judgements without calls.

    `report` may be a path. The rows of a report in a folder are read one by one, and the new report is
    written to `folder` or a temporary one. Without measures, only gates are decided again: these `gates`, or
    the report's own. `by` is the field to slice by. Raises InputError if the report lacks verdicts.
    """
    parsed = [Gate.parse(gate) for gate in gates]
    changed = ({} if by is None else {"by": by}) | ({"allow_stand_in": True} if allow_stand_in else {})
    if not measures:
        again = _decided_again(report if isinstance(report, Report) else Report.open(report), parsed, changed)
        return again if folder is None else again.save(folder)
    opened = report if isinstance(report, Report) else StoredTables.open(report)
    source, manifest = opened.tables if isinstance(opened, Report) else opened, opened.manifest
    if by is not None:
        slices_of(source.samples, by)
    answers, people = StoredAnswers(source.judgements), list(source.people())
    existed = folder is not None and Path(folder).exists()
    writer = _writer(source, folder)
    try:
        rows = BlockRows()
        settings, graders = Settings.stored(manifest, LabelBook(people) or None), graders_of(tuple(measures))
        jobs = (Job(sample=sample, graders=graders) for sample in source.samples)
        run_coroutine(evaluate_jobs(jobs, answers.lookup, writer or rows, settings))
        (writer or rows).append_labels(people)
        if writer is not None:
            writer.flush()
        entry = {**(manifest.get("judge") or {}), **Spent(cached=answers.answered).as_json()}
        kept = {name: value for name, value in manifest.items() if name not in _OF_ROWS}
        made = {**kept, "judge": entry, **changed}
        scored = Report.build(rows if writer is None else writer.tables, made, gates=parsed)
        if answers.unknown:
            _require_verdicts(scored.summaries, source)
        if writer is not None and folder is not None:
            scored.finish(writer)
    except BaseException:
        if writer is not None and not existed:
            shutil.rmtree(writer.path, ignore_errors=True)
        raise
    finally:
        if writer is not None:
            writer.close()
    return scored if folder is None or writer is not None else scored.save(folder)


def _writer(source: Tables, folder: Path | str | None) -> FolderWriter | None:
    """Return the started writer of the new report, or None if the rows are in memory."""
    if not isinstance(source, StoredTables):
        return None
    if folder is None:
        return FolderWriter.temporary(source)
    writer = FolderWriter(folder).lock()
    try:
        writer.refuse_other()
        return writer.start()
    except BaseException:
        writer.close()
        raise


def _require_verdicts(summaries: Iterable[MeasureSummary], source: Tables) -> None:
    for summary in summaries:
        if summary.n == 0 and any("no stored judgement" in why for why, _ in summary.why):
            again = f"germane run --resume {source.folder or 'REPORT'} -m '{summary.measure}'"
            problem = f"{summary.measure} needs verdicts that are not in this report"
            raise InputError(problem, fix=f"ask the judge for them: {again}")


def _decided_again(report: Report, gates: Sequence[Gate], changed: Mapping[str, Json]) -> Report:
    """Return a report with the same scores in which these gates, or the report's own, are decided again."""
    if "by" in changed:
        report.slices(changed["by"])  # an unknown name is an error here
    entries = {**report.manifest, **changed}
    if gates:
        entries.pop("changes", None)
    return Report.build(report.tables, entries, gates=gates or None)
