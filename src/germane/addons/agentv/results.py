"""Read AgentV's `index.jsonl` as results for `germane compare`, and write it from a report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from germane.reports.data import ReportData
from germane.reports.explain import grader_results
from germane.results import MeasuredRow, canonical_measure, measured


def results_of(rows: Sequence[Mapping[str, Any]]) -> Iterator[MeasuredRow]:
    """Yield a row for each case and grader, or for a case without graders; a repeated case is a new trial."""
    graded = [{one["name"]: one.get("score") for one in row.get("scores") or ()} for row in rows]
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
    """Yield the rows of AgentV's `index.jsonl`, which `agentv compare` reads: one case per line.

    A case whose score could not be measured has no row, because AgentV would count it as 0.
    """
    results = grader_results(report)
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
            "scores": [
                {
                    "name": row["measure"],
                    "score": row["score"],
                    "assertions": [{"text": text, "passed": True} for text in row["hits"]]
                    + [{"text": text, "passed": False} for text in row["misses"]],
                }
                for row in results.get(case.key, ())
                if row["score"] is not None
            ],
        }
        yield json.dumps(row, ensure_ascii=False) + "\n"
