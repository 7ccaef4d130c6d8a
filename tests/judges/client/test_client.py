from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from email.utils import formatdate
from time import monotonic, time

import pytest

from germane.errors import JudgeError
from germane.evaluation.spec import Spec, pick_judge
from germane.judges.client.ratelimits import RateLimiter
from germane.judges.client.retry import RetryPolicy
from germane.judges.judge import Reply
from germane.judges.llm import LLMJudge
from germane.judges.panel import PanelJudge
from germane.questions.relevance import Relevance
from germane.types import Json
from tests.server import Act, Asked, ModelServer

QUICK = RetryPolicy(connect=5, read=10, deadline=30, backoff=0.01)
IMPATIENT = replace(QUICK, read=1)
"""For servers that do not answer: a busy machine answers the others within a second."""


def passages(count: int) -> list[Relevance]:
    return [Relevance(query="why is the sky blue", passage=f"the sky is blue {n}") for n in range(count)]


def ask(judge: LLMJudge, questions: list[Relevance]) -> list[Reply]:
    async def main() -> list[Reply]:
        try:
            groups = judge.group(questions)
            answered = await asyncio.gather(*(judge.answer(group) for group in groups))
            return [reply for replies in answered for reply in replies]
        finally:
            await judge.close()

    return asyncio.run(main())


def judge_of(server: ModelServer, retry: RetryPolicy = QUICK, **more) -> LLMJudge:
    return LLMJudge("openai:test", base_url=server.url, api_key="k", retry=retry, **more)


def one(*script: Act | None, retry: RetryPolicy = QUICK, **more) -> tuple[Reply, ModelServer]:
    with ModelServer(script, **more) as server:
        (reply,) = ask(judge_of(server, retry), passages(1))
    return reply, server


class TestAskedToWait:
    @pytest.mark.parametrize("status", [429, 503, 529])
    def test_many_waits_spend_no_attempt(self, status: int) -> None:
        """Six times 429, with three attempts at everything else: answered, and all seven requests are counted."""
        reply, server = one(*[Act(status=status)] * 6)
        assert reply.error is None
        assert reply.usage.requests == server.count == 7
        assert reply.provenance["waits"] == 6

    @pytest.mark.parametrize(
        ("headers", "least"),
        [
            ({"retry-after": "0.3"}, 0.3),
            ({"retry-after-ms": "300"}, 0.3),
            ({"retry-after": "0"}, 0.0),
            ({"retry-after": "soon"}, 0.0),
        ],
    )
    def test_it_waits_as_told(self, headers: dict[str, str], least: float) -> None:
        """Seconds or milliseconds; what cannot be read is as if it were not said."""
        began = monotonic()
        reply, _ = one(Act(status=429, headers=headers))
        assert reply.error is None
        assert least <= monotonic() - began < least + 10

    def test_it_waits_until_a_date(self) -> None:
        """An HTTP date in the future."""
        began = time()
        reply, _ = one(Act(status=503, headers={"retry-after": formatdate(began + 2, usegmt=True)}))
        assert reply.error is None
        assert time() >= int(began + 2)

    @pytest.mark.parametrize("told", ["0", "-5", "Wed, 21 Oct 2015 07:28:00 GMT"])
    def test_who_says_not_to_wait_is_not_hammered(self, told: str) -> None:
        """Zero, a negative time, a date that has passed: backed off as if nothing were said."""
        act = Act(status=429, headers={"retry-after": told})
        reply, server = one(*[act] * 99, retry=RetryPolicy(deadline=1, backoff=0.2))
        assert reply.error is not None
        # at the deadline a request may be out: it had what was left of the second
        assert reply.error.startswith(("asked to wait", "no answer within"))
        assert server.count < 30

    def test_who_always_says_the_same_is_asked_less_and_less(self) -> None:
        """From the second wait of a call on, the longer of what is told and of our own backing off."""
        act = Act(status=429, headers={"retry-after": "0.05"})
        reply, server = one(*[act] * 99, retry=RetryPolicy(deadline=1, backoff=0.2))
        assert reply.error is not None
        assert server.count < 12

    def test_the_level_falls(self) -> None:
        """Half of what was in flight, then up again."""
        with ModelServer([None] * 8 + [Act(status=429)] * 8, latency=0.02) as server:
            judge = judge_of(server, concurrency=8)
            replies = ask(judge, passages(16))
        assert all(reply.error is None for reply in replies)
        assert judge.requests.size < 8

    def test_no_money_is_no_reason_to_wait(self) -> None:
        """OpenAI says 429 to who has no credit left."""
        with (
            ModelServer(
                [Act(status=429, error="You exceeded your current quota (insufficient_quota)")]
            ) as server,
            pytest.raises(JudgeError, match="insufficient_quota"),
        ):
            ask(judge_of(server), passages(1))


GOOGLE = {
    "code": 429,
    "message": "You exceeded your current quota, please check your plan and billing details.\nPlease retry in 0.31s.",
    "status": "RESOURCE_EXHAUSTED",
    "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0s"}],
}


class TestWaitsThatStandInTheBody:
    @pytest.mark.parametrize("body", [{"error": GOOGLE}, [{"error": GOOGLE}]])
    def test_googles_allowance_a_minute_is_waited_for(self, body: Json) -> None:
        """It is no empty account, though it is said in the same words; and no header says how long."""
        began = monotonic()
        reply, server = one(Act(status=429, body=json.dumps(body)))
        assert (reply.error, server.count) == (None, 2)
        assert reply.provenance["waits"] == 1
        assert monotonic() - began >= 0.31

    def test_an_allowance_a_day_ends_the_run(self) -> None:
        """Google names a wait for it too, that mends nothing."""
        details = [{"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]
        act = Act(status=429, body=json.dumps({"error": {**GOOGLE, "details": details}}))
        with (
            ModelServer(lambda _: act) as server,
            pytest.raises(JudgeError, match="cannot be used: HTTP 429: You exceeded"),
        ):
            ask(judge_of(server), passages(1))
        assert server.count == 1

    @pytest.mark.parametrize("where", ["beside the choices", "in a choice"])
    def test_asked_to_wait_in_a_success(self, where: str) -> None:
        """OpenRouter's: waited, without an attempt, and what it used is counted."""
        error = {"error": {"code": 429, "message": "upstream"}}
        choice = {"message": {"content": ""}, "finish_reason": "error"}
        body = error if where == "beside the choices" else {"choices": [{**choice, **error}]}
        act = Act(body=json.dumps({**body, "usage": {"prompt_tokens": 7, "completion_tokens": 1}}))
        reply, server = one(*[act] * 4)
        assert (reply.error, server.count, reply.provenance["waits"]) == (None, 5, 4)
        assert reply.usage.input_tokens == 4 * 7 + len(server.asked[-1].raw) // 4


FAULTS: dict[str, Act] = {
    "500": Act(status=500, error="something broke"),
    "502 with html": Act(status=502, body="<html>bad gateway</html>"),
    "hang": Act(hang=True),
    "slow": Act(latency=3),
    "reset half way": Act(reset=True),
    "truncated body": Act(truncate=True),
    "body is not JSON": Act(body='{"choices": [{"mess'),
    "200 with an error in it": Act(body=json.dumps({"error": {"code": 502, "message": "upstream"}})),
    "200 with an error in a choice": Act(
        body=json.dumps({"choices": [{"error": {"code": 502, "message": "upstream"}}]})
    ),
    "200 that is no completion": Act(body=json.dumps({"status": "ok"})),
}


def retry_of(fault: Act) -> RetryPolicy:
    return IMPATIENT if fault.hang or fault.latency else QUICK


class TestTransportFaults:
    @pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
    def test_two_are_survived(self, fault: Act) -> None:
        """The third attempt is answered; every request is counted."""
        reply, server = one(fault, fault, retry=retry_of(fault))
        assert reply.error is None
        assert reply.payload["grade"] in range(4)
        assert reply.usage.requests == server.count == 3
        assert reply.provenance["faults"] == 2

    @pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
    def test_three_are_an_error_that_names_the_last(self, fault: Act) -> None:
        """Where the endpoint has answered others before, it is this question's error alone."""
        with ModelServer([None, fault, fault, fault]) as server:
            judge = judge_of(server, retry_of(fault), concurrency=1)
            first, second = ask(judge, passages(2))
        assert first.error is None
        assert second.error is not None
        assert second.error.startswith("no answer in 3 attempts: ")
        assert second.payload is None
        assert server.count == 4

    def test_an_unusable_answer_between_gives_no_further_attempts(self) -> None:
        """500, 500, no JSON, 500: that is three, and the end."""
        fault = Act(status=500, error="busy")
        with ModelServer([None, fault, fault, Act(text="no"), fault, fault, fault]) as server:
            _, reply = ask(judge_of(server, concurrency=1), passages(2))
        assert reply.error == "no answer in 3 attempts: HTTP 500: busy"
        assert server.count == 5

    def test_an_endpoint_that_never_answered_cannot_be_used(self) -> None:
        """Nothing listens there: said once, with the URL."""
        with ModelServer() as server:
            url = server.url
        judge = LLMJudge("openai:test", base_url=url, api_key="k", retry=QUICK)
        with pytest.raises(JudgeError, match=r"127\.0\.0\.1:\d+/v1/chat/completions does not answer"):
            ask(judge, passages(1))

    def test_waiting_for_our_own_limits_is_not_in_the_deadline(self) -> None:
        """600 requests per minute with a burst of 50: the last of 90 waits longer than a call may take, and is asked.

        Few are in flight at once, so that a busy machine answers each within the deadline.
        """
        with ModelServer() as server:
            judge = judge_of(
                server, RetryPolicy(read=3, deadline=3), limiter=RateLimiter(rpm=600), concurrency=4
            )
            replies = ask(judge, passages(90))
        assert not [reply.error for reply in replies if reply.error]
        assert max(reply.ms or 0 for reply in replies) > 3000

    def test_an_answer_that_trickles_in_is_given_up_too(self) -> None:
        """The read timeout is for the whole answer, not for each byte of it."""
        with ModelServer([None, Act(drip=0.05)]) as server:
            judge = judge_of(server, IMPATIENT, concurrency=1)
            first, second = ask(judge, passages(2))
        assert (first.error, second.error) == (None, None)
        assert second.provenance["faults"] == 1

    def test_who_does_not_answer_in_time_is_pressed_less(self) -> None:
        """A timeout halves what is in flight, as a 429 does."""
        with ModelServer([Act(hang=True)]) as server:
            judge = judge_of(server, IMPATIENT, concurrency=8)
            ask(judge, passages(1))
        assert 4 <= judge.requests.size < 5

    def test_the_deadline_ends_a_call(self) -> None:
        """However many attempts are left."""
        with ModelServer([None, *[Act(hang=True)] * 9]) as server:
            judge = judge_of(server, RetryPolicy(read=5, deadline=1), concurrency=1)
            first, second = ask(judge, passages(2))
        assert first.error is None
        assert second.error == "the judge gave no answer within 1 s"


class TestCircuit:
    def test_a_dead_endpoint_is_not_hammered(self) -> None:
        """Sixty questions, an endpoint that dies: at most a few dozen requests, and the errors say so."""
        with ModelServer(
            lambda asked: None if asked.number == 0 else Act(status=500, error="dead")
        ) as server:
            judge = judge_of(server, replace(QUICK, outage=0.2, backoff=0.05), concurrency=4)
            replies = ask(judge, passages(60))
        failed = [reply for reply in replies if reply.error]
        assert len(failed) == 59
        assert any("requests in a row failed" in str(reply.error) for reply in failed)
        assert server.count < 40

    def test_a_restart_loses_nothing(self) -> None:
        """Dead for a moment in the middle: a failure costs no attempt then."""
        began = monotonic()
        dead = lambda: 0.2 < monotonic() - began < 0.6  # noqa: E731
        with ModelServer(lambda _: Act(status=500) if dead() else None, latency=0.05) as server:
            policy = RetryPolicy(backoff=0.4, deadline=20, circuit_failures=3, outage=5)
            judge = judge_of(server, policy, concurrency=4)
            replies = ask(judge, passages(60))
        assert not [reply.error for reply in replies if reply.error]

    def test_a_maintenance_page_is_an_outage(self, caplog: pytest.LogCaptureFixture) -> None:
        """A success that is not JSON is a fault like any other: it is said, and the rest is not asked."""
        page = Act(body="<html>Maintenance</html>")
        with ModelServer(lambda asked: page if asked.number else None) as server:
            judge = judge_of(server, replace(QUICK, outage=0.2, backoff=0.05), concurrency=4)
            replies = ask(judge, passages(60))
        assert len([reply for reply in replies if reply.error]) == 59
        assert server.count < 40
        assert "is not JSON, but a web page: Maintenance; trying for 0 s more" in caplog.text

    def test_a_body_that_is_not_json_is_quoted(self) -> None:
        """A proxy that always streams, for example."""
        streamed = Act(body='data: {"choices": []}')
        with (
            ModelServer(lambda _: streamed) as server,
            pytest.raises(JudgeError, match=r"not a JSON object: data: .*choices"),
        ):
            ask(judge_of(server), passages(1))

    def test_a_refusal_that_repeats_the_request_names_one_field(self) -> None:
        """FastAPI's: what else stands in the request is not taken for refused."""

        def strict(asked: Asked) -> Act | None:
            fault = {"loc": ["body", "response_format"], "msg": "Input is invalid", "input": asked.json}
            return (
                Act(status=422, body=json.dumps({"detail": [fault]}))
                if "response_format" in asked.json
                else None
            )

        with ModelServer(strict) as server:
            (reply,) = ask(judge_of(server), passages(1))
        assert reply.error is None
        assert server.asked[-1].json["temperature"] == 0.1
        assert server.asked[-1].json["messages"][0]["role"] == "system"

    def test_a_dead_endpoint_that_hangs_is_given_up(self) -> None:
        """Nobody is asked again after the outage."""
        hang = Act(hang=True)
        with ModelServer(lambda asked: hang if asked.number >= 20 else None) as server:
            policy = RetryPolicy(read=1, deadline=20, backoff=0.01, circuit_failures=4, outage=0.3)
            judge = judge_of(server, policy, concurrency=8)
            replies = ask(judge, passages(26))
        errors = [reply.error for reply in replies if reply.error]
        assert len(errors) == 6
        assert all("requests in a row failed, the last with: no answer within" in error for error in errors)


USELESS: dict[str, Act] = {
    "401": Act(status=401, error="Incorrect API key provided"),
    "403": Act(status=403, error="Country not supported"),
    "402": Act(status=402, error="Insufficient credits"),
    "404 model": Act(status=404, error="The model `test` does not exist"),
    "404 model for tools": Act(
        status=404, error='model "llama3-groq-tool-use" not found, try pulling it first'
    ),
    "400 key": Act(status=400, error="Incorrect API key provided: xa"),
    "400 model": Act(status=400, error="foo/bar is not a valid model ID"),
    "500 key": Act(status=500, error="Incorrect API key provided: xa"),
}
SUCCESSES: list[tuple[Json, str]] = [
    (
        {"error": {"message": "Wrong", "code": "invalid_api_key"}},
        "HTTP 500: Wrong (invalid_api_key), sent as a success",
    ),
    ({"error": {"message": "No credentials", "code": "401"}}, "HTTP 401: No credentials (401), sent as"),
]


class TestUseless:
    @pytest.mark.parametrize("act", USELESS.values(), ids=USELESS)
    def test_the_judge_cannot_be_used_at_all(self, act: Act) -> None:
        """JudgeError with what the provider said, after one request; nobody asks again."""
        with ModelServer(lambda _: act) as server:
            judge = judge_of(server, concurrency=1)
            with pytest.raises(JudgeError, match=act.error):
                ask(judge, passages(20))
        assert server.count == 1

    @pytest.mark.parametrize(("body", "error"), SUCCESSES)
    def test_nor_can_one_that_calls_it_a_success(self, body: Json, error: str) -> None:
        """A body without an answer says what is wrong."""
        with ModelServer(lambda _: Act(body=json.dumps(body))) as server:
            judge = judge_of(server, concurrency=1)
            with pytest.raises(JudgeError, match=re.escape(error)):
                ask(judge, passages(20))
        assert server.count == 1

    def test_who_never_gives_a_completion_cannot_be_used(self) -> None:
        """Some other program answers there: three attempts, and what it says is shown."""
        with ModelServer(lambda _: Act(body='{"status": "ok"}')) as server:
            judge = judge_of(server, concurrency=1)
            with pytest.raises(JudgeError, match=r'no answer in 3 attempts: HTTP 200: {"status": "ok"}'):
                ask(judge, passages(1))
        assert server.count == 3

    def test_what_has_worked_is_not_given_up_for_one_404(self) -> None:
        """A gateway's hiccup is one question's error."""
        with ModelServer([None, Act(status=404, error="no route"), None]) as server:
            replies = ask(judge_of(server, concurrency=1), passages(3))
        assert [reply.error for reply in replies] == [
            None,
            "HTTP 404: no route; is there such a model, and is that the whole base URL? Most end in /v1",
            None,
        ]

    def test_a_flagged_text_is_its_own_error(self) -> None:
        """A 403 of a moderating gateway concerns that text and nothing else."""
        reply, _ = one(Act(status=403, error="Your input was flagged by moderation"))
        assert reply.error is not None
        assert "content filter" in reply.error


@pytest.mark.parametrize("status", [201, 206])
def test_an_answer_with_any_status_of_success_is_one(status: int) -> None:
    """It was paid for."""
    reply, server = one(
        Act(status=status, body=json.dumps({"choices": [{"message": {"content": '{"grade": 2}'}}]}))
    )
    assert (reply.payload, server.count) == ({"grade": 2}, 1)


class TestWhatIsShown:
    def test_a_key_that_a_server_repeats_is_not(self) -> None:
        """Nor what would move the terminal's cursor."""
        with ModelServer([None, Act(status=400, error="bad key sk-0123456789 \x1b[2J")]) as server:
            judge = LLMJudge("openai:test", base_url=server.url, api_key="sk-0123456789", concurrency=1)
            _, reply = ask(judge, passages(2))
        assert reply.error == "HTTP 400: bad key ***  [2J"


class TestLimits:
    def test_in_flight_is_capped(self) -> None:
        """-j 3 is three requests at once, whatever the pool hands over."""
        with ModelServer(latency=0.02) as server:
            ask(judge_of(server, concurrency=3), passages(12))
        assert server.most_in_flight == 3

    def test_requests_a_minute(self) -> None:
        """A burst of five seconds' worth, then evenly: 600 a minute is ten a second."""
        began = monotonic()
        with ModelServer() as server:
            judge = judge_of(server, limiter=RateLimiter(rpm=600))
            ask(judge, passages(56))
        assert monotonic() - began >= 0.4

    def test_tokens_a_minute_count_answers_too(self) -> None:
        """Answers of 400 tokens: of 4,000 a minute only a few leave before it is known, however small the requests are."""
        usage = {"prompt_tokens": 100, "completion_tokens": 400}
        with ModelServer(lambda _: Act(usage=usage), latency=0.1) as server:

            async def main() -> int:
                judge = judge_of(server, limiter=RateLimiter(tpm=4000))
                work = asyncio.gather(*(judge.answer((one,)) for one in passages(60)))
                await asyncio.sleep(1.5)
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                await judge.close()
                return judge.requests.in_flight

            assert asyncio.run(main()) == 0
        assert 1 <= server.count <= 4

    @pytest.mark.parametrize(("flags", "most"), [({"jobs": 2}, 2), ({"jobs": 3, "rpm": 120.0}, 1)])
    def test_a_panel_keeps_to_the_limits_together(self, flags: dict[str, float], most: int) -> None:
        """Two members at one server: -j and --rpm are the run's, not each one's."""
        sent = 2 if "rpm" in flags else 12
        with ModelServer(latency=0.05) as server:
            url = server.url
            panel = pick_judge(
                Spec.of(judge="openai:a openai:b", base_url=url, headers=(("x", "y"),), **flags)
            )
            assert isinstance(panel, PanelJudge)

            async def main() -> None:
                one = passages(1)[0]
                asked = [member.answer((one,)) for member in panel.members for _ in range(6)]
                work = asyncio.gather(*asked)
                async with asyncio.timeout(30):
                    while server.count < sent:  # noqa: ASYNC110 - the server is in another thread
                        await asyncio.sleep(0.01)
                # at 120 a minute, the third is sent half a second after the second
                await asyncio.wait([work], timeout=0.3)
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                for member in panel.members:
                    await member.close()

            asyncio.run(main())
        assert server.most_in_flight == most
        assert server.count == sent

    def test_a_judge_serves_several_loops(self) -> None:
        """As a notebook does: one judge, an event loop a call."""
        with ModelServer() as server:
            judge = judge_of(server)
            for _ in range(3):
                (reply,) = ask(judge, passages(1))
                assert reply.error is None

    def test_connections_left_by_another_loop_are_dropped(self) -> None:
        """Without a close between them."""
        with ModelServer() as server:
            judge = judge_of(server)

            async def main(close: Callable[[], object] | None = None) -> Reply:
                (reply,) = await judge.answer((passages(1)[0],))
                if close:
                    await judge.close()
                return reply

            assert asyncio.run(main(judge.close)).error is None
            assert asyncio.run(main(judge.close)).error is None
