"""Read AgentV's `index.jsonl` as results for `germane compare`, and write it from a report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from germane.reports.data import ReportData
from germane.reports.explain import Explainer
from germane.results import MeasuredRow, canonical_measure, measured
from germane.tables.scores import SampleKey

_MOST_EXPLAINED = 5_000  # the most scores of a report whose scores are explained


def results_of(rows: Sequence[Mapping[str, Any]]) -> Iterator[MeasuredRow]:
    """Yield the results in the rows of AgentV's `index.jsonl`: one per case and grader.

    A case without graders has one result, its score. A repeated case is a new trial.
    """
    graded = [{entry["name"]: entry.get("score") for entry in row.get("scores") or ()} for row in rows]
    names = list(dict.fromkeys(name for scores in graded for name in scores)) or ["score"]
    times: Counter[tuple[str, str]] = Counter()
    for row, scores in zip(rows, graded, strict=True):
        case, target = str(row.get("test_id") or row.get("eval_id")), str(row.get("target") or "")
        fault = str(row.get("error") or "")
        if not fault and row.get("execution_status") == "execution_error":
            fault = "execution_error"
        times[case, target] += 1
        for name in names if fault else scores or ["score"]:
            value = row.get("score") if name == "score" and name not in scores else scores.get(name)
            score, why = measured(value, fault)
            trial = times[case, target] - 1
            yield MeasuredRow(case, canonical_measure(name), score, why, target, trial, higher=True)


def index_rows(report: ReportData) -> Iterator[str]:
    """Yield the lines of AgentV's `index.jsonl`, which `agentv compare` reads: one per case.

    A case without a score has no line, because AgentV would count it as 0. The hits and misses of its graders
    are written as AgentV's assertions.
    """
    graded: dict[SampleKey, list[dict[str, Any]]] = {}
    table = report.tables.scores
    if report.manifest.get("graders") and len(table) <= _MOST_EXPLAINED:
        explainer, samples = Explainer(report), {sample.key: sample for sample in report.samples()}
        explainer.use(samples.values())
        for score in (score for score in table if score.value is not None):
            why = explainer.explain(score, samples.get(score.key))[0]
            grader = report.graders_of(score.key).get(score.measure)
            missed = why.missed(grader.expected_relevant_count if grader else None)
            texts = [*((text, True) for text in why.hits), *((text, False) for text in missed)]
            assertions = [{"text": text, "passed": passed} for text, passed in texts]
            fields = {"name": score.measure, "score": score.value, "assertions": assertions}
            graded.setdefault(score.key, []).append(fields)
    for case in report.cases():
        if case.score is None:
            continue
        trial = f" #{case.trial}" if case.trial else ""
        row = {
            "timestamp": report.manifest.get("created"),
            "test_id": f"{case.sample}{trial}",
            "score": case.score,
            "target": case.system or "germane",
            "execution_status": "quality_failure" if case.verdict == "fail" else "ok",
            "scores": graded.get(case.key, []),
        }
        yield json.dumps(row, ensure_ascii=False) + "\n"
