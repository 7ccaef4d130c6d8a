"""The main thread ends while a judge is asked: the answers to requests in flight are stored."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from germane.ledger.sqlite import SQLiteLedger
from tests.server import ModelServer

BEGIN = """
import sys, threading
from germane import evaluate
from germane.integrations import SharedJudge
from germane.judges import LLMJudge

url, ledger = sys.argv[1:]
judge = LLMJudge("openai:m", base_url=url, api_key="k", concurrency=2)
row = {"id": "q", "query": "q?", "contexts": [f"text {n}" for n in range(6)]}
"""
IN_A_DAEMON = """
shared = SharedJudge(judge, ledger)
threading.Thread(target=shared.measure, args=(row, "context_precision"), daemon=True).start()
input()
"""
IN_A_THREAD = """
options = {"judge": judge, "ledger": ledger}
threading.Thread(target=evaluate, args=([row], "context_precision"), kwargs=options).start()
input()
"""


@pytest.mark.parametrize("sent", [2, 4])
@pytest.mark.parametrize(("program", "stored"), [(IN_A_DAEMON, None), (IN_A_THREAD, 6)])
def test_answers_are_stored_after_the_main_thread(
    tmp_path: Path, program: str, stored: int | None, sent: int
) -> None:
    """A daemon thread is cut off after those in flight; the process waits for any other thread."""
    path = tmp_path / "l.sqlite"
    with ModelServer(latency=0.7) as server:
        command = [sys.executable, "-c", BEGIN + program, server.url, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                while server.count < sent and process.poll() is None:
                    time.sleep(0.01)
                _, said = process.communicate("\n", timeout=30)
            finally:
                process.kill()
        assert process.returncode == 0, said
        assert not {"executor", "pending"} & set(said.split()), said
        with SQLiteLedger(path) as ledger:
            assert len(ledger) == server.count == (stored or sent)
