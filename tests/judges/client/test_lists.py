"""Lists whose items cannot be told apart, or may not be those of their passages: asked again once, then one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from germane.judges.client.retry import RetryPolicy
from germane.judges.judge import Reply
from germane.judges.llm import LLMJudge
from germane.questions.relevance import Relevance
from germane.types import Json
from tests.judges.test_llm import ask
from tests.server import Act, Asked, ModelServer

QUICK = RetryPolicy(connect=5, read=10, deadline=30, backoff=0.01)
QUESTIONS = [Relevance(query="why is the sky blue", passage=f"passage {n}") for n in range(10)]

Change = Callable[[list[dict[str, Json]]], Sequence[Json]]


def judged(change: Change, lists: int = 99) -> tuple[list[Reply], list[str]]:
    """Replies of a model that spoils so many lists, and what it was asked, in order. A reason names its passage."""
    act = Act(change=lambda payload: {"items": change(payload["items"])})
    left = iter([act] * lists)

    def script(asked: Asked) -> Act | None:
        return next(left, None) if asked.named[0].endswith("_list") else None

    def by_passage(_kind, sections, _schema) -> Json:
        return {"reasoning": sections["passage"], "grade": 2}

    with ModelServer(script, answer=by_passage) as server:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="k", retry=QUICK, batch=10)
        replies = ask(judge, QUESTIONS)
    return replies, [asked.named[0] for asked in server.asked]


def numbered(items: Sequence[dict[str, Json]], start: int = 1) -> list[dict[str, Json]]:
    return [{**item, "id": number} for number, item in enumerate(items, start)]


ALWAYS: dict[str, Change] = {
    "texts": lambda items: [{**item, "id": str(item["id"])} for item in items],
    "fractions": lambda items: [{**item, "id": float(item["id"])} for item in items],
    "no ids": lambda items: [{k: v for k, v in item.items() if k != "id"} for item in items],
    "from 0": lambda items: numbered(items, 0),
    "one too many": lambda items: [*items, {**items[0], "id": 11}],
    "no object among them": lambda items: [None, *items],
    "nothing": lambda _: [],
    "the first left out and the others numbered anew": lambda items: numbered(items[1:]),
    "one left out and the others numbered anew": lambda items: numbered([*items[:4], *items[5:]]),
}


@pytest.mark.parametrize("change", ALWAYS.values(), ids=ALWAYS)
def test_a_list_that_is_wrong_twice_is_asked_one_by_one(change: Change) -> None:
    """A third list would be as wrong, and every verdict is its own passage's."""
    replies, asked = judged(change)
    assert [reply.payload["reasoning"] for reply in replies] == [one.passage for one in QUESTIONS]
    assert asked == ["relevance_list"] * 2 + ["relevance"] * 10


@pytest.mark.parametrize("change", ALWAYS.values(), ids=ALWAYS)
def test_a_list_that_is_wrong_once_is_asked_again(change: Change) -> None:
    """Two requests in all."""
    replies, asked = judged(change, lists=1)
    assert [reply.payload["reasoning"] for reply in replies] == [one.passage for one in QUESTIONS]
    assert asked == ["relevance_list"] * 2


@pytest.mark.parametrize("gone", [[0], [4], [2, 7]], ids=str)
def test_what_is_left_out_between_others_is_asked_alone(gone: list[int]) -> None:
    """The last passage has its number, so the others have theirs."""
    replies, asked = judged(lambda items: [item for n, item in enumerate(items) if n not in gone])
    assert [reply.payload["reasoning"] for reply in replies] == [one.passage for one in QUESTIONS]
    assert asked == ["relevance_list"] + ["relevance"] * len(gone)


def test_the_model_is_told_that_the_list_ends_too_soon() -> None:
    """With what it said, so that it can do better."""
    bad = Act(change=lambda payload: {"items": payload["items"][:7]})
    with ModelServer([bad]) as server:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="k", retry=QUICK, batch=10)
        ask(judge, QUESTIONS)
    told = server.asked[1].json["messages"][-1]["content"]
    assert "the items end with id 7, but there are 10 passages: give one item for each" in told


def test_a_list_that_is_cut_off_has_all_its_attempts() -> None:
    """More room is another request: the third fits."""

    def script(asked: Asked) -> Act | None:
        room = asked.json.get("max_tokens", 100)
        return (
            Act(text='{"items": [', finish="length", usage={"completion_tokens": room})
            if room < 8000
            else None
        )

    with ModelServer(script) as server:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="k", retry=QUICK, batch=10)
        replies = ask(judge, QUESTIONS)
    assert all(reply.error is None for reply in replies)
    assert server.count == 3
