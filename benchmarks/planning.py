"""What is promised before anything more is labelled, against simulation: `python -m benchmarks planning`.

LLMJUDGE names the folder of the LLMJudge challenge's data: 100 labels on 25 queries of 40 passages say how many give a corrected
interval of a width; as many are drawn. Aim: the mean width within 15%, of both estimands.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.corrected_means import Data, measured, read
from germane.statistics.correction import POPULATIONS, Population, corrected_query_mean
from germane.statistics.intervals import CorrectedMean

Floats = NDArray[np.float64]
QUERIES, PASSAGES, LABELS = 25, 40, 100


def main(*, quick: bool = False, peers: tuple[str, ...] = ()) -> None:
    """Print what was promised beside what came."""
    del peers
    rounds = 200 if quick else 2000
    if folder := os.environ.get("LLMJUDGE"):
        show_labels(read(Path(folder)), rounds // 10)
    else:
        print("labels are left out: LLMJUDGE names no folder")


def in_rounds(labels: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which passages are labelled: one of every query, then the next."""
    known = np.zeros((QUERIES, PASSAGES), bool)
    known[:, : labels // QUERIES] = True
    known[rng.permutation(QUERIES)[: labels % QUERIES], labels // QUERIES] = True
    return known.ravel()


def estimate(
    judged: Floats,
    people: Floats,
    grades: Floats,
    query: NDArray[np.intp],
    population: Population,
    known: NDArray[np.bool_],
) -> CorrectedMean:
    """The corrected mean of the passages that are known."""
    labels = np.where(known, people, np.nan)
    return measured(
        corrected_query_mean(judged, labels, query, proxy=grades, population=population, value_range=(0, 1))
    )


def show_labels(data: Data, rounds: int) -> None:
    print(
        f"== promised and found width, {QUERIES} queries x {PASSAGES} passages, {LABELS} labels, {rounds} draws each =="
    )
    places = [np.flatnonzero(data.queries == query) for query in range(QUERIES)]
    query = np.repeat(np.arange(QUERIES), PASSAGES)
    for population in POPULATIONS:
        for width in (0.05, 0.1, 0.15, 0.2, 0.25):
            rng = np.random.default_rng(5)
            found, counts, never = [], [], 0
            for grades in [*data.judges.values()] * (rounds // len(data.judges) + 1):
                pairs = np.concatenate(
                    [rng.choice(places[one], PASSAGES, replace=False) for one in range(QUERIES)]
                )
                judged, people = (np.asarray(side[pairs] >= 2, float) for side in (grades, data.people))

                given = (judged, people, grades[pairs], query, population)
                pilot = estimate(*given, in_rounds(LABELS, rng)).pilot
                labels = pilot and pilot.labels_for(width, population)
                if (
                    pilot is None
                    or labels is None
                    or labels <= 2 * QUERIES
                    or not pilot.is_reliable(labels, population)
                ):
                    never += 1
                    continue
                ends = estimate(*given, in_rounds(labels, rng)).ends
                found.append((ends[1] - ends[0]) / width)
                counts.append(labels)
            if len(found) <= rounds / 20:
                print(
                    f"{population:8} width {width:<5g} told in {len(found)} of {len(found) + never} draws",
                    flush=True,
                )
            else:
                off = np.abs(np.array(found) - 1)
                print(
                    f"{population:8} width {width:<5g} {np.mean(counts):6.0f} labels: mean width {np.mean(found):.3f} of the "
                    f"promise, {np.mean(off <= 0.15):.0%} of those within 15% (told in {len(found)} of {len(found) + never} draws)", flush=True,
                )  # fmt: skip


if __name__ == "__main__":
    main()
