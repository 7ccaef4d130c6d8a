"""An answer, row, search or span that says it failed is an error of its sample, whatever its list holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from germane import evaluate
from tests.command import invoke

GOOD = {"id": "a", "query": "tides", "qrels": {"d1": 1}, "contexts": [{"id": "d1", "text": "The tides."}]}
BAD = {"id": "b", "query": "bread", "qrels": {"d2": 1}}
TOOL = {"tool": "search", "input": {"query": "bread"}, "output": {"results": [], "error": "timeout"}}


@pytest.mark.parametrize(
    "failed",
    [
        {"contexts": [], "error": "timeout after 30 s"},
        {"contexts": [{"id": "d2", "text": "y"}], "error": "timeout"},
        {"calls": [], "error": {"code": 429, "message": "timeout"}},
        {"retrieved_context_ids": [], "error": "timeout"},
        {"calls": [{"query": "bread", "contexts": [], "error": "timeout"}]},
        {"calls": [{"query": "rye", "error": "timeout"}, {"query": "bread", "contexts": [{"id": "d2"}]}]},
        {"contexts": [], "error": True},
    ],
    ids=str,
)
def test_a_failed_row_is_an_error(failed: dict[str, Any], tmp_path: Path) -> None:
    """The mean is that of the others, and the exit code says that it is not known."""
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in (GOOD, BAD | failed)))
    ran = invoke("run", file, "-m", "RR context_precision", "--judge", "lexical", "--json", "--no-cache")
    assert ran.code == 3, ran.err
    for measure in ran.json["measures"].values():
        assert (measure["mean"], measure["n"], measure["errors"]) == (1.0, 1, 1)
    lines = ran.json.get("searches") or []
    assert all(line["recall"] in {None, 1.0} for line in lines)


@pytest.mark.parametrize(
    "fine",
    [
        {"contexts": [], "error": ""},
        {"contexts": [], "error": False},
        {"calls": [{"contexts": [], "error": None}]},
        {"calls": [{"query": "rye", "error": "timeout"}, {"query": "rye", "contexts": []}]},  # asked again
    ],
    ids=str,
)
def test_an_error_that_says_no_is_none(fine: dict[str, Any]) -> None:
    """Nothing was retrieved, and that counts 0."""
    assert evaluate([GOOD, BAD | fine], "RR")["RR"].mean == 0.5


@pytest.mark.parametrize(
    "answer",
    [
        {"contexts": [], "error": "429"},
        {"calls": [{"query": "bread", "contexts": [], "error": "429"}]},
        json.dumps({"retrieved_contexts": [], "error": "429"}),
        {"messages": [{"role": "assistant", "content": "?", "tool_calls": [TOOL]}]},
    ],
    ids=str,
)
def test_a_failed_answer_is_an_error(answer: Any) -> None:
    """Of a function or, as its text, of a command or an endpoint."""
    questions = [{key: row[key] for key in ("id", "query", "qrels")} for row in (GOOD, BAD)]
    report = evaluate(questions, "RR", target=lambda query: GOOD["contexts"] if query == "tides" else answer)
    assert (report["RR"].mean, report["RR"].n, report["RR"].errors) == (1.0, 1, 1)


def test_an_answer_without_contexts_is_graded(tmp_path: Path) -> None:
    """That no contexts were found in it is an error of the measures that need them."""
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: mock, response: hello world}]")
    (tmp_path / "q.jsonl").write_text('{"id": "s", "query": "hello world"}')
    measures = "[answer_relevancy, context_precision]"
    (tmp_path / "e.yaml").write_text(f"target: t\njudge: lexical\nmeasures: {measures}\ndata: q.jsonl\n")
    ran = invoke("run", tmp_path / "e.yaml", "--json", "--no-cache", "-o", tmp_path / "report")
    statuses = [score["status"] for score in ran.json["scores"]]
    assert (statuses, ran.code) == (["ok", "error"], 3), ran.err


def test_rank_refuses_a_failed_query(tmp_path: Path) -> None:
    """It has no errors of queries: 0 would be a wrong number."""
    (tmp_path / "run.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in (GOOD, BAD | {"contexts": [], "error": "429"}))
    )
    (tmp_path / "gold.tsv").write_text("query\tdoc\trel\na\td1\t1\nb\td2\t1\n")
    ran = invoke("rank", tmp_path / "run.jsonl", "--qrels", tmp_path / "gold.tsv", "-m", "RR")
    assert (ran.code, "run.jsonl:2: this query failed: 429; use `germane run`" in ran.err) == (2, True), (
        ran.err
    )
