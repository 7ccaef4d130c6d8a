"""A wait that an endpoint asks for: whom it binds, for how long, and what shows that it was not meant so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic

import pytest

from germane import evaluate
from germane.errors import LimitReached
from germane.judges.judge import Reply
from germane.judging.hold import Hold
from germane.judging.judges.llm import LLMJudge
from germane.judging.patience import Patience
from germane.questions import Relevance
from germane.testing import Act, ModelServer
from germane.testing.asked import Asked

WAIT = {"retry-after": "1"}
HOUR = Act(status=429, headers={"retry-after": "3600"}, error="daily limit")


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


class TestAskedToWait:
    def test_nobody_leaves_until_then(self) -> None:
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

    def test_one_odd_hour_stops_nobody(self) -> None:
        """A single refusal for an hour, the others being answered: all are, that one too."""
        with ModelServer([None, HOUR], latency=0.01) as server:
            replies = ask(server, 30, concurrency=2)
        assert not [reply.error for reply in replies if reply.error]
        assert server.count == 31

    @pytest.mark.parametrize(("count", "told"), [(1, "1e300"), (200, "3600")])
    def test_an_hour_that_is_meant_ends_the_run(self, count: int, told: str) -> None:
        """One more request finds out that it is; nothing else leaves, and nothing is said to have failed."""
        act = replace(HOUR, headers={"retry-after": told})
        with ModelServer(lambda asked: act if asked.number >= 4 * (count > 1) else None) as server:
            judge = LLMJudge("openai:test", base_url=server.url, api_key="k", concurrency=4)
            with pytest.raises(LimitReached, match=r"asks to wait until .* \(HTTP 429: daily limit\)"):
                evaluate(rows(count), "context_precision@1", judge=judge)
        assert server.count <= 2 + (9 if count > 1 else 0)

    def test_others_are_not_told_that_an_hour_is_more_than_is_left(self) -> None:
        """What the endpoint takes back after a moment has cost no question."""
        began: list[float] = []

        def script(_: Asked) -> Act | None:
            began.append(monotonic())
            return HOUR if began[-1] - began[0] < 0.5 else None

        with ModelServer(script) as server:
            replies = ask(server, 20, concurrency=4, patience=Patience(deadline=30))
        assert not [reply.error for reply in replies if reply.error]
        assert server.count == 24


def test_who_left_later_and_was_answered_shows_that_others_need_not_wait() -> None:
    """Not so who had left before: it says nothing about what the endpoint takes since."""
    hold = Hold(600)
    assert not hold.refused(5.0, 60)
    hold.answered(4.9)
    assert hold.stands
    hold.answered(5.0)
    assert not hold.stands


def test_the_longer_wait_of_two_holds_but_a_probe_has_the_last_word() -> None:
    """Both told at once: the longer one. Told later to who went to find out: that."""
    hold = Hold(600)
    now = monotonic()
    assert not hold.refused(now - 1, 300)
    assert not hold.refused(now - 1, 30)
    assert hold._until - now > 299
    assert not hold.refused(monotonic(), 30)
    assert hold._until - now < 31
    assert hold.refused(monotonic(), 700)
