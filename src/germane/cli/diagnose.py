"""The commands `germane stages` and `germane diagnose`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from germane.cli.finishing import latest_reports, print_console
from germane.cli.output import print_document
from germane.diagnosis.diagnosis import diagnose as diagnose_report
from germane.diagnosis.diagnosis import render_diagnosis
from germane.diagnosis.stages import (
    SystemStages,
    document_of,
    ranks_in_runs,
    render_stages,
    stage_report,
    stages_document,
    stages_of,
)
from germane.errors import InputError, SourceLocation
from germane.reports.report import find_report
from germane.samples.runs.hits import Hits


def stages(paths: Sequence[Path], **flags: Any) -> None:
    """Show where relevant documents were lost: at which retrieval stage, and their rank at the stage before.

    Reads a report or samples with `stages`, or with --qrels one run file per stage, in order. Without stages,
    it shows which relevant documents were never retrieved, and which are ranked below k.
    """
    chosen = SimpleNamespace(**flags)
    reports = _of_runs(paths, chosen) if chosen.qrels is not None else _of_samples(paths, chosen)
    if chosen.json:
        print_document(stages_document(reports))
    else:
        print_console(render_stages(reports, every=chosen.per_query))


def diagnose(folder: Path | None, *, measure: str | None, json: bool) -> None:
    """Show what would help, from stored labels: perfect reranking, another k, irrelevant passages removed.

    Each change is shown as a paired difference with its interval, followed by the queries that would gain
    most. For samples with references and responses, also say whether retrieval or generation failed. No judge
    calls are made. Default report: the latest in germane-reports.
    """
    diagnoses = diagnose_report(find_report(folder or latest_reports("diagnose")[0]), measure)
    if json:
        print_document(document_of(diagnoses))
    else:
        print_console(render_diagnosis(diagnoses))


def _of_samples(paths: Sequence[Path], chosen: Any) -> list[SystemStages]:
    """Return the stages of each system in a report or a file of samples."""
    from germane.samples.reading import READERS, read_samples, suffix_of  # run files do not need it

    path, *others = paths
    if others:
        raise InputError("several run files need gold labels", fix="give --qrels GOLD, or name one report")
    for name in ("format", "qrels_format", "columns", "doc_id"):
        if getattr(chosen, name):
            fix = "give --qrels GOLD"
            raise InputError(f"--{name.replace('_', '-')} is for run files, which need gold labels", fix=fix)
    if path.is_dir():
        return stages_of(find_report(path).samples(), rel=chosen.rel, k=chosen.k)
    if path.exists() and suffix_of(path) not in READERS:
        fix = "name a report folder or a file of samples, or give gold labels for a run file: --qrels GOLD"
        raise InputError(
            "this is neither a report nor a file of samples", fix=fix, place=SourceLocation(str(path))
        )
    return stages_of(read_samples(path), rel=chosen.rel, k=chosen.k)


def _of_runs(paths: Sequence[Path], chosen: Any) -> list[SystemStages]:
    """Return the stages of one system, read from one run file per stage."""
    from germane.cli.rank import files_of
    from germane.evaluation.rank import hits_of

    gold, files, how = files_of(paths, chosen)
    runs: dict[str, Hits] = {}
    for run, stage in files:
        name, hits = hits_of(run, gold, **how)
        runs[stage or Path(name).stem] = hits
    return [stage_report(ranks_in_runs(runs, rel=chosen.rel, k=chosen.k))]
