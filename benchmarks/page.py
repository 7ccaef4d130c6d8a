"""What the page and the Markdown of a large report cost: CPU and peak memory of whole processes, size of the files.

    python -m benchmarks page [--quick]

A report of 10,000 queries with five judgements each (three measures, passages of 20 words) is made by `germane run` and
copied to 100,000 and 1,000,000 under other ids and keys. Beside the capped page: the page of every query of the smallest
one, and a process that merely reads the files of each report.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

_WORDS = [f"{a}{b}{c}" for a in "bdfgklmn" for b in "aeiou" for c in ("", "ra", "to", "li")]
_READ = "import sys\nfor path in sys.argv[1:]:\n    print(sum(map(len, open(path, 'rb'))))"
_FILES = ("samples", "places", "judgements", "scores")


def main(*, quick: bool = False, peers: Sequence[str] = ()) -> None:
    """Make the reports, write their files and print."""
    del peers
    first, copies = (500, (1, 4)) if quick else (10_000, (1, 10, 100))
    germane = [sys.executable, "-m", "germane"]
    print(f"{'':34}{'s CPU':>8}{'peak MB':>9}{'s wall':>8}{'file MB':>9}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "samples.jsonl"
        data.write_text("".join(_samples(first)), "utf-8")
        measures = "nDCG@10 R@10 context_precision@5"
        words = ["run", str(data), "-m", measures, "--judge", "lexical", "--no-cache", "-q", "-o", "r1"]
        subprocess.run([*germane, *words], check=True, cwd=folder, capture_output=True)
        for times in copies:
            report = folder / f"r{times}"
            if times > 1:
                _copy(folder / "r1", report, times)
            said = f"{first * times:,} queries, "
            files = [str(report / f"{file}.jsonl") for file in _FILES]
            _measured(f"{said}read the files", [sys.executable, "-c", _READ, *files], folder)
            for kind in ("html", "md"):
                page = folder / f"page.{kind}"
                words = ["report", str(report), "-o", str(page)]
                _measured(f"{said}.{kind}", [*germane, *words], folder, page)
            if times > 1:
                for file in report.iterdir():
                    file.unlink()


def _samples(count: int) -> Iterator[str]:
    draw = random.Random(7)
    for number in range(count):
        ids = [f"d{number}-{at}" for at in range(10)]
        contexts = [{"id": name, "text": " ".join(draw.choices(_WORDS, k=20))} for name in ids]
        gold = {ids[draw.randrange(10)]: 2, f"gone{number}": 1}
        query = " ".join(contexts[draw.randrange(10)]["text"].split()[:5])
        row = {"id": f"q-{number}", "query": query, "contexts": contexts, "qrels": gold}
        yield json.dumps({**row, "tags": [draw.choice(["a", "b", "c"])]}) + "\n"


def _copy(source: Path, target: Path, times: int) -> None:
    """A report with each row so many times: samples under other ids, judgements under other keys and items."""
    target.mkdir()
    manifest = json.loads((source / "manifest.json").read_text("utf-8"))
    for name in _FILES:
        rows = (source / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
        written = hashlib.sha256()
        with (target / f"{name}.jsonl").open("wb") as file:
            for copy in range(times):
                lines = b"".join(_renamed(name, row, copy) for row in rows)
                file.write(lines)
                written.update(lines)
        manifest["files"][f"{name}.jsonl"] = written.hexdigest()
    (target / "labels.jsonl").write_bytes(b"")
    (target / "manifest.json").write_text(json.dumps(manifest), "utf-8")


def _renamed(name: str, row: bytes, copy: int) -> bytes:
    if name == "judgements":  # {"key":"32 digits","item":"32 digits",...
        mark = b"%04x" % copy
        return row[:8] + mark + row[12:50] + mark + row[54:] if copy else row
    field = b'"id":"q-' if name == "samples" else b'"sample":"q-'
    return row.replace(field, b"%s%d-" % (field[:-1], copy), 1)


def _measured(what: str, command: Sequence[str], folder: Path, written: Path | None = None) -> None:
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, command
    size = f"{written.stat().st_size / 1e6:9.2f}" if written else ""
    cpu, wall = used.ru_utime + used.ru_stime, time.perf_counter() - began
    print(f"{what:34}{cpu:8.1f}{used.ru_maxrss / 1024:9.0f}{wall:8.1f}{size}", flush=True)


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
