"""What ranking a TREC run costs beside other tools: whole processes in turns, CPU and peak memory.

    python -m benchmarks rank [--quick] [--alone]
    python -m benchmarks.rank FOLDER ROUNDS [SHAPE...]     data kept in FOLDER; shapes by a part of their names

Data is the same every time. ir_measures and ranx take part where `sh benchmarks/peers.sh ir_measures ranx` has made their
environments, after one round that is not counted (ranx compiles then); pytrec_eval-terrier is one of the tests' packages.
"polars" is a process that merely reads the run's three columns. germane's bytecode is compiled first, as installing a wheel does.
"""

from __future__ import annotations

import compileall
import os
import random
import statistics
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.running import BENCH
from benchmarks.server import ROOT

MEASURES = "nDCG@10 AP RR P@10 R@100"

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


_POLARS = """
import sys, polars
schema = dict.fromkeys("abcdef", polars.String) | {"e": polars.Float64}
polars.read_csv(sys.argv[1], separator=" ", has_header=False, quote_char=None, columns=[0, 2, 4], schema=schema)
"""
_PARQUET = """
import os, sys, numpy, polars
folder, queries = sys.argv[1], int(sys.argv[2])
rows, parts = 1_000 * 2_000, []
for part in range(queries // 2_000):
    number = numpy.arange(part * rows, (part + 1) * rows)
    table = polars.DataFrame({"query_id": number // 1_000, "doc_id": number * 7919 % 1_000_000_007})
    table = table.cast(polars.String).with_columns(score=polars.Series(1_000.0 - number % 1_000))
    table.write_parquet(f"{folder}/part{part:03}.parquet")
polars.scan_parquet(f"{folder}/part*.parquet").sink_parquet(f"{folder}/large.parquet")
for part in range(queries // 2_000):
    os.remove(f"{folder}/part{part:03}.parquet")
"""
_FORMATS = """
import json, sys
run, folder = sys.argv[1:]
lists = {}
for line in open(run):
    query, _, doc, _, score, _ = line.split()
    lists.setdefault(query, {})[doc] = float(score)
rows = [(query, doc, score) for query, found in lists.items() for doc, score in found.items()]
for name, between in (("table.tsv", "\\t"), ("table.csv", ",")):
    with open(f"{folder}/{name}", "w") as file:
        file.writelines(between.join(map(str, row)) + "\\n" for row in [("query_id", "doc_id", "score"), *rows])
with open(f"{folder}/rows.jsonl", "w") as file:
    file.writelines(json.dumps(dict(zip(("query_id", "doc_id", "score"), row))) + "\\n" for row in rows)
with open(f"{folder}/lists.jsonl", "w") as file:
    for query, found in lists.items():
        contexts = [{"id": doc, "score": score} for doc, score in found.items()]
        file.write(json.dumps({"id": query, "contexts": contexts}) + "\\n")
with open(f"{folder}/ranx.json", "w") as file:
    json.dump(lists, file)
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


def tools(peers: bool = True) -> Iterator[tuple[str, list[str]]]:
    """Name and command of each tool; the run and the gold follow."""
    yield "pytrec_eval", [sys.executable, "-c", _PYTREC]
    yield "germane", [str(Path(sys.executable).with_name("germane")), "rank", "-m", MEASURES]
    for name, script in (("ir_measures", _IR_MEASURES), ("ranx", _RANX)):
        python = BENCH / name / "bin" / "python"
        if peers and python.exists():
            yield name, [str(python), "-c", script]


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


def compare(shape: Shape, folder: Path, rounds: int, *, peers: bool = True) -> None:
    """Let the tools take turns on one shape, and print a line for each."""
    run, gold = make(shape, folder)
    commands = dict(tools(peers))
    if shape.name.startswith("7,000"):
        commands["polars"] = [sys.executable, "-c", _POLARS]
    used: dict[str, list[tuple[float, float]]] = {}
    for turn in range(-1, 7 if shape.queries <= 100 else rounds):
        for name, command in commands.items():
            if turn < 0 and name not in {"ir_measures", "ranx"}:
                continue
            files = [str(run), "--qrels", str(gold)] if name == "germane" else [str(run), str(gold)]
            found = measured([*command, *files])
            if turn >= 0:
                used.setdefault(name, []).append(found)
    _print(shape.name, used)


def _print(shape: str, used: dict[str, list[tuple[float, float]]]) -> None:
    first, most = (statistics.median(column) for column in zip(*next(iter(used.values())), strict=True))
    for name, found in used.items():
        cpu, peak = (statistics.median(column) for column in zip(*found, strict=True))
        row = f"| {shape} | {name} | {len(found)} | {cpu:.2f} | {cpu / first:.2f} | {peak:,.0f} | {peak / most:.2f} |"
        print(row, flush=True)


def parquet(folder: Path, queries: int) -> None:
    """The peak memory of a large Parquet file, of which nobody else reads less than all."""
    file, gold = folder / "large.parquet", folder / "large.qrels"
    if not file.exists():
        subprocess.run([sys.executable, "-c", _PARQUET, str(folder), str(queries)], check=True)
    lines = (f"{query} 0 {(query * 1_000 + 7) * 7919 % 1_000_000_007} 1\n" for query in range(0, queries, 5))
    gold.write_text("".join(lines), "ascii")
    command = [*dict(tools(peers=False))["germane"], str(file), "--qrels", str(gold)]
    _print(f"Parquet, {queries // 1_000}M rows", {"germane": [measured(command)]})


def formats(folder: Path) -> None:
    """What the same run costs in other formats than TREC's text."""
    run, gold = make(next(shape for shape in SHAPES if shape.name.startswith("1,000 x")), folder)
    subprocess.run([sys.executable, "-c", _FORMATS, str(run), str(folder)], check=True)
    used: dict[str, list[tuple[float, float]]] = {}
    for _ in range(3):
        for name in (run.name, "table.tsv", "table.csv", "rows.jsonl", "lists.jsonl", "ranx.json"):
            command = [*dict(tools(peers=False))["germane"], str(folder / name), "--qrels", str(gold)]
            used.setdefault(name, []).append(measured(command))
    _print("1M rows", used)


def main(*, quick: bool = False, peers: Sequence[str] = ("all",)) -> None:
    """Make the data, let the tools take turns, print a table."""
    compileall.compile_dir(ROOT / "src", quiet=1)
    print("| run | tool | rounds | CPU s | / pytrec_eval | peak MB | / pytrec_eval |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for shape in SHAPES[: 1 if quick else None]:
            compare(shape, Path(folder), 3, peers=bool(peers))
        parquet(Path(folder), 2_000 if quick else 50_000)
        if not quick:
            formats(Path(folder))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        main()
    compileall.compile_dir(ROOT / "src", quiet=1)
    for chosen in SHAPES:
        if any(part in chosen.name for part in sys.argv[3:]):
            Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
            compare(chosen, Path(sys.argv[1]), int(sys.argv[2]))
