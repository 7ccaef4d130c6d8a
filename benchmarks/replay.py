"""What it costs to judge from the ledger: CPU and memory of a run whose every answer is known.

    python benchmarks/replay.py [--samples 5000 10000] [--rounds 3] [--src OTHER/src]

Writes samples of ten passages of about 150 tokens, and a ledger with a model's answer to every question about
them (typical answers under the keys of openai:gpt-4o-mini: no model is asked). Then `germane run` judges each
size from that ledger, in a process of its own. Printed: CPU seconds (user and system, whole process) and peak
memory of each size, and the slope between the sizes, which leaves start-up out. `--src` measures another
version of germane against the same files. Memory must be the same at both sizes but for what is kept of each
sample on purpose (its identity's hash, so that no id is taken twice).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from germane import evaluate
from germane.judging.judge import AnyQuestion, Reply
from germane.judging.judges.llm import LLMJudge
from germane.types import Usage

CONTEXTS, WORDS = 10, 115
JUDGE, MEASURE = "openai:gpt-4o-mini", "context_precision@10"
NOWHERE = "http://127.0.0.1:9/v1"  # a question that is not known reaches nobody
_VOCABULARY = [
    f"{a}{b}{c}" for a in "bdfglmnprst" for b in "aeiou" for c in ("n", "rd", "lt", "s", "m", "ver")
]


class Typical(LLMJudge):
    """Keyed as the model judge is, and answers from thin air: fills a ledger without a model."""

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        used = Usage(requests=1, input_tokens=300, output_tokens=30)
        return [Reply(payload=question.typical(), usage=used) for question in questions]


class Spent(NamedTuple):
    """What one process used."""

    cpu: float
    peak_mb: float


def samples(count: int) -> Iterator[dict[str, object]]:
    """Samples whose every passage is another."""
    draw = random.Random(7)
    for n in range(count):
        passages = (" ".join(draw.choices(_VOCABULARY, k=WORDS)) for _ in range(CONTEXTS))
        contexts = [{"id": f"d{n}-{k}", "text": f"{n} {text}"} for k, text in enumerate(passages)]
        yield {"id": f"q{n}", "query": f"what is known about subject {n}", "contexts": contexts}


def prepare(folder: Path, sizes: Sequence[int]) -> None:
    """The data files, and the ledger that knows everything about the largest, and so about all."""
    rows = list(samples(max(sizes)))
    for size in sizes:
        lines = (json.dumps(row) + "\n" for row in rows[:size])
        (folder / f"{size}.jsonl").write_text("".join(lines), "utf-8")
    for start in range(0, len(rows), 2000):
        evaluate(
            rows[start : start + 2000],
            MEASURE,
            judge=Typical(JUDGE, base_url=NOWHERE),
            ledger=folder / "ledger.sqlite",
        )


def run(folder: Path, size: int, src: str | None) -> Spent:
    """`germane run` on one of the files."""
    words = [
        "run",
        f"{size}.jsonl",
        "-m",
        MEASURE,
        "--judge",
        JUDGE,
        "--base-url",
        NOWHERE,
        "--ledger",
        "ledger.sqlite",
        "-o",
        "report",
        "-q",
    ]
    env = {**os.environ, "OPENAI_API_KEY": "none"} | ({"PYTHONPATH": src} if src else {})
    process = subprocess.Popen([sys.executable, "-m", "germane", *words], cwd=folder, env=env)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    judge = json.loads((folder / "report" / "manifest.json").read_text("utf-8"))["judge"]
    if process.returncode or judge["calls"] or judge["cached"] != size * CONTEXTS:
        raise SystemExit(f"the run was no replay: exit {process.returncode}, {judge}")
    scale = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return Spent(used.ru_utime + used.ru_stime, used.ru_maxrss / scale)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, nargs=2, default=[5000, 10000], metavar="N")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--src", help="measure the germane in this folder instead")
    options = parser.parse_args()
    small, large = options.samples
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        apart = multiprocessing.get_context("spawn").Process(target=prepare, args=(folder, options.samples))
        apart.start()  # a child's peak memory is at least what its parent held: keep this process small
        apart.join()
        found = {
            size: [run(folder, size, options.src) for _ in range(options.rounds)] for size in (small, large)
        }
    for size, rounds in found.items():
        cpu, peak = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{size * CONTEXTS:9,} judgements  {cpu:7.2f} s CPU  {peak:7.1f} MB peak")
    rise = [
        statistics.median(one[n] for one in found[large]) - statistics.median(one[n] for one in found[small])
        for n in (0, 1)
    ]
    more = (large - small) * CONTEXTS
    print(f"slope     {more / rise[0]:9,.0f} judgements a second of CPU ({rise[0] / more * 1e6:.1f} us each)")
    print(f"memory    {rise[1] * (1 << 20) / (large - small):9,.0f} bytes a further sample")


if __name__ == "__main__":
    main()
