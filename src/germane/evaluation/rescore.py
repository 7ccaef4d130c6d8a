"""Score a stored report again with other measures, from its samples and judgements."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
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

    The rows of a report in a folder (a path will do) are read one by one, and the new report is written to
    `folder`, or else kept in memory. Without measures, only the gates are decided again: these `gates`, or
    the report's own. `by` is the field to slice by. Raises InputError if the report lacks verdicts.
    """
    parsed = [Gate.parse(gate) for gate in gates]
    if not measures:
        stored = report if isinstance(report, Report) else Report.open(report)
        again = _decided_again(stored, parsed, by, allow_stand_in=allow_stand_in)
        return again if folder is None else again.save(folder)
    opened = report if isinstance(report, Report) else StoredTables.open(report)
    source, manifest = opened.tables if isinstance(opened, Report) else opened, opened.manifest
    if by is not None:
        slices_of(source.samples, by)
    answers = StoredAnswers(source.judgements)
    existed = folder is not None and Path(folder).exists()
    target = _target(source, folder)
    try:
        people, graders = list(source.people()), graders_of(tuple(measures))
        settings = Settings.stored(manifest, LabelBook(people) or None)
        jobs = (Job(sample=sample, graders=graders) for sample in source.samples)
        run_coroutine(evaluate_jobs(jobs, answers.lookup, target, settings))
        target.append_labels(people)
        if isinstance(target, FolderWriter):
            target.flush()
        entry = {**(manifest.get("judge") or {}), **Spent(cached=answers.answered).as_json()}
        kept = {name: value for name, value in manifest.items() if name not in _OF_ROWS}
        made = {**kept, "judge": entry, **({} if by is None else {"by": by})}
        made |= {"allow_stand_in": True} if allow_stand_in else {}
        scored = Report.build(target if isinstance(target, BlockRows) else target.tables, made, gates=parsed)
        if answers.unknown:
            _require_verdicts(scored.summaries, source)
        if folder is None:
            return scored
        if isinstance(target, BlockRows):
            return scored.save(folder)
        scored.finish(target)
    except BaseException:
        if isinstance(target, FolderWriter) and not existed:
            shutil.rmtree(target.path, ignore_errors=True)
        raise
    finally:
        if isinstance(target, FolderWriter):
            target.close()
    return scored


def _target(source: Tables, folder: Path | str | None) -> BlockRows | FolderWriter:
    """Return the store of the new rows: the folder, or memory if `source` or the result has no folder."""
    if folder is None or not isinstance(source, StoredTables):
        return BlockRows()
    target = FolderWriter(folder).lock()
    try:
        target.refuse_other()
        return target.start()
    except BaseException:
        target.close()
        raise


def _require_verdicts(summaries: Iterable[MeasureSummary], source: Tables) -> None:
    for summary in summaries:
        if summary.n == 0 and any("no stored judgement" in why for why, _ in summary.why):
            again = f"germane run --resume {source.folder or 'REPORT'} -m '{summary.measure}'"
            problem = f"{summary.measure} needs verdicts that this report does not hold"
            raise InputError(problem, fix=f"ask for them: {again}")


def _decided_again(report: Report, gates: Sequence[Gate], by: str | None, *, allow_stand_in: bool) -> Report:
    """Return a report with the same scores in which these gates, or the report's own, are decided again."""
    if by is not None:
        report.slices(by)  # an unknown name is an error here
    stored = {**report.manifest, **({} if by is None else {"by": by})}
    stored |= {"allow_stand_in": True} if allow_stand_in else {}
    if gates:
        stored.pop("changes", None)
    return Report.build(report.tables, stored, gates=gates or None)
