"""What the shape of a sample's row costs: CPU of whole processes that read it, and of `germane run` with a report.

    python -m benchmarks shapes [--quick]
    python -m benchmarks.shapes [SAMPLES] [ROUNDS] [--against PYTHON]     PYTHON: of an environment with another germane

Gold samples of 10 contexts, two measures; medians of rounds that take turns.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.running import PEERS, head, row, write_samples

WIDTHS = (22, 12, 12, 12, 12)
MEASURES = "nDCG@10 RR"
_READ = "import sys, germane\nfor _ in germane.read_samples(sys.argv[1]): pass"
_WORDS = [
    "retrieval",
    "evidence",
    "passage",
    "ranking",
    "relevance",
    "judge",
    "document",
    "query",
    "answer",
    "corpus",
    "index",
]


def plain(number: int, rng: random.Random) -> dict[str, Any]:
    """A row under our own names, all contexts alike."""
    contexts = [
        {"id": f"d{number}-{rank}", "text": " ".join(rng.choices(_WORDS, k=25)), "score": rng.random()}
        for rank in range(10)
    ]
    gold = {f"d{number}-{rng.randrange(14)}": 1 + rng.randrange(2) for _ in range(3)}
    return {"id": f"q{number}", "query": f"what is question {number}?", "contexts": contexts, "qrels": gold}


def whole_scores(sample: dict[str, Any]) -> dict[str, Any]:
    for rank, context in enumerate(sample["contexts"]):
        context["score"] = 10 - rank
    return sample


def metadata(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "metadata": {"team": "search"}, "lang": "en"}


def unlike(sample: dict[str, Any]) -> dict[str, Any]:
    for rank, context in enumerate(sample["contexts"]):
        if rank % 3 == 0:
            context["page"] = rank
        elif rank % 3 == 1:
            del context["score"]
    return sample


def aliases(sample: dict[str, Any]) -> dict[str, Any]:
    passages = [{"doc_id": one["id"], "content": one["text"]} for one in sample["contexts"]]
    return {
        "qid": sample["id"],
        "user_input": sample["query"],
        "retrieved_contexts": passages,
        "doc_ids": [one["doc_id"] for one in passages],
        "reference_context_ids": list(sample["qrels"]),
    }


def mixed(sample: dict[str, Any]) -> dict[str, Any]:
    """Every row has other keys than its neighbours."""
    number = int(sample["id"][1:])
    for at, key in enumerate(("lang", "tags", "reference", "metadata")):
        if number >> at & 1:
            sample[key] = {"tags": ["a"], "metadata": {"team": "search"}}.get(key, "en")
    return sample


SHAPES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "plain": lambda sample: sample,
    "whole-number scores": whole_scores,
    "metadata": metadata,
    "unlike contexts": unlike,
    "aliases": aliases,
    "mixed rows": mixed,
}


def cpu(command: Sequence[str | Path]) -> float:
    """The user and system time of a process, in seconds; it must succeed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return used.ru_utime + used.ru_stime


def measured(python: str | Path, file: Path, folder: Path) -> tuple[float, float]:
    """Reading a file alone, and a whole evaluation of it."""
    read = cpu([python, "-c", _READ, file])
    report = Path(tempfile.mkdtemp(dir=folder)) / "report"
    return read, cpu([python, "-m", "germane", "run", file, "-m", MEASURES, "-o", report])


def main(
    *,
    quick: bool = False,
    peers: tuple[str, ...] = PEERS,
    samples: int = 20_000,
    rounds: int = 3,
    against: str = "",
) -> None:
    del peers  # none of them reads a file of samples
    if quick:
        samples, rounds = 500, 1
    pythons = [sys.executable, *[against] * bool(against)]
    head("Shapes of rows", f"{samples} gold samples of 10 contexts, CPU seconds, medians of {rounds}")
    widths = WIDTHS[: 1 + 2 * len(pythons)]
    print(row(["", "read", "run", *["other read", "other run"] * bool(against)], widths), flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, change in SHAPES.items():
            rng = random.Random(0)
            rows = (change(plain(number, rng)) for number in range(samples))
            file = write_samples(folder / f"{name}.jsonl", rows)
            found = [[measured(python, file, folder) for python in pythons] for _ in range(rounds)]
            times = [
                median(one[which][step] for one in found) for which in range(len(pythons)) for step in (0, 1)
            ]
            print(row([name, *(f"{time:.2f}" for time in times)], widths), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes")
    parser.add_argument("samples", type=int, nargs="?", default=20_000)
    parser.add_argument("rounds", type=int, nargs="?", default=3)
    parser.add_argument("--against", default="", metavar="PYTHON")
    main(**vars(parser.parse_args()))
