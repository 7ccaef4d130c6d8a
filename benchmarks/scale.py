"""What a judgement takes: the constants of the model of cost in docs/scale.md, and the model itself.

    python -m benchmarks scale [--quick]

Whole processes of `germane run` against a scripted model server, on samples of 10 passages of about 150 tokens, one
measure. It prints what each figure rests on: bytes on disk, CPU of judging, of reading what is known, of a part that reads
the input to find its own cases, of merging; tokens that were sent; and, where PostgreSQL is installed, the rate of several
writers of one ledger beside SQLite's. Then what 1M, 100M and 1B judgements take.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from germane.ledger.sqlite import open_at
from germane.types import Judgement, Usage
from tests.database import PostgresServer, programs

CONTEXTS = 10
PRICES = {"gpt-4o-mini, live": (0.15, 0.60), "the same at half price (batches)": (0.075, 0.30)}
"""US dollars per million tokens in and out."""
SECONDS = 1.0
"""What a request is taken to need."""
_WORDS = ("the", "of", "a", "to", "in", "and", "is", "for", "that", "with", "on", "as")


def main(*, quick: bool = False, peers: Sequence[str] = ()) -> None:
    """Measure, print, and print the model."""
    del peers
    count = 100 if quick else 1000
    found = _measured(count)
    writers = _writers(8, 100 if quick else 500)
    print(f"\nof {count:,} samples x {CONTEXTS} passages, a judgement for each:")
    for name, value in found.items():
        print(f"  {name:58} {value:>12,.3f}")
    for name, rate in writers.items():
        print(f"  {name:58} {rate:>12,.0f}")
    print("\n" + _model(found))


@contextmanager
def _server() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.server", "--latency", "0"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.kill()
        process.communicate()


def _write(file: Path, count: int) -> None:
    draw = random.Random(1)
    with file.open("w", encoding="utf-8") as lines:
        for n in range(count):
            texts = [" ".join(draw.choices(_WORDS, k=130)) + f" number {n} {k}" for k in range(CONTEXTS)]
            row = {"id": f"q{n}", "query": f"which number is {n}?", "contexts": texts, "qrels": {f"{n}": 1}}
            lines.write(json.dumps(row) + "\n")


def _run(folder: Path, *words: str) -> float:
    """The CPU seconds of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = {**os.environ, "OPENAI_API_KEY": "test"}
    done = subprocess.run(
        [sys.executable, "-m", "germane", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _measured(count: int) -> dict[str, float]:
    """Each constant by its name; CPU is in milliseconds per judgement, what the command takes to start left out."""
    with tempfile.TemporaryDirectory() as name, _server() as url:
        folder = Path(name)
        _write(folder / "s.jsonl", count)
        _write(folder / "one.jsonl", 1)
        asked = (
            "-m",
            f"context_precision@{CONTEXTS}",
            "--judge",
            "openai:gpt-4o-mini",
            "--base-url",
            url,
            "-q",
        )
        given = (*asked, "--price", "0.15/0.60", "--ledger", "l.sqlite")
        start = min(_run(folder, "run", "one.jsonl", *given, "-o", f"start{n}") for n in range(3))
        live = _run(folder, "run", "s.jsonl", *given, "-o", "live") - start
        known = _run(folder, "run", "s.jsonl", *given, "-o", "known") - start
        parts = [
            _run(folder, "run", "s.jsonl", *given, "-o", f"p{n}", "--part", f"{n}/4") - start
            for n in range(1, 5)
        ]
        merge = _run(folder, "merge", *(f"p{n}" for n in range(1, 5)), "-o", "merged") - start
        assert (folder / "merged" / "scores.jsonl").read_bytes() == (
            folder / "live" / "scores.jsonl"
        ).read_bytes()
        judge = json.loads((folder / "live" / "manifest.json").read_text("utf-8"))["judge"]
        sizes = {file.stem: file.stat().st_size for file in (folder / "live").glob("*.jsonl")}
        ledger = sum(file.stat().st_size for file in folder.glob("l.sqlite*"))
        input_size = (folder / "s.jsonl").stat().st_size
    judgements = count * CONTEXTS
    per = 1000 / judgements
    return {
        "tokens sent per judgement": judge["tokens"]["input"] / judgements,
        "tokens answered per judgement": judge["tokens"]["output"] / judgements,
        "bytes of input per judgement": input_size / judgements,
        "bytes of the report per judgement": sum(sizes.values()) / judgements,
        "  of these: samples": sizes["samples"] / judgements,
        "  of these: judgements": sizes["judgements"] / judgements,
        "  of these: places": sizes["places"] / judgements,
        "  of these: scores": sizes["scores"] / judgements,
        "bytes of the ledger per judgement": ledger / judgements,
        "ms of CPU per judgement, asked": live * per,
        "ms of CPU per judgement, known": known * per,
        "ms of CPU per judgement that a part only passes over": max(0.0, (sum(parts) - known) / 3) * per,
        "ms of CPU per judgement, merged": max(0.0, merge) * per,
    }


def _write_rows(place: str, who: int, batches: int) -> float:
    """Write groups of ten answers; the longest wait."""
    longest = 0.0
    with open_at(place) as ledger:  # type: ignore[attr-defined]
        for batch in range(batches):
            rows = [_row(who, batch * 10 + n) for n in range(10)]
            began = time.perf_counter()
            ledger.put(rows)
            longest = max(longest, time.perf_counter() - began)
    return longest


def _row(who: int, number: int) -> Judgement:
    answer = {"grade": number % 4, "reason": "a short reason that a model gives"}
    return Judgement(key=f"{who:04x}{number:028x}", item=f"{number:032x}", kind="relevance", judge="m", prompt="p",
                     answer=answer, usage=Usage(requests=1))  # fmt: skip


def _writers(count: int, batches: int) -> dict[str, float]:
    """Answers per second that so many processes write in groups of ten, and the longest that one waited, in ms."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        places = {"SQLite": str(Path(name) / "w.sqlite")}
        found |= _rates(places, count, batches)
    if programs() is not None:
        with PostgresServer(fsync=True) as server:
            found |= _rates({"PostgreSQL": server.url}, count, batches)
    return found


def _rates(places: dict[str, str], count: int, batches: int) -> dict[str, float]:
    found = {}
    for kind, place in places.items():
        open_at(place).close()
        with get_context("spawn").Pool(count) as pool:
            pool.map(abs, range(count))  # they have started
            began = time.perf_counter()
            waits = pool.starmap(_write_rows, [(place, who, batches) for who in range(count)])
            seconds = time.perf_counter() - began
        found[f"answers per second of {count} writers, {kind}"] = count * batches * 10 / seconds
        found[f"longest wait of a writer in ms, {kind}"] = max(waits) * 1000
    return found


def _short(number: float) -> str:
    """Three digits of a number."""
    return f"{float(f'{number:.3g}'):,.10g}"


def _model(found: dict[str, float]) -> str:
    """What so many judgements take, as a table in Markdown."""
    lines = ["| | 1M | 100M | 1B |", "| --- | ---: | ---: | ---: |"]
    sizes = (1e6, 1e8, 1e9)
    read, wrote = found["tokens sent per judgement"], found["tokens answered per judgement"]

    def line(what: str, per: float, unit: str, scale: float) -> None:
        lines.append(
            f"| {what} | " + " | ".join(f"{_short(n * per / scale)} {unit}".rstrip() for n in sizes) + " |"
        )

    line("samples of 10 passages", 1 / CONTEXTS, "M", 1e6)
    line("tokens in and out", read + wrote, "billion", 1e9)
    for name, (into, out) in PRICES.items():
        line(f"US dollars, {name}", (read * into + wrote * out) / 1e6, "", 1)
    for flying in (16, 100, 1000):
        line(f"hours of waiting, {flying:,} in flight, {SECONDS:g} s each", SECONDS / flying / 3600, "h", 1)
    line("hours of CPU, asked", found["ms of CPU per judgement, asked"] / 3.6e6, "h", 1)
    line("hours of CPU, known", found["ms of CPU per judgement, known"] / 3.6e6, "h", 1)
    line("report on disk", found["bytes of the report per judgement"], "GB", 1e9)
    line("ledger on disk", found["bytes of the ledger per judgement"], "GB", 1e9)
    return "\n".join(lines)
