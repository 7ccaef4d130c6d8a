"""A question of the user's own, with fields of any name: everything that is done with questions works from its declaration."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import Field

from germane.errors import AnswerError
from germane.judges import FakeJudge, Judge, LLMJudge, PanelJudge, Reply
from germane.judging.asker import Asker
from germane.questions import AnyQuestion, ContextSetQuestion, PayloadModel, Question, Reason, Whole, YesNo
from germane.questions.kinds import Support
from germane.questions.relevance import Relevance
from germane.types import Json, Judgement
from tests.server import ModelServer


class TastedItem(PayloadModel):
    """An integer that is not the number stands before the one that is."""

    heat: Whole = Field(ge=0, le=5, description="how hot, 0 to 5")
    note: Reason = ""
    dish_no: Whole
    served: YesNo


class TastedPayload(PayloadModel):
    """A list under another name than what it is about."""

    courses: list[TastedItem]


@dataclass(frozen=True, slots=True)
class Tasted(Question[tuple[tuple[int, bool], ...]]):
    """How hot is each dish of this menu, and is it served?"""

    kind: ClassVar[str] = "tasted"
    batched: ClassVar[bool] = True
    item_fields: ClassVar[tuple[str, ...]] = ("dishes", "passage")
    Payload: ClassVar[type[PayloadModel]] = TastedPayload
    verdicts: ClassVar[tuple[str, str] | None] = ("courses", "dish_no")
    subjects_field: ClassVar[str] = "dishes"

    passage: str
    dishes: tuple[str, ...]

    def answer(self, payload: TastedPayload) -> tuple[tuple[int, bool], ...]:
        return tuple((one.heat, one.served) for one in payload.courses)

    def typical(self) -> Json:
        return courses(*[(2, True)] * len(self.dishes))


@dataclass(frozen=True, slots=True)
class TastedTogether(ContextSetQuestion[tuple[tuple[int, bool], ...]]):
    """The same of several menus together."""

    kind: ClassVar[str] = "tasted_together"
    item_fields: ClassVar[tuple[str, ...]] = ("dishes", "contexts")
    Payload: ClassVar[type[PayloadModel]] = TastedPayload
    verdicts: ClassVar[tuple[str, str] | None] = ("courses", "dish_no")
    subjects_field: ClassVar[str] = "dishes"

    dishes: tuple[str, ...]
    contexts: tuple[str, ...]
    ranks: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)

    def answer(self, payload: TastedPayload) -> tuple[tuple[int, bool], ...]:
        return tuple((one.heat, one.served) for one in payload.courses)

    def typical(self) -> Json:
        return courses(*[(2, True)] * len(self.dishes))

    def _merged(self, verdicts: Sequence[tuple[int, Json]]) -> dict[str, Json]:
        items = [item for _, item in verdicts]
        return {
            "heat": max(item["heat"] for item in items),
            "served": any(item["served"] for item in items),
        }


def courses(*tasted: tuple[int, bool]) -> dict[str, Json]:
    return {
        "courses": [{"heat": h, "note": "", "dish_no": n, "served": s} for n, (h, s) in enumerate(tasted, 1)]
    }


DISHES = ("red curry", "green salad")


@pytest.fixture
def prompts(tmp_path: Path) -> dict[str, str]:
    for name in ("tasted", "tasted_together"):
        (tmp_path / f"{name}.md").write_text("How hot is each dish, and is it served?", "utf-8")
    return {name: str(tmp_path / f"{name}.md") for name in ("tasted", "tasted_together")}


def ask(judge: Judge, questions: Sequence[AnyQuestion]) -> list[Reply]:
    async def main() -> list[Reply]:
        found = {}
        for group in judge.group(questions):
            for question, reply in zip(group, await judge.answer(group), strict=True):
                found[id(question)] = reply
        await judge.close()
        return [found[id(question)] for question in questions]

    return asyncio.run(main())


def model(server: ModelServer, prompts: dict[str, str], **more: int) -> LLMJudge:
    return LLMJudge("openai:m", base_url=server.url, api_key="k", prompts=prompts, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("batch", [1, 3])
def test_a_model_answers_it_alone_and_in_a_list(prompts: dict[str, str], batch: int) -> None:
    """Each item of each text has its own number, and nothing else counts as one."""
    questions = [Tasted(f"menu {n} serves red curry", DISHES) for n in range(3)]
    with ModelServer() as server:
        replies = ask(model(server, prompts, batch=batch), questions)
        assert server.count == (3 if batch == 1 else 1)
    for question, reply in zip(questions, replies, strict=True):
        assert [item["dish_no"] for item in reply.payload["courses"]] == [1, 2]
        assert len(question.parse(reply.payload)) == 2


def vote(question: AnyQuestion, *answers: Json) -> Judgement:
    async def run() -> Judgement:
        members = [FakeJudge({question.kind: one}, name=f"m{n}") for n, one in enumerate(answers)]
        async with Asker(PanelJudge(members)) as asker:
            (answer,) = await asker.judge([question])
        return answer.judgement

    return asyncio.run(run())


def test_a_panel_votes_on_it_thing_by_thing() -> None:
    """Two judges who agree on all of it agree; grades, and a yes or no, are voted beside each other."""
    question = Tasted("menu", DISHES)
    same = vote(question, courses((4, True), (0, False)), courses((4, True), (0, False)))
    assert question.parse(same.answer) == ((4, True), (0, False))
    assert same.provenance["agreement"] == 1.0
    mixed = vote(
        question,
        courses((4, True), (0, False)),
        courses((2, True), (0, False)),
        courses((4, True), (3, True)),
    )
    assert question.parse(mixed.answer) == ((4, True), (0, False))
    assert mixed.provenance["agreement"] == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert question.short(mixed.answer) == "1: 4, 2: 0"


def test_it_is_forecast(prompts: dict[str, str]) -> None:
    """What it would cost follows from its wording and its typical answer."""
    judge = LLMJudge("openai:gpt-4o-mini", prompts=prompts)
    usage = judge.forecast((Tasted("menu", DISHES),))
    assert usage.requests == 1
    assert usage.input_tokens > 50
    assert usage.output_tokens > 10


def test_each_thing_with_the_contexts_is_an_item() -> None:
    """What people label; the same thing with the same contexts in another order is the same item."""
    one = TastedTogether(DISHES, ("a", "b", "b"))
    other = TastedTogether(DISHES[::-1], ("b", "a"))
    assert one.parts() == other.parts()[::-1]
    assert len({one.item, other.item, *one.parts()}) == 4


@pytest.mark.parametrize(
    ("heat", "said"),
    [
        (2.5, "Input should be"),
        (6, "Input should be"),
        ("high", "Input should be"),
        (True, "Input should be"),
        (None, "Input should be"),
    ],
)
def test_numbers_are_read_kindly_where_nothing_is_guessed(heat: object, said: str) -> None:
    """2.0 and "2" are 2, and are stored as 2; anything else is asked again."""
    question = Tasted("m", ("x",))
    for two in (2, 2.0, "2", " 2 "):
        stored = question.validate({"courses": [{"heat": two, "dish_no": "1", "served": True, "more": 1}]})
        assert stored == {"courses": [{"heat": 2, "dish_no": 1, "served": True}]}
        assert question.parse(stored) == ((2, True),)
    with pytest.raises(AnswerError, match=said):
        question.validate({"courses": [{"heat": heat, "dish_no": 1, "served": True}]})


def test_the_reason_of_a_panel_is_of_the_vote_next_to_its_verdict() -> None:
    """Where contexts are named, of who named the same ones: the first vote named another."""

    def said(*numbers: int) -> Json:
        return {"claims": [{"claim": 1, "reasoning": f"said {numbers}", "contexts": list(numbers)}]}

    question = Support(("it rains",), ("wet", "dry", "mild"))
    verdict = vote(question, said(3), said(2, 1), said(1, 2))
    (claim,) = question.parse(verdict.answer)
    assert set(claim.contexts) == set(question.ranked((1, 2)))  # which were shown in another order
    assert claim.reasoning in {"said (2, 1)", "said (1, 2)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dated(Relevance):
    """Relevance, with a date that the prompt shows too."""

    context_fields: ClassVar[tuple[str, ...]] = (*Relevance.context_fields, "date")

    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedKind(Dated):
    """The same under a name of its own."""

    kind: ClassVar[str] = "dated"


@pytest.mark.parametrize("own", [Dated, DatedKind])
def test_a_subclass_changes_no_key_of_the_kind_whose_prompt_it_uses(own: type[Dated]) -> None:
    """Whichever is asked first: else paid answers would not be found."""
    usual = Relevance(query="q", passage="p")
    expected = LLMJudge("openai:m").key(usual)
    judge = LLMJudge("openai:m")
    first = judge.key(own(query="q", passage="p", date="1990"))
    assert judge.key(usual) == expected
    assert judge.key(own(query="q", passage="p", date="1990")) == first
    later = LLMJudge("openai:m")
    later.key(usual)
    assert later.key(own(query="q", passage="p", date="1990")) == first
