"""A coroutine from code that is none, where a loop runs already and where none does."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from germane.judging.caller import run_coroutine
from tests.server import Act, Asked, ModelServer

NOTEBOOK = """
import asyncio, signal, sys, threading
from germane import evaluate
from germane.judges import LLMJudge

rows = [{"id": str(n), "query": f"what is {n}", "contexts": [f"it is {n}"]} for n in range(120)]

def told(*signal_and_frame):
    print("told", flush=True)
    signal.default_int_handler(*signal_and_frame)

signal.signal(signal.SIGINT, told)

async def cell():
    try:
        evaluate(rows, "context_precision@1", judge=LLMJudge("openai:test", base_url=sys.argv[1], concurrency=4))
    except KeyboardInterrupt:
        print("interrupted;", [one.name for one in threading.enumerate() if one.name.startswith("germane-evaluate")])

loop = asyncio.new_event_loop()
loop.run_until_complete(cell())
print("the kernel lives")
"""


def test_an_interrupted_cell_stops_asking(tmp_path: Path) -> None:
    """Ctrl-C in a notebook's cell: what is in flight is finished, nothing else is asked, and the kernel goes on."""
    file = tmp_path / "notebook.py"
    file.write_text(NOTEBOOK)

    release = threading.Event()

    def answer(_: Asked) -> Act:
        if server.count > 5:  # what is in flight is held until the signal has arrived
            release.wait(60)
        return Act()

    with ModelServer(answer) as server:
        cell = subprocess.Popen(
            [sys.executable, str(file), server.url],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={"OPENAI_API_KEY": "k", "PATH": ""},
        )
        while server.count < 6 and cell.poll() is None:
            time.sleep(0.01)
        cell.send_signal(signal.SIGINT)
        assert cell.stdout is not None
        assert cell.stdout.readline() == "told\n"
        time.sleep(0.5)
        release.set()
        said, _ = cell.communicate(timeout=30)
    assert said.splitlines() == ["interrupted; []", "the kernel lives"]
    assert server.count <= 9  # five answers, and four in flight


def test_what_the_coroutine_raises_is_raised() -> None:
    """With a loop and without one."""

    async def wrong() -> None:
        raise ValueError("no")

    async def cell() -> None:
        run_coroutine(wrong())

    for work in (wrong, cell):
        with pytest.raises(ValueError, match="no"):
            run_coroutine(work())


RESULT = """
from germane.judging.caller import run_coroutine

class Large:
    def __repr__(self):
        print("written out")
        return "large"

async def work():
    return Large()

run_coroutine(work())
print("done")
"""


def test_a_result_is_not_written_out() -> None:
    """The repr of a report's rows takes longer than scoring them; asyncio makes that of a task's result."""
    ran = subprocess.run([sys.executable, "-c", RESULT], check=True, capture_output=True, text=True)
    assert ran.stdout == "done\n"
