"""Requests and tokens a sample, for the whole retrieval suite, without faults: `python -m benchmarks calls`."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from benchmarks import corpus
from benchmarks.running import PEERS, SUITE, Ran, germane, head, peer, row, write_samples
from benchmarks.server import Server

WIDTHS = (44, 10, 10, 8, 8, 9, 22)


def main(*, quick: bool = False, peers: tuple[str, ...] = PEERS) -> None:
    count = 10 if quick else 100
    rows = corpus.samples(count)
    head(
        "requests and tokens a sample",
        f"{corpus.described(rows)}; tokens = request bytes / 4, schemas and re-asks included",
        f"germane: {SUITE}",
    )
    print(row(["", "requests", "tokens", "cpu s", "wall s", "peak MB", "scores"], WIDTHS))
    with Server() as server, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        first = write_samples(folder / "samples.jsonl", rows)
        changed = write_samples(folder / "changed.jsonl", corpus.samples(count, changed=True))
        for title, samples, ledger, options in (
            ("germane", first, "default", ()),
            ("  a second run", first, "default", ()),
            ("  one context of ten changed", changed, "default", ()),
            ("germane --batch 10", first, "ten", ("--batch", "10")),
            ("  a second run", first, "ten", ("--batch", "10")),
            ("  one context of ten changed", changed, "ten", ("--batch", "10")),
            ("germane --batch 5", first, "five", ("--batch", "5")),
            ("germane --reading single", first, "single", ("--reading", "single")),
        ):
            show(title, germane(server, samples, *options, ledger=folder / f"{ledger}.sqlite"), count)
        for name in peers:
            found = peer(server, name, "--samples", str(count))
            show(name, found, count)
            if found and name == "ragas":
                cache = folder / "cache"
                peer(server, name, "--samples", str(count), "--cache", cache)
                again = peer(server, name, "--samples", str(count), "--cache", cache, "--changed")
                show("  its cache on, one context of ten changed", again, count)


def show(title: str, ran: Ran | None, count: int) -> None:
    if ran is None:
        print(f"{title:44}not installed: sh benchmarks/peers.sh {title}", flush=True)
        return
    numbers = f"{ran.requests / count:.2f}", f"{ran.tokens / count:,.0f}"
    used = f"{ran.cpu:.2f}", f"{ran.wall:.1f}", f"{ran.megabytes:.0f}"
    print(row((title, *numbers, *used, ran.failure or outcomes(ran)), WIDTHS), flush=True)


def outcomes(ran: Ran) -> str:
    """How many scores there are, by how they came out."""
    found = Counter(score["status"] for score in ran.printed["scores"])
    return ", ".join(f"{number} {status}" for status, number in found.most_common())
