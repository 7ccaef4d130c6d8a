"""Panels: members answer under their own keys, their votes become one answer, and who said what is kept."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane import evaluate
from germane.errors import InputError
from germane.judges import FakeJudge, LabelsJudge, PanelJudge, repeated
from germane.judges.judge import Judge, Reply
from germane.judges.panel import panel_of
from germane.judging.asker import Asker
from germane.ledger.sqlite import SQLiteLedger
from germane.questions import (
    AnyQuestion,
    CitationSupport,
    Claims,
    NuggetSupport,
    Relevance,
    Sufficiency,
    Support,
    key_of,
)
from germane.questions.asking import Answer, answered
from germane.reports.basis import panel_notes
from germane.tables.judgements import AskedCounts, count_asked
from germane.types import Json, Judgement, freeze

QUESTION = Relevance(query="q", passage="p")


def member(name: str, answers: Mapping[str, Json] | Json) -> FakeJudge:
    return FakeJudge(lambda _: answers, name=name, stored=True)


def graded(*grades: int) -> list[Judge]:
    return [member(f"m{n}", {"grade": grade, "reasoning": f"says m{n}"}) for n, grade in enumerate(grades)]


def ask(
    members: Sequence[Judge],
    question: AnyQuestion = QUESTION,
    ledger: SQLiteLedger | None = None,
) -> Judgement:
    async def run() -> Judgement:
        async with Asker(panel, ledger) as asker:
            (answer,) = await asker.judge([question])
        return answer.judgement

    panel = PanelJudge(members)
    return asyncio.run(run())


@pytest.mark.parametrize(
    ("grades", "majority"),
    [
        ((2, 2, 0), 2),
        ((0, 3), 0),  # a tie: more than half reach 0 only
        ((0, 2, 3), 2),
        ((0, 0, 2, 2, 3), 2),  # three of five say relevant, though 0 is as frequent as 2
        ((0, 0, 3, 3, 2), 2),
        ((1, 2), 1),
        ((3, 3, 3), 3),
    ],
)
def test_grades_become_one(grades: tuple[int, ...], majority: int) -> None:
    """The highest that more than half reach."""
    assert ask(graded(*grades)).answer["grade"] == majority


@given(st.lists(st.integers(0, 3), min_size=2, max_size=7), st.integers(1, 3))
def test_the_majority_of_grades_is_that_of_yes_and_no_at_every_threshold(
    grades: list[int], least: int
) -> None:
    """Whether the verdict reaches a threshold is what more than half of the votes say there."""
    votes = [{"reasoning": "", "grade": grade} for grade in grades]
    verdict = QUESTION.vote(votes)
    assert verdict is not None
    grade = verdict.payload["grade"]
    assert (grade >= least) is (sum(one >= least for one in grades) > len(grades) / 2)


def test_disagreement_is_kept() -> None:
    """The votes with their reasons, how many agree with the verdict, and the reason of one who does."""
    found = ask(graded(0, 2, 2))
    assert found.answer == {"grade": 2, "reasoning": "says m1"}
    assert [(vote["judge"], vote["answer"]["grade"]) for vote in found.provenance["votes"]] == [
        ("m0", 0),
        ("m1", 2),
        ("m2", 2),
    ]
    assert found.provenance["agreement"] == pytest.approx(2 / 3)
    assert found.judge == "majority of m0, m1, m2"


def test_yes_and_no_are_voted_too() -> None:
    """Sufficiency: a tie is a no."""
    question = Sufficiency("q", ("a", "b"))
    members = [member(f"m{n}", {"sufficient": bool(n), "reasoning": ""}) for n in range(2)]
    assert ask(members, question).answer["sufficient"] is False


def support(*contexts: Sequence[int]) -> dict[str, Json]:
    return {
        "claims": [{"claim": n, "reasoning": "r", "contexts": list(one)} for n, one in enumerate(contexts, 1)]
    }


def test_support_is_voted_claim_by_claim() -> None:
    """A claim is supported where most say so: by what most name, else by what is named most."""
    question = Support(("one", "two", "three", "four"), ("a", "b", "c"))
    members = [
        member("x", support([1], [1], [], [1, 2])),
        member("y", support([1, 2], [], [], [3])),
        member("z", support([1], [], [2], [])),
    ]
    found = ask(members, question)
    assert [item["contexts"] for item in found.answer["claims"]] == [(1,), (), (), (1, 2, 3)]
    assert found.provenance["agreement"] == pytest.approx((3 + 2 + 2 + 2) / 12)


def test_half_of_the_votes_is_no_majority() -> None:
    """A claim that one of two supports is like a yes and a no."""
    members = [member("x", support([1], [1], [1])), member("y", support([1], [], [2]))]
    found = ask(members, Support(("one", "two", "three"), ("a", "b")))
    assert [item["contexts"] for item in found.answer["claims"]] == [(1,), (), (1, 2)]


@pytest.mark.parametrize(
    ("more", "less"),
    [
        ({"reasoning": "why", "grade": 2, "confidence": 3}, {"grade": 2}),
        ({"reasoning": "why", "grade": 2, "support": [1]}, {"grade": 2, "reasoning": None}),
        (
            {"reasoning": "why", "grade": 2, "relevant": True},
            {"grade": 2, "reasoning": "", "relevant": False},
        ),
    ],
)
def test_only_what_the_schema_names_is_voted_on(more: dict[str, Json], less: dict[str, Json]) -> None:
    """Other keys are no votes, and a missing reason is no reason to fail; the one that is there is given."""
    for votes in ((more, less), (less, more)):
        found = ask([member(f"m{n}", vote) for n, vote in enumerate(votes)])
        assert found.answer["grade"] == 2
        assert found.answer.keys() == {"reasoning", "grade"}
        assert found.provenance["agreement"] == 1.0
        assert [vote["answer"] for vote in found.provenance["votes"]] == [freeze(vote) for vote in votes]
    assert ask([member("x", {"grade": 1}), member("y", {"grade": 1})]).answer == {"grade": 1}


def test_items_too_are_voted_by_their_schema_alone() -> None:
    """Whatever else stands in an item, or is missing of its reasons."""
    question = Support(("one", "two"), ("a", "b"))
    plain = {"claims": [{"claim": 2, "contexts": []}, {"claim": 1, "contexts": [1]}]}
    found = ask([member("x", plain), member("y", support([1], []) | {"confidence": 2})], question)
    assert found.answer == {
        "claims": (
            {"claim": 1, "reasoning": "r", "contexts": (1,)},
            {"claim": 2, "reasoning": "r", "contexts": ()},
        )
    }
    rich = [{**item, "confidence": n} for n, item in enumerate(support([1], [])["claims"])]
    assert ask([member("x", plain), member("y", {"claims": rich})], question).answer == found.answer


def said(panel: PanelJudge, question: AnyQuestion, *payloads: Json) -> list[Answer]:
    """What members said; a text is an error."""
    return [
        answered(
            question,
            Judgement(
                key=f"k{n}",
                kind=question.kind,
                judge=one.name,
                **({"error": payload} if isinstance(payload, str) else {"answer": payload}),
            ),
        )
        for n, (one, payload) in enumerate(zip(panel.members, payloads, strict=False))
    ]


def test_lists_that_members_draw_up_are_one_member_s() -> None:
    """Claims cannot be voted on: one member after the other is asked until one answers, and its list stands."""
    panel = PanelJudge(graded(0, 1, 2))
    claims, grade = Claims("q", "a text"), QUESTION
    assert panel.next_members(grade, []) == panel.members
    assert panel.next_members(claims, []) == panel.members[:1]
    lost = said(panel, claims, "a bad day")
    assert panel.next_members(claims, lost) == panel.members[1:2]
    found = said(panel, claims, "a bad day", {"claims": ["a", "b"]})
    assert panel.next_members(claims, found) == ()
    verdict = panel.combine("k", claims, found)
    assert verdict.answer == {"claims": ("a", "b")}
    assert verdict.provenance["failed"] == {"m0": "a bad day"}
    assert verdict.provenance["vote"] == "first"
    assert "agreement" not in verdict.provenance


def failing(name: str) -> FakeJudge:
    return FakeJudge(lambda _: Reply(error="a bad day"), name=name, stored=True)


def test_a_member_that_fails_leaves_the_vote_to_the_others() -> None:
    """Its failure is in the provenance; where all fail, so does the panel."""
    found = ask([failing("x"), *graded(3, 3)])
    assert found.answer["grade"] == 3
    assert found.provenance["failed"] == {"x": "a bad day"}
    assert "agreement" not in ask([failing("x"), *graded(3)]).provenance
    lost = ask([failing("x"), failing("y")])
    assert lost.error == "x: a bad day; y: a bad day"


def test_what_a_report_says_of_a_panel() -> None:
    """One note: how many questions, the mean agreement of those that were voted on, how many lost members."""
    asked: AskedCounts = Counter()
    count_asked(asked, [Judgement(key="k", kind="relevance", judge="m")])
    assert panel_notes(asked) == {}
    count_asked(asked, [ask(graded(2, 2))])
    assert panel_notes(asked) == {"questions to the panel: mean agreement 1.00, every member answered": 1}
    count_asked(asked, [ask(graded(3, 1))])
    count_asked(asked, [ask([failing("x"), *graded(3)])])
    (note,) = panel_notes(asked).items()
    assert note == ("questions to the panel: mean agreement 0.75, 1 without the answer of a member", 3)


@pytest.mark.parametrize(
    ("question", "answer", "short"),
    [
        (QUESTION, {"grade": 3, "reasoning": "because"}, "3"),
        (QUESTION, {"relevant": True, "reasoning": ""}, "yes"),
        (Sufficiency("q", ("a",)), {"sufficient": False}, "no"),
        (Support(("a", "b"), ("x", "y")), support([2, 1], []), "1: by 1 and 2, 2: no"),
        (
            CitationSupport(("a [1]",), ("x",)),
            {"statements": [{"statement": 1, "supported": True, "contexts": [1]}]},
            "1: yes",
        ),
        (
            NuggetSupport("q", ("n",), ("x",)),
            {"nuggets": [{"nugget": 1, "reasoning": "r", "support": "partial_support"}]},
            "1: partial_support",
        ),
        (Claims("q", "a text"), {"claims": ["a", "b"]}, "2 claims"),
    ],
)
def test_a_vote_in_short(question: AnyQuestion, answer: Json, short: str) -> None:
    """The verdict without its reasons."""
    assert question.short(answer) == short


def test_members_answers_stand_under_their_own_keys(tmp_path: Path) -> None:
    """What a panel asked, a plain evaluation with a member knows, and the other way round; the panel adds no row."""
    ledger = SQLiteLedger(tmp_path / "l.sqlite")
    first, second = graded(1, 2)
    ask([first, second], ledger=ledger)
    assert len(ledger) == 2
    key = key_of(QUESTION, second.identity, "")
    assert ledger.find([key])[key].answer["grade"] == 2
    third = member("m2", {"grade": 3, "reasoning": ""})
    ask([first, second, third], ledger=ledger)
    assert isinstance(first, FakeJudge)
    assert (first.calls, third.calls) == (1, 1)


def test_samples_of_one_judge_are_different_questions(tmp_path: Path) -> None:
    """The first is the judge's own answer; each further one has its number in the key and is asked once."""
    ledger = SQLiteLedger(tmp_path / "l.sqlite")
    grades = iter([0, 3, 3])
    judge = FakeJudge(lambda _: {"grade": next(grades), "reasoning": ""}, stored=True)
    found = ask(repeated(judge, 3), ledger=ledger)
    assert found.answer["grade"] == 3
    assert [vote["judge"] for vote in found.provenance["votes"]] == ["fake #1", "fake #2", "fake #3"]
    assert (judge.calls, len(ledger)) == (3, 3)
    assert ask(repeated(judge, 3), ledger=ledger).answer["grade"] == 3
    assert judge.calls == 3
    key = key_of(QUESTION, judge.identity, "")
    assert ledger.find([key])[key].answer["grade"] == 0


def test_who_cannot_sit_on_a_panel() -> None:
    """One member, the same member twice: each says what to write instead."""
    with pytest.raises(InputError, match="at least two"):
        PanelJudge(graded(1))
    with pytest.raises(InputError, match=r"repeated\(judge, N\)"):
        PanelJudge([*graded(1), *graded(1)])
    with pytest.raises(InputError, match="labels and gold cannot be members"):
        PanelJudge([LabelsJudge({}), *graded(1)])
    with pytest.raises(InputError, match="the list of judges is empty"):
        panel_of([])
    with pytest.raises(InputError, match="write a whole number from 1"):
        repeated(graded(1)[0], 0)


def test_an_evaluation_by_a_panel() -> None:
    """Scores come from the votes, and the report's judgements hold them."""
    sample = {"id": "q", "query": "q", "contexts": ["a", "b"]}
    members = [
        FakeJudge({"a": {"grade": a, "reasoning": ""}, "b": {"grade": b, "reasoning": ""}}, name=f"m{a}{b}")
        for a, b in ((3, 0), (2, 0), (0, 3))
    ]
    report = evaluate([sample], "context_precision@2 P(labels=judge)@2", judge=PanelJudge(members))
    assert report["P(labels=judge)@2"].mean == 0.5
    judgements = list(report.judgements())
    merged = [one for one in judgements if one.parent is None]
    assert len(merged) == 2
    assert all(len(one.provenance["votes"]) == 3 for one in merged)
    assert {one.parent for one in judgements} - {None} == {one.key for one in merged}
    assert len(judgements) == 8
    assert report.manifest["judge"]["calls"] == 0


def test_a_judge_of_a_name_and_an_answer_is_a_member() -> None:
    """Alone, beside others and several times."""

    class Own:
        name = "own"

        async def answer(self, questions: Sequence[AnyQuestion]) -> list[Reply]:
            return [Reply(payload={"grade": 3, "reasoning": ""}) for _ in questions]

    row = {"id": "q", "query": "a", "contexts": ["b"]}
    for judge in (PanelJudge([Own(), FakeJudge()]), PanelJudge(repeated(Own(), 3))):  # type: ignore[list-item, arg-type]
        report = evaluate([row], ["context_precision"], judge=judge)
        assert report["context_precision"].mean is not None
