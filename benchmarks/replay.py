"""What it costs to judge from the ledger: `python -m benchmarks replay`.

Samples of ten passages of about 150 tokens, and a ledger with a model's answer to every question about them (typical
answers under the keys of openai:gpt-4o-mini: no model is asked). `germane run` judges two sizes from that ledger, each
in a process of its own; the slope between them leaves the start out. Memory must be the same at both sizes but for
what is kept of each sample on purpose (its identity's hash, so that no id is taken twice).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.running import SUITE, head, row
from germane import evaluate
from germane.judges.judge import AnyQuestion, Reply
from germane.judges.llm import LLMJudge
from germane.types import Usage

CONTEXTS, WORDS = 10, 115
PLANS = {"one measure": ("context_precision@10", (5000, 10000)), "the whole suite": (SUITE, (1500, 3000))}
"""50,000 and 100,000 judgements in both: one a passage, or 33 a sample."""
REFERENCE = (
    "It was found in 1912 by a surveyor, mapped by two brothers, and closed to the public for forty years."
)
JUDGE = "openai:gpt-4o-mini"
NOWHERE = "http://127.0.0.1:9/v1"  # a question that is not known reaches nobody
WIDTHS = (18, 12, 12, 10, 10, 14)
COLUMNS = "|judgements|CPU s|us each|peak MB|a CPU second"
_VOCABULARY = [
    f"{a}{b}{c}" for a in "bdfglmnprst" for b in "aeiou" for c in ("n", "rd", "lt", "s", "m", "ver")
]


class Typical(LLMJudge):
    """Keyed as the model judge is, and answers from thin air: fills a ledger without a model."""

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        used = Usage(requests=1, input_tokens=300, output_tokens=30)
        return [Reply(payload=question.typical(), usage=used) for question in questions]


class Spent(NamedTuple):
    """What one process used, and how many judgements it made."""

    cpu: float
    peak_mb: float
    judgements: int


def samples(count: int) -> Iterator[dict[str, object]]:
    """Samples whose every passage is another."""
    draw = random.Random(7)
    for n in range(count):
        passages = (" ".join(draw.choices(_VOCABULARY, k=WORDS)) for _ in range(CONTEXTS))
        contexts = [{"id": f"d{n}-{k}", "text": f"{n} {text}"} for k, text in enumerate(passages)]
        query = f"what is known about subject {n}"
        yield {"id": f"q{n}", "query": query, "reference": f"{n}: {REFERENCE}", "contexts": contexts}


def prepare(folder: Path, measures: str, sizes: Sequence[int]) -> None:
    """The data files, and the ledger that knows everything about the largest, and so about all."""
    rows = list(samples(max(sizes)))
    for size in sizes:
        lines = (json.dumps(one) + "\n" for one in rows[:size])
        (folder / f"{size}.jsonl").write_text("".join(lines), "utf-8")
    for start in range(0, len(rows), 2000):
        judge = Typical(JUDGE, base_url=NOWHERE)
        evaluate(rows[start : start + 2000], measures.split(), judge=judge, ledger=folder / "ledger.sqlite")


def run(folder: Path, measures: str, size: int) -> Spent:
    """`germane run` on one of the files."""
    command = [sys.executable, "-m", "germane", "run", f"{size}.jsonl", "-m", measures, "--judge", JUDGE]
    command += [
        "--base-url",
        NOWHERE,
        "--ledger",
        "ledger.sqlite",
        "-o",
        f"report-{size}-{os.urandom(4).hex()}",
    ]
    process = subprocess.Popen([*command, "-q"], cwd=folder, env={**os.environ, "OPENAI_API_KEY": "none"})
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    judge = json.loads((folder / command[-1] / "manifest.json").read_text("utf-8"))["judge"]
    if process.returncode or judge["calls"]:
        raise SystemExit(f"the run was no replay: exit {process.returncode}, {judge}")
    scale = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return Spent(used.ru_utime + used.ru_stime, used.ru_maxrss / scale, judge["cached"])


def main(*, quick: bool = False, peers: tuple[str, ...] = ()) -> None:
    del peers  # none of them can do it
    rounds = 1 if quick else 3
    head("replay from the ledger", f"{rounds} rounds taking turns, medians; the slope leaves the start out")
    print(row(COLUMNS.split("|"), WIDTHS), flush=True)
    for title, (measures, sizes) in PLANS.items():
        compare(title, measures, [size // 10 for size in sizes] if quick else sizes, rounds)


def compare(title: str, measures: str, sizes: Sequence[int], rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        apart = multiprocessing.get_context("spawn").Process(target=prepare, args=(folder, measures, sizes))
        apart.start()  # a child's peak memory is at least what its parent held: keep this process small
        apart.join()
        ran = [[run(folder, measures, size) for size in sizes] for _ in range(rounds)]
    small, large = (Spent(*map(median, zip(*column, strict=True))) for column in zip(*ran, strict=True))
    for one in (small, large):
        print(row((title, f"{one.judgements:,}", one.cpu, "", f"{one.peak_mb:.0f}", ""), WIDTHS), flush=True)
    more, seconds = large.judgements - small.judgements, large.cpu - small.cpu
    memory = (large.peak_mb - small.peak_mb) * (1 << 20) / (sizes[1] - sizes[0])
    cells = ("  slope", f"{more:,}", seconds, seconds / more * 1e6, "", f"{more / seconds:,.0f}")
    print(row(cells, WIDTHS), f"  {memory:,.0f} bytes a further sample", flush=True)


if __name__ == "__main__":
    main()
