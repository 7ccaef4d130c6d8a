"""Graders given to `evaluate`."""

from typing import Any

import pytest

from germane import InputError, evaluate


def test_graders_are_evaluated_beside_measures() -> None:
    """Graders of eval files in Python: each under its name, scripts and gates too; two of one name are refused."""
    from germane.addons.agentv.graders import CodeGrader, FieldAccuracy, FieldRule, Latency

    row = {
        "id": "a",
        "query": "q",
        "response": '{"total": 12.001}',
        "reference": '{"total": 12}',
        "contexts": [{"text": "x", "grade": 3}],
        "metadata": {"duration_ms": 9},
    }
    fields = FieldAccuracy(fields=(FieldRule(path="total", match="numeric_tolerance", tolerance=0.01),))
    script = CodeGrader(name="script", script="echo '{\"score\": 0.5}'")
    asked: list[Any] = [fields, Latency(name="fast", threshold=5), script, "context_precision@5"]
    report = evaluate([row], asked, judge="labels", gates=["mean(fast)>=1"])
    means = {summary.measure: summary.mean for summary in report.summaries}
    assert means == {"field_accuracy": 1.0, "fast": 0.0, "script": 0.5, "context_precision@5": 1.0}
    assert report.verdict.exit_code == 1
    assert report.explain("a", "field_accuracy").hits == ("total (within tolerance: diff=0.00)",)
    with pytest.raises(InputError, match="graders must have different names; 'latency'"):
        evaluate([row], [Latency(threshold=5), Latency(threshold=6)])
