"""How long an answer may be, by what is asked: in the request, in its schema, and in no key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from germane import evaluate
from germane.judges import LLMJudge, RetryPolicy
from germane.questions.kinds import Claims, Entities, StatementRelevance, Support
from germane.questions.question import AnyQuestion, key_of
from germane.questions.relevance import Relevance
from tests.judges.test_llm import ask, in_turn, limit_of
from tests.server import Act, Asked, ModelServer

QUICK = RetryPolicy(connect=5, read=10, deadline=30, backoff=0.01)
SKY = Relevance(query="why is the sky blue", passage="the sky is blue")
CLAIMS = Claims("why is the sky blue", "It scatters light. Blue light most of all.")
SUPPORT = Support(("It scatters light.", "It is blue."), ("The sky scatters light.", "The sky is blue."))


def judge_of(server: ModelServer, **more) -> LLMJudge:
    return LLMJudge("openai:test", base_url=server.url, api_key="k", retry=QUICK, **more)


def schema_of(asked: Asked) -> Any:
    return asked.named[1]["properties"]


def limits_in(asked: Asked) -> bool:
    return "maxLength" in asked.raw.decode() or "maxItems" in asked.raw.decode()


def never_ending(asked: Asked) -> Act:
    room = limit_of(asked) or 0
    return Act(text='{"reasoning": "' + "so " * room, finish="length", usage={"completion_tokens": room})


class TestRequest:
    def test_each_kind_has_its_own(self) -> None:
        """A reason, what is drawn up from a text, one verdict for each claim with the numbers of contexts."""
        with ModelServer() as server:
            in_turn(judge_of(server), [SKY, CLAIMS, SUPPORT])
        relevance, claims, support = map(schema_of, server.asked)
        assert relevance["reasoning"]["maxLength"] == 600
        assert claims["claims"]["maxItems"] == 64
        assert claims["claims"]["items"]["maxLength"] == 1500
        assert support["claims"]["maxItems"] == 2
        assert support["claims"]["items"]["properties"]["contexts"]["maxItems"] > 2
        assert [limit_of(asked) for asked in server.asked] == [
            question.limited()[1] for question in (SKY, CLAIMS, SUPPORT)
        ]

    def test_a_reason_has_the_same_length_in_every_script(self) -> None:
        """A character of three bytes is a token of its own in many a tokenizer."""
        passages = "The sky is blue.", "Жёлтый щит.", "ท้องฟ้าเป็นสีฟ้า"
        rooms = [Relevance(query="q", passage=text).limited()[1] for text in passages]
        assert rooms == [232, 432, 632]

    def test_longer_texts_allow_longer_lists(self) -> None:
        """An entry for every four bytes, and a token for each: several times what any text holds."""
        schema, tokens = Entities("q", "Ada 1815. " * 500).limited()
        assert schema["properties"]["entities"]["maxItems"] >= 5000 // 4
        assert tokens > 5000

    @pytest.mark.parametrize("batch", [1, 3])
    def test_what_shares_a_request_shares_its_limit(self, batch: int) -> None:
        """The sum of all, whether they are about one text or several."""
        questions: list[AnyQuestion] = [Relevance(query="sky", passage=f"the sky {n}") for n in range(3)]
        questions += [Claims("sky", f"the sky {n}") for n in range(3)]
        with ModelServer() as server:
            replies = ask(judge_of(server, batch=batch), questions)
        assert all(reply.error is None for reply in replies)
        tokens = sum(question.limited()[1] for question in questions)
        assert sum(limit_of(asked) or 0 for asked in server.asked) == tokens
        assert all(map(limits_in, server.asked))

    def test_the_users_limit_stands_in_its_place(self) -> None:
        """The schema's limits stay."""
        with ModelServer() as server:
            in_turn(judge_of(server, max_output_tokens=77), [SKY])
        assert limit_of(server.asked[0]) == 77
        assert limits_in(server.asked[0])

    def test_a_provider_at_its_own_address_is_sent_none(self) -> None:
        """It would reserve what is asked for, and thoughts count; what stands at an address of the user's may be weak."""
        limited = {
            spec: LLMJudge(spec).capabilities.token_limits
            for spec in ("openai:x", "groq:x", "ollama:x", "vllm:x", "groq:x@http://127.0.0.1:1/v1")
        }
        assert list(limited.values()) == [False, False, True, True, True]

    def test_a_forecast_counts_the_very_request(self) -> None:
        """With its limits."""
        with ModelServer() as server:
            judge = judge_of(server)
            in_turn(judge, [CLAIMS])
        assert judge.forecast((CLAIMS,)).input_tokens == server.bytes // 4


class TestKeys:
    def test_they_are_in_no_key_and_no_prompt_hash(self) -> None:
        """Judgements of before there were limits have these."""
        judge = LLMJudge("openai:test@http://127.0.0.1:1/v1")
        assert judge.prompt_hash(SKY) == "0040ce3fcc312b72"
        assert key_of(SKY, judge.identity, judge.prompt_hash(SKY)) == "aa04484f8262f0b7da26d22b881c67a7"

    def test_a_stored_answer_that_is_longer_still_answers(self, tmp_path: Path) -> None:
        """One by a judge without limits, which a judge with limits would have been asked again for."""
        long = {"relevance": {"reasoning": "because " * 200, "grade": 3}}
        case = {"id": "1", "query": "q", "contexts": ["c"]}
        store = tmp_path / "ledger.sqlite"
        with ModelServer(answer=long) as server:
            judge = judge_of(server)
            judge.capabilities.drop_limits()
            first = evaluate([case], "context_precision", judge=judge, ledger=store)
            again = evaluate([case], "context_precision", judge=judge_of(server), ledger=store)
        assert server.count == 1
        assert [score.value for report in (first, again) for score in report.scores()] == [1.0, 1.0]


class TestReached:
    @pytest.mark.parametrize(
        ("question", "answer", "said"),
        [
            (
                SKY,
                {"reasoning": "a" * 600, "grade": 3},
                '"reasoning" reached its limit of 600 characters',
            ),
            (CLAIMS, {"claims": ["It is blue."] * 64}, '"claims" reached its limit of 64 items'),
            (CLAIMS, {"claims": ["It is blue.", "b" * 1500]}, '"claims" reached its limit of 1,500 char'),
            (
                SUPPORT,
                {"claims": [{"claim": n, "reasoning": "r", "contexts": [1] * 128} for n in (1, 2)]},
                '"contexts" reached its limit of 128 items',
            ),
        ],
    )
    def test_what_reaches_its_limit_is_asked_again_and_never_taken_for_whole(
        self, question: AnyQuestion, answer: Any, said: str
    ) -> None:
        """The model is told to write less; if it does not, that is the question's error."""
        with ModelServer(lambda _: Act(text=json.dumps(answer))) as server:
            (reply,) = in_turn(judge_of(server), [question])
        assert reply.payload is None
        assert said in str(reply.error)
        assert server.count == 2
        assert said in server.asked[1].json["messages"][-1]["content"]

    @pytest.mark.parametrize("more", [-1, 1])
    def test_another_length_is_an_answer(self, more: int) -> None:
        """A server that writes more limits nothing. So is a verdict on each of as many claims as there are."""
        answers = {
            "relevance": {"reasoning": "a" * (600 + more), "grade": 3},
            "claims": {"claims": [f"It is {n}." for n in range(64 + more)]},
        }
        with ModelServer(answer=answers) as server:
            replies = in_turn(judge_of(server), [SKY, CLAIMS, SUPPORT])
        assert all(reply.error is None for reply in replies)
        assert server.count == 3

    @pytest.mark.parametrize("cut", [True, False])
    def test_an_answer_that_does_not_end_is_not_given_more_room(self, cut: bool) -> None:
        """A weak model that repeats itself: each attempt is as short as the first, and the error names the way out."""

        def endless(asked: Asked) -> Act:
            room = limit_of(asked) or 0
            text = '{"claims": [' + '"It is blue.", ' * room
            return Act(text=text, finish="length" if cut else "stop", usage={"completion_tokens": room})

        with ModelServer(endless) as server:
            (reply,) = in_turn(judge_of(server), [CLAIMS])
        assert f"did not end within {CLAIMS.limited()[1]} tokens" in str(reply.error)
        assert "--model-parameter max_tokens=N" in str(reply.error)
        assert [limit_of(asked) for asked in server.asked] == [CLAIMS.limited()[1]] * 2
        assert (
            "It is blue." not in server.asked[1].json["messages"][-1]["content"].partition("Answer again")[2]
        )

    def test_an_unended_answer_to_several_questions_is_split_at_once(self) -> None:
        """It is not asked again whole: each question is asked alone."""

        def endless(asked: Asked) -> Act | None:
            return None if asked.kinds == ["relevance"] else never_ending(asked)

        with ModelServer(endless) as server:
            judge = judge_of(server)
            groups = [
                (Relevance(query="sky", passage=text), StatementRelevance(query="sky", passage=text))
                for text in ("It is blue.", "It is wide.", "It is high.")
            ]
            replies = [ask(judge, list(group)) for group in groups]
        assert [[reply.error is None for reply in pair] for pair in replies] == [[True, False]] * 3
        fused, relevance, statements = ["relevance", "statements"], ["relevance"], ["statements"]
        assert [asked.kinds for asked in server.asked] == [
            *(fused, relevance, statements, statements) * 3,  # alone it is told once to write less
        ]
        assert [pair[0].provenance["singly"] for pair in replies] == [2, 2, 2]

    def test_one_unended_answer_among_others_changes_nothing(self) -> None:
        """The next ones share their requests as before."""
        ended = iter([False, True, False, True])

        def sometimes(asked: Asked) -> Act | None:
            return None if len(asked.kinds) < 2 or next(ended) else never_ending(asked)

        with ModelServer(sometimes) as server:
            judge = judge_of(server)
            for number in range(4):
                text = f"It is blue {number}."
                pair = [kind(query="sky", passage=text) for kind in (Relevance, StatementRelevance)]
                assert all(reply.error is None for reply in ask(judge, pair))
        assert [len(asked.kinds) for asked in server.asked] == [2, 1, 1, 2, 2, 1, 1, 2]

    def test_a_list_that_does_not_end_is_asked_text_by_text_at_once(self) -> None:
        """It is not asked again whole."""
        with ModelServer(
            lambda asked: never_ending(asked) if "items" in schema_of(asked) else None
        ) as server:
            judge = judge_of(server, batch=2)
            for number in range(3):
                texts = [f"It is blue {number}.", f"It is wide {number}."]
                replies = ask(judge, [Relevance(query="sky", passage=text) for text in texts])
                assert all(reply.error is None for reply in replies)
        shared, alone = True, False
        assert ["items" in schema_of(asked) for asked in server.asked] == [
            *(shared, alone, alone) * 3,
        ]

    @pytest.mark.parametrize("text", ["", "<think>It may be blue, or not, or", '{"rea'])
    def test_thoughts_get_more_room_once_for_all(self, text: str) -> None:
        """Shown apart, before the answer, or not at all: one lost answer, and every later request has the room."""

        def thinking(asked: Asked) -> Act | None:
            room = limit_of(asked) or 0
            return Act(text=text, finish="length", usage={"completion_tokens": room}) if room < 1000 else None

        usual = SKY.limited()[1]
        questions = [Relevance(query="why is the sky blue", passage=f"the sky {n}") for n in range(3)]
        with ModelServer(thinking) as server:
            replies = in_turn(judge_of(server), questions)
        assert all(reply.error is None for reply in replies)
        assert [limit_of(asked) for asked in server.asked] == [usual, *[usual + 4096] * 3]


class TestRefused:
    @pytest.mark.parametrize(
        "error",
        [
            "Invalid schema for response_format 'relevance': In context=('properties', 'reasoning'), 'maxLength' is not permitted.",
            "The provided JSON schema contains features not supported by xgrammar.",
            "failed to parse grammar",
            "bad request",
        ],
    )
    @pytest.mark.parametrize("mode", ["schema", "tool"])
    def test_a_server_that_takes_none_loses_the_limits_before_the_mode(self, error: str, mode: str) -> None:
        """Once, for the endpoint and the model; judgements say what was left out."""

        def script(asked: Asked) -> Act | None:
            if mode == "tool" and asked.mode == "schema":
                return Act(status=400, error="'response_format' is not supported with this model")
            return Act(status=400, error=error) if limits_in(asked) else None

        with ModelServer(script) as server:
            replies = in_turn(judge_of(server), [SKY, CLAIMS])
        assert all(reply.error is None for reply in replies)
        assert [asked.mode for asked in server.asked][-3:] == [mode] * 3
        assert server.count == 3 + (mode == "tool")
        assert "limits" in replies[1].provenance["left_out"]

    def test_a_limit_of_tokens_that_is_more_than_the_endpoint_allows_is_left_out(self) -> None:
        """It is ours and not the user's: nothing is lost but the request."""

        def script(asked: Asked) -> Act | None:
            return Act(status=400, error="max_tokens must be at most 100") if limit_of(asked) else None

        with ModelServer(script) as server:
            replies = in_turn(judge_of(server), [SKY, CLAIMS])
        assert all(reply.error is None for reply in replies)
        assert [limit_of(asked) is None for asked in server.asked] == [False, True, True]
        assert limits_in(server.asked[-1])

    def test_texts_that_fit_without_the_limit_are_asked_without_it(self) -> None:
        """What a server counts together (vLLM): the limit is left out, and contexts are not split for it."""

        def script(asked: Asked) -> Act | None:
            if limit_of(asked) and "claims" in asked.kinds:
                error = (
                    "This model's maximum context length is 512 tokens. However, you requested 600 tokens (100 in the"
                    " messages, 500 in the completion)."
                )
                return Act(status=400, error=error)
            return None

        with ModelServer(script) as server:
            replies = in_turn(judge_of(server), [CLAIMS, SKY])
        assert all(reply.error is None for reply in replies)
        assert [limit_of(asked) is None for asked in server.asked] == [False, True, True]
