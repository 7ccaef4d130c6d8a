"""Nothing in a measure is about English: the same worked example in Chinese, Arabic, German and English."""

from __future__ import annotations

import pytest

from germane.evaluation import evaluate
from germane.judges import FakeJudge
from germane.questions import Question

EXAMPLES = {
    "en": (
        "What causes tides?",
        "The Moon causes tides. The Sun causes tides.",
        "The Moon causes tides.",
        "Cats sleep.",
    ),
    "de": (
        "Was verursacht Gezeiten?",
        "Der Mond verursacht Gezeiten. Die Sonne verursacht Gezeiten.",
        "Der Mond verursacht Gezeiten.",
        "Katzen schlafen.",
    ),
    "zh": ("什么引起潮汐", "月亮引起潮汐。太阳引起潮汐。", "月亮引起潮汐。", "猫在睡觉。"),
    "ar": (
        "ما الذي يسبب المد والجزر؟",
        "القمر يسبب المد والجزر. الشمس تسبب أمواجا عالية.",
        "القمر يسبب المد والجزر.",
        "القطط تنام.",
    ),
}


@pytest.mark.parametrize("language", EXAMPLES)
def test_by_the_lexical_rule(language):
    """Half of the reference is supported, half of what came back is relevant, all that is said is grounded."""
    query, reference, passage, noise = EXAMPLES[language]
    sample = {"query": query, "reference": reference, "response": passage, "contexts": [passage, noise]}
    measures = ["context_recall", "context_relevancy", "faithfulness", "StR@1", "context_redundancy"]
    report = evaluate([sample], measures, judge="lexical")
    assert [summary.mean for summary in report.summaries] == [0.5, 0.5, 1.0, 0.5, 0.0]


@pytest.mark.parametrize("language", EXAMPLES)
def test_texts_reach_the_judge_as_they_are(language):
    """No normalisation, no translation: what is asked is what was written."""
    query, reference, passage, noise = EXAMPLES[language]
    judge = FakeJudge()
    sample = {"query": query, "reference": reference, "contexts": [passage, noise]}
    evaluate(
        [sample],
        ["context_precision", "context_relevancy", "context_entity_recall", "context_sufficiency"],
        judge=judge,
    )
    asked: dict[str, list[Question[object]]] = {}
    for question in judge.asked:
        asked.setdefault(question.kind, []).append(question)
    assert [q.inputs()["passage"] for q in asked["statements"]] == [passage, noise]
    assert {q.inputs()["text"] for q in asked["entities"]} == {reference, passage, noise}
    assert asked["sufficiency"][0].inputs() == {
        "query": query,
        "contexts": sorted([passage, noise]),
    }
