"""Killed at random instants: nothing that was in the ledger is asked again, and only what was in flight is lost."""

import multiprocessing
import random
import sys
import time
from collections import Counter
from pathlib import Path
from zlib import crc32

import pytest

from germane import evaluate
from germane.judges import LLMJudge
from germane.ledger.sqlite import SQLiteLedger
from tests.server import ModelServer
from tests.server.asked import Asked

KILLS, IN_FLIGHT, CONTEXTS, MEASURE = 10, 8, 10, "context_precision@10"
ROWS = [
    {"id": f"q{n}", "query": f"what is {n}", "contexts": [f"thing {n} is {k}" for k in range(CONTEXTS)]}
    for n in range(60)
]


def run(url: str, ledger: Path) -> None:
    judge = LLMJudge("openai:test", base_url=url, api_key="k", concurrency=IN_FLIGHT)
    evaluate(ROWS, MEASURE, judge=judge, ledger=ledger)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_no_more_than_what_was_in_flight_is_asked_again(tmp_path: Path) -> None:
    """After each of ten kills the ledger has all that was asked but what was in flight; the end is the same."""
    draw, path, asked = random.Random(7), tmp_path / "l.sqlite", Counter[int]()

    def count(request: Asked) -> None:
        asked[crc32(request.raw)] += 1

    start = multiprocessing.get_context("fork").Process
    lost = 0
    with ModelServer(count, latency=0.01) as server:
        for _ in range(KILLS):
            before = server.count
            process = start(target=run, args=(server.url, path))
            process.start()
            wanted = before + draw.randint(1, 25)
            while server.count < wanted and process.is_alive():
                time.sleep(0.001)
            time.sleep(draw.uniform(0, 0.015))
            process.kill()
            process.join()
            time.sleep(0.03)  # requests that were on the wire are counted when they arrive
            with SQLiteLedger(path) as ledger:
                in_flight = len(asked) - len(ledger)
            assert 0 <= in_flight <= IN_FLIGHT
            lost += in_flight
            assert sum(asked.values()) - len(asked) <= lost
        assert len(asked) < len(ROWS) * CONTEXTS  # the last kill, too, came before the end
        run(server.url, path)
        assert len(asked) == len(ROWS) * CONTEXTS
        assert sum(asked.values()) - len(asked) <= lost
        with SQLiteLedger(path) as ledger:
            assert len(ledger) == len(ROWS) * CONTEXTS
        calm = evaluate(ROWS, MEASURE, judge=LLMJudge("openai:test", base_url=server.url, api_key="k"))
        again = evaluate(
            ROWS, MEASURE, judge=LLMJudge("openai:test", base_url=server.url, api_key="k"), ledger=path
        )
    assert (again[MEASURE].mean, again[MEASURE].n) == (calm[MEASURE].mean, len(ROWS))
