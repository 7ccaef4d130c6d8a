"""What a ranking covers of the claims, and what repetition costs: StR, alpha-nDCG, redundancy."""

from __future__ import annotations

from itertools import permutations
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane import evaluate
from germane.judges import FakeJudge
from germane.measures import Measure
from germane.measures.context import alpha_dcg


def judge_of(claims, support):
    """A judge that supports claim i by the contexts whose text is in support[i]."""

    def answer(question):
        if question.kind == "claims":
            return {"claims": claims}
        if question.kind == "relevance":
            return {"reasoning": "", "grade": 3}
        found = [
            [n for n, text in enumerate(question.contexts, 1) if text in support[claim]]
            for claim in question.claims
        ]
        return {"claims": [{"claim": n, "reasoning": "", "contexts": c} for n, c in enumerate(found, 1)]}

    return FakeJudge(answer)


def value(measure, contexts, support, **more):
    sample = {"query": "q", "reference": "r", "contexts": contexts, **more}
    return (
        evaluate([sample], [Measure.parse(measure)], judge=judge_of(list(support), support)).summaries[0].mean
    )


def test_subtopic_recall():
    """The share of claims met by rank k."""
    support = {"x": ["a", "b"], "y": ["c"], "z": []}
    assert value("StR@1", ["a", "b", "c"], support) == pytest.approx(1 / 3)
    assert value("StR@3", ["a", "b", "c"], support) == pytest.approx(2 / 3)


def test_claim_based_precision():
    """The share of the contexts that support any claim of the reference, read from the verdicts of recall."""
    support = {"x": ["a", "b"], "y": ["b"], "z": []}
    assert value("context_claim_precision", ["a", "b", "c", "d"], support) == 0.5
    assert value("ragchecker_context_precision", [], support) == 0.0
    assert value("context_claim_precision", ["a"], {}) is None
    judge = judge_of(list(support), support)
    sample = {"query": "q", "reference": "r", "contexts": ["a", "c"]}
    evaluate([sample], ["context_recall", "context_claim_precision", "StR@2"], judge=judge)
    assert [question.kind for question in judge.asked] == ["claims", "support"]


def test_ten_identical_passages_are_not_perfect():
    """They bring one fact of four, mostly say the same, and are a poor order of what could be had."""
    contexts, support = (
        ["the very same passage"] * 10,
        {"w": ["the very same passage"], "x": [], "y": [], "z": []},
    )
    assert value("context_precision", contexts, support) == 1.0
    assert value("StR@10", contexts, support) == 0.25
    assert value("context_redundancy", contexts, support) == 1.0
    ideal = sum(1 / log2(rank + 1) for rank in range(1, 5))
    assert value("alpha_nDCG@10", contexts, support) == pytest.approx(1 / ideal)


def test_new_facts_first():
    """Repeating a fact before bringing a new one costs; both orders bring the same."""
    support = {"x": ["a", "b"], "y": ["c"]}
    assert value("alpha_nDCG@3", ["a", "c", "b"], support) == 1.0
    assert value("alpha_nDCG@3", ["a", "b", "c"], support) == pytest.approx(
        (1 + 0.5 / log2(3) + 0.5) / (1 + 1 / log2(3) + 0.25)
    )
    assert value("alpha_nDCG(alpha=0.0)@3", ["a", "b", "c"], support) == 1.0


def test_the_ideal_may_be_of_the_retrieved_alone():
    """Then a claim that nothing supports is not missed by the measure."""
    support = {"x": ["a"], "y": []}
    assert value("alpha_nDCG@5", ["a"], support) == pytest.approx(1 / (1 + 1 / log2(3)))


def test_of_several_calls():
    """Claims met in the top k of any call; novelty is counted inside each."""
    calls = [{"query": "1", "contexts": ["a", "b"]}, {"query": "2", "contexts": ["c"]}]
    support = {"x": ["a"], "y": ["c"]}
    sample = {"query": "q", "reference": "r", "calls": calls}
    report = evaluate(
        [sample], ["StR@1", "StR(over=final)@1", "alpha_nDCG@2"], judge=judge_of(list(support), support)
    )
    assert [s.mean for s in report.summaries] == [1.0, 0.5, 1.0]


columns = st.lists(st.frozensets(st.integers(0, 4), max_size=4), max_size=5)
alphas = st.sampled_from([0.0, 0.25, 0.5, 1.0])


@given(columns, alphas)
def test_greedy_is_near_the_best_order(ranking, alpha):
    """On small cases the greedy ideal is within a few per cent of the best of all orders."""
    best = max(alpha_dcg(order, alpha, len(order)) for order in permutations(ranking))
    assert 0.63 * best <= alpha_dcg(ranking, alpha, len(ranking), greedy=True) <= best + 1e-12


@given(columns, st.integers(0, 4))
def test_a_repetition_never_brings_more_than_the_first(ranking, at):
    """Duplicating a place at the end adds at most its own gain, and no coverage."""
    if at < len(ranking):
        longer = [*ranking, ranking[at]]
        texts = [f"passage {place}" for place in range(len(ranking))]
        support = {str(n): [texts[p] for p, found in enumerate(ranking) if n in found] for n in range(5)}
        covered = [value(f"StR@{len(longer)}", shown, support) for shown in (texts, [*texts, texts[at]])]
        assert covered[0] == covered[1]
        gain = alpha_dcg(longer, 0.5, len(longer)) - alpha_dcg(ranking, 0.5, len(longer))
        assert gain <= len(ranking[at]) * 0.5 / log2(len(longer) + 1) + 1e-12


@pytest.mark.parametrize(
    ("contexts", "redundancy"),
    [
        (["one two three four", "five six seven eight"], 0.0),
        (["one two three four", "one two three four"], 1.0),
        (["one two three four", "two three four five"], 0.5),
        (["one two three four", "five six seven eight", "one two three four"], 0.5),
        (["水在一百度沸腾了", "水在一百度沸腾了"], 1.0),
        (["الماء يغلي عند مئة", "الماء يغلي عند مئة"], 1.0),
        (["Die Straße ist lang", "DIE STRASSE IST LANG"], 1.0),
    ],
)
def test_redundancy(contexts, redundancy):
    """Word triples read before / word triples, in any script; no judge."""
    report = evaluate([{"query": "q", "contexts": contexts}], "context_redundancy")
    assert report["context_redundancy"].mean == redundancy


def test_redundancy_needs_two():
    """One context has nothing to repeat."""
    assert (
        evaluate([{"query": "q", "contexts": ["a"]}], "context_redundancy")["context_redundancy"].skipped == 1
    )
