"""Stopping when enough is judged: `python -m benchmarks stopping`.

Sets of queries, drawn anew each time from a distribution whose mean is known, are judged in random order by the stages of
`germane run --until`. What is printed:

`--until WIDTH`: how many queries it takes, how often the interval at the stop covers the mean of queries like these (aim: 93%
to 97%), its half-width, and how many stages there were.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from germane.evaluation.sampling import Stages
from germane.measures.measure import Measure
from germane.reports.summary import MeasureSummary, summarise
from germane.tables.scores import ScoreTable
from germane.targets.answers import PlannedCase
from germane.types import Sample, Score

Floats = NDArray[np.float64]
QUERIES, PER_CLUSTER = 10_000, 5
"""Queries of a set, and of a cluster."""
TRUTH = 2_000_000
"""Queries whose mean is the truth."""
MEASURE = str(Measure.parse("context_recall"))
Draw = Callable[[np.random.Generator, int], Floats]
SETS: dict[str, Draw] = {
    "recall-like, sd .32": lambda rng, n: np.round(rng.beta(1.2, 0.8, n) * 4) / 4,
    "0 or 1, p = .7": lambda rng, n: (rng.random(n) < 0.7).astype(float),
    "skewed, Beta(.3, 3)": lambda rng, n: rng.beta(0.3, 3, n),
    "clusters of 5": lambda rng, n: np.clip(
        np.repeat(rng.beta(2, 1.2, n // PER_CLUSTER), PER_CLUSTER) + rng.normal(0, 0.1, n), 0, 1
    ),
}  # fmt: skip


def planned(name: str, count: int) -> list[PlannedCase]:
    """The first cases of a set, without anything to judge."""
    cluster = PER_CLUSTER if name.startswith("clusters") else None
    return [
        PlannedCase(
            sample=Sample(id=str(n), query="q", cluster=None if cluster is None else str(n // cluster)), graders=()
        )
        for n in range(count)
    ]  # fmt: skip


def judged(
    cases: list[PlannedCase], values: Floats, goals: dict[str, float], seed: int
) -> Iterator[tuple[Stages, MeasureSummary]]:
    """The stages of one run, each with the summary of what is judged up to then."""
    stages, table, clusters = Stages(cases, goals, seed), ScoreTable(), dict[str, str]()
    while True:
        samples = [one.sample for one in stages.of_stage(cases)]
        clusters |= {one.id: one.cluster for one in samples if one.cluster is not None}
        scores = (
            Score(sample=one.id, measure=MEASURE, type=MEASURE, value=float(values[int(one.id)]))
            for one in samples
        )
        table.extend(ScoreTable(scores), distinct=True)
        more = stages.next(table)
        yield stages, summarise(table, clusters=clusters)[0]
        if not more:
            return


def show_widths(rounds: int) -> None:
    print(f"== --until: {rounds} seeds each, {QUERIES:,} queries ==")
    for name, draw in SETS.items():
        cases, truth = planned(name, QUERIES), float(draw(np.random.default_rng(1), TRUTH).mean())
        for width in (0.02,):
            counts, halves, covered, steps = [], [], 0, []
            for seed in range(rounds):
                values = draw(np.random.default_rng([2, seed]), QUERIES)
                *_, (stages, line) = judged(cases, values, {MEASURE: width}, seed)
                low, high = line.interval or (0.0, 1.0)
                counts.append(stages.count)
                halves.append((high - low) / 2)
                steps.append(len(stages.as_json()["stages"]))
                covered += low <= truth <= high
            print(
                f"{name:28} +-{width:<5g} {np.mean(counts):7,.0f} queries ({np.percentile(counts, 5):,.0f} to "
                f"{np.percentile(counts, 95):,.0f}), half-width {np.mean(halves):.4f} (most {max(halves):.4f}), covered "
                f"{covered / rounds:.3f}, {np.mean(steps):.1f} stages",
                flush=True,
            )


def main(*, quick: bool = False, peers: tuple[str, ...] = ()) -> None:
    """Print what stopping does."""
    del peers
    start = time.process_time()
    show_widths(20 if quick else 400)
    print(f"{time.process_time() - start:.0f} s of CPU")


if __name__ == "__main__":
    main()
