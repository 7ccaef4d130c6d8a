"""CPU a call, as a slope, so that start-up does not count: `python -m benchmarks cpu`.

Each tool does 200 and 1,200 calls in processes of their own, taking turns, five rounds; the whole process tree's user and
system time. (median of 1,200 - median of 200) / 1,000 is a call's price; what is left at 0 calls is the start.
germane is `germane run` with a fresh ledger and a report; the bare loops keep nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks import corpus
from benchmarks.running import PEERS, SUITE, Ran, bare, germane, head, peer, row, write_samples
from benchmarks.server import Server

WIDTHS = (34, 12, 12, 12, 12, 10)
RELEVANCE = "context_precision"
SHARE = {"ragas": 15, "deepeval": 15, "autoevals": 5, "ragelo": 10}
"""Judge calls a sample of each peer's suite (autoevals embeds besides)."""


def main(*, quick: bool = False, peers: tuple[str, ...] = PEERS) -> None:
    few, many = (100, 400) if quick else (200, 1200)
    rounds = 1 if quick else 5
    head(
        "CPU a call",
        f"slope between {few} and {many} calls, {rounds} rounds taking turns, medians; process tree; 16 in flight",
    )
    print(row(["", "ms a call", "x openai", "start s", "requests", "peak MB"], WIDTHS), flush=True)
    with Server() as server, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for title, measures, a_sample in (
            ("one question a call", RELEVANCE, 10),
            ("the suite's Readings", SUITE, 12),
        ):
            print(f"-- {title}", flush=True)
            compare(server, folder, measures, a_sample, (few, many), rounds)
        print(f"-- the peers, each its own suite (two rounds){'' if peers else ': left out'}", flush=True)
        for name in peers:
            counts = [max(2, n // SHARE[name]) for n in (few, many)]
            show(name, taking_turns([theirs(server, name, counts)], 1 if quick else 2)[0])


def compare(
    server: Server, folder: Path, measures: str, a_sample: int, sizes: tuple[int, int], rounds: int
) -> None:
    bodies = folder / "bodies.jsonl"
    files = [write_samples(folder / f"{n}.jsonl", corpus.samples(n // a_sample)) for n in sizes]
    germane(server, files[1], measures=measures, ledger=folder / "first.sqlite", record=str(bodies))
    (folder / "first.sqlite").unlink()

    def ours(large: int) -> Ran:
        with tempfile.TemporaryDirectory() as fresh:
            return germane(server, files[large], measures=measures, ledger=Path(fresh) / "ledger.sqlite")

    loops = [
        lambda large, client=client: bare(server, client, bodies, count=sizes[large] // a_sample * a_sample)
        for client in ("openai", "httpx2")
    ]
    runs = taking_turns([ours, *loops], rounds)
    base = slope(runs[1]) if runs[1] and not failed(runs[1]) else None
    for name, found in zip(("germane run", "bare openai loop", "bare httpx2 loop"), runs, strict=True):
        show(name, found, base)


def theirs(server: Server, name: str, counts: list[int]) -> Callable[[int], Ran | None]:
    return lambda large: peer(server, name, "--samples", str(counts[large]))


Runs = tuple[list[Ran], list[Ran]]


def taking_turns(tools: list[Callable[[int], Ran | None]], rounds: int) -> list[Runs | None]:
    """Every tool's small and large runs, one after the other in each round."""
    found: list[Runs | None] = [([], []) for _ in tools]
    for _ in range(rounds):
        for place, tool in enumerate(tools):
            for large in (0, 1):
                ran = tool(large) if found[place] else None
                if ran is None:
                    found[place] = None
                else:
                    found[place][large].append(ran)
    return found


def slope(runs: Runs) -> float:
    """CPU seconds a request."""
    small, large = runs
    return (_cpu(large) - _cpu(small)) / (large[0].requests - small[0].requests)


def failed(runs: Runs) -> str:
    """What went wrong in any of the runs."""
    return next((ran.failure for ran in (*runs[0], *runs[1]) if ran.failure), "")


def _cpu(runs: list[Ran]) -> float:
    return median(ran.cpu for ran in runs)


def show(title: str, runs: Runs | None, base: float | None = None) -> None:
    if runs is None:
        print(f"{title:34}not installed: sh benchmarks/peers.sh", flush=True)
        return
    if failure := failed(runs):
        print(f"{title:34}{failure}", flush=True)
        return
    each = slope(runs)
    start = _cpu(runs[0]) - each * runs[0][0].requests
    times = f"{each / base:.2f}" if base else ""
    counts = f"{runs[0][0].requests}..{runs[1][0].requests}"
    peak = max(ran.megabytes for ran in runs[1])
    print(
        row((title, f"{each * 1000:.2f}", times, f"{start:.2f}", counts, f"{peak:.0f}"), WIDTHS), flush=True
    )
