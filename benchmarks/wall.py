"""Wall clock against the ideal, requests x latency / in flight: `python -m benchmarks wall`.

Twelve requests a sample and as many samples as requests in flight: twelve full trips, no half-empty last one. Where a
tool had more in flight than it was told to, the ideal is that of what it had.
`judging` is from the first request to the last answer, as the server saw it; `process` is from start to exit, with
imports, ledger and report. The bare loops send germane's own requests; each peer sends those of its own suite.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks import corpus
from benchmarks.running import PEERS, Ran, bare, germane, head, peer, row, write_samples
from benchmarks.server import Server

WIDTHS = (30, 10, 10, 10, 10, 10, 10, 8, 9)
COLUMNS = "|in flight|requests|ideal s|judging s|/ ideal|/ openai|most|process s"
SUITES = {"ragas": 15, "deepeval": 15, "autoevals": 5, "ragelo": 10}


def main(*, quick: bool = False, peers: tuple[str, ...] = PEERS) -> None:
    plans = (
        (1.0, (16, 64) if quick else (16, 64, 100, 256), 1),
        (0.2, (16,) if quick else (16, 64, 100), 1 if quick else 3),
    )
    with Server() as server, tempfile.TemporaryDirectory() as scratch:
        for latency, levels, rounds in plans:
            head(f"wall clock at {latency:g} s a request", f"{rounds} rounds taking turns, medians")
            print(row(COLUMNS.split("|"), WIDTHS), flush=True)
            for jobs in levels:
                compare(server, Path(scratch), latency, jobs, rounds, quick=quick)
        head(
            "the peers' own suites at 0.2 s a request",
            "one round; in flight = what each is told to",
        )
        print(row(COLUMNS.split("|"), WIDTHS), flush=True)
        for name in peers:
            for jobs in (16,) if quick else (16, 100):
                count = max(2, (4 if quick else 10) * jobs // SUITES[name])
                given = ("--samples", str(count), "--jobs", str(jobs))
                show(name, [peer(server, name, *given, latency=0.2)], 0.2, jobs)


def compare(server: Server, folder: Path, latency: float, jobs: int, rounds: int, *, quick: bool) -> None:
    samples = write_samples(folder / "samples.jsonl", corpus.samples(jobs // 4 if quick else jobs))
    bodies = folder / "bodies.jsonl"
    ours(
        server, samples, jobs, record=str(bodies)
    )  # it also makes the server work out all answers beforehand
    ways: dict[str, Callable[[], Ran | None]] = {
        "bare openai loop": lambda: bare(server, "openai", bodies, jobs=jobs, latency=latency),
        "bare httpx2 loop": lambda: bare(server, "httpx2", bodies, jobs=jobs, latency=latency),
        f"germane run -j {jobs}": lambda: ours(server, samples, jobs, latency=latency),
    }
    if jobs == 64:
        ways["germane run (finds its level)"] = lambda: ours(server, samples, None, latency=latency)
    found: dict[str, list[Ran | None]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(way())
    base = found["bare openai loop"]
    for name, runs in found.items():
        show(name, runs, latency, jobs, base)


def ours(server: Server, samples: Path, jobs: int | None, **settings: object) -> Ran:
    with tempfile.TemporaryDirectory() as fresh:
        return germane(server, samples, ledger=Path(fresh) / "ledger.sqlite", jobs=jobs, **settings)


def show(
    title: str, runs: list[Ran | None], latency: float, jobs: int, base: list[Ran | None] | None = None
) -> None:
    there = [ran for ran in runs if ran is not None]
    if not there or any(ran.failure for ran in there):
        why = there[0].failure if there else "not installed: sh benchmarks/peers.sh"
        print(f"{title:30}{why}", flush=True)
        return
    requests = there[0].requests
    most = median(ran.asked["most"] for ran in there)
    ideal = requests * latency / max(jobs, most)
    judging = spans(there)
    plain = spans([ran for ran in base or () if ran is not None])
    cells = (
        title,
        jobs,
        requests,
        ideal,
        judging,
        judging / ideal,
        judging / plain if plain else "",
        f"{most:.0f}",
        median(ran.wall for ran in there),
    )
    print(row(cells, WIDTHS), flush=True)


def spans(runs: list[Ran]) -> float:
    return median(ran.asked["span"] for ran in runs) if runs else 0.0
