"""Corrected means of judges that give wrong probabilities: `python -m benchmarks.temperatures [FOLDER]`.

A judge gives a distribution over the grades 0 to 3, which is then made wrong by a temperature: p ** (1 / T), normalised; below 1
it is too sure, above 1 not sure enough. The share of passages graded 2 or more is corrected with 100 labels, as a report and its
audit do: the judge's value of a passage is the probability of grade 2 or more. Two judges:

- real: FOLDER is that of `benchmarks.corrected_means` (LLMJudge, TREC Deep Learning 2023). The distribution is that of people's
  grades among the passages of other queries to which three of its judges gave the same mean grade, so about calibrated at T = 1.
- synthetic: 25 queries of 177 passages, each with a distribution of its own from which its grade is drawn: calibrated at T = 1.

For each temperature: what the judge alone is off by, and the coverage of the corrected 95% intervals: 100 passages drawn of all
(A), 4 of 10 for each query (C), and the same of queries like these; their width as a share of that of the labels alone, and,
last, what it is where the judge's most probable grade stands in the place of its distribution.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.corrected_means import (
    LABELS,
    VALUES,
    Data,
    Estimate,
    Floats,
    by_passage,
    by_query,
    lists_drawn,
    pairs_drawn,
    read,
    to_come,
)

TEMPERATURES = (0.25, 0.5, 1.0, 2.0, 5.0)
VALUE = VALUES[0]


def of_votes(data: Data) -> Floats:
    """How people grade what three judges give the same mean grade, in other queries; shape (pairs, 4)."""
    names = sorted(data.judges)[:: len(data.judges) // 3][:3]
    votes = np.clip(np.array([data.judges[name] for name in names]), 0, 3).sum(axis=0).astype(int)
    counts = np.zeros((int(data.queries.max()) + 1, 10, 4))
    np.add.at(counts, (data.queries, votes, data.people.astype(int)), 1.0)
    others = counts.sum(axis=0) - counts + 0.5
    found: Floats = (others / others.sum(axis=2, keepdims=True))[data.queries, votes]
    return found


def made(rng: np.random.Generator) -> tuple[Data, Floats]:
    """Queries of which some have far more relevant passages than others, and the distribution that each grade is drawn from."""
    queries = np.repeat(np.arange(25), 177)
    ease = rng.normal(-0.8, 0.8, 25)[queries] + rng.normal(0, 1.2, len(queries))
    scores = ease[:, None] * np.arange(4) - np.array([0.0, 0.3, 0.9, 1.8])
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    people = (rng.random(len(queries))[:, None] > chances.cumsum(axis=1)).sum(axis=1)
    return Data(queries, np.minimum(people, 3).astype(float), {}), chances


def at(chances: Floats, temperature: float) -> Floats:
    heated = chances ** (1 / temperature)
    found: Floats = heated / heated.sum(axis=1, keepdims=True)
    return found


def show(name: str, data: Data, chances: Floats, rounds: int, rng: np.random.Generator) -> None:
    relevant = VALUE.of(data.people)
    sizes = np.bincount(data.queries)
    truth_to_come = float((np.bincount(data.queries, relevant) / sizes).mean())
    print(
        f"== {name}: {len(relevant):,} passages, {relevant.mean():.3f} graded 2 or more, {rounds:,} draws =="
    )
    print(
        "   T   judge off by   A: cov. width   C: cov. width   like these: cov. width   by the mode: A C width"
    )
    ways: tuple[tuple[Estimate, list[tuple[np.ndarray, np.ndarray]]], ...] = (
        (by_passage, pairs_drawn(data, rounds, rng)),
        (by_query, lists_drawn(data, rounds, rng)),
        (to_come, lists_drawn(data, rounds, rng, resampled=True)),
    )
    for temperature in TEMPERATURES:
        heated = at(chances, temperature)
        value, mode = heated[:, 2:].sum(axis=1), heated.argmax(axis=1).astype(float)
        cells, by_mode = [], []
        for estimate, draws in ways:
            inside, width, width_by_mode = [], [], []
            for pairs, known in draws:
                labels = np.where(known, relevant[pairs], np.nan)
                truth = truth_to_come if estimate is to_come else relevant[pairs].mean()
                one = estimate(value[pairs], labels, VALUE, None, data.queries[pairs])
                other = estimate(VALUE.of(mode[pairs]), labels, VALUE, mode[pairs], data.queries[pairs])
                assert one.ends is not None
                assert one.human_ends is not None
                assert other.ends is not None
                inside.append(one.ends[0] <= truth <= one.ends[1])
                width.append(np.ptp(one.ends) / np.ptp(one.human_ends))
                width_by_mode.append(np.ptp(other.ends) / np.ptp(one.human_ends))
            cells.append(f"{np.mean(inside):.3f} {np.mean(width):.3f}")
            by_mode.append(f"{np.mean(width_by_mode):.3f}")
        off = value.mean() - relevant.mean()
        print(f"{temperature:5g}   {off:+.3f}   {'   '.join(cells)}   {' '.join(by_mode)}", flush=True)


def main(folder: Path | None, *, quick: bool = False) -> None:
    rng, rounds = np.random.default_rng(9), 100 if quick else 1000
    print(f"{LABELS} labels, seed 9")
    if folder is not None:
        data = read(folder)
        show("real", data, of_votes(data), rounds, rng)
    show("synthetic", *made(rng), rounds, rng)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "folder", type=Path, nargs="?", help="the LLMJudge challenge's data; without it, synthetic only"
    )
    parser.add_argument("--quick", action="store_true", help="100 draws rather than 1,000")
    options = parser.parse_args()
    main(options.folder, quick=options.quick)
