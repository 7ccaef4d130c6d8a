"""Why a score is what it is: hits, misses, one line, the working, the band; for every measure."""

from __future__ import annotations

import pytest

from germane import evaluate
from germane.graders import MeasureGrader
from germane.judges import FakeJudge
from germane.measures import Measure
from germane.measures.measure import definitions
from germane.questions import Relevance
from tests.measures.words import explained

EVERYTHING = {
    "query": "q",
    "reference": "r",
    "response": "It is so [1]. It is not [2].",
    "qrels": {"d1": 1, "d5": 1},
    "gold": [["d1"], ["d5"]],
    "evidence": [{"quote": "one two three"}, {"quote": "six seven eight"}],
    "forbidden": ["d2"],
    "metadata": {"nuggets": ["n"]},
    "calls": [
        {
            "query": "a",
            "contexts": [
                {"id": "d1", "text": "one two three four", "grade": 3},
                {"id": "d2", "text": "five", "grade": 0},
            ],
        },
        {
            "query": "b",
            "contexts": [
                {"id": "d1", "text": "one two three four", "grade": 3},
                {"id": "d3", "text": "four five six nine", "grade": 1},
            ],
        },
    ],
}


MEASURES = [d for d in definitions() if d.name not in {"code_judge", "abstained"}]


@pytest.mark.parametrize("known", MEASURES, ids=lambda known: known.title)
def test_every_measure_explains_itself(known):
    """Whatever the measure: hits or misses by name, and one line that ends in the score."""
    name = known.title + {"required": "@3", "recall": "@0.3"}.get(known.cutoff, "")
    result = explained(name, EVERYTHING)
    assert result["hits"] or result["misses"]
    assert f"{result['score']:.2f}" in result["reasoning"]
    assert "\n" not in result["reasoning"]
    low, high = known.range
    assert low <= result["score"] <= high


def graded(grades):
    def answer(question):
        assert isinstance(question, Relevance)
        return {"reasoning": "why", "grade": grades[int(question.passage)]}

    return FakeJudge(answer)


@pytest.mark.parametrize(
    ("measure", "grades", "band"),
    [
        ("context_precision", [3, 2, 0], "perfect order"),
        ("context_precision", [3, 0, 3], "good with noise between"),
        ("context_precision", [0, 3], "good with noise between"),
        ("context_precision", [0, 0, 3], "relevant passages buried"),
        ("context_precision", [1, 0], "nothing relevant"),
        ("context_position", [3, 3], "optimal"),
        ("context_position", [3, 3, 0], "good"),
        ("context_position", [0, 3, 3, 0], "mixed"),
        ("context_position", [0, 0, 3], "suboptimal"),
        ("context_position", [0, 0], "poor"),
    ],
)
def test_bands(measure, grades, band):
    """The score in words: 1, [.5, 1), (0, .5), 0 of precision; 1, [.7, 1), [.4, .7), (0, .4), 0 of position."""
    sample = {"query": "q", "contexts": [str(n) for n in range(len(grades))]}
    assert explained(measure, sample, graded(grades))["details"]["band"] == band


def test_relevance_checks_and_working():
    """One check a place with the first 100 characters of its text, and the precision at each rank."""
    sample = {
        "query": "q",
        "contexts": [{"text": "x" * 300, "grade": 3, "id": "d1"}, {"text": "y", "grade": 1}],
    }
    result = explained("context_precision(labels=human)", sample)
    first, second = result["details"]["relevance_checks"]
    assert first == {
        "position": 1,
        "chunk": "x" * 100,
        "grade": 3,
        "relevant": True,
        "reasoning": "",
        "id": "d1",
        "source": "human",
    }
    assert (second["grade"], second["relevant"]) == (1, False)
    assert [step["precision"] for step in result["details"]["working"]] == [1.0, 0.5]
    assert result["hits"] == ["Position 1: Relevant"]


def test_several_calls_are_told_apart():
    """A place is named by its call, where there are several; an empty call is named too."""
    sample = {**EVERYTHING, "calls": [*EVERYTHING["calls"], {"query": "c", "contexts": []}]}
    result = explained("context_precision(labels=human)", sample)
    assert result["hits"] == ["Call 1, position 1: Relevant", "Call 2, position 1: Relevant"]
    assert "Call 3: No context retrieved" in result["misses"]
    final = explained("context_precision(labels=human,over=final)", EVERYTHING)
    assert final["hits"] == ["Position 1: Relevant"]


@pytest.mark.parametrize(
    "measure", ["context_precision", "context_recall", "context_relevancy", "faithfulness"]
)
def test_nothing_retrieved(measure):
    """The miss says so."""
    result = explained(measure, {"query": "q", "reference": "r", "response": "a", "contexts": []})
    assert (result["score"], result["misses"]) == (0.0, ["No context retrieved"])


def test_a_long_list_of_missing_things_is_cut():
    """The one line names three; the misses name all."""
    claims = [f"claim {n}" for n in range(6)]
    support = [{"claim": n, "contexts": [1] if n == 1 else []} for n in range(1, 7)]
    judge = FakeJudge({"claims": {"claims": claims}, "support": {"claims": support}})
    result = explained("context_recall", {"query": "q", "reference": "r", "contexts": ["a"]}, judge)
    assert result["reasoning"].endswith("recall score: 0.17; missing: claim 1; claim 2; claim 3 and 2 more")
    assert len(result["misses"]) == 5


def test_what_nobody_labelled_is_not_called_irrelevant():
    """Over people's labels a hole is open; over gold it counts as not relevant and says that nobody judged it."""
    sample = {
        "query": "q",
        "qrels": {"a": 1},
        "contexts": [{"id": "a", "text": "a", "grade": 3}, {"id": "b", "text": "b"}],
    }
    assert explained("RR(labels=human)", sample)["misses"] == ["Position 2: Not judged - unjudged"]
    assert explained("RR", sample)["misses"] == ["Position 2: Not relevant - unjudged"]


@pytest.mark.parametrize(("strict", "verdict"), [(True, "fail"), (False, "pass")])
def test_strict_and_expected_count(strict, verdict):
    """Any irrelevant context fails a strict verdict and leaves the score; too few relevant ones are a miss."""
    grader = MeasureGrader(
        measure=Measure.parse("context_precision"), strict=strict, expected_relevant_count=2
    )
    report = evaluate([{"query": "q", "contexts": ["0", "1"]}], [grader], judge=graded([3, 0]))
    (case,) = report.to_json()["cases"]
    assert (case["score"], case["verdict"]) == (1.0, verdict)
    assert "Expected 2 relevant contexts, found 1" in report.explain("1", "context_precision").missed(2)


def test_relevant_places_below_irrelevant_ones_are_misses_of_the_order():
    """By position, in each call alone, where the order is what is measured; a measure without regard to rank has none."""
    sample = {
        "query": "q",
        "contexts": [{"text": str(n), "grade": grade} for n, grade in enumerate((0, 3, 0, 2))],
    }
    wrong = ["Position 1: Not relevant", "Position 3: Not relevant"]
    misranked = [f"Position {n}: Relevant but ranked below irrelevant ones" for n in (2, 4)]
    for name in ("context_precision", "context_position"):
        found = explained(f"{name}(labels=human)", sample)["misses"]
        assert found == [wrong[0], misranked[0], wrong[1], misranked[1]]
    assert explained("context_relevance(labels=human)", sample)["misses"] == wrong


@pytest.mark.parametrize(
    ("measure", "sample", "words"),
    [
        ("leaks@5", {"forbidden": ["d"]}, "; retrieved: d"),
        ("abstained", {"answerable": False}, "; retrieved: Position 1: d"),
        ("id_precision", {"qrels": {"x": 1}}, "; not in the gold: d"),
    ],
)
def test_what_did_not_count_has_its_own_word(measure, sample, words):
    """A document that should not be there is not "missing"."""
    row = {"query": "q", "contexts": [{"id": "d", "text": "t"}], **sample}
    assert explained(measure, row)["reasoning"].endswith(words)
