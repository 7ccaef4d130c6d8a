"""What ranking a TREC run costs beside other tools: whole processes in turns, CPU and peak memory.

    python -m benchmarks.rank [FOLDER] [ROUNDS]

Data is made in FOLDER (default: a new temporary one), the same every time. ir_measures and ranx take part where the
interpreter that GERMANE_PEERS names has them; pytrec_eval-terrier is one of the tests' packages.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

MEASURES = "nDCG@10 AP RR P@10 R@100"
Line = tuple[str, str, str]

_PYTREC = """
import sys, pytrec_eval
with open(sys.argv[2]) as f: gold = pytrec_eval.parse_qrel(f)
with open(sys.argv[1]) as f: run = pytrec_eval.parse_run(f)
names = {"ndcg_cut_10", "map", "recip_rank", "P_10", "recall_100"}
found = pytrec_eval.RelevanceEvaluator(gold, names).evaluate(run)
for name in sorted(names): print(name, sum(one[name] for one in found.values()) / len(found))
"""
_IR_MEASURES = """
import sys, ir_measures
from ir_measures import nDCG, AP, RR, P, R
gold, run = ir_measures.read_trec_qrels(sys.argv[2]), ir_measures.read_trec_run(sys.argv[1])
print(ir_measures.calc_aggregate([nDCG @ 10, AP, RR, P @ 10, R @ 100], gold, run))
"""
_RANX = """
import sys
from ranx import Qrels, Run, evaluate
gold, run = Qrels.from_file(sys.argv[2], kind="trec"), Run.from_file(sys.argv[1], kind="trec")
print(evaluate(gold, run, ["ndcg@10", "map", "mrr", "precision@10", "recall@100"], make_comparable=True))
"""


class Shape(NamedTuple):
    """One kind of run: queries, results and judged documents per query, and how its lines are written."""

    name: str
    queries: int
    depth: int
    judged: int
    decimals: int = 6
    separator: str = " "
    shuffled: bool = False
    ids: Callable[[random.Random], str] | None = None


def _urn(rnd: random.Random) -> str:
    return f"urn:uuid:{uuid.UUID(int=rnd.getrandbits(128))}"


SHAPES = [
    Shape("100 x 1,000", 100, 1000, 20),
    Shape("7,000 x 1,000", 7000, 1000, 20),
    Shape("ties, two decimals", 7000, 1000, 20, decimals=2),
    Shape("shuffled", 7000, 1000, 20, shuffled=True),
    Shape("tabs", 7000, 1000, 20, separator="\t"),
    Shape("double blanks", 7000, 1000, 20, separator="  "),
    Shape("1,000 x 1,000, 150 judged", 1000, 1000, 150),
    Shape("1M x 10, UUID urns", 1_000_000, 10, 1, ids=_urn),
]


def make(shape: Shape, folder: Path) -> tuple[Path, Path]:
    """The run and the gold of a shape."""
    stem = "".join(sign if sign.isalnum() else "_" for sign in shape.name)
    run, gold = folder / f"{stem}.run", folder / f"{stem}.qrels"
    if not gold.exists():
        rnd = random.Random(7)
        with run.open("w", encoding="ascii") as results, gold.open("w", encoding="ascii") as grades:
            for number in range(shape.queries):
                lines, known = _query(shape, f"q{number}", rnd)
                results.writelines(shape.separator.join(line) + "\n" for line in lines)
                grades.writelines(f"q{number} 0 {doc} {grade}\n" for doc, grade in known)
    return run, gold


def _query(
    shape: Shape, query: str, rnd: random.Random
) -> tuple[list[tuple[str, ...]], list[tuple[str, int]]]:
    if shape.ids:
        docs = [shape.ids(rnd) for _ in range(shape.depth + shape.judged)]
    else:
        docs = [f"doc-{number:07d}" for number in rnd.sample(range(1_000_000), shape.depth + shape.judged)]
    score, lines = 1000.0, []
    for rank, doc in enumerate(docs[: shape.depth], 1):
        score -= rnd.random()
        lines.append((query, "Q0", doc, str(rank), f"{score:.{shape.decimals}f}", "tag"))
    half = (shape.judged + 1) // 2
    known = rnd.sample(docs[: shape.depth], half) + docs[shape.depth : shape.depth + shape.judged - half]
    if shape.shuffled:
        rnd.shuffle(lines)
    return lines, [(doc, rnd.choice([0, 0, 1, 1, 2, 3])) for doc in known]


def tools() -> Iterator[tuple[str, list[str]]]:
    """Name and command of each tool; the run and the gold follow."""
    yield "pytrec_eval", [sys.executable, "-c", _PYTREC]
    yield "germane", [str(Path(sys.executable).with_name("germane")), "rank", "-m", MEASURES]
    peers = os.environ.get("GERMANE_PEERS")
    for name, script, module in (("ir_measures", _IR_MEASURES, "ir_measures"), ("ranx", _RANX, "ranx")):
        if (
            peers
            and subprocess.run([peers, "-c", f"import {module}"], check=False, capture_output=True).returncode
            == 0
        ):
            yield name, [peers, "-c", script]


def measured(command: list[str]) -> tuple[float, float]:
    """CPU seconds and peak megabytes of one process; RuntimeError where it fails."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    message = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[0]} failed: {message.decode()[-500:]}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Make the data, let the tools take turns, print a table."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    folder.mkdir(parents=True, exist_ok=True)
    print("| run | tool | CPU s | / pytrec_eval | peak MB |")
    print("| --- | --- | ---: | ---: | ---: |")
    for shape in SHAPES:
        run, gold = make(shape, folder)
        used: dict[str, list[tuple[float, float]]] = {}
        for _ in range(7 if shape.queries <= 100 else rounds):
            for name, command in tools():
                files = [str(run), "--qrels", str(gold)] if name == "germane" else [str(run), str(gold)]
                used.setdefault(name, []).append(measured([*command, *files]))
        first = statistics.median(cpu for cpu, _ in used["pytrec_eval"])
        for name, found in used.items():
            cpu, peak = statistics.median(cpu for cpu, _ in found), max(peak for _, peak in found)
            print(f"| {shape.name} | {name} | {cpu:.2f} | {cpu / first:.2f} | {peak:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
