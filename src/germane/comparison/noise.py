"""The sources of the noise of a report's mean: its trials, the replicas of its judge, and its labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from germane.judging.driver import replay
from germane.judging.recorded import StoredAnswers
from germane.measures.measure import Measure
from germane.measures.scoring import Block, Job, graders_of
from germane.reports.data import ReportData
from germane.reports.explain import settings_of
from germane.reports.summary import MeasureSummary, known_measure
from germane.statistics.components import VarianceComponents, split_variance
from germane.types import Judgement, Sample

MOST_REPLAYED = 20_000
"""Samples up to which scores are computed once more for each replica."""


def variance_of(report: ReportData, summary: MeasureSummary) -> VarianceComponents | None:
    """The variance of a system's scores, split; None where neither trials, replicas nor labels are there, or no two queries."""
    rows = _by_replica(report, summary) or [
        (score.sample, score.trial, score.value)
        for score in report.scores()
        if (score.measure, score.system) == (summary.measure, summary.system) and score.value is not None
    ]
    pilot = summary.corrected.pilot if summary.corrected else None
    queries, trials, values = zip(*rows, strict=True) if rows else ((), (), ())
    if len(set(queries)) < 2 or (len(set(queries)) == len(rows) and pilot is None):
        return None
    return split_variance(values, queries, trials, pilot)


def _by_replica(report: ReportData, summary: MeasureSummary) -> list[tuple[str, int, float]]:
    """(query, trial, score) of every replica of the judge; none where the judge was asked once, or nothing can be replayed."""
    measure = known_measure(summary.type)
    if measure is None or summary.basis.source != "judge" or summary.total > MOST_REPLAYED:
        return []
    cases: dict[str, list[Sample]] = {}
    for sample in report.samples():
        if sample.system == summary.system:
            cases.setdefault(sample.id, []).append(sample)
    samples = [trial for trials in cases.values() for trial in trials]
    replicas = _replicas(report.judgements())
    merged = [judgement for judgement in report.judgements() if judgement.parent is None]
    result = []
    for own in replicas:
        answers = StoredAnswers([*own, *merged])  # what was asked once is everyone's; the first answer counts
        for sample, value in zip(samples, _scores(report, measure, samples, answers), strict=True):
            if value is not None:
                result.append((sample.id, sample.trial, value))
    return result


def _scores(
    report: ReportData, measure: Measure, samples: Sequence[Sample], answers: StoredAnswers
) -> list[float | None]:
    """The score of each sample by these answers."""
    graders = graders_of((measure,))
    jobs = [Job(sample=sample, graders=graders) for sample in samples]
    block = Block(jobs=jobs, settings=settings_of(report))
    rows = block.outcomes([replay(program, answers.look_up)[0] for program in block.programs])
    return [row[str(measure)].value for row in rows]


def _replicas(judgements: Iterable[Judgement]) -> list[list[Judgement]]:
    """The answers of each replica, as if they stood alone; none where nothing was asked again of the same judge."""
    votes: dict[str, list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        if judgement.parent is not None and judgement.error is None:
            votes[judgement.parent].append(judgement)
    result: dict[int, list[Judgement]] = defaultdict(list)
    for rows in votes.values():
        if any("replica" in row.provenance for row in rows):
            for judgement in rows:
                result[int(judgement.provenance.get("replica", 1))].append(replace(judgement, parent=None))
    return [result[number] for number in sorted(result)] if len(result) > 1 else []
