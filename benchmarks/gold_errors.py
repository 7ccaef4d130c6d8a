"""Planted errors in gold, found again: `python -m benchmarks.gold_errors FOLDER`.

FOLDER is that of `benchmarks.corrected_means` (LLMJudge, TREC Deep Learning 2023). 5% of people's yes or no (grade 2 or more) are
flipped; `germane audit --gold` ranks all pairs by how much judges doubt them. What is printed: the share of planted
errors among the first 100, over 40 draws of errors and judges. Aim: .25 with one judge, .31 with three. What else is among
them may be errors of the gold itself.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.corrected_means import read
from germane.statistics.agreement import doubt_of_labels

PLANTED, FIRST, RELEVANT = 0.05, 100, 2


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=40)
    options = parser.parse_args()
    data, rng = read(options.folder), np.random.default_rng(25)
    people = (data.people >= RELEVANT).astype(float)
    grades = np.clip(np.array(list(data.judges.values())), 0, 3)
    for count in (1, 3, len(grades)):
        start, found = time.process_time(), []
        for _ in range(options.draws):
            planted = np.zeros(len(people), bool)
            planted[rng.choice(len(people), int(PLANTED * len(people)), replace=False)] = True
            some = grades[rng.choice(len(grades), count, replace=False)]
            doubt = doubt_of_labels(np.where(planted, 1 - people, people), some, data.queries)
            found.append(planted[np.argsort(-doubt, kind="stable")[:FIRST]].mean())
        spent = (time.process_time() - start) / options.draws
        print(
            f"{count:2} judges: {np.mean(found):.3f} of the first {FIRST} are planted (least {min(found):.2f}, most "
            f"{max(found):.2f}; {PLANTED:.2f} by chance), {spent * 1e3:.0f} ms of CPU each",
            flush=True,
        )


if __name__ == "__main__":
    main()
