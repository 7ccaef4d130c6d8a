"""`germane audit --gold`: planted errors first."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from germane.statistics.agreement import doubt_of_labels
from tests.command import Ran, invoke

QUERIES, PASSAGES = 12, 6


def run(folder: Path, *words: object) -> Ran:
    return invoke(*(str(folder / word) if isinstance(word, Path) else word for word in words))


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A report of the lexical judge, who is right but for what is planted: of q0 and q1 one gold label each is wrong."""
    with (tmp_path / "s.jsonl").open("w") as file:
        for n in range(QUERIES):
            relevant = [k % 2 == 0 for k in range(PASSAGES)]
            texts = [f"lake {n} deep water" if yes else "stone and iron elsewhere" for yes in relevant]
            gold = {f"d{n}{k}": int(yes) for k, yes in enumerate(relevant)}
            if n < 2:
                gold[f"d{n}{n}"] = 1 - gold[f"d{n}{n}"]
            contexts = [{"id": f"d{n}{k}", "text": f"{text} {k}"} for k, text in enumerate(texts)]
            row = {"id": f"q{n}", "query": f"lake {n} deep water", "qrels": gold, "contexts": contexts}
            file.write(json.dumps(row) + "\n")
    measures = "P@3 context_relevance"
    done = invoke(
        "run", tmp_path / "s.jsonl", "-m", measures, "--judge", "lexical", "--no-cache", "-o", tmp_path / "r"
    )
    assert done.code == 0, done.err
    return tmp_path / "r"


def test_planted_errors_come_first(report: Path) -> None:
    """Ranked by doubt, with the gold and the judge's grade of each; the text lists the first of them."""
    found = invoke("audit", "--gold", report, "--json").json
    first, second = found["suspects"][:2]
    assert {(one["sample"], one["id"]) for one in (first, second)} == {("q0", "d00"), ("q1", "d11")}
    assert {one["id"]: one["gold"] for one in (first, second)} == {"d00": 0, "d11": 1}
    assert first["doubt"] > 0.5 > found["suspects"][2]["doubt"]
    assert found["places"] == len(found["suspects"]) == QUERIES * PASSAGES
    text = invoke("audit", "--gold", report).out
    assert "gold was not changed" in text
    assert "d00" in text


def test_a_judge_of_several_reports_has_one_vote(report: Path, tmp_path: Path) -> None:
    """Another system's report by the same judge raises no doubt."""
    again = ("run", tmp_path / "s.jsonl", "-m", "context_relevance", "--judge", "lexical", "--no-cache")
    assert invoke(*again, "-o", tmp_path / "again").code == 0
    alone, both = (
        invoke("audit", "--gold", report, *more, "--json").json for more in ([], [tmp_path / "again"])
    )
    assert both == alone
    assert both["judges"] == ["lexical"]


def test_reports_without_gold_or_verdicts(tmp_path: Path) -> None:
    """What is missing is said."""
    row = {"id": "q", "query": "x", "contexts": [{"id": "a", "text": "x", "grade": 3}]}
    for name, more, problem in (
        ("a", {}, "has gold"),
        ("b", {"qrels": {"a": 1}}, "no judge graded a passage"),
    ):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({**row, **more}) + "\n")
        words = ("-m", "context_relevance", "--judge", "labels", "-o", tmp_path / name)
        assert invoke("run", tmp_path / f"{name}.jsonl", *words).code == 0
        done = invoke("audit", "--gold", tmp_path / name)
        assert done.code == 2
        assert problem in done.err


def test_doubt_of_labels() -> None:
    """A judge that is right is believed, one that guesses is not; a query's own rate counts; what has no label counts as a no."""
    rng = np.random.default_rng(1)
    truth, queries = (rng.random(400) < 0.5).astype(float), np.arange(400) // 20
    labels = truth.copy()
    labels[:10] = 1 - labels[:10]
    good = np.where(rng.random(400) < 0.95, 3 * truth, 3 - 3 * truth)
    doubts = doubt_of_labels(labels, [good, rng.integers(0, 4, 400)], queries)
    assert len({*np.argsort(-doubts)[:25]} & {*range(10)}) >= 8
    assert doubt_of_labels(labels, [rng.integers(0, 4, 400)], queries).max() < 0.85
    open_ = np.where(np.arange(400) == 399, np.nan, truth)
    assert doubt_of_labels(open_, [3 * truth], queries)[399] == pytest.approx(truth[399], abs=0.1)
