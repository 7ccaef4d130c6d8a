"""`germane audit --gold`: planted errors first, a queue for people, and the mean as they corrected it."""

from __future__ import annotations

import csv
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


def test_planted_errors_come_first_and_people_decide(report: Path, tmp_path: Path) -> None:
    """Ranked by doubt and by what they move; people's answers correct the mean, never the gold."""
    found = invoke("audit", "--gold", report, "--json").json
    assert {(one["sample"], one["id"]) for one in found["suspects"][:2]} == {("q0", "d00"), ("q1", "d11")}
    first = {one["id"]: one for one in found["suspects"]}
    assert first["d00"]["moves"] == pytest.approx(1 / 3 / QUERIES)
    assert first["d11"]["moves"] == pytest.approx(-1 / 3 / QUERIES)
    assert first["d00"]["gold"] == 0
    means, now = found["means"], 2 / 3
    assert means["gold"] == means["corrected"] == pytest.approx(now)
    assert means["bounds"] == [pytest.approx(now - 1 / 3 / QUERIES), pytest.approx(now + 1 / 3 / QUERIES)]
    queue = tmp_path / "queue.csv"
    assert invoke("audit", "--gold", report, "-o", queue).code == 0
    rows = list(csv.DictReader(queue.read_text().splitlines()))
    assert len(rows) == QUERIES * PASSAGES
    assert {"gold", "grades"}.isdisjoint(rows[0])
    rows = [{**row, "grade": "3" if row["id"] == "d00" else "", "who": "ann"} for row in rows]
    with queue.open("w") as file:
        out = csv.DictWriter(file, list(rows[0]))
        out.writeheader()
        out.writerows(rows)
    done = invoke("label", report, "--import", queue)
    assert "1 label added" in done.err
    again = invoke("audit", "--gold", report, "--json").json["means"]
    assert (again["wrong"], again["looked_at"], again["open"]) == (1, 1, 1)
    assert again["corrected"] == pytest.approx(now + 1 / 3 / QUERIES)
    assert again["bounds"] == [pytest.approx(now), pytest.approx(now + 1 / 3 / QUERIES)]
    assert "gold is not changed" in invoke("audit", "--gold", report).out


def test_people_label_the_suspects_in_the_usual_session(report: Path) -> None:
    """--queue gold asks for them in the order of the audit, shows neither gold nor judge, and ends with the three means."""
    first = [one["passage"] for one in invoke("audit", "--gold", report, "--json").json["suspects"][:2]]
    keys = "".join("3" if passage.startswith("lake") else "0" for passage in first)
    done = invoke("label", report, "--queue", "gold", "--budget", "2", "--who", "ann", stdin=keys)
    assert done.code == 0, done.err
    assert [done.out.index(passage) for passage in first] == sorted(done.out.index(one) for one in first)
    last = done.out.splitlines()[-3:]
    assert last[0].startswith("P@3: ")
    assert "as people corrected it: 2 of the 2 places that they looked at are wrong" in last[1]
    assert "suspects are that nobody looked at" in last[2]
    again = invoke("label", report, "--queue", "gold", "--budget", "2", "--who", "ann")
    assert "2 to label (targeted passages, seed 0), 2 done" in again.out


def test_reports_without_gold_or_verdicts(tmp_path: Path) -> None:
    """What is missing is said."""
    row = {"id": "q", "query": "x", "contexts": [{"id": "a", "text": "x", "grade": 3}]}
    for name, more, problem in (
        ("a", {}, "has gold"),
        ("b", {"qrels": {"a": 1}}, "no judge judged a passage"),
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
