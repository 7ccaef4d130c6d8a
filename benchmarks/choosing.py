"""The best of several systems: `python -m benchmarks choosing`.

How far the gain of the best system over the first is too high; how far the held-out gain is above that of the same system, and above that of the
systems that halves choose; and how often the interval holds the gain
of the chosen system and the expected one over such choices (aim: 94%). Simulated scores, and, where LLMJUDGE names the folder of the
LLMJudge challenge's data, the pseudo-systems of `benchmarks.decisions`, their queries drawn with replacement.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.corrected_means import read
from benchmarks.decisions import DEPTH, SYSTEMS, WEIGHTS, World
from germane.statistics.intervals import mean_interval
from germane.statistics.systems import best_system

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator], Floats]


def main(*, quick: bool = False, peers: tuple[str, ...] = ()) -> None:
    """Print a line per setting."""
    del peers
    rounds = 60 if quick else 600
    rng = np.random.default_rng(3)
    print(f"{'':44} too high by                  coverage            width")
    print(f"{'':44} best   held out  of halves   chosen   expected   interval   of one system")
    for name, truth, draw in simulated():
        show(name, truth, draw, rounds, rng)
    if folder := os.environ.get("LLMJUDGE"):
        of_judges(World(read(Path(folder))), rounds, rng)
    else:
        print("LLMJudge is left out: LLMJUDGE names no folder")


def simulated() -> Iterator[tuple[str, Floats, Draw]]:
    """Scores from 0 to 1 whose queries differ, of systems that are alike or apart by `spread` (standard deviation)."""
    seeds = np.random.default_rng(1)
    for n in (20, 50, 200):
        for systems in (3, 5, 14):
            for spread in (0.0, 0.03, 0.1):
                apart = np.concatenate([[0.0], seeds.normal(0, 1, systems - 1) * spread])

                def draw(rng: np.random.Generator, n: int = n, apart: Floats = apart) -> Floats:
                    query, noise = rng.normal(0, 0.15, (n, 1)), rng.normal(0, 0.2, (n, len(apart)))
                    scores = np.clip(0.5 + apart + query + noise, 0, 1)
                    return np.asarray(scores - scores[:, :1], float)

                large = np.mean([draw(seeds, 20_000) for _ in range(5)], axis=(0, 1))
                yield f"{n} queries, {systems} systems, spread {spread:g}", large, draw


def of_judges(world: World, rounds: int, rng: np.random.Generator) -> None:
    """Pseudo-systems over LLMJudge's queries: the share of the first ten passages that people grade 2 or more."""
    alike = [(f"{SYSTEMS} systems of w {w:g}", [w] * SYSTEMS) for w in (0.0, 0.5, 0.9)]
    for name, ws in ((f"{SYSTEMS} systems of w 0 to 1", WEIGHTS), *alike):
        for n in (10, 25):
            rows = []
            for _ in range(rounds // 20):
                lists = world.systems(rng, ws)
                shares = [[world.people[ranked[:DEPTH]].mean() for ranked in of] for of in lists]
                scores = np.array(shares).T
                order = rng.permutation(scores.shape[1])  # any of them may be the first
                gains = scores[:, order] - scores[:, order[:1]]

                def draw(rng: np.random.Generator, gains: Floats = gains, n: int = n) -> Floats:
                    return gains[rng.integers(0, len(gains), n)]

                rows.append(measured(gains.mean(axis=0), draw, 20, rng))
            report(f"LLMJudge, {n} queries, {name}", np.mean(rows, axis=0))


def measured(truth: Floats, draw: Draw, rounds: int, rng: np.random.Generator) -> Floats:
    """The figures of one set of systems, over draws of queries."""
    rows = []
    for seed in range(rounds):
        gains = draw(rng)
        best = best_system(gains, value_range=(-1, 1), seed=seed)
        alone = mean_interval(gains[:, best.number], value_range=(-1, 1), differences=True).ends
        assert best.held_out is not None
        assert best.ends is not None
        width = alone[1] - alone[0] if alone and best.number else np.nan
        of_halves = float(np.dot(best.shares, truth))
        rows.append([truth[best.number], of_halves, best.gain, best.held_out, *best.ends, width])
    chosen, halves, gain, held, low, high, width = np.array(rows).T
    expected = chosen.mean()
    covered = [((low <= target + 1e-9) & (target - 1e-9 <= high)).mean() for target in (chosen, expected)]
    alone = np.nanmean(width) if np.isfinite(width).any() else 0.0
    off = [(gain - chosen).mean(), (held - chosen).mean(), (held - halves).mean()]
    return np.array([*off, *covered, (high - low).mean(), alone])


def show(name: str, truth: Floats, draw: Draw, rounds: int, rng: np.random.Generator) -> None:
    report(name, measured(truth, draw, rounds, rng))


def report(name: str, figures: Floats) -> None:
    best, held, halves, chosen, expected, width, alone = figures
    print(
        f"{name:44} {best:+.3f}  {held:+.3f}    {halves:+.3f}      {chosen:.3f}    {expected:.3f}      {width:.3f}      {alone:.3f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
