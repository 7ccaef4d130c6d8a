"""Cut-offs in tokens, the tokens to the first relevant passage, and stale versions above current ones."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from germane import Report, evaluate
from germane.errors import InputError, MeasureError
from germane.evaluation.rank import rank
from germane.judges.fake import FakeJudge
from germane.measures import R, nDCG
from germane.measures.measure import TOKENIZER, Measure
from germane.questions.text import tokens_in


def one(contexts: list[Any], measures: str, *, judge: Any = None, **more: Any) -> Report:
    row = {"id": "q", "query": "a", "contexts": contexts, **more}
    return evaluate([row], measures, judge=judge)


def chunk(name: str, tokens: int) -> dict[str, str]:
    return {"id": name, "text": name[0] * (4 * tokens)}


THREE = [chunk("n", 100), chunk("a", 100), chunk("b", 1000)]
GOLD = {"a": 2, "b": 1, "z": 1}


def test_a_budget_is_part_of_the_name() -> None:
    """It parses, prints, compares and pickles; `@ "2000tok"` is the same."""
    measure = Measure.parse("nDCG@2000tok")
    assert measure == nDCG @ "2000tok" == Measure.parse("ndcg@2000tokens") == nDCG @ "02000tok"
    assert str(measure) == "nDCG@2000tok"
    assert pickle.loads(pickle.dumps(measure)) == measure
    assert (measure.k, measure.depth, measure.budget) == (None, None, 2000)
    assert R @ 10 != R @ "10tok"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("R@200tok", 1 / 3),  # of three relevant documents a fits, b does not
        ("R@199tok", 0.0),
        ("R@1200tok", 2 / 3),
        ("P@200tok", 1 / 2),  # of what fits
        ("F1@200tok", 2 / 5),
        ("Success@200tok", 1.0),
        ("RR@200tok", 1 / 2),
        ("AP@200tok", 1 / 2 / 3),
        (
            "nDCG@200tok",
            2 / 1.5849625007211562 / (2 + 1 / 1.5849625007211562 + 1 / 2),
        ),  # the ideal is all of gold
    ],
)
def test_what_fits_whole_is_read(name: str, value: float) -> None:
    """The first passages whose tokens together are within the budget, and no part of the next."""
    assert one(THREE, name, qrels=GOLD)[name].mean == pytest.approx(value)


def test_the_first_passage_may_be_too_long() -> None:
    """Then nothing fits."""
    assert one(THREE[::-1], "R@200tok", qrels=GOLD)["R@200tok"].mean == 0.0


def test_a_judge_is_asked_only_about_what_fits() -> None:
    """The verdicts of a budget cost no more than it holds."""
    judge = FakeJudge()
    one(THREE, "context_precision@200tok", judge=judge)
    assert len(judge.asked) == 2


def test_evidence_within_a_budget_is_fair_between_chunk_sizes() -> None:
    """The same text in small chunks and in one large one: what counts is how much of it fits."""
    words = [f"word{n}" for n in range(200)]
    quote = " ".join(words[40:60])
    small = [" ".join(words[at : at + 20]) for at in range(0, 200, 20)]
    for contexts, value in (([small[2], *small[:2]], 1.0), ([" ".join(words)], 0.0)):
        report = one(contexts, "evidence_recall@100tok evidence_recall", evidence=[{"quote": quote}])
        assert report["evidence_recall@100tok"].mean == value
        assert report["evidence_recall"].mean == 1.0


def test_every_call_has_the_budget() -> None:
    """As every call has the cut-off k."""
    calls = [{"contexts": THREE}, {"contexts": [chunk("a", 100)]}]
    report = evaluate([{"query": "a", "calls": calls, "qrels": {"a": 1}}], "RR@200tok")
    assert report["RR@200tok"].mean == pytest.approx((1 / 2 + 1) / 2)


def test_the_tokenizer_is_named_in_the_basis() -> None:
    """In --json and among the remarks, and of no measure that counts no tokens."""
    report = one(THREE, "R@200tok R@2 tokens_to_first_relevant", qrels=GOLD)
    named = {name: line["basis"].get("tokenizer") for name, line in report.to_json()["measures"].items()}
    assert named == {"R@200tok": TOKENIZER, "R@2": None, "tokens_to_first_relevant": TOKENIZER}
    assert f"tokens are counted as {TOKENIZER}" in str(report)
    assert [tokens_in(text) for text in ("", "a", "abcd", "abcde", "é" * 4)] == [0, 1, 1, 2, 2]


def test_without_texts_there_are_no_tokens() -> None:
    """Skipped with the reason; a run has none at all."""
    row = {"id": "q", "query": "a", "contexts": [{"id": "a"}], "qrels": {"a": 1}}
    (score,) = evaluate([row, {**row, "id": "p", "contexts": THREE}], "R@200tok").worst("R@200tok")
    assert score.sample == "p"
    scores = list(evaluate([row, {**row, "id": "p", "contexts": THREE}], "R@200tok").scores())
    assert scores[0].why == "a context has no text whose tokens could be counted"
    with pytest.raises(MeasureError, match="a run has no texts"):
        rank({"q": {"a": 1.0}}, {"q": {"a": 1}}, "R@200tok")


@pytest.mark.parametrize("name", ["R@0tok", "IPrec@20tok", "SetR@20tok", "R@2ktok"])
def test_what_is_no_budget_is_refused(name: str) -> None:
    """With what to write."""
    with pytest.raises(InputError, match="write"):
        Measure.parse(name)


def test_tokens_to_the_first_relevant_passage() -> None:
    """Down to it and with it; skipped where none came."""
    name = "tokens_to_first_relevant"
    assert one(THREE, name, qrels=GOLD)[name].mean == 200.0
    assert one(THREE, f"{name}(rel=3)", qrels={**GOLD, "b": 3})[f"{name}(rel=3)"].mean == 1200.0
    (score,) = one([chunk("n", 1)], f"{name} R@5", qrels=GOLD).worst("R@5")
    assert score.value == 0.0
    (score, _) = one([chunk("n", 1)], f"{name} R@5", qrels=GOLD).scores()
    assert (score.status, score.why) == ("skipped", "no relevant document came back")


@pytest.mark.parametrize(
    ("ids", "superseded", "value"),
    [
        ("old new", {"old": "new"}, 1),  # the stale version stands above
        ("new old", {"old": "new"}, 0),
        ("old x", {"old": "new"}, 1),  # the current one did not come back
        ("x new", {"old": "new"}, 0),
        ("old older new", {"old": "new", "older": "new"}, 2),
        ("old new", ["old"], 1),  # which is current is not said: the relevant ones are
        ("new old", ["old"], 0),
        ("", {"old": "new"}, 0),
    ],
)
def test_stale_versions_above_the_current_one_are_counted(ids: str, superseded: Any, value: int) -> None:
    """Zero is perfect, so a gate can say max(superseded)=0."""
    contexts = [{"id": name, "text": name} for name in ids.split()]
    row = {"query": "a", "contexts": contexts, "superseded": superseded, "qrels": {"new": 1}}
    report = evaluate([row], "superseded superseded@1", gates=["max(superseded)=0"])
    assert report["superseded"].mean == value
    assert report.verdict.passed is (value == 0)


def test_a_sample_without_stale_versions_is_skipped() -> None:
    """It is not counted as clean."""
    (score, _) = evaluate(
        [{"query": "a", "contexts": [{"id": "x"}], "qrels": {"x": 1}}], "superseded RR"
    ).scores()
    assert (score.status, score.why) == ("skipped", "no stale versions are named")


def test_the_explanation_names_what_is_stale() -> None:
    """And what it stands above."""
    contexts = [{"id": "old", "text": "o"}, {"id": "new", "text": "n"}]
    report = one(contexts, "superseded", superseded={"old": "new"})
    assert "old - above new" in str(report.explain("q", "superseded"))
