"""What is in flight is what was sent: nothing else leaves once an asker stops, and answers from elsewhere are seen."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from germane import aevaluate, evaluate
from germane.errors import InputError, Interrupted, JudgeError, LedgerError
from germane.judges import LLMJudge
from germane.judges.client.retry import RetryPolicy
from germane.judging.asker import Asker
from germane.ledger.sqlite import SQLiteLedger
from germane.questions.relevance import Relevance
from germane.types import Judgement
from tests.server import Act, ModelServer

MEASURE = "context_precision@1"


def passages(count: int) -> list[Relevance]:
    return [Relevance(query="why is the sky blue", passage=f"the sky is blue {n}") for n in range(count)]


def rows(count: int, word: str = "it") -> list[dict[str, object]]:
    return [{"id": str(n), "query": f"what is {word}", "contexts": [f"{word} is {n}"]} for n in range(count)]


def judge_of(server: ModelServer, **more: object) -> LLMJudge:
    return LLMJudge("openai:test", base_url=server.url, api_key="k", **more)  # type: ignore[arg-type]


def when(true: Callable[[], bool], act: Callable[[], None]) -> None:
    """Act once something is true, in the event loop that runs."""
    if true():
        act()
    else:
        asyncio.get_running_loop().call_later(0.02, when, true, act)


class TestStopping:
    @pytest.mark.parametrize(("flags", "sent"), [({}, 16), ({"concurrency": 1}, 1)])
    def test_nothing_leaves_once_it_was_stopped(
        self, tmp_path: Path, flags: dict[str, int], sent: int
    ) -> None:
        """Sixty questions, stopped while the first requests are out: these are finished and kept, no other is sent."""
        with ModelServer(latency=1) as server, SQLiteLedger(tmp_path / "l.sqlite") as ledger:
            judge = judge_of(server, **flags)

            async def run() -> None:
                async with Asker(judge, ledger) as asker:
                    when(lambda: server.count == sent, asker.stop)
                    await asker.judge(passages(60))

            with pytest.raises(Interrupted):
                asyncio.run(run())
            assert server.count == len(ledger) == sent

    @pytest.mark.parametrize(
        "act",
        [
            Act(status=429, headers={"retry-after": "60"}),
            Act(status=429),
            Act(status=500),
            Act(text="no answer", latency=0.3),
        ],
        ids=["told to wait", "asked to wait", "an outage", "unusable answers"],
    )
    def test_nor_is_anything_asked_again(self, tmp_path: Path, act: Act) -> None:
        """Stopped while calls wait to be asked again: what was answered is kept, the others are stopped, and none failed."""
        patience = RetryPolicy(deadline=600, read=60, backoff=5)
        with (
            ModelServer(lambda asked: act if asked.number > 4 else None, latency=0.02) as server,
            SQLiteLedger(tmp_path / "l.sqlite") as ledger,
        ):
            judge, sent = judge_of(server, retry=patience), []

            async def run() -> Asker:
                def stop() -> None:
                    sent.append(server.count)
                    asker.stop()

                async with Asker(judge, ledger) as asker:
                    when(lambda: len(ledger) == 5, stop)
                    with pytest.raises(Interrupted):
                        await asker.judge(passages(40))
                return asker

            asker = asyncio.run(asyncio.wait_for(run(), 20))
            assert server.count <= sent[0] + 16  # what was on the wire is counted when it arrives
            assert len(ledger) == asker.spent.calls == 5
            assert asker.spent.errors == 0
            assert asker.spent.requests == server.count
            assert judge.requests.in_flight == 0

    def test_nothing_leaves_once_answers_cannot_be_kept(self, tmp_path: Path) -> None:
        """A full disk: what leaves after that could not be kept either."""
        sent = []

        class Full(SQLiteLedger):
            def put(
                self, judgements: Sequence[Judgement], *, replacing: Sequence[Judgement] = ()
            ) -> dict[str, Judgement]:
                sent.append(server.count)
                raise LedgerError("the disk is full")

        with ModelServer(latency=0.3) as server, Full(tmp_path / "l.sqlite") as ledger:
            with pytest.raises(LedgerError, match="full"):
                evaluate(rows(120), MEASURE, judge=judge_of(server, concurrency=4), ledger=ledger)
            assert server.count <= sent[0] + 4

    def test_a_caller_that_is_cancelled_again_waits_for_nothing(self) -> None:
        """Once: what is in flight is finished. Twice: it is given up, and the connections are closed all the same."""
        with ModelServer(latency=30) as server:
            judge = judge_of(server, concurrency=2)

            async def run() -> None:
                work = asyncio.ensure_future(aevaluate(rows(9), MEASURE, judge=judge))
                while server.count < 2:  # noqa: ASYNC110 - it counts in another thread
                    await asyncio.sleep(0.01)
                work.cancel()
                await asyncio.sleep(0.05)
                assert not work.done()
                work.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await work

            asyncio.run(asyncio.wait_for(run(), 10))
            assert server.count == 2
            assert judge.requests.in_flight == 0


class TestSharedJudge:
    def test_who_ends_first_leaves_the_connections_to_the_other(self) -> None:
        """Two evaluations at once with one judge object: no request is broken off, and the last one closes."""
        with ModelServer(latency=0.2) as server:
            judge = judge_of(server)

            async def both() -> list[int]:
                work = (
                    aevaluate(rows(size, word), MEASURE, judge=judge) for size, word in ((2, "a"), (50, "b"))
                )
                reports = await asyncio.gather(*work)
                assert not any(one.error for report in reports for one in report.judgements())
                return [report[MEASURE].n for report in reports]

            assert asyncio.run(both()) == [2, 50]
            assert server.count == 52
            assert evaluate(rows(3, "c"), MEASURE, judge=judge)[MEASURE].n == 3

    def test_two_threads_at_once_are_told_so(self) -> None:
        """The second is refused before it has asked anything; the first is not disturbed; one after the other is fine."""
        with ModelServer(latency=0.3) as server:
            judge, found = judge_of(server), []
            first = threading.Thread(
                target=lambda: found.append(evaluate(rows(40), MEASURE, judge=judge)[MEASURE].n)
            )
            first.start()
            while not server.count:
                pass
            with pytest.raises(InputError, match="in use in another thread"):
                evaluate(rows(3, "b"), MEASURE, judge=judge)
            first.join()
            assert found == [40]
            assert server.count == 40
            assert evaluate(rows(3, "b"), MEASURE, judge=judge)[MEASURE].n == 3


def test_a_member_of_a_panel_that_cannot_be_used_ends_the_evaluation() -> None:
    """As any other judge does; what the others have answered is stored."""
    script = lambda asked: Act(status=404, error=f"The model `{asked.json['model']}` does not exist")  # noqa: E731
    with ModelServer(script) as gone, ModelServer() as server:
        judges = [LLMJudge("openai:one", base_url=gone.url, api_key="k"), judge_of(server)]
        with pytest.raises(JudgeError, match=r"`one` does not exist"):
            evaluate(rows(9), MEASURE, judge=judges)
