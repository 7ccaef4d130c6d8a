"""How long an answer may be, under which name, and that one that was cut off gets more room however a server behaves."""

from __future__ import annotations

import asyncio

import pytest

from germane.judges.judge import Reply
from germane.judging.judges.llm import LLMJudge
from germane.judging.limitname import LIMITS, LimitName
from germane.judging.patience import Patience
from germane.questions import Relevance
from germane.testing import Act, Asked, ModelServer
from tests.judging.test_llm import in_turn, limit_of

QUICK = Patience(connect=1, read=5, deadline=20, backoff=0.01)
QUESTIONS = [Relevance(query="why is the sky blue", passage=f"the sky is blue {n}") for n in range(3)]
CUT = '{"reasoning": "it sa'


def judged(server: ModelServer, **more) -> list[Reply]:
    judge = LLMJudge("openai:test", base_url=server.url, api_key="k", patience=QUICK, **more)
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
        assert {judge.habits.limit_name.name for judge in own} == {"max_completion_tokens"}
        assert {judge.habits.limit_name.name for judge in others} == {"max_tokens"}

    @pytest.mark.parametrize("name", LIMITS)
    @pytest.mark.parametrize("given", [{}, {"max_tokens": 60}, {"max_completion_tokens": 60}])
    def test_a_name_that_is_passed_over_in_silence_is_changed(self, name: str, given: dict[str, int]) -> None:
        """An answer cut well below its limit was not cut by it: the next request uses the other name, for good."""
        with ModelServer(heeding(name)) as server:
            replies = judged(server, parameters=given)
        assert all(reply.error is None for reply in replies)
        assert server.count <= 3 + 2 * 3
        assert limit_of(server.asked[-1]) == (
            server.asked[-1].json[name] if given else limit_of(server.asked[-1])
        )

    def test_that_is_no_attempt(self) -> None:
        """Two cut answers under a name that is not heeded leave all three attempts."""
        with ModelServer(heeding("max_completion_tokens", needed=20000)) as server:
            replies = judged(server, parameters={"max_tokens": 5000})
        assert all(reply.error is None for reply in replies)

    def test_a_server_that_heeds_neither_is_asked_no_more_often_than_it_must(self) -> None:
        """Each name is doubted once, then the attempts count."""
        with ModelServer(heeding()) as server:
            replies = judged(server)
        assert all("cut off at the token limit" in str(reply.error) for reply in replies)
        assert server.count == 3 * 3 + 2

    @pytest.mark.parametrize("given", [{"max_tokens": 500}, {"max_completion_tokens": 500}])
    def test_a_limit_that_is_taken_under_no_name_is_left_out(self, given: dict[str, int]) -> None:
        """Two refusals, once."""

        def script(asked: Asked) -> Act | None:
            name = next((name for name in LIMITS if name in asked.json), None)
            return Act(status=400, error=f"Unrecognized request argument supplied: {name}") if name else None

        with ModelServer(script) as server:
            replies = judged(server, parameters=given)
        assert all(reply.error is None for reply in replies)
        assert server.count == 3 + 2
        assert limit_of(server.asked[-1]) is None

    def test_an_answer_that_is_cut_where_no_limit_is_taken_is_an_error_that_says_so(self) -> None:
        """The same request would be cut, and paid for, again."""

        def script(asked: Asked) -> Act:
            name = next((name for name in LIMITS if name in asked.json), None)
            if name:
                return Act(status=400, error=f"Unrecognized request argument supplied: {name}")
            return Act(cut=True)

        with ModelServer(script) as server:
            replies = judged(server)
        assert all("takes no limit that could be raised" in str(reply.error) for reply in replies)
        assert server.count == 3 + 2

    def test_a_name_that_was_doubted_is_used_again_where_the_other_is_refused(self) -> None:
        """A doubt is no refusal."""
        name = LimitName("max_tokens")
        assert name.unheeded("max_tokens")
        assert name.refused("unknown field max_completion_tokens")
        assert name.name == "max_tokens"
        assert not name.unheeded("max_tokens")
        assert name.refused("unknown field max_tokens")
        assert not name.name
        assert not name.refused("unknown field max_tokens")


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

    def test_an_answer_without_an_end_is_given_a_limit_where_none_was_sent(self) -> None:
        """A server's own default may have cut it off, and say "stop"."""

        def script(asked: Asked) -> Act | None:
            return None if limit_of(asked) else Act(text=CUT, usage={"completion_tokens": 100})

        with ModelServer(script) as server:
            (reply, *_) = judged(server)
        assert reply.error is None
        assert [limit_of(asked) for asked in server.asked][:2] == [None, 4096]
        assert "broken or cut off" in server.asked[1].json["messages"][-1]["content"]

    def test_a_short_limit_of_the_servers_own_is_met_once(self) -> None:
        """One cut answer, not one a question."""
        with ModelServer(heeding(*LIMITS)) as server:
            replies = judged(server)
        assert all(reply.error is None for reply in replies)
        assert [limit_of(asked) for asked in server.asked] == [None, 4096, 4096, 4096]

    def test_one_long_answer_shortens_no_other(self) -> None:
        """What is cut at more than that was not cut by a short limit."""
        with ModelServer([Act(text=CUT, finish="length", usage={"completion_tokens": 16000})]) as server:
            replies = judged(server)
        assert all(reply.error is None for reply in replies)
        assert [limit_of(asked) for asked in server.asked] == [None, 32000, None, None]

    def test_a_whole_answer_that_is_wrong_is_given_none(self) -> None:
        """Only what has no end may lack room."""
        with ModelServer([Act(text='{"reasoning": "r", "grade": 9}')]) as server:
            judged(server)
        assert all(limit_of(asked) is None for asked in server.asked)


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
            limit = limit_of(asked)
            if limit is None:
                return Act(text=CUT, finish="length", usage={"completion_tokens": 60})
            return Act(status=400, error="max_tokens is too large: at most 4096") if limit > 4096 else None

        questions = [Relevance(query="why", passage=f"the sky is blue {n}") for n in range(24)]
        with ModelServer(script, latency=0.05) as server:
            replies = asyncio.run(
                together(LLMJudge("openai:test", base_url=server.url, api_key="k"), questions)
            )
        assert all(reply.error is None for reply in replies)
        assert {limit_of(asked) for asked in server.asked} == {None, 4096}

    def test_an_answer_that_a_server_cut_without_a_word_keeps_the_schema(self) -> None:
        """finish_reason "stop" and no end: more room is named, for all from then on, and the schema is not given up."""

        def script(asked: Asked) -> Act | None:
            short = Act(text=CUT, finish="stop", usage={"completion_tokens": 60})
            return short if limit_of(asked) is None else Act(usage={"completion_tokens": 90})

        with ModelServer(script) as server:
            replies = judged(server)
        assert all(reply.error is None for reply in replies)
        assert server.count == 3 + 1
        assert {asked.rung for asked in server.asked} == {"schema"}


async def together(judge: LLMJudge, questions: list[Relevance]) -> list[Reply]:
    try:
        replies = await asyncio.gather(*(judge.answer((question,)) for question in questions))
    finally:
        await judge.close()
    return [reply for one in replies for reply in one]
