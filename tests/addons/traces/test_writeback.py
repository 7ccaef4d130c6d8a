"""What is written back to the tools that hold traces: events, annotations and scores, each with whose label it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from germane import Report, evaluate
from germane.errors import InputError
from germane.judges.llm import LLMJudge
from tests.command import invoke
from tests.server import ModelServer

TRACE, SPANS = "5b8efff798038103d269b633813fc60c", ("eee19b7ec3c1b174", "eee19b7ec3c1b175")
AGENT: dict[str, Any] = {
    "id": TRACE,
    "query": "When is high tide?",
    "calls": [
        {"query": "tide", "contexts": [{"id": "d1", "text": "High tide is at noon."}]},
        {"query": "noon", "contexts": [{"id": "d2", "text": "Bread."}, {"id": "d3", "text": "High tide."}]},
    ],
    "metadata": {"spans": SPANS},
}
ONE = {**AGENT, "id": "a" * 32, "metadata": {"spans": SPANS[:1]}, "calls": AGENT["calls"][:1]}


def lines(report: Report, path: Path) -> list[Any]:
    report.save(path)
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def judged() -> Report:
    with ModelServer() as server:
        judge = LLMJudge("openai:m", base_url=server.url, api_key="k")
        return evaluate([AGENT, ONE], "context_precision", judge=judge)


def test_labels_are_annotations_of_the_documents_of_spans(judged: Report, tmp_path: Path) -> None:
    """A judge's and a person's, each at its place in the list of its own span."""
    judged.save(tmp_path / "report")
    report = Report.open(tmp_path / "report")
    place = next(one for one in report.places() if (one.sample, one.call, one.rank) == (TRACE, 2, 1))
    row = {
        "item": place.item,
        "answer": 3,
        "scale": "graded",
        "who": "ann",
        "at": "2026-11-21T15:00:00+00:00",
    }
    (tmp_path / "labels.jsonl").write_text(json.dumps(row))
    assert invoke("label", tmp_path / "report", "--import", tmp_path / "labels.jsonl").code == 0
    report = Report.open(tmp_path / "report")
    found = [one for line in lines(report, tmp_path / "x.phoenix.jsonl") for one in line["data"]]
    machine = [one for one in found if one["annotator_kind"] == "LLM"]
    assert [(one["span_id"], one["document_position"]) for one in machine] == [
        (SPANS[0], 0), (SPANS[1], 0), (SPANS[1], 1), (SPANS[0], 0),
    ]  # fmt: skip
    assert {one["metadata"]["judge"] for one in machine} == {"openai:m"}
    (person,) = [one for one in found if one["annotator_kind"] == "HUMAN"]
    assert (person["span_id"], person["document_position"]) == (SPANS[1], 0)
    assert (person["result"], person["metadata"]["judge"]) == ({"label": "relevant", "score": 3.0}, "ann")


def test_scores_have_the_same_id_each_time(judged: Report, tmp_path: Path) -> None:
    """What is posted twice replaces what was there."""
    first, second = (lines(judged, tmp_path / f"{n}.langfuse.jsonl") for n in range(2))
    assert first == second
    assert [one["traceId"] for one in first] == [TRACE, "a" * 32]
    assert len({one["id"] for one in first}) == 2
    assert first[0]["metadata"]["label_source"] == "judge"


def test_samples_that_are_no_traces_are_refused(tmp_path: Path) -> None:
    """Nothing is written where no sample names a span."""
    report = evaluate([{"query": "q", "contexts": ["a", "b"]}], "context_redundancy@2")
    for name in ("phoenix", "langfuse"):
        with pytest.raises(InputError, match="no sample of this report comes from a trace"):
            report.save(tmp_path / f"x.{name}.jsonl")
    assert list(tmp_path.iterdir()) == []
