"""The rows of AgentV's `index.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from germane.reports import ReportData, grader_results


def index_rows(report: ReportData) -> Iterator[str]:
    """The rows of AgentV's `index.jsonl`, which `agentv compare` reads: one case per line.

    A case whose score could not be measured has no row: AgentV knows no other score for it than 0.
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
                    "assertions": [
                        {"text": text, "passed": passed}
                        for passed, texts in ((True, row["hits"]), (False, row["misses"]))
                        for text in texts
                    ],
                }
                for row in results.get(case.key, ())
                if row["score"] is not None
            ],
        }
        yield json.dumps(row, ensure_ascii=False) + "\n"
