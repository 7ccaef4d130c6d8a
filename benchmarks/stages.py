"""What following relevant documents through the runs of three stages costs: CPU and peak memory of whole processes.

    python -m benchmarks stages [--quick]

Three runs of 10,000 queries x 1,000 documents, 30 million rows in all, in which losses are planted: every tenth query loses
a document at the second stage, every fifth one at the third, every twentieth gets one back. What is printed must be
what was planted. Beside it: `germane rank` of the same three runs, and a process that merely reads their columns.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

_MAKE = """
import sys, numpy, polars
folder, queries = sys.argv[1], int(sys.argv[2])
PART = 500
files = {name: open(f"{folder}/{name}.run", "wb") for name in ("first", "fused", "final")}
with open(f"{folder}/gold", "w") as gold:
    for q in range(queries):
        gold.write("".join(f"q{q} 0 d{q * 1000 + at} 1\\n" for at in (2, 39, 299)) + f"q{q} 0 x{q} 1\\n")
for start in range(0, queries, PART):
    number = numpy.arange(start * 1000, (start + PART) * 1000)
    query, at = number // 1000, number % 1000
    docs = polars.Series(number).cast(polars.String)
    docs = ("d" + docs).to_numpy().astype(object)
    for name, file in files.items():
        ids = docs.copy()
        if name != "first":
            lost = (query % 10 == 0) & (at == 39)
            ids[lost] = [f"y{q}" for q in query[lost]]
            saved = (query % 20 == 0) & (at == 700)
            ids[saved] = [f"x{q}" for q in query[saved]]
        if name == "final":
            lost = (query % 5 == 0) & (at == 299)
            ids[lost] = [f"z{q}" for q in query[lost]]
        polars.DataFrame({"q": ("q" + polars.Series(query).cast(polars.String)), "0": ["Q0"] * len(ids), "d": ids.tolist(),
                          "r": at + 1, "s": 1000.0 - at, "t": [name] * len(ids)}
                         ).write_csv(file, separator=" ", include_header=False)
"""
_READ = """
import sys, polars
for path in sys.argv[1:]:
    schema = dict.fromkeys("abcdef", polars.String) | {"e": polars.Float64}
    polars.read_csv(path, separator=" ", has_header=False, quote_char=None, columns=[0, 2, 4], schema=schema)
"""


def main(*, quick: bool = False, peers: Sequence[str] = ()) -> None:
    """Make the runs, follow the documents, check and print."""
    del peers
    queries = 1_000 if quick else 10_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-c", _MAKE, name, str(queries)], check=True)
        runs = [str(folder / f"{stage}.run") for stage in ("first", "fused", "final")]
        gold = ["--qrels", str(folder / "gold")]
        print(f"{3 * queries * 1000:,} rows, {sum(Path(run).stat().st_size for run in runs) / 1e6:,.0f} MB")
        germane = [sys.executable, "-m", "germane"]
        found = json.loads(_measured("germane stages", [*germane, "stages", *runs, *gold, "--json"]))
        _measured("germane rank, one measure", [*germane, "rank", *runs, *gold, "-m", "R@1000", "--json"])
        _measured("polars, columns only", [sys.executable, "-c", _READ, *runs])
    lines = [(one["in"], one["lost"], one["saved"]) for one in found["stages"]]
    a, b, c = queries // 10, queries // 5, queries // 20
    wanted = [(3 * queries, queries, 0), (3 * queries - a + c, a, c), (3 * queries - a + c - b, b, 0)]
    print(f"in, lost, saved: {lines}, as planted: {lines == wanted}")
    assert lines == wanted


def _measured(what: str, command: Sequence[str]) -> str:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{what:28} {cpu:7.1f} s CPU {time.perf_counter() - began:7.1f} s wall, peak so far {after.ru_maxrss / 1024:6.0f} MB"
    )
    return done.stdout


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
