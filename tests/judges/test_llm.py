from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from germane.errors import InputError, JudgeError
from germane.judges.client.chat import object_in
from germane.judges.client.providers import PROVIDERS, Price
from germane.judges.client.retry import RetryPolicy
from germane.judges.judge import FakeJudge, Reply
from germane.judges.llm import LLMJudge, check_shared
from germane.questions.kinds import Claims, Entities, Support
from germane.questions.question import AnyQuestion, key_of
from germane.questions.relevance import Relevance
from germane.types import Json
from tests.server import Act, Asked, ModelServer, storm

QUICK = RetryPolicy(connect=5, read=10, deadline=30, backoff=0.01)
SKY = Relevance(query="why is the sky blue", passage="the sky is blue")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in PROVIDERS.values():
        for name in (provider.key, provider.base):
            monkeypatch.delenv(name, raising=False)


GRADED = '{"reasoning": "r", "grade": 2}'


def call(name: str, arguments: str) -> Json:
    """One tool call of a completion."""
    return {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}


def passages(count: int) -> list[Relevance]:
    return [Relevance(query="why is the sky blue", passage=f"the sky is blue {n}") for n in range(count)]


def ask(judge: LLMJudge | FakeJudge, questions: Sequence[AnyQuestion]) -> list[Reply]:
    """Replies in the order of the questions."""

    async def main() -> list[Reply]:
        try:
            groups = judge.group(questions)
            answered = await asyncio.gather(*(judge.answer(group) for group in groups))
        finally:
            await judge.close()
        by_question = {
            id(question): reply
            for group, replies in zip(groups, answered, strict=True)
            for question, reply in zip(group, replies, strict=True)
        }
        return [by_question[id(question)] for question in questions]

    return asyncio.run(main())


def in_turn(judge: LLMJudge, questions: Sequence[AnyQuestion]) -> list[Reply]:
    """One after the other, in one event loop."""

    async def main() -> list[Reply]:
        try:
            return [(await judge.answer((question,)))[0] for question in questions]
        finally:
            await judge.close()

    return asyncio.run(main())


def judge_of(server: ModelServer, **more) -> LLMJudge:
    return LLMJudge("openai:test", **{"base_url": server.url, "api_key": "k", "retry": QUICK, **more})


def one(*script: Act | None, question: AnyQuestion = SKY, **more) -> tuple[Reply, ModelServer]:
    with ModelServer(script, **more) as server:
        (reply,) = ask(judge_of(server), [question])
    return reply, server


def limit_of(asked: Asked) -> int | None:
    """The limit of the answer's tokens, by whichever name."""
    return asked.json.get("max_tokens", asked.json.get("max_completion_tokens"))


def full(asked: Asked, finish: str = "length") -> Act:
    """An answer that used all of its limit and has no end."""
    return Act(text='{"reaso', finish=finish, usage={"completion_tokens": limit_of(asked) or 100})


class TestAnswers:
    @pytest.mark.parametrize("question", [SKY, Claims("q", "One. Two."), Support(("a", "b"), ("x", "y"))])
    def test_every_kind_is_asked_and_read(self, question: AnyQuestion) -> None:
        """One request, a payload that the question reads, and what it cost."""
        reply, server = one(question=question)
        assert reply.error is None
        question.parse(reply.payload)
        assert server.count == reply.usage.requests == 1
        assert reply.usage.input_tokens == server.bytes // 4
        assert reply.provenance == {"mode": "schema", "model": "test"}

    @pytest.mark.parametrize(
        "text",
        [
            '```json\n{"reasoning": "r", "grade": 2}\n```',
            'Here you are: {"reasoning": "r", "grade": 2}',
            '<think>Maybe {"grade": 0}? No.</think>\n{"reasoning": "r", "grade": 2}',
            'Maybe {"grade": 0} or {"gra</think>\n{"reasoning": "r", "grade": 2}',
            '{"reasoning": "r", "grade": 2}\n\nLet me know if you need more.',
            '\ufeff\n {"reasoning": "r", "grade": 2}',
        ],
    )
    def test_what_stands_around_the_object_is_passed_over(self, text: str) -> None:
        """A fence, a short lead-in, a thought: read without another request."""
        reply, server = one(Act(text=text))
        assert (reply.payload, server.count) == ({"reasoning": "r", "grade": 2}, 1)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("", "the answer is empty"),
            ("I would say 3.", "no JSON object"),
            ("3", "one JSON object, not the number 3"),
            ('{"reasoning": "cut of', "broken or cut off"),
            ('{"reasoning": "r", "grade": NaN}', "Input should be a valid integer, not nan"),
            ('{"reasoning": "r", "grade": 1} or {"reasoning": "r", "grade": 2}', "comes another JSON object"),
            ('For example {"reasoning": "r", "grade": 3} would be wrong: no', "part of a longer text"),
            ('{"reasoning": "r"}', 'lacks "grade"'),
            ('{"reasoning": "r", "grade": "high"}', "Input should be a valid integer"),
            ('{"reasoning": "r", "grade": 2.5}', "Input should be a valid integer, not 2.5"),
            ('{"reasoning": "r", "grade": 5}', "less than or equal to 3, not 5"),
            ('{"reasoning": "r", "grade": true}', "Input should be a valid integer"),
            ('{"reasoning": "r", "relevant": true}', 'lacks "grade"'),
            ('{"reasoning": "r", "grade": 0, "grade": 3}', "the same field twice"),
            ('<think>Maybe {"reasoning": "draft", "grade": 0} hm', "reasoning that does not end"),
            ("[]", "not an empty list"),
        ],
    )
    def test_an_unusable_answer_is_asked_again_with_what_was_wrong(self, text: str, problem: str) -> None:
        """The model sees its answer, what was wrong with it, and the schema; then it does better."""
        reply, server = one(Act(text=text), Act(text=text))
        assert reply.error is None
        assert reply.usage.requests == server.count == 3
        assert reply.provenance["reasked"] == 2
        last = server.asked[-1].json["messages"]
        assert problem in last[-1]["content"]
        assert '"title":"relevance"' in last[-1]["content"]
        if text:
            assert last[-2] == {"role": "assistant", "content": text}
        assert [message["role"] for message in last] == [
            "system",
            "user",
            *(["assistant", "user"] if text else []),
        ]

    def test_what_no_schema_names_is_not_kept(self) -> None:
        """Nor does it matter: a yes with a grade beside it is a yes."""
        binary = Relevance(query="q", passage="p", scale="binary")
        reply, _ = one(Act(text='{"reasoning": "r", "relevant": true, "grade": 7}'), question=binary)
        assert reply.payload == {"reasoning": "r", "relevant": True}

    def test_strings_may_hold_line_breaks_and_marks_of_thoughts(self) -> None:
        """As models write them."""
        text = 'So: {"reasoning": "it says </think>\nand more", "grade": 2}'
        reply, _ = one(Act(text=text))
        assert reply.payload == {"reasoning": "it says </think>\nand more", "grade": 2}

    def test_three_unusable_answers_are_an_error(self) -> None:
        """Never a number read out of free text, never "irrelevant"."""
        reply, server = one(*[Act(text="The grade is 3.")] * 3)
        assert reply.payload is None
        assert reply.error == "no usable answer in 3 attempts; the last: the answer contains no JSON object"
        assert reply.usage.requests == server.count == 3

    def test_a_verdict_too_few_is_asked_again(self) -> None:
        """One verdict for three claims is no verdict."""
        few = Act(text=json.dumps({"claims": [{"claim": 1, "reasoning": "r", "contexts": [1]}]}))
        reply, server = one(few, question=Support(("a", "b", "c"), ("x",)))
        assert len(reply.payload["claims"]) == 3
        assert (
            "1 verdicts for 3 claims: claim 2 is missing" in server.asked[1].json["messages"][-1]["content"]
        )

    def test_a_cut_answer_is_asked_again_with_more_room(self) -> None:
        """Seen by the finish reason, even where the text could be read."""
        acts = {3000: full, 6000: lambda _: Act(finish="length", usage={"completion_tokens": 6000})}

        def script(asked: Asked) -> Act | None:
            room = limit_of(asked)
            return acts[room](asked) if room in acts else None

        with ModelServer(script) as server:
            (reply,) = ask(judge_of(server, max_output_tokens=3000), [SKY])
        assert reply.error is None
        assert [limit_of(asked) for asked in server.asked] == [3000, 6000, 12000]

    @pytest.mark.parametrize(
        "finish",
        ["LENGTH", "MAX_TOKENS", "max_output_tokens", "model_length", "model_context_window_exceeded"],
    )
    def test_a_cut_answer_by_whatever_name(self, finish: str) -> None:
        """Providers do not agree on one."""
        _, server = one(Act(text='{"reaso', finish=finish))
        assert limit_of(server.asked[1]) == 4096

    def test_a_cut_answer_without_a_limit_of_ours(self) -> None:
        """What ends long before the question's own limit met one of the server's: a longer one is named."""
        _, server = one(Act(cut=True))
        assert [limit_of(asked) for asked in server.asked] == [SKY.limited()[1], 4096]

    @pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
    def test_a_limit_among_the_users_parameters_is_the_limit(self, name: str) -> None:
        """It is raised where it cut an answer off, and never stands beside another."""
        with ModelServer(lambda asked: full(asked) if limit_of(asked) == 50 else None) as server:
            (reply,) = ask(judge_of(server, parameters={name: 50}), [SKY])
        assert reply.error is None
        assert [asked.json[name] for asked in server.asked] == [50, 4096]
        assert all(
            len({"max_tokens", "max_completion_tokens"} & asked.json.keys()) == 1 for asked in server.asked
        )

    def test_an_answer_that_needs_more_than_the_model_has_is_an_error(self) -> None:
        """At once: the same request would be paid for again."""

        def script(asked: Asked) -> Act:
            if (limit_of(asked) or 0) > 500:
                return Act(status=400, error="max_tokens must be at most 500")
            return full(asked)

        with ModelServer(script) as server:
            (reply,) = ask(judge_of(server, max_output_tokens=500), [SKY])
        assert (
            "the endpoint does not allow answers of up to 4,096 tokens (HTTP 400: max_tokens must be"
            in str(reply.error)
        )
        assert server.count == 2

    @pytest.mark.parametrize(
        ("act", "error"),
        [
            (Act(refusal="I cannot judge this."), "the model refused to answer: I cannot judge this."),
            (Act(finish="content_filter"), "content filter stopped the answer"),
            (Act(status=400, error="(content_filter) management policy"), "content filter refused"),
            (
                Act(status=400, error="This model's maximum context length is 8192 tokens"),
                "too long for the model",
            ),
        ],
    )
    def test_a_refusal_is_an_error_that_names_it(self, act: Act, error: str) -> None:
        """Asking again would not help, and nothing is guessed."""
        reply, server = one(act)
        assert reply.payload is None
        assert error in str(reply.error)
        assert server.count == 1

    @pytest.mark.parametrize("code", ["json_validate_failed", "tool_use_failed"])
    def test_an_answer_that_the_server_threw_away_is_asked_again(self, code: str) -> None:
        """The same way: it is no sign that the server takes no schema."""
        reply, server = one(Act(status=400, error=f"Failed to generate JSON ({code})"))
        assert reply.error is None
        assert [asked.mode for asked in server.asked] == ["schema", "schema"]

    @pytest.mark.parametrize(
        ("completion", "problem"),
        [
            ({"usage": {"prompt_tokens": "12", "completion_tokens": 2.5}}, ""),
            ({"usage": {"prompt_tokens": -1, "completion_tokens": -3}}, ""),
            ({"usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": [1]}}, ""),
            ({"usage": [3], "model": {"a": 1}}, ""),
            ({"finish_reason": ["length"]}, ""),
            ({"content": ["no part"]}, "the answer is empty"),
            ({"tool_calls": [call("search", "{}")]}, "must be called once"),
            (
                {"tool_calls": [call("relevance", '{"grade": 0}'), call("relevance", '{"grade": 3}')]},
                "must be called once",
            ),
            ({"tool_calls": [call("relevance", GRADED), call("relevance", GRADED)]}, ""),
            ({"tool_calls": [7]}, "one JSON object, not null"),
            ({"tool_calls": 7}, "must be called once"),
            ({"tool_calls": {"function": 1}}, "must be called once"),
        ],
    )
    def test_a_completion_of_an_odd_shape_fails_nothing_else(
        self, completion: dict[str, Json], problem: str
    ) -> None:
        """What can be used is used, the rest is asked again; no other question is touched."""
        message = {name: completion[name] for name in ("content", "tool_calls") if name in completion}
        choice: dict[str, Json] = {"message": {"content": GRADED, **message}, "finish_reason": "stop"}
        choice |= {name: completion[name] for name in ("finish_reason",) if name in completion}
        rest: dict[str, Json] = {k: completion[k] for k in ("usage", "model") if k in completion}
        body: dict[str, Json] = {"choices": [choice], **rest}
        reply, server = one(Act(body=json.dumps(body)))
        assert reply.error is None
        assert server.count == (2 if problem else 1)
        assert problem in server.asked[-1].raw.decode().replace('\\"', '"')

    def test_tokens_that_are_not_told_are_estimated_and_marked(self) -> None:
        """Bytes by four."""
        reply, server = one(Act(usage=False))
        assert reply.usage.input_tokens == server.bytes // 4
        assert reply.usage.output_tokens > 0
        assert reply.provenance["tokens"] == "estimated"

    def test_what_a_call_cost(self) -> None:
        """A price that the user gives; without one it is unknown, not nothing."""
        with ModelServer() as server:
            (paid,) = ask(judge_of(server, price=Price(input=1.0, output=2.0)), [SKY])
            (unknown,) = ask(judge_of(server), [SKY])
        expected = (paid.usage.input_tokens * 1 + paid.usage.output_tokens * 2) / 1e6
        assert paid.usage.cost_usd == pytest.approx(expected)
        assert unknown.usage.cost_usd is None


class TestObject:
    @pytest.mark.parametrize("text", ['{"a": 1}', ' {"a":1} ', '"{\\"a\\": 1}"', 'So: {"a": 1}'])
    def test_found(self, text: str) -> None:
        """The one object there is."""
        assert object_in(text) == {"a": 1}


class TestLadder:
    def modes(self, server: ModelServer) -> list[str]:
        return [asked.mode for asked in server.asked]

    def test_without_json_schema_it_is_a_tool_call(self) -> None:
        """Learned from the 400 and remembered: one request lost, once."""
        with ModelServer(schema=False) as server:
            replies = in_turn(judge_of(server), passages(3))
        assert all(reply.error is None for reply in replies)
        assert self.modes(server) == ["schema", "tool", "tool", "tool"]
        assert replies[2].provenance["mode"] == "tool"

    def test_without_tools_too_the_schema_is_in_the_prompt(self) -> None:
        """Two requests lost, once."""
        with ModelServer(schema=False, tools=False) as server:
            replies = in_turn(judge_of(server), passages(2))
        assert all(reply.error is None for reply in replies)
        assert self.modes(server) == ["schema", "tool", "prompt", "prompt"]

    def test_a_400_that_does_not_say_why_is_tried_one_rung_lower(self) -> None:
        """A server that knows no response_format may only say "bad request": the limits are left out before the mode is."""
        script = lambda asked: Act(status=400, error="bad request") if asked.mode == "schema" else None  # noqa: E731
        with ModelServer(script) as server:
            replies = in_turn(judge_of(server), passages(2))
        assert all(reply.error is None for reply in replies)
        assert self.modes(server) == ["schema", "schema", "tool", "tool"]
        assert ["maxLength" in asked.raw.decode() for asked in server.asked] == [True, False, False, False]

    def test_a_400_after_success_concerns_its_text_alone(self) -> None:
        """Then it is that question's error, and no mode is lost for the others."""
        with ModelServer([None, Act(status=400, error="bad character"), None]) as server:
            replies = in_turn(judge_of(server), passages(3))
        assert [reply.error for reply in replies] == [None, "HTTP 400: bad character", None]
        assert self.modes(server) == ["schema"] * 3

    def test_many_at_once_learn_it_together(self) -> None:
        """Whatever was under way when the first 400 came is asked again, none is lost."""
        with ModelServer(schema=False, temperature=False, latency=0.01) as server:
            replies = ask(judge_of(server, concurrency=16), passages(32))
        assert all(reply.error is None for reply in replies)

    def test_a_server_that_ignores_the_schema_is_told_it_in_words(self) -> None:
        """Prose for every request without a schema in the prompt: noticed after two, remembered."""
        script = lambda asked: None if "JSON Schema" in asked.raw.decode() else Act(text="Quite relevant.")  # noqa: E731
        with ModelServer(script) as server:
            replies = in_turn(judge_of(server), passages(6))
        assert all(reply.error is None for reply in replies)
        assert server.count == 8

    @pytest.mark.parametrize(
        ("refused", "gone"),
        [({"temperature": False}, "temperature"), ({"limit_name": "max_completion_tokens"}, "max_tokens")],
    )
    def test_what_is_not_taken_is_left_out(self, refused: dict[str, Any], gone: str) -> None:
        """And not sent again."""
        with ModelServer(**refused) as server:
            replies = in_turn(judge_of(server, max_output_tokens=500), passages(3))
        assert all(reply.error is None for reply in replies)
        assert [gone in asked.json for asked in server.asked] == [True, False, False, False]
        assert all(limit_of(asked) == 500 for asked in server.asked)

    def test_a_text_with_both_names_of_the_limit_is_no_loop(self) -> None:
        """It is renamed, and left out; then the error stands."""
        act = Act(status=400, error="'max_tokens' is not supported. Use 'max_completion_tokens' instead.")
        with ModelServer(lambda _: act) as server:
            (reply,) = ask(judge_of(server, parameters={"max_tokens": 500}), [SKY])
        assert "is not supported" in str(reply.error)
        assert server.count == 6

    def test_json_with_other_keys_is_no_schema_either(self) -> None:
        """A server that ignores the schema and answers some JSON: noticed after two."""
        script = lambda asked: None if "JSON Schema" in asked.raw.decode() else Act(text='{"score": 3}')  # noqa: E731
        with ModelServer(script) as server:
            replies = in_turn(judge_of(server), passages(6))
        assert all(reply.error is None for reply in replies)
        assert server.count == 8

    def test_an_endpoint_that_takes_nothing_is_given_up(self) -> None:
        """Where no answer ever came, after some tens of rejections."""
        with (
            ModelServer(lambda _: Act(status=400, error="bad")) as server,
            pytest.raises(
                JudgeError, match="refused all 30 requests; the reason for the last: HTTP 400: bad"
            ),
        ):
            ask(judge_of(server, concurrency=4), passages(200))
        assert server.count <= 40

    @pytest.mark.parametrize(
        "said",
        [
            "Developer instruction is not enabled for models/gemma-3-27b-it",
            "Conversation roles must alternate user/assistant/user/assistant/...",
        ],
    )
    def test_other_ways_to_refuse_a_system_message(self, said: str) -> None:
        """Its words then begin the user's."""
        script = lambda asked: Act(status=400, error=said) if asked.system else None  # noqa: E731
        with ModelServer(script) as server:
            replies = in_turn(judge_of(server), passages(2))
        assert all(reply.error is None for reply in replies)
        assert [asked.mode for asked in server.asked] == ["schema"] * 3

    def test_without_a_system_message(self) -> None:
        """Its words then begin the user's."""
        reply, server = one(system=False)
        assert reply.error is None
        assert [message["role"] for message in server.asked[1].json["messages"]] == ["user"]
        assert "Grade the passage's relevance" in server.asked[1].user


class TestReadings:
    def both(self) -> list[AnyQuestion]:
        return [SKY, Claims(SKY.query, SKY.passage)]

    def test_one_request_about_one_text(self) -> None:
        """Each question has its own part; what it cost stands once."""
        with ModelServer() as server:
            relevance, claims = ask(judge_of(server), self.both())
        assert server.count == 1
        assert set(relevance.payload) == {"reasoning", "grade"}
        assert set(claims.payload) == {"claims"}
        assert (relevance.usage.requests, claims.usage.requests) == (1, 0)

    def test_single_asks_one_question_a_request(self) -> None:
        """For whoever does not trust fused ones."""
        with ModelServer() as server:
            ask(judge_of(server, reading="single"), self.both())
        assert sorted(asked.kinds for asked in server.asked) == [["claims"], ["relevance"]]

    def test_only_the_bad_part_is_asked_again(self) -> None:
        """The good one is kept."""
        bad = Act(change=lambda payload: {**payload, "claims": [7]})
        with ModelServer([bad]) as server:
            relevance, claims = ask(judge_of(server), self.both())
        assert relevance.error is claims.error is None
        assert [asked.kinds for asked in server.asked] == [["relevance", "claims"], ["claims"]]
        assert "Input should be a valid string, not 7" in server.asked[1].user

    def test_keys_do_not_depend_on_company(self) -> None:
        """Fused and single share what is stored."""
        fused, single = LLMJudge("openai"), LLMJudge("openai", reading="single")
        for question in self.both():
            keys = {
                key_of(question, judge.identity, judge.prompt_hash(question)) for judge in (fused, single)
            }
            assert len(keys) == 1


class TestLists:
    def test_several_passages_of_a_query_in_one_request(self) -> None:
        """Seven passages by three: three requests, and each answer belongs to its passage."""

        def graded(_kind, sections, _schema):
            return {"reasoning": sections["passage"], "grade": 2}

        with ModelServer(answer=graded) as server:
            questions = passages(7)
            replies = ask(judge_of(server, batch=3), questions)
        assert server.count == 3
        assert [reply.payload["reasoning"] for reply in replies] == [
            question.passage for question in questions
        ]
        assert all("id" not in reply.payload for reply in replies)
        assert sum(reply.usage.requests for reply in replies) == 3

    @pytest.mark.parametrize(
        ("change", "singles"),
        [
            (lambda payload: {"items": payload["items"][1:]}, 1),
            (lambda payload: {"items": [*payload["items"], payload["items"][0]]}, 1),
            (lambda payload: {"items": [{**item, "id": 1} for item in payload["items"]]}, 3),
            (lambda payload: {"items": [{**payload["items"][0], "grade": 9}, *payload["items"][1:]]}, 1),
        ],
        ids=["missing", "doubled", "all the same id", "out of range"],
    )
    def test_what_is_missing_or_doubled_is_asked_singly(self, change, singles: int) -> None:
        """Nothing is attributed to a passage by its place in the answer."""
        with ModelServer([Act(change=change)] * (2 if singles == 3 else 1)) as server:
            replies = ask(judge_of(server, batch=3), passages(3))
        assert all(reply.error is None for reply in replies)
        assert [asked.named[0] for asked in server.asked].count("relevance") == singles

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            (lambda items: [{**item, "id": item["id"] - 1} for item in items], "the id 0"),
            (lambda items: [*items, {**items[0], "id": 17}], "the id 17"),
            (lambda items: [{**item, "id": str(item["id"])} for item in items], "the id '"),
            (lambda items: [{**item, "id": float(item["id"])} for item in items], "has the id "),
            (lambda items: [{"reasoning": "", "grade": 3} for _ in items], "has no id"),
            (lambda items: [*items, 3], "has no id"),
        ],
        ids=["counted from 0", "one too many", "texts", "fractions", "no ids", "no object"],
    )
    def test_an_id_that_no_passage_has_makes_the_list_unusable(self, change, problem: str) -> None:
        """Who counts from 0 gives nine of ten verdicts to the wrong passage: asked again, then singly."""

        def graded(_kind, sections, _schema):
            return {"reasoning": sections["passage"], "grade": 2}

        bad = Act(change=lambda payload: {"items": change(payload["items"])})
        script = lambda asked: bad if asked.named[0].endswith("_list") else None  # noqa: E731
        with ModelServer(script, answer=graded) as server:
            questions = passages(3)
            replies = ask(judge_of(server, batch=3), questions)
        assert [reply.payload["reasoning"] for reply in replies] == [one.passage for one in questions]
        assert problem in server.asked[1].json["messages"][-1]["content"]
        assert [asked.named[0] for asked in server.asked][-3:] == ["relevance"] * 3

    def test_a_refused_list_is_asked_singly(self) -> None:
        """One passage that the model will not judge costs only its own verdict."""
        script = lambda asked: Act(refusal="no") if "blue 1<" in asked.user else None  # noqa: E731
        with ModelServer(script) as server:
            replies = ask(judge_of(server, batch=3), passages(3))
        assert [reply.error is None for reply in replies] == [True, False, True]

    def test_readings_in_lists(self) -> None:
        """Verdict and more about several passages: one request, each part under its kind."""
        questions: list[AnyQuestion] = [q for p in passages(3) for q in (p, Claims(p.query, p.passage))]
        with ModelServer() as server:
            replies = ask(judge_of(server, batch=3), questions)
        assert server.count == 1
        assert all(reply.error is None for reply in replies)

    def test_texts_of_several_samples_to_extract_from(self) -> None:
        """Nothing is shared but the instructions: ten texts, one request, each answer its own."""
        questions = [Claims("q", f"Fact {n}. And another {n}.") for n in range(10)]
        with ModelServer() as server:
            replies = ask(judge_of(server, batch=10), questions)
        assert server.count == 1
        assert [reply.payload["claims"][0] for reply in replies] == [f"Fact {n}." for n in range(10)]

    def test_long_texts_make_short_lists(self) -> None:
        """What is extracted from them is long too, and an answer has an end."""
        with ModelServer() as server:
            ask(judge_of(server, batch=10), [Entities("q", f"Fact {n}. " * 500) for n in range(4)])
        assert 2 <= server.count <= 4

    def test_only_what_is_listed_has_another_key(self) -> None:
        """A verdict given in a list is another one; support is always asked once a sample."""
        single, listed = LLMJudge("openai"), LLMJudge("openai", batch=5)
        support = Support(("a",), ("b",))
        assert single.identity == listed.identity
        assert single.prompt_hash(SKY) != listed.prompt_hash(SKY)
        assert single.prompt_hash(support) == listed.prompt_hash(support)


class TestIdentity:
    def test_it_holds_what_changes_an_answer(self) -> None:
        """Provider, model, base URL where it is another one, parameters."""
        judge = LLMJudge("openai:m", base_url="http://localhost:1/v1/", parameters={"seed": 7})
        assert judge.identity == {
            "provider": "openai",
            "model": "m",
            "base_url": "http://localhost:1/v1",
            "temperature": 0.1,
            "parameters": {"seed": 7},
        }
        assert LLMJudge("openai").identity == {
            "provider": "openai",
            "model": "gpt-4o-mini",
            "temperature": 0.1,
        }

    def test_it_does_not_hold_what_does_not(self) -> None:
        """Concurrency, limits, key, headers, timeouts, reading."""
        more = LLMJudge(
            "openai",
            api_key="x",
            headers={"a": "b"},
            concurrency=3,
            reading="single",
            retry=QUICK,
        )
        assert more.identity == LLMJudge("openai").identity

    def test_one_temperature_is_one_key(self) -> None:
        """However it is written."""
        assert repr(LLMJudge("openai", temperature=0).identity) == repr(
            LLMJudge("openai", temperature=0.0).identity
        )

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ({"temperature": 0.5}, {"parameters": {"temperature": 0.5}}),
            ({"temperature": None}, {"parameters": {"temperature": None}}),
            ({"temperature": 1}, {"temperature": 0.3, "parameters": {"temperature": 1.0}}),
            ({}, {"parameters": {"max_tokens": 500}}),
            ({"max_output_tokens": 700}, {"parameters": {"max_completion_tokens": 500}}),
        ],
        ids=str,
    )
    def test_what_sends_the_same_is_one_key(self, one: dict[str, Any], other: dict[str, Any]) -> None:
        """A temperature among the parameters is the temperature; a limit of the length changes no answer."""
        first, second = LLMJudge("openai", **one), LLMJudge("openai", **other)
        assert first.identity == second.identity
        assert first.capabilities.temperature == second.capabilities.temperature

    def test_one_temperature_is_sent(self) -> None:
        """The one in the key."""
        with ModelServer() as server:
            judge = judge_of(server, parameters={"temperature": 0.9, "seed": 7})
            ask(judge, [SKY])
        assert (server.asked[0].json["temperature"], judge.identity["temperature"]) == (0.9, 0.9)
        assert judge.identity["parameters"] == {"seed": 7}

    @pytest.mark.parametrize(
        "name", ["model", "messages", "response_format", "tools", "tool_choice", "stream", "n"]
    )
    def test_a_parameter_that_is_part_of_the_request_is_an_error(self, name: str) -> None:
        """It would replace what is asked, or ask for what is not read; the message says what to do."""
        with pytest.raises(InputError, match=rf"the model parameters include {name}, which.*\w"):
            LLMJudge("openai", parameters={name: 2})

    @pytest.mark.parametrize(
        "url",
        [
            "HTTP://LOCALHOST:9/v1",
            "http://localhost:9//v1",
            "http://localhost:9/v1//",
            "localhost:9/v1/chat/completions/",
        ],
    )
    def test_one_server_is_one_key(self, url: str) -> None:
        """However its base URL is written."""
        assert LLMJudge("openai:m", base_url=url).identity["base_url"] == "http://localhost:9/v1"

    def test_a_providers_own_url_written_out_is_no_other_key(self) -> None:
        """Nor is one in capitals."""
        assert (
            LLMJudge("openai", base_url="HTTPS://API.OpenAI.com/v1/").identity == LLMJudge("openai").identity
        )

    @pytest.mark.parametrize(
        "setting",
        [
            {"reading": "fuzed"},
            {"batch": 0},
            {"batch": 2.5},
            {"concurrency": 0},
            {"max_output_tokens": 0},
            {"temperature": -1},
            {"temperature": True},
            {"temperature": float("nan")},
            {"temperature": "hot"},
        ],
        ids=str,
    )
    def test_a_setting_that_is_none_is_an_error(self, setting: dict[str, Any]) -> None:
        """It says what to write; nothing is taken for something else in silence."""
        (name,) = setting
        with pytest.raises(InputError, match=rf"{name}.*write"):
            LLMJudge("openai", **setting)

    def test_a_custom_prompt_is_another_key(self, tmp_path: Path) -> None:
        """Of that question alone."""
        (tmp_path / "my.md").write_text("Be strict.", "utf-8")
        judge = LLMJudge("openai", prompts={"relevance": tmp_path / "my.md"})
        assert judge.prompt_hash(SKY) != LLMJudge("openai").prompt_hash(SKY)
        assert judge.prompt_hash(Claims("q", "x")) == LLMJudge("openai").prompt_hash(Claims("q", "x"))


class TestProviders:
    def test_openai_alone_is_its_small_model(self) -> None:
        """What `--judge openai` means."""
        assert LLMJudge("openai").name == "openai:gpt-4o-mini"

    def test_blanks_are_no_part_of_a_models_name(self) -> None:
        """Wherever they stand."""
        assert LLMJudge(" openai: gpt-4o-mini ").identity == LLMJudge("openai").identity

    def test_a_missing_key_names_its_variable(self) -> None:
        """Only when something has to be asked: stored answers need no key."""
        judge = LLMJudge("groq:llama")
        with pytest.raises(JudgeError, match="set GROQ_API_KEY"):
            judge.ready()

    @pytest.mark.parametrize("spec", ["ollama:m", "vllm:m", "llamacpp:m", "openai:m@http://localhost:9/v1"])
    def test_a_local_server_needs_none(self, spec: str) -> None:
        """Nor does one whose base URL is given."""
        LLMJudge(spec).ready()

    @pytest.mark.parametrize(
        ("spec", "problem"),
        [
            ("gpt-4", "unknown provider 'gpt-4'; use PROVIDER:MODEL with one of openai, azure"),
            ("openai/gpt-4o-mini", "did you mean openai:gpt-4o-mini?"),
            ("Ollama/llama3.1:8b", "did you mean ollama:llama3.1:8b?"),
            ("meta-llama/Llama-3", "as in openai:meta-llama/Llama-3; any OpenAI-compatible server"),
            ("ollama", "the provider ollama has no default model"),
            ("azure:m", "set AZURE_OPENAI_ENDPOINT"),
            ("openai:m@http://user:secret@host/v1", "contains a user name or password"),
            ("openai:m@http://", "not the base URL of a server"),
            ("openai:m@http://h:99999/v1", "is not the base URL of a server"),
            ("openai:m@http://[::1/v1", "is not the base URL of a server"),
            ("openai:m@http://[v1.a]/v1", "is not the base URL of a server"),
            ("openai:m@http://h\x00/v1", "is not the base URL of a server"),
            ("openai:qwen@localhost:8000/v1", "write openai:qwen@http://HOST:PORT/v1"),
            ("openai:m@", "'' is not the URL of a server"),
            ("openai:m@ftp://x", "'ftp://x' is not the URL of a server"),
        ],
    )
    def test_what_cannot_be_used_says_what_to_write(self, spec: str, problem: str) -> None:
        """Before anything is sent."""
        with pytest.raises(InputError) as caught:
            LLMJudge(spec)
        assert problem in str(caught.value)

    def test_a_parameter_that_json_cannot_represent_is_an_error(self) -> None:
        """It could be neither sent nor stored."""
        with pytest.raises(InputError, match="parameters contains nan"):
            LLMJudge("openai:m", parameters={"logit_bias": {"7": float("nan")}})

    def test_base_urls(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From the environment as each provider's own tools read it."""
        monkeypatch.setenv("OLLAMA_HOST", "box:11434")
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com/")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://proxy/v1/")
        assert LLMJudge("ollama:m").service.url == "http://box:11434/v1"
        assert LLMJudge("azure:m").service.url == "https://me.openai.azure.com/openai/v1"
        assert LLMJudge("openai").service.url == "http://proxy/v1"
        assert LLMJudge("openai", base_url="http://other/v1").service.url == "http://other/v1"

    @pytest.mark.parametrize("model", ["@cf/meta/llama-3", "claude-3@20240229", "qwen3:8b"])
    def test_an_at_sign_may_stand_in_a_models_name(self, model: str) -> None:
        """What follows it looks like no server."""
        assert LLMJudge(f"openai:{model}").service.model == model

    @pytest.mark.parametrize(
        ("host", "url"),
        [
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            ("127.0.0.1", "http://127.0.0.1:11434/v1"),
            (":1234", "http://127.0.0.1:1234/v1"),
            ("http://0.0.0.0:7", "http://127.0.0.1:7/v1"),
            ("https://box", "https://box/v1"),
            ("[::1]:5", "http://[::1]:5/v1"),
        ],
    )
    def test_ollamas_host_is_taken_as_ollama_takes_it(
        self, monkeypatch: pytest.MonkeyPatch, host: str, url: str
    ) -> None:
        """Where it listens, with the port or the host left out."""
        monkeypatch.setenv("OLLAMA_HOST", host)
        assert LLMJudge("ollama:m").service.url == url

    @pytest.mark.parametrize(
        ("given", "url"),
        [
            ("http://box/v1", "http://box/v1"),
            ("http://box", "http://box/v1"),
            ("http://0.0.0.0:7/v1", "http://0.0.0.0:7/v1"),
        ],
    )
    def test_only_ollamas_own_variable_is_completed(
        self, monkeypatch: pytest.MonkeyPatch, given: str, url: str
    ) -> None:
        """A base URL that a user wrote keeps its host and port, so that stored answers are found again."""
        monkeypatch.setenv("OLLAMA_HOST", "elsewhere")
        assert LLMJudge("ollama:m", base_url=given).service.url == url
        assert LLMJudge(f"ollama:m@{given}").service.url == url

    @pytest.mark.parametrize("host", ["box:abc", "http://box:99999"])
    def test_a_port_of_ollamas_that_is_none(self, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
        """No other port is taken instead."""
        monkeypatch.setenv("OLLAMA_HOST", host)
        with pytest.raises(InputError, match="is not the base URL of a server"):
            LLMJudge("ollama:m")

    @pytest.mark.parametrize("pasted", ["", "/chat/completions"])
    def test_a_query_stays_behind_the_path(self, pasted: str) -> None:
        """As in Azure's older URLs, and in one pasted whole."""
        service = LLMJudge(f"openai:m@https://h/openai/deployments/d{pasted}?api-version=1").service
        assert (
            service.at("chat/completions") == "https://h/openai/deployments/d/chat/completions?api-version=1"
        )

    def test_a_providers_own_host_is_no_stranger(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Written out in a file, it still gets the key; over plain http it does not."""
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        for url, trusted in (("https://api.openai.com/v1", True), ("http://api.openai.com/v1", False)):
            assert LLMJudge(f"openai:m@{url}", trusted=False).service.trusted is trusted

    def test_the_key_goes_where_it_belongs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """To a base URL from a call, a flag or the environment; never to one that stands in a file."""
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        with ModelServer() as server:
            spec = f"openai:m@{server.url}"
            for judge in (
                LLMJudge(spec),
                LLMJudge("openai:m", base_url=server.url),
                LLMJudge(spec, trusted=False),
            ):
                ask(judge, [SKY])
        assert [asked.headers.get("authorization") for asked in server.asked] == ["Bearer secret"] * 2 + [
            None
        ]

    def test_headers_are_sent(self) -> None:
        """The user's own with every request."""
        with ModelServer() as server:
            ask(judge_of(server, headers={"x-team": "search"}), [SKY])
        assert server.asked[0].headers["x-team"] == "search"
        assert server.asked[0].headers["authorization"] == "Bearer k"

    def test_the_users_own_header_replaces_ours(self) -> None:
        """However it is spelled; a key is not needed then."""
        with ModelServer() as server:
            own = {"Authorization": "Basic abc", "Content-Type": "text/json"}
            (reply,) = ask(LLMJudge("openai:m", base_url=server.url, headers=own, retry=QUICK), [SKY])
        assert reply.error is None
        assert server.asked[0].headers["authorization"] == "Basic abc"
        assert server.asked[0].headers["content-type"] == "text/json"

    @pytest.mark.parametrize(
        ("name", "value"), [("x-ü", "bee"), ("x y", "one"), ("x-v", "sécret"), ("x-a", "b\r\nc: d")]
    )
    def test_a_header_that_cannot_be_sent_is_an_error(self, name: str, value: str) -> None:
        """Before anything is sent, without its value."""
        with pytest.raises(InputError) as caught:
            LLMJudge("openai", headers={name: value})
        assert value not in str(caught.value)

    def test_what_is_for_one_host_is_not_sent_to_another(self) -> None:
        """A panel's judges of different providers share neither a base URL nor headers."""
        both = [LLMJudge("openai"), LLMJudge("groq:m")]
        with pytest.raises(InputError, match="one base URL cannot be used for judges of different providers"):
            check_shared(both, "http://h/v1", ())
        with pytest.raises(InputError, match="name each judge as PROVIDER:MODEL@URL"):
            check_shared(both, None, (("x-team", "search"),))
        check_shared([LLMJudge("openai"), LLMJudge("openai:gpt-4o")], "http://h/v1", (("x", "y"),))


class TestStorm:
    @pytest.mark.parametrize("batch", [1, 5])
    def test_a_bad_day_loses_nothing_in_silence(self, batch: int) -> None:
        """10% 429, 5% 500, 5% malformed, 2% hangs: nearly all answered, each right, the rest an error."""

        def graded(_kind, sections, _schema):
            return {"reasoning": sections["passage"], "grade": int(sections["passage"].split()[-1]) % 4}

        questions = passages(300)
        with ModelServer(storm(retry_after="0.05"), answer=graded, latency=0.002) as server:
            replies = ask(
                judge_of(server, batch=batch, concurrency=32, retry=replace(QUICK, read=1.5)), questions
            )
        answered = [(q, reply) for q, reply in zip(questions, replies, strict=True) if reply.error is None]
        assert len(answered) >= 0.98 * len(questions)
        assert all(reply.payload["reasoning"] == q.passage for q, reply in answered)
        assert all(reply.payload["grade"] == int(q.passage.split()[-1]) % 4 for q, reply in answered)
        assert sum(reply.usage.requests for reply in replies) == server.count


class TestForecast:
    def test_it_is_what_the_request_will_be(self) -> None:
        """Bytes of the very request by four."""
        with ModelServer() as server:
            judge = judge_of(server)
            ask(judge, [SKY])
        assert judge.forecast((SKY,)).input_tokens == server.bytes // 4


class TestFakeJudge:
    def test_answers_by_kind_by_text_or_by_function(self) -> None:
        """The text goes before the kind; what is not there is an error reply."""
        judge = FakeJudge(
            {"relevance": {"grade": 1}, "the sky is blue 1": lambda q: {"grade": len(q.about) % 4}}
        )
        first, second, third = ask(judge, [*passages(2), Claims("q", "x")])
        assert first.payload == {"grade": 1}
        assert second.payload == {"grade": len("the sky is blue 1") % 4}
        assert third.error == "the fake judge has no answer to a question of kind claims"
        assert len(judge.asked) == 3

    def test_without_answers_it_gives_typical_ones(self) -> None:
        """So that a test need not care."""
        for question in (SKY, Claims("q", "A text."), Support(("a",), ("b",))):
            (reply,) = ask(FakeJudge(), [question])
            question.parse(reply.payload)

    def test_an_exception_is_raised(self) -> None:
        """As a judge that cannot be used does."""
        with pytest.raises(JudgeError, match="gone"):
            ask(FakeJudge(lambda _: JudgeError("gone")), [SKY])


def test_the_server_sees_what_was_asked() -> None:
    """Sections and schema, on every mode."""
    servers: list[dict[str, Any]] = [{}, {"schema": False}, {"schema": False, "tools": False}]
    for more in servers:
        _, server = one(**more)
        asked: Asked = server.asked[-1]
        assert asked.sections == {"query": SKY.query, "passage": SKY.passage}
        assert asked.named[0] == "relevance"
        assert asked.named[1]["properties"].keys() == {"reasoning", "grade"}


class TestApart:
    """What three attempts at a fused request could not get is asked question by question."""

    QUESTIONS = (
        Relevance(query="why is the sky blue", passage="The sky is blue. It scatters light."),
        Entities("q", "The sky is blue. It scatters light."),
    )

    def ask(self, *script: Act | None, proven: bool = True) -> tuple[list[Reply], ModelServer]:
        with ModelServer([*[None] * proven, *script]) as server:
            judge = LLMJudge("openai:test", base_url=server.url, api_key="k", retry=QUICK, concurrency=1)

            async def main() -> list[Reply]:
                if proven:
                    await judge.answer((Relevance(query="q", passage="p"),))
                try:
                    return list(await judge.answer(self.QUESTIONS))
                finally:
                    await judge.close()

            return asyncio.run(main()), server

    @pytest.mark.parametrize("act", [Act(text="no json"), Act(status=500)], ids=["unusable", "fault"])
    def test_each_question_has_attempts_of_its_own(self, act: Act) -> None:
        """Three bad answers to both together, good ones to each: nothing is lost, and it is said how."""
        replies, server = self.ask(act, act, act)
        assert [reply.error for reply in replies] == [None, None]
        assert server.count == 1 + 3 + 2
        assert replies[0].provenance["singly"] == 2

    def test_a_model_that_never_gave_a_usable_answer_is_not_asked_more(self) -> None:
        """Three attempts, and that is it."""
        replies, server = self.ask(*[Act(text="no json")] * 9, proven=False)
        assert all(reply.error and "no usable answer in 3 attempts" in reply.error for reply in replies)
        assert server.count == 3
