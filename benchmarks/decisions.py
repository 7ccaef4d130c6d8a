"""What decisions rest on, on real judges and labels: `python -m benchmarks.decisions FOLDER`.

FOLDER is that of `benchmarks.corrected_means` (LLMJudge, TREC Deep Learning 2023: 25 queries, 33 judges). 14 pseudo-systems
take the ten best passages of every query by w (mean grade of one to three judges) + (1 - w) N(0, 1), w from 0 to 1; reranked
are the twenty best of a system, or all passages of the query, in the order of the very judge that scores them, cut at ten. The measure is the share of
passages that people grade 2 or more. What is printed:

1. Corrected differences of two systems, by how labels were drawn (8 for each query between the two, 4 in each report, whole
   queries) : coverage for queries like these (queries drawn with replacement) and for these queries, wrong and right signs,
   and how often the labels alone (the judge's weight at 0) decide; the raw judge beside it.
2. Which judge: 200 labels, 8 for each query, all judges: how good the pick is, whether the set that is not distinguishable
   from the best holds the best, and how often two judges whose grades were swapped by coin are told apart.
3. Drift: labels drawn for one system on another, by how alike their passages are.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.corrected_means import Data, Floats, Ints, read
from germane.statistics.agreement import compare_kappas
from germane.statistics.comparison import paired_difference
from germane.statistics.differences import corrected_difference
from germane.statistics.sampling import drawn_alike

DEPTH, DEEP, SYSTEMS, LABELS, RELEVANT = 10, 20, 14, 8, 2
WEIGHTS = np.linspace(0, 1, SYSTEMS).tolist()
Lists = list[Ints]


class World:
    """The grades of all pairs, and systems made of them."""

    def __init__(self, data: Data) -> None:
        self.people = (data.people >= RELEVANT).astype(float)
        self.names = list(data.judges)
        self.grades = np.clip(np.array(list(data.judges.values())), 0, 3)
        self.queries = int(data.queries.max()) + 1
        self.query = data.queries
        self.places = [np.flatnonzero(data.queries == query) for query in range(self.queries)]

    def systems(self, rng: np.random.Generator, ws: Iterable[float] = WEIGHTS) -> list[Lists]:
        found = []
        for w in ws:
            judges = rng.choice(len(self.names), rng.integers(1, 4), replace=False)
            score = w * self.grades[judges].mean(axis=0) + (1 - w) * rng.normal(size=len(self.people))
            found.append([p[np.argsort(-score[p], kind="stable")] for p in self.places])
        return found

    def reranked(self, lists: Lists, judge: int, depth: int | None = DEEP) -> Lists:
        return [p[:depth][np.argsort(-self.grades[judge][p[:depth]], kind="stable")] for p in lists]


def drawn(
    world: World, a: Lists, b: Lists, judge: int, how: str, rng: np.random.Generator, *, resample: bool
) -> tuple[Floats, Floats, Floats, Floats, Ints]:
    """The arguments of `corrected_difference` for one draw of labels (and of queries)."""
    queries = rng.integers(0, world.queries, world.queries) if resample else np.arange(world.queries)
    whole = np.isin(np.arange(len(queries)), rng.choice(len(queries), 12, replace=False))
    rows = []
    for number, query in enumerate(queries.tolist()):
        ours, theirs = a[query][:DEPTH], b[query][:DEPTH]
        items = np.setxor1d(ours, theirs) if how == "between" else np.union1d(ours, theirs)
        held = [np.isin(items, side) for side in (ours, theirs)]
        if how == "between":
            count = min(LABELS, len(items))
            chance = np.full(len(items), count / max(len(items), 1))
            known = np.isin(np.arange(len(items)), rng.permutation(len(items))[:count])
        elif how == "each":
            sides = [np.isin(items, rng.permutation(side)[: LABELS // 2]) for side in (ours, theirs)]
            known = sides[0] | sides[1]
            chance = 1 - np.prod([1 - one * LABELS / 2 / DEPTH for one in held], axis=0)
        else:
            known, chance = np.full(len(items), whole[number]), np.full(len(items), 12 / len(queries))
        weight = (held[1].astype(float) - held[0]) / DEPTH
        label = np.where(known, world.people[items], np.nan)
        rows.append(
            np.array([weight, label, world.grades[judge][items], chance, np.full(len(items), number)])
        )
    table = np.concatenate(rows, axis=1)
    weights, labels, grades, chances, numbers = table[:, table[0] != 0]
    return weights, labels, grades, chances, numbers.astype(int)


def differences(world: World, draws: int, rng: np.random.Generator) -> None:
    print("== 1. corrected differences ==")
    for how in ("between", "each", "whole queries"):
        for kind, depth in (
            ("systems", 0),
            (f"{DEEP} best reranked by the judge", DEEP),
            ("all passages ranked by the judge", None),
        ):
            seen: dict[str, list[float]] = defaultdict(list)
            by_judge: dict[int, list[bool]] = defaultdict(list)
            for _ in range(draws):
                systems, judge = world.systems(rng), int(rng.integers(len(world.names)))
                one, other = rng.choice(SYSTEMS, 2, replace=False)
                a, b = systems[one], systems[other]
                if depth != 0:
                    b = world.reranked(systems[one if rng.random() < 0.5 else other], judge, depth)
                means = np.array([
                    [world.people[y[:DEPTH]].mean() - world.people[x[:DEPTH]].mean(),
                     *(np.mean(world.grades[judge][z[:DEPTH]] >= RELEVANT) for z in (x, y))]
                    for x, y in zip(a, b, strict=True)
                ])  # fmt: skip
                truth, raw = float(means[:, 0].mean()), means[:, 2] - means[:, 1]
                found = {}
                for resample in (True, False):
                    given = drawn(world, a, b, judge, how, rng, resample=resample)
                    found[resample] = corrected_difference(*given, world.queries)
                low, high = found[True].interval.ends or (np.nan, np.nan)
                least, most = found[False].set_ends or (np.nan, np.nan)
                seen["coverage, queries like these"].append(low <= truth <= high)
                seen["coverage, these queries"].append(least - 1e-12 <= truth <= most + 1e-12)
                by_judge[judge].append(low <= truth <= high)
                sign = np.sign(truth)
                sure = _sign(found[False].interval.ends)
                blind = np.zeros_like(given[2])
                alone = corrected_difference(*given[:2], blind, *given[3:], world.queries)
                judged = _sign(paired_difference(raw * 0, raw, value_range=(0, 1)).interval.ends)
                seen["decided"].append(sure != 0)
                seen["by labels alone"].append(_sign(alone.interval.ends) != 0)
                seen["wrong sign"].append(sure == -sign != 0)
                seen["raw judge's wrong sign, of those it decides"] += [judged == -sign] if judged else []
                seen["raw judge's mean of the wrong sign"].append(np.sign(raw.mean()) == -sign != 0)
                if abs(truth) >= 0.1:
                    seen["right sign where |truth| >= .10"].append(sure == sign)
                seen["width"].append(high - low)
            worst = min(by_judge, key=lambda judge: np.mean(by_judge[judge]))
            print(f"labels {how}; {kind} ({draws:,} pairs)")
            for name, values in seen.items():
                print(f"   {name:45} {np.nanmean(values):.3f}")
            print(f"   worst judge {world.names[worst]}: coverage {np.mean(by_judge[worst]):.3f} of {len(by_judge[worst])} draws", flush=True)  # fmt: skip


def _sign(ends: tuple[float, float] | None) -> int:
    return 0 if ends is None or ends[0] <= 0 <= ends[1] else 1 if ends[0] > 0 else -1


def judges(world: World, draws: int, rng: np.random.Generator) -> None:
    print(f"== 2. which judge: {LABELS} labels in each of {world.queries} queries, {draws:,} draws ==")
    verdicts = (world.grades >= RELEVANT).astype(float)
    true = np.array([one.kappa or 0.0 for one in compare_kappas(verdicts, world.people, world.query)])
    best, near, holds, size, told, swaps = int(true.argmax()), 0, 0, 0, 0, 0
    for _ in range(draws):
        items = np.concatenate([rng.choice(places, LABELS, replace=False) for places in world.places])
        args = world.people[items], world.query[items]
        found = compare_kappas(verdicts[:, items], *args)
        pick = int(np.argmax([one.kappa or -1 for one in found]))
        near += true[pick] >= true[best] - 0.05
        alike = [one.p is None or one.p >= 0.05 or (one.difference or 0) >= 0 for one in found]
        holds += alike[best]
        size += sum(alike)
        two = verdicts[rng.choice(len(world.names), 2, replace=False)][:, items]
        coin = rng.random(len(items)) < 0.5
        swapped = np.where(coin, two, two[::-1])
        told += any(one.p is not None and one.p < 0.05 for one in compare_kappas(swapped, *args))
        swaps += 1
    print(
        f"   pick within .05 kappa of the best ({world.names[best]}, {true[best]:.3f}): {near / draws:.3f}; the set holds the best: "
        f"{holds / draws:.3f}, of {size / draws:.1f} judges; judges swapped by coin told apart: {told / swaps:.3f}"
    )


def drift(world: World, draws: int, rng: np.random.Generator) -> None:
    print(
        f"== 3. drift: {LABELS} labels for each query drawn for one system, on another ({draws:,} pairs) =="
    )
    seen: dict[str, list[bool]] = defaultdict(list)
    right: dict[str, list[bool]] = defaultdict(list)
    for _ in range(draws):
        systems, judge = world.systems(rng), int(rng.integers(len(world.names)))
        for name, pick in (
            ("the same system", (8, 8)),
            ("systems of like quality (w apart by .08)", (6, 7)),
            ("unlike (w apart by .3 or more)", (13, int(rng.integers(0, 10)))),
            ("unlike, the other way round", (int(rng.integers(0, 10)), 13)),
            ("the same system, reranked by the judge", (4, -1)),
        ):
            ours = systems[pick[0]]
            theirs = world.reranked(ours, judge) if pick[1] < 0 else systems[pick[1]]
            rows, drawn_for = [], 0
            for query, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
                labelled = rng.permutation(mine[:DEPTH])[:LABELS]
                drawn_for += LABELS
                for rank, item in enumerate(other[:DEPTH].tolist(), 1):
                    rows.append((query, int(world.grades[judge][item]), rank, bool(np.isin(item, labelled))))
            query_of, grades, ranks, known = (list(column) for column in zip(*rows, strict=True))
            strata = [
                f"{grade} {(rank > 3) + (rank > 10)}" for grade, rank in zip(grades, ranks, strict=True)
            ]
            few = 2 * sum(known) < drawn_for
            seen[name].append(few or drawn_alike(query_of, strata, known) < 0.01)
            right[name].append(not few)
    for name, flags in seen.items():
        half = f"half of the labels or more are about its passages in {np.mean(right[name]):.3f}"
        print(f"   {name:45} withheld in {np.mean(flags):.3f}; {half}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    world, rng = World(read(options.folder)), np.random.default_rng(22)
    start = time.process_time()
    differences(world, options.draws, rng)
    judges(world, options.draws, rng)
    drift(world, max(options.draws // 5, 20), rng)
    print(f"{time.process_time() - start:.0f} s of CPU")


if __name__ == "__main__":
    main()
