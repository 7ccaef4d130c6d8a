"""Passages in the answers of systems: one reader, whatever the tool calls them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from germane import evaluate

TEXT = "The moon makes the tides."
QUESTIONS = [{"id": "a", "query": "What makes the tides?", "qrels": {"d1": 1}, "reference": TEXT}]
PASSAGE = {"content": TEXT, "id": "d1"}


@pytest.mark.parametrize(
    "answer",
    [
        [PASSAGE],
        [{"page_content": TEXT, "metadata": {"doc_uri": "d1"}}],
        [{"text": TEXT, "metadata": {"id": "d1", "page": 3}}],
        [{"text": TEXT, "id": None, "metadata": {"document_id": "d1"}}],
        {"documents": [PASSAGE]},
        {"results": [PASSAGE], "took": 3},
        {"answer": "The moon.", "source_documents": [PASSAGE]},
        {"retriever": {"documents": [PASSAGE]}},
        {"retriever": {"documents": []}, "ranker": {"documents": [PASSAGE]}, "model": {"replies": ["x"]}},
        {"builder": {"answers": [{"data": "The moon.", "documents": [PASSAGE]}]}},
        {"response": "The moon.", "data": {"documents": []}, "contexts": [PASSAGE]},
        {"matches": [{"id": "d1", "metadata": {"text": TEXT}}]},
        json.dumps({"documents": [PASSAGE]}),
        json.dumps({"matches": [PASSAGE]}),
        "\ufeff" + json.dumps({"contexts": [PASSAGE]}),
        [SimpleNamespace(content=TEXT, meta={"doc_id": "d1"}, id=None)],
    ],
    ids=str,
)
def test_passages_are_found(answer: Any) -> None:
    """A list, or the list in an object, with ids of their own or in their metadata."""
    report = evaluate(
        QUESTIONS, "RR context_precision context_recall", target=lambda _: answer, judge="lexical"
    )
    assert [report[name].mean for name in ("RR", "context_precision", "context_recall")] == [1.0] * 3, report


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"documents": [{"body": TEXT}]}, "has neither text nor id"),
        ({"ids": [["d1", "d2"]], "documents": [[TEXT]]}, "the keys 'ids', 'documents' in"),
        ([[TEXT, TEXT]], "contexts[0] is"),
        ({"ids": [["d1"]], "distances": [[0.1]]}, "the keys 'ids', 'distances' in"),
        ("\ufeff<html><body>Bad gateway</body></html>", "<html><body>Bad gateway"),
        ({"hits": {"total": 1, "took": 3}}, "the keys 'hits' in"),
        ("INFO start\n" + json.dumps({"contexts": [PASSAGE]}), "INFO start"),
    ],
    ids=str,
)
def test_an_unknown_answer_is_an_error_that_shows_it(answer: Any, said: str) -> None:
    """With its keys and its beginning; nothing counts as an empty passage."""
    report = evaluate(QUESTIONS, "RR context_precision", target=lambda _: answer, judge="lexical")
    assert (report["RR"].errors, report["context_precision"].errors) == (1, 1)
    (sample,) = report.samples()
    assert said in str(sample.error)


def test_an_unknown_text_is_not_known() -> None:
    """A document without a text (an image, a table) has an id alone: no judge is asked about an empty passage."""
    image = SimpleNamespace(content=None, meta={}, id="d1", score=0.5)
    report = evaluate(QUESTIONS, "RR context_precision", target=lambda _: [image], judge="lexical")
    assert report["RR"].mean == 1.0
    assert report["context_precision"].n == 0


def test_ids_in_the_metadata_of_rows() -> None:
    """A file's rows are read by the same rule; an id of its own goes before."""
    rows = [
        {**QUESTIONS[0], "contexts": [{"text": TEXT, "metadata": {"doc_id": "d1"}}]},
        {**QUESTIONS[0], "id": "b", "contexts": [{"text": TEXT, "id": "d1", "metadata": {"doc_id": "d9"}}]},
    ]
    assert evaluate(rows, "RR")["RR"].mean == 1.0


@pytest.mark.parametrize(
    ("passages", "said"),
    [
        (["d1", "d2"], "texts are gold ids"),
        ([{"text": TEXT, "number": "d1"}], "'number' holds gold ids"),
        ([{"text": TEXT, "lang": "en"}], "to compare with the gold ids"),
    ],
    ids=str,
)
def test_contexts_without_ids_say_where_they_are(passages: Any, said: str) -> None:
    """The reason names the key that holds gold ids or looks like one."""
    (score,) = evaluate(QUESTIONS, "RR", target=lambda _: passages).scores()
    assert (score.status, score.value) == ("skipped", None)
    assert said in str(score.why)


@pytest.mark.parametrize(
    "failed",
    [{"status": "error"}, {"status": "Failed"}, {"status": 503}, {"status": "404"}, {"errors": ["timeout"]}],
    ids=str,
)
@pytest.mark.parametrize("contexts", [[], [PASSAGE]], ids=["empty", "one"])
def test_an_answer_that_says_it_failed_is_an_error(failed: dict[str, Any], contexts: list[Any]) -> None:
    """By its status or its list of errors as by `error`, whatever its list holds."""
    report = evaluate(QUESTIONS, "RR", target=lambda _: {**failed, "contexts": contexts})
    assert [score.status for score in report.scores()] == ["error"]
    report = evaluate(QUESTIONS, "RR", target=lambda _: {"status": "ok", "errors": [], "contexts": [PASSAGE]})
    assert report["RR"].mean == 1.0
