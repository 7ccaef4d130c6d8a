"""Score a stored report again with other measures, from its samples and judgements."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from germane.errors import InputError
from germane.evaluation.evaluation import evaluate_jobs
from germane.folder.tables import StoredTables
from germane.folder.writer import FolderWriter
from germane.judging.caller import run_coroutine
from germane.judging.recorded import StoredAnswers
from germane.judging.spending import Spent
from germane.measures.declaration import graders_of
from germane.measures.measure import Measure
from germane.measures.scoring import Job
from germane.places.lists import Settings
from germane.reports.gates import Gate
from germane.reports.report import Report
from germane.reports.summary import MeasureSummary, slices_of
from germane.tables.labels import LabelBook

_OF_ROWS = {"labels_size", "graders", "notes", "beside", "prompts", "reads"}
_OF_ROWS |= {"references", "asked", "files", "status", "changes"}
"""The entries of a manifest that describe its rows, and therefore change when a report is scored again."""


def rescore(
    report: Path | str,
    measures: Sequence[Measure],
    *,
    gates: Iterable[str] = (),
    allow_stand_in: bool = False,
    by: str | None = None,
    folder: Path | str | None = None,
) -> Report:
    """Score a stored report again with these measures, without judge calls, and return the new report.

    The samples and judgements in the report's folder are read one by one, and the new report is written to
    `folder` or a temporary folder. If `measures` is empty, the scores stay the same, and only gates are
    decided again: `gates`, or the report's own gates if `gates` is empty. `by` is the field to slice by.
    Raises InputError if a measure needs verdicts that the report does not contain.
    """
    parsed = [Gate.parse(gate) for gate in gates]
    changed = ({} if by is None else {"by": by}) | ({"allow_stand_in": True} if allow_stand_in else {})
    if not measures:
        same = Report.open(report)
        if by is not None:
            same.slices(by)  # an unknown name is an error here
        left_out = {"changes"} if gates else set()
        entries = {name: value for name, value in same.manifest.items() if name not in left_out} | changed
        again = Report.build(same.tables, entries, gates=parsed or None)
        return again if folder is None else again.save(folder)
    source = StoredTables.open(report)
    if by is not None:
        slices_of(source.samples, by)
    answers, people = StoredAnswers(source.judgements), list(source.people())
    existed = folder is not None and Path(folder).exists()
    writer = FolderWriter.temporary(source) if folder is None else FolderWriter(folder).lock()
    try:
        if folder is not None:
            writer.refuse_other()
            writer.start()
        settings = Settings.stored(source.manifest, LabelBook(people) or None)
        graders = graders_of(tuple(measures))
        jobs = (Job(sample=sample, graders=graders) for sample in source.samples)
        run_coroutine(evaluate_jobs(jobs, answers.lookup, writer, settings))
        writer.append_labels(people)
        writer.flush()
        entry = {**(source.manifest.get("judge") or {}), **Spent(cached=answers.answered).as_json()}
        kept = {name: value for name, value in source.manifest.items() if name not in _OF_ROWS}
        scored = Report.build(writer.tables, {**kept, "judge": entry, **changed}, gates=parsed)
        if answers.unknown:
            _require_verdicts(scored.summaries, source)
        if folder is not None:
            scored.finish(writer)
    except BaseException:
        if not existed:
            shutil.rmtree(writer.path, ignore_errors=True)
        raise
    finally:
        writer.close()
    return scored


def _require_verdicts(summaries: Iterable[MeasureSummary], source: StoredTables) -> None:
    for summary in summaries:
        if summary.n == 0 and any("no stored judgement" in why for why, _ in summary.why):
            again = f"germane run --resume {source.folder or 'REPORT'} -m '{summary.measure}'"
            problem = f"{summary.measure} needs verdicts that are not in this report"
            raise InputError(problem, fix=f"ask the judge for them: {again}")
