"""Several searches for one question: what each brings, and what relevance is asked against."""

from __future__ import annotations

import pytest

from germane import evaluate
from germane.errors import AnswerError, MeasureError
from germane.judges import FakeJudge
from germane.measures import Measure
from germane.questions import Relevance


def call(query, *ids):
    return {"query": query, "contexts": [{"id": i, "text": f"text of {i}"} for i in ids]}


CALLS = [call("first", "d1", "x"), call("second", "d1", "d2", "d3"), call("third", "d1")]
AGENT = {
    "query": "need",
    "reference": "r",
    "qrels": {"d1": 1, "d2": 1, "d3": 1, "d4": 1},
    "calls": CALLS,
}


def value(measure, sample=AGENT, judge=None):
    (score,) = evaluate([sample], measure, judge=judge).scores()
    return score.value if score.status == "ok" else score.why


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("marginal_recall", 0.75 / 3),
        ("marginal_recall(call=1)", 0.25),
        ("marginal_recall(call=2)", 0.5),
        ("marginal_recall(call=3)", 0.0),
        ("marginal_recall(call=4)", "the sample has 3 searches, none with the number call=4"),
        ("repeat_rate", 2 / 4),
    ],
)
def test_what_each_search_brings(measure, expected):
    """Recall that a search adds, and contexts that were there already; nobody is asked."""
    assert value(measure) == (pytest.approx(expected) if isinstance(expected, float) else expected)


def test_repeats_need_a_second_search():
    """One search cannot repeat another."""
    assert value("repeat_rate", {"query": "q", "contexts": ["a"]}) == "the sample has one search only"
    assert (
        value("repeat_rate", {"query": "q", "calls": [call("1", "a"), call("2")]})
        == "no later search returned a context"
    )


@pytest.mark.parametrize(
    ("needed", "expected"),
    [(1, 2.0), (2, 1.0), (3, 0.0), (9, "all contexts together do not suffice to answer: no")],
)
def test_calls_after_sufficiency(needed, expected):
    """Searches made although enough had come back; judged on what there was after each."""

    def answer(question):
        enough = {1: "text of d1", 2: "text of d3", 3: "text of d9", 9: "never"}[needed]
        everything = len(question.contexts) == 4
        yes = enough in question.contexts or (needed == 3 and everything)
        return {"reasoning": "no", "sufficient": yes}

    sample = AGENT
    if needed == 3:
        sample = {**AGENT, "calls": [call("1", "d1"), call("2", "d2"), call("3", "d3", "x")]}
    assert value("calls_after_sufficiency", sample, FakeJudge(answer)) == expected


def test_ranked_measures_are_means_over_calls():
    """The cut-off is inside a call; the final list alone where asked for; an empty call counts 0."""
    sample = {**AGENT, "calls": [*CALLS, call("fourth")]}
    assert value("P@1", sample) == 0.75
    assert value("P(over=final)@1", sample) == 0.0


def test_the_final_list_is_the_systems_own():
    """Where the system hands back one list beside its calls, that is the final one."""
    sample = {**AGENT, "contexts": [{"id": "d2", "text": "text of d2"}]}
    assert value("P(over=final)@1", sample) == 1.0
    assert value("P@1", sample) == 1.0
    assert value("group_recall(over=final)", {**sample, "gold": [["d1"], ["d2"]]}) == 0.5


def test_against_the_need_or_against_the_call():
    """Both are asked and stored under their own keys; the reference answers the need and is not shown to the other."""
    judge = FakeJudge()
    measures = ["context_precision@2", "context_precision(against=call)@2"]
    evaluate([AGENT], measures, judge=judge)
    asked = [q for q in judge.asked if isinstance(q, Relevance)]
    need = {(q.query, q.passage) for q in asked if q.reference == "r"}
    own = {(q.query, q.passage) for q in asked if q.reference is None}
    assert need == {("need", f"text of {i}") for i in ("d1", "x", "d2")}
    assert own == {
        ("first", "text of d1"),
        ("first", "text of x"),
        ("second", "text of d1"),
        ("second", "text of d2"),
        ("third", "text of d1"),
    }
    assert len(asked) == len(need) + len(own)


def test_the_two_are_two_numbers():
    """A good engine under a bad planner: relevant to its own query, not to the need."""

    def answer(question):
        return {"reasoning": "", "grade": 0 if question.query == "need" else 3}

    judge = FakeJudge(answer)
    report = evaluate([AGENT], ["context_relevance", "context_relevance(against=call)"], judge=judge)
    assert [summary.mean for summary in report.summaries] == [0.0, 1.0]


@pytest.mark.parametrize(
    "name",
    [
        "nDCG(against=call)",
        "context_precision(against=call,labels=human)",
        "context_position(against=call,labels=best)",
    ],
)
def test_only_a_judge_can_be_asked_against_the_call(name):
    """Gold and people label for the need."""
    with pytest.raises(MeasureError, match="needs a judge"):
        Measure.parse(name)
    assert (
        str(Measure.parse("nDCG(labels=judge,against=call)@5"))
        == "nDCG(against=call,ideal=retrieved,labels=judge)@5"
    )


def test_what_people_said_is_about_the_need():
    """A judge that reads labels knows nothing of another query, and all of one that is the need itself."""
    contexts = [{"text": "a", "grade": 3}]
    calls = [{"query": "need", "contexts": contexts}, {"query": "other", "contexts": contexts}]
    sample = {"query": "need", "calls": calls}
    (own,) = evaluate([sample], "context_relevance(against=call)", judge="labels").scores()
    assert (own.status, own.bounds) == ("incomplete", (0.5, 1.0))
    assert value("context_relevance", sample, "labels") == 1.0


@pytest.mark.parametrize("measure", ["RR(over=final)", "nDCG(over=final)@4", "id_recall(over=final)"])
def test_document_ids_are_looked_for_in_the_list_that_is_read(measure):
    """With over=final the ids of the searches are no ids of the final list, nor do they lack for it."""
    without = [{"text": "t"}, {"text": "u"}]
    final = {"query": "q", "qrels": {"d1": 1}, "calls": [call("a", "d1")], "contexts": without}
    assert "document id" in value(measure, final)
    assert value(measure, {**final, "calls": [{"contexts": without}], "contexts": [{"id": "d1"}]}) == 1.0


@pytest.mark.parametrize("calls", [[{"contexts": []}], [{"contexts": ["a"]}]])
def test_a_search_that_was_not_made_adds_nothing_to_claims(calls):
    """The score of a search that there was not is skipped, whether or not the others returned something."""
    sample = {"query": "q", "reference": "r", "calls": calls}
    why = value("marginal_recall(call=2,of=claims)", sample, FakeJudge())
    assert why == "the sample has 1 searches, none with the number call=2"


@pytest.mark.parametrize(("unknown", "bounds"), [({2}, (1.0, 2.0)), ({1, 2}, (1.0, 3.0)), ({1}, (1.0, 3.0))])
def test_a_missing_verdict_between_searches_leaves_bounds(unknown, bounds):
    """Of four searches the first three suffice; of some of the earlier ones the judge does not say."""

    def answer(question):
        if len(question.contexts) in unknown:
            raise AnswerError("cannot say")
        return {"sufficient": len(question.contexts) >= 3, "reasoning": ""}

    sample = {"query": "q", "calls": [{"contexts": [text]} for text in "abcd"]}
    judge = FakeJudge({"sufficiency": answer})
    (score,) = evaluate([sample], "calls_after_sufficiency", judge=judge).scores()
    assert (score.status, score.bounds) == ("incomplete", bounds)
