"""Results of Inspect, promptfoo and DeepEval under `germane compare`."""

import json
import random
from pathlib import Path

import pytest

from germane import compare
from tests.command import invoke

FIXTURES = Path(__file__).parents[2] / "fixtures" / "results"
"""Written by the programs themselves (scripts/result_fixtures.py), each from the values of a.csv and b.csv."""
PROGRAMS = [
    ("inspect_ai-0.3.285-a.eval", "inspect_ai-0.3.285-b.json", "inspect_ai-0.3.285-failed.eval"),
    ("promptfoo-0.121.20-a.json", "promptfoo-0.121.20-b.jsonl", "promptfoo-0.121.20-failed.json"),
    ("deepeval-4.3.1-a.json", "deepeval-4.3.1-b.json", "deepeval-4.3.1-failed.json"),
]


@pytest.mark.parametrize(("a", "b", "failed"), PROGRAMS, ids=["Inspect", "promptfoo", "DeepEval"])
def test_exports_give_the_figures_of_the_values(a: str, b: str, failed: str) -> None:
    """Two of a program, one beside a table, and one in which a case failed: an error, not a zero."""
    numbers = ("difference", "p", "p_holm", "mde", "mean_a", "mean_b", "wins", "ties", "losses", "n")
    expected = invoke("compare", FIXTURES / "a.csv", FIXTURES / "b.csv", "--json").json["comparisons"]
    theirs = {row["measure"]: row for row in expected}
    for pair in ([a, b], [a, "b.csv"], ["a.csv", b]):
        done = invoke("compare", *(FIXTURES / name for name in pair), "--json")
        assert (done.code, done.json["notes"]) == (0, []), done.err
        assert {row["measure"] for row in done.json["comparisons"]} == theirs.keys()
        for row in done.json["comparisons"]:
            other = theirs[row["measure"]]
            assert [row[name] for name in numbers] == pytest.approx([other[name] for name in numbers])
            assert row["interval"] == pytest.approx(other["interval"], abs=1e-12)
    found = invoke("compare", FIXTURES / "b.csv", FIXTURES / failed, "--json").json
    assert {(row["n"], row["losses"]) for row in found["comparisons"]} == {(7, 0)}
    assert found["only_in"] == {name: [] for name in found["systems"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"test_results": ["x"]}', "this log or export has an unknown form"),
        ('{"eval": {"model": "m"}, "plan": {}}', "has no results per case"),
    ],
)
def test_what_is_wrong_with_an_export_is_said(tmp_path: Path, text: str, message: str) -> None:
    """One message; exit code 2."""
    (file := tmp_path / "a.json").write_text(text)
    done = invoke("compare", file, file)
    assert (done.code, message in done.err, "Traceback" in done.err) == (2, True, False), done.err


@pytest.mark.parametrize("shared", [False, True], ids=["description", "variables"])
def test_tests_of_promptfoo_are_named(tmp_path: Path, shared: bool) -> None:
    """By an id among variables or metadata, else by a description of their own, else by their variables; rows in any order."""
    for name in "ab":
        rows = [
            {"vars": {"x": n}, "testIdx": n, "promptIdx": 0, "score": n / 9, "success": True, "failureReason": 0,
             "provider": {"id": "openai:m"}, "testCase": {"description": "smoke" if shared else f"case {n}", "vars": {"x": n}}}
            for n in random.Random(name).sample(range(9), 9)
        ]  # fmt: skip
        (tmp_path / f"{name}.json").write_text(json.dumps({"results": {"version": 3, "results": rows}}))
    (row,) = invoke("compare", tmp_path / "a.json", tmp_path / "b.json", "--json").json["comparisons"]
    assert (row["measure"], row["n"], row["ties"]) == ("score", 9, 9)


def test_scores_of_limits_are_not_what_is_limited(tmp_path: Path) -> None:
    """An assertion on latency scores 1 within its limit."""
    for name, every in (("a", 3), ("b", 1)):
        rows = [
            {"vars": {"id": n}, "testIdx": n, "promptIdx": 0, "namedScores": {}, "failureReason": 0, "provider": "m",
             "gradingResult": {"componentResults": [{"score": n % 3 % every == 0, "pass": True, "assertion": {"type": "latency"}}]}}
            for n in range(40)
        ]  # fmt: skip
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (row,) = invoke("compare", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--json").json["comparisons"]
    assert (row["measure"], row["outcome"], row["difference"] > 0.5) == ("latency", "better", True)


def test_least_log_of_inspect(tmp_path: Path) -> None:
    """A log as JSON without what the figures do not need; grades are numbers."""
    samples = [
        {"id": n, "epoch": e, "scores": {"match": {"value": "CIPN"[n % 4]}}} for n in range(8) for e in (1, 2)
    ]
    (file := tmp_path / "a.json").write_text(
        json.dumps({"version": 2, "eval": {"model": "m"}, "samples": samples})
    )
    (row,) = invoke("compare", file, file, "--json").json["comparisons"]
    assert (row["measure"], row["n"], row["mean_a"]) == ("match", 8, 0.375)


def test_directions_that_deepeval_turned_round(tmp_path: Path) -> None:
    """A score beyond its threshold that is a success, or none, says whether more is better."""
    for name, more in (("a", 0.0), ("b", 0.3)):
        for kind, good in (("new", True), ("old", False)):
            scores = [0.1 + 0.4 * (n % 2) + more * (n % 3 > 0) for n in range(40)]
            cases = [
                {
                    "name": f"q{n}",
                    "input": "x",
                    "metrics_data": [
                        {"name": "Bias", "score": score, "threshold": 0.45, "success": (score > 0.45) == good}
                    ],
                }
                for n, score in enumerate(scores)
            ]
            (tmp_path / f"{kind}_{name}.json").write_text(json.dumps({"test_results": cases}))
    outcomes = {
        kind: compare(tmp_path / f"{kind}_a.json", tmp_path / f"{kind}_b.json")["Bias"].outcome
        for kind in ("new", "old")
    }
    assert outcomes == {"new": "better", "old": "worse"}
    done = invoke("compare", tmp_path / "new_a.json", tmp_path / "old_b.json")
    assert (done.code, "more is better in one result file" in done.err) == (2, True)


def test_damaged_log(tmp_path: Path) -> None:
    """One message; exit code 2."""
    whole = (FIXTURES / "inspect_ai-0.3.285-a.eval").read_bytes()
    (file := tmp_path / "a.eval").write_bytes(whole[:3000] + bytes(50) + whole[3050:])
    done = invoke("compare", file, file)
    assert (done.code, "Traceback" in done.err, "a.eval" in done.err) == (2, False, True), done.err
