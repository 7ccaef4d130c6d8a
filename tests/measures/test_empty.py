"""Nothing is asked about nothing: empty passages, references, responses and queries; and ids without a text."""

from __future__ import annotations

import pytest

from germane import evaluate
from germane.judges import LexicalJudge, LLMJudge
from germane.types import Call, Context, Sample
from tests.measures.words import explained
from tests.server import Act, ModelServer

ALL = "context_precision context_relevancy context_recall context_entity_recall context_sufficiency"
EMPTY = [" ", "", "\n\t", "\u200b"]


def run(samples, measures=ALL, **more):
    """The report, and what the model was shown."""
    with ModelServer() as server:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="k")
        report = evaluate(samples, measures.split(), judge=judge, **more)
    return report, [asked.sections for asked in server.asked]


@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("made", ["json", "python"])
def test_an_empty_passage_is_not_relevant_and_nobody_is_asked(empty, made):
    """The others are judged as if it were not there, and the report says how many there were."""
    sample = {"id": "q", "query": "q", "reference": "One.", "contexts": ["One.", empty, "Two."]}
    python = Sample(
        id="q", query="q", reference="One.", contexts=tuple(Context(text=t) for t in ("One.", empty, "Two."))
    )
    report, shown = run([sample if made == "json" else python])
    assert all(sections.get("passage", "x").strip("\n\t\u200b ") for sections in shown)
    assert all("context 3" not in sections for sections in shown)
    assert [(summary.n, summary.errors) for summary in report.summaries] == [(1, 0)] * 5
    assert report.manifest["notes"] == {"x an empty context: answered without a call": 1}


def test_an_empty_passage_says_so_where_it_stands():
    """Grade 0 with its reason, at its own place; a claim is found at the place of its own context."""
    contexts = ["", "Zwei.", {"id": "d", "text": ""}, "One."]
    sample = {"query": "q", "reference": "One.", "contexts": contexts}
    checks = explained("context_precision", sample, LexicalJudge())["details"]["relevance_checks"]
    assert [checks[n]["reasoning"] for n in (0, 2)] == ["the passage is empty"] * 2
    assert [check["grade"] for check in checks][::2] == [0, 0]
    recall = explained("context_recall", sample, LexicalJudge())
    assert recall["details"]["checks"][0]["reasoning"].startswith("context 4: ")


OF_CONTEXTS = (
    "context_precision context_relevancy context_recall context_sufficiency context_entity_recall faithfulness"
    " context_utilisation noise_sensitivity nugget_recall StR@5 alpha_nDCG@5"
)


def test_empty_passages_alone_are_a_bad_retriever():
    """Whatever the measure, the same as where nothing came back, and without one question."""
    sample = {"query": "q", "reference": "One.", "response": "Two."}
    empty, shown = run([{**sample, "contexts": [" ", "\n", "\u200b"]}], OF_CONTEXTS)
    nothing, _ = run([{**sample, "contexts": []}], OF_CONTEXTS)
    assert [summary.mean for summary in empty.summaries] == [summary.mean for summary in nothing.summaries]
    assert [summary.skipped for summary in empty.summaries] == [*[0] * 7, 1, *[0] * 3]
    assert shown == []


def test_an_id_beside_empty_passages_is_not_known_to_say_nothing():
    """Nobody can read it: an error, not a 0."""
    sample = {"query": "q", "reference": "One.", "contexts": [" ", {"id": "a"}]}
    report, _ = run([sample], "context_recall context_sufficiency")
    assert [summary.errors for summary in report.summaries] == [1, 1]


def test_a_claim_that_shows_nothing_is_asked_again():
    """It would be one that nothing supports."""
    blank = Act(text='{"claims": ["One.", "\\u200b"]}')
    with ModelServer([blank]) as server:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="k")
        sample = {"query": "q", "reference": "One.", "contexts": ["One."]}
        report = evaluate([sample], ["context_recall"], judge=judge)
    assert report["context_recall"].mean == 1.0
    assert server.count == 3
    assert server.asked[-1].sections["claims"] == "1. One."


@pytest.mark.parametrize("empty", ["", "   ", "\u200b\n"])
@pytest.mark.parametrize("made", [dict, Sample])
def test_an_empty_reference_is_none(empty, made):
    """Measures of it are skipped, relevance is the same question as without it, and nothing else is asked."""
    contexts = [Context(text="One."), Context(text="Two.")]
    sample = made(id="q", query="q", reference=empty, response=empty, contexts=contexts)
    measures = "context_precision context_recall context_entity_recall faithfulness answer_relevancy"
    report, shown = run([sample], measures)
    assert [summary.skipped for summary in report.summaries] == [0, 1, 1, 1, 1]
    assert [set(sections) for sections in shown] == [{"query", "passage"}] * 2
    for against in ("reference", "response"):
        (summary,) = run([sample], "context_precision", against=against)[0].summaries
        assert summary.why == ((f"the sample has no {against} to judge against", 1),)
    nuggets, shown = run([sample], "nugget_recall nugget_recall(text=response)")
    assert [summary.skipped for summary in nuggets.summaries] == [1, 1]
    assert shown == []


def test_an_empty_query_asks_nothing():
    """A sample made in Python may have one; the query of a call that says nothing is the sample's."""
    sample = Sample(id="q", query=" ", reference="One.", contexts=(Context(text="One."),))
    report, shown = run([sample], "context_precision context_relevancy context_sufficiency context_recall")
    assert [summary.skipped for summary in report.summaries] == [1, 1, 1, 0]
    assert all("query" not in sections for sections in shown)
    called = Sample(id="q", query="need", calls=(Call(query=" ", contexts=(Context(text="One."),)),))
    _, shown = run([called], "context_precision(against=call)")
    assert [sections["query"] for sections in shown] == ["need"]


def test_an_id_without_a_text_is_no_verdict():
    """Whoever reads has nothing to read: an error or an incomplete score, never a 0; gold and labels need no text."""
    sample = {
        "query": "q",
        "reference": "One.",
        "qrels": {"a": 1},
        "contexts": [{"id": "a", "grade": 3}, {"id": "b", "text": "One.", "grade": 0}],
    }
    report, shown = run([sample], f"{ALL} P@2 P(labels=human)@2")
    assert [score.status for score in report.scores()] == ["incomplete", *["error"] * 4, "ok", "ok"]
    assert [score.value for score in report.scores()][-2:] == [0.5, 0.5]
    whys = [score.why for score in report.scores()][:5]
    assert whys == ["1 of 2 verdicts missing: the context has no text", *["the context 'a' has no text"] * 4]
    assert all(sections.get("passage", "x") for sections in shown)
    assert evaluate([sample], "context_precision", judge="labels")["context_precision"].mean == 1.0
    assert evaluate([sample], "context_precision", judge="gold")["context_precision"].mean == 1.0


def test_a_citation_of_an_empty_context_supports_nothing():
    """It is a miss, and the sentence is not supported by it; what else the sentence cites is judged."""
    sample = {
        "query": "q",
        "response": "Apples are red [1]. Pears are green [1][2].",
        "contexts": [" ", "Pears are green."],
    }
    report, shown = run([sample], "citation_recall citation_precision")
    assert [sections["statements"] for sections in shown] == ["1. Pears are green. [1]"]
    assert report["citation_recall"].mean == 0.5
    assert report["citation_precision"].mean == pytest.approx(1 / 3)


def test_a_turn_without_words_is_not_shown():
    """A tool call says nothing; of a turn in parts the texts are shown."""
    history = [
        {"role": "user", "content": [{"type": "text", "text": "Hi."}, {"type": "image", "url": "x"}]},
        {"role": "assistant", "tool_calls": [{"tool": "search", "input": "x"}]},
        {"role": "assistant", "content": " "},
    ]
    _, shown = run([{"query": "q", "contexts": ["One."], "history": history}], "context_precision")
    assert [sections["history"] for sections in shown] == ["user: Hi."]
