"""The writer thread: what was used is committed, what waits is committed together, nothing hangs."""

import asyncio
import multiprocessing
import os
import random
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from germane.errors import LedgerError
from germane.judges import LLMJudge
from germane.judges.judge import Judge, LocalJudge, Reply
from germane.judging.asker import Asker
from germane.ledger.sqlite import SQLiteLedger
from germane.ledger.store import GroupCommit
from germane.questions.question import AnyQuestion
from germane.questions.relevance import Relevance
from germane.types import Judgement
from tests.server import ModelServer

IN_FLIGHT = 8


def judgement(n: int) -> Judgement:
    return Judgement(key=f"{n:032x}", item="ab" * 16, kind="relevance", judge="fake", answer={"grade": 1})


class Held:
    """Somebody's own ledger, with no more than the asker needs: it holds each commit back until it is let go."""

    place = "memory"

    def __init__(self) -> None:
        self.rows: dict[str, Judgement] = {}
        self.sizes: list[int] = []
        self.entered, self.go_on = threading.Semaphore(0), threading.Semaphore(0)
        self.failure: Exception | None = None

    def ready(self) -> None:
        """It always is."""

    def find(self, keys: Sequence[str]) -> dict[str, Judgement]:
        return {key: self.rows[key] for key in keys if key in self.rows}

    def children(self, keys: Sequence[str]) -> list[Judgement]:
        return [row for row in self.rows.values() if row.parent in keys]

    def put(
        self, judgements: Sequence[Judgement], *, replacing: Sequence[Judgement] = ()
    ) -> dict[str, Judgement]:
        self.entered.release()
        assert self.go_on.acquire(timeout=30)
        if self.failure is not None:
            raise self.failure
        self.sizes.append(len(judgements))
        return {row.key: self.rows.setdefault(row.key, row) for row in judgements}

    def close(self) -> None:
        """Nothing to release."""


async def _entered(ledger: Held) -> None:
    assert await asyncio.to_thread(ledger.entered.acquire, timeout=30)


def test_what_arrives_during_a_commit_is_committed_together() -> None:
    """One put alone, then the five that came meanwhile in one; nobody goes on before the commit."""
    ledger: Any = Held()

    async def run() -> None:
        writer = GroupCommit(ledger)
        puts = [asyncio.ensure_future(writer.put([judgement(0)]))]
        await _entered(ledger)
        puts += [asyncio.ensure_future(writer.put([judgement(n)])) for n in range(1, 6)]
        await asyncio.sleep(0.01)
        assert not any(one.done() for one in puts)
        ledger.go_on.release(2)
        for n, one in enumerate(puts):
            assert (await one)[judgement(n).key] == judgement(n)
        writer.close()

    asyncio.run(run())
    assert ledger.sizes == [1, 5]


@pytest.mark.parametrize("failure", [LedgerError("the disk is full"), ValueError("somebody's own")])
def test_a_fault_reaches_all_who_wait(failure: Exception) -> None:
    """Every put of the group raises it; the thread goes on, and ends when it is closed."""
    ledger: Any = Held()

    async def run() -> None:
        writer = GroupCommit(ledger)
        first = asyncio.ensure_future(writer.put([judgement(0)]))
        await _entered(ledger)
        others = [asyncio.ensure_future(writer.put([judgement(n)])) for n in (1, 2)]
        await asyncio.sleep(0)
        ledger.go_on.release()
        await first
        ledger.failure = failure
        ledger.go_on.release()
        assert await asyncio.gather(*others, return_exceptions=True) == [failure, failure]
        ledger.failure = None
        ledger.go_on.release()
        await writer.put([judgement(3)])
        writer.close()

    asyncio.run(run())
    assert sorted(ledger.rows) == [judgement(n).key for n in (0, 3)]
    assert not [one for one in threading.enumerate() if one.name.startswith("germane-ledger")]


def test_closing_commits_what_waits(tmp_path: Path) -> None:
    """Puts that nobody waits for any more are committed all the same."""
    with SQLiteLedger(tmp_path / "l.sqlite") as ledger:

        async def run() -> None:
            writer = GroupCommit(ledger)
            puts = [asyncio.ensure_future(writer.put([judgement(n)])) for n in range(200)]
            await asyncio.sleep(0)
            for one in puts:
                one.cancel()
            writer.close()
            await asyncio.sleep(0.01)

        asyncio.run(run())
        assert len(ledger) == 200


@pytest.mark.parametrize("own", [False, True])
def test_a_place_is_given_on_after_the_commit(own: bool) -> None:
    """While the first answers wait to be committed nothing more is asked: of a model, and of somebody's own judge."""
    ledger: Any = Held()

    async def run(judge: Judge, asked: Callable[[], int]) -> None:
        async with Asker(judge, ledger) as asker:
            answers = asyncio.ensure_future(
                asker.judge([Relevance(query="q", passage=str(n)) for n in range(9)])
            )
            await _entered(ledger)
            await asyncio.sleep(0.2)
            assert asked() == 2
            ledger.go_on.release(9)
            assert len(await answers) == len(ledger.rows) == 9

    with ModelServer() as server:
        if own:
            quick = Quick(os.open(os.devnull, os.O_WRONLY), places=2)
            asyncio.run(run(quick, lambda: quick.count))
        else:
            model = LLMJudge("openai:test", base_url=server.url, api_key="k", concurrency=2)
            asyncio.run(run(model, lambda: server.count))


@pytest.mark.parametrize("what", ["written", "read"])
def test_the_event_loop_goes_on_while_another_program_writes(tmp_path: Path, what: str) -> None:
    """A lock that another program holds stops the commit that waits for it, and nothing else: not even a look-up."""
    path = tmp_path / "l.sqlite"
    with SQLiteLedger(path) as ledger:
        ledger.put([judgement(0)])
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")

        async def run() -> float:
            writer, longest = GroupCommit(ledger), 0.0
            put = asyncio.ensure_future(writer.put([judgement(1)]))
            for _ in range(30):
                before = time.monotonic()
                await asyncio.sleep(0.01)
                if what == "read":
                    assert ledger.find([judgement(0).key, judgement(1).key]) == {
                        judgement(0).key: judgement(0)
                    }
                longest = max(longest, time.monotonic() - before)
            assert not put.done()
            other.execute("COMMIT")
            await put
            writer.close()
            return longest

        assert asyncio.run(run()) < 10  # SQLite would wait for a minute
        assert len(ledger) == 2
    other.close()


class Quick(LocalJudge):
    """Answers after a moment, and notes what it was asked."""

    name, stored = "quick", True

    def __init__(self, asked: int, places: int = IN_FLIGHT) -> None:
        self.asked, self.concurrency, self.count = asked, places, 0

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        return [(question,) for question in questions]

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        self.count += 1
        os.write(self.asked, b"".join(f"{self.key(one)}\n".encode() for one in questions))
        await asyncio.sleep(random.uniform(0, 0.002))
        return [Reply(payload=question.typical()) for question in questions]


def _use(folder: Path) -> None:
    """Ask on and on; the key of each answer that is used is written down at once."""
    asked, used = (
        os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name in ("asked", "used")
    )
    judge = Quick(asked)

    async def one(asker: Asker, number: int) -> None:
        (answer,) = await asker.judge([Relevance(query="q", passage=f"p{number}")])
        os.write(used, f"{answer.judgement.key}\n".encode())

    async def run() -> None:
        with SQLiteLedger(folder / "l.sqlite") as ledger:
            async with Asker(judge, ledger) as asker:
                await asyncio.gather(*(one(asker, number) for number in range(4000)))

    asyncio.run(run())


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_what_was_used_is_in_the_ledger_after_a_kill(tmp_path: Path) -> None:
    """Five kills while the writer is busy: all that was used is there, and no more is lost than was in flight."""
    draw, keys, kept = random.Random(3), set[str](), dict[str, Judgement]()
    (tmp_path / "asked").touch()
    for _ in range(5):
        process = multiprocessing.get_context("fork").Process(target=_use, args=(tmp_path,))
        wanted = (tmp_path / "asked").stat().st_size + 33 * draw.randint(20, 150)
        process.start()
        while (tmp_path / "asked").stat().st_size < wanted:
            assert process.is_alive()
        time.sleep(draw.uniform(0, 0.005))
        process.kill()
        process.join()
        keys, asked = (set((tmp_path / name).read_text().split()) for name in ("used", "asked"))
        with SQLiteLedger(tmp_path / "l.sqlite") as ledger:
            kept = ledger.find(sorted(asked))
        assert keys <= kept.keys()
        assert len(asked) - len(kept) <= IN_FLIGHT
    assert len(keys) > 100
