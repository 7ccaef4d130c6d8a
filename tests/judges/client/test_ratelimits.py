"""Concurrency, the circuit breaker, requests and tokens per minute, and pauses after a Retry-After."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from time import monotonic, sleep

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane import evaluate
from germane.errors import InputError, LimitReached
from germane.judges.client.ratelimits import MINUTE, AdaptiveConcurrency, CircuitBreaker, RateLimiter
from germane.judges.client.retry import RetryPolicy
from germane.judges.judge import Reply
from germane.judges.llm import LLMJudge
from germane.questions.relevance import Relevance
from tests.server import Act, ModelServer
from tests.server.asked import Asked


class TestAdaptiveConcurrency:
    def test_never_more_in_flight_than_the_cap(self) -> None:
        """Forty tasks and a cap of seven: seven at once, all of them served."""
        level, most, done = AdaptiveConcurrency(7), 0, 0

        async def one() -> None:
            nonlocal most, done
            await level.acquire()
            sent = monotonic()
            most = max(most, level.in_flight)
            await asyncio.sleep(0.001)
            level.release()
            level.succeeded(sent)
            done += 1

        async def main() -> None:
            await asyncio.gather(*(one() for _ in range(40)))

        asyncio.run(main())
        assert (most, done, level.in_flight) == (7, 40, 0)

    def test_throttling_halves_once_a_round_trip(self) -> None:
        """Sixteen requests of one round trip are throttled: that is one halving, not sixteen."""
        level = AdaptiveConcurrency(16)

        async def main() -> None:
            sent = []
            for _ in range(16):
                await level.acquire()
                sent.append(monotonic())
            await asyncio.sleep(0.001)
            for time in sent:
                level.release()
                level.throttled(time)

        asyncio.run(main())
        assert level.size == 8

    def test_a_later_round_trip_may_halve_again(self) -> None:
        """What left after a cut and is throttled too cuts again, down to one."""
        level = AdaptiveConcurrency(4)

        async def main() -> None:
            for _ in range(5):
                await asyncio.sleep(0.001)
                await level.acquire()
                sent = monotonic()
                level.release()
                level.throttled(sent)

        asyncio.run(main())
        assert level.size == 1

    def test_it_rises_again_by_one_a_round_trip(self) -> None:
        """After a cut from 8 to 4, a round of four good answers makes about five."""
        level = AdaptiveConcurrency(8)
        level.throttled(monotonic())
        for _ in range(4):
            level.succeeded(monotonic() - 1)
        assert 4.9 < level.size <= 5

    def test_it_searches_by_doubling_until_the_cap(self) -> None:
        """A level to be found starts low and doubles each round trip while latency stays the same."""
        level = AdaptiveConcurrency(64, start=4)
        for _ in range(4 + 8 + 16 + 32):
            level.succeeded(monotonic() - 0.01)
        assert level.size == 64

    def test_it_stops_searching_where_latency_grows(self) -> None:
        """Answers that take five times as long as the fastest: more requests would only queue."""
        level = AdaptiveConcurrency(64, start=4)
        for _ in range(4):
            level.succeeded(monotonic() - 0.01)
        for _ in range(16):
            level.succeeded(monotonic() - 0.05)
        assert level.size == 8

    def test_a_queue_behind_one_slot_is_noticed_in_the_first_round(self) -> None:
        """Each answer comes one slot later than the last: after two of them it rises no more."""
        level = AdaptiveConcurrency(64, start=16)
        for place in range(1, 16):
            level.succeeded(monotonic() - 0.1 * place)
        assert level.size == 18

    def test_a_cancelled_waiter_leaves_no_hole(self) -> None:
        """Cancelled while waiting, or just as it was admitted: the place is there for the next."""

        async def main() -> None:
            level = AdaptiveConcurrency(1)
            await level.acquire()
            waiters = [asyncio.ensure_future(level.acquire()) for _ in range(3)]
            await asyncio.sleep(0)
            waiters[0].cancel()
            await asyncio.sleep(0)
            level.release()
            waiters[1].cancel()
            await asyncio.wait_for(waiters[2], 1)
            assert level.in_flight == 1

        asyncio.run(main())


class TestCircuitBreaker:
    def test_it_opens_after_faults_in_a_row_and_says_what_the_last_was(self) -> None:
        """Three in a row open it; who comes after the outage is turned away with the last fault."""
        circuit = CircuitBreaker(RetryPolicy(circuit_failures=3, outage=0.001))
        circuit.succeeded()
        for _ in range(3):
            assert not circuit.open
            circuit.failed("connection refused")
        assert circuit.open
        sleep(0.01)
        circuit.failed("connection refused")
        assert re.match(r"4 requests in a row failed.*connection refused", circuit.exhausted)

    def test_a_success_between_keeps_it_closed(self) -> None:
        """Only faults in a row count."""
        circuit = CircuitBreaker(RetryPolicy(circuit_failures=2))
        circuit.succeeded()
        for _ in range(5):
            circuit.failed("x")
            circuit.succeeded()
        assert not circuit.open

    def test_it_stays_closed_for_an_endpoint_that_never_answered(self) -> None:
        """Its attempts end the run."""
        circuit = CircuitBreaker(RetryPolicy(circuit_failures=1))
        circuit.failed("connection refused")
        assert not circuit.open


class Clock:
    """Seconds that pass when they are waited."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of the limits, which passes at once when somebody sleeps."""
    clock = Clock()
    monkeypatch.setattr("germane.judges.client.ratelimits.monotonic", clock)
    monkeypatch.setattr("germane.judges.client.ratelimits.asyncio.sleep", clock.sleep)
    return clock


@pytest.mark.parametrize(("seconds", "most"), [(4.0, 0.4), (30.0, 1.0)])
def test_a_pause_ends_for_one_after_the_other(clock: Clock, seconds: float, most: float) -> None:
    """None before its end, all within a tenth of it, a second at most."""
    late = []
    for _ in range(200):
        limits = AdaptiveConcurrency(1)
        limits.throttled(clock.now, seconds)
        end = clock.now + seconds
        asyncio.run(limits.pause())
        late.append(clock.now - end)
    assert -1e-6 < min(late) < max(late) < most + 1e-6
    assert max(late) - min(late) > 0.8 * most


async def use(limiter: RateLimiter, tokens: float) -> None:
    await limiter.acquire(lambda: tokens)


class TestRateLimiter:
    @given(
        st.sampled_from([1, 3, 7, 60, 120]),
        st.lists(st.sampled_from([0.0, 0.0, 0.3, 4.0, 29.0, 70.0]), max_size=150),
    )
    def test_never_more_than_allowed_in_any_minute(self, most: int, pauses: list[float]) -> None:
        """However they come: as fast as they may, or after a quiet while."""
        clock, left = Clock(), []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("germane.judges.client.ratelimits.monotonic", clock)
            patch.setattr("germane.judges.client.ratelimits.asyncio.sleep", clock.sleep)
            limiter = RateLimiter(rpm=most)
            for pause in pauses:
                clock.now += pause
                asyncio.run(use(limiter, 0))
                left.append(clock.now)
        assert all(late - early >= 60.5 for early, late in zip(left, left[most:], strict=False))

    def test_what_was_really_used_counts(self, clock: Clock) -> None:
        """More than was thought delays the next; what is given back does not count; nothing weighs more than a minute."""
        limiter, began = RateLimiter(tpm=1000), clock.now
        asyncio.run(use(limiter, 10))
        limiter.correct(490)
        asyncio.run(use(limiter, 500))
        assert clock.now - began == pytest.approx(MINUTE / 2)
        limiter.correct(-500)
        asyncio.run(use(limiter, 5000))
        assert clock.now - began == pytest.approx(MINUTE / 2)
        asyncio.run(use(limiter, 0))
        assert clock.now - began == pytest.approx(MINUTE * 1.5)

    def test_a_server_that_reports_billions_of_tokens_delays_a_minute(self, clock: Clock) -> None:
        """Not for ever."""
        limiter, began = RateLimiter(tpm=1000), clock.now
        asyncio.run(use(limiter, 10))
        limiter.correct(10**12)
        asyncio.run(use(limiter, 10))
        assert clock.now - began <= 2 * MINUTE

    def test_who_waits_queues_and_who_is_cancelled_leaves_no_trace(self) -> None:
        """The first in the queue is called back, and one behind it: the next is served in its order."""

        async def main() -> list[int]:
            limiter, served = RateLimiter(rpm=1200, in_flight=200), []

            async def one(number: int) -> None:
                await limiter.acquire(lambda: 0)
                served.append(number)

            tasks = [asyncio.ensure_future(one(number)) for number in range(110)]
            await asyncio.sleep(0)
            for number in (101, 104):
                tasks[number].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert limiter._in_flight is not None
            assert limiter._in_flight.in_flight == 108
            return served

        assert asyncio.run(main()) == [number for number in range(110) if number not in {101, 104}]

    @pytest.mark.parametrize("rate", [{"rpm": 0}, {"tpm": -1}, {"rpm": float("inf")}])
    def test_what_is_no_rate(self, rate: dict[str, float]) -> None:
        """Said at once."""
        with pytest.raises(InputError, match=r"invalid .*; write a number above 0"):
            RateLimiter(**rate)  # type: ignore[arg-type]

    def test_how_many_tokens_is_asked_when_they_are_taken(self) -> None:
        """Not when the wait began: answers have shown meanwhile how long they are."""

        async def main() -> None:
            limiter, expected = RateLimiter(tpm=60_000), 5100.0
            await limiter.acquire(lambda: expected)
            waiting = asyncio.ensure_future(limiter.acquire(lambda: expected))
            await asyncio.sleep(0)
            expected = 7000
            assert await waiting == 7000

        asyncio.run(main())


WAIT = {"retry-after": "1"}


def ask(server: ModelServer, count: int, **more: object) -> Sequence[Reply]:
    judge = LLMJudge("openai:test", base_url=server.url, api_key="k", **more)  # type: ignore[arg-type]

    async def main() -> Sequence[Reply]:
        try:
            questions = [Relevance(query="why", passage=f"it is {n}") for n in range(count)]
            found = await asyncio.gather(*(judge.answer((question,)) for question in questions))
            return [reply for (reply,) in found]
        finally:
            await judge.close()

    return asyncio.run(main())


def rows(count: int) -> list[dict[str, object]]:
    return [{"id": str(n), "query": "what is it", "contexts": [f"it is {n}"]} for n in range(count)]


def test_nobody_leaves_until_then() -> None:
    """Whoever is out is told to wait a second: forty others are held back for that second too."""
    times: list[float] = []

    def script(_: Asked) -> Act | None:
        times.append(monotonic())
        return Act(status=429, headers=WAIT) if times[-1] - times[0] < 1 else None

    with ModelServer(script, latency=0.02) as server:
        replies = ask(server, 44, concurrency=4)
    assert not [reply.error for reply in replies if reply.error]
    assert len([at for at in times if at - times[0] < 1]) == 4
    assert server.count == 48


def test_one_odd_refusal_stops_nobody() -> None:
    """One request is told to wait five minutes, those sent after it are answered: the others go on at once.

    It is told by what it asks: the server may see requests in another order than they were sent in.
    """
    odd = Act(status=429, headers={"retry-after": "300"})
    with ModelServer(
        lambda asked: odd if re.search(r"it is 2\b", asked.user) else None, latency=0.05
    ) as server:

        async def main() -> int:
            judge = LLMJudge("openai:test", base_url=server.url, api_key="k", concurrency=4)
            questions = [Relevance(query="why", passage=f"it is {n}") for n in range(30)]
            work = [asyncio.ensure_future(judge.answer((question,))) for question in questions]
            while sum(task.done() for task in work) < 29:  # noqa: ASYNC110 - no event tells of the 29th
                await asyncio.sleep(0.01)
            (waiting,) = [task for task in work if not task.done()]
            waiting.cancel()
            await asyncio.wait([waiting])
            await judge.close()
            return judge.requests.in_flight

        assert asyncio.run(asyncio.wait_for(main(), 20)) == 0


@pytest.mark.parametrize(("count", "seconds"), [(1, "1e300"), (200, "3600")])
def test_longer_than_a_call_may_take_ends_the_run(count: int, seconds: str) -> None:
    """Nothing else is sent, the error names the time, and nothing counts as failed."""
    act = Act(status=429, headers={"retry-after": seconds}, error="daily limit")
    refused = 4 * (count > 1)  # the latency lets the first four arrive before one of them is answered
    with ModelServer(lambda asked: act if asked.number >= refused else None, latency=0.2) as server:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="k", concurrency=4)
        with pytest.raises(LimitReached, match=r"asks to wait .* minutes \(HTTP 429: daily limit\)"):
            evaluate(rows(count), "context_precision@1", judge=judge)
    assert server.count <= 1 + (8 if count > 1 else 0)


def test_the_deadline_of_the_retry_policy_decides() -> None:
    """Thirty seconds are too long for calls of five."""
    act = Act(status=429, headers={"retry-after": "30"}, error="too fast")
    with ModelServer(lambda _: act) as server, pytest.raises(LimitReached, match="too fast"):
        ask(server, 1, retry=RetryPolicy(deadline=5))
    assert server.count == 1


def test_an_answer_to_a_later_request_ends_the_pause() -> None:
    """Not so one to an earlier request: it says nothing about what the endpoint takes since."""

    async def main() -> None:
        limits = AdaptiveConcurrency(1)
        limits.throttled(5.0, 60)
        limits.succeeded(4.9)
        waiting = asyncio.ensure_future(limits.pause())
        await asyncio.sleep(0.2)
        assert not waiting.done()
        limits.succeeded(5.0)
        await asyncio.wait_for(waiting, 1)

    asyncio.run(main())


@pytest.mark.parametrize(("answered", "paused"), [(5.1, False), (5.0, True), (4.9, True)])
def test_a_refusal_after_a_later_request_was_answered_pauses_nobody(answered: float, paused: bool) -> None:
    """The order in which two responses arrive does not matter: one odd refusal stops its own request alone."""
    limits = AdaptiveConcurrency(1)
    limits.succeeded(answered)
    limits.throttled(5.0, 60)
    assert limits.paused == paused


def test_the_longer_of_two_pauses_holds() -> None:
    """Whichever was told first."""

    async def main() -> None:
        limits = AdaptiveConcurrency(1)
        limits.throttled(1.0, 0.2)
        limits.throttled(1.0, 0.01)
        began = monotonic()
        await limits.pause()
        assert monotonic() - began >= 0.19

    asyncio.run(main())
