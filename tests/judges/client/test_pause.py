"""A Retry-After pauses all requests to its endpoint, and ends the run where it is longer than a call may take."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic

import pytest

from germane import evaluate
from germane.errors import LimitReached
from germane.judges.client.limits import Pause
from germane.judges.client.retry import RetryPolicy
from germane.judges.llm import LLMJudge
from germane.judges.judge import Reply
from germane.questions import Relevance
from germane.testing import Act, ModelServer
from germane.testing.asked import Asked

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
    """One request is told to wait five minutes, those sent after it are answered: the others go on at once."""
    odd = Act(status=429, headers={"retry-after": "300"})
    with ModelServer([None, None, odd], latency=0.05) as server:

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
    with ModelServer(lambda asked: act if asked.number >= 4 * (count > 1) else None) as server:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="k", concurrency=4)
        with pytest.raises(LimitReached, match=r"asks to wait until .* \(HTTP 429: daily limit\)"):
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
        pause = Pause()
        pause.start(5.0, 60)
        pause.answered(4.9)
        assert pause.active
        waiting = asyncio.ensure_future(pause.wait())
        await asyncio.sleep(0)
        pause.answered(5.0)
        assert not pause.active
        await asyncio.wait_for(waiting, 1)

    asyncio.run(main())


def test_the_longer_of_two_pauses_holds() -> None:
    """Whichever was told first."""

    async def main() -> None:
        pause = Pause()
        pause.start(1.0, 0.2)
        pause.start(1.0, 0.01)
        began = monotonic()
        await pause.wait()
        assert monotonic() - began >= 0.19

    asyncio.run(main())
