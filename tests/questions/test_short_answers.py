"""Short answers, as in NQ and HotpotQA: each becomes a full statement of what was asked before anything supports it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from germane import evaluate
from germane.judges import LLMJudge
from germane.questions import Claims
from germane.questions.fusing import fused_requests, render_request
from germane.questions.prompts import Prompts
from germane.types import Json
from tests.server import ModelServer, by_overlap

CASES = {
    "name": (
        "Where was Marie Curie born?",
        "Warsaw",
        ["Marie Curie was born in Warsaw."],
        "Chopin grew up in Warsaw.",
        "Marie Curie was born in Warsaw in 1867.",
    ),
    "date": (
        "When did the Titanic sink?",
        "15 April 1912",
        ["The Titanic sank on 15 April 1912."],
        "Fenway Park opened in April 1912.",
        "The Titanic sank on 15 April 1912 in the Atlantic.",
    ),
    "yes": (
        "Were Scott Derrickson and Ed Wood of the same nationality?",
        "Yes",
        ["Scott Derrickson and Ed Wood were of the same nationality."],
        "Yes is an English rock band.",
        "Scott Derrickson and Ed Wood were of the same nationality: both American.",
    ),
    "no": (
        "Is the Nile shorter than the Rhine?",
        "no",
        ["The Nile is not shorter than the Rhine."],
        "There is no bridge here.",
        "The Nile is not shorter than the Rhine but five times as long.",
    ),
    "list": (
        "Which colours has the flag of Italy?",
        "green, white, red",
        ["The flag of Italy has green.", "The flag of Italy has white.", "The flag of Italy has red."],
        "Green, white and red peppers are sold.",
        "The flag of Italy has green, white and red.",
    ),
}


class Model:
    """Writes a short answer out where it is shown the question; supports a claim where a context has all its words."""

    def __call__(self, kind: str, sections: Mapping[str, str], schema: Mapping[str, Json]) -> Json:
        if kind == "claims":
            known = {(query, answer): claims for query, answer, claims, _, _ in CASES.values()}
            return {"claims": known[sections["query"], sections["passage"]]}
        if kind == "support":
            claims = [line.partition(". ")[2] for line in sections["claims"].splitlines()]
            contexts = [text for name, text in sections.items() if name.startswith("context ")]
            return {
                "claims": [
                    {
                        "claim": number,
                        "reasoning": "",
                        "contexts": [n for n, text in enumerate(contexts, 1) if words(claim) <= words(text)],
                    }
                    for number, claim in enumerate(claims, 1)
                ]
            }
        return by_overlap(kind, sections, schema)


def words(text: str) -> set[str]:
    return {word.strip(".,:") for word in text.lower().split()}


def recall(query: str, answer: str, context: str, measure: str = "context_recall") -> float | None:
    sample = {"id": "q", "query": query, "contexts": [context]}
    sample |= {"reference": answer} if measure == "context_recall" else {"response": answer}
    with ModelServer(answer=Model()) as server:
        report = evaluate([sample], measure, judge=LLMJudge("openai:m", base_url=server.url, api_key="k"))
    return report[measure].mean


@pytest.mark.parametrize("name", CASES)
def test_a_passage_with_the_same_word_does_not_support_a_short_answer(name: str) -> None:
    """And one that states the answer does."""
    query, answer, _, misleading, stating = CASES[name]
    assert recall(query, answer, misleading) == 0.0
    assert recall(query, answer, stating) == 1.0


def test_so_it_is_with_the_claims_of_a_response() -> None:
    """Faithfulness of a short answer is about what it says, not about a word."""
    query, answer, _, misleading, stating = CASES["name"]
    assert recall(query, answer, misleading, "faithfulness") == 0.0
    assert recall(query, answer, stating, "faithfulness") == 1.0


def test_claims_are_shown_what_was_asked() -> None:
    """The query and the history, with instructions to write each claim out as a full statement of it."""
    prompts = Prompts()
    asked = Claims("Where was she born?", "Warsaw", (("user", "Tell me about Marie Curie."),))
    ask = render_request(fused_requests([asked], prompts), prompts)
    assert "Where was she born?" in ask.user
    assert "Marie Curie" in ask.user
    assert "full statement" in ask.system
    assert asked.item != Claims("Where was she born?", "Warsaw").item
