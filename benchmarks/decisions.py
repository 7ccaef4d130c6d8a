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
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.corrected_means import Data, Floats, Ints, read
from germane.statistics.agreement import cohen_kappa, confusion
from germane.statistics.differences import corrected_difference
from germane.statistics.systems import PairedDifference, paired_difference

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


def less(best: Floats, other: Floats, people: Floats, queries: Floats) -> PairedDifference:
    """The share of verdicts that equal people's, of another judge less the best one's."""
    equal = (np.equal(side, people).astype(float) for side in (best, other))
    return paired_difference(*equal, clusters=queries, value_range=(0.0, 1.0))


def judges(world: World, draws: int, rng: np.random.Generator) -> None:
    print(f"== 2. which judge: {LABELS} labels in each of {world.queries} queries, {draws:,} draws ==")
    verdicts = (world.grades >= RELEVANT).astype(float)
    true = np.array([cohen_kappa(confusion(row, world.people)) or 0.0 for row in verdicts])
    best, near, holds, size, told = int(true.argmax()), 0, 0, 0, 0
    for _ in range(draws):
        items = np.concatenate([rng.choice(places, LABELS, replace=False) for places in world.places])
        people, queries = world.people[items], world.query[items]
        some = verdicts[:, items]
        pick = int(np.argmax([cohen_kappa(confusion(row, people)) or -1 for row in some]))
        near += true[pick] >= true[best] - 0.05
        found = [less(some[pick], row, people, queries) for row in some]
        alike = [(one.p or 1.0) >= 0.05 or (one.difference or 0) >= 0 for one in found]
        holds += alike[best]
        size += sum(alike)
        two = verdicts[rng.choice(len(world.names), 2, replace=False)][:, items]
        coin = rng.random(len(items)) < 0.5
        swapped = np.where(coin, two, two[::-1])
        told += (less(*swapped, people, queries).p or 1.0) < 0.05
    print(
        f"   pick within .05 kappa of the best ({world.names[best]}, {true[best]:.3f}): {near / draws:.3f}; the set holds the best: "
        f"{holds / draws:.3f}, of {size / draws:.1f} judges; judges swapped by coin told apart: {told / draws:.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    world, rng = World(read(options.folder)), np.random.default_rng(22)
    start = time.process_time()
    differences(world, options.draws, rng)
    judges(world, options.draws, rng)
    print(f"{time.process_time() - start:.0f} s of CPU")


if __name__ == "__main__":
    main()
