"""A provider's bad day: 10% 429 with Retry-After, 5% 500, 5% malformed, 2% hangs: `python -m benchmarks storm`.

Which request meets what follows from its content and how often it was asked, so every tool meets the same weather.
Each tool runs once in the calm and once in the storm: a score that is there in both and differs is wrong; a score of 0
that was none is a silent zero. Requests are given up after 15 s wherever a tool has a setting for it.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import corpus
from benchmarks.running import PEERS, Ran, germane, head, peer, row, write_samples
from benchmarks.server import Server

WIDTHS = (22, 8, 8, 12, 8, 8, 8, 8, 8, 10, 9, 8)
COLUMNS = "|scores|ok|incomplete|error|none|raised|lost|wrong|silent 0|requests|wall s"


def main(*, quick: bool = False, peers: tuple[str, ...] = PEERS) -> None:
    count = 8 if quick else 40
    head(
        "a fault storm", f"{count} samples, 16 in flight, 50 ms a request; lost = no word of it in the result"
    )
    print(row(COLUMNS.split("|"), WIDTHS), flush=True)
    with Server() as server, tempfile.TemporaryDirectory() as scratch:
        samples = write_samples(Path(scratch) / "samples.jsonl", corpus.samples(count))

        def ours(*options: str, **weather: Any) -> Ran:
            with tempfile.TemporaryDirectory() as fresh:
                return germane(
                    server,
                    samples,
                    "--timeout",
                    "15",
                    *options,
                    ledger=Path(fresh) / "ledger.sqlite",
                    latency=0.05,
                    **weather,
                )

        show("germane", ours(), ours(storm=True))
        show("germane --batch 10", ours("--batch", "10"), ours("--batch", "10", storm=True))
        for name in peers:
            given = ("--samples", str(count))
            calm = peer(server, name, *given, latency=0.05)
            show(name, calm, peer(server, name, *given, latency=0.05, storm=True))


def show(title: str, calm: Ran | None, stormy: Ran | None) -> None:
    if calm is None or stormy is None:
        print(f"{title:22}not installed: sh benchmarks/peers.sh {title}", flush=True)
        return
    if calm.failure or stormy.failure:
        print(f"{title:22}calm: {calm.failure or 'fine'}; storm: {stormy.failure or 'fine'}", flush=True)
        return
    before, after = by_place(calm), by_place(stormy)
    found = Counter(score["status"] for score in after.values())
    both = [
        (before[key], after[key]) for key in before.keys() & after.keys() if after[key]["value"] is not None
    ]
    wrong = [(one, other) for one, other in both if one["value"] != other["value"]]
    counts = [found[status] for status in ("ok", "incomplete", "error", "none", "raised")]
    silent = sum(other["value"] == 0 for _, other in wrong)
    lost = len(before.keys() - after.keys())
    cells = (title, len(before), *counts, lost, len(wrong), silent, stormy.requests, f"{stormy.wall:.1f}")
    print(row(cells, WIDTHS), flush=True)
    print(f"{'':22}{found['ok'] / len(before):.1%} ok", flush=True)


def by_place(ran: Ran) -> dict[tuple[str, str], dict[str, Any]]:
    return {(score["sample"], score["measure"]): score for score in ran.printed["scores"]}
