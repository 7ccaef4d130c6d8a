"""Panels: members answer under their own keys, their votes become one answer, and who said what is kept."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from germane import evaluate
from germane.errors import InputError
from germane.judges import FakeJudge, LabelsJudge, PanelJudge, repeated
from germane.judging.asking import Pool
from germane.judging.judge import AnyQuestion, Judge, Reply
from germane.judging.ledger import SQLiteLedger
from germane.judging.questions import Claims, Relevance, Sufficiency, Support, key_of
from germane.types import Context, Json, Judgement

QUESTION = Relevance(query="q", passage="p")


def member(name: str, answers: Mapping[str, Json] | Json) -> FakeJudge:
    return FakeJudge(lambda _: answers, name=name, stored=True)


def graded(*grades: int) -> list[Judge]:
    return [member(f"m{n}", {"grade": grade, "reasoning": f"says m{n}"}) for n, grade in enumerate(grades)]


def ask(
    members: Sequence[Judge],
    question: AnyQuestion = QUESTION,
    vote: str = "majority",
    ledger: SQLiteLedger | None = None,
) -> Judgement:
    async def run() -> Judgement:
        async with Pool(lambda _: panel, ledger) as pool:
            ((judgement, _),) = await pool.judge([question])
        return judgement

    panel = PanelJudge(members, vote)
    return asyncio.run(run())


@pytest.mark.parametrize(
    ("grades", "majority", "mean"),
    [
        ((2, 2, 0), 2, 1),
        ((0, 3), 0, 2),  # a tie: the lower middle of 0 and 3; the mean 1.5 rounds up
        ((0, 2, 3), 2, 2),
        ((0, 0, 3, 3, 2), 0, 2),
        ((1, 2), 1, 2),
        ((3, 3, 3), 3, 3),
    ],
)
def test_grades_become_one(grades: tuple[int, ...], majority: int, mean: int) -> None:
    """The most frequent, of several equally frequent the lower middle one; or the mean, rounded half up."""
    assert ask(graded(*grades)).answer["grade"] == majority
    by_mean = ask(graded(*grades), vote="mean")
    assert by_mean.answer["grade"] == mean
    assert by_mean.provenance["mean"] == pytest.approx(sum(grades) / len(grades))


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
    """Sufficiency: a tie is a no by majority, a yes by the mean."""
    question = Sufficiency("q", ("a", "b"))
    members = [member(f"m{n}", {"sufficient": bool(n), "reasoning": ""}) for n in range(2)]
    assert ask(members, question).answer["sufficient"] is False
    assert ask(members, question, "mean").answer["sufficient"] is True


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


def test_lists_that_members_draw_up_are_the_first_one_s() -> None:
    """Claims cannot be voted on: the first member's stand, and the provenance says so."""
    members = [member("x", {"claims": ["a", "b"]}), member("y", {"claims": ["c"]})]
    found = ask(members, Claims("a text"))
    assert found.answer["claims"] == ("a", "b")
    assert (found.provenance["vote"], found.provenance["agreement"]) == ("first", None)


def failing(name: str) -> FakeJudge:
    return FakeJudge(lambda _: Reply(error="a bad day"), name=name, stored=True)


def test_a_member_that_fails_leaves_the_vote_to_the_others() -> None:
    """Its failure is in the provenance; where all fail, so does the panel."""
    found = ask([failing("x"), *graded(3, 3)])
    assert found.answer["grade"] == 3
    assert found.provenance["failed"] == {"x": "a bad day"}
    lost = ask([failing("x"), failing("y")])
    assert lost.error == "x: a bad day; y: a bad day"


def test_members_answers_stand_under_their_own_keys(tmp_path: Path) -> None:
    """What a panel asked, a plain evaluation with a member knows, and the other way round; the panel adds no row."""
    ledger = SQLiteLedger(tmp_path / "l.sqlite")
    first, second = graded(1, 2)
    ask([first, second], ledger=ledger)
    assert len(ledger) == 2
    key = key_of(QUESTION, second.identity, "")
    assert ledger.get([key])[key].answer["grade"] == 2
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
    assert ledger.get([key])[key].answer["grade"] == 0


def test_people_and_models_on_one_panel() -> None:
    """A person's yes or no makes the grades of the others a yes or no; labels are part of the panel's key."""
    panel = [LabelsJudge(), *graded(3, 1)]
    yes, no = (
        Relevance(query="q", passage="p", context=Context(text="p", relevant=one)) for one in (True, False)
    )
    assert ask(panel, yes).answer == {"relevant": True, "reasoning": ""}
    assert ask(panel, no).answer["relevant"] is False
    assert ask(panel, yes).key != ask(panel, no).key


def test_who_cannot_sit_on_a_panel() -> None:
    """One member, the same member twice, an unknown vote: each says what to write instead."""
    with pytest.raises(InputError, match="at least two"):
        PanelJudge(graded(1))
    with pytest.raises(InputError, match="--repeat"):
        PanelJudge([*graded(1), *graded(1)])
    with pytest.raises(InputError, match="majority or mean"):
        PanelJudge(graded(1, 2), "best")


def test_an_evaluation_by_a_panel() -> None:
    """Scores come from the votes, and the report's judgements hold them."""
    sample = {"id": "q", "query": "q", "contexts": ["a", "b"]}
    members = [
        FakeJudge({"a": {"grade": a, "reasoning": ""}, "b": {"grade": b, "reasoning": ""}}, name=f"m{a}{b}")
        for a, b in ((3, 0), (2, 0), (0, 3))
    ]
    report = evaluate([sample], "context_precision@2 P(labels=judge)@2", judge=PanelJudge(members, "mean"))
    assert report["P(labels=judge)@2"].mean == 0.5
    judgements = list(report.judgements())
    assert len(judgements) == 2
    assert all(len(one.provenance["votes"]) == 3 for one in judgements)
    assert report.manifest["judge"]["calls"] == 0
