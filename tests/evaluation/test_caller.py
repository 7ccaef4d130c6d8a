"""Clients that the caller made are used in the caller's own event loop or thread, and survive."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from germane import InputError, aevaluate, evaluate

QUESTIONS = [{"id": name, "query": name, "qrels": {"d1": 1}} for name in ("a", "b", "c")]


@pytest.fixture
def connection() -> Any:
    made = sqlite3.connect(":memory:")
    made.execute("create table documents(id text)")
    made.execute("insert into documents values('d1')")
    yield made
    made.close()


def search(connection: sqlite3.Connection) -> Callable[[str], list[dict[str, str]]]:
    return lambda _: [{"id": row[0]} for row in connection.execute("select id from documents")]


class Asynchronous:
    """An asyncio.Semaphore that is contended belongs to the loop in which it was."""

    def __init__(self) -> None:
        self.semaphore = asyncio.Semaphore(1)

    async def ainvoke(self, query: str) -> list[dict[str, str]]:
        async with self.semaphore, asyncio.timeout(5):
            await asyncio.sleep(0.001)
        return [{"id": "d1"}]

    async def __call__(self, query: str) -> list[dict[str, str]]:
        return await self.ainvoke(query)


@pytest.mark.parametrize("workers", [None, 1])
@pytest.mark.parametrize(
    "target_of",
    [
        lambda client: client.ainvoke,
        lambda client: lambda query: client.ainvoke(query.strip()),
        lambda client: client,
    ],
    ids=["function", "lambda", "object"],
)
def test_a_coroutine_is_awaited_in_the_callers_loop(target_of: Any, workers: int | None) -> None:
    """As it is, or returned by another function; the client can be used before and afterwards."""

    async def work() -> None:
        client = Asynchronous()
        await asyncio.gather(client("x"), client("y"))
        report = await aevaluate(QUESTIONS, "RR", target=target_of(client), workers=workers)
        assert (report["RR"].mean, report["RR"].n) == (1.0, 3)
        await asyncio.gather(client("x"), client("y"))

    asyncio.run(work())


@pytest.mark.parametrize("way", ["script", "notebook", "awaited"])
def test_one_worker_is_the_calling_thread(connection: sqlite3.Connection, way: str) -> None:
    """A connection of SQLite works there; in other threads the error says what to do."""

    async def cell() -> Any:
        if way == "notebook":
            return evaluate(QUESTIONS, "RR", target=search(connection), workers=1)
        return await aevaluate(QUESTIONS, "RR", target=search(connection), workers=1)

    plain = way == "script"
    report = evaluate(QUESTIONS, "RR", target=search(connection), workers=1) if plain else asyncio.run(cell())
    assert (report["RR"].mean, report["RR"].n) == (1.0, 3)
    lost = evaluate(QUESTIONS, "RR", target=search(connection))
    assert all(
        "set workers=1 to call the function in the thread" in str(sample.error) for sample in lost.samples()
    )
    assert search(connection)("again") == [{"id": "d1"}]


def test_no_loop_of_ours_runs_in_the_calling_thread() -> None:
    """A function may call asyncio.run there."""

    async def later() -> list[dict[str, str]]:
        return [{"id": "d1"}]

    def synchronous(query: str) -> list[dict[str, str]]:
        assert threading.current_thread() is threading.main_thread()
        return asyncio.run(later())

    assert evaluate(QUESTIONS, "RR", target=synchronous, workers=1)["RR"].mean == 1.0


@pytest.mark.parametrize("workers", [None, 1])
def test_a_cancelled_evaluation_stops_asking(workers: int | None) -> None:
    """The caller's loop goes on."""
    asked: list[str] = []

    async def slow(query: str) -> None:
        asked.append(query)
        await asyncio.sleep(60)

    def blocking(query: str) -> list[str]:
        asked.append(query)
        time.sleep(0.05)
        return []

    async def work() -> None:
        target: Any = slow if workers is None else blocking
        task = asyncio.create_task(aevaluate(QUESTIONS, "RR", target=target, workers=workers))
        while not asked:  # noqa: ASYNC110 - it is set in another thread
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())


@pytest.mark.parametrize("workers", [0, -1, True, 1.5, "2"])
def test_a_wrong_number_of_workers_is_refused(workers: Any) -> None:
    """A whole number from 1."""
    with pytest.raises(InputError, match=r"workers is .*, not an integer >= 1; write workers=4"):
        evaluate(QUESTIONS, "RR", target=lambda _: [], workers=workers)
