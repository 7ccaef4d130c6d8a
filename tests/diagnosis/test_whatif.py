"""What would help: each change is the measure computed again on changed lists; planted causes are found, and none where there is none."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from scripts.reference_pages import schema_of

from germane import Report, evaluate
from germane.diagnosis.diagnosis import (
    ChangeRow,
    SystemDiagnosis,
    diagnose,
)
from germane.diagnosis.stages import document_of
from germane.errors import InputError
from germane.types import Json
from tests.command import invoke

PUBLISHED = Path(__file__).parents[2] / "docs" / "schema" / "diagnosis.schema.json"


def row(ids: str, qrels: dict[str, int], **more: Any) -> dict[str, Json]:
    contexts = [{"id": name, "text": f"text of {name.rstrip('2')}"} for name in ids.split()]
    return {"query": "a", "contexts": contexts, "qrels": qrels, **more}


def found(report: Report, measure: str | None = None) -> tuple[SystemDiagnosis, dict[str, ChangeRow]]:
    (one,) = diagnose(report, measure)
    return one, {f"{line.kind}{line.k or ''}": line for line in one.changes}


def excludes_zero(line: ChangeRow, sign: int = 1) -> bool:
    ends = line.interval
    return ends is not None and min(sign * end for end in ends) > 0


def test_each_change_is_the_measure_on_changed_lists() -> None:
    """RR of n n a b: 1/3; reranked 1; without what is not relevant 1; at k = 2 nothing."""
    report = evaluate([row("n m a b", {"a": 1, "b": 1, "c": 1})], "RR@5 R@3")
    one, lines = found(report)
    assert (one.measure, one.mean, one.n, one.total) == ("RR@5", 1 / 3, 1, 1)
    assert {name: line.mean for name, line in lines.items()} == {
        "rerank": 1.0,
        "ideal": 1.0,
        "k2": 0.0,
        "k3": 1 / 3,
        "filter": 1.0,
    }
    _, lines = found(report, "R@3")
    assert lines["ideal"].mean == 1.0
    assert lines["rerank"].mean == 2 / 3
    assert lines["k2"].mean == 0.0


def test_the_mean_is_that_of_the_report() -> None:
    """Over the samples that could be measured; the others are counted."""
    rng = random.Random(1)
    rows = [row(" ".join(rng.sample("abcdefgh", 6)), {"a": 2, "b": 1}, id=f"q{n}") for n in range(20)]
    report = evaluate(
        [*rows, {"query": "a", "contexts": []}], "nDCG@5 AP RR@3 P@3 context_precision@4", judge="gold"
    )
    for name in report.measures:
        one, _ = found(report, name)
        assert (one.n, one.total) == (report[name].n, 21)
        assert one.mean == pytest.approx(report[name].mean, abs=1e-12)


def test_trials_of_a_case_are_averaged() -> None:
    """As in the report's mean, however many trials each case has: a case is one win, tie or loss."""
    trials = [
        row("b a", {"a": 1}, id="q1", trial=0),
        row("a b", {"a": 1}, id="q1", trial=1),
        row("b c", {"a": 1}, id="q2"),
    ]
    report = evaluate(trials, "RR")
    one, lines = found(report)
    assert (one.mean, one.n, one.total) == (report["RR"].mean, 2, 2) == (0.375, 2, 2)
    assert (lines["rerank"].mean, lines["rerank"].wins, lines["rerank"].ties) == (0.5, 1, 1)


def test_a_judges_labels_do_as_well() -> None:
    """Of the places that were judged: beyond them no k is tried."""
    texts = ["high tide is at noon", "bread", "tide tables", "cake"]
    rows = [
        {"id": f"q{n}", "query": f"when is high tide {n}", "contexts": texts[n % 4 :] + texts[: n % 4]}
        for n in range(8)
    ]
    report = evaluate(rows, "context_precision@2", judge="lexical")
    one, lines = found(report)
    assert one.mean == pytest.approx(report["context_precision@2"].mean)
    assert "ideal" not in lines
    assert lines["rerank"].losses == 0
    assert any("k = 3 was not tried" in note for note in one.notes)


def planted(n: int, seed: int, cause: str) -> list[dict[str, Json]]:
    """Queries with two relevant documents of twelve, in a perfect list but for one planted cause."""
    rng, found = random.Random(seed), []
    for number in range(n):
        gold = [f"g{number}", f"h{number}"]
        others = [f"n{number}-{at}" for at in range(10)]
        ids = [*gold, *others]
        texts = {name: f"text of {name}" for name in ids}
        if cause == "order":
            rng.shuffle(ids)
        if cause == "duplicates":
            ids = [others[0], *gold, *others[1:]]
            ids.insert(1, f"{others[0]}-again")
            texts[ids[1]] = texts[others[0]]
        if cause == "k":
            ids = [gold[0], *others[:6], gold[1], *others[6:]]
        if cause == "retrieval":
            ids = ids[1:]
        scores = {name: rng.gauss(0, 1) for name in ids}
        if cause == "noise":
            scores = {name: (2.0 if name in gold else 0.0) + rng.random() for name in ids}
        contexts = [{"id": name, "text": texts[name], "score": scores[name]} for name in ids]
        found.append(
            {"id": f"q{number}", "query": "a", "qrels": dict.fromkeys(gold, 1), "contexts": contexts}
        )
    return found


@pytest.mark.parametrize(
    ("cause", "measure", "helps"),
    [
        ("order", "nDCG@5", {"rerank", "ideal", "k10", "filter"}),
        ("duplicates", "RR@10", {"rerank", "ideal", "filter"}),
        ("k", "R@5", {"rerank", "ideal", "k10", "filter"}),
        ("retrieval", "R@5", {"ideal"}),
        ("noise", "context_relevancy(labels=gold,unit=context)", {"ideal", "filter"}),
        ("none", "nDCG@10", set()),
    ],
)
def test_planted_causes_are_found_each_alone(cause: str, measure: str, helps: set[str]) -> None:
    """What was planted helps, and nothing else does."""
    _, lines = found(evaluate(planted(60, 1, cause), measure))
    assert {name for name, line in lines.items() if excludes_zero(line)} == helps


def test_no_cause_where_none_was_planted() -> None:
    """Fifty times: perfect lists, scores by chance. No change helps for certain."""
    for seed in range(50):
        one, lines = found(evaluate(planted(25, seed, "none"), "nDCG@10"))
        assert not [name for name, line in lines.items() if excludes_zero(line)]
        assert one.queries == []


def test_the_queries_that_gain_most_come_first() -> None:
    """With the change that adds most to each; those that gain nothing are not there."""
    rows = [
        row("a n m", {"a": 1}, id="good"),
        row("n m a", {"a": 1}, id="worst"),
        row("n a m", {"a": 1}, id="bad"),
    ]
    one, _ = found(evaluate(rows, "RR"))
    assert [(query.sample, round(query.gain, 4)) for query in one.queries] == [
        ("worst", 0.6667),
        ("bad", 0.5),
    ]
    assert one.queries[0].change == "perfect reranking of the retrieved documents"


def test_where_only_retrieval_helps_its_gains_are_listed() -> None:
    """Of lists in perfect order, the query that lacks the most comes first, and a query that lacks nothing is not there."""
    samples = [
        {"id": "half", "query": "a", "qrels": {"x": 1, "y": 1}, "contexts": [{"id": "x"}]},
        {"id": "none", "query": "b", "qrels": {"x": 1}, "contexts": [{"id": "n"}]},
        {"id": "all", "query": "c", "qrels": {"x": 1}, "contexts": [{"id": "x"}]},
    ]
    (diagnosis,) = diagnose(evaluate(samples, "R@2"))
    gains = [(query.sample, query.change, query.gain) for query in diagnosis.queries]
    ideal = "all relevant documents retrieved and ranked first"
    assert gains == [("none", ideal, 1.0), ("half", ideal, 0.5)]


def test_from_the_shell(tmp_path: Path) -> None:
    """One table, the queries below it, and a document of the published shape; a system each where there are several."""
    rows = planted(20, 1, "order")
    evaluate(rows, "context_redundancy nDCG@5").save(tmp_path / "r")
    both = [{**one, "system": system} for system in ("x", "y") for one in rows]
    evaluate(both, "nDCG@5").save(tmp_path / "both")
    out = invoke("diagnose", tmp_path / "r").out
    assert "perfect reranking" in out
    assert "at most" in out
    assert "queries with the largest gain" in out
    document = json.loads(invoke("diagnose", tmp_path / "r", "-m", "nDCG@5", "--json").out)
    jsonschema.validate(document, schema_of(list[SystemDiagnosis]))
    assert document["measure"] == "nDCG@5"
    several = json.loads(invoke("diagnose", tmp_path / "both", "--json").out)
    jsonschema.validate(several, schema_of(list[SystemDiagnosis]))
    assert [one["system"] for one in several["systems"]] == ["x", "y"]
    assert several["systems"][0]["changes"] == document["changes"]


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        ("context_redundancy", "is not a ranked measure"),
        ("Judged@10", "is not a ranked measure, or does not measure quality"),
        ("context_precision@5", "cannot be computed for any sample"),
        ("P", "needs a cut-off"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, measure: str, message: str) -> None:
    """A measure that cannot be diagnosed, or whose labels the report does not hold."""
    evaluate(planted(3, 1, "none"), "nDCG@5").save(tmp_path / "r")
    done = invoke("diagnose", tmp_path / "r", "-m", measure)
    assert (done.code, message in done.err) == (2, True), done.err


def test_a_report_without_ranked_measures_is_refused() -> None:
    """It says what the report has."""
    with pytest.raises(InputError, match="its measures: context_redundancy"):
        diagnose(evaluate(planted(3, 1, "none"), "context_redundancy"))


def test_the_published_schema_is_made_of_the_types() -> None:
    """docs/schema/diagnosis.schema.json is generated from the records."""
    assert json.loads(PUBLISHED.read_text("utf-8")) == schema_of(list[SystemDiagnosis])
    document = document_of(diagnose(evaluate(planted(12, 1, "noise"), "RR")))
    jsonschema.validate(json.loads(json.dumps(document)), schema_of(list[SystemDiagnosis]))
