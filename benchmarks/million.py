"""A million samples: `python -m benchmarks million`, or `python -m benchmarks.million [--gold N] [--labelled N]`.

Whole processes one after the other, user and system time and peak memory: `germane run` on gold samples by id with its
report, `germane score` on that report, and the same on samples of ten labelled passages judged by `--judge labels`. Beside
them a plain loop with pytrec_eval: json.loads per line, its measures, one line of JSON per query and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.running import head, row

GOLD = "nDCG@10 AP RR P@10 R@10"
LABELS = "context_precision@10 nDCG(labels=judge)@10 context_relevancy(unit=context)@5"
WIDTHS = (34, 12, 10, 10)
WORDS = ["alpha", "beta", "gamma", "delta", "tax", "law", "relief", "retrieval", "passage", "budget"]
LOOP = """
import json, sys
import pytrec_eval
names = {"ndcg_cut.10", "map", "recip_rank", "P.10", "recall.10"}
with open(sys.argv[1], "rb") as lines, open(sys.argv[2], "w") as out:
    for line in lines:
        row = json.loads(line)
        run = {name: float(-rank) for rank, name in enumerate(row["retrieved_context_ids"])}
        scorer = pytrec_eval.RelevanceEvaluator({row["id"]: row["qrels"]}, names)
        out.write(json.dumps(scorer.evaluate({row["id"]: run})) + "\\n")
"""


def write_gold(file: Path, count: int) -> None:
    """Ten ids each, a third of them judged, and two relevant documents that did not come back."""
    draw = random.Random(1)
    with file.open("w", encoding="utf-8") as lines:
        for number in range(count):
            ids = draw.sample(range(10**6), 12)
            qrels = {f"d{one}": draw.choice((0, 1, 1, 2, 3)) for one in ids[:10] if draw.random() < 0.3}
            qrels |= {f"d{one}": 1 for one in ids[10:]}
            sample = {"id": f"q{number}", "query": f"what is known about subject {number}"}
            found = {"retrieved_context_ids": [f"d{one}" for one in ids[:10]], "qrels": qrels}
            lines.write(json.dumps({**sample, **found}) + "\n")


def write_labelled(file: Path, count: int) -> None:
    """Ten passages of thirty words each, graded from 0 to 3."""
    draw = random.Random(1)
    with file.open("w", encoding="utf-8") as lines:
        for number in range(count):
            texts = (f"{number} {rank} {' '.join(draw.choices(WORDS, k=30))}" for rank in range(10))
            contexts = [{"text": text, "grade": draw.choice((0, 0, 1, 2, 3))} for text in texts]
            sample = {"id": f"q{number}", "query": f"what is known about subject {number}"}
            lines.write(json.dumps({**sample, "contexts": contexts}) + "\n")


def show(title: str, count: int, folder: Path, *command: str) -> None:
    """Run one process and print what it used."""
    process = subprocess.Popen([sys.executable, *command], cwd=folder, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{title}: exit {process.returncode}")
    scale = 1 << 20 if sys.platform == "darwin" else 1 << 10
    cells = (title, f"{count:,}", used.ru_utime + used.ru_stime, f"{used.ru_maxrss / scale:.0f}")
    print(row(cells, WIDTHS), flush=True)


def main(
    *, quick: bool = False, peers: tuple[str, ...] = (), gold: int = 1_000_000, labelled: int = 100_000
) -> None:
    del peers  # pytrec_eval comes with the development tools
    if quick:
        gold, labelled = min(gold, 5_000), min(labelled, 1_000)
    head("a million samples", "one round, whole processes with their reports")
    print(row(["", "samples", "CPU s", "peak MB"], WIDTHS), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for count in (gold // 10, gold):
            write_gold(folder / "gold.jsonl", count)
            show("pytrec_eval, plain loop", count, folder, "-c", LOOP, "gold.jsonl", "loop.jsonl")
            run = ("-m", "germane", "run", "gold.jsonl", "-m", GOLD, "-q", "-o", f"gold-{count}")
            show("germane run, gold by id", count, folder, *run)
            show("germane score on it", count, folder, "-m", "germane", "score", f"gold-{count}", "-m", GOLD)
            show("germane report on it", count, folder, "-m", "germane", "report", f"gold-{count}")
        write_labelled(folder / "labelled.jsonl", labelled)
        run = (
            "-m",
            "germane",
            "run",
            "labelled.jsonl",
            "-m",
            LABELS,
            "--judge",
            "labels",
            "-q",
            "-o",
            "labels",
        )
        show("germane run --judge labels", labelled, folder, *run)
        score = ("score", "labels", "-m", "context_precision@5 nDCG(labels=judge)@5")
        show("germane score on it", labelled, folder, "-m", "germane", *score)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gold", type=int, default=1_000_000)
    parser.add_argument("--labelled", type=int, default=100_000)
    options = parser.parse_args()
    main(gold=options.gold, labelled=options.labelled)
