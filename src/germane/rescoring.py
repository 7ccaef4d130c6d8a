"""New measures on a stored evaluation: the same programs, answered from its judgements. Nobody is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from germane.errors import InputError
from germane.evaluation import Evaluation
from germane.judging.recorded import Recorded
from germane.judging.spending import Spent
from germane.loops import run_coroutine
from germane.measures.graders import graders_of
from germane.measures.measure import Measure
from germane.measures.scoring import Job
from germane.reports.explain import StoredJudge, settings_of
from germane.reports.gates import Gate
from germane.reports.report import Report

__all__ = ["rescore"]

_OF_ROWS = {"graders", "asked", "reads", "files", "status"}
"""What a manifest says of its rows, which are others now."""


def rescore(report: Report, measures: Sequence[Measure], *, gates: Iterable[str] = ()) -> Report:
    """A report of these measures over the samples and judgements of a stored one.

    Without measures, only the gates are decided anew. InputError where a measure needs verdicts of which the
    report holds none at all: they must be asked first.
    """
    limit = report.manifest.get("max_unmeasured", 0.05)
    parsed = [Gate.parse(gate) for gate in gates]
    if not measures:
        return Report.build(report.tables, report.manifest, gates=parsed, max_unmeasured=limit)
    evaluation = Evaluation(settings=settings_of(report))
    stored = {judgement.key: judgement for judgement in report.judgements()}
    answers = Recorded(StoredJudge(report), lambda keys: (stored[key] for key in keys if key in stored))
    graders = graders_of(tuple(measures))
    run_coroutine(
        evaluation.run((Job(sample=sample, graders=graders) for sample in report.samples()), answers)
    )
    manifest = {
        **{name: value for name, value in report.manifest.items() if name not in _OF_ROWS},
        "judge": {**(report.manifest.get("judge") or {}), **Spent(cached=answers.found).as_json()},
        **evaluation.graded(),
    }
    scored = Report.build(evaluation.store, manifest, gates=parsed, max_unmeasured=limit)
    for summary in scored.summaries:
        if summary.n == 0 and answers.unknown and any("no stored judgement" in why for why, _ in summary.why):
            raise InputError(
                f"{summary.measure} needs verdicts that this report does not hold",
                fix=f"ask for them: germane run --resume {report.folder or 'REPORT'} -m '{summary.measure}'",
            )
    return scored
