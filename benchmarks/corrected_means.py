"""Agreement and corrected means on real judges and real labels: `python -m benchmarks.corrected_means FOLDER`.

FOLDER holds the LLMJudge challenge's data on TREC Deep Learning 2023: pairs.jsonl.gz (query, passage, a person's grade
0-3 and that of 33 judges) and reproduced_agreement.csv. What is printed:

1. Cohen's kappa and Krippendorff's ordinal alpha of each judge against the table, and illegal grades.
2. Estimand A: the mean over all pairs, 100 of them labelled at random; bias, coverage and width of the corrected 95%
   interval over many draws, the width as a share of that of the same labels alone.
3. Estimand C: the mean over 25 queries of 10 passages each, 4 labelled, every draw with other passages and labels;
   then the same with the queries drawn as well (with replacement), for the mean over queries to come.
4. The same draws by the peers that `peers.sh` has installed (cje-eval truescore evalstats glide-py), on three judges.
   They know no finite set: their intervals are of a mean over further passages like these, and wider for that.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.running import BENCH, TOOLS
from germane.statistics.agreement import agreement
from germane.statistics.correction import corrected_mean, corrected_query_mean
from germane.statistics.intervals import CorrectedMean

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
PEERS = ("cje-eval", "truescore", "evalstats", "glide-py")
LABELS, PASSAGES, PER_QUERY, RELEVANT = 100, 10, 4, 2


@dataclass(frozen=True, slots=True)
class Data:
    """Grades of all pairs: people's, each judge's, and the query of each pair."""

    queries: Ints
    people: Floats
    judges: dict[str, Floats]


@dataclass(frozen=True, slots=True)
class Value:
    """What is averaged: a function of a grade, its range, and whether the judge's grade stands in for it."""

    name: str
    of: Callable[[Floats], Floats]
    limits: tuple[float, float]
    grade_as_proxy: bool = False


VALUES = (
    Value("share graded 2 or more", lambda grades: (grades >= RELEVANT).astype(float), (0, 1)),
    Value("the same, grade as proxy", lambda grades: (grades >= RELEVANT).astype(float), (0, 1), True),
    Value("mean grade", lambda grades: grades, (0, 3)),
)


Estimate = Callable[[Floats, Floats, Value, Floats | None, Ints], CorrectedMean]


@dataclass(frozen=True, slots=True)
class Tally:
    """Per judge: bias, coverage, width as a share of human-only; CPU seconds per estimate."""

    bias: Floats
    coverage: Floats
    width: Floats
    human_coverage: float
    human_width: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"|bias| <= {np.abs(self.bias).max():.4f}   coverage mean {self.coverage.mean():.3f}, worst "
            f"{self.coverage.min():.3f}, best {self.coverage.max():.3f}   width / human-only median "
            f"{np.median(self.width):.3f}, mean {self.width.mean():.3f}, most {self.width.max():.3f}   "
            f"human-only {self.human_coverage:.3f} ({self.human_width:.3f})   {self.seconds * 1e3:.2f} ms CPU"
        )


def read(folder: Path) -> Data:
    with gzip.open(folder / "pairs.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return Data(
        np.unique([row["qid"] for row in rows], return_inverse=True)[1],
        np.array([row["human"] for row in rows], float),
        {name: np.array([row["judges"][name] for row in rows], float) for name in sorted(rows[0]["judges"])},
    )


def show_agreement(data: Data, folder: Path) -> None:
    print("== agreement with people, against reproduced_agreement.csv (4 decimals) ==")
    with (folder / "reproduced_agreement.csv").open(encoding="utf-8") as file:
        expected = {row["judge"]: row for row in csv.DictReader(file)}
    equal = 0
    for name, grades in data.judges.items():
        found = agreement(grades, data.people, queries=data.queries)
        row = expected[name]
        same = (
            found.kappa is not None
            and found.alpha_ordinal is not None
            and (
                round(found.kappa, 4) == float(row["kappa4"])
                and round(found.alpha_ordinal, 4) == float(row["a_ord"])
            )
        )
        equal += same
        low, high = found.bias.ends or (np.nan, np.nan)
        print(
            f"{name:26} kappa {found.kappa:.4f} quadratic {found.kappa_quadratic:.4f} alpha {found.alpha_ordinal:.4f} "
            f"raw {found.raw:.3f} (base rate {found.base_rate:.3f}) bias {found.bias.mean:+.3f} {low:+.3f}..{high:+.3f}"
            f"{'' if same else '   DIFFERS'}{f'   illegal {found.illegal}' if found.illegal else ''}"
        )
    print(f"{equal} of {len(data.judges)} judges equal", flush=True)


def tally(
    data: Data,
    value: Value,
    draws: Sequence[tuple[Ints, NDArray[np.bool_]]],
    estimate: Estimate,
    known_truth: float | None,
) -> Tally:
    """All judges on all draws; a draw is the pairs that there are and which of these are labelled."""
    truth = np.array([value.of(data.people[pairs]).mean() for pairs, _ in draws])
    if known_truth is not None:
        truth[:] = known_truth
    bias, coverage, width = (np.zeros(len(data.judges)) for _ in range(3))
    human_coverage = human_width = 0.0
    spent = 0.0
    for place, grades in enumerate(data.judges.values()):
        inputs = [
            (
                value.of(grades[pairs]),
                np.where(known, value.of(data.people[pairs]), np.nan),
                value,
                grades[pairs] if value.grade_as_proxy else None,
                data.queries[pairs],
            )
            for pairs, known in draws
        ]
        start = time.process_time()
        found = [estimate(*given) for given in inputs]
        spent += time.process_time() - start
        ends = np.array([one.ends for one in found], float)
        alone = np.array([one.human_ends for one in found], float)
        bias[place] = np.mean([one.mean for one in found] - truth)
        coverage[place] = np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        human_width = float(np.ptp(alone, axis=1).mean())
        human_coverage = float(np.mean((alone[:, 0] <= truth) & (truth <= alone[:, 1])))
        width[place] = np.ptp(ends, axis=1).mean() / human_width
    seconds = spent / len(draws) / len(data.judges)
    return Tally(bias, coverage, width, human_coverage, human_width, seconds)


def pairs_drawn(data: Data, rounds: int, rng: np.random.Generator) -> list[tuple[Ints, NDArray[np.bool_]]]:
    """All pairs, LABELS of them labelled at random."""
    total = len(data.people)
    every = np.arange(total)
    return [(every, np.isin(every, rng.choice(total, LABELS, replace=False))) for _ in range(rounds)]


def lists_drawn(
    data: Data, rounds: int, rng: np.random.Generator, *, resampled: bool = False
) -> list[tuple[Ints, NDArray[np.bool_]]]:
    """Ten passages of every query, or of as many drawn with replacement; the first four of them labelled."""
    places = [np.flatnonzero(data.queries == query) for query in range(int(data.queries.max()) + 1)]
    known = np.tile(np.arange(PASSAGES) < PER_QUERY, len(places))
    found = []
    for _ in range(rounds):
        some = rng.integers(0, len(places), len(places)) if resampled else np.arange(len(places))
        lists = [rng.choice(places[query], PASSAGES, replace=False) for query in some]
        found.append((np.concatenate(lists), known))
    return found


def show_peers(
    data: Data, draws: Sequence[tuple[Ints, NDArray[np.bool_]]], clustered: bool, estimate: Estimate
) -> None:
    """The share graded 2 or more by each peer, on the judges of the lowest, middle and highest kappa."""
    ranked = sorted(data.judges, key=lambda name: agreement(data.judges[name], data.people).kappa or 0)
    some = [ranked[0], ranked[len(ranked) // 2], ranked[-1]]
    value = VALUES[0]
    # Draws go round the judges, so that a peer stopped by the clock has seen each of them.
    cells = [(data.judges[name], pairs, known) for pairs, known in draws for name in some]
    judged = np.stack([value.of(grades[pairs]) for grades, pairs, _ in cells])
    people = np.stack([value.of(data.people[pairs]) for _, pairs, _ in cells])
    labels = np.where(np.stack([known for _, _, known in cells]), people, np.nan)
    truth = people.mean(axis=1)
    clusters = data.queries[cells[0][1]] if clustered else np.full(judged.shape[1], -1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "draws.npz"
        np.savez(file, judged=judged, labels=labels, clusters=clusters)
        for name in PEERS:
            python = BENCH / name / "bin" / "python"
            if not python.exists():
                print(f"   {name:12} not installed: sh benchmarks/peers.sh {name}")
                continue
            start = (
                time.process_time()
            )  # beside each peer anew: the machine is not the same from minute to minute
            for given in zip(judged, labels, strict=True):
                estimate(*given, value, None, data.queries[cells[0][1]])
            ours = (time.process_time() - start) / len(cells)
            run = subprocess.run(
                [python, TOOLS / "run_correction.py", name, file], capture_output=True, text=True, check=False
            )
            if run.returncode:
                print(f"   {name:12} failed: {run.stderr.strip().splitlines()[-1:]}")
                continue
            result = json.loads(run.stdout.splitlines()[-1])
            ends = np.array([end or (np.nan, np.nan) for end in result["ends"]], float)
            true = truth[: len(ends)]
            held = np.mean((ends[:, 0] <= true) & (true <= ends[:, 1]))
            if np.isnan(ends).all():
                print(f"   {name:12} refuses: {result['failures'][0]}")
                continue
            print(
                f"   {name:12} {len(ends):5} estimates, coverage {held:.3f}, width {np.nanmean(np.ptp(ends, axis=1)):.3f}, "
                f"{result['seconds'] * 1e3:8.2f} ms CPU each = {result['seconds'] / ours:.0f} x germane's {ours * 1e3:.2f}, "
                f"{len(result['failures'])} failed {result['failures'][:1] or ''}",
                flush=True,
            )


def measured(found: CorrectedMean | str) -> CorrectedMean:
    assert not isinstance(found, str), found
    return found


def by_passage(
    judged: Floats, labels: Floats, value: Value, grades: Floats | None, queries: Ints
) -> CorrectedMean:
    """Estimand A."""
    del queries, grades
    return measured(corrected_mean(judged, labels, value_range=value.limits))


def by_query(
    judged: Floats, labels: Floats, value: Value, grades: Floats | None, queries: Ints
) -> CorrectedMean:
    """Estimand C, of this report."""
    return measured(corrected_query_mean(judged, labels, queries, proxy=grades, value_range=value.limits))


def to_come(
    judged: Floats, labels: Floats, value: Value, grades: Floats | None, queries: Ints
) -> CorrectedMean:
    """Estimand C, of queries to come: a query drawn twice counts as two."""
    del queries
    drawn = np.repeat(np.arange(len(judged) // PASSAGES), PASSAGES)
    return measured(
        corrected_query_mean(
            judged, labels, drawn, proxy=grades, population="queries", value_range=value.limits
        )
    )


def main(folder: Path, *, quick: bool = False, peers: bool = True) -> None:
    data = read(folder)
    show_agreement(data, folder)
    rounds = 100 if quick else 1000
    rng = np.random.default_rng(14)
    whole, lists = pairs_drawn(data, rounds, rng), lists_drawn(data, rounds, rng)
    future = lists_drawn(data, rounds, rng, resampled=True)
    sizes = np.bincount(data.queries)
    count = f"25 queries x {PASSAGES} passages, {PER_QUERY} labelled"
    for title, draws, estimate in (
        (f"A: {LABELS} of {len(data.people):,} pairs labelled", whole, by_passage),
        (f"C: {count}", lists, by_query),
        (f"C, queries to come: {count}", future, to_come),
    ):
        print(f"== {title}, {rounds:,} draws, {len(data.judges)} judges ==")
        for value in VALUES:
            per_query = np.bincount(data.queries, value.of(data.people)) / sizes
            found = tally(
                data, value, draws, estimate, float(per_query.mean()) if estimate is to_come else None
            )
            print(f"{value.name:26} {found}", flush=True)
        if peers and estimate is not to_come:
            show_peers(data, draws[: rounds // 5], estimate is by_query, estimate)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="100 draws rather than 1,000")
    parser.add_argument("--alone", action="store_true", help="without the peers")
    options = parser.parse_args()
    main(options.folder, quick=options.quick, peers=not options.alone)
