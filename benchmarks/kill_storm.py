"""Killed at ten random instants in a fault storm: what is asked twice, and is the end the same?

    python benchmarks/kill_storm.py [--kills 10] [--samples 60] [--seed 0]

A model server on this machine has a bad day (10% 429 with Retry-After, 5% 500, 5% malformed answers, 2% hangs). A run
is killed (SIGKILL) at a random instant and resumed, over and over. A question may be asked again only if its answer
was not committed when the process died: those are counted at each kill, and the next start must not repeat more. In
the end scores.jsonl must have the bytes of a run on a calm server. Exit code 1 where one of both does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

from germane.ledger.sqlite import SQLiteLedger
from tests.server import Act, Asked, ModelServer, storm

CONTEXTS = 10


class Storm:
    """The bad day, and a count of the good answers to each request."""

    def __init__(self, seed: int) -> None:
        self._script = storm(seed=seed)
        self.good: Counter[int] = Counter()

    def __call__(self, asked: Asked) -> Act | None:
        act = self._script(asked)
        if act is None:
            self.good[crc32(asked.raw)] += 1
        return act


def write_samples(path: Path, count: int) -> None:
    rows = [
        {
            "id": f"q{n}",
            "query": f"what is thing {n}",
            "reference": f"Thing {n} is good. Thing {n} is old.",
            "contexts": [{"text": f"thing {n} is described in passage {k}"} for k in range(CONTEXTS)],
        }
        for n in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def start(folder: Path, words: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "germane", *words]
    env = {**os.environ, "OPENAI_API_KEY": "test"}
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def first(name: str, server: ModelServer) -> list[str]:
    asked = ["-m", "context_precision@10 context_recall", "--judge", "openai:test", "--base-url", server.url]
    return [
        "run",
        "data.jsonl",
        *asked,
        "--ledger",
        f"{name}.sqlite",
        "-o",
        name,
        "--reading",
        "single",
        "--timeout",
        "2",
        "-q",
    ]


def resumed(server: ModelServer) -> list[str]:
    return ["run", "--resume", "storm", "--base-url", server.url, "-q"]


def finish(process: subprocess.Popen[bytes]) -> None:
    _, err = process.communicate(timeout=900)
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}: {err.decode()}")


def committed(path: Path) -> int:
    with SQLiteLedger(path) as ledger:
        return len(ledger)


def weather(folder: Path, kills: int, seed: int) -> tuple[int, int, int]:
    """Answers kept, good answers given, and repeats beyond what was answered and not committed at a kill."""
    draw, bad_day = random.Random(seed), Storm(seed)
    before, allowed, excess = Counter[int](), 0, 0
    with ModelServer(bad_day, latency=0.05) as server:
        words = first("storm", server)
        for number in range(1, kills + 1):
            process = start(folder, words)
            time.sleep(draw.uniform(0.9, 3.0))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            time.sleep(0.2)  # answers that were on their way
            kept = committed(folder / "storm.sqlite") if (folder / "storm.sqlite").exists() else 0
            repeats = sum(bad_day.good[request] > times for request, times in before.items())
            excess += max(0, repeats - allowed)
            allowed, before = len(bad_day.good) - kept, bad_day.good.copy()
            print(
                f"kill {number:2}: {kept:5} committed, {allowed:3} answered and not, {repeats:3} asked again before"
            )
            words = resumed(server) if (folder / "storm" / "manifest.json").exists() else words
        for _ in range(3):  # a question that failed three times in the storm is asked again by --resume
            process = start(folder, words)
            process.communicate(timeout=900)
            if (
                not process.returncode
                and b'"error": ' not in (folder / "storm" / "judgements.jsonl").read_bytes()
            ):
                break
            words = resumed(server)
    repeats = sum(bad_day.good[request] > times for request, times in before.items())
    return committed(folder / "storm.sqlite"), sum(bad_day.good.values()), excess + max(0, repeats - allowed)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--samples", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_samples(folder / "data.jsonl", options.samples)
        with ModelServer() as calm:
            finish(start(folder, first("calm", calm)))
            wanted = calm.count
        kept, given, excess = weather(folder, options.kills, options.seed)
        same = (folder / "storm" / "scores.jsonl").read_bytes() == (
            folder / "calm" / "scores.jsonl"
        ).read_bytes()
    print(
        f"{kept} answers kept ({wanted} on a calm day), {given} given: {excess} to questions that need not be asked"
    )
    print(f"scores.jsonl {'has the same bytes' if same else 'DIFFERS'}")
    sys.exit(0 if same and not excess and kept == wanted else 1)


if __name__ == "__main__":
    main()
