"""Gates on the change against a baseline: three ways to end, and what they rest on."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from germane import Report, evaluate
from germane.comparison.compare import parse_margins
from germane.comparison.regression import change_gates, regressions
from germane.errors import InputError
from germane.evaluation.options import Options
from germane.evaluation.rescore import rescore
from germane.evaluation.run import run
from germane.judges.fake import FakeJudge
from germane.reports.gates import Gate


def rows(share: float, seed: int = 1, n: int = 60) -> list[dict[str, Any]]:
    """Queries of which this share has the only relevant document first, the others second."""
    first = set(random.Random(seed).sample(range(n), round(share * n)))
    both = [{"id": "good", "text": "good"}, {"id": "bad", "text": "bad"}]
    return [
        {
            "id": f"q{k}",
            "query": "q",
            "qrels": {"good": 1},
            "contexts": both if k in first else both[::-1],
        }
        for k in range(n)
    ]


@pytest.mark.parametrize(
    ("gate", "share", "outcome"),
    [
        ("change(RR) > -0.02", 0.9, "passed"),
        ("change(RR) > -0.02", 0.1, "failed"),
        ("change(RR) > -0.02", 0.45, "undecided"),
        ("change(RR) > 0.05", 0.9, "passed"),
        ("change(RR) < 0.02", 0.1, "passed"),
        ("change(RR) < 0.02", 0.9, "failed"),
    ],
)
def test_a_gate_on_the_change_is_decided_by_the_whole_interval(gate: str, share: float, outcome: str) -> None:
    """On one side of the limit: passed or failed; with the limit inside: undecided, and what would decide it."""
    baseline, report = evaluate(rows(0.5), "RR"), evaluate(rows(share, 2), "RR")
    (result,) = change_gates([Gate.parse(gate)], report, baseline)
    assert result.outcome == outcome
    assert ("would decide it" in result.detail) == (outcome == "undecided")


def test_only_what_is_worse_for_certain_is_a_regression() -> None:
    """A mean that fell within the noise passes."""
    baseline = evaluate(rows(0.5), "RR")
    noise, worse = evaluate(rows(0.45, 2), "RR"), evaluate(rows(0.1, 2), "RR")
    assert (noise["RR"].mean or 0) < (baseline["RR"].mean or 0)
    assert [one.outcome for one in regressions(noise, baseline)] == ["passed"]
    assert [one.outcome for one in regressions(worse, baseline)] == ["failed"]


def test_another_judge_than_the_baselines_decides_nothing() -> None:
    """The gate is undecided and names both."""
    first, second = (
        evaluate(rows(0.5), "context_precision@2", judge=FakeJudge(name=name)) for name in ("one", "two")
    )
    (result,) = change_gates([Gate.parse("change(context_precision@2)>-0.5")], second, first)
    assert result.outcome == "undecided"
    assert "was judged by one" in result.detail


def test_margins_are_texts_with_a_measure_and_a_number() -> None:
    """Per cent is a number too."""
    assert parse_margins(["nDCG@10: 0.02", "P(rel=2)@5: 2%"]) == {"nDCG@10": 0.02, "P(rel=2)@5": 0.02}
    for text in ("nDCG@10", "nDCG@10: -1", "nDCG@10: x", ": 0.1"):
        with pytest.raises(InputError, match=r"write 'nDCG@10: 0\.02'"):
            parse_margins([text])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An eval file with a gate on the change, beside the reports of a good and of a bad system."""
    monkeypatch.chdir(tmp_path)
    for name, share in (("good", 0.9), ("bad", 0.1)):
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(share, 2)))
        evaluate(rows(share, 2), "RR").save(f"reports/{name}")
        Path(f"{name}.yaml").write_text(
            f"measures: [RR]\ngates: ['change(RR) > -0.02']\ndata: {name}.jsonl\n"
        )
    Path("bad.json").write_text(json.dumps(Report.open("reports/bad").to_json()))
    return tmp_path


@pytest.mark.parametrize(
    ("file", "baseline", "code"),
    [("good", "reports/bad", 0), ("good", "bad.json", 0), ("bad", "reports/good", 1), ("good", None, 3)],
)
def test_an_eval_file_gates_on_the_change(folder: Path, file: str, baseline: str | None, code: int) -> None:
    """Against a report folder or a document; without a baseline it is undecided. The report says so when it is opened."""
    report = run(Options(paths=(f"{file}.yaml",), baseline=baseline, folder="new"))
    assert report.verdict.exit_code == code
    assert [gate.gate for gate in report.verdict.gates] == ["change(RR)>-0.02"]
    again = Report.open(folder / "new")
    assert again.verdict == report.verdict
    assert rescore(again, []).verdict == report.verdict
    assert rescore(again, [], gates=["mean(RR)>=0"]).verdict.passed


def test_fail_on_regression_needs_no_gate(folder: Path) -> None:
    """Every measure is held against the latest report in a folder of reports."""
    data = str(folder / "bad.jsonl")
    report = run(
        Options(
            paths=(data,), measures=("RR",), baseline="reports/good", fail_on_regression=True, folder="new"
        )
    )
    assert report.verdict.exit_code == 1
    assert report.verdict.gates[0].gate == "no regression in RR"
    with pytest.raises(InputError, match="give --baseline REPORT"):
        run(Options(paths=(data,), measures=("RR",), fail_on_regression=True))
    with pytest.raises(InputError, match="there is no report elsewhere"):
        run(Options(paths=(data,), measures=("RR",), baseline="elsewhere"))
