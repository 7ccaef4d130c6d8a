"""How long an answer may be, under which name, and that one that was cut off gets more room however a server behaves."""

from __future__ import annotations

import asyncio
import json

import pytest

from germane.judges.client.chat import LIMIT_NAMES
from germane.judges.client.retry import RetryPolicy
from germane.judges.judge import Reply
from germane.judges.llm import LLMJudge
from germane.questions.kinds import Entities
from germane.questions.question import AnyQuestion
from germane.questions.relevance import Relevance
from tests.judges.test_llm import ask, in_turn, limit_of
from tests.server import Act, Asked, ModelServer

QUICK = RetryPolicy(connect=5, read=10, deadline=30, backoff=0.01)
QUESTIONS = [Relevance(query="why is the sky blue", passage=f"the sky is blue {n}") for n in range(3)]
CUT = '{"reasoning": "it sa'
USUAL = QUESTIONS[0].limited()[1]
"""Tokens that the answer to one of them may have."""


def judged(server: ModelServer, **more) -> list[Reply]:
    judge = LLMJudge("openai:test", base_url=server.url, api_key="k", retry=QUICK, **more)
    return in_turn(judge, QUESTIONS)


def heeding(*names: str, default: int = 100, needed: int = 1000):
    """A server that heeds the limit under these names, passes over others, and answers in so many tokens."""

    def script(asked: Asked) -> Act | None:
        room = next((asked.json[name] for name in names if name in asked.json), default)
        return Act(text=CUT, finish="length", usage={"completion_tokens": room}) if room < needed else None

    return script


class TestNames:
    def test_which_name_is_used_first(self) -> None:
        """The new one where it was made; most other servers know only the old one, or both."""
        own = [LLMJudge("openai:x"), LLMJudge("azure:x", base_url="http://h")]
        others = [LLMJudge("openai:x@http://h/v1"), LLMJudge("ollama:x"), LLMJudge("groq:x")]
        assert {judge.capabilities.limit_names[0] for judge in own} == {"max_completion_tokens"}
        assert {judge.capabilities.limit_names[0] for judge in others} == {"max_tokens"}

    @pytest.mark.parametrize("given", [{"max_tokens": 500}, {"max_completion_tokens": 500}])
    def test_a_limit_that_is_taken_under_no_name_is_left_out(self, given: dict[str, int]) -> None:
        """Two refusals, once."""

        def script(asked: Asked) -> Act | None:
            name = next((name for name in LIMIT_NAMES if name in asked.json), None)
            return Act(status=400, error=f"Unrecognized request argument supplied: {name}") if name else None

        with ModelServer(script) as server:
            replies = judged(server, parameters=given)
        assert all(reply.error is None for reply in replies)
        assert server.count == 3 + 2
        assert limit_of(server.asked[-1]) is None

    def test_an_answer_that_is_cut_where_no_limit_is_taken_is_an_error_that_says_so(self) -> None:
        """The same request would be cut, and paid for, again."""

        def script(asked: Asked) -> Act:
            name = next((name for name in LIMIT_NAMES if name in asked.json), None)
            if name:
                return Act(status=400, error=f"Unrecognized request argument supplied: {name}")
            return Act(cut=True)

        with ModelServer(script) as server:
            replies = judged(server)
        assert all("accepts no higher token limit" in str(reply.error) for reply in replies)
        assert server.count == 3 + 2


class TestCut:
    @pytest.mark.parametrize("finish", ["stop", "", "tool_calls"])
    def test_an_answer_without_an_end_that_used_all_its_tokens_was_cut(self, finish: str) -> None:
        """Whatever the server calls it: it gets more room, and is not told that it was wrong."""

        def script(asked: Asked) -> Act | None:
            room = limit_of(asked) or 0
            return Act(text=CUT, finish=finish, usage={"completion_tokens": room}) if room < 1000 else None

        with ModelServer(script) as server:
            (reply, *_) = judged(server, max_output_tokens=60)
        assert reply.error is None
        assert [limit_of(asked) for asked in server.asked][:2] == [60, 4096]
        assert CUT not in server.asked[1].raw.decode()

    def test_a_whole_answer_that_used_all_its_tokens_is_an_answer(self) -> None:
        """Exactly as many as it needed."""
        with ModelServer(lambda _: Act(usage={"completion_tokens": 60})) as server:
            replies = judged(server, max_output_tokens=60)
        assert all(reply.error is None for reply in replies)
        assert server.count == 3

    def test_a_short_limit_of_the_servers_own_is_met_once(self) -> None:
        """One cut answer, not one per question."""
        with ModelServer(heeding(*LIMIT_NAMES)) as server:
            replies = judged(server)
        assert all(reply.error is None for reply in replies)
        assert [limit_of(asked) for asked in server.asked] == [USUAL, *[USUAL + 4096] * 3]

    def test_one_long_answer_shortens_no_other(self) -> None:
        """What is cut at more than that was not cut by a short limit; its tokens were thoughts, which get room once."""
        with ModelServer([Act(text=CUT, finish="length", usage={"completion_tokens": 16000})]) as server:
            replies = judged(server)
        assert all(reply.error is None for reply in replies)
        assert [limit_of(asked) for asked in server.asked] == [USUAL, *[USUAL + 4096] * 3]

    def test_a_whole_answer_that_is_wrong_is_given_none(self) -> None:
        """Only what has no end may lack room."""
        with ModelServer([Act(text='{"reasoning": "r", "grade": 9}')]) as server:
            judged(server)
        assert all(limit_of(asked) == USUAL for asked in server.asked)


class TestWording:
    @pytest.mark.parametrize("text", ["", " \n", "\u200b\u200b", " " * 5000 + '{"grade": 9}'])
    def test_an_answer_that_shows_nothing_is_not_shown_again(self, text: str) -> None:
        """Some servers refuse a message of white space: the rest of that question was then lost."""

        def script(asked: Asked) -> Act | None:
            if any(not message["content"].strip("\u200b \n") for message in asked.json["messages"]):
                return Act(status=400, error="messages: text content blocks must contain non-whitespace text")
            return Act(text=text) if asked.number == 1 else None

        with ModelServer(script) as server:
            replies = judged(server)
        assert all(reply.error is None for reply in replies)
        assert server.count == 4

    def test_a_temperature_among_the_parameters_is_learned_about_too(self) -> None:
        """As the one of its own argument: one refusal, once."""
        with ModelServer(temperature=False) as server:
            replies = judged(server, parameters={"temperature": 0})
        assert all(reply.error is None for reply in replies)
        assert [asked.json.get("temperature") for asked in server.asked] == [0, None, None, None]


class TestTogether:
    """Requests that are cut while others are under way."""

    def test_what_others_learned_is_not_taken_for_what_was_sent(self) -> None:
        """All are cut at the server's own limit at once: each is given the least room, not twice what it never had."""

        def script(asked: Asked) -> Act | None:
            limit = limit_of(asked) or 0
            if limit < 4096:
                return Act(text=CUT, finish="length", usage={"completion_tokens": 60})
            return Act(status=400, error="max_tokens is too large: at most 4096") if limit > 4096 else None

        questions = [Relevance(query="why", passage=f"the sky is blue {n}") for n in range(24)]
        with ModelServer(script, latency=0.05) as server:
            replies = asyncio.run(
                together(LLMJudge("openai:test", base_url=server.url, api_key="k"), questions)
            )
        assert all(reply.error is None for reply in replies)
        assert {limit_of(asked) for asked in server.asked} == {USUAL, 4096}


async def together(judge: LLMJudge, questions: list[Relevance]) -> list[Reply]:
    try:
        replies = await asyncio.gather(*(judge.answer((question,)) for question in questions))
    finally:
        await judge.close()
    return [reply for one in replies for reply in one]


EFFORT = (
    "Unsupported value: 'reasoning_effort' does not support '{}' with this model. Supported values are: ..."
)


class TestLeftOut:
    def test_a_temperature_that_is_not_taken(self) -> None:
        """Named too."""
        with ModelServer(temperature=False) as server:
            replies = judged(server)
        assert replies[0].provenance["left_out"] == ("temperature",)


class TestUnconstrained:
    def test_falling_back_to_the_prompt_is_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        """With the model and what was refused; every judgement has its mode."""
        with ModelServer(schema=False, tools=False) as server:
            replies = judged(server)
        warnings = [one for one in caplog.messages if "without structured output" in one]
        assert len(warnings) == 1
        assert warnings[0].startswith("test is used without structured output (")
        assert [reply.provenance["mode"] for reply in replies] == ["prompt"] * 3

    def test_a_tool_call_is_constrained(self, caplog: pytest.LogCaptureFixture) -> None:
        """Nothing is logged."""
        with ModelServer(schema=False) as server:
            replies = judged(server)
        assert [reply.provenance["mode"] for reply in replies] == ["tool"] * 3
        assert not caplog.messages


class TestReasoningContent:
    @pytest.mark.parametrize(
        ("field", "text", "setting"),
        [
            ("reasoning_content", '{"reasoning": "r", "grade": 2}', '{"reasoning_effort": "none"}'),
            ("reasoning", "Let me think about the passage.", '{"reasoning_effort": "none"}'),
        ],
    )
    def test_an_answer_in_the_wrong_place_names_the_setting(
        self, field: str, text: str, setting: str
    ) -> None:
        """It is not taken for the answer, and the error says what to change."""
        message = {"role": "assistant", "content": None, field: text}
        body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]})
        with ModelServer(lambda _: Act(body=body)) as server:
            replies = judged(server)
        assert all(reply.payload is None for reply in replies)
        assert f"the answer is empty, since the model put all of its text into {field}" in str(
            replies[0].error
        )
        assert setting in str(replies[0].error)
        assert {asked.mode for asked in server.asked} == {"schema"}  # which was not at fault

    def test_reasoning_beside_an_answer_is_passed_over(self) -> None:
        """The content is the answer."""
        message = {"content": '{"reasoning": "r", "grade": 2}', "reasoning_content": '{"grade": 0}'}
        with ModelServer(lambda _: Act(body=json.dumps({"choices": [{"message": message}]}))) as server:
            assert judged(server)[0].payload == {"reasoning": "r", "grade": 2}


class TestProvenance:
    def test_what_shared_a_request_and_which_snapshot_answered(self) -> None:
        """Kinds that were fused, place in the list, the model that answered, one request."""
        text = "The sky is blue."
        questions: list[AnyQuestion] = [Relevance(query="why", passage=text), Entities("why", text)]
        body = {
            "model": "test-2026-11-01",
            "choices": [{"message": {"content": '{"reasoning": "r", "grade": 2, "entities": []}'}}],
        }
        with ModelServer(lambda _: Act(body=json.dumps(body))) as server:
            replies = ask(LLMJudge("openai:test", base_url=server.url, api_key="k"), questions)
        for reply in replies:
            assert reply.provenance["fused"] == ("relevance", "entities")
            assert reply.provenance["model"] == "test-2026-11-01"
        assert replies[0].request == replies[1].request
        assert (replies[0].usage.requests, replies[1].usage.requests) == (1, 0)
        assert (replies[0].ms is None, replies[1].ms is None) == (False, True)

    def test_calls_have_names_of_their_own(self) -> None:
        """So that what they cost can be summed up by request."""
        with ModelServer() as server:
            replies = judged(server)
        assert len({reply.request for reply in replies}) == 3
