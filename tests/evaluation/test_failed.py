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


@pytest.mark.parametrize("again", [False, True], ids=["failed", "asked again"])
def test_a_failed_span_is_an_error(again: bool, tmp_path: Path) -> None:
    """Whatever it returned, unless the same query was put again and answered."""

    def span(name: str, trace: str, start: int, document: str, status: str = "OK") -> dict[str, Any]:
        documents = [{"document.id": document, "document.content": "The moon makes the tides."}]
        return {
            "name": name,
            "context": {"trace_id": trace, "span_id": f"{trace}{start}"},
            "start_time": f"2026-11-28T12:00:{start:02}Z",
            "end_time": f"2026-11-28T12:00:{start:02}Z",
            "status_code": status,
            "attributes": {
                "openinference.span.kind": "RETRIEVER",
                "input.value": "what makes the tides",
                "retrieval.documents": documents if document else [],
            },
        }

    spans = [span("good", "a", 0, "d1"), span("bad", "b", 1, "", "ERROR")]
    spans += [span("again", "b", 2, "d1")] * again
    file = tmp_path / "spans.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in spans))
    ran = invoke("run", file, "-m", "context_precision", "--judge", "lexical", "--json", "--no-cache")
    measure = ran.json["measures"]["context_precision"]
    assert (measure["n"], measure["errors"], ran.code) == ((2, 0, 0) if again else (1, 1, 3))


def test_an_answer_without_contexts_is_graded(tmp_path: Path) -> None:
    """That no contexts were found in it is an error of the measures that need them."""
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: mock, response: hello world}]")
    measures = "[{type: contains, value: hello}, answer_relevancy, context_precision]"
    cases = "evalcases: [{id: s, query: hello world}]"
    (tmp_path / "e.yaml").write_text(f"target: t\njudge: lexical\nmeasures: {measures}\n{cases}\n")
    ran = invoke("run", tmp_path / "e.yaml", "--json", "--no-cache", "-o", tmp_path / "report")
    statuses = [score["status"] for score in ran.json["scores"]]
    assert (statuses, ran.code) == (["ok", "ok", "error"], 3), ran.err


def test_rank_refuses_a_failed_query(tmp_path: Path) -> None:
    """It has no errors of queries: 0 would be a wrong number."""
    (tmp_path / "run.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in (GOOD, BAD | {"contexts": [], "error": "429"}))
    )
    (tmp_path / "gold.tsv").write_text("query\tdoc\trel\na\td1\t1\nb\td2\t1\n")
    ran = invoke("rank", tmp_path / "run.jsonl", "--qrels", tmp_path / "gold.tsv", "-m", "RR")
    assert (ran.code, "run.jsonl:2: this query failed: 429; use germane run" in ran.err) == (2, True), ran.err
