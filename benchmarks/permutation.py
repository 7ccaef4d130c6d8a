"""Speed of the paired sign-flip test, and of a whole comparison: `python -m benchmarks permutation`.

1. 200 queries x 100,000 random flips by germane and by scipy.stats.permutation_test on the same differences, taking
   turns; medians of the process's CPU time, and both p-values with the sampling error of their difference.
2. A million cases x 5 measures x 2 systems, compared from arrays in memory.
"""

from __future__ import annotations

from math import sqrt
from statistics import median
from time import process_time

import numpy as np
from scipy.stats import permutation_test

from germane.statistics.comparison import holm, paired_difference, sign_flip_test

QUERIES, FLIPS, CASES, MEASURES = 200, 100_000, 1_000_000, 5


def main(*, quick: bool = False, peers: tuple[str, ...] = ()) -> None:
    del peers
    rng = np.random.default_rng(5)
    differences = rng.normal(0.02, 0.15, QUERIES).round(2)
    rounds = 1 if quick else 3
    print(f"== sign-flip test, {QUERIES} queries x {FLIPS:,} flips, CPU, median of {rounds} ==")
    ours, theirs = [], []
    p = q = 0.0
    for _ in range(rounds):
        start = process_time()
        p = sign_flip_test(differences, flips=FLIPS).p
        ours.append(process_time() - start)
        start = process_time()
        q = permutation_test(
            (differences,), lambda x, axis: x.sum(axis=axis), permutation_type="samples", vectorized=True,
            n_resamples=FLIPS, batch=1000, rng=np.random.default_rng(1),
        ).pvalue  # fmt: skip
        theirs.append(process_time() - start)
    error = sqrt(p * (1 - p) * 2 / FLIPS)
    print(f"germane {median(ours) * 1e3:8.1f} ms   p {p:.5f}")
    print(
        f"scipy   {median(theirs) * 1e3:8.1f} ms   p {q:.5f}   {median(theirs) / median(ours):.0f} x germane"
    )
    print(f"difference {abs(p - q):.5f} = {abs(p - q) / error:.1f} standard errors", flush=True)

    cases = CASES // 10 if quick else CASES
    scores = rng.beta(1.2, 0.8, (2, MEASURES, cases)).round(3)
    scores[1, 0] = np.where(rng.random(cases) < 0.9, scores[0, 0], scores[1, 0])
    start = process_time()
    found = [paired_difference(a, b, value_range=(0, 1)) for a, b in zip(*scores, strict=True)]
    adjusted = holm([one.p or 0.0 for one in found])
    print(f"== {cases:,} cases x {MEASURES} measures x 2 systems: {process_time() - start:.2f} s of CPU ==")
    for one, p_holm in zip(found, adjusted, strict=True):
        low, high = one.interval.ends or (np.nan, np.nan)
        print(
            f"{one.difference:+.5f} {low:+.5f} .. {high:+.5f} ({one.interval.method})  p {p_holm:.3g} "
            f"({one.test.method if one.test else ''})  {one.wins:,} wins {one.ties:,} ties {one.losses:,} losses"
        )


if __name__ == "__main__":
    main()
