"""CPU of comparing two systems over a million cases and five measures, from arrays in memory: `python -m benchmarks.million`."""

from __future__ import annotations

import argparse
import time

import numpy as np

from germane import compare
from germane.reports.report import Report
from germane.tables.part import Part
from germane.tables.scores import ScoreTable

MEASURES = ("nDCG@10", "AP", "RR", "P@10", "R@10")


def report(n: int, seed: int, lift: float) -> Report:
    """A report on n cases, whose scores are those of seed 0, changed a little."""
    base = np.random.default_rng(0)
    own = np.random.default_rng(seed)
    values = {
        name: np.clip(base.beta(2, 1, n) + own.normal(lift, 0.1, n), 0, 1).round(4) for name in MEASURES
    }
    keys = [(f"q{number}", "", 0) for number in range(n)]
    table = ScoreTable.of_values(keys, values, counted=np.ones(n, bool), why="")
    return Report.build(Part(scores=table), {})


def main(n: int) -> None:
    started = time.process_time()
    a, b = report(n, 1, 0.0), report(n, 2, 0.001)
    built = time.process_time()
    found = compare(a, b)
    print(found)
    print(
        f"{n:,} cases x {len(MEASURES)} measures x 2 systems: "
        f"{built - started:.1f} s of CPU for the reports, {time.process_time() - built:.1f} s for the comparison"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=1_000_000)
    main(parser.parse_args().cases)
