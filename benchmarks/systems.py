"""Real systems in order, with intervals, and how a judge would order them: `python -m benchmarks.systems FOLDER`.

FOLDER is that of `benchmarks.corrected_means`. Each judge is taken as a reranker, a pseudo-system whose list for a
query is its passages by that judge's grade (ties by the passages' order in the file). People's grades score the lists
with nDCG@10 (gain = grade). Every system is compared with the best. At the end the order by people's grades is set
against the order by one judge's grades.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.corrected_means import Data, Floats, Ints, read
from germane.statistics.comparison import holm, paired_difference
from germane.statistics.intervals import mean_interval
from germane.statistics.ranking import kendall_tau, top_half_tau

DEPTH = 10


def lists(data: Data, judge: str) -> list[Ints]:
    """Per query the places of the first ten pairs by the judge's grade."""
    found = []
    for query in range(int(data.queries.max()) + 1):
        pairs = np.flatnonzero(data.queries == query)
        found.append(pairs[np.argsort(-data.judges[judge][pairs], kind="stable")][:DEPTH])
    return found


def ndcg(data: Data, ranked: list[Ints], grades: Floats) -> Floats:
    """nDCG@10 of each query's list by the grades given."""
    discount = 1 / np.log2(np.arange(2, DEPTH + 2))
    best = [np.sort(grades[data.queries == query])[::-1][:DEPTH] for query in range(len(ranked))]
    pairs = zip(ranked, best, strict=True)
    return np.array(
        [float(grades[places] @ discount) / max(float(ideal @ discount), 1e-300) for places, ideal in pairs]
    )


def main(folder: Path, judge: str) -> None:
    data = read(folder)
    ranked = {name: lists(data, name) for name in data.judges}
    scores = {name: ndcg(data, places, data.people) for name, places in ranked.items()}
    order = sorted(scores, key=lambda name: -scores[name].mean())
    first = order[0]
    found = {name: paired_difference(scores[first], scores[name], value_range=(0, 1)) for name in order[1:]}
    adjusted = dict(zip(found, holm([one.p or 0.0 for one in found.values()]), strict=True))
    print(f"== {len(order)} pseudo-systems by people's grades, nDCG@10 over {len(scores[first])} queries ==")
    print(
        f"{'':26}{'mean':>7}{'95% interval':>17}  method        less than the first, 95% interval    p (Holm)"
    )
    for name in order:
        own = mean_interval(scores[name], value_range=(0, 1))
        low, high = own.ends or (np.nan, np.nan)
        line = f"{name:26}{own.mean:7.3f}   {low:.3f} .. {high:.3f}  {own.method:12}"
        if name in found:
            one = found[name]
            below, above = one.interval.ends or (np.nan, np.nan)
            line += f"  {one.difference:+.3f}  {below:+.3f} .. {above:+.3f} {one.interval.method:10} {adjusted[name]:.4f}"
            line += "" if one.distinguishable else "  not distinguishable"
        print(line)
    people = [scores[name].mean() for name in order]
    model = [ndcg(data, ranked[name], data.judges[judge]).mean() for name in order]
    print(
        f"order by people against order by {judge}: tau {kendall_tau(people, model):.3f}, "
        f"top half {top_half_tau(people, model):.3f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--judge", default="willia-umbrela1")
    options = parser.parse_args()
    main(options.folder, options.judge)
