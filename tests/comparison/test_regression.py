"""Gates on the change against a baseline: three ways to end, and what they rest on."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from germane import Report, evaluate
from germane.comparison.compare import compare, parse_margins
from germane.comparison.regression import change_gates, pairs_with, regressions
from germane.errors import InputError
from germane.evaluation.evaluate import rescore
from germane.evaluation.run import run
from germane.evaluation.spec import Spec
from germane.judges.judge import FakeJudge
from germane.reports.gates import Gate
from germane.reports.report import find_report


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
    (result,) = change_gates([Gate.parse(gate)], pairs_with(report, baseline))
    assert result.outcome == outcome
    assert ("would decide if" in result.detail) == (outcome == "undecided")


def test_only_what_is_worse_for_certain_is_a_regression() -> None:
    """A mean that fell within the noise passes."""
    baseline = evaluate(rows(0.5), "RR")
    noise, worse = evaluate(rows(0.45, 2), "RR"), evaluate(rows(0.1, 2), "RR")
    assert (noise["RR"].mean or 0) < (baseline["RR"].mean or 0)
    assert [one.outcome for one in regressions(pairs_with(noise, baseline))] == ["passed"]
    assert [one.outcome for one in regressions(pairs_with(worse, baseline))] == ["failed"]


def test_another_judge_than_the_baselines_decides_nothing() -> None:
    """The gate is undecided and names both."""
    first, second = (
        evaluate(rows(0.5), "context_precision@2", judge=FakeJudge(name=name)) for name in ("one", "two")
    )
    (result,) = change_gates([Gate.parse("change(context_precision@2)>-0.5")], pairs_with(second, first))
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
    report = run(Spec.of(paths=(f"{file}.yaml",), baseline=baseline, folder="new"))
    assert report.verdict.exit_code == code
    assert [gate.gate for gate in report.verdict.gates] == ["change(RR)>-0.02"]
    again = Report.open(folder / "new")
    assert again.verdict == report.verdict
    assert rescore(folder / "new", []).verdict == report.verdict
    assert rescore(folder / "new", [], gates=["mean(RR)>=0"]).verdict.passed


def test_fail_on_regression_needs_no_gate(folder: Path) -> None:
    """Every measure is held against the latest report in a folder of reports."""
    data = str(folder / "bad.jsonl")
    report = run(
        Spec.of(
            paths=(data,), measures=("RR",), baseline="reports/good", fail_on_regression=True, folder="new"
        )
    )
    assert report.verdict.exit_code == 1
    assert report.verdict.gates[0].gate == "not significantly worse in RR"
    with pytest.raises(InputError, match="give --baseline REPORT"):
        run(Spec.of(paths=(data,), measures=("RR",), fail_on_regression=True))
    with pytest.raises(InputError, match="there is no report at elsewhere"):
        run(Spec.of(paths=(data,), measures=("RR",), baseline="elsewhere"))


def renamed(given: list[dict[str, Any]], first: int) -> list[dict[str, Any]]:
    """The same queries, those from this place on under other ids."""
    return [row if number < first else {**row, "id": f"new-{row['id']}"} for number, row in enumerate(given)]


@pytest.mark.parametrize(
    ("report", "baseline", "said"),
    [
        (
            rows(0.9),
            renamed(rows(0.5), 0),
            "only 0 queries have RR in both reports, of the 60 queries of the baseline and the 60 of this report",
        ),
        (
            rows(0.9),
            renamed(rows(0.5), 12),
            "only 12 queries have RR in both reports, of the 60 queries of the baseline and the 60 of this",
        ),
        (
            rows(0.9)[:20],
            rows(0.5),
            "only 20 queries have RR in both reports, of the 60 queries of the baseline and the 20 of this report",
        ),
        (
            rows(0.9),
            rows(0.5)[:29],
            "only 29 queries have RR in both reports, of the 29 queries of the baseline and the 60 of this report",
        ),
    ],
)
def test_too_few_queries_in_common_decide_nothing(report: Any, baseline: Any, said: str) -> None:
    """Fewer than half of either side's: undecided, by flag and by gate, with both counts; half of them decide."""
    new, old = evaluate(report, "RR"), evaluate(baseline, "RR")
    gates = [
        *regressions(pairs_with(new, old)),
        *change_gates([Gate.parse("change(RR)>-0.9")], pairs_with(new, old)),
    ]
    assert [one.outcome for one in gates] == ["undecided"] * 2
    assert all(said in one.detail for one in gates)
    half = evaluate(renamed(rows(0.5), 30), "RR")
    assert [one.outcome for one in regressions(pairs_with(evaluate(rows(0.9), "RR"), half))] == ["passed"]


def test_queries_that_were_not_measured_are_not_in_common() -> None:
    """A baseline whose scores were nearly all skipped holds nothing to compare with, whatever its ids."""
    bare = [{**row, "qrels": None} if number > 5 else row for number, row in enumerate(rows(0.5))]
    (result,) = regressions(pairs_with(evaluate(rows(0.9), "RR"), evaluate(bare, "RR")))
    assert (result.outcome, "of the 6 queries of the baseline and the 60" in result.detail) == (
        "undecided",
        True,
    )


def test_a_baseline_without_the_measures_decides_nothing(tmp_path: Path) -> None:
    """Another measure, a measure that says nothing of quality, no score at all."""
    report = evaluate(rows(0.9), "RR Judged@2")
    report.save(tmp_path / "r")
    (tmp_path / "empty.json").write_text(json.dumps({**report.to_json(), "scores": []}))
    for baseline in (
        evaluate(rows(0.5), "AP"),
        evaluate(rows(0.5), "Judged@2"),
        find_report(tmp_path / "empty.json"),
    ):
        (result,) = regressions(pairs_with(report, baseline))
        assert (result.outcome, "no measure in common" in result.detail) == ("undecided", True)


def test_a_change_that_may_be_a_loss_is_not_called_none() -> None:
    """What passes says how much worse it may be."""
    (noise,) = regressions(pairs_with(evaluate(rows(0.45, 2), "RR"), evaluate(rows(0.5), "RR")))
    assert "no regression" not in f"{noise.gate} {noise.detail}"
    assert "a loss within this interval is not excluded" in noise.detail
    (better,) = regressions(pairs_with(evaluate(rows(1.0, 2), "RR"), evaluate(rows(0.1), "RR")))
    assert "not excluded" not in better.detail


def worse_in(k: int) -> list[dict[str, Any]]:
    """The queries with the relevant document moved from the first place to the second in k of them."""
    found = rows(1.0)
    return [{**row, "contexts": row["contexts"][::-1]} if n < k else row for n, row in enumerate(found)]


def test_regressions_are_adjusted_over_the_measures() -> None:
    """The smallest loss that fails by itself does not among many measures; what describes the lists is not counted."""
    old = evaluate(rows(1.0), "RR")
    losses = ((k, regressions(pairs_with(evaluate(worse_in(k), "RR"), old))[0]) for k in range(1, 40))
    k, found = next((k, one) for k, one in losses if one.outcome == "failed")
    assert "p (Holm) 0.0" in found.detail
    several = " ".join(["RR num_ret Judged@2 num_rel_ret", *(f"P@{n}" for n in range(2, 100))])
    results = regressions(pairs_with(evaluate(worse_in(k), several), evaluate(rows(1.0), several)))
    names = [one.gate.rpartition(" ")[2] for one in results]
    assert names == ["RR", "num_rel_ret", *(f"P@{n}" for n in range(2, 100))]
    assert {one.outcome for one in results} == {"passed"}
    assert (
        regressions(pairs_with(evaluate(worse_in(40), several), evaluate(rows(1.0), several)))[0].outcome
        == "failed"
    )


@pytest.mark.parametrize("name", ["score", "name"])
def test_a_document_with_two_scores_of_one_name_is_refused(tmp_path: Path, name: str) -> None:
    """Whichever of them counted, the other would be lost in silence."""
    document = evaluate(rows(0.5), "RR AP").to_json()
    first, second = document["scores"][:2]
    twice = {**first, "value": 1.0} if name == "score" else {**second, "measure": "RR", "type": "RR"}
    (tmp_path / "d.json").write_text(json.dumps({**document, "scores": [*document["scores"], twice]}))
    with pytest.raises(InputError, match="two scores of RR for the sample 'q0'; remove one"):
        find_report(tmp_path / "d.json")


@pytest.mark.parametrize("margin", [{"RR": 5}, ["RR: 200%"]])
def test_a_margin_beyond_the_range_is_refused(margin: Any) -> None:
    """No loss could exceed it; so is a gate on such a change."""
    old, new = evaluate(rows(0.5), "RR"), evaluate(rows(0.9), "RR")
    with pytest.raises(InputError, match="more than RR can change: its values are from 0 to 1"):
        compare(old, new, margin=margin)
    with pytest.raises(InputError, match="asks for more than"):
        Gate.parse("change(RR)>-5").check_named(["RR"])


def test_a_margin_is_undecided_where_too_few_queries_are_shared() -> None:
    """The same rule as for gates; the gate has the counts."""
    old, new = evaluate(renamed(rows(0.5), 12), "RR"), evaluate(rows(0.9), "RR")
    found = compare(old, new, margin={"RR": 0.9})
    assert (found.exit_code, found["RR"].n) == (3, 12)
    assert found.gates[0].text.startswith(
        "no decision on RR: only 12 queries have RR in both reports, of the 60 queries"
    )
    assert found["RR"].outcome == "not shown"


def test_a_stand_in_decides_no_change(tmp_path: Path) -> None:
    """Neither a margin nor a gate, of reports or of documents, unless it may."""
    old, new = (evaluate(rows(share), "context_precision@2", judge="lexical") for share in (0.5, 0.9))
    for name, one in (("old", old), ("new", new)):
        (tmp_path / f"{name}.json").write_text(json.dumps(one.to_json()))
    margin = {"context_precision@2": 0.9}
    for sides in ((old, new), (tmp_path / "old.json", tmp_path / "new.json")):
        assert compare(*sides, margin=margin).exit_code == 3
        assert compare(*sides, margin=margin, allow_stand_in=True).exit_code == 0
    assert all(one.stand_in for one in regressions(pairs_with(new, old)))


def test_what_describes_the_labels_is_in_no_family_of_tests() -> None:
    """Judged@k has no adjusted p-value, and those of others do not grow by it."""
    old, new = (evaluate(rows(share, 2), "RR Judged@2 num_ret") for share in (0.5, 0.9))
    found = compare(old, new)
    assert found.primary == ("RR",)
    assert found["RR"].p_holm == found["RR"].p
    assert (found["Judged@2"].p_holm, found["num_ret"].p_holm) == (None, None)
    assert compare(old, new, primary="Judged@2")["Judged@2"].p_holm is None


def test_few_clusters_of_unequal_size_are_noted_beside_a_difference() -> None:
    """In the notes and in the gate on the change."""
    sizes = {str(number): size for number, size in enumerate([1, 1, 1, 2, 3, 5, 20])}
    rows = [
        {"id": f"{name}-{at}", "cluster": name, "query": "q", "qrels": {"d": 1}, "contexts": [{"id": "d", "text": "t"}]}
        for name, size in sizes.items()
        for at in range(size)
    ]  # fmt: skip
    report = evaluate(rows, "RR")
    note = "7 clusters of unequal size are worth 2.5 of equal size; with fewer than 20 the interval is too narrow"
    found = compare(report, report, names=["a", "b"], margin={"RR": 0.5})
    assert f"{note} (RR)" in found.notes
    assert note in (found.gates[0].sentence or "")
