"""Citation recall and precision: who cites what, and whether that supports it."""

from __future__ import annotations

import pytest

from germane import evaluate
from germane.judges import FakeJudge
from germane.measures.response import citing
from germane.questions import CitationSupport
from germane.types import Context


def contexts(count, *ids):
    return [Context(text=f"c{n}", id=ids[n - 1] if ids else None) for n in range(1, count + 1)]


@pytest.mark.parametrize(
    ("response", "places"),
    [
        ("One thing [1]. Another [2][3].", [(1,), (2, 3)]),
        ("One thing. [1] Another.[2]", [(1,), (2,)]),
        ("A list [1, 3] and a range [1-3].", [(1, 3, 2)]),
        ("Nothing cited here.", [()]),
        ("No such context [9].", [(-9,)]),
        ("Two that do not exist [8][9], and one twice [8].", [(-8, -9)]),
        ("See [the manual] for it [1].", [(1,)]),
        ("From 1990 to 2020 [1990-2020].", [()]),
        ("第一点【1】。第二点【2】。", [(1,), (2,)]),
        ("Erstens gilt das [1], z. B. hier [2].", [(1, 2)]),
        ("الماء يغلي عند مئة درجة [1]؟ نعم [2].", [(1,), (2,)]),
        ("", []),
    ],
)
def test_who_cites_what(response, places):
    """Numbers, lists and ranges in brackets, inside a sentence or right after it, in several scripts."""
    assert [positions for _, positions in citing(response, contexts(3))] == places


def test_ids_are_citations_too():
    """A context may be cited by its id."""
    assert citing("So it is [d7].", contexts(2, "d3", "d7")) == [("So it is.", (2,))]


def judged(*verdicts):
    items = [
        {"statement": n, "reasoning": "", "supported": yes, "contexts": places}
        for n, (yes, places) in enumerate(verdicts, 1)
    ]
    return {"citations": {"statements": items}}


SAMPLE = {
    "query": "q",
    "response": "Apples are red [1][2]. Pears are green [3]. Plums are blue. Figs are sweet [9].",
    "contexts": ["one", "two", "three"],
}


def test_recall_and_precision():
    """Supported sentences of all four; needed citations of all four."""
    judge = FakeJudge(judged((True, [1]), (False, [])))
    report = evaluate([SAMPLE], ["citation_recall", "citation_precision"], judge=judge)
    # shown by their texts: one, three, two
    assert report["citation_recall"].mean == 0.25
    assert report["citation_precision"].mean == 0.25
    (question,) = judge.asked
    assert isinstance(question, CitationSupport)
    assert question.statements == ("Apples are red. [1][3]", "Pears are green. [2]")


def test_only_what_is_cited_is_shown():
    """Contexts that nobody cites are not in the question: changing them changes no verdict."""
    judge = FakeJudge(judged((True, [1])))
    evaluate([{**SAMPLE, "response": "Pears are green [3]."}], "citation_recall", judge=judge)
    (question,) = judge.asked
    assert isinstance(question, CitationSupport)
    assert (question.contexts, question.statements) == (("three",), ("Pears are green. [1]",))


def test_nothing_cited():
    """Without any citation recall is 0, precision has nothing to count, and nobody is asked."""
    judge = FakeJudge()
    report = evaluate(
        [{**SAMPLE, "response": "Plums are blue."}], ["citation_recall", "citation_precision"], judge=judge
    )
    assert report["citation_recall"].mean == 0.0
    assert report["citation_precision"].skipped == 1
    assert judge.asked == []


def test_an_answer_that_names_an_uncited_context_is_refused():
    """The judge may not find support in a context that the sentence does not cite."""
    judge = FakeJudge(judged((True, [2]), (False, [])))
    report = evaluate(
        [{**SAMPLE, "response": "Apples are red [1]. Pears are green [2]."}], "citation_recall", judge=judge
    )
    assert report["citation_recall"].errors == 1


def test_a_part_of_what_is_not_supported_is_no_precision():
    """A context that backs half of its sentence does not make the citation good: the sentence is not supported."""
    judge = FakeJudge(judged((False, [1])))
    report = evaluate([{**SAMPLE, "response": "Apples are red [1]."}], "citation_precision", judge=judge)
    assert report["citation_precision"].mean == 0.0


@pytest.mark.parametrize(
    ("response", "precision"), [("One [4][1][6].", 1 / 3), ("One [1]. Two [7][8][9].", 1 / 4)]
)
def test_each_citation_of_no_context_is_a_miss(response, precision):
    """Several contexts that do not exist, cited by one sentence, are several citations."""
    sample = {"query": "q", "response": response, "contexts": ["c1"]}
    report = evaluate([sample], "citation_precision", judge=FakeJudge(judged((True, [1]))))
    assert report["citation_precision"].mean == pytest.approx(precision)
